//! Runs a case: step by step, on one backend and at one batch size.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_core::schema::lanes;
use tidemill_core::{Error, Kind, Result};
use tidemill_wit::descriptor::Descriptor;
use tidemill_wit::schema::TypeTable;

use super::compare::{Actual, Row, compare};
use super::components::Components;
use super::disk::MemoryDisk;
use super::life::{Life, Start, Timers};
use super::metrics::Found;
use super::report::{CaseReport, Failure, RunReport};
use crate::codec::{from_value, to_value};
use crate::runtime::recovery::Missing;
use crate::spec::case::{Action, Backend, Case, Record, Restore, Setup, Step};
use crate::spec::error::{Problem, SpecError};
use crate::spec::nearest::hint;
use crate::spec::plan::DEAD_LETTER;
use crate::state::{HAS_ROCKSDB, NO_ROCKSDB};
use crate::store::CheckpointStore;

/// Runs a case on all its backends and at all its batch sizes.
pub(super) fn all(case: &Case, components: &Components) -> CaseReport {
    let mut runs = Vec::new();
    for backend in &case.backends {
        for &batch_rows in &case.batch_rows {
            let failure = if backend.value == Backend::Rocksdb && !HAS_ROCKSDB {
                Some(Failure::whole(case, &backend.at, NO_ROCKSDB))
            } else {
                failure(case, components, (backend.value, batch_rows), !runs.is_empty()).map(|failure| *failure)
            };
            runs.push(RunReport { backend: backend.value.name(), batch_rows, failure });
        }
    }
    CaseReport::of(case, runs)
}

/// What is wrong in one run. Several elements are one batch or more, and it is not known which of them has failed: then the run is repeated
/// with each alone, which changes nothing else.
fn failure(case: &Case, components: &Components, shape: (Backend, usize), is_silent: bool) -> Option<Box<Failure>> {
    let failure = Run::new(case, components, shape, is_silent).run().err()?;
    let step = failure.step.and_then(|step| case.steps.get(step - 1));
    if !step.is_some_and(|step| matches!(step.action, Action::Element { .. } | Action::Broadcast { .. })) {
        return Some(failure);
    }
    Some(Run { alone: true, ..Run::new(case, components, shape, true) }.run().err().unwrap_or(failure))
}

/// One run of a case.
struct Run<'a> {
    case: &'a Case,
    components: &'a Components,
    batch_rows: usize,
    /// Whether each element is processed before the next one comes.
    alone: bool,
    clock: i64,
    /// What runs was started with; a crash goes back to it.
    start: Start,
    life: Option<Life>,
    /// Where the job failed, if it has.
    failed: Option<usize>,
    /// Where the input ended, if it has.
    ended: Option<usize>,
    snapshots: BTreeMap<String, CheckpointStore>,
    checkpoints: u64,
    output: Vec<Actual>,
}

type Outcome<T = ()> = Result<T, Box<Failure>>;

impl<'a> Run<'a> {
    fn new(case: &'a Case, components: &'a Components, (backend, batch_rows): (Backend, usize), is_silent: bool) -> Self {
        Self {
            case,
            components,
            batch_rows,
            alone: false,
            clock: 0,
            start: Start {
                disk: Arc::new(MemoryDisk::default()),
                setup: Setup { backend, ..case.setup.clone() },
                from: None,
                missing: Missing::Refused,
                is_silent,
            },
            life: None,
            failed: None,
            ended: None,
            snapshots: BTreeMap::new(),
            checkpoints: 0,
            output: Vec::new(),
        }
    }

    fn run(mut self) -> Outcome {
        let started = self.begin();
        // An expected error at the very beginning is about the start.
        let (mut index, mut outcome) = (0, started);
        let mut step = None;
        loop {
            let next = self.case.steps.get(index);
            if let Some(Step { action: Action::ExpectError(text), .. }) = next {
                self.check_error(index, outcome, text)?;
                index += 1;
            } else if let Err(error) = outcome {
                return Err(self.unexpected(step, &error));
            }
            let Some(Step { action, .. }) = self.case.steps.get(index) else { break };
            outcome = match action {
                Action::Expect { records, ordered } => self.expect(index, records, *ordered).map(Ok)?,
                Action::ExpectMetric(metrics) => self.expect_metrics(index, metrics).map(Ok)?,
                _ => self.perform(index, action),
            };
            step = Some(index);
            index += 1;
        }
        let last = self.case.steps.len().saturating_sub(1);
        match compare(&[], &self.output, true) {
            Some(rows) => Err(self.failure(last, "output that no step expects", rows)),
            None => Ok(()),
        }
    }

    fn check_error(&self, index: usize, outcome: Result<()>, text: &str) -> Outcome {
        let actual = match outcome {
            Ok(()) => "no error".to_owned(),
            Err(error) => error.chain(),
        };
        if actual.contains(text) && actual != "no error" {
            return Ok(());
        }
        let row = Row { expected: Some(text.to_owned()), actual: Some(actual), same: false };
        Err(self.failure(index, "the step before should have failed with this text", vec![row]))
    }

