//! What a file of features says about itself: the encoder that made it, and the ids of its samples. Files without it are as
//! good as any; it is never required.
//!
//! An `.npz` file has it in the members `modelmix.json` and `modelmix-ids.json`, which NumPy returns as bytes. A
//! `.safetensors` file has the first as the entry `modelmix` of its metadata, the second as a tensor of bytes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::payload::Origin;
use super::{ArrayFile, one_line};
use crate::encoding::Encoding;
use crate::error::Result;

/// The member, or the entry of the metadata with the suffix removed, that states the encoding.
pub const ABOUT_FILE: &str = "modelmix.json";
/// The member or the tensor of ids.
pub const IDS_FILE: &str = "modelmix-ids.json";
/// The maximum size of the statement of an encoding.
pub(super) const LONGEST_ABOUT: u64 = 1 << 20;
/// The maximum size of the list of ids: millions of paths.
pub(super) const LONGEST_IDS: u64 = 1 << 30;

/// Whether an array with this name is a statement about the file, and not features.
pub(super) fn is_reserved(name: &str) -> bool {
    name == ABOUT_FILE || name == IDS_FILE
}

/// What a file of features says about itself. Unknown fields are ignored, so that later releases can add some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// How its features were made.
    pub encoding: Encoding,
}

impl About {
    pub(super) fn parse(text: &[u8], origin: &Origin<'_>) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| {
            let problem = one_line(error);
            origin.file(format!("{ABOUT_FILE} does not state an encoding ({problem}); write the file again"))
        })
    }
}

/// The ids of samples by array, one per row: relative paths of image files, or rows of a file of texts. `None` if the file
/// has none.
///
/// # Errors
/// If the file cannot be read, or if it has ids that are not lists of texts.
pub fn ids(path: impl AsRef<Path>) -> Result<Option<BTreeMap<String, Vec<String>>>> {
    let path = path.as_ref();
    let origin = Origin { path, array: None };
    let bytes = match ArrayFile::open(path)? {
        ArrayFile::Npz(mut file) => file.ids()?,
        ArrayFile::Safetensors(mut file) => file.ids()?,
        _ => None,
    };
    let Some(bytes) = bytes else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let problem = one_line(error);
        origin.file(format!("{IDS_FILE} is not an object of lists of ids ({problem}); write the file again"))
    })
}
