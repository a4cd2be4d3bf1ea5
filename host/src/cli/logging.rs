//! Log lines, on standard error, beside the live view if there is one.

use std::io::{self, IsTerminal, Write};

use clap::{Args, ValueEnum};
use indicatif::MultiProgress;
use tidemill_core::{Error, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What is logged unless the user says otherwise.
const DEFAULT_LEVEL: &str = "info";

#[derive(Debug, Args)]
pub(super) struct Options {
    /// How log lines are written
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        help = "What is logged: error, warn, info, debug, trace, or a filter such as tidemill=debug [default: RUST_LOG, else info]"
    )]
    log_level: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// A JSON object a line
    Json,
}

/// The terminal that the user sees, if there is one.
#[derive(Clone, Debug)]
pub(super) struct Terminal {
    /// The live view.
    pub(super) bars: Option<MultiProgress>,
}

/// Sends log lines to standard error.
pub(super) fn start(options: &Options) -> Result<Terminal> {
    let is_terminal = io::stderr().is_terminal();
    let terminal = Terminal { bars: (is_terminal && options.log_format == LogFormat::Text).then(MultiProgress::new) };
    let colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter(options)?).with_writer(terminal.clone()).with_ansi(colours).with_target(false);
    let started = match options.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
    started.map_err(|error| Error::config(format!("cannot start logging: {error}")))?;
    Ok(terminal)
}

fn filter(options: &Options) -> Result<EnvFilter> {
    let variable = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|text| !text.is_empty());
    let text = options.log_level.clone().or(variable).unwrap_or_else(|| DEFAULT_LEVEL.to_owned());
    // The filter takes a word that is no level for the name of a module, of which it then shows all: a slip would go unnoticed.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let given = options.log_level.iter().flat_map(|text| text.split(',')).map(str::trim);
    if let Some(word) = given.filter(|word| !word.contains(['=', '['])).find(|word| !is_level(word)) {
        return Err(Error::config(format!(
            "`{word}` is not a log level: write error, warn, info, debug, trace or off, or a filter such as tidemill=debug"
        )));
    }
    EnvFilter::try_new(&text).map_err(|error| Error::config(format!("`{text}` is not a log level: {error}")))
}

impl<'a> MakeWriter<'a> for Terminal {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Terminal {
    /// Writes a line above the live view. A log that cannot be written, because its reader has gone or its disk is full, is no reason to
    /// stop a job; and told of a failure, the subscriber would complain on standard error, which panics.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        _ = match &self.bars {
            Some(bars) => bars.suspend(|| io::stderr().write_all(line)),
            None => io::stderr().write_all(line),
        };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        _ = io::stderr().flush();
        Ok(())
    }
}
