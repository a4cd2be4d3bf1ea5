//! Real calls of real detectors, with what they answered.

#![expect(clippy::expect_used, reason = "a test cannot go on")]

use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;
use tidemill_core::Timestamp;
use tidemill_core::batch::{Batch, Origin};
use tidemill_core::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use tidemill_core::effects::Effects;
use tidemill_core::exchange::Outputs;
use tidemill_core::key_group::{KeyGroup, hash_key};
use tidemill_core::operator::{Env, OnError, Operator, OperatorSettings};
use tidemill_core::schema::KeyEncoder;
use tidemill_core::state::MemoryState;
use tidemill_core::time::Domain;
use tidemill_wit::descriptor::Descriptor;

use crate::native::NativeFactory;
use crate::program::{Dice, KEYS, ops};

/// What a call was made for.
#[derive(Clone, Debug)]
pub enum Input {
    /// Records.
    Batch(Batch),
    /// Timers of this clock up to this time.
    Pass(Domain, Timestamp),
}

/// A call.
#[derive(Clone)]
pub struct Recorded {
    /// Whose it was.
    pub factory: Arc<dyn DetectorFactory>,
    /// The keyed state before it.
    pub groups: Vec<(KeyGroup, Vec<u8>)>,
    /// The broadcast state before it.
    pub broadcast: Vec<u8>,
    /// What it was made for.
    pub input: Input,
    /// How many rows it had.
    pub rows: u32,
    /// How many keys it had.
    pub slots: usize,
    /// What it answered; all rows were consumed.
    pub effects: Effects,
}

type Answers = Arc<Mutex<Vec<(u32, usize, Effects)>>>;

/// Real calls, so many or some more, drawn from a seed: of the probe with records and timers, and of a detector with broadcast records.
#[must_use]
pub fn record(seed: u64, calls: usize) -> Vec<Recorded> {
    let mut rng = Rng::with_seed(seed);
    let mut all = Vec::new();
    while all.len() < calls {
        probe(&mut rng, &mut all);
        limits(&mut rng, &mut all);
    }
    all
}

fn probe(rng: &mut Rng, all: &mut Vec<Recorded>) {
    let mut session = Session::new(Arc::new(NativeFactory::<probe::Probe>::default()));
    for _ in 0..12 {
        match rng.u32(0..6) {
            0 => session.pass(Domain::Event, rng.i64(0..40), all),
            1 => session.pass(Domain::Processing, rng.i64(0..40), all),
            _ => {
                let rows = if rng.bool() { 1 } else { rng.usize(2..6) };
                let records = (0..rows).map(|_| {
                    let key = KEYS.get(rng.usize(0..KEYS.len())).copied().unwrap_or_default().to_owned();
                    let time = (rng.u32(0..5) > 0).then(|| rng.i64(0..50));
                    let input = probe::Input { key, ops: ops(&mut Dice { rng, bad: false }) };
                    (postcard::to_allocvec(&input).expect("an input"), time)
                });
                let records: Vec<_> = records.collect();
                session.batch(&records, false, all);
            }
        }
    }
}

fn limits(rng: &mut Rng, all: &mut Vec<Recorded>) {
    let mut session = Session::new(Arc::new(NativeFactory::<limits::Limits>::default()));
    for _ in 0..3 {
        let rules = (0..rng.usize(1..4)).map(|_| {
            let rule = limits::Rule { name: rng.alphabetic().to_string(), limit: rng.bool().then(|| rng.i64(0..50)) };
            (postcard::to_allocvec(&rule).expect("a rule"), None)
        });
        let rules: Vec<_> = rules.collect();
        session.batch(&rules, true, all);
        let payment = limits::Payment { account: "a", ts: 1, amount: rng.i64(0..100) };
        session.batch(&[(postcard::to_allocvec(&payment).expect("a payment"), Some(1))], false, all);
    }
}

/// An operator whose calls are written down.
struct Session {
    factory: Arc<dyn DetectorFactory>,
    key: KeyEncoder,
    operator: Operator,
    outputs: Outputs,
    answers: Answers,
}

