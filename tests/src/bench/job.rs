//! The whole stock-out job as a process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tidemill::clock::monotonic;
use tidemill::runtime::history::{self, Record};

use super::{median, stages};
use crate::cli::root;

/// What to run.
#[derive(Args, Debug)]
pub struct Options {
    /// The program.
    #[arg(long)]
    tidemill: PathBuf,
    /// The folder of the built components.
    #[arg(long)]
    guests: PathBuf,
    /// A folder for data and output.
    #[arg(long)]
    work: PathBuf,
    /// How often the job is run.
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// The state backends on which the whole job is run, in alternation.
    #[arg(long, default_value = "memory", value_delimiter = ',')]
    backends: Vec<String>,
}

const LINES: f64 = 1_200_000.0;
/// The job's folder.
const JOB: &str = "tidemill-data/stock-out";
/// Its own, so that it can be removed.
const CACHE: &str = "tidemill-data/stock-out/components";

/// Measures and prints.
///
/// # Errors
/// Something cannot be run.
pub fn run(options: &Options) -> Result<(), String> {
    fs::create_dir_all(&options.work).map_err(|error| error.to_string())?;
    throughput(options)?;
    let data = options.work.join("bulk");
    barriers(options, &data)?;
    forget(&data);
    stages::run(&data.join("job.yaml"), &data.join(CACHE))?;
    forget(&data);
    latencies(options)?;
    memory(options)
}

/// What some runs took.
#[derive(Default)]
struct Measured {
    seconds: Vec<f64>,
    /// In KiB.
    peak: u64,
    /// In bytes.
    state: u64,
}

/// 1.2 million lines, from start to exit.
#[expect(clippy::print_stdout, reason = "this is what the bench is for")]
fn throughput(options: &Options) -> Result<(), String> {
    let data = options.work.join("bulk");
    if !data.join("opening_stock.csv").exists() {
        let script = root().join("tests/peers/flink/bulk.py");
        let made = Command::new("python3").arg(script).arg(&data).args(["1200000", "121450", "2"]).stdout(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err("making the data with python3 failed".to_owned());
        }
    }
    write_spec(options, &data, "pos/pos-*.jsonl", "10s")?;
    let mut found: Vec<Measured> = options.backends.iter().map(|_| Measured::default()).collect();
    for _ in 0..options.repetitions {
        for (backend, found) in options.backends.iter().zip(&mut found) {
            forget(&data);
            let begin = monotonic();
            let mut run = Run::start(&options.tidemill, &data, &["--set", &format!("state.backend={backend}")])?;
            found.peak = found.peak.max(run.wait()?);
            found.seconds.push(begin.elapsed().as_secs_f64());
            found.state = state_bytes(&data);
        }
    }
    for (backend, Measured { seconds, peak, state }) in options.backends.iter().zip(found) {
        let each: Vec<_> = seconds.iter().map(|seconds| format!("{seconds:.2}")).collect();
        let seconds = median(seconds);
        println!("whole job on {backend}, 1.2 M lines, 121,450 keys, 2 workers, start to exit: {} s", each.join(", "));
        println!("  median {seconds:.2} s: {:.0} lines/s; peak memory {} MiB; state {} MiB", LINES / seconds, peak >> 10, state >> 20);
    }
    Ok(())
}

