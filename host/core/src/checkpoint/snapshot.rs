//! The state file of one worker: for each operator its watermark, the timer pass it is in, and its state by key group.
//!
//! Layout, integers little-endian: the magic, format `u32`, worker `u32`, checkpoint `u64`; then entries, each with a tag: an operator (uid,
//! pass, watermark), blocks of the operator before (key group, bytes), the end. Last XXH3 (64 bits) of all bytes before it.

use xxhash_rust::xxh3::xxh3_64;

use crate::key_group::KeyGroup;
use crate::time::{Domain, Timestamp};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"tm-state";
const FORMAT: u32 = 1;
const TRAILER: usize = size_of::<u64>();

const TAG_END: u8 = 0;
const TAG_OPERATOR: u8 = 1;
const TAG_BLOCK: u8 = 2;

/// A timer pass that a checkpoint interrupted; a restore finishes it before any input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whose timers are firing.
    pub domain: Domain,
    /// Up to which time they fire.
    pub horizon: Timestamp,
}

/// Builds the file's bytes.
#[derive(Clone, Debug)]
pub struct SnapshotWriter {
    bytes: Vec<u8>,
}

impl SnapshotWriter {
    /// An empty snapshot of one worker.
    #[must_use]
    pub fn new(worker: u32, checkpoint: u64) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&worker.to_le_bytes());
        bytes.extend_from_slice(&checkpoint.to_le_bytes());
        Self { bytes }
    }

    /// Begins the next operator.
    pub fn operator(&mut self, uid: &str, pass: Option<Pass>, watermark: Timestamp) {
        self.bytes.push(TAG_OPERATOR);
        self.sized(uid.as_bytes());
        self.bytes.push(pass.map_or(0, |pass| pass.domain as u8 + 1));
        self.bytes.extend_from_slice(&pass.map_or(0, |pass| pass.horizon.0).to_le_bytes());
        self.bytes.extend_from_slice(&watermark.0.to_le_bytes());
    }

    /// Adds the state of one key group to the operator begun last. Key groups come in ascending order.
    pub fn block(&mut self, group: KeyGroup, block: &[u8]) {
        self.bytes.push(TAG_BLOCK);
        self.bytes.extend_from_slice(&group.0.to_le_bytes());
        self.sized(block);
    }

    /// The file's bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(TAG_END);
        let hash = xxh3_64(&self.bytes);
        self.bytes.extend_from_slice(&hash.to_le_bytes());
        self.bytes
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }
}

/// A state file that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// The worker that wrote it.
    pub worker: u32,
    /// The checkpoint that it belongs to.
    pub checkpoint: u64,
    /// The operators in the order in which they were written; no uid twice.
    pub operators: Vec<OperatorSnapshot<'a>>,
}

/// One operator's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSnapshot<'a> {
    /// The operator's uid.
    pub uid: &'a str,
    /// The timer pass that it was in.
    pub pass: Option<Pass>,
    /// Its watermark.
    pub watermark: Timestamp,
    /// The state by key group, ascending.
    pub blocks: Vec<(KeyGroup, &'a [u8])>,
}

impl<'a> Snapshot<'a> {
    /// Reads a file's bytes, none of which are trusted.
    ///
    /// # Errors
    /// The bytes are not what was written, or of a version that this program does not know.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let not_a_state_file = || Error::corrupt("the state file is cut off, or is no state file");
        let (body, trailer) = bytes.split_last_chunk::<TRAILER>().ok_or_else(not_a_state_file)?;
        let mut input = Input(body.strip_prefix(MAGIC).ok_or_else(not_a_state_file)?);
        if xxh3_64(body) != u64::from_le_bytes(*trailer) {
            return Err(Error::corrupt("the state file is not what was written: its checksum is wrong"));
        }
        let format = u32::from_le_bytes(input.array()?);
        if format != FORMAT {
            let text =
                format!("the state file has the format {format}, this program reads the format {FORMAT}: use the program that wrote it");
            return Err(Error::config(text));
        }
        let (worker, checkpoint) = (u32::from_le_bytes(input.array()?), u64::from_le_bytes(input.array()?));
        Ok(Self { worker, checkpoint, operators: operators(input)? })
    }
}

