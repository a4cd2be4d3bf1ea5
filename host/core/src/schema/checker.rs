//! Checks many values of one type: the type is taken apart once, not at every value.

use tidemill_wit::schema::{Shape, Type, TypeTable};

use super::scalar::varint;
use super::walk::{self, MAX_DEPTH};

/// A type that takes more parts, those within options, lists and maps included, is walked over instead.
const MOST_PARTS: usize = 256;

/// Checks values of one type.
#[derive(Debug)]
pub struct Checker {
    table: TypeTable,
    parts: Vec<Part>,
}

/// What a value consists of, one after the other.
#[derive(Debug)]
enum Part {
    /// So many bytes, whatever they are.
    Bytes(usize),
    /// A byte that is 0 or 1.
    Flag,
    /// A varint of so many bits.
    Varint(u32),
    Text,
    Blob,
    /// A flag, and these if it is 1.
    Optional(Vec<Self>),
    /// A number, and these so many times.
    Many(Vec<Self>),
    /// An enum, or a type within itself: walked over, so deep at most.
    Other(Type, u32),
}

impl Checker {
    /// A checker of a table that is [valid](super::validate).
    #[must_use]
    pub fn new(table: &TypeTable) -> Self {
        let mut parts = Vec::new();
        if (Apart { table, open: Vec::new(), left: MOST_PARTS }).value(&table.root, MAX_DEPTH, &mut parts).is_none() {
            parts = vec![Part::Other(table.root.clone(), MAX_DEPTH)];
        }
        Self { table: table.clone(), parts }
    }

    /// Checks that `bytes` are exactly one value of the type.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn check(&self, bytes: &[u8]) -> Result<(), String> {
        let mut input = bytes;
        if self.pass(&self.parts, &mut input) && input.is_empty() {
            return Ok(());
        }
        // The walk finds the same, and the words for it.
        walk::check(&self.table, bytes)
    }

    fn pass(&self, parts: &[Part], input: &mut &[u8]) -> bool {
        parts.iter().all(|part| match part {
            Part::Bytes(count) => pass_bytes(input, *count).is_some(),
            Part::Flag => pass_bytes(input, 1).is_some_and(|flag| flag.iter().all(|byte| *byte < 2)),
            Part::Varint(bits) => pass_varint(input, *bits),
            Part::Text => pass_blob(input).is_some_and(|text| text.is_ascii() || std::str::from_utf8(text).is_ok()),
            Part::Blob => pass_blob(input).is_some(),
            Part::Optional(parts) => match pass_bytes(input, 1) {
                Some([0]) => true,
                Some([1]) => self.pass(parts, input),
                _ => false,
            },
            Part::Many(parts) => pass_count(input).is_some_and(|count| (0..count).all(|_| self.pass(parts, input))),
            Part::Other(ty, depth) => walk::skip_at(&self.table, ty, input, *depth).is_ok(),
        })
    }
}

/// Takes types apart.
struct Apart<'a> {
    table: &'a TypeTable,
    /// The named types that the current one is within.
    open: Vec<u32>,
    /// How many parts there may still be: a small table can describe very many.
    left: usize,
}

impl Apart<'_> {
    /// Appends the parts of a type; `None` if they are too many or too deep.
    fn value(&mut self, ty: &Type, depth: u32, parts: &mut Vec<Part>) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        parts.push(match ty {
            Type::Unit => return Some(()),
            Type::Bool => Part::Flag,
            Type::I8 | Type::U8 => Part::Bytes(1),
            Type::F32 => Part::Bytes(4),
            Type::F64 => Part::Bytes(8),
            Type::I16 | Type::U16 => Part::Varint(16),
            Type::I32 | Type::U32 => Part::Varint(32),
            Type::I64 | Type::U64 | Type::Duration => Part::Varint(64),
            Type::String => Part::Text,
            Type::Bytes => Part::Blob,
            Type::Option(item) => Part::Optional(self.within(&[item], depth)?),
            Type::List(item) => Part::Many(self.within(&[item], depth)?),
            Type::Map(key, value) => Part::Many(self.within(&[key, value], depth)?),
            Type::Tuple(items) => return self.all(items.iter(), depth, parts),
            Type::Named(index) => match &self.table.named(*index)?.shape {
                Shape::Struct(fields) if !self.open.contains(index) => {
                    return self.named(*index, fields.iter().map(|field| &field.ty), depth, parts);
                }
                Shape::Newtype(ty) if !self.open.contains(index) => return self.named(*index, std::iter::once(ty), depth, parts),
                Shape::Struct(_) | Shape::Newtype(_) | Shape::Enum(_) => Part::Other(ty.clone(), depth),
            },
        });
        Some(())
    }

    fn named<'t>(&mut self, index: u32, types: impl Iterator<Item = &'t Type>, depth: u32, parts: &mut Vec<Part>) -> Option<()> {
        self.open.push(index);
        self.all(types, depth, parts)?;
        self.open.pop();
        Some(())
    }

    fn all<'t>(&mut self, mut types: impl Iterator<Item = &'t Type>, depth: u32, parts: &mut Vec<Part>) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        types.try_for_each(|ty| self.value(ty, depth, parts))
    }

    fn within(&mut self, types: &[&Type], depth: u32) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        self.all(types.iter().copied(), depth, &mut parts)?;
        Some(parts)
    }
}

