//! `tidemill run`.

use std::path::PathBuf;

use clap::Args;
use tidemill_core::Result;

use super::live::Live;
use super::logging::Terminal;
use super::{folder, print, signals, summary};
use crate::runtime::recovery::Missing;
use crate::runtime::{self, Control, From, JobEnd, RunOptions};
use crate::spec;
use crate::spec::job::Retention;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The job spec
    job: PathBuf,
    #[arg(
        long,
        value_name = "DIR",
        help = "The job's folder, for checkpoints and local state [default: data_dir of the spec, else tidemill-data/NAME beside the spec]"
    )]
    data_dir: Option<PathBuf>,
    #[arg(
        long,
        value_name = "DIR",
        help = "The folder for compiled components, to which only this user can write [default: TIDEMILL_CACHE_DIR of the environment, else \
                ~/.cache/tidemill/components]"
    )]
    cache_dir: Option<PathBuf>,
    /// Forget all checkpoints and start again from the beginning of the input
    #[arg(long)]
    fresh: bool,
    /// Start from this savepoint, or from a checkpoint that was kept: its folder, or the manifest in it
    #[arg(long, value_name = "PATH", conflicts_with = "fresh")]
    from: Option<PathBuf>,
    /// Drop for good what the savepoint holds of operators, states and sources that the job does not have
    #[arg(long, requires = "from")]
    allow_non_restored_state: bool,
    /// Start from the savepoint though the sinks hold later output, and write that again beside it
    #[arg(long, requires = "from")]
    new_incarnation: bool,
    /// The number of workers, instead of what the spec says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    parallelism: Option<u32>,
    #[arg(long, value_name = "PATH=VALUE", help = "Override a value of the spec, such as sources.UID.max_rate=5000 [can be repeated]")]
    set: Vec<String>,
}

pub(super) fn run(options: &Options, terminal: &Terminal) -> Result<()> {
    let mut spec = spec::load(&options.job, &options.set)?;
    spec.parallelism = options.parallelism.unwrap_or(spec.parallelism);
    let control = Control::default();
    signals::install(&control.stop_flag())?;
    let run = RunOptions {
        data_dir: folder::of_job(options.data_dir.as_deref(), &options.job, &spec),
        cache_dir: options.cache_dir.clone(),
        fresh: options.fresh,
        from: from(options),
        control: control.clone(),
    };
    let mut live = Live::new(terminal);
    let outcome = runtime::run(&spec, &run, &mut |progress| live.show(progress, control.stop_requested()));
    live.end();
    let name = &spec.name;
    let message = match outcome? {
        JobEnd::Finished { progress, .. } => {
            live.log(&progress);
            print(&summary::render(&progress));
            format!("the job {name} has finished\n")
        }
        JobEnd::AlreadyFinished { checkpoint, unread } if unread.is_empty() => {
            format!("the job {name} has finished already, with checkpoint {checkpoint}; --fresh runs it again from the beginning\n")
        }
        JobEnd::AlreadyFinished { checkpoint, unread } => format!(
            "the job {name} has finished already, with checkpoint {checkpoint}, and has not read what has come since: {}. a job that has finished \
             reads no more: --fresh runs it again from the beginning of all its input, a job of another name can read the new files alone, and \
             `follow: true` keeps a job from finishing\n",
            unread.join("; ")
        ),
        JobEnd::Stopped { checkpoint: 0, .. } => format!("the job {name} has stopped before its first checkpoint\n"),
        JobEnd::Stopped { checkpoint, progress } => {
            live.log(&progress);
            print(&summary::render(&progress));
            match spec.checkpoints.on_cancel {
                Retention::Keep => format!("the job {name} has stopped at checkpoint {checkpoint}; the same command resumes it\n"),
                Retention::Delete => format!("the job {name} has stopped, and its checkpoints are deleted, as its spec says\n"),
            }
        }
    };
    print(&message);
    Ok(())
}

fn from(options: &Options) -> Option<From> {
    let missing = if options.allow_non_restored_state { Missing::Dropped } else { Missing::Refused };
    options.from.clone().map(|path| From { path, missing, new_incarnation: options.new_incarnation })
}
