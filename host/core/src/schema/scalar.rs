//! The smallest parts of an encoded value: varints, flags, lengths, byte strings.

use tidemill_wit::schema::Type;

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    /// Whether it has a sign.
    pub signed: bool,
    /// Its width.
    pub bits: u32,
}

impl Int {
    /// The integer that a type is encoded as; `None` if it is something else.
    #[must_use]
    pub fn of(ty: &Type) -> Option<Self> {
        let (signed, bits) = match ty {
            Type::I8 => (true, 8),
            Type::I16 => (true, 16),
            Type::I32 => (true, 32),
            Type::I64 | Type::Duration => (true, 64),
            Type::U8 => (false, 8),
            Type::U16 => (false, 16),
            Type::U32 => (false, 32),
            Type::U64 => (false, 64),
            _ => return None,
        };
        Some(Self { signed, bits })
    }

    /// Whether every integer of this type is one of `other` too.
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        match (self.signed, other.signed) {
            (true, false) => false,
            (false, true) => self.bits < other.bits,
            _ => self.bits <= other.bits,
        }
    }

    /// Whether the type's integers include this one.
    #[inline]
    #[must_use]
    pub fn holds(self, value: i128) -> bool {
        let (low, high) =
            if self.signed { (-(1_i128 << (self.bits - 1)), (1_i128 << (self.bits - 1)) - 1) } else { (0, (1_i128 << self.bits) - 1) };
        (low..=high).contains(&value)
    }

    /// Takes an integer off the front of `input`.
    ///
    /// # Errors
    /// The input ends early, or the integer is too wide.
    #[inline]
    pub fn take(self, input: &mut &[u8]) -> Result<i128, String> {
        let raw = if self.bits == 8 { u64::from(byte(input)?) } else { varint(input, self.bits)? };
        Ok(match (self.signed, self.bits) {
            (false, _) => i128::from(raw),
            #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "raw is one byte, whose bits are an i8")]
            (true, 8) => i128::from(raw as u8 as i8),
            (true, _) => i128::from(unzigzag(raw)),
        })
    }

    /// Appends an integer that the type [`holds`](Self::holds).
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the caller has checked the range")]
    pub fn put(self, out: &mut Vec<u8>, value: i128) {
        match (self.bits, self.signed) {
            (8, _) => out.push(value as u8),
            (_, true) => put_varint(out, zigzag(value as i64)),
            (_, false) => put_varint(out, value as u64),
        }
    }
}

/// Takes one byte.
///
/// # Errors
/// The input is at its end.
#[inline]
pub fn byte(input: &mut &[u8]) -> Result<u8, String> {
    match input.split_first() {
        Some((first, rest)) => {
            *input = rest;
            Ok(*first)
        }
        None => Err(ends_early()),
    }
}

/// Takes `count` bytes.
///
/// # Errors
/// The input ends early.
#[inline]
pub fn bytes<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    match input.split_at_checked(count) {
        Some((head, tail)) => {
            *input = tail;
            Ok(head)
        }
        None => Err(ends_early()),
    }
}

/// Takes an unsigned varint of at most `bits` (16, 32 or 64).
///
/// # Errors
/// The input ends early, or the varint is too wide.
#[inline]
pub fn varint(input: &mut &[u8], bits: u32) -> Result<u64, String> {
    match input.split_first() {
        Some((&first, rest)) if first < 0x80 => {
            *input = rest;
            Ok(u64::from(first))
        }
        _ => long_varint(input, bits),
    }
}

fn long_varint(input: &mut &[u8], bits: u32) -> Result<u64, String> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let next = byte(input)?;
        let part = u64::from(next & 0x7F);
        if shift + 7 > bits && part >> (bits - shift) != 0 {
            return Err(format!("an integer is wider than {bits} bits"));
        }
        value |= part << shift;
        if next < 0x80 {
            return Ok(value);
        }
        shift += 7;
        if shift >= bits {
            return Err(format!("an integer is wider than {bits} bits"));
        }
    }
}

/// Takes a signed varint.
///
/// # Errors
/// The input ends early, or the varint is too wide.
#[inline]
pub fn signed_varint(input: &mut &[u8], bits: u32) -> Result<i64, String> {
    varint(input, bits).map(unzigzag)
}

/// Takes a flag: a bool, or whether an option holds a value.
///
/// # Errors
/// The input ends early, or the byte is neither 0 nor 1.
#[inline]
pub fn flag(input: &mut &[u8]) -> Result<bool, String> {
    match byte(input)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("a flag is {other} instead of 0 or 1")),
    }
}

/// Takes the number of items of a list or map. Each item has at least one byte ([`validate`](crate::schema::validate)).
///
/// # Errors
/// The input ends early, or is too short for so many items.
#[inline]
pub fn count(input: &mut &[u8]) -> Result<usize, String> {
    let count = varint(input, 64)?;
    usize::try_from(count)
        .ok()
        .filter(|&count| count <= input.len())
        .ok_or_else(|| format!("a length of {count} is beyond the {} bytes that follow it", input.len()))
}

/// Takes a byte string.
///
/// # Errors
/// The input ends early.
#[inline]
pub fn blob<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let count = count(input)?;
    bytes(input, count)
}

/// Takes a string.
///
/// # Errors
/// The input ends early, or the string is not UTF-8.
#[inline]
pub fn string<'a>(input: &mut &'a [u8]) -> Result<&'a str, String> {
    std::str::from_utf8(blob(input)?).map_err(|error| format!("a string is not UTF-8 ({error})"))
}

/// Takes an f64.
///
/// # Errors
/// The input ends early.
pub fn float64(input: &mut &[u8]) -> Result<f64, String> {
    bytes(input, 8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

/// Takes an f32.
///
/// # Errors
/// The input ends early.
pub fn float32(input: &mut &[u8]) -> Result<f32, String> {
    bytes(input, 4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

/// Appends an unsigned varint.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed varint.
#[inline]
pub fn put_signed_varint(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends a byte string or string with its length.
#[inline]
pub fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Inserts the number of items before the items that were appended since `start`, where one byte was left for it.
pub fn put_count_at(out: &mut Vec<u8>, start: usize, count: usize) {
    if count < 0x80 {
        if let (Some(place), Ok(count)) = (out.get_mut(start), u8::try_from(count)) {
            *place = count;
        }
        return;
    }
    let mut prefix = Vec::with_capacity(10);
    put_varint(&mut prefix, count as u64);
    out.splice(start..=start, prefix);
}

#[inline]
#[expect(clippy::cast_sign_loss, reason = "zigzag works on the bits")]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
#[expect(clippy::cast_possible_wrap, reason = "zigzag works on the bits")]
fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cold]
fn ends_early() -> String {
    "the value ends early".to_owned()
}
