//! The readings of many devices, as files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fastrand::Rng;

/// How long a device must be silent to count as quiet, in milliseconds.
pub(super) const AFTER: i64 = 3_600_000;
/// When the first reading is.
const BEGIN: i64 = 1_786_752_000_000;
/// One key's timer fires for so many updates.
const UPDATES_PER_TIMER: u64 = 50;
/// Workers, and files.
pub(super) const FILES: u64 = 2;

/// What is in the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Each is read once to begin with.
    pub(super) keys: u64,
    /// Readings after that, of devices that are drawn by Zipf's law.
    pub(super) updates: u64,
}

impl Size {
    /// Writes the files `readings-0.jsonl` and so on, unless they are there.
    pub(super) fn write(self, dir: &Path) -> io::Result<()> {
        let Self { keys, updates } = self;
        let (stamp, named) = (dir.join("readings.txt"), format!("{keys} keys, {updates} updates\n"));
        if fs::read_to_string(&stamp).is_ok_and(|found| found == named) {
            return Ok(());
        }
        _ = fs::remove_file(&stamp);
        for file in 0..FILES {
            self.write_file(file, &dir.join(format!("readings-{file}.jsonl")))?;
        }
        fs::write(stamp, named)
    }

    fn write_file(self, file: u64, path: &Path) -> io::Result<()> {
        let Self { keys, updates } = self;
        let (mut rng, mut to) = (Rng::with_seed(17 + file), BufWriter::with_capacity(1 << 20, File::create(path)?));
        let at = |number: u64, of: u64, span: i64| BEGIN + part(number, of, span);
        for key in (file..keys).step_by(usize::try_from(FILES).unwrap_or(1)) {
            write_reading(&mut to, key, at(key, keys, AFTER))?;
        }
        // So much of the span of the first readings passes meanwhile, and with it their timers.
        let span = part(updates, keys * UPDATES_PER_TIMER, AFTER);
        for number in (file..updates).step_by(usize::try_from(FILES).unwrap_or(1)) {
            write_reading(&mut to, zipf(keys, &mut rng), at(number, updates, span) + AFTER)?;
        }
        to.flush()
    }
}

/// `span` times `number / of`.
fn part(number: u64, of: u64, span: i64) -> i64 {
    i64::try_from(i128::from(span) * i128::from(number) / i128::from(of.max(1))).unwrap_or(i64::MAX)
}

/// A device's name has 60 bytes, of which 28 are the same for all.
fn write_reading(to: &mut impl Write, key: u64, at: i64) -> io::Result<()> {
    let (one, other) = (scatter(key), scatter(!key));
    writeln!(to, "{{\"device\":\"eu-central-1/meter/electric/{one:016x}{other:016x}\",\"at\":{at}}}")
}

/// Neighbouring numbers become numbers far from each other, as `SplitMix64` has it.
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number below `count`, the one of rank k with a probability that goes with 1 / k.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ranks are far below 2^53")]
fn zipf(count: u64, rng: &mut Rng) -> u64 {
    loop {
        // The integral of 1 / x from k to k + 1 is what k is drawn by here; the rest is drawn again.
        let rank = ((count as f64 + 1.0).ln() * rng.f64()).exp().floor();
        if rank <= count as f64 && rng.f64() * rank * (1.0 / rank).ln_1p() <= std::f64::consts::LN_2 {
            return rank as u64 - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::{write_reading, zipf};

    #[test]
    fn ranks_are_drawn_by_zipfs_law() {
        let (mut rng, mut drawn) = (Rng::with_seed(1), [0u32; 10]);
        let draws = 200_000;
        for _ in 0..draws {
            drawn[usize::try_from(zipf(10, &mut rng)).unwrap()] += 1;
        }
        let harmonic: f64 = (1..=10).map(|rank| 1.0 / f64::from(rank)).sum();
        for (rank, count) in (1..).zip(drawn) {
            let expected = f64::from(draws) / f64::from(rank) / harmonic;
            assert!((f64::from(count) - expected).abs() < 0.03 * expected, "rank {rank}: {count} instead of {expected}");
        }
    }

    #[test]
    fn names_have_sixty_bytes() {
        let mut line = Vec::new();
        write_reading(&mut line, 7, 1).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["device"].as_str().map(str::len), Some(60));
    }
}
