//! Texts in JSON, one after the other, so that a document need not fit into memory twice.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A part of a JSON document of texts.
#[derive(Debug)]
pub enum Part {
    /// The name of an arm, whose texts follow.
    Arm(String),
    /// A text.
    Text(String),
}

/// Reads a JSON document of texts: an object with one list of texts per arm, or one list. A text is a string, or an
/// object with a string named `field`. Its parts are passed to `each`; a text before the first arm belongs to a list
/// without a name.
///
/// # Errors
/// If the document is something else or cannot be read, or if `each` fails, with its message.
pub fn document(
    reader: impl Read,
    field: &str,
    mut each: impl FnMut(Part) -> Result<(), String>,
) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    deserializer.deserialize_any(Document { field, each: &mut each })?;
    deserializer.end()
}

/// Reads a line of a `.jsonl` file: a string, or an object with a string named `field`.
///
/// # Errors
/// If the line is something else.
pub fn line(line: &str, field: &str) -> serde_json::Result<String> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let text = Text { field }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(text)
}

/// A text, alone or as a field of an object.
#[derive(Clone, Copy)]
struct Text<'a> {
    field: &'a str,
}

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text or an object with a text named {:?}", self.field)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_string())
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let mut text = None;
        while let Some(key) = map.next_key::<String>()? {
            if key != self.field {
                map.next_value::<IgnoredAny>()?;
            } else if text.replace(map.next_value::<String>()?).is_some() {
                return Err(A::Error::custom(format_args!("{:?} is there twice", self.field)));
            }
        }
        text.ok_or_else(|| A::Error::custom(format_args!("an object has no {:?}", self.field)))
    }
}

/// A list of texts, passed on one by one.
struct List<'a> {
    field: &'a str,
    each: &'a mut dyn FnMut(Part) -> Result<(), String>,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(text) = list.next_element_seed(Text { field: self.field })? {
            (self.each)(Part::Text(text)).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// The whole document, with the arms in order.
struct Document<'a> {
    field: &'a str,
    each: &'a mut dyn FnMut(Part) -> Result<(), String>,
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            (self.each)(Part::Arm(name)).map_err(A::Error::custom)?;
            map.next_value_seed(List { field: self.field, each: self.each })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        List { field: self.field, each: self.each }.visit_seq(list)
    }
}
