//! What a call writes, held against the types of the states before any of it is used.

use tidemill_wit::descriptor::{StateDescriptor, write_op};

use crate::effects::Writes;
use crate::schema::{Checker, KeyChecker};

/// Checks writes of some states, by their ids.
#[derive(Debug)]
pub(super) struct WriteChecker {
    states: Vec<StateChecker>,
    /// Whether a map has keys with floats, of which some are several bytes for one key.
    floats: bool,
}

#[derive(Debug)]
struct StateChecker {
    name: String,
    value: Checker,
    key: Option<KeyChecker>,
}

impl WriteChecker {
    pub(super) fn new(states: &[StateDescriptor]) -> Self {
        let checker = |state: &StateDescriptor| StateChecker {
            name: state.name.clone(),
            value: Checker::new(&state.value),
            key: state.entry_key.as_ref().map(KeyChecker::new),
        };
        let states: Vec<_> = states.iter().map(checker).collect();
        Self { floats: states.iter().filter_map(|state| state.key.as_ref()).any(KeyChecker::has_floats), states }
    }

    /// Checks values and map keys of writes whose codes and lengths have been checked, and gives NaN in keys its one form.
    ///
    /// # Errors
    /// Names the state and what is wrong.
    pub(super) fn check(&self, writes: &mut Writes) -> Result<(), String> {
        let columns = writes.op.iter().zip(&writes.state).zip(writes.entry.view().iter()).zip(writes.value.view().iter());
        for (((&op, &state), entry), value) in columns {
            let Some(StateChecker { name, value: values, key }) = self.states.get(usize::from(state)) else { continue };
            if matches!(op, write_op::PUT | write_op::PUT_ENTRY | write_op::APPEND) {
                values.check(value).map_err(|reason| format!("a value of state {name} does not fit its type: {reason}"))?;
            }
            if let (write_op::PUT_ENTRY | write_op::REMOVE_ENTRY | write_op::TOUCH, Some(key)) = (op, key) {
                key.check(entry).map_err(|reason| format!("a key of state {name} does not fit its type: {reason}"))?;
            }
        }
        if self.floats {
            self.canonical(writes);
        }
        Ok(())
    }

    #[cold]
    fn canonical(&self, writes: &mut Writes) {
        let mut start = 0;
        for (state, &end) in writes.state.iter().zip(&writes.entry.ends) {
            let key = self.states.get(usize::from(*state)).and_then(|state| state.key.as_ref());
            if let (Some(key), Some(bytes)) = (key, writes.entry.bytes.get_mut(start..end as usize)) {
                key.canonical(bytes);
            }
            start = end as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate, write_op};
    use tidemill_wit::key::{ORDERED_NAN_64, ordered_f64};
    use tidemill_wit::schema::{Type, TypeTable};

    use super::WriteChecker;
    use crate::effects::Writes;

    fn checker() -> WriteChecker {
        let state = |name: &str, kind, value, key: Option<Type>| StateDescriptor {
            name: name.to_owned(),
            kind,
            value: TypeTable::of(value),
            entry_key: key.map(TypeTable::of),
            ttl: None,
            ttl_update: TtlUpdate::default(),
        };
        WriteChecker::new(&[
            state("seen", StateKind::Value, Type::Bool, None),
            state("lines", StateKind::List, Type::String, None),
            state("rates", StateKind::Map, Type::U8, Some(Type::F64)),
        ])
    }

    fn writes(all: &[(u8, u8, &[u8], &[u8])]) -> Writes {
        let mut writes = Writes::default();
        for (op, state, entry, value) in all {
            writes.op.push(*op);
            writes.state.push(*state);
            writes.slot.push(0);
            writes.entry.push(entry);
            writes.value.push(value);
        }
        writes
    }

    #[test]
    fn values_and_keys_must_be_of_their_types_where_they_are_used() {
        let rate = ordered_f64(0.5).to_be_bytes();
        for (write, reason) in [
            ((write_op::PUT, 0, &b""[..], &[2][..]), "a value of state seen does not fit its type: a flag is 2 instead of 0 or 1"),
            ((write_op::PUT, 0, b"", &[]), "a value of state seen does not fit its type: the value ends early"),
            (
                (write_op::APPEND, 1, b"", &[1]),
                "a value of state lines does not fit its type: a length of 1 is beyond the 0 bytes that follow it",
            ),
            (
                (write_op::PUT_ENTRY, 2, &rate, &[1, 1]),
                "a value of state rates does not fit its type: 1 bytes are left over after the value",
            ),
            ((write_op::PUT_ENTRY, 2, &rate[1..], &[1]), "a key of state rates does not fit its type: the key ends early"),
            ((write_op::REMOVE_ENTRY, 2, b"", b""), "a key of state rates does not fit its type: the key ends early"),
            ((write_op::TOUCH, 2, b"123456789", b""), "a key of state rates does not fit its type: 1 bytes are left over after the key"),
        ] {
            assert_eq!(checker().check(&mut writes(&[(write_op::PUT, 0, b"", &[1]), write])).unwrap_err(), reason);
        }
        // What nothing reads may be anything.
        let mut unused =
            writes(&[(write_op::CLEAR, 0, b"x", b"x"), (write_op::TOUCH, 0, b"x", b"x"), (write_op::REMOVE_ENTRY, 2, &rate, b"x")]);
        assert_eq!(checker().check(&mut unused), Ok(()));
    }

    #[test]
    fn a_map_has_one_nan() {
        let odd = (!f64::from_bits(0xFFF8_0000_0000_0000).to_bits()).to_be_bytes();
        let minus_zero = ordered_f64(-0.0).to_be_bytes();
        let mut changed = writes(&[(write_op::PUT_ENTRY, 2, &minus_zero, &[1]), (write_op::REMOVE_ENTRY, 2, &odd, b"")]);
        checker().check(&mut changed).unwrap();
        assert_eq!([changed.entry.get(0), changed.entry.get(1)], [&minus_zero[..], &ORDERED_NAN_64.to_be_bytes()]);
    }
}
