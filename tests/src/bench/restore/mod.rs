//! How fast state comes back: a checkpoint of many keys with a timer each is written, then restored as a job does it, by each backend, at
//! the same parallelism and at another. Beside it what the machine can do: read the same bytes, put the same keys into a plain hash map.

mod bound;
mod keys;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidemill::clock::monotonic;
use tidemill::disk::RealDisk;
use tidemill::spec::job::StateBackend as Spec;
use tidemill::state::{HAS_ROCKSDB, backend};
use tidemill::store::CheckpointStore;
use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::state::KeyedState;
use tidemill_core::time::Domain;
use tidemill_core::{Error, Result};
use tidemill_wit::schema::{Type, TypeTable};

use self::keys::{fill, states};
use crate::stored::{self, UID};

/// What is measured.
#[derive(Args, Debug)]
pub struct Options {
    /// How many keys there are.
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    /// A folder for checkpoints and live state, which is emptied.
    #[arg(long, default_value = "target/bench-restore")]
    work: PathBuf,
    /// The memory of the backend rocksdb, in MiB.
    #[arg(long, default_value_t = 512)]
    memory: u64,
    /// The parallelism at which the checkpoint is taken.
    #[arg(long, default_value_t = 2)]
    parallelism: u32,
    /// The other parallelism.
    #[arg(long, default_value_t = 3)]
    other: u32,
}

/// Measures all that the build has.
///
/// # Errors
/// State cannot be written, or does not come back.
pub fn run(options: &Options) -> std::result::Result<(), String> {
    measure(options).map_err(|error| error.chain())
}

fn measure(options: &Options) -> Result<()> {
    let made = |error| Error::config(format!("making {} anew", options.work.display())).caused_by(error);
    match fs::remove_dir_all(&options.work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(made(error)),
        _ => fs::create_dir_all(&options.work).map_err(made)?,
    }
    say(&format!("{} keys of {} bytes, each with a value of 8 bytes and a timer", options.keys, keys::LENGTH));
    let rocksdb = Spec::Rocksdb { memory: options.memory << 20 };
    let (same, other) = (options.parallelism, options.other);
    let memory = Bench::take(options, "memory", Spec::Memory, same)?;
    bound::hash_map(options.keys);
    memory.read_bytes()?;
    memory.restore(Spec::Memory, same)?;
    memory.restore(Spec::Memory, other)?;
    if !HAS_ROCKSDB {
        say("this build has no RocksDB: build with --features rocksdb to see it here");
        return Ok(());
    }
    memory.restore(rocksdb, same)?;
    let files = Bench::take(options, "rocksdb", rocksdb, same)?;
    files.read_bytes()?;
    files.restore(rocksdb, same)?;
    files.restore(rocksdb, other)?;
    files.restore(Spec::Memory, same)
}

/// A checkpoint in a folder.
struct Bench<'a> {
    options: &'a Options,
    name: &'static str,
    store: CheckpointStore,
    manifest: Manifest,
}

impl<'a> Bench<'a> {
    /// Fills the state of a backend, and takes a checkpoint of it.
    fn take(options: &'a Options, name: &'static str, spec: Spec, parallelism: u32) -> Result<Self> {
        let store = CheckpointStore::open(Arc::new(RealDisk), options.work.join(name))?;
        let backend = backend(spec, &options.work.join("live"))?;
        let mut subtasks = (0..parallelism).map(|subtask| backend.open(UID, subtask, &states())).collect::<Result<Vec<_>>>()?;
        fill(&mut subtasks, options.keys)?;
        let manifest = stored::store(&store, 1, (&TypeTable::of(Type::String), &states()), subtasks, false)?;
        Ok(Self { options, name, store, manifest })
    }

    /// Restores it as a job does, and says how long that took.
    fn restore(&self, spec: Spec, parallelism: u32) -> Result<()> {
        let cold = bound::drop_caches();
        let begin = monotonic();
        let backend = backend(spec, &self.options.work.join("live"))?;
        let subtasks = stored::restore(&self.store, &self.manifest, &states(), &*backend, parallelism)?;
        let spent = begin.elapsed();
        check(&subtasks, self.options.keys)?;
        let (then, now) = (self.manifest.parallelism, name_of(spec));
        let what = format!("{now} from a checkpoint of {}, {then} to {parallelism} subtasks", self.name);
        bound::report(&what, self.options.keys, spent, cold);
        Ok(())
    }

    /// The bound of the disk: all the bytes of the checkpoint are read and dropped.
    fn read_bytes(&self) -> Result<()> {
        bound::read(&self.options.work.join(self.name), self.name, self.options.keys)
    }
}

/// Whether all keys and timers have come back.
fn check(subtasks: &[Box<dyn KeyedState>], keys: u64) -> Result<()> {
    let found: u64 = subtasks.iter().map(|state| state.key_count()).sum();
    let timers: u64 = subtasks.iter().map(|state| state.timer_count(Domain::Event)).sum();
    let first = subtasks.iter().filter_map(|state| state.next_timer(Domain::Event)).min();
    if (found, timers) == (keys, keys) && first.is_some() {
        return Ok(());
    }
    Err(Error::corrupt(format!("{found} keys with {timers} timers have come back instead of {keys}, the first timer is {first:?}")))
}

fn name_of(spec: Spec) -> &'static str {
    match spec {
        Spec::Memory => "memory",
        Spec::Rocksdb { .. } => "rocksdb",
    }
}

#[expect(clippy::print_stdout, reason = "this is what the bench is for")]
fn say(text: &str) {
    println!("{text}");
}
