//! `tidemill plan`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tidemill_core::Result;
use tidemill_core::disk::Disk;

use super::print;
use super::savepoint::Format;
use crate::disk::RealDisk;
use crate::guest::GuestEngine;
use crate::runtime::plan::RestorePlan;
use crate::runtime::recovery::Missing;
use crate::runtime::{Assembly, max_parallelism};
use crate::spec;
use crate::store::savepoint::Saved;

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0    the savepoint can be restored, and the old version could take over again
  2    the restore would be refused
  4    the savepoint can be restored, but there is no way back: something is added, dropped, or changed for good";

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The job spec
    job: PathBuf,
    /// The folder of the savepoint or checkpoint, or its manifest
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// Plan as if state that the job does not have may be dropped
    #[arg(long)]
    allow_non_restored_state: bool,
    #[arg(long, value_name = "PATH=VALUE", help = "Override a value of the spec, such as sources.UID.max_rate=5000 [can be repeated]")]
    set: Vec<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn plan(options: &Options) -> Result<ExitCode> {
    let spec = spec::load(&options.job, &options.set)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let saved = Saved::open(Arc::clone(&disk), &options.from)?;
    let engine = GuestEngine::new()?;
    let job = Assembly::load(&spec, &engine, None)?.job(max_parallelism(&spec, Some(&saved.manifest))?, 0, &disk)?;
    let missing = if options.allow_non_restored_state { Missing::Dropped } else { Missing::Refused };
    let mut plan = RestorePlan::new(&job, &saved.manifest, missing);
    plan.refused.extend(saved.check_files().err().map(|error| error.chain()));
    let refused = plan.refusals().next().is_some();
    print(&match options.format {
        Format::Text => text(&plan),
        Format::Json => format!("{}\n", json!({ "restorable": !refused, "can_go_back": plan.can_go_back(), "plan": plan })),
    });
    Ok(match (refused, plan.can_go_back()) {
        (true, _) => ExitCode::from(2),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(4),
    })
}

fn text(plan: &RestorePlan) -> String {
    let mut out = String::new();
    for reason in &plan.refused {
        let _ = writeln!(out, "refused: {reason}");
    }
    for uid in &plan.dropped_sources {
        let _ = writeln!(out, "source {uid}: positions dropped");
    }
    for component in &plan.components {
        let _ = writeln!(out, "{component}");
    }
    for operator in &plan.operators {
        let _ = writeln!(out, "operator {}: {}", operator.uid, operator.fate);
        for state in &operator.states {
            let _ = writeln!(out, "  state {}: {}", state.name, state.fate);
        }
    }
    out.push_str(match (plan.refusals().next().is_some(), plan.can_go_back()) {
        (true, _) => "the restore would be refused\n",
        (false, true) => "can be restored, and the old version can take over again\n",
        (false, false) => "can be restored, but there is no way back\n",
    });
    out
}