/// What checkpoints take while the job has all the lines it can process.
#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "this is what the bench is for")]
fn barriers(options: &Options, data: &Path) -> Result<(), String> {
    for backend in &options.backends {
        forget(data);
        let state = format!("state.backend={backend}");
        Run::start(&options.tidemill, data, &["--set", &state, "--set", "checkpoints.interval=1s"])?.wait()?;
        let records = history::read(&data.join(JOB)).map_err(|error| error.chain())?;
        let sorted = |of: fn(&Record) -> u64| -> Vec<f64> {
            let mut all: Vec<f64> = records.iter().map(|record| of(record) as f64 / 1e3).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (stopped, aligned) = (sorted(Record::stopped_us), sorted(Record::aligned_us));
        let took = sorted(|record| record.duration_ms * 1_000);
        let line = |all: &[f64]| format!("{:.1} ms, at most {:.1} ms", median(all.to_vec()), all.last().copied().unwrap_or(f64::NAN));
        println!("{} checkpoints of the whole job on {backend}, one a second, in the median", records.len());
        println!("  a worker stood still {}; waited for barriers {}; start to commit {}", line(&stopped), line(&aligned), line(&took));
        let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>() >> 20;
        println!("  {} MiB were written for {} MiB of state", sum(|record| record.uploaded_bytes), sum(|record| record.bytes));
    }
    Ok(())
}

/// How long until the first record is read, and until a killed job runs again.
#[expect(clippy::print_stdout, reason = "this is what the bench is for")]
fn latencies(options: &Options) -> Result<(), String> {
    let data = options.work.join("day");
    larkspur::generate(&data, 29, 1).map_err(|error| error.to_string())?;
    write_spec(options, &data, "pos-*.jsonl", "100ms")?;
    let slow = ["--set", "sources.pos-baskets.max_rate=2000"];
    for (what, cached) in [("without compiled components", false), ("with compiled components", true)] {
        forget(&data);
        if !cached {
            _ = fs::remove_dir_all(data.join("tidemill-data"));
        }
        let begin = monotonic();
        let mut run = Run::start(&options.tidemill, &data, &slow)?;
        run.until(|line| line["records_in"].as_u64().is_some_and(|records| records > 0))?;
        println!("cold start {what}, to the first look at progress with records: {} ms", begin.elapsed().as_millis());
        run.kill();
    }
    let mut run = Run::start(&options.tidemill, &data, &slow)?;
    run.until(|line| line["checkpoint"].as_u64().is_some_and(|id| id > 2))?;
    run.kill();
    let begin = monotonic();
    let mut run = Run::start(&options.tidemill, &data, &slow)?;
    run.until(|line| line["message"].as_str().is_some_and(|text| text.starts_with("resumed")))?;
    let resumed = begin.elapsed();
    run.until(|line| line["message"] == "progress")?;
    println!("recovery after SIGKILL: resumed after {} ms, seen running after {} ms", resumed.as_millis(), begin.elapsed().as_millis());
    run.kill();
    Ok(())
}

/// Peak memory as the day grows.
#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "this is what the bench is for")]
fn memory(options: &Options) -> Result<(), String> {
    let mut peaks = Vec::new();
    for scale in [5, 20] {
        let data = options.work.join(format!("scale-{scale}"));
        larkspur::generate(&data, 29, scale).map_err(|error| error.to_string())?;
        write_spec(options, &data, "pos-*.jsonl", "1s")?;
        forget(&data);
        // Compiling takes more memory than a small job, so the first start only compiles.
        let mut run = Run::start(&options.tidemill, &data, &[])?;
        run.until(|line| line["message"].as_str().is_some_and(|text| text.starts_with("started")))?;
        run.kill();
        forget(&data);
        let mut run = Run::start(&options.tidemill, &data, &[])?;
        let peak = run.wait()?;
        let mut keys = 0;
        run.until(|line| {
            keys = line["keys"].as_u64().unwrap_or(keys).max(keys);
            false
        })
        .err();
        println!("scale {scale}: peak memory {} MiB, {keys} live keys, {} MiB of state", peak >> 10, state_bytes(&data) >> 20);
        peaks.push((peak << 10, keys));
        _ = fs::remove_dir_all(&data);
    }
    if let [(small, _), (large, keys)] = peaks.as_slice() {
        let beyond = (*large as f64 - 1.2 * *small as f64).max(0.0);
        println!("  scale 20 is 1.2 times scale 5 and {:.0} bytes for each of its live keys", beyond / (*keys).max(1) as f64);
    }
    Ok(())
}

fn write_spec(options: &Options, data: &Path, files: &str, interval: &str) -> Result<(), String> {
    let guests = fs::canonicalize(&options.guests).map_err(|error| format!("{}: {error}", options.guests.display()))?;
    let spec = fs::read_to_string(root().join("examples/larkspur/job.yaml")).map_err(|error| error.to_string())?;
    let spec = spec.replace("../../target/guests/", &format!("{}/", guests.display())).replace("data/pos-*.jsonl", files);
    let spec = spec.replace("data/opening_stock.csv", "opening_stock.csv").replace("interval: 1s", &format!("interval: {interval}"));
    let spec: String = spec.lines().filter(|line| !line.contains("max_rate")).map(|line| format!("{line}\n")).collect();
    fs::write(data.join("job.yaml"), spec).map_err(|error| error.to_string())
}

/// Removes output and checkpoints, but not the compiled components.
fn forget(data: &Path) {
    _ = fs::remove_dir_all(data.join("out"));
    _ = fs::remove_dir_all(data.join(JOB).join("checkpoints"));
    for name in ["history.jsonl", "history-old.jsonl"] {
        _ = fs::remove_file(data.join(JOB).join(name));
    }
}

fn state_bytes(data: &Path) -> u64 {
    let checkpoints = fs::read_dir(data.join(JOB).join("checkpoints")).into_iter().flatten().flatten();
    let files = checkpoints.flat_map(|dir| fs::read_dir(dir.path()).into_iter().flatten().flatten());
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The program at work, with its log.
pub(super) struct Run {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Run {
    /// Starts the job of `job.yaml` in a folder.
    pub(super) fn start(program: &Path, data: &Path, extra: &[&str]) -> Result<Self, String> {
        let program = fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))?;
        let mut command = Command::new(program);
        command
            .args(["run", "job.yaml", "--log-format", "json", "--cache-dir", CACHE])
            .args(extra)
            .current_dir(data)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let log = child.stderr.take().map(BufReader::new).ok_or("no log")?;
        Ok(Self { child, log })
    }

    /// The number of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads the log until a line is found.
    pub(super) fn until(&mut self, mut found: impl FnMut(&Value) -> bool) -> Result<(), String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.log.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err("the job ended before what was waited for".to_owned());
            }
            if found(&serde_json::from_str(&line).unwrap_or(Value::Null)) {
                return Ok(());
            }
        }
    }

    /// Waits for the end; returns the peak memory in KiB, read while the process lived.
    fn wait(&mut self) -> Result<u64, String> {
        let status = format!("/proc/{}/status", self.child.id());
        let mut peak = 0;
        loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(peak);
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return if status.success() { Ok(peak) } else { Err(format!("the job ended with {status}")) };
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    pub(super) fn kill(mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
