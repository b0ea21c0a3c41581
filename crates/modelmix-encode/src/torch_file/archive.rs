//! Files in the zip format: `torch.save` since PyTorch 1.6, and TorchScript.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};

use zip::{CompressionMethod, ZipArchive};

use super::objects::{self, View};
use super::pickle::Pickle;
use super::{LONGEST_PICKLE, Storages, Tensor, materialise};
use crate::problem::Problem;

/// A zip archive whose entries all lie in one folder.
struct Archive {
    zip: ZipArchive<BufReader<File>>,
    /// The folder, with its slash.
    folder: String,
    file_length: u64,
    big_endian: bool,
}

/// The tensors of a zip archive.
pub(super) fn tensors(file: File, file_length: u64) -> Result<BTreeMap<String, Tensor>, Problem> {
    let zip = ZipArchive::new(BufReader::new(file))
        .map_err(|error| Problem::new(format!("it is a damaged zip archive ({error}); download it again")))?;
    // TorchScript may hold other files of this name deeper down, so the shortest folder is the one.
    let folders = zip.file_names().filter_map(|name| name.ok()?.strip_suffix("data.pkl").map(str::to_owned));
    let folder = folders.filter(|folder| folder.is_empty() || folder.ends_with('/')).min_by_key(String::len);
    let Some(folder) = folder else {
        return Err(Problem::new(
            "it is a zip archive without data.pkl, so PyTorch did not write it; pass the .pt or .pth file itself",
        ));
    };
    let mut archive = Archive { zip, folder, file_length, big_endian: false };
    archive.big_endian = match archive.entry("byteorder", 16)?.as_deref() {
        None | Some(b"little") => false,
        Some(b"big") => true,
        Some(_) => return Err(Problem::new("its byte order is neither little nor big; download it again")),
    };
    let mut views = BTreeMap::new();
    archive.collect("data.pkl", "", "data/", &mut views)?;
    // Code of TorchScript names its constants CONSTANTS.c0, CONSTANTS.c1, …
    let mut constants = BTreeMap::new();
    archive.collect("constants.pkl", "", "constants/", &mut constants)?;
    for (name, view) in constants {
        views.insert(format!("CONSTANTS.c{name}"), view);
    }
    materialise(views, &mut archive, file_length)
}

impl Archive {
    /// Adds the tensors of a pickle, whose storages are entries of `storages`, if there is one.
    fn collect(
        &mut self,
        pickle: &str,
        prefix: &str,
        storages: &str,
        views: &mut BTreeMap<String, View>,
    ) -> Result<(), Problem> {
        let Some(bytes) = self.entry(pickle, LONGEST_PICKLE)? else { return Ok(()) };
        objects::collect(&Pickle::read(&bytes)?, prefix, views)?;
        for view in views.values_mut() {
            view.storage.key = format!("{storages}{}", view.storage.key).into();
        }
        Ok(())
    }

    /// The content of an entry of the folder, if there is one of this name.
    fn entry(&mut self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Problem> {
        let full = format!("{}{name}", self.folder);
        let damaged =
            |error: String| Problem::new(format!("its entry {name} cannot be read ({error}); download it again"));
        let Some(index) = self.zip.index_for_name(&full) else { return Ok(None) };
        let entry = self.zip.by_index(index).map_err(|error| damaged(error.to_string()))?;
        // Without compression an entry is never larger than the file, so its size can be trusted.
        if entry.compression() != CompressionMethod::Stored {
            return Err(Problem::new(format!(
                "its entry {name} is compressed, which PyTorch never does; save it again with torch.save"
            )));
        }
        let size = entry.size();
        if size > most || size > self.file_length {
            return Err(Problem::new(format!(
                "its entry {name} has {size} bytes, which is too many for a file of {} bytes or a pickle; download it again",
                self.file_length
            )));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        // Beyond its last byte, so that the archive's checksum is compared.
        entry.take(size + 1).read_to_end(&mut bytes).map_err(|error| damaged(error.to_string()))?;
        if bytes.len() as u64 != size {
            return Err(damaged(format!("{} of {size} bytes are there", bytes.len())));
        }
        Ok(Some(bytes))
    }
}

impl Storages for Archive {
    fn read(&mut self, key: &str, length: usize) -> Result<Vec<u8>, Problem> {
        let bytes = self.entry(key, u64::MAX)?;
        let bytes = bytes.ok_or_else(|| Problem::new(format!("its entry {key} is missing; download it again")))?;
        if bytes.len() < length {
            return Err(Problem::new(format!(
                "its entry {key} has {} bytes, but tensors need {length}; download it again",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    fn big_endian(&self) -> bool {
        self.big_endian
    }
}
