//! Texts of samples, for reports.

pub(crate) mod json;

use std::io::Read;
use std::path::Path;

use self::json::Part;
use super::source::{self, ArmSource};
use super::{extension, one_line, open, stem};
use crate::error::{Error, Result};

/// The maximum size of a file: hundreds of thousands of passages.
const LARGEST_FILE: u64 = 256 << 20;

/// Reads the first `most` texts (at least one) of each arm in `sources`, in the order of the rows of its features.
///
/// A `.json` file contains an object with one list of texts per arm, or one list. A `.jsonl` or `.txt` file contains
/// one text per line. A text in JSON is a string, or an object with a string named `text`. Names and keys are as for
/// arms.
///
/// # Errors
/// If a file cannot be read, is larger than 256 MiB, contains something else or no texts, or if two arms have the same
/// name.
pub fn texts(sources: &[ArmSource], most: usize) -> Result<Vec<(String, Vec<String>)>> {
    let mut arms: Vec<(String, Vec<String>)> = Vec::new();
    for ArmSource { name, path, key } in sources {
        match (read(path)?, key) {
            (File::Arms(mut read), _) => {
                let names: Vec<String> = read.iter().map(|(name, _)| name.clone()).collect();
                for (index, name) in source::picked(name, path, key, &names)? {
                    arms.push((name, std::mem::take(&mut read[index].1)));
                }
            }
            (File::One(_), Some(key)) => {
                let problem = format!("its texts are one arm without a name; leave out the name {key:?}");
                return Err(Error::File { path: path.clone(), problem });
            }
            (File::One(read), None) => arms.push((name.clone().unwrap_or_else(|| stem(path)), read)),
        }
    }
    if let Some((name, _)) = arms.iter().find(|(_, texts)| texts.is_empty()) {
        let problem = "there are no texts; give at least one".into();
        return Err(Error::Array { origin: format!("arm {}", one_line(name)), problem });
    }
    source::distinct(&arms)?;
    arms.iter_mut().for_each(|(_, texts)| texts.truncate(most.max(1)));
    Ok(arms)
}

/// The field of an object that is its text.
const FIELD: &str = "text";

/// The contents of a file.
enum File {
    Arms(Vec<(String, Vec<String>)>),
    One(Vec<String>),
}

fn read(path: &Path) -> Result<File> {
    let refused = |problem: String| Error::File { path: path.into(), problem };
    let supported = ".json, .jsonl or .txt";
    let (file, length) = open(path, supported)?;
    let extension = extension(path);
    if !["json", "jsonl", "txt"].contains(&extension.as_str()) {
        return Err(refused(format!("the file type is not known; texts come from {supported}")));
    }
    if length > LARGEST_FILE {
        return Err(refused(format!(
            "{length} bytes are more than the {LARGEST_FILE} allowed; give the first few hundred texts"
        )));
    }
    let mut bytes = Vec::new();
    let io = |source| Error::Io { path: path.into(), source };
    file.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(io)?;
    let text = str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
        refused(format!("line {line} is not UTF-8; save the texts as UTF-8"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match extension.as_str() {
        "txt" => Ok(File::One(text.lines().map(str::to_string).collect())),
        "jsonl" => {
            let mut texts = Vec::new();
            for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let read = json::line(line, FIELD).map_err(|_| {
                    refused(format!(
                        "line {} is neither a text in quotes nor an object with a \"text\"; write one of them per line",
                        at + 1
                    ))
                })?;
                texts.push(read);
            }
            Ok(File::One(texts))
        }
        _ => match document(text) {
            Ok(file) => Ok(file),
            Err(error) => Err(refused(format!(
                "it is neither an object of lists of texts, as in {{\"arm\": [\"a text\"]}}, nor a list of texts ({}); write it as one",
                one_line(error)
            ))),
        },
    }
}

/// The contents of a JSON document.
fn document(text: &str) -> serde_json::Result<File> {
    let (mut arms, mut one): (Vec<(String, Vec<String>)>, Vec<String>) = Default::default();
    json::document(text.as_bytes(), FIELD, |part| {
        match (part, arms.last_mut()) {
            (Part::Arm(name), _) => arms.push((name, Vec::new())),
            (Part::Text(text), Some((_, texts))) => texts.push(text),
            (Part::Text(text), None) => one.push(text),
        }
        Ok(())
    })?;
    Ok(if text.trim_start().starts_with('{') { File::Arms(arms) } else { File::One(one) })
}
