//! A source whose splits are in memory. Positions are line numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use tidemill::codec::JsonDecoder;
use tidemill_core::source::{Limit, Polled, Source, SourceRows, Split, SplitReader, add_new};
use tidemill_core::{Error, Result};
use tidemill_wit::schema::TypeTable;

/// Keeps a source from giving anything, as if nothing had come in yet.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Shuts it, or opens it.
    pub fn shut(&self, shut: bool) {
        self.0.store(shut, Ordering::Relaxed);
    }
}

/// The lines of all splits.
pub struct MemorySource {
    gate: Gate,
    lines: Arc<Vec<Vec<String>>>,
    input: TypeTable,
}

impl MemorySource {
    /// A bounded source of lines that decode into the type.
    #[must_use]
    pub fn new(lines: Vec<Vec<String>>, input: TypeTable, gate: Gate) -> Self {
        Self { gate, lines: Arc::new(lines), input }
    }
}

impl Source for MemorySource {
    fn discover(&self, known: &mut Vec<Split>) -> Result<()> {
        add_new(known, (0..self.lines.len()).map(|split| split.to_string()));
        Ok(())
    }

    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>> {
        let index = split.name.parse().map_err(|error| Error::config("a split's name is its number").caused_by(error))?;
        Ok(Box::new(Reader {
            gate: self.gate.clone(),
            lines: Arc::clone(&self.lines),
            split: index,
            position: usize::try_from(split.position).unwrap_or(usize::MAX),
            decoder: JsonDecoder::new(self.input.clone()),
            rng: Rng::with_seed(split.position),
        }))
    }

    fn bounded(&self) -> bool {
        true
    }
}

struct Reader {
    gate: Gate,
    lines: Arc<Vec<Vec<String>>>,
    split: usize,
    position: usize,
    decoder: JsonDecoder,
    /// Decides how much a poll gives.
    rng: Rng,
}

impl SplitReader for Reader {
    /// Gives as many lines as asked for, or fewer, or none for the time being, as a network does.
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        if self.gate.0.load(Ordering::Relaxed) {
            return Ok(Polled::Pending);
        }
        let lines = self.lines.get(self.split).map_or(&[][..], Vec::as_slice);
        let wanted = match self.rng.u8(..32) {
            0 => 0,
            1..8 => self.rng.usize(1..=limit.rows.max(1)),
            _ => limit.rows,
        };
        for line in lines.iter().skip(self.position).take(wanted) {
            self.decoder.decode(line.as_bytes(), &mut rows.payload.bytes).map_err(Error::connector)?;
            rows.payload.finish();
            rows.position.push(self.position as u64);
            self.position += 1;
        }
        Ok(if self.position >= lines.len() {
            Polled::End
        } else if wanted == 0 {
            Polled::Pending
        } else {
            Polled::More
        })
    }

    fn position(&self) -> u64 {
        self.position as u64
    }
}
