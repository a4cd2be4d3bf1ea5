//! With how many workers a job goes on that was rescaled while it ran.

use tidemill_core::{Error, Result};

use super::{CheckpointStore, record};

const PARALLELISM: &str = "PARALLELISM";

/// A rescale that holds until the user stops the job, or asks for another number when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescale {
    /// How many workers the job has now.
    pub to: u32,
    /// How many its spec or command line asked for when it was rescaled.
    pub asked: u32,
}

impl CheckpointStore {
    /// Records a rescale.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn set_rescale(&self, Rescale { to, asked }: Rescale) -> Result<()> {
        self.write(&self.dir.join(PARALLELISM), record::line(&format!("{to} {asked}")).as_bytes())
    }

    /// The rescale that holds.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn rescale(&self) -> Result<Option<Rescale>> {
        let path = self.dir.join(PARALLELISM);
        match self.disk.read(&path) {
            Ok(bytes) => {
                let numbers = record::content(&bytes).and_then(|text| text.split_once(' '));
                let numbers = numbers.and_then(|(to, asked)| Some(Rescale { to: to.parse().ok()?, asked: asked.parse().ok()? }));
                numbers.filter(|rescale| rescale.to > 0).map(Some).ok_or_else(|| {
                    Error::corrupt(format!(
                        "{} does not hold two numbers of workers with their checksum: remove it, and the job runs with as many as its spec \
                         says",
                        path.display()
                    ))
                })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
        }
    }

    /// Forgets the rescale: the number of the spec counts again.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn forget_rescale(&self) -> Result<()> {
        let path = self.dir.join(PARALLELISM);
        let removed = self.disk.remove(&path).and_then(|()| self.disk.sync_dir(&self.dir));
        removed.map_err(|error| Error::storage(format!("removing {}", path.display())).caused_by(error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{PARALLELISM, Rescale};
    use crate::disk::RealDisk;
    use crate::store::CheckpointStore;

    #[test]
    fn a_rescale_is_kept_until_it_is_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let store = CheckpointStore::open(Arc::new(RealDisk), root.path().to_owned()).unwrap();
        assert_eq!(store.rescale().unwrap(), None);
        store.set_rescale(Rescale { to: 5, asked: 2 }).unwrap();
        assert_eq!(store.rescale().unwrap(), Some(Rescale { to: 5, asked: 2 }));
        std::fs::write(root.path().join(PARALLELISM), b"7 2").unwrap();
        assert!(store.rescale().unwrap_err().chain().contains("PARALLELISM does not hold two numbers"));
        store.forget_rescale().unwrap();
        assert_eq!(store.rescale().unwrap(), None);
    }
}
