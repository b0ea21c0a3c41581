//! Arrays of any element type as bytes, for the crates of this repository that read more than features: their headers,
//! where they are in the file if they are stored as they are, and their bytes.

use std::io::Read;
use std::path::Path;

use super::npy::{self, Npy, Size};
use super::npz::Npz;
use super::payload::Origin;
use super::{extension, open, source};
use crate::error::{Error, Result};

/// The number of bytes read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// An open `.npy` or `.npz` file.
pub struct RawArrays(Kind);

enum Kind {
    Npy(Npy),
    Npz(Npz),
}

/// The header of an array, and where its elements are. The number of bytes agrees with the shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawArray {
    /// NumPy's name of the element type, as `|u1`.
    pub element: String,
    /// Whether the elements are in Fortran order.
    pub fortran: bool,
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The position of the first element in the file; `None` if the array is compressed.
    pub start: Option<u64>,
}

impl RawArrays {
    /// Opens a file and reads its table of arrays.
    ///
    /// # Errors
    /// If the file cannot be read, or is neither `.npy` nor `.npz`.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, length) = open(path, ".npy or .npz")?;
        Ok(Self(match extension(path).as_str() {
            "npy" => Kind::Npy(Npy::open(path, file, length)),
            "npz" => Kind::Npz(Npz::open(path, file, length)?),
            _ => {
                let problem = "the file type is not known; give a file of type .npy or .npz".into();
                return Err(Error::File { path: path.into(), problem });
            }
        }))
    }

    /// The names of the arrays, in the order of the file; the stem of an `.npy` file.
    pub fn names(&self) -> &[String] {
        match &self.0 {
            Kind::Npy(file) => std::slice::from_ref(&file.name),
            Kind::Npz(file) => &file.names,
        }
    }

    /// The arrays that a key picks: their indices and names.
    ///
    /// # Errors
    /// If no array has this name, or the file has no names.
    pub fn picked(&self, path: &Path, key: Option<&str>) -> Result<Vec<(usize, String)>> {
        if let (Kind::Npy(_), Some(key)) = (&self.0, key) {
            let problem = format!("the file holds one array without a name; leave out the name {key:?}");
            return Err(Error::File { path: path.into(), problem });
        }
        source::picked(&None, path, &key.map(str::to_string), self.names())
    }

    /// Reads the header of an array.
    ///
    /// # Errors
    /// If it is damaged, or the number of bytes does not agree with the shape.
    pub fn header(&mut self, index: usize) -> Result<RawArray> {
        let stored_at = match &mut self.0 {
            Kind::Npy(_) => Some(0),
            Kind::Npz(file) => file.stored_at(index)?,
        };
        self.with(index, |reader, size, origin| described(reader, size, stored_at, origin))
    }

    /// Reads the elements of an array.
    ///
    /// # Errors
    /// If the file is damaged, or the array does not fit into memory.
    pub fn bytes(&mut self, index: usize) -> Result<Vec<u8>> {
        self.with(index, |mut reader, size, origin| {
            let (_, used) = npy::described(&mut reader, size.available, origin)?;
            let total = usize::try_from(size.available - used).unwrap_or(usize::MAX);
            let mut bytes: Vec<u8> = Vec::new();
            while bytes.len() < total {
                let (start, more) = (bytes.len(), CHUNK_BYTES.min(total - bytes.len()));
                if bytes.capacity() - start < more {
                    // Compressed bytes may claim more than they hold, so memory grows with what was read.
                    let room = start.max(size.at_once).max(more).min(total - start);
                    let full = |_| origin.array(format!("{total} bytes do not fit into memory; save fewer rows"));
                    bytes.try_reserve_exact(room).map_err(full)?;
                }
                bytes.resize(start + more, 0);
                reader.read_exact(&mut bytes[start..]).map_err(|error| origin.io(error))?;
            }
            Ok(bytes)
        })
    }

    fn with<T>(&mut self, index: usize, read: impl FnOnce(&mut dyn Read, Size, &Origin<'_>) -> Result<T>) -> Result<T> {
        match &mut self.0 {
            Kind::Npy(file) => file.with(read),
            Kind::Npz(file) => file.with(index, read),
        }
    }
}

fn described(mut reader: &mut dyn Read, size: Size, stored_at: Option<u64>, origin: &Origin<'_>) -> Result<RawArray> {
    let (header, used) = npy::described(&mut reader, size.available, origin)?;
    let bytes: u64 = header.element.get(2..).and_then(|size| size.parse().ok()).unwrap_or(0);
    let claimed = header.shape.iter().try_fold(bytes, |product, side| product.checked_mul(*side));
    let follow = size.available - used;
    // The size of a type without a plain one, as of texts, is not checked; such arrays are not read.
    if bytes > 0 && !matches!(header.element.as_bytes().get(1), Some(b'U')) && claimed != Some(follow) {
        let shape = super::one_line(format!("{:?}", header.shape));
        return Err(origin.file(format!(
            "the header claims the shape {shape} of '{}', but {follow} bytes follow it; write or copy the file again",
            super::one_line(&header.element)
        )));
    }
    let start = stored_at.map(|at| at + used);
    Ok(RawArray { element: header.element, fortran: header.fortran, shape: header.shape, start })
}
