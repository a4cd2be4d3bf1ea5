//! Compiled components on disk, so that a job starts in milliseconds.
//!
//! An entry becomes machine code of this process, and its checksum can be computed by anybody. So an entry is used only if nobody but this user
//! and root can have written it, by owner and mode of the file and of every folder from the root down to it; and what is read is what was
//! checked, by one open file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tracing::{info, warn};
use wasmtime::component::Component;

use super::engine::GuestEngine;
use crate::guarded::{self, NotOurs};

/// Names the folder in the environment.
const VARIABLE: &str = "TIDEMILL_CACHE_DIR";
/// An entry that is older is removed when another one is written. Whoever still needs it compiles it again.
const OLDEST: Duration = Duration::from_secs(90 * 24 * 3600);
/// A file that is still unfinished after so long was left by a process that was killed.
const UNFINISHED: Duration = Duration::from_secs(24 * 3600);

/// A folder of compiled components, each keyed by the digest of its upload and by everything in the engine that compiled code depends on.
/// Nothing in it is needed: whatever is wrong with an entry, the component is compiled again and the entry replaced. Jobs share it.
#[derive(Clone, Debug)]
pub struct ComponentCache {
    dir: PathBuf,
}

impl ComponentCache {
    /// The cache of the user: the folder that is given, or that the environment variable `TIDEMILL_CACHE_DIR` names; otherwise
    /// `tidemill/components` in the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`), or where that cannot be used, for instance
    /// without a home, `components` in the job's folder. `None`, with a warning, if none of them can be used: then every start compiles.
    #[must_use]
    pub fn of_user(given: Option<&Path>, job: &Path) -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self::first_of(candidates(given, &variable, job))
    }

    /// The first of these folders that can be used.
    fn first_of(candidates: Vec<PathBuf>) -> Option<Self> {
        let mut refused = Vec::new();
        for dir in candidates {
            match Self::in_folder(&dir) {
                Err(why) => refused.push(why),
                Ok(cache) => {
                    for why in refused {
                        let dir = cache.dir.display();
                        match why {
                            NotOurs::Shared(why) => warn!("compiled components are kept in {dir}, since {why}"),
                            NotOurs::Absent(why) => info!("compiled components are kept in {dir}, since {why}"),
                        }
                    }
                    return Some(cache);
                }
            }
        }
        let why: Vec<&str> = refused.iter().map(NotOurs::reason).collect();
        warn!(
            "components are compiled at every start, since there is no folder of this user alone to keep them in (see --cache-dir): {}",
            why.join("; ")
        );
        None
    }

    /// The cache in this folder, which is made if it does not exist.
    ///
    /// # Errors
    /// One sentence that says why the folder cannot be made, or who else can write to it or to a folder above it.
    pub fn open(dir: &Path) -> Result<Self, String> {
        Self::in_folder(dir).map_err(|why| why.reason().to_owned())
    }

    fn in_folder(dir: &Path) -> Result<Self, NotOurs> {
        guarded::private_folder(dir).map(|dir| Self { dir })
    }

    /// The component with this digest, if there is an intact entry for this engine.
    pub(super) fn get(&self, engine: &GuestEngine, digest: &str) -> Option<Component> {
        let path = self.path(engine, digest);
        let loaded = match guarded::read(&path) {
            Ok(file) => read_ours(file)
                .and_then(|bytes| artifact(&bytes, digest, engine.signature()).and_then(|artifact| deserialize(engine, artifact))),
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => Err(error.to_string()),
        };
        loaded.map_err(|why| warn!(file = %path.display(), "compiling a component again, its cache entry is not used: {why}")).ok()
    }

    /// Keeps a compiled component. Failing to is no error: it will be compiled again.
    pub(super) fn put(&self, engine: &GuestEngine, digest: &str, component: &Component) {
        let path = self.path(engine, digest);
        let written = match component.serialize() {
            Ok(artifact) => self.write(&path, &header(digest, engine.signature(), &artifact), &artifact).map_err(|error| error.to_string()),
            Err(error) => Err(format!("{error:#}")),
        };
        if let Err(why) = written {
            warn!(file = %path.display(), "cannot keep a compiled component: {why}");
        }
    }

    fn path(&self, engine: &GuestEngine, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{:016x}.compiled", engine.signature()))
    }

    /// Writes the entry whole or not at all, also when others write the same one at the same time.
    fn write(&self, path: &Path, header: &[u8], artifact: &[u8]) -> io::Result<()> {
        let temporary = self.dir.join(format!(".{:032x}.tmp", fastrand::u128(..)));
        let mut file = guarded::create_new(&temporary)?;
        let written = file.write_all(header).and_then(|()| file.write_all(artifact)).and_then(|()| file.sync_all());
        let written = written.and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // What was begun is of no use; should removing it fail too, the first error says more.
            _ = fs::remove_file(&temporary);
            return written;
        }
        if let Ok(now) = file.metadata().and_then(|written| written.modified()) {
            self.prune(now);
        }
        File::open(&self.dir)?.sync_all()
    }

    /// Removes what has not been written for long, so that the folder does not grow with every build of a component. Failing to is no error.
    fn prune(&self, now: SystemTime) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let most = match path.extension().and_then(|extension| extension.to_str()) {
                Some("compiled") => OLDEST,
                Some("tmp") => UNFINISHED,
                _ => continue,
            };
            let written = entry.metadata().and_then(|found| found.modified());
            if written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > most)) {
                _ = fs::remove_file(path);
            }
        }
    }
}

