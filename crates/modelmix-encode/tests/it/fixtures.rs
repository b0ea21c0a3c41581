//! The image files that `tools/golden_images.py` makes, and what Pillow makes of them.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use serde::Deserialize;

/// Pillow's reading of all files.
#[derive(Deserialize)]
pub(crate) struct Golden {
    pub(crate) files: Vec<Case>,
}

/// Pillow's reading of a file.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) file: String,
    /// `None` if Pillow does not read the file.
    pub(crate) pixels: Option<Pixels>,
}

/// The size and the SHA-256 of the pixels of an image.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) sha256: String,
}

/// All files, by name.
pub(crate) fn files() -> BTreeMap<String, Vec<u8>> {
    let bytes = include_bytes!("../fixtures/images.zip");
    let mut archive = zip::ZipArchive::new(Cursor::new(&bytes[..])).unwrap();
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let (name, mut bytes) = (entry.name().unwrap().into_owned(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        files.insert(name, bytes);
    }
    files
}

/// The files of one format.
pub(crate) fn files_of(format: &str) -> Vec<(String, Vec<u8>)> {
    files().into_iter().filter(|(name, _)| name.starts_with(&format!("{format}/"))).collect()
}

/// What Pillow makes of the files.
pub(crate) fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/images.json")).unwrap()
}

/// A small generator of random numbers with a fixed seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// One of the files, cut, or with bytes changed, or with a part of another file in it. The checksums of PNG are
    /// mostly mended, because hardly any change would get past them.
    pub(crate) fn mutated(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let mut file = files[self.below(files.len())].clone();
        for _ in 0..1 + self.below(3) {
            let at = self.below(file.len());
            match self.below(5) {
                0 => file.truncate(at),
                1 | 2 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte = self.next() as u8),
                3 => {
                    let count = self.below(16);
                    file.iter_mut().skip(at).take(count).for_each(|byte| *byte = self.next() as u8);
                }
                _ => {
                    let other = &files[self.below(files.len())];
                    let (from, count) = (self.below(other.len()), self.below(40));
                    let end = (at + self.below(40)).min(file.len());
                    file.splice(at..end, other[from..].iter().copied().take(count));
                }
            }
        }
        if file.starts_with(b"\x89PNG") && self.below(8) > 0 {
            mend_checksums(&mut file);
        }
        file
    }
}

fn mend_checksums(file: &mut [u8]) {
    let mut at = 8;
    while let Some(length) = file.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied()) {
        let end = at + 8 + u32::from_be_bytes(length) as usize;
        if file.len() < end + 4 {
            break;
        }
        let sum = crc32fast::hash(&file[at + 4..end]);
        file[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
}
