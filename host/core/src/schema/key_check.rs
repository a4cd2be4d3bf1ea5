//! Checks keys that come back from guests, and gives every NaN in them its one form.

use std::borrow::Cow;

use tidemill_wit::key::{ORDERED_NAN_32, ORDERED_NAN_64, f32_from_ordered, f64_from_ordered};
use tidemill_wit::schema::{Content, Shape, Type, TypeTable};

use super::walk::{MAX_DEPTH, deeper, no_variant, shape, through_newtypes};

/// Checks encoded keys of one type.
#[derive(Clone, Debug)]
pub struct KeyChecker {
    table: TypeTable,
    plain: Option<Plain>,
    floats: bool,
}

/// The one form of the keys that a detector asks for, by the index of the state or table that it asks. Components that were built when NaN
/// could be several keys ask for any of them.
#[derive(Clone, Debug, Default)]
pub struct OneForm {
    checkers: Vec<Option<KeyChecker>>,
}

impl OneForm {
    /// For maps and tables with keys of these types.
    pub fn new<'a>(keys: impl Iterator<Item = Option<&'a TypeTable>>) -> Self {
        Self { checkers: keys.map(|key| key.map(KeyChecker::new).filter(KeyChecker::has_floats)).collect() }
    }

    /// The one form of a key.
    #[inline]
    #[must_use]
    pub fn of<'k>(&self, index: u8, key: &'k [u8]) -> Cow<'k, [u8]> {
        let Some(Some(checker)) = self.checkers.get(usize::from(index)) else { return Cow::Borrowed(key) };
        let mut key = key.to_vec();
        checker.canonical(&mut key);
        Cow::Owned(key)
    }
}

/// A type of most keys, checked without walking over the type.
#[derive(Clone, Copy, Debug)]
enum Plain {
    Text,
    Bytes(usize),
}

impl KeyChecker {
    /// A checker of keys whose type table is [valid](super::validate).
    #[must_use]
    pub fn new(table: &TypeTable) -> Self {
        let plain = match through_newtypes(table, &table.root) {
            Type::String => Some(Plain::Text),
            Type::I8 | Type::U8 => Some(Plain::Bytes(1)),
            Type::I16 | Type::U16 => Some(Plain::Bytes(2)),
            Type::I32 | Type::U32 => Some(Plain::Bytes(4)),
            Type::I64 | Type::U64 | Type::Duration => Some(Plain::Bytes(8)),
            _ => None,
        };
        Self { plain, floats: has_floats(table), table: table.clone() }
    }

    /// Whether the keys hold floats, so that [`canonical`](Self::canonical) may change them.
    #[must_use]
    pub fn has_floats(&self) -> bool {
        self.floats
    }

    /// Checks that `key` is exactly one key of the type.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    #[inline]
    pub fn check(&self, key: &[u8]) -> Result<(), String> {
        match self.plain {
            Some(Plain::Bytes(count)) if key.len() == count => Ok(()),
            Some(Plain::Text) if is_plain_text(key) => Ok(()),
            _ => self.walk(key, &mut |_, _| {}),
        }
    }

    /// Gives every NaN of a key its one form. Bytes that are no key of the type stay as they are from where they are wrong.
    pub fn canonical(&self, key: &mut [u8]) {
        if !self.floats {
            return;
        }
        let mut found = Vec::new();
        // Where the bytes are wrong is told by `check`.
        let _ = self.walk(key, &mut |at, width| found.push((at, width)));
        for (at, width) in found {
            let nan = ORDERED_NAN_64.to_be_bytes();
            let nan = if width == 8 { &nan[..] } else { &ORDERED_NAN_32.to_be_bytes()[..] };
            key.get_mut(at..at + width).into_iter().for_each(|place| place.copy_from_slice(nan));
        }
    }

    /// Walks over a key. `nan` gets place and width of each NaN that is not in its one form.
    fn walk(&self, key: &[u8], nan: &mut dyn FnMut(usize, usize)) -> Result<(), String> {
        let mut walk = Walk { table: &self.table, whole: key.len(), rest: key, nan };
        walk.value(&self.table.root, MAX_DEPTH)?;
        match walk.rest.len() {
            0 => Ok(()),
            left => Err(format!("{left} bytes are left over after the key")),
        }
    }
}

