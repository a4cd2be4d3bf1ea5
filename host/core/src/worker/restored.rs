//! What an operator restores, and how its subtasks take their parts of it.

use std::ops::Range;
use std::sync::Arc;

use tidemill_wit::descriptor::StateDescriptor;

use crate::Result;
use crate::key_group::KeyGroup;
use crate::state::layout::Writer;
use crate::state::{KeyedState, Migration, Moved, OneNan, StateBackend, StoredGroups};
use crate::time::Timestamp;

/// An operator's part of a checkpoint, of all its subtasks.
#[derive(Default)]
pub struct RestoredOperator {
    /// The event-time pass that the checkpoint interrupted, if it did, for every key group that may have state. Those of one subtask have the
    /// same; those of different subtasks need not: how idle channels return can make their watermarks differ at a barrier.
    pub passes: Vec<(KeyGroup, Option<Timestamp>)>,
    /// The state and timers by key group.
    pub groups: Vec<(KeyGroup, Vec<u8>)>,
    /// State that is not loaded yet.
    pub stored: Vec<Arc<dyn StoredGroups>>,
    /// Today's id of each state in the snapshot; `None` drops it.
    pub states: Vec<Option<u8>>,
    /// How the values of the states in the snapshot change, by their ids there.
    pub migration: Migration,
    /// The broadcast states, of which every subtask gets a copy.
    pub broadcast: Vec<u8>,
    /// Today's id of each broadcast state in the snapshot; `None` drops it.
    pub broadcast_states: Vec<Option<u8>>,
    /// How their values change.
    pub broadcast_migration: Migration,
    /// What gives every NaN in keys its one form, in state that may have been stored before it had one.
    pub one_nan: Option<OneNan>,
    /// The same for broadcast states.
    pub broadcast_one_nan: Option<OneNan>,
}

impl RestoredOperator {
    /// Opens the state of a subtask with its key groups, `mine`. Where it was stored as it is needed, the backend goes on with it; else it is
    /// read key group by key group.
    ///
    /// # Errors
    /// The state cannot be opened, or is not what was stored.
    pub fn open(
        &self,
        backend: &dyn StateBackend,
        uid: &str,
        subtask: u32,
        states: &[StateDescriptor],
        mine: &Range<u32>,
    ) -> Result<Box<dyn KeyedState>> {
        if let Some(stored) = self.exactly(mine)
            && let Some(state) = backend.go_on(uid, subtask, states, stored)?
        {
            return Ok(state);
        }
        let mut state = backend.open(uid, subtask, states)?;
        let (migration, mut writer, mut rewriter) = (&self.migration, Writer::default(), Writer::default());
        let mut moved = self.moved(mine)?;
        let mut source = |into: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>| {
            let mut restore = |group: KeyGroup, bytes: &[u8]| {
                let bytes = self.one_nan.as_ref().map_or(Ok(bytes), |one| one.group(group, bytes, &mut moved, &mut rewriter));
                bytes
                    .and_then(|bytes| if migration.is_identity() { Ok(bytes) } else { migration.group(group, bytes, &mut writer) })
                    .and_then(|bytes| into(group, bytes))
                    .map_err(|error| error.while_doing(format!("restoring key group {} of operator {uid}", group.0)))
            };
            for (group, bytes) in self.groups.iter().filter(|(group, _)| mine.contains(&u32::from(group.0))) {
                restore(*group, bytes)?;
            }
            self.stored.iter().try_for_each(|stored| stored.read(mine.clone(), &mut restore))
        };
        state.restore_all(&mut source, &self.states)?;
        for group in moved.groups() {
            if let Some(one) = &self.one_nan {
                let bytes = one.group(group, &[], &mut moved, &mut rewriter)?;
                let bytes = if migration.is_identity() { bytes } else { migration.group(group, bytes, &mut writer)? };
                state.restore(group, bytes, &self.states)?;
            }
        }
        Ok(state)
    }

