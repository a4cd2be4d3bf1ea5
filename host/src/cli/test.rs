//! `tidemill test`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tidemill_core::Result;

use super::print;
use crate::scenario::{self, report};

const EXIT_CODES: &str = "\
Exit codes:
  0  all cases hold
  1  a case does not hold
  2  the command line or a case file is wrong";

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Options {
    /// Case files, and folders, of which all files *.case.yaml are run
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Run only the cases that have this text in their file or name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[arg(
        long,
        value_name = "DIR",
        help = "Where components are looked up by name [can be repeated; then TIDEMILL_COMPONENTS, then target/guests here and above]"
    )]
    components: Vec<PathBuf>,
    /// How the report is written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// A JSON object
    Json,
    /// The XML that build servers read
    Junit,
}

pub(super) fn test(options: &Options) -> Result<ExitCode> {
    let mut components = options.components.clone();
    components.extend(std::env::var_os("TIDEMILL_COMPONENTS").iter().flat_map(std::env::split_paths));
    let format = match options.format {
        Format::Text => report::Format::Text,
        Format::Json => report::Format::Json,
        Format::Junit => report::Format::Junit,
    };
    let report = scenario::run(&scenario::Options { paths: options.paths.clone(), filter: options.filter.clone(), components })?;
    print(&report.render(format));
    Ok(ExitCode::from(report.exit_code()))
}
