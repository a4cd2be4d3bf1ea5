//! The thread that does what waits for disks and sinks: the steps of checkpoints, in order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use tidemill_core::{Error, Result};

use super::checkpoints::{Checkpoints, Task};
use super::threads::Message;
use crate::clock::Clock;

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
            let outcome = catch_unwind(AssertUnwindSafe(|| self.checkpoints.perform(task, self.clock.now())));
            // A panic is a defect of the host; it fails the attempt like any error.
            match outcome.unwrap_or_else(|_| Err(Error::storage("a step of a checkpoint panicked"))) {
                Ok(Some(event)) => self.say(Message::Io(event, self.checkpoints.stored_bytes())),
                Ok(None) => {}
                Err(error) => return self.say(Message::Failed(error)),
            }
        }
    }

    fn say(&self, message: Message) {
        _ = self.messages.send(message);
    }
}
