//! Freezing a database without its worker: to flush what is in memory and make it durable takes up to a second on a busy disk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};

use tidemill_core::checkpoint::manifest::FileFormat;
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{Frozen, FrozenFile};
use tidemill_core::{Error, Result};

use super::database::{Database, FrozenFiles};
use super::frozen::pass_frozen;

/// A database that is being frozen, on a thread of its own. Until that has ended nothing may be written to it.
pub(super) struct Freezing {
    thread: JoinHandle<()>,
}

impl Freezing {
    /// Begins to freeze what is in the database now. The files can be waited for elsewhere.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(super) fn begin(database: &Arc<Database>) -> Result<(Self, Box<dyn Frozen>)> {
        let (sender, made) = channel();
        let files = FilesToBe { database: database.name(), made, there: None };
        let frozen = Arc::clone(database);
        let thread = Builder::new().name("freezing".to_owned()).spawn(move || {
            // If nobody waits for the files any more, they go at once.
            _ = sender.send(frozen.freeze());
        });
        let failed = |error| Error::storage(format!("starting a thread to freeze {}", files.database)).caused_by(error);
        Ok((Self { thread: thread.map_err(failed)? }, Box::new(files)))
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until it has ended.
    pub(super) fn end(self) {
        // What became of it is for whoever waits for the files.
        _ = self.thread.join();
    }
}

/// The files of a database that is being frozen.
struct FilesToBe {
    /// The name of the database.
    database: String,
    made: Receiver<Result<FrozenFiles>>,
    /// Kept, since the files go with it.
    there: Option<FrozenFiles>,
}

impl FilesToBe {
    /// Waits for the files.
    fn there(&mut self) -> Result<&FrozenFiles> {
        let made = match self.there.take() {
            Some(files) => files,
            None => self.made.recv().map_err(|_| Error::storage(format!("freezing the files of {} was given up", self.database)))??,
        };
        Ok(self.there.insert(made))
    }
}

impl Frozen for FilesToBe {
    fn format(&self) -> FileFormat {
        FileFormat::Database
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        Ok(self.there()?.files.clone())
    }

    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        pass_frozen(&self.there()?.folder, each)
    }
}
