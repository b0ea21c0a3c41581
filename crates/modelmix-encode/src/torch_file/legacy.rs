//! Files of `torch.save` before PyTorch 1.6: five pickles (magic number, version, machine, object, keys of storages),
//! then the storages, each as its number of elements and its bytes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::objects::{self, Element};
use super::pickle::{Pickle, Value};
use super::{LONGEST_PICKLE, Storages, Tensor, materialise};
use crate::problem::Problem;

/// The first pickle, after its protocol: the number 0x1950a86a20f9469cfc6c, then stop.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// The version of the format that is read.
const VERSION: i64 = 1001;

/// The storages of a file, by key: where each begins and its bytes.
struct Legacy {
    file: File,
    places: HashMap<String, (u64, u64)>,
    big_endian: bool,
}

/// The tensors of a file in the old format.
pub(super) fn tensors(mut file: File, file_length: u64) -> Result<BTreeMap<String, Tensor>, Problem> {
    let unreadable = |error: std::io::Error| Problem::new(format!("it cannot be read ({error})"));
    // The pickles are at the start; their length is known only once they are read.
    let mut bytes = Vec::new();
    (&mut file).take(LONGEST_PICKLE).read_to_end(&mut bytes).map_err(unreadable)?;
    let mut reader = Pickles { bytes: &bytes, at: 0 };
    let start = bytes.strip_prefix(b"\x80\x02").unwrap_or(&bytes);
    if !start.starts_with(MAGIC) {
        return Err(Problem::new(
            "it is neither a zip archive nor an older file of torch.save; pass the .pt or .pth file of the weights",
        ));
    }
    reader.next()?;
    let version = reader.next()?;
    if !matches!(version.get(version.root), Value::Integer(VERSION)) {
        return Err(Problem::new(
            "its version of the format before PyTorch 1.6 is not 1001; save it again with torch.save",
        ));
    }
    let machine = reader.next()?;
    let object = reader.next()?;
    let keys = reader.next()?;
    let mut views = BTreeMap::new();
    objects::collect(&object, "", &mut views)?;

    let big_endian = big_endian(&machine);
    let mut legacy = Legacy { file, places: HashMap::new(), big_endian };
    let elements: HashMap<&str, Element> = object.storages().map(|storage| (&*storage.key, storage.element)).collect();
    legacy.find(&keys, &elements, reader.at as u64, file_length)?;
    materialise(views, &mut legacy, file_length)
}

/// Pickles that follow each other.
struct Pickles<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Pickles<'_> {
    fn next(&mut self) -> Result<Pickle, Problem> {
        let pickle = Pickle::read(self.bytes.get(self.at..).unwrap_or_default())?;
        self.at += pickle.length;
        Ok(pickle)
    }
}

/// Whether the description of the machine says that it was big-endian.
fn big_endian(machine: &Pickle) -> bool {
    let Value::Dict(entries) = machine.get(machine.root) else { return false };
    entries.iter().any(|(key, value)| {
        matches!(machine.get(*key), Value::Text(key) if &**key == "little_endian")
            && matches!(machine.get(*value), Value::Bool(false))
    })
}

impl Legacy {
    /// Notes where every storage is, in the order of their keys.
    fn find(
        &mut self,
        keys: &Pickle,
        elements: &HashMap<&str, Element>,
        start: u64,
        file_length: u64,
    ) -> Result<(), Problem> {
        let Value::List(list) = keys.get(keys.root) else {
            return Err(Problem::new("its list of storages is missing; download it again"));
        };
        let mut at = start;
        for key in list {
            let Value::Text(key) = keys.get(*key) else {
                return Err(Problem::new("it has a storage whose key is no text; download it again"));
            };
            // A storage that no tensor uses cannot be stepped over, as its element type is unknown.
            let element = elements
                .get(&**key)
                .ok_or_else(|| Problem::new(format!("its storage {key} has no type; save it again with torch.save")))?;
            let mut count = [0; 8];
            self.file
                .seek(SeekFrom::Start(at))
                .and_then(|_| self.file.read_exact(&mut count))
                .map_err(|error| Problem::new(format!("its storage {key} is missing ({error}); download it again")))?;
            let count = if self.big_endian { u64::from_be_bytes(count) } else { u64::from_le_bytes(count) };
            let length = count.checked_mul(element.size() as u64);
            let end = length.and_then(|length| at.checked_add(8)?.checked_add(length));
            match (length, end) {
                (Some(length), Some(end)) if end <= file_length => {
                    self.places.insert(key.to_string(), (at + 8, length));
                    at = end;
                }
                _ => {
                    return Err(Problem::new(format!(
                        "its storage {key} has {count} elements, more than the file of {file_length} bytes; download it again"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Storages for Legacy {
    fn read(&mut self, key: &str, length: usize) -> Result<Vec<u8>, Problem> {
        let &(at, stored) = self
            .places
            .get(key)
            .ok_or_else(|| Problem::new(format!("its storage {key} is missing; download it again")))?;
        if (length as u64) > stored {
            return Err(Problem::new(format!(
                "its storage {key} has {stored} bytes, but tensors need {length}; download it again"
            )));
        }
        let mut bytes = vec![0; length];
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|error| Problem::new(format!("its storage {key} cannot be read ({error}); download it again")))?;
        Ok(bytes)
    }

    fn big_endian(&self) -> bool {
        self.big_endian
    }
}
