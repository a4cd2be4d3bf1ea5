//! How many rows one call gets: fewer while rows lead to much, so that what one call makes stays small, whatever the batch.

/// A call should not make more than so many bytes of output: downstream queues hold a few of these per edge.
const OUTPUT_BYTES: usize = 4 << 20;
/// A call should not need more than so many bytes of state in advance.
const STATE_BYTES: usize = 64 << 20;
/// How many rows the first call gets at most.
const FIRST_ROWS: usize = 64;
/// What an output record costs besides its payload: time, origin, key.
const RECORD_BYTES: usize = 48;

/// How much one call took in and gave out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    /// Output records.
    pub(super) records: usize,
    /// The bytes of the output records.
    pub(super) output: usize,
    /// The bytes of the state that was prefetched.
    pub(super) state: usize,
}

/// The number of rows that the next call gets at most. It changes how a batch is cut, never what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    rows: usize,
    most: usize,
}

impl Pace {
    /// Begins carefully: what one row leads to is not known yet.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { rows: most.min(FIRST_ROWS), most }
    }

    /// How many rows the next call gets at most; at least one.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes in what a call of so many rows made: half as many rows after a heavy one, twice as many after a light one that was cut, since
    /// there was more to do.
    pub(super) fn after(&mut self, rows: usize, cut: bool, weight: Weight) {
        let output = weight.output.saturating_add(weight.records.saturating_mul(RECORD_BYTES));
        if output > OUTPUT_BYTES || weight.state > STATE_BYTES {
            self.shrink(rows);
        } else if cut && output < OUTPUT_BYTES / 4 && weight.state < STATE_BYTES / 4 {
            self.rows = (self.rows * 2).min(self.most);
        }
    }

    /// After a call of so many rows that failed or was heavy.
    pub(super) fn shrink(&mut self, rows: usize) {
        self.rows = self.rows.min(rows / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_ROWS, OUTPUT_BYTES, Pace, Weight};

    #[test]
    fn heavy_calls_become_smaller_and_light_ones_larger_again() {
        let mut pace = Pace::new(100);
        assert_eq!(pace.rows(), FIRST_ROWS);
        pace.after(FIRST_ROWS, true, Weight::default());
        let heavy = Weight { output: OUTPUT_BYTES + 1, ..Weight::default() };
        let rows = |pace: &mut Pace, weight| {
            pace.after(pace.rows(), true, weight);
            pace.rows()
        };
        assert_eq!([heavy; 8].map(|weight| rows(&mut pace, weight)), [50, 25, 12, 6, 3, 1, 1, 1]);
        let middling = Weight { output: OUTPUT_BYTES / 2, ..Weight::default() };
        assert_eq!(rows(&mut pace, middling), 1);
        assert_eq!([Weight::default(); 8].map(|weight| rows(&mut pace, weight)), [2, 4, 8, 16, 32, 64, 100, 100]);
        let many = Weight { records: OUTPUT_BYTES / 16, ..Weight::default() };
        assert_eq!(rows(&mut pace, many), 50);
        pace.after(7, false, Weight::default());
        assert_eq!(pace.rows(), 50, "a small batch says nothing of large ones");
    }
}
