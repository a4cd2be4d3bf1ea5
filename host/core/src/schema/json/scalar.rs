//! Scalars as JSON, byte for byte as `serde_json` writes them.

/// A value that is no list or object.
pub(super) trait Scalar {
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);
}

impl Scalar for () {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"null");
    }
}

impl Scalar for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl Scalar for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        // The digits from the last one on: `Display` takes twice as long.
        let (mut digits, mut at, mut left) = ([0; 20], 20, *self);
        for (index, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
            (at, left) = (index, left / 10);
            if left == 0 {
                break;
            }
        }
        out.extend_from_slice(digits.get(at..).unwrap_or(&[]));
    }
}

impl Scalar for i64 {
    fn write(&self, out: &mut Vec<u8>) {
        if *self < 0 {
            out.push(b'-');
        }
        self.unsigned_abs().write(out);
    }
}

macro_rules! float {
    ($($ty:ty),*) => { $(
        impl Scalar for $ty {
            fn write(&self, out: &mut Vec<u8>) {
                if self.is_finite() {
                    out.extend_from_slice(zmij::Buffer::new().format_finite(*self).as_bytes());
                } else {
                    ().write(out);
                }
            }
        }
    )* };
}

float!(f32, f64);

impl Scalar for str {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        let mut rest = self.as_bytes();
        while let Some(at) = rest.iter().position(|&byte| byte < b' ' || byte == b'"' || byte == b'\\') {
            let (plain, after) = rest.split_at(at);
            out.extend_from_slice(plain);
            let Some((&byte, after)) = after.split_first() else { break };
            escape(byte, out);
            rest = after;
        }
        out.extend_from_slice(rest);
        out.push(b'"');
    }
}

impl Scalar for String {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_str().write(out);
    }
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::Scalar;

    fn same<T: Scalar + serde::Serialize + ?Sized>(value: &T) {
        let mut written = Vec::new();
        value.write(&mut written);
        assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(value).unwrap());
    }

    #[test]
    fn scalars_are_written_as_serde_json_writes_them() {
        same(&());
        [true, false].iter().for_each(same);
        [0, 1, 9, 10, 99, 100, u64::MAX, u64::MAX / 10].iter().for_each(same);
        [0, -1, 1, i64::MIN, i64::MAX].iter().for_each(same);
        [0.0, -0.0, 0.1, 1e15, 1e16, 1e17, 1e-4, 1e-5, 1e-7, f64::MIN_POSITIVE, f64::MAX, 5e-324, f64::NAN, f64::INFINITY]
            .iter()
            .for_each(same);
        [0.0, 0.1, 16_777_216.0, f32::MAX, f32::MIN_POSITIVE, f32::NEG_INFINITY].iter().for_each(same);
        let every: String = (0..0x300).filter_map(char::from_u32).chain(['\u{2028}', '\u{1f600}']).collect();
        ["", "a", "\"", "\\", "a\nb\u{0}", &every].into_iter().for_each(same);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            same(&f64::from_bits(random.u64(..)));
            same(&f32::from_bits(random.u32(..)));
            same(&(random.u64(..) >> random.u32(0..64)));
            same(&(random.i64(..) >> random.u32(0..64)));
        }
    }
}