    /// A failure of a step, or of the start.
    fn unexpected(&self, step: Option<usize>, error: &Error) -> Box<Failure> {
        match step {
            Some(index) => self.failure(index, &error.chain(), Vec::new()),
            None => {
                let mut failure = Failure::whole(self.case, &self.case.setup.operator.component.at, &error.chain());
                failure.unfit = error.kind() == Kind::Config;
                Box::new(failure)
            }
        }
    }

    fn failure(&self, index: usize, message: &str, rows: Vec<Row>) -> Box<Failure> {
        let mut failure = self.case.steps.get(index).map_or_else(
            || Failure::whole(self.case, &self.case.setup.operator.component.at, message),
            |step| Failure::at_step(self.case, index, step, message),
        );
        failure.rows = rows;
        Box::new(failure)
    }

    fn perform(&mut self, index: usize, action: &Action) -> Result<()> {
        match action {
            Action::Element { time, value } | Action::Broadcast { time, value } => self.record(index, *time, value),
            Action::Watermark(watermark) => {
                self.input()?.watermark(*watermark);
                self.drive(index, Timers::Wait)
            }
            Action::ProcessingTime(time) => self.processing_time(index, *time),
            Action::Checkpoint(name) => {
                let store = self.snapshot(index, name)?;
                (self.start.from, self.start.missing) = (Some(store), Missing::Refused);
                Ok(())
            }
            Action::Savepoint(name) => self.snapshot(index, name).map(drop),
            Action::Crash => {
                self.life = None;
                let start = self.start.clone();
                self.live(index, &start)
            }
            Action::Restore(restore) => self.restore(index, restore),
            Action::Swap => Err(Error::config("the step `swap` is not yet supported")),
            Action::End => {
                self.input()?.end();
                self.ended = Some(index);
                self.drive(index, Timers::Wait)
            }
            Action::Expect { .. } | Action::ExpectError(_) | Action::ExpectMetric(_) => Ok(()),
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.life = Some(Life::start(self.case, &self.start, self.components, self.batch_rows)?);
        Ok(())
    }

    /// Records up to another kind of step are one stretch, which is cut into batches. One whose failure is expected is a stretch of its own:
    /// what fails fails its whole batch.
    fn record(&mut self, index: usize, time: Option<i64>, value: &Record) -> Result<()> {
        let action = |after: usize| self.case.steps.get(index + after).map(|step| &step.action);
        let is_broadcast = matches!(action(0), Some(Action::Broadcast { .. }));
        let goes_on = match action(1) {
            Some(Action::Element { .. }) => !is_broadcast,
            Some(Action::Broadcast { .. }) => is_broadcast,
            _ => false,
        };
        let last = self.alone || !goes_on || matches!(action(2), Some(Action::ExpectError(_)));
        let file = &self.case.file;
        let life = self.input()?;
        let payload = encode(file, life.descriptor(), is_broadcast, value)?;
        let source = if is_broadcast { life.broadcast() } else { life.source() };
        source.element(index as u64 + 1, time, payload);
        if last { self.drive(index, Timers::Wait) } else { Ok(()) }
    }

    fn processing_time(&mut self, index: usize, time: i64) -> Result<()> {
        if time < self.clock {
            return Err(Error::config(format!("the clock is at {} and does not go back to {time}", self.clock)));
        }
        self.clock = time;
        // After the end of its input a job ends: timers that are still pending do not fire.
        let timers = if self.ended.is_some() { Timers::Wait } else { Timers::Fire };
        if self.life.is_some() { self.drive(index, timers) } else { Ok(()) }
    }

    fn snapshot(&mut self, index: usize, name: &str) -> Result<CheckpointStore> {
        self.checkpoints += 1;
        let (checkpoint, clock) = (self.checkpoints, self.clock);
        let store = self.running()?.snapshot(checkpoint, clock);
        if store.is_err() {
            self.fail(index);
        }
        let store = store?;
        self.snapshots.insert(name.to_owned(), store.clone());
        Ok(store)
    }

    /// The old job goes on if the new one is refused.
    fn restore(&mut self, index: usize, restore: &Restore) -> Result<()> {
        let Some(store) = self.snapshots.get(&restore.from) else {
            let known = self.snapshots.keys().map(String::as_str);
            let hint = hint(&restore.from, known);
            return Err(Error::config(format!("there is no savepoint or checkpoint `{}`{hint}", restore.from)));
        };
        let missing = if restore.allow_non_restored_state { Missing::Dropped } else { Missing::Refused };
        let (setup, from) = (self.start.setup.changed(restore), Some(store.clone()));
        let start = Start { setup, from, missing, ..self.start.clone() };
        self.live(index, &start)
    }

    /// Begins a new life. Timers of the processing clock that are overdue fire.
    fn live(&mut self, index: usize, start: &Start) -> Result<()> {
        let life = Life::start(self.case, start, self.components, self.batch_rows);
        match life {
            Ok(life) => self.life = Some(life),
            Err(error) => {
                if self.life.is_none() {
                    self.failed = Some(index);
                }
                return Err(error);
            }
        }
        (self.failed, self.ended) = (None, None);
        self.start = start.clone();
        self.drive(index, Timers::Fire)
    }

    fn drive(&mut self, index: usize, timers: Timers) -> Result<()> {
        let clock = self.clock;
        let Some(life) = &mut self.life else { return Ok(()) };
        let driven = life.drive(clock, timers);
        // What was emitted before a failure counts.
        let emitted = read(life);
        self.output.extend(emitted?);
        if driven.is_err() {
            self.fail(index);
        }
        driven
    }

    fn fail(&mut self, index: usize) {
        self.life = None;
        self.failed = Some(index);
    }

    fn running(&mut self) -> Result<&mut Life> {
        let since = self.failed.and_then(|index| self.case.steps.get(index)).map_or_else(String::new, |step| {
            let (line, _) = crate::spec::case::line_of(&step.at);
            format!(" in line {line}")
        });
        self.life.as_mut().ok_or_else(|| Error::config(format!("the job has failed{since}: only `crash` and `restore` start it again")))
    }

    fn input(&mut self) -> Result<&Life> {
        if let Some(step) = self.ended.and_then(|index| self.case.steps.get(index)) {
            let (line, _) = crate::spec::case::line_of(&step.at);
            return Err(Error::config(format!("the input has ended in line {line}")));
        }
        self.running().map(|life| &*life)
    }

    fn expect(&mut self, index: usize, records: &[crate::spec::case::Expected], ordered: bool) -> Outcome {
        let output = std::mem::take(&mut self.output);
        if let Some(message) = records.iter().find_map(|record| self.unknown_lane(&record.lane)) {
            return Err(self.failure(index, &message, Vec::new()));
        }
        let Some(rows) = compare(records, &output, ordered) else { return Ok(()) };
        let unknown = records.iter().find_map(|record| record.value.unknown_field(self.lane_type(&record.lane)?));
        let message = unknown.map_or_else(
            || "the output is not as expected".to_owned(),
            |Problem { at, message }| SpecError::one(&*self.case.file, at, message).to_string(),
        );
        Err(self.failure(index, &message, rows))
    }

    fn lane_type(&self, name: &str) -> Option<&TypeTable> {
        let lanes = &self.life.as_ref()?.descriptor()?.lanes;
        lanes.iter().find(|lane| lane.name == name).map(|lane| &lane.schema)
    }

    /// What to say of a lane that the component does not have.
    fn unknown_lane(&self, lane: &str) -> Option<String> {
        let lanes = &self.life.as_ref()?.descriptor()?.lanes;
        let known: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).chain([DEAD_LETTER]).collect();
        let hint = hint(lane, known.iter().copied());
        (!known.contains(&lane)).then(|| format!("the component has no lane `{lane}`{hint}; it has {}", known.join(", ")))
    }

