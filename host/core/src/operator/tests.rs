use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_wit::descriptor::{Descriptor, LaneDescriptor};
use tidemill_wit::schema::{Type, TypeTable};

use super::{Env, OnError, Operator, OperatorSettings};
use crate::Timestamp;
use crate::batch::{Batch, Origin};
use crate::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use crate::effects::Effects;
use crate::exchange::Outputs;
use crate::key_group::hash_key;
use crate::state::MemoryState;
use crate::time::Domain;

/// Registers a timer per record, one of the processing clock for a 2, and passes the record on. Says that records `bad` are bad; traps at timers of the time `bad_time`, and at
/// calls with from two to five records, which a guest near its limits might.
struct Odd {
    descriptor: Descriptor,
    bad_time: i64,
    calls: Arc<AtomicUsize>,
}

impl DetectorFactory for Odd {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn open(&self, _: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(Instance { bad_time: self.bad_time, calls: Arc::clone(&self.calls) }))
    }
}

struct Instance {
    bad_time: i64,
    calls: Arc<AtomicUsize>,
}

impl Detector for Instance {
    fn process_elements(
        &mut self,
        _: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.bad_time == SLOW && reads.patience.is_some() {
            return Err(Failure::CutShort);
        }
        if (2..=5).contains(&elements.slot.len()) {
            return Err(Failure::Trap("near its limits".to_owned()));
        }
        for (row, (&slot, &time)) in (0u32..).zip(elements.slot.iter().zip(elements.timestamp)) {
            if elements.payload.get(row as usize) == [1] {
                return Err(Failure::BadRecord { row, reason: "bad".to_owned() });
            }
            effects.timers.op.push(0);
            effects.timers.domain.push(u8::from(elements.payload.get(row as usize) == [2]));
            effects.timers.slot.push(slot);
            effects.timers.timestamp.push(time);
            effects.outputs.lane.push(0);
            effects.outputs.row.push(row);
            effects.outputs.timestamp.push(time);
            effects.outputs.payload.push(&[0]);
        }
        Ok(u32::try_from(elements.slot.len()).unwrap())
    }

    fn on_timers(&mut self, _: &CallContext<'_>, timers: &Timers<'_>, reads: &mut Reads, _: &mut Effects) -> Result<u32, Failure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.bad_time == SLOW && reads.patience.is_some() {
            return Err(Failure::CutShort);
        }
        if timers.timestamp.contains(&self.bad_time) {
            return Err(Failure::Trap("a bad timer".to_owned()));
        }
        Ok(u32::try_from(timers.slot.len()).unwrap())
    }
}

/// A `bad_time` of a detector that is too slow for any caller's patience.
const SLOW: i64 = -2;

struct Rig {
    operator: Operator,
    outputs: Outputs,
    calls: Arc<AtomicUsize>,
}

impl Rig {
    fn new(bad_time: i64) -> Self {
        let table = TypeTable::of(Type::U8);
        let descriptor = Descriptor {
            input: table.clone(),
            key: Some(TypeTable::of(Type::I64)),
            lanes: vec![LaneDescriptor { name: "main".to_owned(), schema: table }],
            ..Descriptor::default()
        };
        let calls = Arc::<AtomicUsize>::default();
        let factory = Arc::new(Odd { descriptor, bad_time, calls: Arc::clone(&calls) });
        let mut settings = OperatorSettings::new("odd", factory, Vec::new(), 128);
        settings.on_error = OnError::DeadLetter;
        let operator = Operator::new(Arc::new(settings), Box::new(MemoryState::new(&[]))).unwrap();
        Self { operator, outputs: Outputs::new(2), calls }
    }

    fn process(&mut self, payloads: &[u8]) {
        let mut batch = Batch::default();
        for (time, payload) in (0i64..).zip(payloads) {
            batch.push(&[*payload], Some(time), Origin::NONE);
            batch.key.push(&time.to_be_bytes());
            batch.hash.push(hash_key(&time.to_be_bytes()));
        }
        self.operator.process(&batch, &mut Env { now: Timestamp(0), outputs: &mut self.outputs }).unwrap();
    }

    fn records(&self) -> Vec<u64> {
        self.outputs.records().collect()
    }
}

#[test]
fn a_record_before_a_bad_one_is_never_blamed() {
    let mut rig = Rig::new(-1);
    rig.process(&[0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(rig.records(), [7, 1], "one record is bad, whatever happens to calls on the way to it");
}

#[test]
fn a_bad_timer_is_found_without_repeating_its_batch() {
    let mut rig = Rig::new(1000);
    rig.process(&[0; 1024]);
    rig.operator.begin_pass(Domain::Event, Timestamp(i64::MAX));
    while rig.operator.continue_pass(&mut Env { now: Timestamp(0), outputs: &mut rig.outputs }).unwrap().is_none() {}
    assert_eq!((rig.records(), rig.operator.metrics().dead_letters), (vec![1024, 1], 1));
    assert_eq!(rig.operator.metrics().event_timers_pending, 0);
    let calls = rig.calls.load(Ordering::Relaxed);
    assert!(calls < 1010, "{calls} calls");
}

#[test]
fn keys_and_timers_of_either_clock_are_counted() {
    let mut rig = Rig::new(-1);
    rig.process(&[0, 0, 0, 0, 2, 2]);
    let metrics = rig.operator.metrics();
    assert_eq!((metrics.keys, metrics.event_timers_pending, metrics.processing_timers_pending), (6, 4, 2));
}

#[test]
fn what_is_cut_short_goes_one_by_one_and_is_not_bad() {
    let mut rig = Rig::new(SLOW);
    rig.operator.measure_by(|| Duration::ZERO, 1);
    // Every record is alone in the second call that it is in, as is every timer.
    (0..10).for_each(|_| rig.process(&[0; 100]));
    rig.operator.begin_pass(Domain::Event, Timestamp::MAX);
    while rig.operator.continue_pass(&mut Env { now: Timestamp(0), outputs: &mut rig.outputs }).unwrap().is_none() {}
    let metrics = rig.operator.metrics();
    assert_eq!((rig.records(), metrics.dead_letters), (vec![1000, 0], 0));
    assert_eq!((metrics.timers_fired, metrics.event_timers_pending), (100, 0));
    let calls = rig.calls.load(Ordering::Relaxed);
    assert!((1100..1400).contains(&calls), "{calls} calls");
}
