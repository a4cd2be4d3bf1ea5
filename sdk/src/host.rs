//! What a detector can ask of its host while a batch runs.

/// The host's side of a running batch: lazy reads and telemetry. In a component these are the imports.
pub trait Host {
    /// The encoded value of a map entry as of the start of the batch.
    fn get_entry(&mut self, slot: u32, state: u8, key: &[u8]) -> Option<Vec<u8>>;

    /// Up to `limit` entries in order after the given entry key, as of the start of the batch. For a list the key is the element's index as
    /// a big-endian u32.
    fn scan_entries(&mut self, slot: u32, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)>;

    /// The encoded value of an entry of a broadcast state as of the start of the batch.
    fn get_broadcast_entry(&mut self, state: u8, key: &[u8]) -> Option<Vec<u8>>;

    /// Up to `limit` entries of a broadcast state in order after the given entry key, as of the start of the batch.
    fn scan_broadcast_entries(&mut self, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)>;

    /// The encoded row of a reference table.
    fn lookup(&mut self, table: u8, key: &[u8]) -> Option<Vec<u8>>;

    /// Writes a line to the job's log.
    fn log(&mut self, level: Level, message: &str);

    /// Adds to a counter of the operator.
    fn count(&mut self, counter: &str, n: u64);
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong.
    Error,
    /// Something may be wrong.
    Warn,
    /// Worth knowing.
    Info,
    /// For finding out what happens.
    Debug,
    /// For finding out what happens, in every detail.
    Trace,
}