/// Whether a key can hold a float.
fn has_floats(table: &TypeTable) -> bool {
    let (mut seen, mut todo) = (vec![false; table.types.len()], vec![&table.root]);
    while let Some(ty) = todo.pop() {
        match ty {
            Type::F32 | Type::F64 => return true,
            Type::Option(item) | Type::List(item) => todo.push(item),
            Type::Map(key, value) => todo.extend([&**key, &**value]),
            Type::Tuple(items) => todo.extend(items),
            Type::Named(index) => {
                let seen = seen.get_mut(*index as usize).filter(|seen| !**seen);
                if let (Some(seen), Ok(shape)) = (seen, shape(table, *index)) {
                    *seen = true;
                    todo.extend(super::key::parts_of(shape));
                }
            }
            _ => {}
        }
    }
    false
}

/// Whether a string without zeros in it, and nothing else, is all there is.
#[inline]
fn is_plain_text(key: &[u8]) -> bool {
    key.split_last_chunk::<2>()
        .is_some_and(|(text, end)| *end == [0, 1] && !text.contains(&0) && (text.is_ascii() || std::str::from_utf8(text).is_ok()))
}

struct Walk<'a> {
    table: &'a TypeTable,
    whole: usize,
    rest: &'a [u8],
    nan: &'a mut dyn FnMut(usize, usize),
}

impl<'a> Walk<'a> {
    fn value(&mut self, ty: &Type, depth: u32) -> Result<(), String> {
        match ty {
            Type::Unit => {}
            Type::Bool => _ = self.flag()?,
            Type::I8 | Type::U8 => _ = self.take::<1>()?,
            Type::I16 | Type::U16 => _ = self.take::<2>()?,
            Type::I32 | Type::U32 => _ = self.take::<4>()?,
            Type::I64 | Type::U64 | Type::Duration => _ = self.take::<8>()?,
            Type::F32 => {
                let bits = u32::from_be_bytes(self.take()?);
                if f32_from_ordered(bits).is_nan() && bits != ORDERED_NAN_32 {
                    (self.nan)(self.whole - self.rest.len() - 4, 4);
                }
            }
            Type::F64 => {
                let bits = u64::from_be_bytes(self.take()?);
                if f64_from_ordered(bits).is_nan() && bits != ORDERED_NAN_64 {
                    (self.nan)(self.whole - self.rest.len() - 8, 8);
                }
            }
            Type::String => self.text(true)?,
            Type::Bytes => self.text(false)?,
            Type::Option(_) | Type::List(_) | Type::Map(..) | Type::Tuple(_) | Type::Named(_) => {
                return self.compound(ty, deeper(depth)?);
            }
        }
        Ok(())
    }

    fn compound(&mut self, ty: &Type, depth: u32) -> Result<(), String> {
        match ty {
            Type::Option(item) => return if self.flag()? { self.value(item, depth) } else { Ok(()) },
            Type::List(item) => {
                while self.flag()? {
                    self.value(item, depth)?;
                }
            }
            Type::Map(key, value) => {
                while self.flag()? {
                    self.value(key, depth)?;
                    self.value(value, depth)?;
                }
            }
            Type::Tuple(items) => items.iter().try_for_each(|item| self.value(item, depth))?,
            Type::Named(index) => return self.named(shape(self.table, *index)?, depth),
            _ => {}
        }
        Ok(())
    }

