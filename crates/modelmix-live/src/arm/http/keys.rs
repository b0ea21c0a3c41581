//! References to keys: settings name variables of the environment, and a key in the file is dropped as it is read.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ureq::http::{HeaderName, HeaderValue};

use super::Environment;
use crate::secret::Secret;

/// What a reference to a variable starts with.
const PREFIX: &str = "env:";

/// What is written in place of a text that is not a reference.
const WITHHELD: &str = "[redacted]";

/// Parts of the names of headers whose values are secrets.
const SENSITIVE: [&str; 6] = ["auth", "key", "token", "secret", "cookie", "password"];

/// Headers that the client sets itself.
const RESERVED: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "accept-encoding"];

/// A key, as `env:NAME`: the variable of the environment that holds it. Any other text is dropped when it is read, so that a key
/// in the file cannot be printed; opening the arm refuses it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub struct KeyReference(Option<String>);

impl KeyReference {
    /// The variable that the reference names; `None` if the text was not a reference.
    pub fn variable(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The key. `what` is the setting, for messages.
    pub(super) fn read(&self, what: &str, environment: Environment<'_>) -> Result<Secret, String> {
        let Some(name) = &self.0 else {
            return Err(format!(
                "`{what}` has to name a variable of the environment, so that the key is not in the file; export the key and \
                 write \"{PREFIX}NAME\""
            ));
        };
        let text = environment(name)
            .ok_or_else(|| format!("the environment variable {name:?}, which `{what}` names, is not set; export it"))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!(
                "the environment variable {name:?}, which `{what}` names, is empty; export the key in it"
            ));
        }
        Ok(Secret::new(text))
    }
}

impl From<String> for KeyReference {
    fn from(text: String) -> Self {
        Self(variable(&text).map(str::to_owned))
    }
}

impl From<KeyReference> for String {
    fn from(reference: KeyReference) -> Self {
        reference.0.map_or_else(|| WITHHELD.to_owned(), |name| format!("{PREFIX}{name}"))
    }
}

impl fmt::Debug for KeyReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(self.clone()))
    }
}

/// The variable that a reference names.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix(PREFIX)?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(name)
}

/// Headers as a request takes them.
pub(super) type HeaderLines = Vec<(HeaderName, HeaderValue)>;

/// Headers of requests, whose values may be `env:NAME`. The value of a header such as `x-api-key` has to be; any other value of
/// it is dropped when it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
#[schemars(with = "BTreeMap<String, String>")]
pub struct Headers(BTreeMap<String, HeaderText>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum HeaderText {
    Text(String),
    Reference(KeyReference),
}

impl Headers {
    /// Whether one of them has a secret.
    pub(super) fn have_secrets(&self) -> bool {
        self.0.values().any(|text| matches!(text, HeaderText::Reference(_)))
    }

    /// The headers for requests, and the secrets among them.
    pub(super) fn read(&self, environment: Environment<'_>) -> Result<(HeaderLines, Vec<Secret>), String> {
        let (mut headers, mut secrets) = (Vec::new(), Vec::new());
        for (name, text) in &self.0 {
            let what = format!("headers.{name}");
            let header: HeaderName =
                name.parse().map_err(|_| format!("{name:?} is not the name of a header; correct it"))?;
            if RESERVED.contains(&header.as_str()) {
                return Err(format!("the header {name:?} is set by modelmix; leave it out"));
            }
            let value = match text {
                HeaderText::Text(text) => HeaderValue::from_str(text).map_err(|_| {
                    format!("the value {text:?} of `{what}` has characters that no header can have; correct it")
                })?,
                HeaderText::Reference(reference) => {
                    let secret = reference.read(&what, environment)?;
                    let value = header_value(secret.expose(), &what)?;
                    secrets.push(secret);
                    value
                }
            };
            headers.push((header, value));
        }
        Ok((headers, secrets))
    }
}

impl From<BTreeMap<String, String>> for Headers {
    fn from(headers: BTreeMap<String, String>) -> Self {
        let of_text = |name: &str, text: String| {
            let name = name.to_ascii_lowercase();
            let is_secret = text.starts_with(PREFIX) || SENSITIVE.iter().any(|part| name.contains(part));
            if is_secret { HeaderText::Reference(text.into()) } else { HeaderText::Text(text) }
        };
        Self(headers.into_iter().map(|(name, text)| (name.clone(), of_text(&name, text))).collect())
    }
}

impl From<Headers> for BTreeMap<String, String> {
    fn from(headers: Headers) -> Self {
        let text = |text| match text {
            HeaderText::Text(text) => text,
            HeaderText::Reference(reference) => reference.into(),
        };
        headers.0.into_iter().map(|(name, value)| (name, text(value))).collect()
    }
}

/// The value of a header with a secret: marked as sensitive, so that no log prints it.
pub(super) fn header_value(text: &str, what: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        format!("the key that `{what}` names has characters that no header can have; export it without line breaks")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
