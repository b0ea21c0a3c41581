//! Lists of numbers as text: base64 of their little-endian bytes, which is exact and half as long as decimal digits.

use serde::{Deserialize, Deserializer, Serializer, de};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A number type that a list may have.
pub(super) trait Number: Copy {
    const SIZE: usize;
    fn push(self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($type:ty, $size:literal) => {
        impl Number for $type {
            const SIZE: usize = $size;

            fn push(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                let mut buffer = [0; $size];
                buffer.copy_from_slice(bytes);
                Self::from_le_bytes(buffer)
            }
        }
    };
}

number!(f32, 4);
number!(f64, 8);

/// For `#[serde(with)]`.
pub(super) fn serialize<T: Number, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::with_capacity(values.len() * T::SIZE);
    values.iter().for_each(|value| value.push(&mut bytes));
    serializer.serialize_str(&encode(&bytes))
}

/// For `#[serde(with)]`.
pub(super) fn deserialize<'de, T: Number, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = decode(&text).filter(|bytes| bytes.len().is_multiple_of(T::SIZE));
    let bytes = bytes
        .ok_or_else(|| de::Error::custom("a list of numbers is not valid base64, or is cut off within a number"))?;
    Ok(bytes.chunks_exact(T::SIZE).map(T::read).collect())
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) as usize % 64;
            text.push(if digit <= chunk.len() { char::from(ALPHABET[value]) } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (at, chunk) in text.chunks(4).enumerate() {
        let padding = chunk.iter().rev().take_while(|&&digit| digit == b'=').count();
        if padding > 2 || (padding > 0 && (at + 1) * 4 != text.len()) {
            return None;
        }
        let mut word = 0u32;
        for &digit in &chunk[..4 - padding] {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * padding;
        bytes.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    /// The test vectors of RFC 4648.
    #[test]
    fn base64_is_that_of_the_standard() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for text in ["Zg=", "Z===", "Zg==Zg==", "Zm8*", "====", "Zm 8"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