impl Session {
    fn new(factory: Arc<dyn DetectorFactory>) -> Self {
        let answers = Answers::default();
        let recording = Recording { factory: Arc::clone(&factory), answers: Arc::clone(&answers) };
        let mut settings = OperatorSettings::new("recorded", Arc::new(recording), parameters(&factory), 128);
        settings.on_error = OnError::DeadLetter;
        let states = settings.states.clone();
        let operator = Operator::new(Arc::new(settings), Box::new(MemoryState::new(&states))).expect("an operator");
        let name = if factory.descriptor().broadcast.is_some() { "account" } else { "key" };
        let key = KeyEncoder::new(&factory.descriptor().input, &[name.to_owned()]).expect("a key");
        Self { outputs: Outputs::new(factory.descriptor().lanes.len() + 1), factory, key, operator, answers }
    }

    fn batch(&mut self, records: &[(Vec<u8>, Option<i64>)], broadcast: bool, all: &mut Vec<Recorded>) {
        let mut batch = Batch { broadcast, ..Batch::default() };
        for (position, (payload, time)) in (0..).zip(records) {
            batch.push(payload, *time, Origin { source: 0, split: 0, position });
            if !broadcast {
                let mut key = Vec::new();
                self.key.encode(payload, &mut key).expect("a key");
                batch.hash.push(hash_key(&key));
                batch.key.push(&key);
            }
        }
        let before = self.before(Input::Batch(batch.clone()));
        self.operator.process(&batch, &mut Env { now: Timestamp(5), outputs: &mut self.outputs }).expect("a batch");
        self.keep(before, all);
    }

    fn pass(&mut self, domain: Domain, horizon: i64, all: &mut Vec<Recorded>) {
        let before = self.before(Input::Pass(domain, Timestamp(horizon)));
        self.operator.begin_pass(domain, Timestamp(horizon));
        while self.operator.continue_pass(&mut Env { now: Timestamp(5), outputs: &mut self.outputs }).expect("a pass").is_none() {}
        self.keep(before, all);
    }

    fn before(&mut self, input: Input) -> Recorded {
        let (mut groups, mut broadcast) = (Vec::new(), Vec::new());
        self.operator.state().snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).expect("a snapshot");
        self.operator.broadcast_state().snapshot(&mut broadcast);
        Recorded { factory: Arc::clone(&self.factory), groups, broadcast, input, rows: 0, slots: 0, effects: Effects::default() }
    }

    /// The first call is the one that was made with what was written down before.
    fn keep(&mut self, before: Recorded, all: &mut Vec<Recorded>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let first = answers.drain(..).next();
        all.extend(first.map(|(rows, slots, effects)| Recorded { rows, slots, effects, ..before }));
    }
}

/// The encoded parameters: all of them at their defaults.
pub(super) fn parameters(factory: &Arc<dyn DetectorFactory>) -> Vec<u8> {
    tidemill::codec::from_value(&factory.descriptor().parameters, &serde_json::json!({})).unwrap_or_default()
}

struct Recording {
    factory: Arc<dyn DetectorFactory>,
    answers: Answers,
}

impl DetectorFactory for Recording {
    fn descriptor(&self) -> &Descriptor {
        self.factory.descriptor()
    }

    fn open(&self, parameters: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(Instance { detector: self.factory.open(parameters)?, answers: Arc::clone(&self.answers) }))
    }
}

struct Instance {
    detector: Box<dyn Detector>,
    answers: Answers,
}

impl Instance {
    fn note(&self, answer: Result<u32, Failure>, slots: usize, effects: &Effects) -> Result<u32, Failure> {
        let rows = answer?;
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((rows, slots, effects.clone()));
        Ok(rows)
    }
}

impl Detector for Instance {
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let answer = self.detector.process_elements(context, elements, reads, effects);
        self.note(answer, context.keys.len(), effects)
    }

    fn on_timers(
        &mut self,
        context: &CallContext<'_>,
        timers: &Timers<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let answer = self.detector.on_timers(context, timers, reads, effects);
        self.note(answer, context.keys.len(), effects)
    }

    fn process_broadcast_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let answer = self.detector.process_broadcast_elements(context, elements, reads, effects);
        self.note(answer, 0, effects)
    }
}
