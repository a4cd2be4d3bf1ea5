use serde::{Deserialize, Serialize};
use tidemill_wit::columns::{Blobs, BlobsBuf};
use tidemill_wit::descriptor::{StateKind, write_op};

use crate::columns::{Batch, Elements};
use crate::effects::Effects;
use crate::failure::BatchFailure;
use crate::runner::Runner;
use crate::testing::Harness;
use crate::{BroadcastContext, BroadcastState, Context, Detector, Failure, KeyedBroadcastProcessFunction, KeyedProcessFunction};
use crate::{Schema, SideOutput, Timer, ValueState};

#[derive(Serialize, Deserialize, Schema)]
enum Change {
    Put(String, i64),
    Remove(String),
    Clear,
    /// Says what is seen in the same call.
    Say(String),
    Bad,
}

#[derive(Detector)]
#[detector(name = "ruled", version = "1", broadcast)]
struct Ruled {
    seen: ValueState<u32>,
    #[state(name = "limits")]
    rules: BroadcastState<String, i64>,
    other: BroadcastState<i64, String>,
    said: SideOutput<&'static str>,
}

impl KeyedProcessFunction for Ruled {
    type Key = String;
    type Input<'a> = &'a str;
    type Output<'a> = String;

    /// Says the rule of that name, or all of them.
    fn process_element(&mut self, rule: &str, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let seen = self.seen.value(ctx)?.copied().unwrap_or(0) + 1;
        self.seen.update(ctx, seen);
        ctx.register_event_time_timer(10);
        let said = if rule == "*" { self.all(ctx)? } else { format!("{:?}", self.rules.get(ctx, rule)?) };
        ctx.emit(&said);
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let said = format!("{} rules, empty {}", self.rules.len(ctx)?, self.rules.is_empty(ctx)?);
        ctx.emit(&said);
        Ok(())
    }
}

impl KeyedBroadcastProcessFunction for Ruled {
    type Broadcast<'a> = Change;

    fn process_broadcast_element(&mut self, change: Change, ctx: &mut BroadcastContext<'_, Self>) -> Result<(), Failure> {
        match change {
            Change::Put(rule, limit) => {
                self.other.put(ctx, &limit, rule.clone());
                self.rules.put(ctx, &rule, limit);
            }
            Change::Remove(rule) => self.rules.remove(ctx, rule.as_str()),
            Change::Clear => self.rules.clear(ctx),
            Change::Say(rule) => {
                let there = self.rules.contains(ctx, &rule)?;
                let said = format!("{:?} {there} at {:?}", self.rules.get(ctx, &rule)?, ctx.timestamp());
                self.said.emit(ctx, &said.as_str());
                ctx.emit(&said);
            }
            Change::Bad => return Err("a bad rule".into()),
        }
        Ok(())
    }
}

impl Ruled {
    fn all(&mut self, ctx: &mut Context<'_, Self>) -> Result<String, Failure> {
        let mut all = Vec::new();
        self.rules.for_each(ctx, |rule, limit| {
            all.push(format!("{rule}={limit}"));
            Ok(())
        })?;
        Ok(all.join(","))
    }
}

fn put(harness: &mut Harness<Ruled>, rule: &str, limit: i64) {
    harness.broadcast(1, &Change::Put(rule.to_owned(), limit)).unwrap();
}

fn ask(harness: &mut Harness<Ruled>, rule: &str) -> String {
    harness.element(&"k".to_owned(), 1, &rule).unwrap();
    harness.outputs::<String>("main").unwrap().pop().unwrap().1
}

#[test]
fn the_descriptor_has_the_input_and_the_states() {
    let descriptor = Runner::<Ruled>::describe();
    assert!(descriptor.broadcast.is_some());
    let states: Vec<_> = descriptor.broadcast_states.iter().map(|state| (state.name.as_str(), state.kind, state.ttl)).collect();
    assert_eq!(states, [("limits", StateKind::Map, None), ("other", StateKind::Map, None)]);
    assert_eq!(descriptor.states.len(), 1, "keyed states have ids of their own");
}

