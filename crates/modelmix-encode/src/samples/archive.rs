//! Zip archives of image files. Every read has its own position in the file, so that threads do not wait for each
//! other.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::file::SharedFile;
use super::names;
use crate::problem::Problem;

/// The maximum size that an entry may claim, and that is inflated.
const LARGEST_ENTRY: u64 = 256 << 20;

/// The image files of an archive, in their order.
#[derive(Debug)]
pub(super) struct ArchiveImages {
    archive: ZipArchive<SharedFile>,
    entries: Vec<usize>,
}

/// Lists the images of an archive.
pub(super) fn list(path: &Path) -> modelmix::Result<(Vec<String>, ArchiveImages)> {
    let io = |source| modelmix::Error::Io { path: path.into(), source };
    let refused = |problem: String| modelmix::Error::File { path: path.into(), problem };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(refused("this is not a regular file; give a .zip file".into()));
    }
    let file = SharedFile::new(File::open(path).map_err(io)?).map_err(io)?;
    let archive = ZipArchive::new(file)
        .map_err(|error| refused(format!("the archive cannot be read ({}); write or copy it again", reason(error))))?;
    if archive.has_duplicate_names() {
        let name = duplicate(&archive).map_err(io)?;
        return Err(refused(format!("two entries are named {:?}; write the archive again", one_line(name))));
    }
    let mut found: Vec<(Vec<u8>, usize)> = Vec::new();
    for index in 0..archive.len() {
        let entry = archive
            .by_index_data(index)
            .map_err(|error| refused(format!("entry {index} cannot be read ({}); write it again", reason(error))))?;
        let name = slashed(entry.name_raw());
        let mut parts = name.rsplit(|&byte| byte == b'/');
        let is_image = parts.next().is_some_and(names::is_image);
        // Paths that may lead out of the archive are listed, so that the user is told.
        if is_image && !parts.any(|part| part != b".." && names::is_hidden_folder(part)) {
            found.push((name, index));
        }
    }
    if found.is_empty() {
        return Err(refused("the archive holds no images; add .png, .jpg, .webp, .gif or .bmp files".into()));
    }
    found.sort_unstable_by(|left, right| names::natural_order(&left.0, &right.0));
    let ids = names::ids(found.iter().map(|(name, _)| name.as_slice()));
    Ok((ids, ArchiveImages { archive, entries: found.into_iter().map(|(_, index)| index).collect() }))
}

impl ArchiveImages {
    /// Reads the bytes of an entry.
    pub(super) fn read(&self, index: usize) -> Result<Vec<u8>, Problem> {
        let damaged =
            |reason: String| Problem::new(format!("the entry is damaged ({reason}); write the archive again"));
        // The copy shares the table of entries and the open file, and has a position of its own.
        let mut archive = self.archive.clone();
        let entry = self.entries[index];
        let claims = archive.by_index_data(entry).map_err(|error| damaged(reason(error)))?;
        if is_unsafe(&slashed(claims.name_raw())) {
            return Err(Problem::new(
                "the path of the entry is absolute or has \"..\" in it; write the archive again with plain relative paths",
            ));
        }
        if claims.encrypted() {
            return Err(Problem::new("the entry is encrypted; write the archive again without a password"));
        }
        let method = claims.compression();
        if !matches!(method, CompressionMethod::Stored | CompressionMethod::Deflated) {
            return Err(Problem::new(format!(
                "the entry is compressed with {}, which is not read; write the archive again with deflate",
                method.to_string().to_lowercase()
            )));
        }
        let claimed = claims.size();
        if claimed > LARGEST_ENTRY {
            return Err(Problem::new(format!(
                "the entry claims {claimed} bytes, more than the {LARGEST_ENTRY} that an image may have; scale it down"
            )));
        }
        let reader = archive.by_index(entry).map_err(|error| damaged(reason(error)))?;
        // Memory grows with what is inflated, not with what is claimed.
        let mut bytes = Vec::new();
        reader.take(LARGEST_ENTRY).read_to_end(&mut bytes).map_err(|error| damaged(one_line(error)))?;
        if bytes.len() as u64 != claimed {
            let found = bytes.len();
            return Err(damaged(format!("it claims {claimed} bytes, but holds {found}")));
        }
        Ok(bytes)
    }
}

/// The path of an entry, with `/` between folders, as some programs of Windows separate them by backslashes, and without
/// parts that are `.`.
fn slashed(name: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = name.split(|byte| matches!(byte, b'/' | b'\\')).filter(|part| *part != b".").collect();
    parts.join(&b'/')
}

/// Whether a path is absolute or has a part that is `..`.
fn is_unsafe(path: &[u8]) -> bool {
    let is_drive = path.get(1) == Some(&b':') && path[0].is_ascii_alphabetic();
    is_drive || path.starts_with(b"/") || path.split(|&byte| byte == b'/').any(|part| part == b"..")
}

/// A name that two entries have. The crate keeps one of them, so the table of entries is read again.
fn duplicate(archive: &ZipArchive<SharedFile>) -> io::Result<String> {
    const HEADER: usize = 46;
    let mut file = archive.clone().into_inner();
    file.seek(SeekFrom::Start(archive.central_directory_start()))?;
    let mut table = Vec::new();
    file.take(LARGEST_ENTRY).read_to_end(&mut table)?;
    let (mut rest, mut names) = (table.as_slice(), BTreeSet::new());
    while let Some(header) = rest.get(..HEADER).filter(|header| header.starts_with(b"PK\x01\x02")) {
        let length = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let name = rest.get(HEADER..HEADER + length(28)).unwrap_or_default();
        if !names.insert(name) {
            return Ok(String::from_utf8_lossy(name).into_owned());
        }
        rest = rest.get(HEADER + length(28) + length(30) + length(32)..).unwrap_or_default();
    }
    Ok("the same".into())
}

fn reason(error: ZipError) -> String {
    match error {
        ZipError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => "it is truncated".into(),
        error => one_line(error),
    }
}

/// The message of another crate on one line of bounded length, because it may quote a forged file.
fn one_line(words: impl ToString) -> String {
    words.to_string().chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
