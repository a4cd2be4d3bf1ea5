//! With how many workers a job goes on that was rescaled while it ran.

use tidemill_core::{Error, Result};

use super::{CheckpointStore, record};

const PARALLELISM: &str = "PARALLELISM";

/// A rescale that holds until the user stops the job, or asks for another number when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescale {
    /// How many workers the job has now.
    pub to: u32,
    /// How many its spec or command line asked for when it was rescaled.
    pub asked: u32,
    /// Which request it was done for; `None` if it was undone, or noted by an earlier version.
    pub request: Option<Request>,
}

/// The request that a rescale was done for, so that it can be answered again after its answer was lost with the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many workers there were.
    pub from: u32,
    /// The checkpoint from which the new workers continue.
    pub checkpoint: u64,
    /// What the client called it: visible ASCII without spaces.
    pub trigger: String,
}

impl CheckpointStore {
    /// Records a rescale.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn set_rescale(&self, Rescale { to, asked, request }: &Rescale) -> Result<()> {
        let request =
            request.as_ref().map_or_else(String::new, |request| format!(" {} {} {}", request.from, request.checkpoint, request.trigger));
        self.write(&self.dir.join(PARALLELISM), record::line(&format!("{to} {asked}{request}")).as_bytes())
    }

    /// The rescale that holds.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn rescale(&self) -> Result<Option<Rescale>> {
        let path = self.dir.join(PARALLELISM);
        match self.disk.read_at_most(&path, record::MOST_BYTES) {
            Ok(bytes) => record::content(&bytes).and_then(parse).filter(|rescale| rescale.to > 0).map(Some).ok_or_else(|| {
                Error::corrupt(format!(
                    "{} does not hold two numbers of workers with their checksum: remove it, and the job runs with as many as its spec \
                         says",
                    path.display()
                ))
            }),
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

fn parse(text: &str) -> Option<Rescale> {
    let mut words = text.split(' ');
    let (to, asked) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let request = match words.next() {
        None => None,
        Some(from) => {
            let (from, checkpoint) = (from.parse().ok()?, words.next()?.parse().ok()?);
            Some(Request { from, checkpoint, trigger: words.next()?.to_owned() })
        }
    };
    words.next().is_none().then_some(Rescale { to, asked, request })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{PARALLELISM, Request, Rescale};
    use crate::disk::RealDisk;
    use crate::store::CheckpointStore;

    #[test]
    fn a_rescale_is_kept_until_it_is_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let store = CheckpointStore::open(Arc::new(RealDisk), root.path().to_owned()).unwrap();
        assert_eq!(store.rescale().unwrap(), None);
        let request = Request { from: 2, checkpoint: 9, trigger: "a-b".to_owned() };
        for request in [None, Some(request)] {
            let rescale = Rescale { to: 5, asked: 2, request };
            store.set_rescale(&rescale).unwrap();
            assert_eq!(store.rescale().unwrap(), Some(rescale));
        }
        std::fs::write(root.path().join(PARALLELISM), b"7 2").unwrap();
        assert!(store.rescale().unwrap_err().chain().contains("PARALLELISM does not hold two numbers"));
        store.forget_rescale().unwrap();
        assert_eq!(store.rescale().unwrap(), None);
    }
}