#[inline]
fn pass_bytes<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = input.split_at_checked(count)?;
    *input = tail;
    Some(head)
}

#[inline]
fn pass_varint(input: &mut &[u8], bits: u32) -> bool {
    if let Some(word) = input.first_chunk::<8>() {
        // The last byte of a varint is the first one below 0x80.
        let len = (!u64::from_le_bytes(*word) & 0x8080_8080_8080_8080).trailing_zeros() / 8 + 1;
        if len <= 8 && len * 7 <= bits {
            return pass_bytes(input, len as usize).is_some();
        }
    }
    varint(input, bits).is_ok()
}

#[inline]
fn pass_count(input: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(varint(input, 64).ok()?).ok()?;
    (count <= input.len()).then_some(count)
}

#[inline]
fn pass_blob<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let count = pass_count(input)?;
    pass_bytes(input, count)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use tidemill_wit::schema::{Type, TypeTable};

    use super::Checker;
    use crate::schema::{samples, walk};

    #[test]
    fn a_small_table_of_very_many_parts_is_walked_over() {
        let name = |index| Type::Option(Box::new(Type::Named(index)));
        let mut types: Vec<_> = (1..40)
            .map(|next| samples::structure(&format!("T{next}"), vec![samples::field("a", name(next)), samples::field("b", name(next))]))
            .collect();
        types.push(samples::structure("End", vec![samples::field("end", Type::Unit)]));
        let table = TypeTable { types, root: Type::Named(0) };
        crate::schema::validate(&table).unwrap();
        let checker = Checker::new(&table);
        assert!(matches!(checker.parts[..], [super::Part::Other(..)]));
        assert_eq!(checker.check(&[0, 1, 0, 0]), Ok(()));
        assert!(checker.check(&[0, 1, 0]).is_err());
        assert!(crate::schema::describe(&table).len() < 10_000);
    }

    #[test]
    fn it_agrees_with_the_walk_on_values_and_on_damaged_ones() {
        let mut rng = Rng::with_seed(3);
        let nested = (0..70).fold(Type::I64, |inner, _| Type::Option(Box::new(inner)));
        let hollow = (0..64).fold(Type::Tuple(vec![]), |inner, _| Type::Tuple(vec![inner, Type::Bool]));
        for table in [samples::basket(), samples::tree(), samples::everything(), TypeTable::of(nested), TypeTable::of(hollow)] {
            let checker = Checker::new(&table);
            let (mut good, mut bad) = (0, 0);
            for _ in 0..3000 {
                let mut bytes = Vec::new();
                samples::random_value(&table, &table.root, &mut || rng.u64(..), &mut bytes);
                for _ in 0..rng.usize(..3) {
                    match rng.u8(..3) {
                        0 if !bytes.is_empty() => bytes.truncate(rng.usize(..bytes.len())),
                        1 => bytes.push(rng.u8(..)),
                        _ => {
                            let len = bytes.len();
                            bytes.iter_mut().skip(rng.usize(..=len)).take(1).for_each(|byte| *byte = rng.u8(..));
                        }
                    }
                }
                let expected = walk::check(&table, &bytes);
                assert_eq!(checker.check(&bytes), expected, "{bytes:?}");
                let mut input = &bytes[..];
                assert_eq!(checker.pass(&checker.parts, &mut input) && input.is_empty(), expected.is_ok(), "{bytes:?}");
                *(if expected.is_ok() { &mut good } else { &mut bad }) += 1;
            }
            assert!(bad > 100, "{good} good, {bad} bad");
        }
    }
}
