//! Reading savepoints, which needs no component: the types are in them.

mod contents;
mod diff;
mod dump;

pub use contents::{Contents, OperatorContents, StateContents};
pub use diff::{Difference, diff};
pub use dump::{Row, Selection, dump};

use tidemill_core::Result;
use tidemill_core::checkpoint::snapshot::Snapshot;
use tidemill_core::key_group::KeyGroup;

use crate::state;
use crate::store::savepoint::Saved;

/// A piece of an operator's state.
enum Piece<'a> {
    /// A key group in the layout of `tidemill_core::state::layout`.
    Group(KeyGroup, &'a [u8]),
    /// The broadcast states.
    Broadcast(&'a [u8]),
}

/// Calls `visit` with the pieces of all operators' state: in ascending key groups within an operator, whatever the parallelism was.
fn pieces(saved: &Saved, visit: &mut dyn FnMut(&str, Piece<'_>) -> Result<()>) -> Result<()> {
    for file in &saved.manifest.files {
        let bytes = saved.read_state(file)?;
        let snapshot = Snapshot::parse(&bytes).map_err(|error| error.while_doing(format!("reading {} of {}", file.path, saved.name())))?;
        saved.manifest.check_snapshot(file, &snapshot).map_err(|error| error.while_doing(format!("reading {}", saved.name())))?;
        for operator in snapshot.operators {
            let doing = |error: tidemill_core::Error| {
                error.while_doing(format!("reading operator {} in {} of {}", operator.uid, file.path, saved.name()))
            };
            for (group, content) in operator.groups {
                visit(operator.uid, Piece::Group(group, content)).map_err(doing)?;
            }
            if !operator.broadcast.is_empty() {
                visit(operator.uid, Piece::Broadcast(operator.broadcast)).map_err(doing)?;
            }
        }
    }
    let all = 0..saved.manifest.max_parallelism;
    for database in &saved.manifest.databases {
        let stored = state::stored(&saved.store(), database, all.clone(), saved.manifest.checkpoint)?;
        stored.read(all.clone(), &mut |group, content| visit(&database.operator, Piece::Group(group, content)))?;
    }
    Ok(())
}