    fn expect_metrics(&self, index: usize, metrics: &[(String, u64)]) -> Outcome {
        let Some(life) = &self.life else { return Err(self.failure(index, "a job that has failed has no metrics", Vec::new())) };
        let row = |(name, expected): &(String, u64)| {
            let Found { value, shown } = life.metric(name);
            Row { expected: Some(format!("{name}: {expected}")), actual: Some(shown), same: value == Some(*expected) }
        };
        let rows: Vec<Row> = metrics.iter().map(row).collect();
        if rows.iter().all(|row| row.same) { Ok(()) } else { Err(self.failure(index, "the metrics are not as expected", rows)) }
    }
}

/// A record of the case `file` as the component takes it.
fn encode(file: &str, descriptor: Option<&Descriptor>, is_broadcast: bool, value: &Record) -> Result<Vec<u8>> {
    let descriptor = descriptor.ok_or_else(|| Error::config("the job has no component"))?;
    let (input, which) = match (&descriptor.broadcast, is_broadcast) {
        (Some(broadcast), true) => (broadcast, "broadcast input"),
        (None, true) => return Err(Error::config(format!("the component `{}` takes no broadcast records", descriptor.name))),
        (_, false) => (&descriptor.input, "input"),
    };
    let doing = |reason: &str| format!("the value does not fit the component's {which}: {reason}");
    if let Some(Problem { at, message }) = value.unknown_field(input) {
        return Err(SpecError::one(file, at, doing(&message)).into());
    }
    from_value(input, &value.json).map_err(|reason| Error::config(doing(&reason)))
}

/// What a job has emitted since it was last asked, as lanes and JSON.
fn read(life: &Life) -> Result<Vec<Actual>> {
    let declared = life.descriptor().map(|descriptor| descriptor.lanes.as_slice()).unwrap_or_default();
    let dead_letter = lanes::dead_letter_type();
    let record = |emission: super::emitted::Emission| {
        let (lane, ty) = match declared.get(emission.lane) {
            Some(lane) => (lane.name.as_str(), &lane.schema),
            None => (DEAD_LETTER, &dead_letter),
        };
        let value = to_value(ty, &emission.payload).map_err(|reason| Error::guest(format!("a record on lane {lane}: {reason}")))?;
        Ok(Actual { lane: lane.to_owned(), value, time: emission.time })
    };
    life.take_emitted().into_iter().map(record).collect()
}
