//! Records that went wrong, as examples for messages.

use std::sync::Arc;

/// A record that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Where it is, in words.
    pub place: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The first one that went wrong in some way, and the newest.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The first one; `None`: none has gone wrong.
    pub first: Option<Arc<Sample>>,
    /// The newest one.
    pub newest: Option<Arc<Sample>>,
}

impl Samples {
    /// Keeps a sample.
    pub fn add(&mut self, sample: Sample) {
        let sample = Arc::new(sample);
        self.first.get_or_insert_with(|| Arc::clone(&sample));
        self.newest = Some(sample);
    }
}