fn operators(mut input: Input<'_>) -> Result<Vec<OperatorSnapshot<'_>>> {
    let mut operators = Vec::<OperatorSnapshot<'_>>::new();
    loop {
        match input.array::<1>()? {
            [TAG_END] if input.0.is_empty() => return Ok(operators),
            [TAG_OPERATOR] => {
                let operator = input.operator()?;
                if operators.iter().any(|other| other.uid == operator.uid) {
                    return Err(Error::corrupt(format!("the state file has the operator `{}` twice", operator.uid)));
                }
                operators.push(operator);
            }
            [TAG_BLOCK] => {
                let (group, block) = (KeyGroup(u16::from_le_bytes(input.array()?)), input.sized()?);
                let operator = operators.last_mut().ok_or_else(malformed)?;
                if operator.blocks.last().is_some_and(|(before, _)| *before > group) {
                    return Err(Error::corrupt(format!("the key groups of operator `{}` are out of order", operator.uid)));
                }
                operator.blocks.push((group, block));
            }
            _ => return Err(malformed()),
        }
    }
}

/// The bytes that are still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn sized(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| malformed())?;
        let (head, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn timestamp(&mut self) -> Result<Timestamp> {
        Ok(Timestamp(i64::from_le_bytes(self.array()?)))
    }

    fn operator(&mut self) -> Result<OperatorSnapshot<'a>> {
        let uid = std::str::from_utf8(self.sized()?).map_err(|_| malformed())?;
        let ([domain], horizon) = (self.array()?, self.timestamp()?);
        let pass = match domain.checked_sub(1) {
            None => None,
            Some(code) => Some(Pass { domain: Domain::from_code(code).ok_or_else(malformed)?, horizon }),
        };
        Ok(OperatorSnapshot { uid, pass, watermark: self.timestamp()?, blocks: Vec::new() })
    }
}

fn malformed() -> Error {
    Error::corrupt("the state file is malformed")
}

#[cfg(test)]
mod tests {
    use super::{Pass, Snapshot, SnapshotWriter, xxh3_64};
    use crate::key_group::KeyGroup;
    use crate::time::{Domain, Timestamp};

    fn bytes() -> Vec<u8> {
        let mut writer = SnapshotWriter::new(3, 9);
        writer.operator("first", None, Timestamp::MIN);
        writer.operator("second", Some(Pass { domain: Domain::Processing, horizon: Timestamp(5) }), Timestamp(7));
        writer.block(KeyGroup(0), b"zero");
        writer.block(KeyGroup(64), b"");
        writer.operator("third", Some(Pass { domain: Domain::Event, horizon: Timestamp(-5) }), Timestamp::MAX);
        writer.finish()
    }

    #[test]
    fn a_snapshot_comes_back() {
        let bytes = bytes();
        let found = Snapshot::parse(&bytes).unwrap();
        assert_eq!((found.worker, found.checkpoint, found.operators.len()), (3, 9, 3));
        assert_eq!((found.operators[0].uid, found.operators[0].pass, found.operators[0].watermark), ("first", None, Timestamp::MIN));
        let second = &found.operators[1];
        assert_eq!(second.pass, Some(Pass { domain: Domain::Processing, horizon: Timestamp(5) }));
        assert_eq!(second.blocks, [(KeyGroup(0), &b"zero"[..]), (KeyGroup(64), b"")]);
        assert_eq!(found.operators[2].pass, Some(Pass { domain: Domain::Event, horizon: Timestamp(-5) }));
        assert_eq!(Snapshot::parse(&SnapshotWriter::new(0, 1).finish()).unwrap().operators, []);
    }

    #[test]
    fn damage_is_found_with_and_without_the_checksum() {
        let bytes = bytes();
        let resign = |body: &[u8]| [body, &xxh3_64(body).to_le_bytes()].concat();
        let body = &bytes[..bytes.len() - 8];
        assert_eq!(resign(body), bytes);
        for cut in 0..body.len() {
            assert!(Snapshot::parse(&bytes[..cut]).is_err() && Snapshot::parse(&resign(&body[..cut])).is_err(), "cut at {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Snapshot::parse(&flipped).is_err(), "bit {bit}");
            // Whoever can sign may still not make the reader panic.
            if let Ok(found) = Snapshot::parse(&resign(&flipped[..body.len()])) {
                assert!(found.operators.len() <= 3);
            }
        }
    }

    #[test]
    fn impossible_content_is_refused_by_name() {
        let message = |writer: SnapshotWriter| Snapshot::parse(&writer.finish()).unwrap_err().chain();
        let mut twice = SnapshotWriter::new(0, 1);
        twice.operator("a", None, Timestamp(0));
        twice.operator("a", None, Timestamp(0));
        assert!(message(twice).contains("operator `a` twice"));
        let mut unordered = SnapshotWriter::new(0, 1);
        unordered.operator("a", None, Timestamp(0));
        unordered.block(KeyGroup(2), b"");
        unordered.block(KeyGroup(1), b"");
        assert!(message(unordered).contains("key groups of operator `a` are out of order"));
        let mut orphan = SnapshotWriter::new(0, 1);
        orphan.block(KeyGroup(2), b"");
        assert!(message(orphan).contains("malformed"));
    }
}