/// Where compiled components may be kept, the best place first.
fn candidates(given: Option<&Path>, variable: &dyn Fn(&str) -> Option<PathBuf>, job: &Path) -> Vec<PathBuf> {
    if let Some(named) = given.map(Path::to_owned).or_else(|| variable(VARIABLE)) {
        return vec![named];
    }
    // A relative path says nothing here, by the rules for these variables.
    let absolute = |name| variable(name).filter(|dir| dir.is_absolute());
    // A home that is not there is not made: nobody lives in it.
    let home = || absolute("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache"));
    let of_user = absolute("XDG_CACHE_HOME").or_else(home).map(|dir| dir.join("tidemill/components"));
    of_user.into_iter().chain([job.join("components")]).collect()
}

/// The content of an entry, if only this user and root can have written it.
fn read_ours(mut file: File) -> Result<Vec<u8>, String> {
    let found = file.metadata().map_err(|error| error.to_string())?;
    guarded::check_ours(&found).map_err(|why| format!("{why}, so that somebody else may have written it"))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
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

#[expect(unsafe_code, reason = "loading machine code cannot be safe; owner, modes and checksum show that this program wrote it")]
fn deserialize(engine: &GuestEngine, artifact: &[u8]) -> Result<Component, String> {
    // SAFETY: only this user and root can have written the entry, and this program writes nothing else under such a name. Its checksum covers
    // the artifact, the digest of the upload and the engine's signature, so these are the bytes that `Component::serialize` gave for an
    // engine of this build and configuration. Wasmtime checks version and configuration once more.
    unsafe { Component::deserialize(engine.engine(), artifact) }.map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::{ComponentCache, OLDEST, UNFINISHED, candidates};

    #[test]
    fn the_place_is_the_users_own() {
        let home = tempfile::tempdir().unwrap();
        let (home, job) = (home.path().to_str().unwrap(), Path::new("data/job"));
        let of = |given: Option<&str>, variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value));
            candidates(given.map(Path::new), &variable, job).iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>()
        };
        let in_home = format!("{home}/.cache/tidemill/components");
        assert_eq!(of(None, &[("HOME", home)]), [&*in_home, "data/job/components"]);
        assert_eq!(of(None, &[("HOME", home), ("XDG_CACHE_HOME", "/c")]), ["/c/tidemill/components", "data/job/components"]);
        assert_eq!(of(None, &[("HOME", home), ("XDG_CACHE_HOME", "c")]), [&*in_home, "data/job/components"]);
        for none in [&[][..], &[("HOME", "/nonexistent")], &[("HOME", ".")]] {
            assert_eq!(of(None, none), ["data/job/components"]);
        }
        assert_eq!(of(None, &[("HOME", home), ("TIDEMILL_CACHE_DIR", "x")]), ["x"]);
        assert_eq!(of(Some("y"), &[("HOME", home), ("TIDEMILL_CACHE_DIR", "x")]), ["y"]);
    }

    #[test]
    fn the_first_folder_that_can_be_used_is() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let cache = ComponentCache::first_of(vec![root.path().join("file/cache"), root.path().join("a/b")]).unwrap();
        assert_eq!(cache.dir, fs::canonicalize(root.path().join("a/b")).unwrap());
        assert!(ComponentCache::first_of(vec![root.path().join("file/cache")]).is_none());
    }

    #[test]
    fn what_is_old_is_removed_when_something_is_written() {
        let root = tempfile::tempdir().unwrap();
        let cache = ComponentCache::open(root.path()).unwrap();
        let write = |name: &str| fs::File::create(root.path().join(name)).unwrap();
        let now = write("new.compiled").metadata().unwrap().modified().unwrap();
        for (name, age) in [("old.compiled", OLDEST), ("old.tmp", UNFINISHED), ("kept.compiled", UNFINISHED), ("notes.txt", OLDEST)] {
            write(name).set_modified(now - age - Duration::from_secs(1)).unwrap();
        }
        cache.prune(now);
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["kept.compiled", "new.compiled", "notes.txt"]);
    }
}
