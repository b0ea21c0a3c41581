//! The tensors in `.pt` and `.pth` files: state dicts of `torch.save`, in the zip format and the one before PyTorch 1.6,
//! and TorchScript archives. Nothing in a file is run, and every size in it is checked before memory is allocated.

mod archive;
mod legacy;
mod objects;
mod pickle;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use half::{bf16, f16};

use self::objects::{Element, View};
use crate::problem::Problem;

/// The longest pickle that is read, in bytes. One takes about 150 bytes per tensor.
const LONGEST_PICKLE: u64 = 16 << 20;

/// How many elements all tensors together may have per byte of the file: one without sharing, more if tensors share
/// storages.
const ELEMENTS_PER_BYTE: u64 = 4;

/// A tensor with its elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Values,
}

/// The elements of a tensor, in the smallest of three types that holds them exactly.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Elements stored as float, half or bfloat16.
    Floats(Vec<f32>),
    /// Elements stored as double.
    Doubles(Vec<f64>),
    /// Elements stored as integers or booleans.
    Integers(Vec<i64>),
}

impl Tensor {
    /// The sizes of its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, in row-major order.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The elements as 64-bit floats. Integers beyond 2⁵³ are rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.values {
            Values::Floats(values) => values.iter().map(|&value| f64::from(value)).collect(),
            Values::Doubles(values) => values.clone(),
            Values::Integers(values) => values.iter().map(|&value| value as f64).collect(),
        }
    }
}

/// The tensors of a file, by dotted name: as in `state_dict()`, below the keys of dicts that hold it.
///
/// # Errors
/// If the file cannot be read, is damaged, is not a PyTorch file, or names classes other than those of tensors,
/// containers and TorchScript modules.
pub fn tensors(path: &Path) -> modelmix::Result<BTreeMap<String, Tensor>> {
    let io = |source| modelmix::Error::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut start = [0; 4];
    let read = file.read(&mut start).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    let tensors = if start.get(..read) == Some(b"PK\x03\x04") {
        archive::tensors(file, length)
    } else {
        legacy::tensors(file, length)
    };
    tensors.map_err(|problem| modelmix::Error::File { path: path.to_owned(), problem: problem.to_string() })
}

/// Where the storages of a file are: their bytes by key.
trait Storages {
    /// The first `length` bytes of the storage with this key.
    fn read(&mut self, key: &str, length: usize) -> Result<Vec<u8>, Problem>;

    /// Whether the file was written on a big-endian machine.
    fn big_endian(&self) -> bool;
}

/// Copies every view out of its storage. A storage is read once, and only one is in memory at a time.
fn materialise(
    views: BTreeMap<String, View>,
    storages: &mut dyn Storages,
    file_length: u64,
) -> Result<BTreeMap<String, Tensor>, Problem> {
    let elements = views.values().fold(0_u64, |sum, view| sum.saturating_add(view.count() as u64));
    let most = file_length.saturating_mul(ELEMENTS_PER_BYTE);
    if elements > most {
        return Err(Problem::new(format!(
            "its tensors have {elements} elements, which is too many for a file of {file_length} bytes; save the model's state_dict alone"
        )));
    }
    let mut by_storage: HashMap<Rc<str>, Vec<(String, View)>> = HashMap::new();
    for (name, view) in views {
        by_storage.entry(Rc::clone(&view.storage.key)).or_default().push((name, view));
    }
    let mut tensors = BTreeMap::new();
    for (key, views) in by_storage {
        let end = |view: &View| {
            let storage = &view.storage;
            storage.start.checked_add(storage.count).and_then(|end| end.checked_mul(storage.element.size()))
        };
        let length = views.iter().try_fold(0, |most, (_, view)| end(view).map(|end| most.max(end)));
        let length =
            length.ok_or_else(|| Problem::new("it has a storage whose size is too large; download it again"))?;
        let bytes = storages.read(&key, length)?;
        for (name, view) in views {
            let values = view.values(&bytes, storages.big_endian());
            tensors.insert(name, Tensor { shape: view.shape, values });
        }
    }
    Ok(tensors)
}

impl View {
    /// The elements of the view, whose storage has these bytes.
    fn values(&self, bytes: &[u8], big: bool) -> Values {
        match self.storage.element {
            Element::F32 => Values::Floats(self.gather(bytes, big, f32::from_le_bytes)),
            Element::F16 => Values::Floats(self.gather(bytes, big, |bytes| f16::from_le_bytes(bytes).to_f32())),
            Element::Bf16 => Values::Floats(self.gather(bytes, big, |bytes| bf16::from_le_bytes(bytes).to_f32())),
            Element::F64 => Values::Doubles(self.gather(bytes, big, f64::from_le_bytes)),
            Element::I64 => Values::Integers(self.gather(bytes, big, i64::from_le_bytes)),
            Element::I32 => Values::Integers(self.gather(bytes, big, |bytes| i32::from_le_bytes(bytes).into())),
            Element::I16 => Values::Integers(self.gather(bytes, big, |bytes| i16::from_le_bytes(bytes).into())),
            Element::I8 => Values::Integers(self.gather(bytes, big, |bytes| i8::from_le_bytes(bytes).into())),
            Element::U8 => Values::Integers(self.gather(bytes, big, |[byte]| byte.into())),
            Element::Bool => Values::Integers(self.gather(bytes, big, |[byte]| (byte != 0).into())),
        }
    }

    /// The elements in row-major order, each decoded from its bytes in little-endian order.
    fn gather<const SIZE: usize, T>(&self, bytes: &[u8], big: bool, decode: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
        let (elements, _) = bytes.as_chunks::<SIZE>();
        let elements = elements.get(self.storage.start..).unwrap_or_default();
        let decode = |index: usize| {
            let mut element = elements.get(index).copied().unwrap_or([0; SIZE]);
            if big {
                element.reverse();
            }
            decode(element)
        };
        let count = self.count();
        let mut values = Vec::with_capacity(count);
        let mut position = vec![0; self.shape.len()];
        let mut index = self.offset;
        while values.len() < count {
            values.push(decode(index));
            // The next position in row-major order: the last dimension counts fastest.
            for (axis, place) in position.iter_mut().enumerate().rev() {
                *place += 1;
                index = index.wrapping_add(self.strides[axis]);
                if *place < self.shape[axis] {
                    break;
                }
                index = index.wrapping_sub(self.strides[axis].wrapping_mul(self.shape[axis]));
                *place = 0;
            }
        }
        values
    }
}
