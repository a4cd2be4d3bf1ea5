//! What a store of keys that are not in use asks.

use tidemill_wit::descriptor::{StateKind, write_op};

use super::{one_key, state, write};
use crate::detector::Prefetched;
use crate::key_group::KeyGroup;
use crate::state::layout::{Entry, FRESH, Form, Writer};
use crate::state::{KeyedState, MemoryState};
use crate::time::Timestamp;

fn entry(state: u8, form: Form, stamp: Option<i64>) -> Entry<'static> {
    Entry { state, form, stamp, key: b"", value: b"v" }
}

fn value_and_list() -> MemoryState {
    MemoryState::new(&[state(StateKind::Value, Some(100)), state(StateKind::List, None)])
}

#[test]
fn an_entry_expires_by_its_stamp_and_the_ttl_of_its_state() {
    let memory = value_and_list();
    for (entry, end) in [
        (entry(0, Form::Value, Some(5)), 105),
        (entry(0, Form::Value, Some(i64::MAX - 1)), i64::MAX),
        (entry(0, Form::Value, Some(FRESH)), i64::MAX),
        (entry(0, Form::Value, None), i64::MAX),
        (entry(1, Form::List, Some(5)), i64::MAX),
        (entry(2, Form::Value, Some(5)), i64::MAX),
    ] {
        assert_eq!(memory.end_of(&entry), end, "{entry:?}");
    }
    assert!(memory.expires() && !MemoryState::new(&[state(StateKind::Value, None)]).expires());
}

#[test]
fn an_entry_is_as_held_if_nothing_is_to_be_done_to_it() {
    let memory = value_and_list();
    assert!(memory.is_as_held(&entry(0, Form::Value, Some(5))) && memory.is_as_held(&entry(1, Form::List, None)));
    for other in [
        entry(0, Form::Value, None),
        entry(0, Form::Value, Some(FRESH)),
        entry(0, Form::List, Some(5)),
        entry(1, Form::List, Some(5)),
        entry(2, Form::Value, None),
    ] {
        assert!(!memory.is_as_held(&other), "{other:?}");
    }
}

#[test]
fn a_key_is_looked_at_when_something_of_it_may_expire() {
    let mut memory = MemoryState::new(&[state(StateKind::Value, Some(100))]);
    write(&mut memory, write_op::PUT, &[b"v"], 7);
    let id = memory.find(one_key().get(0)).unwrap();
    assert_eq!(memory.end_of_life(id, Timestamp(50)), 107);
    memory.set_end_of_life(id, i64::MAX);
    memory.expire(Timestamp(200)).unwrap();
    assert_eq!(memory.key_count(), 1, "it was not looked at");
    memory.set_end_of_life(id, 200);
    memory.expire(Timestamp(200)).unwrap();
    assert_eq!(memory.key_count(), 0);

    let mut memory = MemoryState::new(&[state(StateKind::Value, None)]);
    write(&mut memory, write_op::PUT, &[b"v"], 7);
    let id = memory.find(one_key().get(0)).unwrap();
    assert_eq!(memory.end_of_life(id, Timestamp(50)), i64::MAX);
}

#[test]
fn what_was_restored_without_a_stamp_is_unseen_until_it_is_used() {
    let mut memory = value_and_list();
    let mut plain = MemoryState::new(&[state(StateKind::Value, None)]);
    let mut writer = Writer::default();
    writer.begin(KeyGroup(0));
    writer.key(b"k");
    writer.value(0, None, b"v");
    writer.timers(&[], &[]);
    let group = writer.finish();
    assert!(!memory.has_unseen());
    memory.restore(KeyGroup(0), group, &[Some(0)]).unwrap();
    plain.restore(KeyGroup(0), group, &[Some(0)]).unwrap();
    assert!(memory.has_unseen() && !plain.has_unseen(), "nothing is to be stamped where nothing expires");
    memory.prefetch(&one_key(), Timestamp(5), &mut Prefetched::default()).unwrap();
    assert!(!memory.has_unseen());
}
