//! `tidemill validate`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidemill_core::Result;
use tidemill_core::disk::Disk;

use super::print;
use crate::disk::RealDisk;
use crate::guest::GuestEngine;
use crate::runtime::Assembly;
use crate::source;
use crate::source::file::Survey;
use crate::spec::job::{Source, SourceConnector};
use crate::spec::{self, JobSpec};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The job spec
    job: PathBuf,
    #[arg(long, value_name = "PATH=VALUE", help = "Override a value of the spec, such as sources.UID.max_rate=5000 [can be repeated]")]
    set: Vec<String>,
}

pub(super) fn validate(options: &Options) -> Result<()> {
    let spec = spec::load(&options.job, &options.set)?;
    let engine = GuestEngine::new()?;
    let assembly = Assembly::load(&spec, &engine, None)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    assembly.job(spec.max_parallelism(), 0, &disk)?;
    assembly.warnings().for_each(|warning| tracing::warn!("{warning}"));
    let found = spec.sources.iter().map(|source| survey(&spec, source)).collect::<Result<String>>()?;
    let (sources, operators, sinks) = (spec.sources.len(), spec.operators.len(), spec.sinks.len());
    print(&format!(
        "{}: the job {} is sound: {sources} source(s), {operators} operator(s), {sinks} sink(s)\n{found}",
        spec.file, spec.name
    ));
    Ok(())
}

/// How many files a source finds now. That it finds none is a warning: they may come before the job runs.
fn survey(spec: &JobSpec, source: &Source) -> Result<String> {
    let SourceConnector::File(file) = &source.connector;
    let uid = &source.uid.value;
    let Survey { files, left_out, nothing } = source::file::survey(&file.pattern.value)?;
    let at = file.pattern.at.within(&spec.file);
    left_out.iter().for_each(|text| tracing::warn!("{at}: source {uid}: {text}"));
    if let Some(nothing) = nothing {
        let then = if file.follow { "the job waits for files" } else { "`tidemill run` refuses the job until there is one" };
        tracing::warn!("{at}: source {uid}: {nothing}; {then}");
    }
    let matches = if files == 1 { "file matches" } else { "files match" };
    Ok(format!("  source {uid}: {files} {matches} `{}`\n", file.pattern.value))
}
