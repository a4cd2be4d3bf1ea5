//! One key: what it holds, and what ops do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use probe::{Lane, Op};
use serde_json::json;

use super::{Clock, Said, Timer};

/// How long content lives, in milliseconds of the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Ttl {
    /// After it was last renewed.
    pub life: i64,
    /// Whether reads renew it.
    pub on_read: bool,
}

/// How long the content of each state lives; `None`: for ever.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the states of the probe, by name")]
pub struct Lives {
    pub value: Option<Ttl>,
    pub list: Option<Ttl>,
    pub map: Option<Ttl>,
    pub sum: Option<Ttl>,
    pub average: Option<Ttl>,
}

/// Something and when it was last renewed.
type Stamped<T> = (T, i64);

/// What a key holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    value: Option<Stamped<i64>>,
    note: Option<(String, u32)>,
    list: Vec<Stamped<String>>,
    map: BTreeMap<String, Stamped<i64>>,
    sum: Option<Stamped<i64>>,
    average: Option<Stamped<(i64, i64)>>,
    scripts: BTreeMap<(Clock, i64), Vec<Op>>,
}

impl Content {
    pub(super) fn is_empty(&self) -> bool {
        let Self { value, note, list, map, sum, average, scripts } = self;
        value.is_none() && note.is_none() && list.is_empty() && map.is_empty() && sum.is_none() && average.is_none() && scripts.is_empty()
    }
}

/// A record or timer of a key.
pub(super) struct Run<'a> {
    pub(super) key: &'a str,
    pub(super) place: (u16, Vec<u8>),
    pub(super) content: &'a mut Content,
    pub(super) timers: &'a mut BTreeMap<Clock, BTreeSet<Timer>>,
    pub(super) lives: Lives,
    pub(super) watermark: i64,
    pub(super) now: i64,
    /// The time of the record or timer.
    pub(super) timestamp: Option<i64>,
    /// The event time of what comes out.
    pub(super) output_time: Option<i64>,
    pub(super) said: &'a mut Vec<Said>,
}

