//! Compiled components on disk, so that a job starts in milliseconds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use super::engine::GuestEngine;

/// A folder of compiled components, each keyed by the digest of its upload and by everything in the engine that compiled code depends on.
/// Nothing in it is needed: whatever is wrong with an entry, the component is compiled again and the entry replaced.
#[derive(Clone, Debug)]
pub struct ComponentCache {
    dir: PathBuf,
}

impl ComponentCache {
    /// The cache in this folder, which is made when the first entry is. Its files become machine code of this process: the folder must be
    /// one that only this user can write.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The component with this digest, if there is an intact entry for this engine.
    pub(super) fn get(&self, engine: &GuestEngine, digest: &str) -> Option<Component> {
        let path = self.path(engine, digest);
        let loaded = match fs::read(&path) {
            Ok(bytes) => artifact(&bytes, digest, engine.signature()).and_then(|artifact| deserialize(engine, artifact)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => Err(error.to_string()),
        };
        loaded
            .map_err(|why| tracing::warn!(file = %path.display(), "compiling a component again, its cache entry is of no use: {why}"))
            .ok()
    }

    /// Keeps a compiled component. Failing to is no error: it will be compiled again.
    pub(super) fn put(&self, engine: &GuestEngine, digest: &str, component: &Component) {
        let path = self.path(engine, digest);
        let written = match component.serialize() {
            Ok(artifact) => self.write(&path, &header(digest, engine.signature(), &artifact), &artifact).map_err(|error| error.to_string()),
            Err(error) => Err(format!("{error:#}")),
        };
        if let Err(why) = written {
            tracing::warn!(file = %path.display(), "cannot keep a compiled component: {why}");
        }
    }

    fn path(&self, engine: &GuestEngine, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{:016x}.compiled", engine.signature()))
    }

    /// Writes the entry whole or not at all, also when others write the same one at the same time.
    fn write(&self, path: &Path, header: &[u8], artifact: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);

        fs::create_dir_all(&self.dir)?;
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.dir.join(format!(".{}-{unique}.tmp", std::process::id()));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(header)?;
            file.write_all(artifact)?;
            file.sync_all()?;
            fs::rename(&temporary, path)
        });
        if written.is_err() {
            // What was begun is of no use; should removing it fail too, the first error says more.
            let _ = fs::remove_file(&temporary);
            return written;
        }
        File::open(&self.dir)?.sync_all()
    }
}

const MAGIC: &[u8] = b"tidemill compiled component 1\n";

/// What stands before an artifact: what it is, whose it is, how long it is and the sha-256 of all that and the artifact.
fn header(digest: &str, signature: u64, artifact: &[u8]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(digest.as_bytes());
    header.extend_from_slice(&signature.to_le_bytes());
    header.extend_from_slice(&(artifact.len() as u64).to_le_bytes());
    let sum = Sha256::new().chain_update(&header).chain_update(artifact).finalize();
    header.extend_from_slice(&sum);
    header
}

/// The artifact in the bytes of an entry, if they are what was written for this digest and engine.
fn artifact<'a>(entry: &'a [u8], digest: &str, signature: u64) -> Result<&'a [u8], String> {
    let length = header(digest, signature, &[]).len();
    let Some((head, artifact)) = entry.split_at_checked(length) else {
        return Err(format!("it is cut short at {} bytes", entry.len()));
    };
    if head == header(digest, signature, artifact) { Ok(artifact) } else { Err("it is not what was written, by its checksum".to_owned()) }
}

#[expect(unsafe_code, reason = "loading machine code cannot be safe; the checksum shows that this engine's compiler wrote it")]
fn deserialize(engine: &GuestEngine, artifact: &[u8]) -> Result<Component, String> {
    // SAFETY: the entry's checksum covers the artifact, the digest of the upload and the engine's signature, so these are the bytes that
    // `Component::serialize` gave for an engine of this build and configuration, unless someone who can write to the data folder, and so
    // could as well replace this program's inputs, forged them. Wasmtime checks version and configuration once more.
    unsafe { Component::deserialize(engine.engine(), artifact) }.map_err(|error| format!("{error:#}"))
}
