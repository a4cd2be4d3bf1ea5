//! The command line: the only place that prints.

mod build;
mod checkpoints;
mod component;
mod new;
mod plan;
mod rescale;
mod run;
mod savepoint;
mod schema;
mod stop;
mod test;
mod validate;

mod folder;
mod live;
mod logging;
pub(crate) mod numbers;
mod prints;
mod signals;
mod summary;

use std::borrow::Cow;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidemill_core::{Error, Kind};

use self::logging::LogFormat;
use crate::machine;

const EXIT_CODES: &str = "\
Exit codes:
  0    the job has finished, or was stopped at a checkpoint (Ctrl-C or SIGTERM)
  1    the job failed
  2    the command line, the job spec or a component is wrong
  3    the job folder, or a folder of a sink, is in use by another process
  130  stopped at once (Ctrl-C or SIGTERM twice)";

/// A host for stateful stream detectors: WebAssembly components with keyed state, timers and exactly-once output.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    logging: logging::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a crate with a detector, its tests and a job to start from
    New(new::Options),
    /// Build a crate's detectors to WebAssembly
    Build(build::Options),
    /// Run a job in the foreground, or go on with it from its last checkpoint
    #[command(after_help = EXIT_CODES)]
    Run(run::Options),
    /// Check a job spec and the components that it names, and run nothing
    Validate(validate::Options),
    /// Run test cases against components, on virtual time
    Test(test::Options),
    /// Print a JSON Schema of job specs or cases, for editors
    Schema(schema::Options),
    /// Stop a running job at a checkpoint
    Stop(stop::Options),
    /// Give a running job another number of workers
    Rescale(rescale::Options),
    /// Show what became of a job's checkpoints: duration, size, how long they held up its workers
    Checkpoints(checkpoints::Options),
    /// Take savepoints, and look into them
    #[command(subcommand)]
    Savepoint(savepoint::Command),
    /// Show what a start from a savepoint would do to each state, and do nothing
    #[command(after_help = plan::EXIT_CODES)]
    Plan(plan::Options),
    /// Look into components
    #[command(subcommand)]
    Component(ComponentCommand),
}

#[derive(Debug, Subcommand)]
enum ComponentCommand {
    /// Show what a component declares: key, input, lanes, states, tables and parameters
    Inspect(component::Options),
}

/// Runs the program with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    raise_open_files();
    let terminal = match logging::start(&arguments.logging) {
        Ok(terminal) => terminal,
        Err(error) => return report(&error, LogFormat::Text),
    };
    let result = match &arguments.command {
        Command::New(options) => new::new(options).map(|()| ExitCode::SUCCESS),
        Command::Build(options) => build::build(options).map(|()| ExitCode::SUCCESS),
        Command::Run(options) => run::run(options, &terminal).map(|()| ExitCode::SUCCESS),
        Command::Validate(options) => validate::validate(options).map(|()| ExitCode::SUCCESS),
        Command::Stop(options) => stop::stop(options).map(|()| ExitCode::SUCCESS),
        Command::Rescale(options) => rescale::rescale(options).map(|()| ExitCode::SUCCESS),
        Command::Checkpoints(options) => checkpoints::checkpoints(options).map(|()| ExitCode::SUCCESS),
        Command::Savepoint(command) => savepoint::run(command),
        Command::Plan(options) => plan::plan(options),
        Command::Test(options) => test::test(options),
        Command::Schema(options) => schema::schema(options).map(|()| ExitCode::SUCCESS),
        Command::Component(ComponentCommand::Inspect(options)) => component::inspect(options).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => report(&error, arguments.logging.log_format),
    }
}

/// Lets the process hold as many files open as it may at all: state in `RocksDB` has some for each subtask of each operator, and shells give
/// 1,024. Where that is refused, whoever lacks a file says so.
fn raise_open_files() {
    _ = rlimit::increase_nofile_limit(u64::MAX);
}

fn report(error: &Error, format: LogFormat) -> ExitCode {
    let advice = machine::advice(error);
    let text = format!("{}{advice}", error.chain());
    match format {
        LogFormat::Json => tracing::error!("{text}"),
        LogFormat::Text => visible(&text).lines().for_each(|line| _ = writeln!(io::stderr(), "error: {line}")),
    }
    // What a limit of the machine stops is no fault of the spec, whatever was being done.
    ExitCode::from(if advice.is_empty() { exit_code(error.kind()) } else { exit_code(Kind::Machine) })
}

fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Config => 2,
        Kind::Busy => 3,
        Kind::Input | Kind::Guest | Kind::Connector | Kind::Storage | Kind::Corrupt | Kind::Machine => 1,
    }
}

/// Writes to standard output. A reader that has gone away is no error.
fn print(text: &str) {
    let _ = io::stdout().lock().write_all(visible(text).as_bytes());
}

/// A text for a terminal. It may quote what others have written, such as a savepoint, a component or a file's name, which could hold commands
/// for terminals.
fn visible(text: &str) -> Cow<'_, str> {
    let is_command = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if !text.contains(is_command) {
        return Cow::Borrowed(text);
    }
    let escaped = |letter: char| if is_command(letter) { letter.escape_debug().to_string() } else { letter.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_commands_a_terminal_is_written_out() {
        assert_eq!(visible("a\tb\u{e9}\n"), "a\tb\u{e9}\n");
        assert_eq!(visible("\x1b]0;x\x07\u{9b}1m\r\n"), "\\u{1b}]0;x\\u{7}\\u{9b}1m\\r\n");
    }
}
