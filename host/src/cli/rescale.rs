//! `tidemill rescale`.

use std::path::PathBuf;

use clap::Args;
use tidemill_core::Result;
use tidemill_core::job::{Outcome, Request};

use super::print;
use super::savepoint::absolute;
use super::stop::{JobFolder, TriggerId, other_outcome, shown};
use crate::runtime::control::client::ask;

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    job: JobFolder,
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        help = "The number of workers to go on with, up to the job's max_parallelism"
    )]
    parallelism: u32,
    /// Also keep the checkpoint in between as a savepoint, in this folder, which must not exist yet, or be empty
    #[arg(long, value_name = "PATH")]
    savepoint: Option<PathBuf>,
    #[command(flatten)]
    trigger: TriggerId,
}

pub(super) fn rescale(options: &Options) -> Result<()> {
    let savepoint = options.savepoint.as_deref().map(absolute).transpose()?;
    let request = Request::Rescale { parallelism: options.parallelism, savepoint };
    let outcome = ask(&options.job.dir()?, &request, &options.trigger.key())?;
    let Outcome::Rescaled { checkpoint, from, to, pause_ms, asked, path } = outcome else { return Err(other_outcome()) };
    let saved = shown(path.as_deref());
    let paused = pause_ms.map_or_else(String::new, |pause| format!("; it paused for {pause} ms"));
    let mut said = format!("the job runs on {to} workers instead of {from}, from checkpoint {checkpoint} on{paused}{saved}\n");
    if to != asked {
        said += &format!(
            "this holds through failures and crashes, but the job's spec or command line still says {asked}, and a start after a stop goes by \
             that: write {to} there to keep it\n"
        );
    }
    print(&said);
    Ok(())
}
