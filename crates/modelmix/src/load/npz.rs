//! The `.npz` format: a zip archive of `.npy` members, stored or deflated.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::about::{self, About};
use super::npy::Size;
use super::payload::{self, Layout, Origin};
use super::{npy, one_line};
use crate::arms::check_rows;
use crate::encoding::Encoding;
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
    /// Its arrays in the order of the archive, without `.npy`.
    pub(super) names: Vec<String>,
    /// The index of each array in the archive.
    members: Vec<usize>,
    /// How its features were made, if it says so.
    encoding: Option<Encoding>,
}

impl Npz {
    pub(super) fn open(path: &Path, file: File, length: u64) -> Result<Self> {
        let origin = Origin { path, array: None };
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| refused(error, &origin))?;
        let (mut names, mut members) = (Vec::with_capacity(archive.len()), Vec::with_capacity(archive.len()));
        let mut compressed: u64 = 0;
        for index in 0..archive.len() {
            let member = archive.by_index_data(index).map_err(|error| refused(error, &origin))?;
            let name = member.name().map_err(|error| refused(error, &origin))?;
            if !about::is_reserved(&name) {
                names.push(name.strip_suffix(".npy").unwrap_or(&name).to_string());
                members.push(index);
            }
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
        let mut file = Self { path: path.into(), archive, names, members, encoding: None };
        if let Some(text) = file.reserved(about::ABOUT_FILE, about::LONGEST_ABOUT)? {
            file.encoding = Some(About::parse(&text, &origin)?.encoding);
        }
        Ok(file)
    }

    /// The ids of its samples as JSON, if it has them.
    pub(super) fn ids(&mut self) -> Result<Option<Vec<u8>>> {
        self.reserved(about::IDS_FILE, about::LONGEST_IDS)
    }

    /// The bytes of a member that is not an array; `None` if there is none.
    fn reserved(&mut self, name: &str, longest: u64) -> Result<Option<Vec<u8>>> {
        let origin = Origin { path: &self.path, array: None };
        let Some(index) = self.archive.index_for_name(name) else { return Ok(None) };
        let (size, _) = claimed(&self.archive, index, &origin)?;
        if size > longest {
            return Err(
                origin.file(format!("{name} has {size} bytes, but {longest} are allowed; write the file again"))
            );
        }
        let member = self.archive.by_index(index).map_err(|error| refused(error, &origin))?;
        let mut bytes = Vec::new();
        member.take(longest).read_to_end(&mut bytes).map_err(|error| origin.io(error))?;
        Ok(Some(bytes))
    }

    /// The position of a member's bytes in the file; `None` if it is compressed.
    pub(super) fn stored_at(&mut self, index: usize) -> Result<Option<u64>> {
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        let (_, stored) = claimed(&self.archive, self.members[index], &origin)?;
        let member = self.archive.by_index(self.members[index]).map_err(|error| refused(error, &origin))?;
        Ok(member.data_start().filter(|_| stored))
    }

    /// Calls `read` with an array of any type.
    pub(super) fn with<T>(
        &mut self,
        index: usize,
        read: impl FnOnce(&mut dyn Read, Size, &Origin<'_>) -> Result<T>,
    ) -> Result<T> {
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        let (available, stored) = claimed(&self.archive, self.members[index], &origin)?;
        let mut member = self.archive.by_index(self.members[index]).map_err(|error| refused(error, &origin))?;
        let at_once = if stored { usize::MAX } else { VALUES_AT_ONCE };
        read(&mut member, Size { available, at_once }, &origin)
    }

    /// The layout of an array, and the position of its first element in the file if it is stored uncompressed.
    pub(super) fn place(&mut self, index: usize) -> Result<(Layout, Option<u64>)> {
        let stored_at = self.stored_at(index)?;
        self.with(index, |mut reader, size, origin| {
            let (layout, used) = npy::header(&mut reader, size.available, origin)?;
            layout.check(size.available - used, origin)?;
            Ok((layout, stored_at.map(|at| at + used)))
        })
    }

    pub(super) fn read(&mut self, index: usize) -> Result<Features> {
        let features = self.read_part(index)?;
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        check_rows(&features).map_err(|error| error.of(origin.name()))?;
        Ok(features)
    }

    /// The same for an array that is a part of an arm and may have a single row.
    pub(super) fn read_part(&mut self, index: usize) -> Result<Features> {
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        let (size, stored) = claimed(&self.archive, self.members[index], &origin)?;
        let mut member = self.archive.by_index(self.members[index]).map_err(|error| refused(error, &origin))?;
        let (layout, used) = npy::header(&mut member, size, &origin)?;
        layout.check(size - used, &origin)?;
        // Fortran order needs all of its memory at the start, so the claim is first verified by inflating without
        // storing.
        if layout.fortran() && !stored {
            let inflated = io::copy(&mut member, &mut io::sink()).map_err(|error| origin.io(error))?;
            layout.check(inflated, &origin)?;
            drop(member);
            member = self.archive.by_index(self.members[index]).map_err(|error| refused(error, &origin))?;
            npy::header(&mut member, size, &origin)?;
        }
        let at_once = if stored { usize::MAX } else { VALUES_AT_ONCE };
        let features = payload::read_part(&mut member, &layout, at_once, &origin)?;
        // Reading to the end also verifies the checksum.
        match member.read(&mut [0]).map_err(|error| origin.io(error))? {
            0 => Ok(match &self.encoding {
                Some(encoding) => features.with_encoding(encoding.clone()),
                None => features,
            }),
            _ => Err(origin.file("bytes follow the array; save it again with numpy.savez")),
        }
    }
}

/// Checks the claims of the archive about a member: its inflated size, and whether it is stored uncompressed.
fn claimed(archive: &ZipArchive<BufReader<File>>, index: usize, origin: &Origin<'_>) -> Result<(u64, bool)> {
    let member = archive.by_index_data(index).map_err(|error| refused(error, origin))?;
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

fn refused(error: ZipError, origin: &Origin<'_>) -> Error {
    match error {
        ZipError::Io(error) => origin.io(error),
        error => {
            origin.file(format!("the archive cannot be read ({}); save it again with numpy.savez", one_line(error)))
        }
    }
}
