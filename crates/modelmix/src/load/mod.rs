//! Features from `.npy`, `.npz` and `.safetensors` files, in 16, 32 or 64-bit floats of either order.
//! No header is trusted: what it claims is checked against the bytes that are there before anything is allocated for
//! it, nothing is ever unpickled, and whatever does not fit is refused in one sentence with its remedy.
//!
//! Arrays of 256 MiB and more that are stored as features are kept (32-bit little-endian floats in C order, in `.npy` or
//! `.safetensors`) are mapped into memory instead of read, and may be larger than it. Such a file must not be changed while
//! its features are in use.

mod mapped;
mod npy;
mod npz;
mod payload;
mod safetensors;
mod source;

use std::fs::File;
use std::path::Path;

pub use source::{ArmSource, arms};

use crate::error::{Error, Result};
use crate::features::Features;
use npy::Npy;
use npz::Npz;
use safetensors::Safetensors;

/// The file types this module reads, by extension in lower case.
const EXTENSIONS: [&str; 3] = ["npy", "npz", "safetensors"];

/// Reads one array: the only one of a file, or the one that `key` names.
///
/// ```no_run
/// let reference = modelmix::load::features("reference.npy", None)?;
/// let flow = modelmix::load::features("specialists.npz", Some("flow"))?;
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be read or is not what its name promises; a key where there is nothing to pick, or none where
/// there is; an array that is not two-dimensional, not of floats, not finite, or has fewer than two rows.
pub fn features(path: impl AsRef<Path>, key: Option<&str>) -> Result<Features> {
    let path = path.as_ref();
    let mut file = ArrayFile::open(path)?;
    let names = file.keys();
    let index = match (key, names) {
        (None, [_]) => 0,
        (None, _) => {
            let problem = format!(
                "it holds {} arrays ({}); pick one by its name, as in {}:{}",
                names.len(),
                listed(names),
                path.display(),
                names[0]
            );
            return Err(Error::File { path: path.into(), problem });
        }
        (Some(key), _) => {
            if let ArrayFile::Npy(_) = file {
                let problem = format!("a .npy file holds one array without a name; leave out the name {key:?}");
                return Err(Error::File { path: path.into(), problem });
            }
            names.iter().position(|name| name == key).ok_or_else(|| Error::File {
                path: path.into(),
                problem: format!("there is no array named {key:?}; pick one of {}", listed(names)),
            })?
        }
    };
    file.read(index)
}

/// Reads all arrays of a file with their names.
///
/// A `.npy` file holds one, named by the file's stem. An `.npz` gives one an array, in the order of the archive. So does
/// a `.safetensors` file, in the order of their names; its only tensor is named by the file's stem.
///
/// # Errors
/// As [`features`].
pub fn arrays(path: impl AsRef<Path>) -> Result<Vec<(String, Features)>> {
    let path = path.as_ref();
    let mut file = ArrayFile::open(path)?;
    let names = match &file {
        ArrayFile::Safetensors(one) if one.names.len() == 1 => vec![stem(path)],
        _ => file.keys().to_vec(),
    };
    names.into_iter().enumerate().map(|(index, name)| Ok((name, file.read(index)?))).collect()
}

/// An opened file whose table of arrays was read and checked, and whose arrays were not read yet.
enum ArrayFile {
    Npy(Npy),
    Npz(Npz),
    Safetensors(Safetensors),
}

impl ArrayFile {
    fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { path: path.into(), source };
        let refused = |problem: String| Error::File { path: path.into(), problem };
        let supported = EXTENSIONS.map(|extension| format!(".{extension}")).join(", ");

        // Looked at before it is opened, since opening a pipe would wait for whoever writes to it.
        let metadata = std::fs::metadata(path).map_err(io)?;
        if metadata.is_dir() {
            return Err(refused(format!("this is a directory; give a file of type {supported}")));
        }
        if !metadata.is_file() {
            return Err(refused(format!("this is not a regular file; give a file of type {supported}")));
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if !EXTENSIONS.contains(&extension.as_str()) {
            return Err(refused(format!("the file type is not known; give a file of type {supported}")));
        }
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        if length == 0 {
            return Err(refused("the file is empty; write or copy it again".into()));
        }

        let file = match extension.as_str() {
            "npy" => ArrayFile::Npy(Npy::open(path, file, length)),
            "npz" => ArrayFile::Npz(Npz::open(path, file, length)?),
            _ => ArrayFile::Safetensors(Safetensors::open(path, file, length)?),
        };
        let names = file.keys();
        if names.is_empty() {
            return Err(refused("the file holds no arrays; save at least one".into()));
        }
        if let Some(name) = names.iter().find(|name| name.is_empty() || name.chars().any(char::is_control)) {
            return Err(refused(format!("{name:?} is no name for an array; save it under a printable one")));
        }
        Ok(file)
    }

    /// The names that pick an array, in the order of [`ArrayFile::read`]; never none.
    fn keys(&self) -> &[String] {
        match self {
            ArrayFile::Npy(file) => std::slice::from_ref(&file.name),
            ArrayFile::Npz(file) => &file.names,
            ArrayFile::Safetensors(file) => &file.names,
        }
    }

    fn read(&mut self, index: usize) -> Result<Features> {
        match self {
            ArrayFile::Npy(file) => file.read(),
            ArrayFile::Npz(file) => file.read(index),
            ArrayFile::Safetensors(file) => file.read(index),
        }
    }
}

/// The file's name without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Names for a message, cut short where there are many.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// Another crate's words on one line of bounded length, since they may quote what a forged file says.
fn one_line(words: impl ToString) -> String {
    words.to_string().chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
