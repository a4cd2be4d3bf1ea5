//! The order-preserving, prefix-free encoding of operator keys and map keys: bytes compare as the values do.
//!
//! | type | bytes |
//! |---|---|
//! | unit | none |
//! | bool | 0 or 1 |
//! | unsigned integers | big-endian, at their width |
//! | signed integers, durations | big-endian with the sign bit flipped, at their width |
//! | f32, f64 | total order: sign bit flipped if positive, all bits flipped if negative; every NaN as the one positive quiet NaN, the greatest |
//! | strings, bytes | 0x00 written as 0x00 0xFF, ended by 0x00 0x01 |
//! | option | 0, or 1 and the value |
//! | list | 1 before each item, 0 at the end |
//! | tuple, struct | the items, the fields in order |
//! | enum | the variant's index as a big-endian u32, then its content |

/// Appends a byte string with escapes and terminator.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|&byte| byte == 0) {
        let (head, tail) = rest.split_at(zero);
        out.extend_from_slice(head);
        out.extend_from_slice(&[0x00, 0xFF]);
        rest = tail.get(1..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0x00, 0x01]);
}

/// Takes a byte string that [`put_bytes`] wrote off the front of `input`, unescaped into `out`.
///
/// # Errors
/// The terminator is missing or an escape is unknown.
pub fn take_bytes(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    loop {
        let Some(zero) = input.iter().position(|&byte| byte == 0) else {
            return Err("a string in a key has no end".to_owned());
        };
        let (head, tail) = input.split_at(zero);
        out.extend_from_slice(head);
        let code = tail.get(1).copied();
        *input = tail.get(2..).unwrap_or(&[]);
        match code {
            Some(0xFF) => out.push(0),
            Some(0x01) => return Ok(()),
            _ => return Err("a string in a key has an unknown escape".to_owned()),
        }
    }
}

/// What [`ordered_f64`] makes of every NaN.
pub const ORDERED_NAN_64: u64 = 0xFFF8_0000_0000_0000;
/// What [`ordered_f32`] makes of every NaN.
pub const ORDERED_NAN_32: u32 = 0xFFC0_0000;

/// The bits of an f64 in an order that compares as the numbers do, with 0.0 above -0.0 and one NaN above all (Java's `Double.compare`).
#[inline]
#[must_use]
pub fn ordered_f64(value: f64) -> u64 {
    // Which NaN an operation gives differs by processor.
    if value.is_nan() {
        return ORDERED_NAN_64;
    }
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

/// The inverse of [`ordered_f64`].
#[inline]
#[must_use]
pub fn f64_from_ordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits ^ (1 << 63) } else { !bits })
}

/// The bits of an f32 in an order that compares as the numbers do, as [`ordered_f64`].
#[inline]
#[must_use]
pub fn ordered_f32(value: f32) -> u32 {
    if value.is_nan() {
        return ORDERED_NAN_32;
    }
    let bits = value.to_bits();
    if bits >> 31 == 0 { bits ^ (1 << 31) } else { !bits }
}

/// The inverse of [`ordered_f32`].
#[inline]
#[must_use]
pub fn f32_from_ordered(bits: u32) -> f32 {
    f32::from_bits(if bits >> 31 == 1 { bits ^ (1 << 31) } else { !bits })
}

#[cfg(test)]
mod tests {
    use super::{ORDERED_NAN_32, ORDERED_NAN_64, f32_from_ordered, f64_from_ordered, ordered_f32, ordered_f64, put_bytes, take_bytes};

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, bytes);
        out
    }

    #[test]
    fn strings_keep_their_order_and_come_back() {
        let ordered: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0b", b"ab"];
        for pair in ordered.windows(2) {
            assert!(encoded(pair[0]) < encoded(pair[1]), "{pair:?}");
        }
        for bytes in ordered {
            let whole = [encoded(bytes), vec![0xFF, 7]].concat();
            let (mut input, mut out) = (&whole[..], Vec::new());
            take_bytes(&mut input, &mut out).unwrap();
            assert_eq!((out.as_slice(), input), (bytes, &[0xFF, 7][..]));
        }
        assert!(take_bytes(&mut &b"no end"[..], &mut Vec::new()).is_err());
        assert!(take_bytes(&mut &b"a\0\x05"[..], &mut Vec::new()).is_err());
    }

    #[test]
    fn floats_keep_their_order() {
        let ordered = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::INFINITY];
        for pair in ordered.windows(2) {
            assert!(ordered_f64(pair[0]) < ordered_f64(pair[1]));
        }
        assert!(ordered.iter().all(|&x| f64_from_ordered(ordered_f64(x)).to_bits() == x.to_bits()));
    }

    #[test]
    fn there_is_one_nan_and_it_is_the_greatest() {
        for bits in [0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000, 0x7FF0_0000_0000_0001, u64::MAX, 0x7FFF_FFFF_FFFF_FFFF] {
            assert_eq!(ordered_f64(f64::from_bits(bits)), ORDERED_NAN_64);
        }
        for bits in [0x7FC0_0000, 0xFFC0_0000, 0x7F80_0001, u32::MAX] {
            assert_eq!(ordered_f32(f32::from_bits(bits)), ORDERED_NAN_32);
        }
        assert!(ordered_f64(f64::INFINITY) < ORDERED_NAN_64 && ordered_f32(f32::INFINITY) < ORDERED_NAN_32);
        assert!(f64_from_ordered(ORDERED_NAN_64).is_nan() && f32_from_ordered(ORDERED_NAN_32).is_nan());
    }
}
