//! Flink's rules for keyed functions, as naive as can be: one record at a time, one map of keys, timers in a sorted set. It runs
//! the ops of `guests/probe` and shares nothing with the engine but the order of keys of equal time, which is the engine's own.

mod key;

use std::collections::{BTreeMap, BTreeSet};

use probe::Input;
use serde_json::{Value, json};
use tidemill_core::key_group::{hash_key, key_group};

use self::key::{Content, Run};
pub use self::key::{Lives, Ttl};

/// The number of key groups of a case that does not name it.
const MAX_PARALLELISM: u32 = 128;

/// A record that must come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Its lane.
    pub lane: &'static str,
    /// The record.
    pub value: Value,
    /// Its event time.
    pub time: Option<i64>,
}

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// The watermark.
    Event,
    /// The wall clock.
    Processing,
}

/// A timer: when it is due, where its key comes among others, its key.
type Timer = (i64, (u16, Vec<u8>), String);

/// What a snapshot has.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    keys: BTreeMap<String, Content>,
    timers: BTreeMap<Clock, BTreeSet<Timer>>,
}

/// The job.
#[derive(Clone, Debug)]
pub struct Model {
    saved: Saved,
    lives: Lives,
    watermark: i64,
    now: i64,
    ended: bool,
    /// What came out since it was last taken.
    pub said: Vec<Said>,
    /// Records since the job was last started.
    pub records: u64,
    /// Those of them that were late.
    pub late: u64,
    /// Bad records and timers since the job was last started.
    pub dead: u64,
}

impl Model {
    /// A job without state.
    #[must_use]
    pub fn new(lives: Lives) -> Self {
        Self { saved: Saved::default(), lives, watermark: i64::MIN, now: 0, ended: false, said: Vec::new(), records: 0, late: 0, dead: 0 }
    }

    /// A record comes in, as this step of the case.
    pub fn element(&mut self, step: usize, time: Option<i64>, input: &Input) {
        self.records += 1;
        self.late += u64::from(time.is_some_and(|time| time <= self.watermark));
        if let Err(reason) = self.attempt(&input.key, |run| run.ops(&input.ops), time, time) {
            let value = serde_json::to_string(input).unwrap_or_default();
            self.dead_letter(&reason, Some(step), time, &value);
        }
    }

    /// The watermark arrives.
    pub fn watermark(&mut self, watermark: i64) {
        if watermark > self.watermark {
            self.watermark = watermark;
            self.pass(Clock::Event, watermark);
        }
    }

    /// The clock goes on.
    pub fn clock(&mut self, now: i64) {
        self.now = now;
        if !self.ended {
            self.fire_overdue();
        }
    }

    /// The input ends.
    pub fn end(&mut self) {
        self.watermark(i64::MAX);
        self.ended = true;
    }

    /// The clock.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now
    }

    /// All that is kept.
    #[must_use]
    pub fn save(&self) -> Saved {
        self.saved.clone()
    }

    /// The job begins again.
    pub fn start(&mut self, from: Saved) {
        (self.saved, self.watermark, self.ended) = (from, i64::MIN, false);
        (self.records, self.late, self.dead) = (0, 0, 0);
        self.fire_overdue();
    }

    /// How many timers of a clock are pending.
    #[must_use]
    pub fn pending(&self, clock: Clock) -> usize {
        self.saved.timers.get(&clock).map_or(0, BTreeSet::len)
    }

    /// How many keys have state or timers; wrong where content expires.
    #[must_use]
    pub fn keys(&self) -> usize {
        let with_timers = self.saved.timers.values().flatten().map(|(_, _, key)| key);
        let with_content = self.saved.keys.iter().filter(|(_, content)| !content.is_empty()).map(|(key, _)| key);
        with_timers.chain(with_content).collect::<BTreeSet<_>>().len()
    }

    /// Timers of the wall clock are due when it is past their time.
    fn fire_overdue(&mut self) {
        if let Some(horizon) = self.now.checked_sub(1) {
            self.pass(Clock::Processing, horizon);
        }
    }

    fn pass(&mut self, clock: Clock, horizon: i64) {
        while let Some(timer) = self.saved.timers.get(&clock).and_then(|timers| timers.first().cloned()) {
            let (time, _, key) = &timer;
            if *time > horizon {
                return;
            }
            self.saved.timers.entry(clock).or_default().remove(&timer);
            let event_time = (clock == Clock::Event).then_some(*time);
            if let Err(reason) = self.attempt(key, |run| run.timer(clock, *time), Some(*time), event_time) {
                let domain = if clock == Clock::Event { "event" } else { "processing" };
                let value = json!({ "domain": domain, "timestamp": time, "key": key });
                self.dead_letter(&reason, None, event_time, &ordered(&value));
            }
        }
    }

    /// Runs ops for a key. If it is bad, nothing of it has happened.
    fn attempt(
        &mut self,
        key: &str,
        ops: impl FnOnce(&mut Run<'_>) -> Result<(), String>,
        timestamp: Option<i64>,
        output_time: Option<i64>,
    ) -> Result<(), String> {
        let before = (self.saved.clone(), self.said.len());
        let mut run = Run {
            key,
            place: place(key),
            content: self.saved.keys.entry(key.to_owned()).or_default(),
            timers: &mut self.saved.timers,
            lives: self.lives,
            watermark: self.watermark,
            now: self.now,
            timestamp,
            output_time,
            said: &mut self.said,
        };
        ops(&mut run).inspect_err(|_| {
            self.saved = before.0;
            self.said.truncate(before.1);
        })
    }

    /// `step`: of the record, if it is one.
    fn dead_letter(&mut self, reason: &str, step: Option<usize>, time: Option<i64>, value: &str) {
        self.dead += 1;
        let (source, position) = step.map(|step| ("case", format!("step:{step}"))).unzip();
        let value = json!({
            "operator": "probe", "source": source, "position": position, "timestamp": time, "reason": reason, "value": value
        });
        self.said.push(Said { lane: "dead-letter", value, time });
    }
}

/// The value of a bad timer as it is written, whose fields have an order of their own.
fn ordered(value: &Value) -> String {
    format!("{{\"domain\":{},\"timestamp\":{},\"key\":{}}}", value["domain"], value["timestamp"], value["key"])
}

/// Where a key comes among others whose timers have the same time.
fn place(key: &str) -> (u16, Vec<u8>) {
    let mut bytes = Vec::new();
    tidemill_wit::key::put_bytes(&mut bytes, key.as_bytes());
    (key_group(hash_key(&bytes), MAX_PARALLELISM).0, bytes)
}
