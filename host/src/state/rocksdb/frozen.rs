//! Frozen files of a database, read while the database goes on: a savepoint takes its key groups from them.

use std::sync::Arc;

use rocksdb::{BlockBasedOptions, Cache, Options};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::pass_groups;
use tidemill_core::{Error, Result};

use super::super::folder::Folder;
use super::database::Database;
use super::overlay::Room;
use super::rows::DatabaseRows;

/// What is cached of the files: they are read once, in order, so all it has to hold is what the files begin with.
const CACHE: usize = 8 << 20;
/// How many files are open at a time.
const OPEN_FILES: i32 = 64;

/// Passes the key groups in a folder of frozen files on.
///
/// # Errors
/// The files cannot be read, which fails a savepoint and not the job: nothing that was stored is damaged. Or `each` fails.
pub(super) fn pass_frozen(folder: &Folder, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
    let (mut options, cache) = (Options::default(), Cache::new_lru_cache(CACHE));
    options.set_max_open_files(OPEN_FILES);
    let space = || {
        let (mut space, mut table) = (Options::default(), BlockBasedOptions::default());
        table.set_block_cache(&cache);
        table.set_cache_index_and_filter_blocks(true);
        space.set_block_based_table_factory(&table);
        space
    };
    let database = Database::read_with(Folder::lent(folder.path.clone()), &options, space);
    let rows = database.and_then(|database| DatabaseRows::new(Arc::new(database), Room::new(0)));
    pass_groups(&rows.map_err(|error| Error::storage(error.chain()))?, 0..u32::from(u16::MAX) + 1, each)
}

#[cfg(test)]
mod tests {
    use tidemill_core::key_group::KeyGroup;
    use tidemill_core::state::layout::Writer;
    use tidemill_core::state::{KeyedState, StateBackend};
    use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate};
    use tidemill_wit::schema::{Type, TypeTable};

    use super::super::RocksBackend;

    fn group(group: u16, keys: impl Iterator<Item = u32>) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.begin(KeyGroup(group));
        for key in keys {
            // A key is in one group only.
            writer.key(&[&group.to_be_bytes()[..], &key.to_be_bytes()].concat());
            writer.value(0, None, &key.to_le_bytes());
            writer.timers(&[i64::from(key)], &[]);
        }
        writer.finish().to_vec()
    }

    fn snapshot(state: &mut dyn KeyedState) -> Vec<(KeyGroup, Vec<u8>)> {
        let mut groups = Vec::new();
        state.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).unwrap();
        groups
    }

    #[test]
    fn frozen_files_hold_the_key_groups_of_the_barrier_while_the_state_changes() {
        let folder = tempfile::tempdir().unwrap();
        let backend = RocksBackend::in_folder(folder.path(), 64 << 20).unwrap();
        let value = StateDescriptor {
            name: "count".to_owned(),
            kind: StateKind::Value,
            value: TypeTable::of(Type::I64),
            entry_key: None,
            ttl: None,
            ttl_update: TtlUpdate::OnCreateAndWrite,
        };
        let mut state = backend.open("a", 0, &[value]).unwrap();
        for number in 0..20 {
            state.restore(KeyGroup(number), &group(number, 0..200), &[Some(0)]).unwrap();
        }
        let expected = snapshot(&mut *state);
        assert_eq!(expected.len(), 20);
        let mut frozen = state.freeze().unwrap().unwrap();
        state.restore(KeyGroup(7), &group(7, 100..300), &[Some(0)]).unwrap();
        state.restore(KeyGroup(90), &group(90, 0..5), &[Some(0)]).unwrap();
        let mut found = Vec::new();
        let each = &mut |group, bytes: &[u8]| {
            found.push((group, bytes.to_vec()));
            Ok(())
        };
        frozen.groups(each).unwrap();
        assert!(found == expected, "the key groups differ");
        assert!(frozen.files().unwrap().iter().any(|file| file.content.is_some()));
    }
}
