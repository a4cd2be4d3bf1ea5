//! What guests log and count, bounded.

use std::sync::Arc;

use tidemill_core::effects::Count;

use super::generated::tidemill::process::telemetry::Level;
use super::voice::Voice;

/// Messages are cut to this many bytes.
pub(super) const MESSAGE_BYTES: usize = 4096;
/// Counters of an instance beyond this number are dropped.
const COUNTERS: usize = 256;
/// Names of counters are cut to this many bytes.
const COUNTER_BYTES: usize = 128;
/// How the message begins by which the SDK tells of a panic. What has failed says it again, with the record.
const PANIC: &str = "panicked at ";

/// What one instance logs and counts in one call.
#[derive(Debug)]
pub(super) struct Telemetry {
    voice: Arc<Voice>,
    /// By name, what was counted in this call. Names stay from call to call, so that nothing is allocated for them.
    counted: Vec<Count>,
    last_error: Option<String>,
    /// A message of a panic, not yet written: if the call fails by it, the failure has it.
    panic: Option<String>,
}

impl Telemetry {
    pub(super) fn new(voice: Arc<Voice>) -> Self {
        Self { voice, counted: Vec::new(), last_error: None, panic: None }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.counted.iter_mut().for_each(|(_, n)| *n = 0);
        self.last_error = None;
        self.panic = None;
    }

    /// A call has come to its end: a panic that did not end it is a message like others.
    pub(super) fn end(&mut self) {
        if let Some(text) = self.panic.take() {
            self.voice.say(Level::Error, &text);
        }
    }

    /// Takes what the call has counted.
    pub(super) fn take_counts(&mut self, counts: &mut Vec<Count>) {
        counts.extend(self.counted.iter().filter(|(_, n)| *n > 0).cloned());
    }

    /// The last message of level error in this call: what a guest that panics says before it does.
    pub(super) fn take_error(&mut self) -> Option<String> {
        self.last_error.take()
    }

    /// Keeps a message that is not to be written as it comes, which is that of a panic. Returns whether it was one.
    pub(super) fn keep_panic(&mut self, level: Level, message: &str) -> bool {
        let is_panic = level == Level::Error && message.starts_with(PANIC);
        if is_panic {
            let text = printable(message, MESSAGE_BYTES);
            self.last_error = Some(text.clone());
            self.panic = Some(text);
        }
        is_panic
    }

    /// Takes in a message; one that is not new was written before.
    pub(super) fn log(&mut self, level: Level, message: &str, is_new: bool) {
        let text = printable(message, MESSAGE_BYTES);
        if is_new {
            self.voice.say(level, &text);
        }
        if level == Level::Error {
            self.last_error = Some(text);
        }
    }

    /// The number of a counter that is known.
    pub(super) fn find(&self, counter: &str) -> Option<usize> {
        self.counted.iter().position(|(name, _)| **name == *counter)
    }

    /// Adds to a counter that is known.
    pub(super) fn add(&mut self, index: usize, n: u64) {
        if let Some((_, sum)) = self.counted.get_mut(index) {
            *sum = sum.saturating_add(n);
        }
    }

    /// Adds to a counter.
    pub(super) fn count(&mut self, counter: &str, n: u64) {
        let name = printable(counter, COUNTER_BYTES);
        match self.find(&name) {
            Some(index) => self.add(index, n),
            None if self.counted.len() < COUNTERS => self.counted.push((name.into(), n)),
            None => self.voice.too_many_counters(COUNTERS, &name),
        }
    }
}

/// A text of a guest as one line of at most `limit` bytes without control characters, so that it cannot forge log lines or drive a
/// terminal.
pub(super) fn printable(text: &str, limit: usize) -> String {
    let short = text.get(..text.floor_char_boundary(limit)).unwrap_or(text);
    short.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{COUNTERS, Level, MESSAGE_BYTES, Telemetry, Voice, printable};

    fn telemetry() -> Telemetry {
        Telemetry::new(Arc::new(Voice::new("it", true)))
    }

    #[test]
    fn texts_become_one_short_line() {
        for (text, limit, expected) in [("a\nb\x1b[31m", 99, "a b [31m"), ("abc", 2, "ab"), ("aé", 2, "a"), ("é", 2, "é"), ("", 0, "")] {
            assert_eq!(printable(text, limit), expected);
        }
    }

    #[test]
    fn each_call_has_its_own_counts() {
        let mut telemetry = telemetry();
        let mut counts = Vec::new();
        for n in [2, 1] {
            telemetry.begin();
            telemetry.count("late", n);
            telemetry.count("late", n);
            telemetry.count("late\n", 0);
            telemetry.take_counts(&mut counts);
        }
        telemetry.begin();
        telemetry.take_counts(&mut counts);
        assert_eq!(counts, [("late".into(), 4), ("late".into(), 2)]);
    }

    #[test]
    fn counters_are_bounded() {
        let (mut telemetry, mut counts) = (telemetry(), Vec::new());
        telemetry.begin();
        (0..1000).for_each(|i| telemetry.count(&i.to_string(), 1));
        telemetry.take_counts(&mut counts);
        assert_eq!(counts.len(), COUNTERS);
    }

    #[test]
    fn the_last_error_is_kept_even_of_a_talkative_guest() {
        let mut telemetry = telemetry();
        telemetry.begin();
        (0..1000).for_each(|_| telemetry.log(Level::Trace, "again", true));
        telemetry.log(Level::Error, &"x".repeat(MESSAGE_BYTES * 2), false);
        telemetry.end();
        assert_eq!(telemetry.take_error().unwrap().len(), MESSAGE_BYTES);
        assert_eq!(telemetry.take_error(), None);
    }

    #[test]
    fn only_the_message_of_a_panic_waits_for_the_end_of_the_call() {
        let mut telemetry = telemetry();
        telemetry.begin();
        assert!(!telemetry.keep_panic(Level::Error, "something else") && !telemetry.keep_panic(Level::Info, "panicked at noon"));
        assert!(telemetry.keep_panic(Level::Error, "panicked at src/lib.rs:1:2:\nno"));
        assert_eq!(telemetry.take_error().as_deref(), Some("panicked at src/lib.rs:1:2: no"));
        telemetry.end();
        assert_eq!(telemetry.panic, None);
    }
}