    /// The keys that move to these groups, wherever they were stored.
    fn moved(&self, mine: &Range<u32>) -> Result<Moved> {
        let mut moved = Moved::default();
        let Some(one) = self.one_nan.as_ref().filter(|one| one.moves_keys()) else { return Ok(moved) };
        self.groups.iter().try_for_each(|(group, bytes)| one.moved(*group, bytes, &mut moved))?;
        for stored in &self.stored {
            stored.read(stored.groups(), &mut |group, bytes| one.moved(group, bytes, &mut moved))?;
        }
        moved.keep(mine);
        Ok(moved)
    }

    /// How far a subtask with these key groups finishes the interrupted pass: as far as all of the groups were in one. After a restore at
    /// another parallelism they may come from several subtasks; what is left of a longer pass fires with the next watermark, while firing the
    /// timers of a group that was in no pass would be too early for the records before them.
    pub(super) fn pass_of(&self, mine: &Range<u32>) -> Option<Timestamp> {
        let passes = self.passes.iter().filter(|(group, _)| mine.contains(&u32::from(group.0)));
        let horizons: Option<Vec<Timestamp>> = passes.map(|(_, horizon)| *horizon).collect();
        horizons?.into_iter().min()
    }

    /// The stored state that is all that a subtask with these key groups restores, if its states have the same ids and types today.
    fn exactly(&self, mine: &Range<u32>) -> Option<&dyn StoredGroups> {
        let same =
            self.one_nan.is_none() && self.migration.is_identity() && (0..).zip(&self.states).all(|(stored, today)| *today == Some(stored));
        let overlaps = |groups: &Range<u32>| groups.start < mine.end && mine.start < groups.end;
        let mut stored = self.stored.iter().filter(|stored| overlaps(&stored.groups()));
        let only = stored.next().filter(|only| stored.next().is_none() && only.groups() == *mine)?;
        let elsewhere = self.groups.iter().any(|(group, _)| mine.contains(&u32::from(group.0)));
        (same && !elsewhere).then_some(&**only)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::RestoredOperator;
    use crate::key_group::KeyGroup;
    use crate::state::StoredGroups;
    use crate::{Result, Timestamp};

    #[test]
    fn a_pass_is_finished_as_far_as_all_key_groups_were_in_one() {
        let passes = [(0, Some(100)), (1, Some(70)), (2, None)].map(|(group, horizon)| (KeyGroup(group), horizon.map(Timestamp))).to_vec();
        let restored = RestoredOperator { passes, ..RestoredOperator::default() };
        let found = [0..1, 1..2, 0..2, 0..3, 2..3, 3..9].map(|mine| restored.pass_of(&mine).map(|horizon| horizon.0));
        assert_eq!(found, [Some(100), Some(70), Some(70), None, None, None]);
    }

    struct Stored(Range<u32>);

    impl StoredGroups for Stored {
        fn groups(&self) -> Range<u32> {
            self.0.clone()
        }

        fn read(&self, _: Range<u32>, _: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_the_whole_state_of_a_subtask_is_gone_on_with() {
        let mut restored = RestoredOperator { states: vec![Some(0), Some(1)], ..RestoredOperator::default() };
        restored.stored = vec![Arc::new(Stored(0..4)), Arc::new(Stored(4..8))];
        let goes_on = |restored: &RestoredOperator| [0..4, 4..8, 0..8, 0..3, 2..6].map(|mine| restored.exactly(&mine).is_some());
        assert_eq!(goes_on(&restored), [true, true, false, false, false]);
        restored.groups = vec![(KeyGroup(5), Vec::new())];
        assert_eq!(goes_on(&restored), [true, false, false, false, false], "some of it is in a state file");
        for states in [vec![Some(1), Some(0)], vec![Some(0), None]] {
            restored.states = states;
            assert_eq!(goes_on(&restored), [false; 5], "states have other ids or are dropped");
        }
    }
}
