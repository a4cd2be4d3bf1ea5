//! Reference tables: immutable rows by key, as compact as they come, since a large one lives beside all state.

use hashbrown::HashTable;

use crate::key_group::hash_key;

/// Encoded rows by encoded key. All bytes lie in one arena; an index of four bytes a row finds them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Per row: the lengths of key and row as u16 and u32, then their bytes.
    arena: Vec<u8>,
    /// Where each row begins.
    index: HashTable<u32>,
}

/// The lengths before each row.
const HEAD: usize = 6;

impl Table {
    /// Adds a row.
    ///
    /// # Errors
    /// The key is there already, or the row is too large for the table.
    pub fn insert(&mut self, key: &[u8], row: &[u8]) -> Result<(), String> {
        let hash = hash_key(key);
        if self.place(key, hash).is_some() {
            return Err("the key of this row is in the table already".to_owned());
        }
        let at = u32::try_from(self.arena.len()).map_err(|_| "the table is larger than 4 GiB".to_owned())?;
        let key_len = u16::try_from(key.len()).map_err(|_| format!("the key has {} bytes, more than 65,535", key.len()))?;
        let row_len = u32::try_from(row.len()).map_err(|_| "the row is larger than 4 GiB".to_owned())?;
        self.arena.extend_from_slice(&key_len.to_le_bytes());
        self.arena.extend_from_slice(&row_len.to_le_bytes());
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(row);
        let Self { arena, index } = self;
        index.insert_unique(hash, at, |&at| hash_key(row_at(arena, at).0));
        Ok(())
    }

    /// The row of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.place(key, hash_key(key)).map(|at| row_at(&self.arena, at).1)
    }

    /// All keys and rows, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = (at < self.arena.len()).then(|| row_at(&self.arena, u32::try_from(at).unwrap_or(u32::MAX)))?;
            at += HEAD + found.0.len() + found.1.len();
            Some(found)
        })
    }

    /// Gives back memory that was set aside for more rows.
    pub fn shrink(&mut self) {
        self.arena.shrink_to_fit();
        let Self { arena, index } = self;
        index.shrink_to_fit(|&at| hash_key(row_at(arena, at).0));
    }

    fn place(&self, key: &[u8], hash: u64) -> Option<u32> {
        self.index.find(hash, |&at| row_at(&self.arena, at).0 == key).copied()
    }
}

/// The key and row that begin at a place.
fn row_at(arena: &[u8], at: u32) -> (&[u8], &[u8]) {
    let split = || {
        let (key_len, rest) = arena.get(at as usize..)?.split_first_chunk::<2>()?;
        let (row_len, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_len)))?;
        Some((key, rest.get(..u32::from_le_bytes(*row_len) as usize)?))
    };
    split().unwrap_or((&[], &[]))
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn rows_are_found_by_key_and_keys_are_unique() {
        let mut table = Table::default();
        for number in 0..5000u32 {
            table.insert(&number.to_be_bytes(), format!("row {number}").as_bytes()).unwrap();
        }
        table.insert(b"", b"").unwrap();
        table.shrink();
        assert!(table.insert(&7u32.to_be_bytes(), b"again").unwrap_err().contains("already"));
        assert!((0..5000u32).all(|number| table.get(&number.to_be_bytes()) == Some(format!("row {number}").as_bytes())));
        assert_eq!((table.get(b""), table.get(b"x"), table.iter().count()), (Some(&b""[..]), None, 5001));
    }
}
