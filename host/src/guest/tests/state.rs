//! Guests that read the entries of maps and lists while they run.

use std::collections::BTreeMap;

use tidemill_core::detector::{DetectorFactory, Failure, KeyRef, Prefetched, SlotKeys};
use tidemill_core::effects::{TimerOps, Writes};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{DueTimers, KeyedState, NoState, Scan};
use tidemill_core::time::Domain;
use tidemill_core::{Error, Result, Timestamp};

use super::wat::{ANSWER, Guest, import};
use super::{Call, factory};

/// The entries of one map, or a disk that fails.
enum Entries {
    There(BTreeMap<Vec<u8>, Vec<u8>>),
    Broken,
}

impl Entries {
    fn read(&self) -> Result<&BTreeMap<Vec<u8>, Vec<u8>>> {
        match self {
            Self::There(entries) => Ok(entries),
            Self::Broken => Err(Error::storage("the disk is gone")),
        }
    }
}

/// Only reads are called by guests.
impl KeyedState for Entries {
    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], _: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        assert_eq!((key.bytes, state), (&b"key"[..], 1));
        let found = self.read()?.get(entry);
        into.extend(found.into_iter().flatten());
        Ok(found.is_some())
    }

    fn scan_entries(&self, scan: &Scan<'_>, _: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        assert_eq!((scan.key.bytes, scan.state), (&b"key"[..], 1));
        let entries = self.read()?.iter().skip_while(|(key, _)| scan.after.is_some_and(|after| key.as_slice() <= after));
        entries.take(scan.limit).for_each(|(key, value)| found(key, value));
        Ok(())
    }

    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        NoState.prefetch(slots, now, into)
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        NoState.apply(slots, writes, timers, now)
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        NoState.due_timers(domain, horizon, limit, into)
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        NoState.remove_timers(domain, due, count)
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        NoState.next_timer(domain)
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        NoState.timer_count(domain)
    }

    fn key_count(&self) -> u64 {
        NoState.key_count()
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        NoState.expire(now)
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        NoState.snapshot(into)
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        NoState.restore(group, bytes, states)
    }
}

fn map(items: impl IntoIterator<Item = (&'static str, usize)>) -> Entries {
    Entries::There(items.into_iter().map(|(key, len)| (key.as_bytes().to_vec(), key.repeat(len).into_bytes())).collect())
}

/// Calls a guest with this body, which has the text "b" at 512, over such a state.
fn run(body: &str, entries: Entries) -> Result<u32, Failure> {
    let imports =
        [import("keyed-state", "get-entry", "i32 i32 i32 i32 i32"), import("keyed-state", "scan-entries", "i32 i32 i32 i32 i32 i32 i32")];
    let items = format!("{} (data (i32.const 512) \"b\")", imports.concat());
    let factory = factory(&Guest { items, elements: body.to_owned(), states: vec![0, 2], ..Guest::default() });
    let (mut call, mut detector) = (Call::new(), factory.open(&[]).unwrap_or_else(|failure| panic!("{failure:?}")));
    call.reads.state = Box::new(entries);
    call.elements(&mut *detector)
}

/// Answers `fatal` with the text whose address and length are at these addresses.
fn fatal(address: &str, length: &str) -> String {
    format!(
        "(i32.store (i32.const {ANSWER}) (i32.const 1)) (i32.store offset=4 (i32.const {ANSWER}) (i32.const 1))
         (i32.store offset=8 (i32.const {ANSWER}) (i32.load {address})) (i32.store offset=12 (i32.const {ANSWER}) (i32.load {length}))
         (i32.const {ANSWER})"
    )
}

/// Reads the entry "b" and answers with its value.
fn get() -> String {
    let answer = fatal("(i32.const 24004)", "(i32.const 24008)");
    format!("(call $get-entry (i32.const 0) (i32.const 1) (i32.const 512) (i32.const 1) (i32.const 24000)) {answer}")
}

/// Scans after "b" and answers with the last value.
fn scan(limit: u32) -> String {
    let last = "(i32.sub (i32.add (i32.load (i32.const 24000)) (i32.mul (i32.load (i32.const 24004)) (i32.const 16))) (i32.const 8))";
    format!(
        "(call $scan-entries (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 512) (i32.const 1) (i32.const {limit}) (i32.const 24000)) {}",
        fatal(last, &format!("offset=4 {last}"))
    )
}

#[test]
fn entries_are_read() {
    let entries = || map([("a", 1), ("b", 3), ("c", 2), ("d", 5), ("e", 1)]);
    let text = |text: &str| Err(Failure::Fatal(text.to_owned()));
    assert_eq!(run(&get(), entries()), text("bbb"));
    assert_eq!(run(&get(), map([("a", 1)])), text(""));
    assert_eq!(run(&scan(2), entries()), text("ddddd"));
    assert_eq!(run(&scan(9), entries()), text("e"));
}

#[test]
fn a_scan_is_bounded() {
    let many = (0..3000u32).map(|i| ([b'z'].repeat(4).into_iter().chain(i.to_be_bytes()).collect(), i.to_string().into_bytes())).collect();
    assert_eq!(run(&scan(u32::MAX), Entries::There(many)), Err(Failure::Fatal("1023".to_owned())));
    let answer = run(&scan(9), map([("c", 600_000), ("d", 600_000)]));
    assert!(matches!(&answer, Err(Failure::Trap(text)) if text.contains("gave more than 1 MiB: use a lower limit")), "{answer:?}");
}

#[test]
fn a_failure_of_the_state_is_fatal() {
    for body in [get(), scan(1)] {
        assert_eq!(run(&body, Entries::Broken), Err(Failure::Fatal("reading keyed state: the disk is gone".to_owned())));
    }
}
