//! The thread that does what waits for disks and sinks: the steps of checkpoints, in order.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use tidemill_core::checkpoint::Event;
use tidemill_core::worker::WorkerSnapshot;
use tidemill_core::{Error, Kind, Result};
use tracing::warn;

use super::checkpoints::Checkpoints;
use super::threads::Message;
use crate::clock::Clock;

/// A step of a checkpoint.
pub(super) enum Task {
    Persist(Box<WorkerSnapshot>),
    Store { checkpoint: u64, end_of_input: bool },
    Commit { checkpoint: u64 },
    Retain { newest: u64 },
    Discard { checkpoint: u64 },
}

/// The thread. Dropping it waits until what it was given is done.
pub(super) struct IoThread {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl IoThread {
    pub(super) fn start(checkpoints: Checkpoints, clock: Arc<dyn Clock>, messages: Sender<Message>) -> Result<Self> {
        let (sender, receiver) = channel();
        let io = Io { checkpoints, clock, messages };
        let thread = Builder::new().name("checkpoints".to_owned()).spawn(move || io.run(&receiver));
        let thread = thread.map_err(|error| Error::config("starting the checkpoint thread").caused_by(error))?;
        Ok(Self { tasks: Some(sender), thread: Some(thread) })
    }

    pub(super) fn give(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // If the thread has ended it has said why.
            _ = tasks.send(task);
        }
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

struct Io {
    checkpoints: Checkpoints,
    clock: Arc<dyn Clock>,
    messages: Sender<Message>,
}

impl Io {
    fn run(mut self, tasks: &Receiver<Task>) {
        while let Ok(task) = tasks.recv() {
            match self.perform(task) {
                Ok(Some(event)) => self.say(Message::Io(event, self.checkpoints.stored_bytes())),
                Ok(None) => {}
                Err(error) => return self.say(Message::Failed(error)),
            }
        }
    }

    fn perform(&mut self, task: Task) -> Result<Option<Event>> {
        match task {
            Task::Persist(snapshot) => {
                let (worker, checkpoint) = (snapshot.worker, snapshot.checkpoint);
                let outcome = self.checkpoints.persist(*snapshot);
                checkpoint_failure(checkpoint, outcome, Event::Acknowledged { worker, checkpoint })
            }
            Task::Store { checkpoint, end_of_input } => {
                let outcome = self.checkpoints.store(checkpoint, end_of_input, self.clock.now());
                checkpoint_failure(checkpoint, outcome, Event::Stored { checkpoint })
            }
            Task::Commit { checkpoint } => self.checkpoints.commit().map(|()| Some(Event::Committed { checkpoint })),
            Task::Retain { newest } => {
                // What cannot be removed now is removed later: it costs space, not correctness.
                if let Err(error) = self.checkpoints.retain(newest) {
                    warn!(newest, "cannot remove old checkpoints: {}", error.chain());
                }
                Ok(None)
            }
            Task::Discard { checkpoint } => {
                if let Err(error) = self.checkpoints.discard(checkpoint) {
                    warn!(checkpoint, "cannot remove a failed checkpoint: {}", error.chain());
                }
                Ok(None)
            }
        }
    }

    fn say(&self, message: Message) {
        _ = self.messages.send(message);
    }
}

/// A storage error fails the checkpoint, which the spec may tolerate; any other fails the job.
fn checkpoint_failure(checkpoint: u64, outcome: Result<()>, done: Event) -> Result<Option<Event>> {
    match outcome {
        Ok(()) => Ok(Some(done)),
        Err(error) if error.kind() == Kind::Storage => {
            warn!(checkpoint, "the checkpoint failed: {}", error.chain());
            Ok(Some(Event::Failed { checkpoint, reason: error.chain() }))
        }
        Err(error) => Err(error),
    }
}
