//! The real binary, its components and the oracle, for black-box tests.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::witness::Witness;

/// How long anything may take before a test gives up: far more than it needs, also on a machine that is busy with ten other things.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Lets the job of [`Workplace::larkspur`] wait at the end of its input, so that it runs for as long as the test wants, whatever the machine.
/// [`Workplace::complete`] ends it.
pub const FOLLOW: &str = "sources.pos-baskets.file.follow=true";

/// The folder of compiled components in a [`Workplace`].
pub const CACHE: &str = "cache";

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The program, built with the tests.
///
/// # Panics
/// It is not there.
#[must_use]
pub fn tidemill() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    let binary = test.ancestors().nth(2).map(|dir| dir.join("tidemill")).unwrap_or_default();
    assert!(binary.exists(), "{} is missing: run `cargo build --release --workspace` first", binary.display());
    binary
}

/// A built component.
///
/// # Panics
/// It is not there.
#[must_use]
pub fn component(name: &str) -> PathBuf {
    let path = root().join("target/guests").join(name).with_extension("wasm");
    assert!(path.exists(), "{} is missing: run scripts/build-guests.sh first", path.display());
    path
}

/// A folder with a job, in which the program runs.
#[derive(Debug)]
pub struct Workplace {
    dir: TempDir,
    /// What was there before a job was started, by its process: it may not have changed it.
    witnesses: Mutex<HashMap<u32, Witness>>,
}

/// What a finished process left.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

impl Ended {
    /// The exit code; -1 for a signal.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Asserts the exit code and that the error output contains all of these.
    ///
    /// # Panics
    /// It does not.
    pub fn expect(&self, code: i32, texts: &[&str]) -> &Self {
        assert_eq!(self.code(), code, "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text) || self.stdout.contains(text), "{text:?} is missing in {self:#?}");
        }
        // A panic of the host; those of guests are logged without a thread.
        assert!(!self.stderr.contains("thread '"), "{self:#?}");
        self
    }
}

impl Default for Workplace {
    fn default() -> Self {
        Self::new()
    }
}

/// Processes that a test has left running in the folder, since it failed, end with it: a job that follows its input would run for ever.
impl Drop for Workplace {
    fn drop(&mut self) {
        let Ok(folder) = self.dir.path().canonicalize() else { return };
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let is_ours = fs::read_link(process.path().join("cwd")).is_ok_and(|path| path.starts_with(&folder));
            if is_ours {
                _ = Command::new("kill").arg("-KILL").arg(process.file_name()).status();
            }
        }
    }
}

