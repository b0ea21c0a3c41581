//! Writes features to `.npz` and `.safetensors` files that state how they were made and which sample each row is.
//! `modelmix::load` reads both back; NumPy and safetensors read the arrays.

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use modelmix::internals::load::{ABOUT_FILE, About, IDS_FILE};
use modelmix::{Encoding, Error, Features, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The type of a file of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// NumPy's archive of arrays.
    Npz,
    /// Tensors that may be memory-mapped.
    Safetensors,
}

impl FileType {
    /// The type of a file by its extension.
    ///
    /// # Errors
    /// If the extension is not `.npz` or `.safetensors`.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match extension.as_str() {
            "npz" => Ok(FileType::Npz),
            "safetensors" => Ok(FileType::Safetensors),
            _ => {
                let problem = "features are written as .npz or .safetensors; rename the file".into();
                Err(Error::File { path: path.into(), problem })
            }
        }
    }
}

/// Features of several sets, made by one encoder, with the ids of their samples.
#[derive(Clone, Debug)]
pub struct FeatureFile {
    /// How the features were made.
    pub encoding: Encoding,
    /// Features by name, in the order of the file.
    pub sets: Vec<NamedFeatures>,
}

/// Features of one set.
#[derive(Clone, Debug)]
pub struct NamedFeatures {
    /// The name of the array.
    pub name: String,
    /// One row per sample.
    pub features: Features,
    /// The id of each sample, in the order of the rows.
    pub ids: Vec<String>,
}

impl FeatureFile {
    /// Writes the file.
    ///
    /// # Errors
    /// If the writer fails, for example because the disk is full.
    pub fn write(&self, file_type: FileType, writer: impl Write + Seek) -> io::Result<()> {
        match file_type {
            FileType::Npz => self.write_npz(writer),
            FileType::Safetensors => self.write_safetensors(writer),
        }
    }

    fn about(&self) -> io::Result<String> {
        Ok(serde_json::to_string(&About { encoding: self.encoding.clone() })?)
    }

    fn ids(&self) -> io::Result<Vec<u8>> {
        let ids: BTreeMap<&str, &[String]> =
            self.sets.iter().map(|set| (set.name.as_str(), set.ids.as_slice())).collect();
        Ok(serde_json::to_vec(&ids)?)
    }

    fn write_npz(&self, writer: impl Write + Seek) -> io::Result<()> {
        let mut archive = ZipWriter::new(FirstError { writer, error: None, at: 0, end: 0 });
        // Arrays are stored, so that their bytes can be read without inflating; the date is that of the format's epoch,
        // so that the same features give the same file.
        let stored = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(zip::DateTime::default())
            .large_file(true);
        let small = stored.large_file(false);
        for set in &self.sets {
            archive.start_file(format!("{}.npy", set.name), stored)?;
            archive.write_all(&npy_header(set.features.len(), set.features.width()))?;
            write_values(&mut archive, set.features.values())?;
        }
        archive.start_file(ABOUT_FILE, small)?;
        archive.write_all(self.about()?.as_bytes())?;
        archive.start_file(IDS_FILE, stored.compression_method(CompressionMethod::Deflated))?;
        archive.write_all(&self.ids()?)?;
        archive.finish()?.finish()
    }

    fn write_safetensors(&self, mut writer: impl Write) -> io::Result<()> {
        let ids = self.ids()?;
        let (mut header, mut offset) = (serde_json::Map::new(), 0usize);
        let entry = ABOUT_FILE.trim_end_matches(".json");
        header.insert("__metadata__".into(), serde_json::json!({ entry: self.about()? }));
        for set in &self.sets {
            let (rows, width) = (set.features.len(), set.features.width());
            let end = offset + size_of::<f32>() * rows * width;
            let info = serde_json::json!({"dtype": "F32", "shape": [rows, width], "data_offsets": [offset, end]});
            header.insert(set.name.clone(), info);
            offset = end;
        }
        let end = offset + ids.len();
        let info = serde_json::json!({"dtype": "U8", "shape": [ids.len()], "data_offsets": [offset, end]});
        header.insert(IDS_FILE.into(), info);
        let mut text = serde_json::to_vec(&header)?;
        // Tensors start at a multiple of 8 bytes.
        text.resize(text.len().next_multiple_of(8), b' ');
        writer.write_all(&(text.len() as u64).to_le_bytes())?;
        writer.write_all(&text)?;
        for set in &self.sets {
            write_values(&mut writer, set.features.values())?;
        }
        writer.write_all(&ids)?;
        writer.flush()
    }
}

/// A writer that keeps its first error until the end and discards what follows it. An archive that sees an error would try to
/// write its end when it is dropped, and print that this failed.
struct FirstError<W> {
    writer: W,
    error: Option<io::Error>,
    /// The position, and the end of the file.
    at: u64,
    end: u64,
}

impl<W: Write> FirstError<W> {
    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.error.map_or(Ok(()), Err)
    }
}

impl<W: Write> Write for FirstError<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.error.is_none() {
            self.error = self.writer.write_all(bytes).err();
        }
        self.at += bytes.len() as u64;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.error.is_none() {
            self.error = self.writer.flush().err();
        }
        Ok(())
    }
}

impl<W: Seek> Seek for FirstError<W> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        if self.error.is_none() {
            self.error = self.writer.seek(position).err();
        }
        let at = match position {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => self.end.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// The header of a `.npy` array of little-endian 32-bit floats, padded to a multiple of 64 bytes.
fn npy_header(rows: usize, width: usize) -> Vec<u8> {
    const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    let length = (MAGIC.len() + 2 + text.len() + 1).next_multiple_of(64) - MAGIC.len() - 2;
    text.extend(std::iter::repeat_n(' ', length - text.len() - 1));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend((length as u16).to_le_bytes());
    header.extend(text.bytes());
    header
}

/// Writes values as little-endian bytes, in blocks.
fn write_values(writer: &mut impl Write, values: &[f32]) -> io::Result<()> {
    const BLOCK: usize = 1 << 14;
    let mut bytes = Vec::with_capacity(size_of::<f32>() * BLOCK.min(values.len()));
    for block in values.chunks(BLOCK) {
        bytes.clear();
        block.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        writer.write_all(&bytes)?;
    }
    Ok(())
}
