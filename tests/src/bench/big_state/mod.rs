//! State larger than memory: millions of keys with a timer each, updated by Zipf's law, within ever less memory.

mod data;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tidemill::runtime::history::Record;

use self::data::{AFTER, FILES, Size};
use self::watch::{Seen, watch};
use super::job::Run;
use super::median;

/// What to run.
#[derive(Args, Debug)]
pub struct Options {
    /// The program, built with `RocksDB`.
    #[arg(long)]
    tidemill: PathBuf,
    /// The folder of the built components.
    #[arg(long)]
    guests: PathBuf,
    /// A folder for data and state.
    #[arg(long)]
    work: PathBuf,
    /// How many keys there are. There are twice as many updates.
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// How many times the memory's size the working set has; each number is a row of the result.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0, 5.0])]
    ratios: Vec<f64>,
    /// What else the job spec is to say, as for `--set` of `tidemill run`.
    #[arg(long)]
    set: Vec<String>,
}

/// How much a process may take beyond what the spec gives to its state.
const BEYOND: u64 = 300 << 20;
/// How fast it must be with five times too little memory, as a part of its speed with twice as much as it needs.
const GOAL: f64 = 0.4;

/// Measures and prints.
///
/// # Errors
/// Something cannot be run.
#[expect(clippy::print_stdout, reason = "this is what the bench is for")]
pub fn run(options: &Options) -> Result<(), String> {
    fs::create_dir_all(&options.work).map_err(|error| error.to_string())?;
    let size = Size { keys: options.keys, updates: options.keys * 2 };
    size.write(&options.work).map_err(|error| format!("writing the readings: {error}"))?;
    println!(
        "{} keys of 60 bytes with a timer each, {} updates by Zipf's law (s = 1) that move the timer; {FILES} workers, checkpoints every 5 s",
        size.keys, size.updates
    );
    let memory = start(options, "memory", None).and_then(|run| watch(run, size, &job(&options.work)))?;
    let working_set = memory.memory_loaded.saturating_sub(memory.memory_first);
    println!(
        "working set: {} MiB, {} bytes a key, by what the process takes with all of it in memory; there {:.0} records/s, {:.2} us of \
         processor time a record, without checkpoints",
        working_set >> 20,
        working_set / size.keys.max(1),
        memory.update_rate,
        memory.update_cost
    );
    print_head();
    let mut first = None;
    for &ratio in &options.ratios {
        let budget = budget(working_set, ratio);
        let seen = start(options, "rocksdb", Some(budget)).and_then(|run| watch(run, size, &job(&options.work)))?;
        let first = *first.get_or_insert(seen.update_rate);
        print_row(ratio, budget, &seen, first);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the bench is for")]
fn print_head() {
    println!(
        "{:>8} {:>11} {:>12} {:>13} {:>10} {:>12} {:>17} {:>12} {:>20} {:>18}",
        "ratio",
        "memory MiB",
        "load keys/s",
        "records/s",
        "of first",
        "CPU us each",
        "peak memory MiB",
        "checkpoints",
        "new of all MiB each",
        "stopped ms, most"
    );
}

#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "this is what the bench is for")]
fn print_row(ratio: f64, budget: u64, seen: &Seen, first: f64) {
    let count = seen.checkpoints.len().max(1) as u64;
    let mean = |of: fn(&Record) -> u64| seen.checkpoints.iter().map(of).sum::<u64>() / count;
    let (new, full) = (mean(|record| record.uploaded_bytes), mean(|record| record.bytes));
    let stopped: Vec<f64> = seen.checkpoints.iter().map(|record| record.stopped_us() as f64 / 1e3).collect();
    let most = stopped.iter().copied().fold(0.0, f64::max);
    let part = seen.update_rate / first;
    println!(
        "{ratio:>8} {:>11} {:>12.0} {:>13.0} {:>9.0}% {:>12.2} {:>17} {:>12} {:>10} of {:>6} {:>11.1} {:>6.1}",
        budget >> 20,
        seen.load_rate,
        seen.update_rate,
        part * 100.0,
        seen.update_cost,
        seen.memory_peak >> 20,
        seen.checkpoints.len(),
        new >> 20,
        full >> 20,
        median(stopped),
        most
    );
    if seen.memory_peak > budget + BEYOND {
        println!("  over its memory by more than {} MiB", BEYOND >> 20);
    }
    if ratio <= 5.0 && part < GOAL {
        println!("  less than {:.0} % of the first row", GOAL * 100.0);
    }
}

/// The memory of which the working set is `ratio` times as large.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes, about")]
fn budget(working_set: u64, ratio: f64) -> u64 {
    (working_set as f64 / ratio) as u64
}

/// The job's folder.
fn job(work: &Path) -> PathBuf {
    work.join("tidemill-data/big-state")
}

/// Starts the job from nothing.
fn start(options: &Options, backend: &str, memory: Option<u64>) -> Result<Run, String> {
    let guests = fs::canonicalize(&options.guests).map_err(|error| format!("{}: {error}", options.guests.display()))?;
    let (memory, interval) = memory.map_or((String::new(), "1h"), |bytes| (format!(", memory: {bytes}"), "5s"));
    let spec = format!(
        "name: big-state\nparallelism: {FILES}\nstate: {{ backend: {backend}{memory} }}\ncheckpoints: {{ interval: {interval} }}\n\
         sources:\n  - uid: readings\n    file: {{ path: \"readings-*.jsonl\", format: json, follow: true }}\n    timestamp: at\n    \
         watermark: {{ bounded_out_of_orderness: 1s }}\n\
         operators:\n  - uid: quiet\n    input: readings\n    key_by: [device]\n    component: {}\n    parameters: {{ after: {}m }}\n\
         sinks:\n  - {{ uid: quiet-file, input: quiet, file: {{ path: out/quiet, format: json }} }}\n",
        guests.join("quiet.wasm").display(),
        AFTER / 60_000
    );
    fs::write(options.work.join("job.yaml"), spec).map_err(|error| error.to_string())?;
    for folder in ["out", "tidemill-data"] {
        _ = fs::remove_dir_all(options.work.join(folder));
    }
    let set: Vec<&str> = options.set.iter().flat_map(|set| ["--set", set]).collect();
    Run::start(&options.tidemill, &options.work, &set)
}