impl Run<'_> {
    pub(super) fn timer(&mut self, clock: Clock, time: i64) -> Result<(), String> {
        self.say(&format!("{} {time}", if clock == Clock::Event { "event" } else { "processing" }));
        let script = self.content.scripts.remove(&(clock, time)).unwrap_or_default();
        self.ops(&script)
    }

    pub(super) fn ops(&mut self, ops: &[Op]) -> Result<(), String> {
        for op in ops {
            self.expire();
            self.op(op)?;
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::EventTimer(at) => self.register(Clock::Event, *at),
            Op::EventTimerIn(delay) => {
                let time = self.timestamp.ok_or("event_timer_in: the element has no time to count from")?;
                self.register(Clock::Event, time.saturating_add(delay.as_millis()));
            }
            Op::DeleteEventTimer(at) => self.delete(Clock::Event, *at),
            Op::ProcessingTimer(at) => self.register(Clock::Processing, *at),
            Op::ProcessingTimerIn(delay) => self.register(Clock::Processing, self.now.saturating_add(delay.as_millis())),
            Op::DeleteProcessingTimer(at) => self.delete(Clock::Processing, *at),
            Op::EventTimerDo { at, ops } => self.script(Clock::Event, *at, ops),
            Op::ProcessingTimerDo { at, ops } => self.script(Clock::Processing, *at, ops),
            Op::Fail(reason) => return Err(reason.clone()),
            Op::Side { lane, say } => self.emit(*lane, say),
            Op::Emit(text) => self.say(text),
            Op::Greet => self.say("hello"),
            Op::SayTimestamp => self.say(&known("timestamp", self.timestamp)),
            Op::SayWatermark => self.say(&format!("watermark {}", self.watermark)),
            Op::SayProcessingTime => self.say(&format!("processing time {}", self.now)),
            other => self.state(other),
        }
        Ok(())
    }

    fn state(&mut self, op: &Op) {
        let (now, lives) = (self.now, self.lives);
        let Content { value, note, list, map, sum, average, .. } = &mut *self.content;
        let said = match op {
            Op::Put(number) => return *value = Some((*number, now)),
            Op::Add(number) => return *value = Some((value.map_or(0, |old| old.0).wrapping_add(*number), now)),
            Op::ClearValue => return *value = None,
            Op::Get => known("value", read(value, lives.value, now)),
            Op::Note { text, count, .. } => return *note = Some((text.clone(), *count)),
            Op::ClearNote => return *note = None,
            Op::GetNote => known("note", note.as_ref().map(|(text, count)| format!("{text} {count}"))),
            Op::ListAdd(item) => return list.push((item.clone(), now)),
            Op::ListAddAll(items) => return list.extend(items.iter().map(|item| (item.clone(), now))),
            Op::ListUpdate(items) => return *list = items.iter().map(|item| (item.clone(), now)).collect(),
            Op::ListClear => return list.clear(),
            Op::ListGet => {
                list.iter_mut().for_each(|item| renew(&mut item.1, lives.list, now));
                joined("list", list.iter().map(|item| item.0.clone()))
            }
            Op::SumAdd(number) => return *sum = Some((sum.map_or(0, |old| old.0) + number, now)),
            Op::SumClear => return *sum = None,
            Op::GetSum => known("sum", read(sum, lives.sum, now)),
            Op::AverageAdd(number) => {
                let (total, count) = average.map_or((0, 0), |old| old.0);
                return *average = Some(((total + number, count + 1), now));
            }
            Op::AverageClear => return *average = None,
            Op::GetAverage => known("average", read(average, lives.average, now).map(|(total, count)| total as f64 / count as f64)),
            Op::MapPut(entries) => return map.extend(entries.iter().map(|(name, number)| (name.clone(), (*number, now)))),
            Op::MapRemove(name) => return map.retain(|other, _| other != name),
            Op::MapClear => return map.clear(),
            Op::MapIsEmpty => format!("empty {}", map.is_empty()),
            Op::MapLen => format!("len {}", map.len()),
            Op::MapGet(_) | Op::MapContains(_) | Op::MapKeys | Op::MapEntries => read_map(map, op, lives.map, now),
            other => format!("the model does not know {other:?}"),
        };
        self.say(&said);
    }

    /// Drops what has expired.
    fn expire(&mut self) {
        let (now, lives) = (self.now, self.lives);
        let lives_on = |stamp: i64, ttl: Option<Ttl>| ttl.is_none_or(|ttl| stamp.saturating_add(ttl.life) > now);
        let Content { value, list, map, sum, average, .. } = &mut *self.content;
        value.take_if(|value| !lives_on(value.1, lives.value));
        sum.take_if(|sum| !lives_on(sum.1, lives.sum));
        average.take_if(|average| !lives_on(average.1, lives.average));
        list.retain(|item| lives_on(item.1, lives.list));
        map.retain(|_, entry| lives_on(entry.1, lives.map));
    }

    fn script(&mut self, clock: Clock, at: i64, ops: &[Op]) {
        self.register(clock, at);
        self.content.scripts.insert((clock, at), ops.to_vec());
    }

    fn register(&mut self, clock: Clock, at: i64) {
        self.timers.entry(clock).or_default().insert((at, self.place.clone(), self.key.to_owned()));
    }

    fn delete(&mut self, clock: Clock, at: i64) {
        self.timers.entry(clock).or_default().remove(&(at, self.place.clone(), self.key.to_owned()));
    }

    fn say(&mut self, text: &str) {
        self.emit(Lane::Main, text);
    }

    fn emit(&mut self, lane: Lane, say: &str) {
        let lane = match lane {
            Lane::Main => "main",
            Lane::Late => "late",
            Lane::Other => "other",
        };
        self.said.push(Said { lane, value: json!({ "key": self.key, "say": say }), time: self.output_time });
    }
}

/// Reads of entries renew those that are read; asking for the number of entries is no read.
fn read_map(map: &mut BTreeMap<String, Stamped<i64>>, op: &Op, ttl: Option<Ttl>, now: i64) -> String {
    if let Op::MapGet(name) | Op::MapContains(name) = op {
        let found = map.get_mut(name).map(|entry| {
            renew(&mut entry.1, ttl, now);
            entry.0
        });
        return match op {
            Op::MapGet(_) => known(&format!("map {name}"), found),
            _ => format!("contains {}", found.is_some()),
        };
    }
    map.values_mut().for_each(|entry| renew(&mut entry.1, ttl, now));
    match op {
        Op::MapKeys => joined("keys", map.keys().cloned()),
        _ => joined("entries", map.iter().map(|(name, entry)| format!("{name}={}", entry.0))),
    }
}

fn read<T: Copy>(cell: &mut Option<Stamped<T>>, ttl: Option<Ttl>, now: i64) -> Option<T> {
    let (value, stamp) = cell.as_mut()?;
    renew(stamp, ttl, now);
    Some(*value)
}

fn renew(stamp: &mut i64, ttl: Option<Ttl>, now: i64) {
    if ttl.is_some_and(|ttl| ttl.on_read) {
        *stamp = now;
    }
}

fn known(what: &str, value: Option<impl Display>) -> String {
    value.map_or_else(|| format!("{what} none"), |value| format!("{what} {value}"))
}

fn joined(what: &str, items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { what.to_owned() } else { format!("{what} {}", items.join(",")) }
}
