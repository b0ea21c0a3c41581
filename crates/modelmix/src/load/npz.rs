//! The `.npz` format: a zip archive of `.npy` members, stored or deflated.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::npy::Size;
use super::payload::{self, Origin};
use super::{npy, one_line};
use crate::error::{Error, Result};
use crate::features::Features;

/// The maximum expansion of one deflated byte: a match of 258 bytes takes 2 bits or more.
const LARGEST_EXPANSION: u64 = 1032;

/// The number of values that are allocated before the first of them is inflated.
const VALUES_AT_ONCE: usize = 1 << 20;

/// An open `.npz` file.
pub(super) struct Npz {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    /// Its members in the order of the archive, without `.npy`.
    pub(super) names: Vec<String>,
}

impl Npz {
    pub(super) fn open(path: &Path, file: File, length: u64) -> Result<Self> {
        let origin = Origin { path, array: None };
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| refused(error, &origin))?;
        let mut names = Vec::with_capacity(archive.len());
        let mut compressed: u64 = 0;
        for index in 0..archive.len() {
            let member = archive.by_index_data(index).map_err(|error| refused(error, &origin))?;
            let name = member.name().map_err(|error| refused(error, &origin))?;
            names.push(name.strip_suffix(".npy").unwrap_or(&name).to_string());
            compressed = compressed.saturating_add(member.compressed_size());
        }
        // Members that share their bytes would multiply the size that a small file can expand to.
        if compressed > length {
            return Err(origin.file(format!(
                "its members claim {compressed} bytes of the file's {length}; save it again with numpy.savez"
            )));
        }
        let distinct = names.iter().collect::<BTreeSet<_>>().len();
        if archive.metadata().has_duplicate_names() || distinct < names.len() {
            return Err(origin.file("two arrays have the same name; save it again with different names"));
        }
        Ok(Self { path: path.into(), archive, names })
    }

    /// Checks the claims of the archive about a member: its inflated size, and whether it is stored uncompressed.
    fn claimed(&self, index: usize, origin: &Origin<'_>) -> Result<(u64, bool)> {
        let member = self.archive.by_index_data(index).map_err(|error| refused(error, origin))?;
        let (compressed, size) = (member.compressed_size(), member.size());
        if member.encrypted() {
            return Err(origin.file("the array is encrypted; save it again with numpy.savez"));
        }
        let largest = match member.compression() {
            CompressionMethod::Stored => compressed,
            CompressionMethod::Deflated => compressed.saturating_mul(LARGEST_EXPANSION),
            other => {
                return Err(origin.file(format!(
                    "the compression method ({}) is not supported; save it again with numpy.savez or numpy.savez_compressed",
                    one_line(other)
                )));
            }
        };
        let stored = member.compression() == CompressionMethod::Stored;
        if size > largest || stored && size != compressed {
            return Err(origin.file(format!(
                "the archive claims {size} bytes, which {compressed} bytes in the file cannot hold; save it again with numpy.savez"
            )));
        }
        Ok((size, stored))
    }

    /// Calls `read` with an array of any type.
    pub(super) fn with<T>(
        &mut self,
        index: usize,
        read: impl FnOnce(&mut dyn Read, Size, &Origin<'_>) -> Result<T>,
    ) -> Result<T> {
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        let (available, stored) = self.claimed(index, &origin)?;
        let mut member = self.archive.by_index(index).map_err(|error| refused(error, &origin))?;
        let at_once = if stored { usize::MAX } else { VALUES_AT_ONCE };
        read(&mut member, Size { available, at_once }, &origin)
    }

    pub(super) fn read(&mut self, index: usize) -> Result<Features> {
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        let (size, stored) = self.claimed(index, &origin)?;
        let mut member = self.archive.by_index(index).map_err(|error| refused(error, &origin))?;
        let (layout, used) = npy::header(&mut member, size, &origin)?;
        layout.check(size - used, &origin)?;
        // Fortran order needs all of its memory at the start, so the claim is first verified by inflating without
        // storing.
        if layout.fortran() && !stored {
            let inflated = io::copy(&mut member, &mut io::sink()).map_err(|error| origin.io(error))?;
            layout.check(inflated, &origin)?;
            drop(member);
            member = self.archive.by_index(index).map_err(|error| refused(error, &origin))?;
            npy::header(&mut member, size, &origin)?;
        }
        let at_once = if stored { usize::MAX } else { VALUES_AT_ONCE };
        let features = payload::read(&mut member, &layout, at_once, &origin)?;
        // Reading to the end also verifies the checksum.
        match member.read(&mut [0]).map_err(|error| origin.io(error))? {
            0 => Ok(features),
            _ => Err(origin.file("bytes follow the array; save it again with numpy.savez")),
        }
    }
}

fn refused(error: ZipError, origin: &Origin<'_>) -> Error {
    match error {
        ZipError::Io(error) => origin.io(error),
        error => {
            origin.file(format!("the archive cannot be read ({}); save it again with numpy.savez", one_line(error)))
        }
    }
}
