//! `tidemill schema`.

use clap::{Args, ValueEnum};
use tidemill_core::{Error, Result};

use super::print;
use crate::spec::reference;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// What the schema is of: job specs, or test cases
    #[arg(value_enum)]
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    /// Job specs
    Job,
    /// Test cases
    Case,
}

pub(super) fn schema(options: &Options) -> Result<()> {
    let document = match options.of {
        Of::Job => &reference::JOB,
        Of::Case => &reference::CASE,
    };
    let text = serde_json::to_string_pretty(&reference::schema(document));
    print(&(text.map_err(|error| Error::config("writing the schema as JSON").caused_by(error))? + "\n"));
    Ok(())
}
