//! What happens when a call fails.

use tidemill_wit::descriptor::Descriptor;

use super::site::{panic_site, site};
use super::{Env, Operator};
use crate::batch::{Batch, Origin};
use crate::detector::Failure;
use crate::error::Site;
use crate::sample::Sample;
use crate::schema::lanes::{DeadLetter, encode_dead_letter};
use crate::schema::{json_text, key_text};
use crate::state::DueTimers;
use crate::time::Domain;
use crate::{Error, Kind, Result, Timestamp};

/// So many calls in a row may run into their deadline before the job fails, so that a looping guest cannot hold up barriers for minutes.
const MAX_DEADLINES_IN_A_ROW: u32 = 8;

/// What happens to a bad record or timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job fails, and restarts from its last checkpoint.
    #[default]
    Fail,
    /// It goes to the dead-letter lane; the rest of its batch is unharmed.
    DeadLetter,
}

/// How a call can fail.
#[derive(Debug)]
pub(super) enum CallError {
    /// The detector failed: nothing of the call has happened, and the failure may be a row's.
    Detector(Failure),
    /// The host failed, possibly amid applying what the detector gave: the job must fail.
    Host(Error),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::Detector(failure)
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

impl Operator {
    /// Makes the instance usable again after a failure, and gives the failure back.
    pub(super) fn after_failure(&mut self, failure: Failure) -> Result<Failure> {
        match &failure {
            Failure::BadRecord { .. } | Failure::Fatal(_) => return Ok(failure),
            Failure::CutShort => {}
            Failure::Trap(_) => self.deadlines_in_a_row = 0,
            Failure::Machine(reason) => return Err(Error::new(Kind::Machine, format!("operator {}: {reason}", self.settings.uid))),
            Failure::Deadline(reason) => {
                self.deadlines_in_a_row += 1;
                if self.deadlines_in_a_row >= MAX_DEADLINES_IN_A_ROW {
                    let uid = &self.settings.uid;
                    return Err(Error::guest(format!(
                        "operator {uid}: {MAX_DEADLINES_IN_A_ROW} calls in a row did not end in time: {reason}"
                    )));
                }
            }
        }
        self.reopen()?;
        Ok(failure)
    }

    /// The detector says that the job must fail, at this row.
    pub(super) fn fatal(&self, at: &str, reason: &str) -> Error {
        Error::guest(format!("operator {}: {at} made it give up: {reason}", self.settings.uid))
    }

    /// Where a failure comes from that a record (or what is written in `record`) led to.
    pub(super) fn site(&self, reason: &str, record: &str, origin: Origin) -> Site {
        let record_of = (origin.source != Origin::NONE.source).then_some(origin);
        Site { what: site(&self.settings.uid, reason, record), record: record_of, timer: None }
    }

    /// Where a failure comes from that a timer led to. Components are pure, so one that failed fails again until the job has got past its
    /// time, whatever it says of its key. Only a deadline may be kept the next time: then the text tells which failure it was.
    pub(super) fn site_of_timer(&self, domain: Domain, due: &DueTimers, failure: &Failure) -> Site {
        let (uid, at) = (&self.settings.uid, self.timer_at(domain, due));
        match failure {
            Failure::Deadline(reason) => self.site(reason, &at, Origin::NONE),
            Failure::BadRecord { reason, .. } | Failure::Fatal(reason) | Failure::Trap(reason) | Failure::Machine(reason) => {
                let what = panic_site(uid, reason).unwrap_or_else(|| format!("operator {uid}: {}-time timers", domain_name(domain)));
                Site { what, record: None, timer: due.timestamp.first().copied() }
            }
            Failure::CutShort => Site { what: format!("operator {uid}"), record: None, timer: None },
        }
    }

    /// As [`site`](Self::site), of a record of a batch.
    pub(super) fn site_of(&self, batch: &Batch, row: usize, reason: &str) -> Site {
        self.site(reason, &self.json_of(batch, row), batch.origin.get(row).copied().unwrap_or(Origin::NONE))
    }

    /// A record as JSON.
    fn json_of(&self, batch: &Batch, row: usize) -> String {
        let Descriptor { input, broadcast, .. } = self.settings.factory.descriptor();
        let taken = broadcast.as_ref().filter(|_| batch.broadcast).unwrap_or(input);
        json_text(taken, batch.payload.get(row))
    }

    pub(super) fn host_failure(&self, error: Error) -> Error {
        error.while_doing(format!("operator {}", self.settings.uid))
    }

    /// An output record cannot be sent.
    pub(super) fn output_failure(&self, error: Error, origin: Origin) -> Error {
        error.while_doing(format!("sending what came of {}", self.record_of(origin)))
    }