impl Workplace {
    /// An empty folder.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder"), witnesses: Mutex::default() }
    }

    /// A folder with a Larkspur day and the stock-out job, unthrottled, with checkpoints every 50 ms.
    ///
    /// # Panics
    /// The day cannot be written.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn larkspur() -> Self {
        let place = Self::new();
        larkspur::generate(&place.path("data"), 29, 1).expect("a day");
        let spec = fs::read_to_string(root().join("examples/larkspur/job.yaml")).expect("the job spec");
        let spec = spec.replace("../../target/guests/", &format!("{}/", root().join("target/guests").display()));
        let spec: String = spec.lines().filter(|line| !line.contains("max_rate")).map(|line| format!("{line}\n")).collect();
        place.write("job.yaml", spec.replace("interval: 1s", "interval: 50ms"));
        place
    }

    /// A folder with a job of one component that passes records on, or misbehaves when they tell it to. It reads `in/*.jsonl`, and writes to
    /// `out/main` and `out/dead`; checkpoints and restarts follow within milliseconds.
    ///
    /// # Panics
    /// The component is not built.
    #[must_use]
    pub fn picky(more_of_the_source: &str) -> Self {
        let place = Self::new();
        place.write(
            "job.yaml",
            format!(
                "name: picky\ncheckpoints: {{ interval: 50ms }}\nrestart: {{ strategy: exponential-delay, initial: 10ms, max: 20ms }}\n\
                 sources:\n  - uid: in\n    file: {{ path: \"in/*.jsonl\", format: json{more_of_the_source} }}\n    timestamp: ts\n\
                 operators:\n  - uid: picky\n    input: in\n    key_by: [id]\n    component: {}\n\
                 sinks:\n  - {{ uid: out, input: picky, file: {{ path: out/main, format: json }} }}\n\
                 \x20 - {{ uid: dead, input: picky.dead-letter, file: {{ path: out/dead, format: json }} }}\n",
                component("picky").display()
            ),
        );
        place
    }

    /// Lets the input of [`larkspur`](Self::larkspur) have so many hundredths of the day, more each time: what a test waits for after more
    /// was given has come of it.
    ///
    /// # Panics
    /// The files cannot be read or written.
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn give(&self, hundredths: usize) {
        if !self.path("day").exists() {
            fs::rename(self.path("data"), self.path("day")).expect("the day");
            self.write("data/opening_stock.csv", fs::read(self.path("day/opening_stock.csv")).expect("the opening stock"));
        }
        for name in self.names("day").into_iter().filter(|name| name.starts_with("pos-")) {
            let text = fs::read_to_string(self.path("day").join(&name)).expect("a file of the day");
            let mut file = fs::OpenOptions::new().create(true).append(true).open(self.path("data").join(name)).expect("input");
            let given = usize::try_from(file.metadata().expect("its length").len()).expect("a short file");
            let lines = text.lines().count() * hundredths / 100;
            let end: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
            file.write_all(text.as_bytes().get(given..end).unwrap_or_default()).expect("more input");
        }
    }

    /// A path in the folder.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// It cannot be written.
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// The program with these arguments, in the folder.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tidemill());
        command.args(arguments);
        self.prepare(&mut command);
        command
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    /// It cannot be started, or does not end.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.finish(self.start(arguments))
    }

    /// Starts the program; its output goes to files in the folder.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.spawn(self.command(arguments))
    }

    /// As [`start`](Self::start), under a soft limit of the shell, such as `-f 256`: no file longer than so many KiB.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start_limited(&self, limit: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit -S {limit}; exec \"$0\" \"$@\"")]).arg(tidemill()).args(arguments);
        self.prepare(&mut command);
        self.spawn(command)
    }

    /// In the folder, and with a cache of compiled components in it, so that nothing outside of it matters.
    fn prepare(&self, command: &mut Command) {
        command.current_dir(self.dir.path()).env("RUST_BACKTRACE", "0").env("TIDEMILL_CACHE_DIR", self.path(CACHE));
    }

    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    fn spawn(&self, mut command: Command) -> Child {
        let runs = command.get_args().any(|argument| argument == "run");
        let witness = if runs { Witness::of(self.dir.path()) } else { Witness::default() };
        let file = |name: &str| Stdio::from(fs::File::create(self.path(name)).expect("a file for output"));
        command.stdout(file("stdout.log")).stderr(file("stderr.log")).stdin(Stdio::null());
        let child = command.spawn().expect("the program");
        self.witnesses.lock().expect("no test goes on after a panic").insert(child.id(), witness);
        child
    }

    /// Waits for the end of what [`start`](Self::start) began.
    ///
    /// # Panics
    /// It does not end.
    #[must_use]
    #[expect(clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "a test cannot go on, and must not for ever")]
    pub fn finish(&self, mut child: Child) -> Ended {
        let (mut status, begin) = (None, Instant::now());
        while status.is_none() {
            if begin.elapsed() > PATIENCE {
                // It would go on for ever, and fill the disk.
                _ = child.kill();
                panic!("waited too long until the program ends: {}", fs::read_to_string(self.path("stderr.log")).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(2));
            status = child.try_wait().expect("a child");
        }
        if let Some(witness) = self.witnesses.lock().expect("no test goes on after a panic").remove(&child.id()) {
            witness.check().expect("a start changes nothing that it may restore");
        }
        let read = |name: &str| String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned();
        Ended { status: status.expect("an end"), stdout: read("stdout.log"), stderr: read("stderr.log") }
    }

    /// Stops the job of [`larkspur`](Self::larkspur), which [follows](FOLLOW) its input, lets it come to the end of the day with these options,
    /// and compares with the batch answer. Returns what the stopped process left.
    ///
    /// # Panics
    /// It does not stop or not finish, or the answer is another.
    pub fn complete(&self, child: Child, more: &[&str]) -> Ended {
        signal(&child, "-INT");
        let stopped = self.finish(child);
        stopped.expect(0, &["stopped at checkpoint"]);
        self.run(&[&["run", "job.yaml"], more].concat()).expect(0, &["resumed from checkpoint", "finished"]);
        self.check_with_oracle();
        stopped
    }

    /// Polls until something is so.
    ///
    /// # Panics
    /// It does not become so within [`PATIENCE`]; what the program has said is shown.
    #[expect(clippy::disallowed_methods, reason = "a limit for a test that hangs")]
    pub fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            let said = || fs::read_to_string(self.path("stderr.log")).unwrap_or_default();
            assert!(begin.elapsed() < PATIENCE, "waited too long until {what}: {}", said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The lines that are visible in an output folder: of files whose names do not begin with a dot.
    #[must_use]
    pub fn visible(&self, folder: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        for name in self.names(folder).into_iter().filter(|name| !name.starts_with('.')) {
            // A part may be renamed between the listing and the reading; then it is there under the other name next time.
            let text = fs::read_to_string(self.path(folder).join(name)).unwrap_or_default();
            rows.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
        rows
    }

    /// The names in a folder, sorted; none if it does not exist.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Compares alerts and late lines with the batch answer.
    ///
    /// # Panics
    /// They differ.
    #[expect(clippy::expect_used, reason = "a test cannot go on")]
    pub fn check_with_oracle(&self) {
        let python = std::env::var_os("TIDEMILL_PYTHON").map_or_else(|| root().join("target/python/bin/python"), PathBuf::from);
        assert!(python.exists(), "{} is missing: run `make target/python/bin/python` first", python.display());
        let output = Command::new(python)
            .arg(root().join("examples/larkspur/oracle.py"))
            .arg(self.path("data"))
            .arg("--alerts")
            .arg(self.path("out/alerts"))
            .arg("--late")
            .arg(self.path("out/late"))
            .output()
            .expect("the oracle");
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
}

/// A number from the environment, or a default.
#[must_use]
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Records for the job of [`Workplace::picky`], a line each, numbered from 0.
#[must_use]
pub fn records(acts: &[&str]) -> String {
    let record = |(id, act): (usize, &&str)| format!("{}\n", serde_json::json!({"id": id, "ts": 1000 + id, "act": act}));
    acts.iter().enumerate().map(record).collect()
}

/// Sends a signal, such as `-INT`.
///
/// # Panics
/// The process is not there.
#[expect(clippy::expect_used, reason = "a test cannot go on")]
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill");
    assert!(status.success(), "cannot send {name} to the program");
}