    fn named(&mut self, shape: &Shape, depth: u32) -> Result<(), String> {
        match shape {
            Shape::Newtype(ty) => self.value(ty, depth),
            Shape::Struct(fields) => fields.iter().try_for_each(|field| self.value(&field.ty, depth)),
            Shape::Enum(variants) => {
                let code = u32::from_be_bytes(self.take()?);
                let variant = variants.get(code as usize).ok_or_else(|| no_variant(code.into(), variants.len()))?;
                match &variant.content {
                    Content::Unit => Ok(()),
                    Content::Newtype(ty) => self.value(ty, depth),
                    Content::Tuple(items) => items.iter().try_for_each(|item| self.value(item, depth)),
                    Content::Struct(fields) => fields.iter().try_for_each(|field| self.value(&field.ty, depth)),
                }
            }
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or("the key ends early")?;
        self.rest = tail;
        Ok(*head)
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("a flag is {other} instead of 0 or 1")),
        }
    }

    /// A string or bytes; a zero in it is written as two bytes, and parts no character.
    fn text(&mut self, is_text: bool) -> Result<(), String> {
        loop {
            let zero = self.rest.iter().position(|byte| *byte == 0).ok_or("a string in a key has no end")?;
            let (part, tail) = self.rest.split_at_checked(zero).ok_or("the key ends early")?;
            if is_text {
                std::str::from_utf8(part).map_err(|error| format!("a string is not UTF-8 ({error})"))?;
            }
            self.rest = tail.get(2..).unwrap_or_default();
            match tail.get(1) {
                Some(0xFF) => {}
                Some(0x01) => return Ok(()),
                _ => return Err("a string in a key has an unknown escape".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use tidemill_wit::key::ordered_f64;
    use tidemill_wit::schema::{Type, TypeTable};

    use super::KeyChecker;
    use crate::schema::key::{encode_key, key_type_allowed};
    use crate::schema::samples::{basket, everything, random_value, tree};

    #[test]
    fn keys_pass_and_cut_or_longer_ones_do_not() {
        let mut random = Rng::with_seed(9);
        for table in [basket(), tree(), everything()] {
            let types: Vec<Type> = table.fields().unwrap().iter().map(|field| field.ty.clone()).collect();
            let types = types.into_iter().chain([table.root.clone()]).filter(|ty| key_type_allowed(&table, ty).is_ok());
            for ty in types {
                let checker = KeyChecker::new(&TypeTable { types: table.types.clone(), root: ty.clone() });
                for _ in 0..300 {
                    let (mut value, mut key) = (Vec::new(), Vec::new());
                    random_value(&table, &ty, &mut || random.u64(..), &mut value);
                    encode_key(&table, &ty, &mut &value[..], &mut key).unwrap();
                    assert_eq!(checker.check(&key), Ok(()), "{ty:?} {key:?}");
                    let whole = key.clone();
                    checker.canonical(&mut key);
                    assert_eq!(key, whole);
                    assert!(checker.check(&[&key[..], &[1]].concat()).is_err());
                    // Prefix-free: no part of a key is a key.
                    assert!((0..key.len()).all(|end| checker.check(&key[..end]).is_err()), "{ty:?} {key:?}");
                    let at = random.usize(..key.len().max(1));
                    key.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.u8(..));
                    let _ = checker.check(&key);
                }
            }
        }
    }

    #[test]
    fn keys_that_are_asked_for_have_one_form() {
        let (float, text) = (TypeTable::of(Type::F64), TypeTable::of(Type::String));
        let keys = super::OneForm::new([None, Some(&text), Some(&float)].into_iter());
        let other = (!0xFFF8_0000_0000_0000u64).to_be_bytes();
        assert_eq!(*keys.of(2, &other), super::ORDERED_NAN_64.to_be_bytes());
        assert!([0, 1, 3].iter().all(|index| *keys.of(*index, &other) == other));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let of = |ty, key: &[u8]| KeyChecker::new(&TypeTable::of(ty)).check(key).unwrap_err();
        assert_eq!(of(Type::I64, &[0; 7]), "the key ends early");
        assert_eq!(of(Type::I64, &[0; 9]), "1 bytes are left over after the key");
        assert_eq!(of(Type::Bool, &[2]), "a flag is 2 instead of 0 or 1");
        assert_eq!(of(Type::String, b"ab"), "a string in a key has no end");
        assert_eq!(of(Type::String, b"ab\0\x02"), "a string in a key has an unknown escape");
        assert!(of(Type::String, b"\xFF\0\x01").starts_with("a string is not UTF-8"));
        assert_eq!(KeyChecker::new(&TypeTable::of(Type::String)).check(b"a\0\xFFb\0\x01"), Ok(()));
        assert_eq!(KeyChecker::new(&TypeTable::of(Type::Map(Box::new(Type::U8), Box::new(Type::U8)))).check(&[1, 5, 6, 0]), Ok(()));
    }

    #[test]
    fn a_key_has_one_nan() {
        let ty = Type::Tuple(vec![Type::String, Type::Option(Box::new(Type::F64)), Type::F32]);
        let checker = KeyChecker::new(&TypeTable::of(ty));
        let key = |wide: u64, narrow: u32| [b"n\0\x01\x01".to_vec(), wide.to_be_bytes().to_vec(), narrow.to_be_bytes().to_vec()].concat();
        let canonical = key(super::ORDERED_NAN_64, super::ORDERED_NAN_32);
        for bits in [0x7FF8_0000_0000_0001u64, 0xFFF8_0000_0000_0000, 0x7FF0_0000_0000_0001] {
            let raw = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
            let mut key = key(raw, 0xFFC0_0001);
            assert_eq!(checker.check(&key), Ok(()));
            checker.canonical(&mut key);
            assert_eq!(key, canonical);
        }
        let mut zeros = key(ordered_f64(-0.0), 0x8000_0005);
        let before = zeros.clone();
        checker.canonical(&mut zeros);
        assert!(zeros == before && checker.has_floats() && !KeyChecker::new(&TypeTable::of(Type::I64)).has_floats());
    }
}
