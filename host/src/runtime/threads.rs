//! Threads for workers: each drives its worker until it is told to end, and parks when there is nothing to do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Wake, Waker};
use std::thread::{Builder, JoinHandle, Thread, park_timeout};
use std::time::Duration;

use tidemill_core::checkpoint::Event;
use tidemill_core::exchange::Barrier;
use tidemill_core::source::Split;
use tidemill_core::worker::{Report, Step, Worker, WorkerSnapshot, WorkerStatistics};
use tidemill_core::{Error, Result, Timestamp};

use crate::clock::{Clock, since_start};
use crate::guest::WORKER_STACK;
use crate::machine;

/// The longest that a worker sleeps: nothing depends on it, since peers and the coordinator wake it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// After so many steps a worker looks whether it has been told something.
const STEPS_PER_LOOK: u32 = 16;
/// It looks after so long too: with slow operators a few steps take long.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// What a worker is told.
pub(super) enum Command {
    /// Begin a checkpoint.
    Trigger(Barrier),
    /// Read a split that was discovered.
    Assign(u32, Split),
    /// Say what has been counted.
    Statistics,
}

/// What the threads of an attempt say.
pub(super) enum Message {
    /// Its part of a checkpoint.
    Snapshot(Box<WorkerSnapshot>),
    /// All its data has been processed.
    EndOfInput(u32),
    /// What it has counted.
    Statistics(u32, WorkerStatistics),
    /// A step of a checkpoint is done, or has failed; with the length of the state files.
    Io(Event, u64),
    /// A thread has failed; the job must restart.
    Failed(Error),
}

/// A place to wait for a wake-up that exists before the thread that waits.
#[derive(Default)]
struct Parker {
    thread: std::sync::OnceLock<Thread>,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// The sleeping places of all workers of an attempt.
pub(super) struct Parkers(Vec<Arc<Parker>>);

impl Parkers {
    pub(super) fn new(workers: u32) -> Self {
        Self((0..workers).map(|_| Arc::default()).collect())
    }

    pub(super) fn wakers(&self) -> Vec<Waker> {
        self.0.iter().map(|parker| Waker::from(Arc::clone(parker))).collect()
    }
}

/// The running workers of an attempt. Dropping it ends and joins them.
pub(super) struct Crew {
    commands: Vec<Sender<Command>>,
    wakers: Vec<Waker>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    /// Starts one thread per worker.
    pub(super) fn start(workers: Vec<Worker>, parkers: &Parkers, clock: &Arc<dyn Clock>, messages: &Sender<Message>) -> Result<Self> {
        let mut crew = Self { commands: Vec::new(), wakers: parkers.wakers(), end: Arc::default(), threads: Vec::new() };
        for (worker, parker) in workers.into_iter().zip(&parkers.0) {
            let (sender, receiver) = channel();
            let drive = Drive {
                worker,
                clock: Arc::clone(clock),
                commands: receiver,
                messages: messages.clone(),
                end: Arc::clone(&crew.end),
                parker: Arc::clone(parker),
            };
            let name = format!("worker-{}", drive.worker.index());
            let thread = Builder::new().name(name.clone()).stack_size(WORKER_STACK).spawn(move || drive.run_guarded());
            crew.threads.push(machine::spawned(&name, thread)?);
            crew.commands.push(sender);
        }
        Ok(crew)
    }

    /// Tells every worker. One that has ended already says so by itself.
    pub(super) fn tell_all(&self, command: impl Fn() -> Command) {
        (0..self.commands.len()).for_each(|index| self.tell(index, command()));
    }

    /// Tells one worker.
    pub(super) fn tell(&self, index: usize, command: Command) {
        if let (Some(sender), Some(waker)) = (self.commands.get(index), self.wakers.get(index)) {
            // A worker that has ended has left a message that says why.
            _ = sender.send(command);
            waker.wake_by_ref();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
        self.wakers.iter().for_each(Waker::wake_by_ref);
        for thread in self.threads.drain(..) {
            // A panic was caught inside and reported.
            _ = thread.join();
        }
    }
}

struct Drive {
    worker: Worker,
    clock: Arc<dyn Clock>,
    commands: Receiver<Command>,
    messages: Sender<Message>,
    end: Arc<AtomicBool>,
    parker: Arc<Parker>,
}

impl Drive {
    /// A panic in a worker is a defect of the host; it fails the attempt like any error, not the process.
    fn run_guarded(mut self) {
        _ = self.parker.thread.set(std::thread::current());
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run()));
        let failure = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => Error::guest(format!("worker {} panicked: {}", self.worker.index(), panic_text(&*panic))),
        };
        self.say(Message::Failed(failure));
    }

    fn run(&mut self) -> Result<()> {
        loop {
            // Cleared before anything is looked at, so that no wake-up is lost.
            self.parker.woken.swap(false, Ordering::SeqCst);
            if self.end.load(Ordering::SeqCst) {
                return Ok(());
            }
            self.obey()?;
            let now = self.clock.clocks();
            let began = since_start();
            let mut step = Step::Worked;
            for _ in 0..STEPS_PER_LOOK {
                step = self.worker.step(now)?;
                self.report();
                if step != Step::Worked || since_start().saturating_sub(began) >= LOOK_AFTER {
                    break;
                }
            }
            if let Step::Waiting(until) = step
                && !self.parker.woken.load(Ordering::SeqCst)
            {
                park_timeout(until.map_or(LONGEST_SLEEP, |until| sleep(now.steady, until)));
            }
        }
    }

    fn obey(&mut self) -> Result<()> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Trigger(barrier) => self.worker.trigger(barrier)?,
                Command::Assign(source, split) => self.worker.assign(source, split)?,
                Command::Statistics => self.say(Message::Statistics(self.worker.index(), self.worker.statistics())),
            }
        }
        self.report();
        Ok(())
    }

    fn report(&mut self) {
        while let Some(report) = self.worker.report() {
            self.say(match report {
                Report::Snapshot(snapshot) => Message::Snapshot(snapshot),
                Report::EndOfInput => Message::EndOfInput(self.worker.index()),
            });
        }
    }

    fn say(&self, message: Message) {
        // Nobody listens any more only when the attempt is over.
        _ = self.messages.send(message);
    }
}

fn sleep(now: Timestamp, until: Timestamp) -> Duration {
    Duration::from_millis(until.0.saturating_sub(now.0).max(1).unsigned_abs()).min(LONGEST_SLEEP)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
