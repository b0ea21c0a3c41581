//! Samples in an answer: base64, images, and what a request becomes whose samples are partly usable.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::arm::{Content, Failure, FailureKind, Reply};

/// Base64 of the standard alphabet; servers differ on the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64, also as a `data:` address.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let text = match text.strip_prefix("data:").map(|rest| rest.split_once(";base64,")) {
        Some(Some((_, text))) => text,
        Some(None) => return Err("a data address that is not base64".to_owned()),
        None => text,
    };
    BASE64.decode(text.trim()).map_err(|error| format!("base64 that cannot be decoded ({error})"))
}

/// The bytes of an image, if they begin like one.
pub(super) fn image(bytes: Vec<u8>) -> Result<Content, String> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let starts: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"];
    if is_webp || starts.iter().any(|start| bytes.starts_with(start)) {
        Ok(Content::File(bytes))
    } else {
        Err(format!("{} bytes that are no image of type PNG, JPEG, WebP or GIF", bytes.len()))
    }
}

/// One sample of an answer, or why there is none.
pub(super) type Part = Result<Content, Failure>;

/// The reply with the usable samples, since they are paid; without one, the first refusal or else the first failure.
pub(super) fn reply(parts: Vec<Part>, cost: f64, empty: impl FnOnce() -> Failure) -> Result<Reply, Failure> {
    let (mut samples, mut failures) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Ok(content) => samples.push(content.into()),
            Err(failure) => failures.push(failure),
        }
    }
    if !samples.is_empty() {
        return Ok(Reply { samples, cost });
    }
    let refusal = failures.iter().position(|failure| failure.kind == FailureKind::Refusal).unwrap_or(0);
    let failure = failures.into_iter().nth(refusal).unwrap_or_else(empty);
    Err(failure.costing(cost))
}

/// The failure with its cost; in doubt if that is not known.
pub(super) fn charged(failure: Failure, cost: Option<f64>) -> Failure {
    match cost {
        Some(cost) => failure.costing(cost),
        None => failure.in_doubt(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{decode, image};

    #[test]
    fn base64_is_decoded_with_and_without_padding() {
        // The vectors of RFC 4648, section 10.
        for (text, bytes) in
            [("Zm9vYg==", "foob"), ("Zm9vYg", "foob"), ("data:image/png;base64,Zm9vYmFy", "foobar"), ("", "")]
        {
            assert_eq!(decode(text).unwrap(), bytes.as_bytes(), "{text}");
        }
        for text in ["Zm9v!", "Z", "data:image/png,abc", "data:Zm9v"] {
            assert!(decode(text).unwrap_err().contains("base64"), "{text}");
        }
    }

    #[test]
    fn images_are_known_by_their_first_bytes() {
        for start in [&b"\x89PNG\r\n\x1a\n..."[..], b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\x10\0\0\0WEBPVP8 "] {
            assert!(image(start.to_vec()).is_ok(), "{start:?}");
        }
        for start in [&b""[..], b"<html>", b"RIFF\x10\0\0\0WAVE", b"\x89PNG", b"RIFF"] {
            assert!(image(start.to_vec()).unwrap_err().contains("no image"), "{start:?}");
        }
    }
}