    /// A record in words.
    pub(super) fn record_at(&self, batch: &Batch, row: usize) -> String {
        self.record_of(batch.origin.get(row).copied().unwrap_or(Origin::NONE))
    }

    /// Key and time of a record, in parentheses; empty if it has neither.
    pub(super) fn details_of(&self, batch: &Batch, row: usize) -> String {
        let key = self.settings.factory.descriptor().key.as_ref().filter(|_| self.settings.keyed && !batch.broadcast);
        let key = key.map(|ty| format!("key {}", short(key_text(ty, batch.key.get(row)))));
        let time = batch.time_of(row).map(|time| format!("timestamp {time}"));
        let details: Vec<String> = key.into_iter().chain(time).collect();
        if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) }
    }

    fn record_of(&self, origin: Origin) -> String {
        let place = self.settings.splits.place(origin);
        place.map_or_else(|| "a record that a timer emitted".to_owned(), |(source, at)| format!("the record at {at} of source {source}"))
    }

    /// The first of due timers in words.
    pub(super) fn timer_at(&self, domain: Domain, due: &DueTimers) -> String {
        let time = due.timestamp.first().copied().unwrap_or(0);
        format!("the {}-time timer at {time} of key {}", domain_name(domain), self.key_of_first(due))
    }

    fn key_of_first(&self, due: &DueTimers) -> String {
        let key = due.slots.get(due.slot.first().copied().unwrap_or(0) as usize);
        self.settings.factory.descriptor().key.as_ref().map_or_else(String::new, |ty| key_text(ty, key.bytes))
    }

    /// Hands a bad record to the error policy.
    pub(super) fn bad_record(&mut self, batch: &Batch, row: usize, reason: &str, env: &mut Env<'_>) -> Result<()> {
        let origin = batch.origin.get(row).copied().unwrap_or(Origin::NONE);
        if self.settings.on_error == OnError::Fail {
            let at = self.record_at(batch, row);
            let details = self.details_of(batch, row);
            let error = Error::guest(format!("operator {}: {at} is bad: {reason}{details}", self.settings.uid));
            return Err(error.at(self.site_of(batch, row, reason)));
        }
        if batch.broadcast && self.subtask > 0 {
            // All subtasks find the same record bad: one letter is enough.
            return Ok(());
        }
        let place = self.settings.splits.place(origin);
        let value = self.json_of(batch, row);
        let (source, position) = place.unzip();
        let what = self.record_at(batch, row) + &self.details_of(batch, row);
        self.dead_letter(
            what,
            &DeadLetter {
                operator: &self.settings.uid.clone(),
                reason,
                source: source.as_deref(),
                position: position.as_deref(),
                timestamp: batch.time_of(row),
                value: &value,
            },
            env,
            origin,
        )
    }

    /// Hands a bad timer to the error policy; it is gone either way. `site` is where its failure comes from.
    pub(super) fn bad_timer(&mut self, domain: Domain, due: &DueTimers, reason: &str, site: Site, env: &mut Env<'_>) -> Result<()> {
        if self.settings.on_error == OnError::Fail {
            let at = self.timer_at(domain, due);
            let error = Error::guest(format!("operator {}: {at} failed: {reason}", self.settings.uid));
            return Err(error.at(site));
        }
        let what = self.timer_at(domain, due);
        let (time, key, domain_name) = (due.timestamp.first().copied().unwrap_or(0), self.key_of_first(due), domain_name(domain));
        self.reads.state.remove_timers(domain, due, 1)?;
        let value = format!("{{\"domain\":\"{domain_name}\",\"timestamp\":{time},\"key\":{key}}}");
        // As with other output, what comes of a processing-time timer has no event time.
        let timestamp = (domain == Domain::Event).then_some(time);
        let letter = DeadLetter { operator: &self.settings.uid.clone(), reason, source: None, position: None, timestamp, value: &value };
        self.dead_letter(what, &letter, env, Origin::timer(time))
    }

    fn dead_letter(&mut self, what: String, letter: &DeadLetter<'_>, env: &mut Env<'_>, origin: Origin) -> Result<()> {
        self.metrics.dead_letters += 1;
        self.dead_letter_samples.add(Sample { place: what, reason: letter.reason.to_owned() });
        let mut payload = Vec::new();
        encode_dead_letter(letter, &mut payload);
        env.outputs.push(self.settings.dead_letter_lane(), &payload, letter.timestamp.map(|time| Timestamp(time).0), origin)
    }
}

/// A key for a message: one that is long is cut.
fn short(key: String) -> String {
    const MOST: usize = 200;
    if key.len() <= MOST { key } else { format!("{}..", key.get(..key.floor_char_boundary(MOST)).unwrap_or_default()) }
}

fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Event => "event",
        Domain::Processing => "processing",
    }
}