#[test]
fn keyed_records_and_timers_read_what_broadcast_records_wrote() {
    let mut harness = Harness::<Ruled>::open(&()).unwrap();
    assert_eq!((ask(&mut harness, "a"), ask(&mut harness, "*")), ("None".to_owned(), String::new()));
    for (rule, limit) in [("b", 2), ("a", 1), ("c", 3), ("a", 9)] {
        put(&mut harness, rule, limit);
    }
    assert_eq!((ask(&mut harness, "a"), ask(&mut harness, "*")), ("Some(9)".to_owned(), "a=9,b=2,c=3".to_owned()));
    harness.broadcast(1, &Change::Remove("b".to_owned())).unwrap();
    assert_eq!((ask(&mut harness, "b"), ask(&mut harness, "*")), ("None".to_owned(), "a=9,c=3".to_owned()));
    harness.watermark(10).unwrap();
    assert_eq!(harness.outputs::<String>("main").unwrap().pop().unwrap(), (Some(10), "2 rules, empty false".to_owned()));
    harness.broadcast(1, &Change::Clear).unwrap();
    put(&mut harness, "d", 4);
    assert_eq!(ask(&mut harness, "*"), "d=4");
}

#[test]
fn states_of_many_pages_are_read_entry_by_entry_or_whole() {
    let mut harness = Harness::<Ruled>::open(&()).unwrap();
    for rule in 0..600 {
        put(&mut harness, &format!("{rule:03}"), rule);
    }
    assert_eq!((ask(&mut harness, "599"), ask(&mut harness, "600")), ("Some(599)".to_owned(), "None".to_owned()));
    assert_eq!(ask(&mut harness, "*").split(',').count(), 600);
}

#[test]
fn a_broadcast_record_sees_its_batch_and_has_its_time() {
    let mut harness = Harness::<Ruled>::open(&()).unwrap();
    put(&mut harness, "a", 1);
    harness.broadcast(7, &Change::Say("a".to_owned())).unwrap();
    harness.broadcast(None, &Change::Say("b".to_owned())).unwrap();
    let said = [(Some(7), "Some(1) true at Some(7)".to_owned()), (None, "None false at None".to_owned())];
    assert_eq!(harness.outputs::<String>("main").unwrap(), said);
    assert_eq!(harness.outputs::<String>("said").unwrap(), said);
    assert_eq!(harness.broadcast(1, &Change::Bad), Err(BatchFailure::BadRecord(0, "a bad rule".to_owned())));
}

/// Runs changes as one batch over nothing.
fn batch(changes: &[Change]) -> Effects {
    let mut payload = BlobsBuf::default();
    changes.iter().for_each(|change| payload.push(&postcard::to_allocvec(change).unwrap()));
    let (times, mut effects) = (vec![0; changes.len()], Effects::default());
    let (values, entries) = ([Default::default()], []);
    let batch = Batch { watermark: 0, processing_time: 0, keys: Blobs::default(), values: &values, entries: &entries };
    let elements = Elements { slot: &[], timestamp: &times, timed: &[], payload: payload.view() };
    let mut runner = Runner::<Ruled>::new();
    let mut host = crate::runner::tests::Nothing;
    runner.open(&[], &mut host).unwrap();
    assert_eq!(runner.process_broadcast_elements(&batch, &elements, &mut host, &mut effects), Ok(u32::try_from(changes.len()).unwrap()));
    effects
}

#[test]
fn a_batch_writes_each_entry_once_after_a_clear() {
    let put = |limit| Change::Put("a".to_owned(), limit);
    let effects = batch(&[put(1), put(2), Change::Remove("b".to_owned()), Change::Clear, put(3), Change::Say("a".to_owned())]);
    // The last three are of the state `other`, which is not cleared.
    assert_eq!(effects.writes.op, [write_op::CLEAR, write_op::PUT_ENTRY, write_op::PUT_ENTRY, write_op::PUT_ENTRY, write_op::PUT_ENTRY]);
    assert_eq!((effects.writes.state, effects.writes.slot), (vec![0, 0, 1, 1, 1], vec![0; 5]));
    assert_eq!(postcard::from_bytes::<String>(effects.outputs.payload.get(0)).unwrap(), "Some(3) true at Some(0)");
}

#[test]
fn a_detector_without_the_input_takes_no_broadcast_records() {
    #[derive(Detector)]
    struct Plain {}
    impl KeyedProcessFunction for Plain {
        type Key = ();
        type Input<'a> = u8;
        type Output<'a> = ();
        fn process_element(&mut self, _: u8, _: &mut Context<'_, Self>) -> Result<(), Failure> {
            Ok(())
        }
    }
    assert_eq!(Runner::<Plain>::describe().broadcast, None);
    let refused = Harness::<Plain>::open(&()).unwrap().broadcast(1, &1u8);
    assert!(matches!(refused, Err(BatchFailure::Fatal(text)) if text.contains("takes none")));
}
