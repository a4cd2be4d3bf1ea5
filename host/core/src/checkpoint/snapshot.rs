//! The state file of one worker: what its operators hold at a barrier.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic `TMSTATE2` |
//! | 8, 4 | checkpoint (u64), worker (u32); all integers are little-endian |
//! | then per block | 1: kind, 8: length (u64), and as many bytes |
//! | 9 | kind 0xFF and the XXH3 hash (u64) of everything before it |
//!
//! Kind 1 begins an operator: its uid. Kind 2: the event-time timer pass that the barrier interrupted (i64). Kind 3: a key group (u16) and
//! its content as `state/layout.rs` lays it out; a block may be a base or, later, a delta, which the layout tells apart. Kind 4: the broadcast
//! states as `state/broadcast.rs` lays them out, from the first worker only, since all hold the same.
//!
//! `TMSTATE1`, which is still read, has lengths of 4 bytes.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::key_group::KeyGroup;
use crate::state::Frozen;
use crate::{Error, Result, Timestamp};

const MAGIC: &[u8; 8] = b"TMSTATE2";
const MAGIC_1: &[u8; 8] = b"TMSTATE1";
const OPERATOR: u8 = 1;
const PASS: u8 = 2;
const GROUP: u8 = 3;
const BROADCAST: u8 = 4;
const END: u8 = 0xFF;

/// Takes the bytes of a state file in order, piece by piece.
pub type Out<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Writes a state file: what is to be in it is collected in memory, but for key groups that lie elsewhere and are passed through when the
/// file is written.
#[derive(Debug, Default)]
pub struct SnapshotWriter {
    bytes: Vec<u8>,
}

impl SnapshotWriter {
    /// An empty snapshot.
    #[must_use]
    pub fn new(checkpoint: u64, worker: u32) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&checkpoint.to_le_bytes());
        bytes.extend_from_slice(&worker.to_le_bytes());
        Self { bytes }
    }

    /// Begins an operator; the groups that follow are its own.
    pub fn operator(&mut self, uid: &str, pass: Option<Timestamp>) {
        self.block(OPERATOR, &[uid.as_bytes()]);
        if let Some(horizon) = pass {
            self.block(PASS, &[&horizon.0.to_le_bytes()]);
        }
    }

    /// Adds the operator's broadcast states.
    pub fn broadcast(&mut self, content: &[u8]) {
        self.block(BROADCAST, &[content]);
    }

    /// Adds a key group.
    pub fn group(&mut self, group: KeyGroup, content: &[u8]) {
        self.block(GROUP, &[&group.0.to_le_bytes(), content]);
    }

    /// How many bytes there are so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Where the next block goes.
    #[must_use]
    pub fn place(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the file, with the key groups of frozen state at the places that they are for, in ascending order of places.
    ///
    /// # Errors
    /// The key groups cannot be read, or `out` fails.
    pub fn write(&self, frozen: &mut [(usize, &mut dyn Frozen)], out: &mut Out<'_>) -> Result<()> {
        let (mut hash, mut written) = (Xxh3::new(), 0);
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            out(bytes)
        };
        for (place, frozen) in frozen {
            put(self.bytes.get(written..*place).unwrap_or_default())?;
            written = *place;
            frozen.groups(&mut |group, content| {
                put(&head(GROUP, 2 + content.len() as u64))?;
                put(&group.0.to_le_bytes())?;
                put(content)
            })?;
        }
        put(self.bytes.get(written..).unwrap_or_default())?;
        let hash = hash.digest();
        out(&[END])?;
        out(&hash.to_le_bytes())
    }

    fn block(&mut self, kind: u8, parts: &[&[u8]]) {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.bytes.extend_from_slice(&head(kind, len));
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }
}

/// What a block begins with.
fn head(kind: u8, len: u64) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = len.to_le_bytes();
    [kind, a, b, c, d, e, f, g, h]
}

