//! Sources of arms: the text that a user types for each file, and the arms in that file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{
    ArrayFile, FEATURE_EXTENSIONS, arrays, check_names, extension, features, ids, no_such_array, one_line, stem,
};
use crate::arms::{RecordedArm, RecordedArms};
use crate::error::{Error, Result};

/// A source of arms, as typed by a user: `[name=]path[:key]`.
///
/// In an `.npz` or `.safetensors` file each array is one arm, named as in [`arrays`]; any other file is one arm named
/// after its stem. `name=path` names the only arm of a file. `path:key` picks one array, and the arm is named after its
/// key. In a `.parquet` file the key picks a column, and the arm keeps the file's stem as its name.
///
/// A `:` starts a key only after a supported extension, so drive letters stay part of the path. Text before `=` is a
/// name only if it has no slash. A path that exists as written is always taken as the path, even with `=` or `:` in it;
/// parsing accesses the file system only for this check.
///
/// ```
/// use modelmix::load::ArmSource;
/// let source: ArmSource = "flow=specialists.npz:model_3".parse()?;
/// assert_eq!(source.name.as_deref(), Some("flow"));
/// assert_eq!(source.path.to_str(), Some("specialists.npz"));
/// assert_eq!(source.key.as_deref(), Some("model_3"));
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmSource {
    /// The name of the arm; `None` to name it after the array or the file.
    pub name: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// The array to pick; `None` for all.
    pub key: Option<String>,
}

impl FromStr for ArmSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::within(Path::new(""), text)
    }
}

impl ArmSource {
    /// Parses the text as [`FromStr`] does, with relative paths resolved against `folder`.
    ///
    /// # Errors
    /// If the name, path or key is empty.
    pub fn within(folder: &Path, text: &str) -> Result<Self> {
        let exists = |path: &str| folder.join(path).exists();
        let source = |name: Option<&str>, path: &str, key: Option<&str>| ArmSource {
            name: name.map(str::to_string),
            path: folder.join(path),
            key: key.map(str::to_string),
        };
        let unread = |before: &str, problem: &str| Error::Parse {
            text: text.to_string(),
            at: before.chars().count() + 1,
            problem: problem.to_string(),
        };

        if exists(text) {
            return Ok(source(None, text, None));
        }
        if let (path, Some(key)) = split_key(text)
            && !key.is_empty()
            && exists(path)
        {
            return Ok(source(None, path, Some(key)));
        }
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains(['/', '\\']) => (Some(name), rest),
            _ => (None, text),
        };
        if name == Some("") {
            return Err(unread("", "there is no name before '='; write name=path, or only the path"));
        }
        if rest.is_empty() {
            return Err(unread(text, "there is no path; write [name=]path[:key]"));
        }
        if exists(rest) {
            return Ok(source(name, rest, None));
        }
        let (path, key) = split_key(rest);
        if key == Some("") {
            return Err(unread(text, "there is no array name after ':'; write path:key, or only the path"));
        }
        Ok(source(name, path, key))
    }

    /// The name of the arm, if it is known without reading the file.
    pub(crate) fn known_name(&self) -> Option<String> {
        match (&self.name, &self.key, extension(&self.path).as_str()) {
            (Some(name), ..) => Some(name.clone()),
            (None, Some(_), "parquet") | (None, None, "npy" | "csv") => Some(stem(&self.path)),
            (None, key, _) => key.clone(),
        }
    }
}

/// The extensions of text files, which name arms in the same way.
const TEXT_EXTENSIONS: [&str; 3] = ["json", "jsonl", "txt"];

/// Splits at the first `:` after a supported extension.
fn split_key(text: &str) -> (&str, Option<&str>) {
    for (at, _) in text.match_indices(':') {
        let (path, key) = (&text[..at], &text[at + 1..]);
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        if FEATURE_EXTENSIONS.iter().chain(&TEXT_EXTENSIONS).any(|supported| extension.eq_ignore_ascii_case(supported))
        {
            return (path, Some(key));
        }
    }
    (text, None)
}

/// Reads all arms of `sources`, in their order.
///
/// # Errors
/// As [`features`]; also if one name is given for a file of several arms, and as [`RecordedArms::new`]: if two arms
/// have the same name or different widths.
pub fn arms(sources: &[ArmSource]) -> Result<RecordedArms> {
    let mut arms = Vec::new();
    for ArmSource { name, path, key } in sources {
        match (name, key) {
            (_, Some(key)) => {
                let column = (extension(path) == "parquet").then(|| stem(path));
                let name = name.as_ref().or(column.as_ref()).unwrap_or(key);
                arms.push(RecordedArm::new(name, features(path, Some(key))?));
            }
            (Some(name), None) => {
                let mut file = ArrayFile::open(path)?;
                let keys = file.keys();
                if keys.len() > 1 {
                    let problem = several_named(name, path, keys);
                    return Err(Error::File { path: path.clone(), problem });
                }
                arms.push(RecordedArm::new(name, file.read(0)?));
            }
            (None, None) => {
                arms.extend(arrays(path)?.into_iter().map(|(name, features)| RecordedArm::new(name, features)));
            }
        }
    }
    RecordedArms::new(arms)
}

/// The ids of the samples of each arm of `sources`, one per row, for arms whose file states them: see [`ids`].
///
/// # Errors
/// As [`ids`].
pub fn arm_ids(sources: &[ArmSource]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found = BTreeMap::new();
    for ArmSource { name, path, key } in sources {
        let Some(mut by_array) = ids(path)? else { continue };
        match (name, key) {
            (_, Some(key)) => {
                found.extend(by_array.remove(key).map(|ids| (name.as_ref().unwrap_or(key).clone(), ids)));
            }
            (Some(name), None) => found.extend(by_array.into_values().take(1).map(|ids| (name.clone(), ids))),
            (None, None) => found.append(&mut by_array),
        }
    }
    Ok(found)
}

/// The error for a name given to a file of several arrays.
fn several_named(name: &str, path: &Path, keys: &[String]) -> String {
    format!(
        "it holds {} arrays, so {name} cannot name them all; pick one, as in {name}={}:{}, or leave out the name",
        keys.len(),
        path.display(),
        keys[0]
    )
}

/// The arrays, or lists of texts, of a file that are arms: their indices and the names of the arms.
pub(super) fn picked(
    name: &Option<String>,
    path: &Path,
    key: &Option<String>,
    names: &[String],
) -> Result<Vec<(usize, String)>> {
    check_names(path, names)?;
    let refused = |problem: String| Error::File { path: path.into(), problem };
    match (name, key) {
        (_, Some(key)) => {
            let index =
                names.iter().position(|other| other == key).ok_or_else(|| refused(no_such_array(key, names)))?;
            Ok(vec![(index, name.as_ref().unwrap_or(key).clone())])
        }
        (Some(name), None) if names.len() == 1 => Ok(vec![(0, name.clone())]),
        (Some(name), None) => Err(refused(several_named(name, path, names))),
        (None, None) => Ok(names.iter().cloned().enumerate().collect()),
    }
}

/// Rejects arms with the same name.
pub(super) fn distinct<T>(arms: &[(String, T)]) -> Result<()> {
    let mut names: Vec<&str> = arms.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::Array {
            origin: format!("arm {}", one_line(pair[0])),
            problem: "two arms have this name; rename one of them".into(),
        }),
        None => Ok(()),
    }
}
