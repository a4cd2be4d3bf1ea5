//! What must be known of a store's rows to go on with them without reading them all: a row of its own, written at each barrier.
//!
//! ```text
//! summary := version:u8 = 1, keys:u64, event timers:u64, processing timers:u64, unseen:u8, (form:u8, ttl:i64)*
//! ```
//! Integers are little-endian; `unseen` is 1 if there is content that waits to be seen under a TTL; each state has its form as in
//! `state/layout.rs` and its TTL in milliseconds, `i64::MIN` for none. The row's key is a byte that begins no timer's.

use tidemill_wit::descriptor::StateDescriptor;

use super::rows::{Layer, Rows, Space};
use super::timers::Away;
use super::{CachedState, Pool};
use crate::Result;
use crate::state::KeyedState;
use crate::state::layout::Form;
use crate::time::Domain;

const KEY: [u8; 1] = [0xFF];
const VERSION: u8 = 1;
const NO_TTL: i64 = i64::MIN;

#[derive(Debug, PartialEq, Eq)]
struct Summary {
    keys: u64,
    event: u64,
    processing: u64,
    unseen: bool,
    states: Vec<(u8, i64)>,
}

impl<R: Rows> CachedState<R> {
    /// State over rows that another cache has written and frozen. `None` if they are not as `states` has it, but for states that are new, or
    /// if nothing is known of them.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn go_on(states: &[StateDescriptor], rows: R, pool: &Pool) -> Result<Option<Self>> {
        let Some(summary) = fitting(states, &rows)? else { return Ok(None) };
        let mut state = Self::new(states, rows, pool);
        state.away = summary.keys;
        state.unseen = summary.unseen;
        let [event, processing] = &mut state.timers;
        *event = Away::stored(Domain::Event, summary.event);
        *processing = Away::stored(Domain::Processing, summary.processing);
        state.find_heads()?;
        Ok(Some(state))
    }

    /// Writes down what is in the rows, or will be once what is held is written.
    pub(super) fn write_summary(&mut self) -> Result<()> {
        let summary = Summary {
            keys: self.key_count(),
            event: self.timer_count(Domain::Event),
            processing: self.timer_count(Domain::Processing),
            unseen: self.unseen,
            states: described(&self.states),
        };
        self.rows.put(Layer::Held, Space::Timers, &KEY, &summary.to_bytes());
        self.rows.commit()
    }
}

/// Whether [`CachedState::go_on`] can go on with these rows.
///
/// # Errors
/// The rows cannot be read.
pub fn can_go_on(states: &[StateDescriptor], rows: &dyn Rows) -> Result<bool> {
    Ok(fitting(states, rows)?.is_some())
}

fn fitting(states: &[StateDescriptor], rows: &dyn Rows) -> Result<Option<Summary>> {
    let mut row = Vec::new();
    if !rows.get(Space::Timers, &KEY, &mut row)? {
        return Ok(None);
    }
    let today = described(states);
    Ok(Summary::from_bytes(&row).filter(|summary| today.starts_with(&summary.states)))
}

fn described(states: &[StateDescriptor]) -> Vec<(u8, i64)> {
    states.iter().map(|state| (Form::of(state.kind) as u8, state.ttl.unwrap_or(NO_TTL))).collect()
}

impl Summary {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        [self.keys, self.event, self.processing].iter().for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        bytes.push(u8::from(self.unseen));
        for (form, ttl) in &self.states {
            bytes.push(*form);
            bytes.extend_from_slice(&ttl.to_le_bytes());
        }
        bytes
    }

    /// `None` for one of another version.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else { return None };
        let (keys, rest) = rest.split_first_chunk()?;
        let (event, rest) = rest.split_first_chunk()?;
        let (processing, rest) = rest.split_first_chunk()?;
        let (&unseen, rest) = rest.split_first()?;
        let (states, []) = rest.as_chunks::<9>() else { return None };
        let state = |&[form, ref ttl @ ..]: &[u8; 9]| (form, i64::from_le_bytes(*ttl));
        Some(Self {
            keys: u64::from_le_bytes(*keys),
            event: u64::from_le_bytes(*event),
            processing: u64::from_le_bytes(*processing),
            unseen: unseen != 0,
            states: states.iter().map(state).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_TTL, Summary};

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let summary = Summary { keys: 3, event: 2, processing: 1, unseen: true, states: vec![(1, NO_TTL), (3, 60_000)] };
        let bytes = summary.to_bytes();
        assert_eq!(Summary::from_bytes(&bytes), Some(summary));
        assert!((0..bytes.len()).filter(|len| ![26, 35].contains(len)).all(|len| Summary::from_bytes(&bytes[..len]).is_none()));
        assert_eq!(Summary::from_bytes(&[&[2], &bytes[1..]].concat()), None);
    }
}
