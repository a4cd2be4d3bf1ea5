//! `tidemill run`.

use std::path::{Path, PathBuf};

use clap::Args;
use tidemill_core::Result;

use super::live::Live;
use super::logging::Terminal;
use super::{print, signals, summary};
use crate::runtime::{self, Control, Outcome, RunOptions};
use crate::spec::job::Retention;
use crate::spec::{self, JobSpec};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The job spec
    job: PathBuf,
    #[arg(
        long,
        value_name = "DIR",
        help = "The job's folder, for checkpoints and local state [default: data_dir of the spec, else tidemill-data/NAME]"
    )]
    data_dir: Option<PathBuf>,
    /// Forget all checkpoints and start again from the beginning of the input
    #[arg(long)]
    fresh: bool,
    #[arg(long, value_name = "PATH=VALUE", help = "Override a value of the spec, such as sources.UID.max_rate=5000 [can be repeated]")]
    set: Vec<String>,
}

pub(super) fn run(options: &Options, terminal: &Terminal) -> Result<()> {
    let spec = spec::load(&options.job, &options.set)?;
    let control = Control::default();
    signals::install(&control.stop_flag())?;
    let run = RunOptions { data_dir: data_dir(options, &spec), fresh: options.fresh, control: control.clone() };
    let mut live = Live::new(terminal);
    let outcome = runtime::run(&spec, &run, &mut |progress| live.show(progress, control.stop_requested()));
    live.end();
    let name = &spec.name;
    let message = match outcome? {
        Outcome::Finished { progress, .. } => {
            live.log(&progress);
            print(&summary::render(&progress));
            format!("the job {name} has finished\n")
        }
        Outcome::AlreadyFinished { checkpoint } => {
            format!("the job {name} has finished already, with checkpoint {checkpoint}; --fresh runs it again from the beginning\n")
        }
        Outcome::Stopped { checkpoint, progress } => {
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

fn data_dir(options: &Options, spec: &JobSpec) -> PathBuf {
    let given = options.data_dir.clone().or_else(|| spec.data_dir.clone());
    given.unwrap_or_else(|| Path::new("tidemill-data").join(&spec.name))
}
