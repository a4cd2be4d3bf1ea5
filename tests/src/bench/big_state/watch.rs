//! One run of the job, watched from outside.

use std::fs;
use std::path::Path;

use tidemill::clock::monotonic;
use tidemill::runtime::history::{self, Outcome, Record};

use super::data::Size;
use crate::bench::job::Run;

/// Rates are measured after this part of the updates, in percent: until then the cache learns which keys are in use.
const WARM_UP: u64 = 30;

/// What a run showed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Records a second until all keys had come.
    pub(super) load_rate: f64,
    /// Records a second during the updates.
    pub(super) update_rate: f64,
    /// Microseconds of processor time for a record of the updates, in all threads.
    pub(super) update_cost: f64,
    /// Resident memory in bytes before the first record.
    pub(super) memory_first: u64,
    /// Resident memory in bytes when all keys had come.
    pub(super) memory_loaded: u64,
    /// Resident memory in bytes at most.
    pub(super) memory_peak: u64,
    /// The checkpoints since all keys had come.
    pub(super) checkpoints: Vec<Record>,
}

/// Watches a run until nearly all records of the files have been read, and ends it.
pub(super) fn watch(mut run: Run, size: Size, job: &Path) -> Result<Seen, String> {
    let begin = monotonic();
    let (mut seen, mut curve, mut newest) = (Seen::default(), vec![Look::default()], None);
    let [warm, end] = [WARM_UP, 99].map(|percent| size.keys + size.updates * percent / 100);
    let process = run.id();
    run.until(|line| {
        if line["message"] != "progress" {
            if line["message"].as_str().is_some_and(|text| text.starts_with("started")) {
                seen.memory_first = memory(process).0;
            }
            return false;
        }
        let read = line["records_in"].as_u64().unwrap_or(0);
        curve.push(Look { read, seconds: begin.elapsed().as_secs_f64(), processor: processor_seconds(process) });
        let (now, peak) = memory(process);
        seen.memory_peak = peak;
        if read >= size.keys && newest.is_none() {
            (seen.memory_loaded, newest) = (now, line["checkpoint"].as_u64());
        }
        read >= end
    })?;
    run.kill();
    // There is none before the first checkpoint.
    let records = history::read(job).unwrap_or_default();
    seen.checkpoints =
        records.into_iter().filter(|record| record.id > newest.unwrap_or(0) && record.outcome == Outcome::Completed).collect();
    let first = curve.iter().rfind(|look| look.read == 0).map_or(0.0, |look| look.seconds);
    let [loaded, warm, end] = [size.keys, warm, end].map(|read| Look::at(&curve, read));
    seen.load_rate = per(loaded.read, loaded.seconds - first);
    seen.update_rate = per(end.read - warm.read, end.seconds - warm.seconds);
    seen.update_cost = 1e6 / per(end.read - warm.read, end.processor - warm.processor);
    Ok(seen)
}

/// How far the job was at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    read: u64,
    seconds: f64,
    processor: f64,
}

impl Look {
    /// When so many records had been read, taking the rate between two looks as even.
    #[expect(clippy::cast_precision_loss, reason = "a measurement")]
    fn at(curve: &[Self], read: u64) -> Self {
        let after = curve.partition_point(|look| look.read < read);
        let (Some(low), Some(high)) = (curve.get(after.saturating_sub(1)), curve.get(after)) else {
            return Self { read, seconds: f64::NAN, processor: f64::NAN };
        };
        let part = (read - low.read) as f64 / (high.read - low.read).max(1) as f64;
        let between = |low: f64, high: f64| low + (high - low) * part;
        Self { read, seconds: between(low.seconds, high.seconds), processor: between(low.processor, high.processor) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a measurement")]
fn per(records: u64, seconds: f64) -> f64 {
    records as f64 / seconds
}

/// The processor time that a process has used, in seconds: Linux counts it in hundredths.
#[expect(clippy::cast_precision_loss, reason = "a measurement")]
fn processor_seconds(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name, which may have blanks in it, the 12th and 13th field are user and system time.
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() as f64 / 100.0
}

/// How much memory of a process is resident, and was at most, in bytes.
fn memory(process: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let find = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
    };
    (find("VmRSS:"), find("VmHWM:"))
}
