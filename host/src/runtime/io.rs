//! The thread that does what waits for disks and sinks: the steps of checkpoints, in order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tidemill_core::{Error, Result};
use tracing::warn;

use super::checkpoints::{Checkpoints, GivenUp, Task};
use super::doing::Doing;
use super::threads::Message;
use crate::clock::Clock;
use crate::machine;

/// How often it is said that the end of an attempt waits for a disk or a sink.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread. Dropping it waits until what it was given is done: while it may still write, nothing else may begin.
pub(super) struct IoThread {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    doing: Doing,
    given_up: GivenUp,
    /// Closes when the thread ends.
    ended: Receiver<()>,
}

impl IoThread {
    pub(super) fn start(checkpoints: Checkpoints, clock: Arc<dyn Clock>, messages: Sender<Message>) -> Result<Self> {
        let (sender, receiver) = channel();
        let (running, ended) = channel();
        let (doing, given_up) = (checkpoints.doing().clone(), checkpoints.given_up().clone());
        let io = Io { checkpoints, clock, messages, _running: running };
        let thread = machine::spawn("checkpoints", move || io.run(&receiver))?;
        Ok(Self { tasks: Some(sender), thread: Some(thread), doing, given_up, ended })
    }

    pub(super) fn give(&self, task: Task) {
        if let Task::Discard { checkpoint } = task {
            self.given_up.give_up(checkpoint);
        }
        if let Some(tasks) = &self.tasks {
            // If the thread has ended it has said why.
            _ = tasks.send(task);
        }
    }

    /// What it is doing.
    pub(super) fn doing(&self) -> Option<String> {
        self.doing.what()
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.tasks = None;
        // Nobody is left who would have a checkpoint stored.
        self.given_up.give_up(u64::MAX);
        while let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(PATIENCE) {
            let doing = self.doing.what().unwrap_or_default();
            warn!(doing, "the job cannot go on before a step of a checkpoint has ended, which takes long: {doing}");
        }
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

struct Io {
    checkpoints: Checkpoints,
    clock: Arc<dyn Clock>,
    messages: Sender<Message>,
    /// Dropped with the thread.
    _running: Sender<()>,
}

impl Io {
    fn run(mut self, tasks: &Receiver<Task>) {
        while let Ok(task) = tasks.recv() {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.checkpoints.perform(task, self.clock.now())));
            // A panic is a defect of the host; it fails the attempt like any error.
            match outcome.unwrap_or_else(|_| Err(Error::storage("a step of a checkpoint panicked"))) {
                Ok(Some(event)) => self.say(Message::Io(event, self.checkpoints.stored_bytes())),
                Ok(None) => {}
                Err(error) => {
                    self.say(Message::Failed(error));
                    return self.only_note(tasks);
                }
            }
        }
    }

    /// After a failure nothing more is done, but what became of the last checkpoint is still written down.
    fn only_note(mut self, tasks: &Receiver<Task>) {
        for task in tasks.iter().filter(|task| matches!(task, Task::Note(_))) {
            _ = self.checkpoints.perform(task, self.clock.now());
        }
    }

    fn say(&self, message: Message) {
        _ = self.messages.send(message);
    }
}
