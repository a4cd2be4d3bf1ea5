//! The state of one operator in a checkpoint, and taken from it again, as a job does both, but without the job.

use tidemill::side_by_side::side_by_side;
use tidemill::state::stored;
use tidemill::store::CheckpointStore;
use tidemill_core::Result;
use tidemill_core::checkpoint::manifest::{Manifest, OperatorState, StoredDatabase, StoredState, VERSION};
use tidemill_core::checkpoint::snapshot::{Snapshot, SnapshotWriter};
use tidemill_core::key_group::range_of;
use tidemill_core::state::{KeyedState, StateBackend};
use tidemill_core::worker::RestoredOperator;
use tidemill_wit::descriptor::StateDescriptor;
use tidemill_wit::schema::TypeTable;

/// The operator's uid.
pub const UID: &str = "operator";
/// How many key groups there are.
pub const KEY_GROUPS: u32 = 128;

/// Stores what all subtasks hold as checkpoint `id`: as files where the backend has them, unless it is to be `canonical`.
///
/// # Errors
/// The state cannot be read or stored.
pub fn store(
    store: &CheckpointStore,
    id: u64,
    (key, states): (&TypeTable, &[StateDescriptor]),
    subtasks: Vec<Box<dyn KeyedState>>,
    canonical: bool,
) -> Result<Manifest> {
    let parallelism = u32::try_from(subtasks.len()).unwrap_or(u32::MAX);
    let operator = OperatorState {
        uid: UID.to_owned(),
        component: String::new(),
        key: Some(key.clone()),
        states: states.iter().map(StoredState::of).collect(),
        broadcast_states: Vec::new(),
        one_nan: false,
    };
    let mut manifest = Manifest {
        version: VERSION,
        checkpoint: id,
        parallelism,
        max_parallelism: KEY_GROUPS,
        operators: vec![operator],
        ..Manifest::default()
    };
    for (worker, mut state) in (0..).zip(subtasks) {
        let mut writer = SnapshotWriter::new(id, worker);
        writer.operator(UID, None);
        let frozen = if canonical { None } else { state.freeze()? };
        while state.go_on_freezing()? {}
        if let Some(mut frozen) = frozen {
            let mut files = Vec::new();
            for file in &frozen.files()? {
                files.push(match &file.content {
                    Some(content) => store.store_shared(&file.path, &file.name, content)?,
                    None => store.store_own(&file.path, &file.name, id, &format!("state-{worker}"))?,
                });
            }
            manifest.databases.push(StoredDatabase { operator: UID.to_owned(), worker, format: frozen.format(), files });
        } else {
            state.snapshot(&mut |group, bytes| writer.group(group, bytes))?;
        }
        manifest.files.push(store.stream_state(id, worker, &mut |out| writer.write(&mut [], out))?);
    }
    store.write_manifest(&manifest)?;
    Ok(manifest)
}

/// Restores the state of all subtasks at some parallelism.
///
/// # Errors
/// The checkpoint is damaged, or the state cannot be written.
pub fn restore(
    from: &CheckpointStore,
    manifest: &Manifest,
    states: &[StateDescriptor],
    backend: &dyn StateBackend,
    parallelism: u32,
) -> Result<Vec<Box<dyn KeyedState>>> {
    let restored = read(from, manifest, states.len())?;
    let open = |subtask| restored.open(backend, UID, subtask, states, &range_of(subtask, KEY_GROUPS, parallelism));
    side_by_side(parallelism, open)
}

/// What the runtime makes of a checkpoint.
fn read(from: &CheckpointStore, manifest: &Manifest, states: usize) -> Result<RestoredOperator> {
    let states = (0u8..).map(Some).take(states).collect();
    let mut restored = RestoredOperator { states, ..RestoredOperator::default() };
    for file in &manifest.files {
        let bytes = from.read_state(file)?;
        for part in Snapshot::parse(&bytes)?.operators {
            restored.groups.extend(part.groups.into_iter().map(|(group, bytes)| (group, bytes.to_vec())));
        }
    }
    for database in &manifest.databases {
        let groups = range_of(database.worker, KEY_GROUPS, manifest.parallelism);
        restored.stored.push(stored(from, database, groups, manifest.checkpoint)?);
    }
    Ok(restored)
}