/// A state file that has been read.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// The checkpoint that it belongs to.
    pub checkpoint: u64,
    /// The worker that wrote it.
    pub worker: u32,
    /// What each operator holds.
    pub operators: Vec<OperatorSnapshot<'a>>,
}

/// What an operator's subtask holds.
#[derive(Debug, PartialEq, Eq)]
pub struct OperatorSnapshot<'a> {
    /// The operator's uid.
    pub uid: &'a str,
    /// The event-time timer pass that the barrier interrupted.
    pub pass: Option<Timestamp>,
    /// The key groups.
    pub groups: Vec<(KeyGroup, &'a [u8])>,
    /// The broadcast states; empty if there are none, or another worker has written them.
    pub broadcast: &'a [u8],
}

impl<'a> Snapshot<'a> {
    /// Reads a state file.
    ///
    /// # Errors
    /// The bytes are not a whole, unchanged state file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let corrupt = |what: &str| Error::corrupt(format!("the state file {what}"));
        let body = bytes.len().checked_sub(9).and_then(|end| bytes.split_at_checked(end));
        let Some((body, [END, hash @ ..])) = body else { return Err(corrupt("is cut off")) };
        if hash != xxh3_64(body).to_le_bytes() {
            return Err(corrupt("does not have the checksum that was written"));
        }
        let (wide, rest) = (body.strip_prefix(MAGIC), body.strip_prefix(MAGIC_1));
        let take_len = if wide.is_some() { take_u64 } else { take_u32 };
        let mut rest = wide.or(rest).ok_or_else(|| corrupt("does not begin as one that this program knows"))?;
        let checkpoint = u64::from_le_bytes(take(&mut rest).ok_or_else(|| corrupt("is cut off"))?);
        let worker = u32::from_le_bytes(take(&mut rest).ok_or_else(|| corrupt("is cut off"))?);
        let mut snapshot = Self { checkpoint, worker, operators: Vec::new() };
        while !rest.is_empty() {
            snapshot.block(&mut rest, take_len).ok_or_else(|| corrupt("has a block that is not valid"))?;
        }
        let mut uids = BTreeSet::new();
        if let Some(twice) = snapshot.operators.iter().find(|operator| !uids.insert(operator.uid)) {
            return Err(corrupt(&format!("holds operator {} twice", twice.uid)));
        }
        Ok(snapshot)
    }

    /// Takes a block: operators come once, and their key groups in ascending order.
    fn block(&mut self, rest: &mut &'a [u8], take_len: fn(&mut &[u8]) -> Option<u64>) -> Option<()> {
        let [kind] = take(rest)?;
        let len = usize::try_from(take_len(rest)?).ok()?;
        let (mut content, after) = rest.split_at_checked(len)?;
        *rest = after;
        match kind {
            OPERATOR => {
                let uid = std::str::from_utf8(content).ok()?;
                self.operators.push(OperatorSnapshot { uid, pass: None, groups: Vec::new(), broadcast: &[] });
            }
            PASS => self.operators.last_mut()?.pass = Some(Timestamp(i64::from_le_bytes(take(&mut content)?))),
            GROUP => {
                let group = KeyGroup(u16::from_le_bytes(take(&mut content)?));
                let groups = &mut self.operators.last_mut()?.groups;
                if groups.last().is_some_and(|(last, _)| *last >= group) {
                    return None;
                }
                groups.push((group, content));
            }
            BROADCAST => self.operators.last_mut()?.broadcast = content,
            _ => return None,
        }
        Some(())
    }
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn take_u32(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u32::from_le_bytes).map(u64::from)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::{OperatorSnapshot, Snapshot, SnapshotWriter};
    use crate::checkpoint::manifest::FileFormat;
    use crate::key_group::KeyGroup;
    use crate::state::{Frozen, FrozenFile};
    use crate::{Result, Timestamp};

    fn written(writer: &SnapshotWriter, frozen: &mut [(usize, &mut dyn Frozen)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        writer.write(frozen, &mut out).unwrap();
        bytes
    }

    fn sample() -> Vec<u8> {
        let mut writer = SnapshotWriter::new(7, 1);
        writer.operator("first", Some(Timestamp(-5)));
        writer.group(KeyGroup(64), b"abc");
        writer.group(KeyGroup(65), b"");
        writer.operator("second", None);
        writer.broadcast(b"rules");
        written(&writer, &mut [])
    }

    struct Elsewhere(&'static [(u16, &'static [u8])]);

    impl Frozen for Elsewhere {
        fn format(&self) -> FileFormat {
            FileFormat::Database
        }

        fn files(&mut self) -> Result<Vec<FrozenFile>> {
            Ok(Vec::new())
        }

        fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
            self.0.iter().try_for_each(|(group, content)| each(KeyGroup(*group), content))
        }
    }

    #[test]
    fn groups_that_lie_elsewhere_make_the_same_file() {
        let mut writer = SnapshotWriter::new(7, 1);
        writer.operator("first", Some(Timestamp(-5)));
        let first = writer.place();
        writer.operator("second", None);
        writer.broadcast(b"rules");
        let second = writer.place();
        writer.operator("third", None);
        let (mut some, mut none) = (Elsewhere(&[(64, b"abc"), (65, b"")]), Elsewhere(&[]));
        let mut whole = SnapshotWriter::new(7, 1);
        whole.operator("first", Some(Timestamp(-5)));
        whole.group(KeyGroup(64), b"abc");
        whole.group(KeyGroup(65), b"");
        whole.operator("second", None);
        whole.broadcast(b"rules");
        whole.operator("third", None);
        assert_eq!(written(&writer, &mut [(first, &mut some), (second, &mut none)]), written(&whole, &mut []));
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = sample();
        let groups = vec![(KeyGroup(64), &b"abc"[..]), (KeyGroup(65), b"")];
        let first = OperatorSnapshot { uid: "first", pass: Some(Timestamp(-5)), groups, broadcast: b"" };
        let second = OperatorSnapshot { uid: "second", pass: None, groups: vec![], broadcast: b"rules" };
        assert_eq!(Snapshot::parse(&bytes).unwrap(), Snapshot { checkpoint: 7, worker: 1, operators: vec![first, second] });
    }

    #[test]
    fn the_first_version_is_still_read() {
        let mut bytes = b"TMSTATE1".to_vec();
        bytes.extend_from_slice(
            &[&7u64.to_le_bytes()[..], &1u32.to_le_bytes(), &[1, 3, 0, 0, 0], b"old", &[3, 4, 0, 0, 0, 9, 0], b"ab"].concat(),
        );
        let hash = xxh3_64(&bytes);
        bytes.extend_from_slice(&[&[0xFF][..], &hash.to_le_bytes()].concat());
        let old = OperatorSnapshot { uid: "old", pass: None, groups: vec![(KeyGroup(9), &b"ab"[..])], broadcast: b"" };
        assert_eq!(Snapshot::parse(&bytes).unwrap(), Snapshot { checkpoint: 7, worker: 1, operators: vec![old] });
    }

    #[test]
    fn operators_and_key_groups_that_come_twice_are_refused() {
        for change in [
            |writer: &mut SnapshotWriter| writer.operator("first", None),
            |writer: &mut SnapshotWriter| writer.group(KeyGroup(64), b"abc"),
            |writer: &mut SnapshotWriter| writer.group(KeyGroup(63), b"abc"),
        ] {
            let mut writer = SnapshotWriter::new(7, 1);
            writer.operator("first", None);
            writer.group(KeyGroup(64), b"abc");
            change(&mut writer);
            assert!(Snapshot::parse(&written(&writer, &mut [])).is_err());
        }
    }

    #[test]
    fn cut_and_flipped_files_are_refused() {
        let bytes = sample();
        for len in 0..bytes.len() {
            assert!(Snapshot::parse(&bytes[..len]).is_err(), "cut to {len}");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(Snapshot::parse(&flipped).is_err(), "flipped at {at}");
        }
    }
}
