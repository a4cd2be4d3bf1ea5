//! What the job was when it last ran, so that a later start can say what has changed since.

use tidemill_core::{Error, Result};
use tracing::warn;

use super::{CheckpointStore, record};

const REVISION: &str = "REVISION";

impl CheckpointStore {
    /// Records what the job is, as one line of text.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn set_revision(&self, text: &str) -> Result<()> {
        self.write(&self.dir.join(REVISION), record::line(text).as_bytes())
    }

    /// What was recorded; `None` in the folders of earlier versions, and, with a warning, if it is damaged: nothing depends on it.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn revision(&self) -> Result<Option<String>> {
        let path = self.dir.join(REVISION);
        match self.disk.read(&path) {
            Ok(bytes) => {
                let text = record::content(&bytes).map(str::to_owned);
                if text.is_none() {
                    warn!("{} is damaged: it cannot be said what has changed in the job since it last ran", path.display());
                }
                Ok(text)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
        }
    }
}
