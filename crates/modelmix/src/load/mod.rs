//! Reads features from files: `.npy`, `.npz` and `.safetensors` with 16, 32 or 64-bit floats of either byte order, or with integers
//! that are exact in single precision; `.csv` and `.tsv` with or without a header; and, with the Cargo feature `parquet`, `.parquet`
//! with a column of lists of floats or with only float columns. [`pictures()`] and [`texts()`] read the samples themselves, for
//! reports.
//!
//! Headers are untrusted input: their claims are checked against the actual bytes before memory is allocated, nothing
//! is ever unpickled, and invalid input is rejected with a one-sentence message that states the fix.
//!
//! Arrays of 256 MiB and more in the layout of features (32-bit little-endian floats in C order, in `.npy` or
//! `.safetensors`) are memory-mapped instead of read, and may be larger than memory. Such a file must not be changed
//! while its features are in use.
//!
//! Data larger than memory is read in parts: [`shards()`] finds the row groups of `.parquet` files and ranges of rows of arrays,
//! and [`Shard::read`] passes their rows on in batches of bounded size.
//!
//! All other file access of the library is here too: text files such as experiments, and whether a file exists.

pub(crate) mod about;
mod csv;
mod mapped;
mod npy;
mod npz;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod payload;
mod pictures;
pub(crate) mod raw_arrays;
mod safetensors;
mod shards;
mod source;
pub(crate) mod texts;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use about::ids;
pub use pictures::{Encoded, Pictures, chosen_pictures, picture_names, pictures};
pub use shards::{Shard, ShardBatch, ShardColumns, shards};
pub use source::{ArmSource, arm_ids, arms};
pub use texts::texts;

use crate::error::{Error, Result};
use crate::features::Features;
use crate::text::nearest;
use csv::Csv;
use npy::Npy;
use npz::Npz;
#[cfg(feature = "parquet")]
use parquet::Parquet;
use safetensors::Safetensors;

/// The file types that features are read from, by extension in lower case.
const FEATURE_EXTENSIONS: [&str; 6] = ["npy", "npz", "safetensors", "csv", "tsv", "parquet"];

/// Reads one array: the only one in a file, or the one named `key`.
///
/// ```no_run
/// let reference = modelmix::load::features("reference.npy", None)?;
/// let flow = modelmix::load::features("specialists.npz", Some("flow"))?;
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If the file cannot be read or does not have the format of its extension, if a key is given for a file without names
/// or is missing for a file with several arrays, or if the array is not two-dimensional, not of floats, not finite, or
/// has fewer than two rows.
pub fn features(path: impl AsRef<Path>, key: Option<&str>) -> Result<Features> {
    let path = path.as_ref();
    let mut file = ArrayFile::open(path)?;
    let names = file.keys();
    let index = match (key, names) {
        (None, [_]) => 0,
        (None, _) => return Err(several_arrays_error(path, names)),
        (Some(key), _) => {
            if !file.has_names() {
                let problem = format!("the file holds one array without a name; leave out the name {key:?}");
                return Err(Error::File { path: path.into(), problem });
            }
            names
                .iter()
                .position(|name| name == key)
                .ok_or_else(|| Error::File { path: path.into(), problem: no_such_array(key, names) })?
        }
    };
    file.read(index)
}

/// Reads all arrays of a file with their names.
///
/// An `.npz` file contains one or more named arrays, in the order of the archive. So does a `.safetensors` file, in the
/// order of their names; if it has only one tensor, that is named after the file's stem. Any other file contains one
/// array, named after the file's stem.
///
/// # Errors
/// As [`features`]; also if a `.parquet` file has several columns of lists, which describe the same samples.
pub fn arrays(path: impl AsRef<Path>) -> Result<Vec<(String, Features)>> {
    let path = path.as_ref();
    let mut file = ArrayFile::open(path)?;
    let names = match &file {
        ArrayFile::Safetensors(one) if one.names.len() == 1 => vec![stem(path)],
        #[cfg(feature = "parquet")]
        ArrayFile::Parquet(one) if one.names.len() == 1 => vec![stem(path)],
        #[cfg(feature = "parquet")]
        ArrayFile::Parquet(many) => return Err(several_arrays_error(path, &many.names)),
        _ => file.keys().to_vec(),
    };
    names.into_iter().enumerate().map(|(index, name)| Ok((name, file.read(index)?))).collect()
}

/// The maximum size of a text file. Experiments are far smaller.
const LONGEST_TEXT: u64 = 1 << 20;

