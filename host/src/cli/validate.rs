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
use crate::spec;

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
    let (sources, operators, sinks) = (spec.sources.len(), spec.operators.len(), spec.sinks.len());
    print(&format!("{}: the job {} is sound: {sources} source(s), {operators} operator(s), {sinks} sink(s)\n", spec.file, spec.name));
    Ok(())
}
