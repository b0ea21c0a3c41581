//! Texts of samples, for reports.

use std::fmt;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

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
                let read: Text = serde_json::from_str(line).map_err(|_| {
                    refused(format!(
                        "line {} is neither a text in quotes nor an object with a \"text\"; write one of them per line",
                        at + 1
                    ))
                })?;
                texts.push(read.text());
            }
            Ok(File::One(texts))
        }
        _ => match serde_json::from_str(text) {
            Ok(Document::Arms(arms)) => Ok(File::Arms(arms)),
            Ok(Document::One(texts)) => Ok(File::One(texts)),
            Err(error) => Err(refused(format!(
                "it is neither an object of lists of texts, as in {{\"arm\": [\"a text\"]}}, nor a list of texts ({}); write it as one",
                one_line(error)
            ))),
        },
    }
}

/// A text, alone or as a field of an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Object { text: String },
}

impl Text {
    fn text(self) -> String {
        match self {
            Text::Plain(text) | Text::Object { text } => text,
        }
    }
}

/// A JSON document of texts, with the arms in order.
enum Document {
    Arms(Vec<(String, Vec<String>)>),
    One(Vec<String>),
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut arms = Vec::new();
                while let Some((name, texts)) = map.next_entry::<String, Vec<Text>>()? {
                    arms.push((name, texts.into_iter().map(Text::text).collect()));
                }
                Ok(Document::Arms(arms))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Document, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element::<Text>()? {
                    texts.push(text.text());
                }
                Ok(Document::One(texts))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