/// Reads a small text file, such as an experiment.
///
/// # Errors
/// If the file cannot be read, is not a regular file, is larger than 1 MiB, or is not UTF-8.
pub fn text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let io = |source| Error::Io { path: path.into(), source };
    let refused = |problem: &str| Error::File { path: path.into(), problem: problem.into() };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(refused("this is not a regular file; give a text file"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(LONGEST_TEXT + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > LONGEST_TEXT {
        return Err(refused("this is larger than 1 MiB; give a text file"));
    }
    String::from_utf8(bytes).map_err(|_| refused("this is not UTF-8; save it as text"))
}

/// Whether a file or folder exists at `path`.
pub fn is_there(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}

/// An open file whose table of arrays was read and checked, but not the arrays themselves.
enum ArrayFile {
    Npy(Npy),
    Npz(Npz),
    Safetensors(Safetensors),
    Csv(Csv),
    #[cfg(feature = "parquet")]
    Parquet(Parquet),
}

impl ArrayFile {
    fn open(path: &Path) -> Result<Self> {
        let refused = |problem: String| Error::File { path: path.into(), problem };
        let supported = FEATURE_EXTENSIONS.map(|extension| format!(".{extension}")).join(", ");

        let (file, length) = open(path, &supported)?;
        let extension = extension(path);
        if !FEATURE_EXTENSIONS.contains(&extension.as_str()) {
            let torch = ["pt", "pth", "ckpt"].contains(&extension.as_str());
            return Err(refused(match torch {
                true => "PyTorch files are not read; save the tensor once, as in \
                         numpy.save(\"features.npy\", torch.load(path, weights_only=True).float().cpu().numpy()), or write a \
                         .safetensors file"
                    .into(),
                false => format!("the file type is not known; give a file of type {supported}"),
            }));
        }
        if length == 0 {
            return Err(refused("the file is empty; write or copy it again".into()));
        }

        let file = match extension.as_str() {
            "npy" => ArrayFile::Npy(Npy::open(path, file, length)),
            "npz" => ArrayFile::Npz(Npz::open(path, file, length)?),
            "csv" => ArrayFile::Csv(Csv::open(path, file, b',')),
            "tsv" => ArrayFile::Csv(Csv::open(path, file, b'\t')),
            #[cfg(feature = "parquet")]
            "parquet" => ArrayFile::Parquet(Parquet::open(path, file, length)?),
            #[cfg(not(feature = "parquet"))]
            "parquet" => return Err(without_parquet(path)),
            _ => ArrayFile::Safetensors(Safetensors::open(path, file, length)?),
        };
        check_names(path, file.keys())?;
        Ok(file)
    }

    /// The names of the arrays, in the order of [`ArrayFile::read`]; never empty.
    fn keys(&self) -> &[String] {
        match self {
            ArrayFile::Npy(file) => std::slice::from_ref(&file.name),
            ArrayFile::Npz(file) => &file.names,
            ArrayFile::Safetensors(file) => &file.names,
            ArrayFile::Csv(file) => std::slice::from_ref(&file.name),
            #[cfg(feature = "parquet")]
            ArrayFile::Parquet(file) => &file.names,
        }
    }

    /// Whether its arrays have names in the file.
    fn has_names(&self) -> bool {
        match self {
            ArrayFile::Npz(_) | ArrayFile::Safetensors(_) => true,
            ArrayFile::Npy(_) | ArrayFile::Csv(_) => false,
            #[cfg(feature = "parquet")]
            ArrayFile::Parquet(file) => file.lists,
        }
    }

    fn read(&mut self, index: usize) -> Result<Features> {
        match self {
            ArrayFile::Npy(file) => file.read(),
            ArrayFile::Npz(file) => file.read(index),
            ArrayFile::Safetensors(file) => file.read(index),
            ArrayFile::Csv(file) => file.read(),
            #[cfg(feature = "parquet")]
            ArrayFile::Parquet(file) => file.read(index),
        }
    }
}

/// The error for a `.parquet` file in a build that does not read it.
#[cfg(not(feature = "parquet"))]
fn without_parquet(path: &Path) -> Error {
    let remedy = "add --features parquet, or save the features as .npy";
    Error::File { path: path.into(), problem: format!(".parquet needs a build with the parquet feature; {remedy}") }
}

/// Opens a file of one of the `supported` types; also returns its length.
fn open(path: &Path, supported: &str) -> Result<(File, u64)> {
    let io = |source| Error::Io { path: path.into(), source };
    let refused = |problem: String| Error::File { path: path.into(), problem };

    // Checked before the file is opened, because opening a pipe would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if metadata.is_dir() {
        return Err(refused(format!("this is a directory; give a file of type {supported}")));
    }
    if !metadata.is_file() {
        return Err(refused(format!("this is not a regular file; give a file of type {supported}")));
    }
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    Ok((file, length))
}

/// Rejects names that cannot be typed, and files without arrays.
fn check_names(path: &Path, names: &[String]) -> Result<()> {
    let refused = |problem: String| Error::File { path: path.into(), problem };
    if names.is_empty() {
        return Err(refused("the file holds no arrays; save at least one".into()));
    }
    match names.iter().find(|name| name.is_empty() || name.chars().any(char::is_control)) {
        Some(name) => Err(refused(format!("{name:?} is not a valid array name; use printable characters"))),
        None => Ok(()),
    }
}

/// The error for a file with several arrays if only one is needed.
fn several_arrays_error(path: &Path, names: &[String]) -> Error {
    let problem = format!(
        "it holds {} arrays ({}); pick one by its name, as in {}:{}",
        names.len(),
        listed(names),
        path.display(),
        names[0]
    );
    Error::File { path: path.into(), problem }
}

/// The file's extension in lower case.
fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// The file's name without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The message that no array has this name, with the names that exist.
fn no_such_array(key: &str, names: &[String]) -> String {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = nearest(key, &known).map_or(String::new(), |near| format!(" (did you mean {near:?}?)"));
    format!("there is no array named {key:?}{hint}; pick one of {}", listed(names))
}

/// Names for a message, shortened if there are many.
fn listed(names: &[String]) -> String {
    const MAX_LISTED_NAMES: usize = 20;
    let shown = names.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED_NAMES { format!("{shown} and {} more", names.len() - MAX_LISTED_NAMES) } else { shown }
}

/// The message of another crate on one line of bounded length, because it may quote a forged file.
fn one_line(words: impl ToString) -> String {
    words.to_string().chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
