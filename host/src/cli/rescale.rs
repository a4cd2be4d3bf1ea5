//! `tidemill rescale`.

use std::path::PathBuf;

use clap::Args;
use tidemill_core::Result;

use super::print;
use super::savepoint::absolute;
use super::stop::{JobFolder, TriggerId, other_request, shown};
use crate::runtime::control::{Granted, Rescaled};
use crate::runtime::socket::{Ask, ask};

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
    let wanted = Ask::Rescale { parallelism: options.parallelism, savepoint, trigger: Some(options.trigger.name()) };
    let reply = ask(&options.job.dir()?, &wanted)?;
    let Granted::Rescaled(Rescaled { checkpoint, from, to, pause, asked }) = reply.granted else { return Err(other_request()) };
    let saved = shown(reply.savepoint.as_deref());
    let paused = pause.map_or_else(String::new, |pause| format!("; it paused for {pause} ms"));
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
