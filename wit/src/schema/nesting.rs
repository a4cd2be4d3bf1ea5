//! Reading a type recurses once for each type within it, and a guest can nest for a byte a level: so it is counted while it is read.

use std::cell::Cell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// How deep options, lists, maps and tuples may be nested in one another. Low enough for a table to be read back from a checkpoint's
/// manifest, whose JSON reader has a limit of its own.
pub const MAX_NESTING: u32 = 32;

thread_local! {
    /// How deep the type that is being read lies in others.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Counts for as long as it lives.
struct Level;

impl Level {
    fn enter() -> Option<Self> {
        DEPTH.with(|depth| {
            let deeper = depth.get() + 1;
            (deeper <= MAX_NESTING).then(|| {
                depth.set(deeper);
                Self
            })
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// Reads what lies within a type.
pub(super) fn inner<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let Some(_level) = Level::enter() else { return Err(D::Error::custom(format!("types are nested more than {MAX_NESTING} deep"))) };
    T::deserialize(from)
}

#[cfg(test)]
mod tests {
    use super::MAX_NESTING;
    use crate::schema::{MAX_BYTES, Type, TypeTable};

    #[test]
    fn nesting_is_bounded_while_it_is_read() {
        let deep = |levels| TypeTable::of((0..levels).fold(Type::I64, |inner, _| Type::Tuple(vec![inner])));
        let (deepest, too_deep) = (deep(MAX_NESTING), deep(MAX_NESTING + 1));
        assert_eq!(TypeTable::from_bytes(&deepest.to_bytes()), Ok(deepest));
        assert!(TypeTable::from_bytes(&too_deep.to_bytes()).is_err());
        // Sixteen is the code of a list: as deep as there are bytes.
        for len in [1 << 10, MAX_BYTES - 2, MAX_BYTES] {
            let bytes = [vec![0], vec![16; len], vec![0]].concat();
            assert!(TypeTable::from_bytes(&bytes).is_err());
        }
        assert_eq!(TypeTable::from_bytes(&[0, 16, 16, 5]), Ok(TypeTable::of(Type::List(Box::new(Type::List(Box::new(Type::I64)))))));
    }
}
