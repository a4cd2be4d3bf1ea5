//! What guests log and count, bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::generated::tidemill::process::telemetry::Level;

/// Messages beyond this number in one call are dropped.
const MESSAGES: u32 = 100;
/// Messages are cut to this many bytes.
pub(super) const MESSAGE_BYTES: usize = 4096;
/// Counters beyond this number are dropped.
const COUNTERS: usize = 256;
/// Names of counters are cut to this many bytes.
const COUNTER_BYTES: usize = 128;

/// The counters of a component, summed over its instances.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<BTreeMap<String, u64>>);

impl Counters {
    /// The counters by name.
    pub(super) fn read(&self) -> Vec<(String, u64)> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|(name, &n)| (name.clone(), n)).collect()
    }

    fn add(&self, counted: &mut Vec<(String, u64)>) {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, n) in counted.drain(..) {
            let room = counters.len() < COUNTERS;
            match counters.get_mut(&name) {
                Some(sum) => *sum = sum.saturating_add(n),
                None if room => drop(counters.insert(name, n)),
                None => tracing::debug!(counter = name, "a guest has too many counters, one is dropped"),
            }
        }
    }
}

/// What one instance logs and counts in one call.
#[derive(Debug)]
pub(super) struct Telemetry {
    component: Arc<str>,
    counters: Arc<Counters>,
    messages: u32,
    counted: Vec<(String, u64)>,
    last_error: Option<String>,
}

impl Telemetry {
    pub(super) fn new(component: Arc<str>, counters: Arc<Counters>) -> Self {
        Self { component, counters, messages: 0, counted: Vec::new(), last_error: None }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self) {
        self.messages = 0;
        self.counted.clear();
        self.last_error = None;
    }

    /// Ends a call.
    pub(super) fn end(&mut self) {
        if let Some(dropped) = self.messages.checked_sub(MESSAGES).filter(|&dropped| dropped > 0) {
            tracing::warn!(component = %self.component, dropped, "a guest logs too much in one call, messages are dropped");
        }
    }

    /// Adds what the call counted to the component's counters. What a failed call counted is dropped, since its rows are processed again.
    pub(super) fn add_counted(&mut self) {
        if !self.counted.is_empty() {
            self.counters.add(&mut self.counted);
        }
    }

    /// The last message of level error in this call: what a guest that panics says before it does.
    pub(super) fn take_error(&mut self) -> Option<String> {
        self.last_error.take()
    }

    pub(super) fn log(&mut self, level: Level, message: &str) {
        self.messages = self.messages.saturating_add(1);
        let dropped = self.messages > MESSAGES;
        if dropped && level != Level::Error {
            return;
        }
        let text = printable(message, MESSAGE_BYTES);
        let component = &*self.component;
        match level {
            _ if dropped => {}
            Level::Error => tracing::error!(component, "{text}"),
            Level::Warn => tracing::warn!(component, "{text}"),
            Level::Info => tracing::info!(component, "{text}"),
            Level::Debug => tracing::debug!(component, "{text}"),
            Level::Trace => tracing::trace!(component, "{text}"),
        }
        if level == Level::Error {
            self.last_error = Some(text);
        }
    }

    pub(super) fn count(&mut self, counter: &str, n: u64) {
        let room = self.counted.len() < COUNTERS;
        match self.counted.iter_mut().find(|(name, _)| name == counter) {
            Some((_, sum)) => *sum = sum.saturating_add(n),
            None if room => self.counted.push((printable(counter, COUNTER_BYTES), n)),
            None => {}
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

    use super::{COUNTERS, Counters, Level, MESSAGE_BYTES, MESSAGES, Telemetry, printable};

    #[test]
    fn texts_become_one_short_line() {
        for (text, limit, expected) in [("a\nb\x1b[31m", 99, "a b [31m"), ("abc", 2, "ab"), ("aé", 2, "a"), ("é", 2, "é"), ("", 0, "")] {
            assert_eq!(printable(text, limit), expected);
        }
    }

    #[test]
    fn what_a_failed_call_counted_is_dropped() {
        let counters = Arc::new(Counters::default());
        let mut telemetry = Telemetry::new("it".into(), Arc::clone(&counters));
        for worked in [true, false, true] {
            telemetry.begin();
            telemetry.count("late", 2);
            telemetry.count("late", 1);
            if worked {
                telemetry.add_counted();
            }
        }
        assert_eq!(counters.read(), [("late".to_owned(), 6)]);
    }

    #[test]
    fn counters_are_bounded() {
        let counters = Arc::new(Counters::default());
        let mut telemetry = Telemetry::new("it".into(), Arc::clone(&counters));
        for call in 0..3 {
            telemetry.begin();
            (0..1000).for_each(|i| telemetry.count(&format!("{call}-{i}"), 1));
            telemetry.add_counted();
        }
        assert_eq!(counters.read().len(), COUNTERS);
    }

    #[test]
    fn the_last_error_is_kept_even_of_a_talkative_guest() {
        let mut telemetry = Telemetry::new("it".into(), Arc::default());
        telemetry.begin();
        (0..=MESSAGES).for_each(|_| telemetry.log(Level::Trace, "again"));
        telemetry.log(Level::Error, &"x".repeat(MESSAGE_BYTES * 2));
        telemetry.end();
        assert_eq!(telemetry.take_error().unwrap().len(), MESSAGE_BYTES);
        assert_eq!(telemetry.take_error(), None);
    }
}
