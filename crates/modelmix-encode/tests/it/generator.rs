//! The images and sizes of `tools/golden_resize.py`, and the hashes of values.

use modelmix_encode::Image;
use sha2::{Digest, Sha256};

/// SplitMix64's output function of a counter.
pub(crate) fn mix(counter: u64) -> u64 {
    let mut x = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// An image of noise; every third one has only black and white, so that filters overshoot.
pub(crate) fn image(seed: u64, width: usize, height: usize) -> Image {
    let byte = |index: u64| (mix(index.wrapping_add((seed + 1) << 32)) >> 56) as u8;
    let contrast = |value: u8| if value < 128 { 0 } else { 255 };
    let count = 3 * width * height;
    let pixels = (0..count as u64).map(byte).map(|value| if seed.is_multiple_of(3) { contrast(value) } else { value });
    Image::new(width, height, pixels.collect()).unwrap()
}

/// Width and height before and after, for a case of this number.
pub(crate) fn sizes(index: u64) -> [usize; 4] {
    let mut limits = [96; 4];
    let kind = mix(8 * index) % 8;
    match kind {
        0 => limits[0] = 700,
        1 => limits[1] = 700,
        2 => limits[2] = 400,
        3 => limits[3] = 400,
        _ => {}
    }
    let mut sizes: [usize; 4] = std::array::from_fn(|k| 1 + (mix(8 * index + 1 + k as u64) % limits[k]) as usize);
    match kind {
        4 => sizes[2] = sizes[0],
        5 => sizes[3] = sizes[1],
        _ => {}
    }
    sizes
}

/// The first 16 digits of SHA-256.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A file of hashes: section → hashes.
pub(crate) fn golden(name: &str) -> serde_json::Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The hashes of one section.
pub(crate) fn section(golden: &serde_json::Value, name: &str) -> Vec<String> {
    let hashes = golden[name].as_array().unwrap_or_else(|| panic!("no section {name}"));
    hashes.iter().map(|hash| hash.as_str().unwrap().to_owned()).collect()
}
