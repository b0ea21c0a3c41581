//! A cache of features by content: the SHA-256 checksum of a sample and the fingerprint of its encoder find its row.
//!
//! Each encoder has one folder with two files that only grow: `rows` has the values, `index` one record per row with the
//! sample's checksum and a checksum of the row. A row counts once its record is complete, so that work which was interrupted
//! goes on where it stopped. Writers hold a lock; readers need none.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use modelmix::{Error, Result};

/// The SHA-256 checksum of a sample.
pub type Digest = [u8; 32];

/// The length of a record: the checksum of the sample, and the CRC-32 of the row.
const RECORD: usize = 36;

/// The cached rows of one encoder.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    width: usize,
    /// The position of each known row.
    known: HashMap<Digest, Known>,
    files: Mutex<Files>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    row: u64,
    crc: u32,
}

#[derive(Debug)]
struct Files {
    index: File,
    rows: File,
}

impl Cache {
    /// Opens the cache of an encoder in `folder`, which is created if it does not exist. `fingerprint` names the encoder, its
    /// preprocessing and its runtime; rows have `width` values.
    ///
    /// # Errors
    /// If the folder cannot be created or its files cannot be read.
    pub fn open(folder: &Path, fingerprint: &str, width: usize) -> Result<Self> {
        let folder = folder.join(fingerprint);
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let open = |name: &str| {
            let path = folder.join(name);
            open(&path).map_err(failed(&path))
        };
        let files = Files { index: open("index")?, rows: open("rows")? };
        let mut bytes = Vec::new();
        (&files.index).read_to_end(&mut bytes).map_err(failed(&folder))?;
        let rows = files.rows.metadata().map_err(failed(&folder))?.len() / row_bytes(width);
        let mut known = HashMap::new();
        for (row, record) in bytes.chunks_exact(RECORD).enumerate().take(usize::try_from(rows).unwrap_or(usize::MAX)) {
            let (mut digest, mut crc) = ([0; 32], [0; 4]);
            digest.copy_from_slice(&record[..32]);
            crc.copy_from_slice(&record[32..]);
            known.insert(digest, Known { row: row as u64, crc: u32::from_le_bytes(crc) });
        }
        Ok(Self { folder, width, known, files: Mutex::new(files) })
    }

    /// The number of rows that were in the cache when it was opened.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether the cache was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether the row of a sample was in the cache when it was opened.
    pub fn has(&self, digest: &Digest) -> bool {
        self.known.contains_key(digest)
    }

    /// Copies the row of a sample into `row`; false if it is not there or damaged.
    ///
    /// # Panics
    /// If `row` does not have the width of the cache.
    pub fn read(&self, digest: &Digest, row: &mut [f32]) -> bool {
        assert_eq!(row.len(), self.width, "the width of a row");
        let Some(known) = self.known.get(digest) else { return false };
        let mut bytes = vec![0; size_of_val(row)];
        {
            let mut files = self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let read = files
                .rows
                .seek(SeekFrom::Start(known.row * row_bytes(self.width)))
                .and_then(|_| files.rows.read_exact(&mut bytes));
            if read.is_err() {
                return false;
            }
        }
        if crc32fast::hash(&bytes) != known.crc {
            return false;
        }
        for (value, bytes) in row.iter_mut().zip(bytes.chunks_exact(4)) {
            *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        row.iter().all(|value| value.is_finite())
    }

    /// Adds rows. Other processes may add rows to the same cache at the same time.
    ///
    /// # Errors
    /// If the files cannot be locked or written, for example because the disk is full. Rows that were added before remain valid.
    ///
    /// # Panics
    /// If there is not one row per digest.
    pub fn add(&self, digests: &[Digest], values: &[f32]) -> Result<()> {
        assert_eq!(values.len(), digests.len() * self.width, "one row per digest");
        if digests.is_empty() {
            return Ok(());
        }
        let mut files = self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        files.index.lock().map_err(failed(&self.folder))?;
        let written = append(&mut files, self.width, digests, values);
        let unlocked = files.index.unlock();
        written.and(unlocked).map_err(failed(&self.folder))
    }
}

/// Opens a file of the cache, only to read it if it cannot be written. A link to another file is refused, which rows would be
/// appended to.
fn open(path: &Path) -> std::io::Result<File> {
    let links_elsewhere = || std::fs::metadata(path).map_or(true, |target| target.is_file());
    let is_fit = match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => !links_elsewhere(),
        Ok(metadata) => metadata.is_file(),
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    if !is_fit {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "it is a link or no regular file"));
    }
    OpenOptions::new().read(true).append(true).create(true).open(path).or_else(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => File::open(path),
        _ => Err(error),
    })
}

/// Appends rows, then their records. What a writer left unfinished is removed first.
fn append(files: &mut Files, width: usize, digests: &[Digest], values: &[f32]) -> std::io::Result<()> {
    let records = files.index.metadata()?.len() / RECORD as u64;
    let rows = files.rows.metadata()?.len() / row_bytes(width);
    let complete = records.min(rows);
    files.index.set_len(complete * RECORD as u64)?;
    files.rows.set_len(complete * row_bytes(width))?;
    let (mut row_data, mut index) =
        (Vec::with_capacity(size_of_val(values)), Vec::with_capacity(digests.len() * RECORD));
    for (digest, row) in digests.iter().zip(values.chunks_exact(width)) {
        let start = row_data.len();
        row.iter().for_each(|value| row_data.extend(value.to_le_bytes()));
        index.extend(digest);
        index.extend(crc32fast::hash(&row_data[start..]).to_le_bytes());
    }
    files.rows.write_all(&row_data)?;
    files.index.write_all(&index)
}

fn row_bytes(width: usize) -> u64 {
    (size_of::<f32>() * width.max(1)) as u64
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |error| Error::File {
        path: path.clone(),
        problem: format!(
            "the cache of features cannot be used ({error}); choose another folder for it, or turn it off"
        ),
    }
}
