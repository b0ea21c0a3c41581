//! Secrets: API keys that are read from the environment and appear nowhere else.

use std::fmt;
use std::sync::Arc;

/// What replaces a secret in a text.
const REDACTED: &str = "[redacted]";

/// Texts shorter than this are not redacted: they would occur by accident.
const SHORTEST: usize = 6;

/// A secret. It is not printed, compared or serialised; [`Secret::expose`] is the only way to its text.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A secret with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Its text, for a header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text with every occurrence of the secret replaced, also where it is escaped for JSON or a URL.
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < SHORTEST {
            return text.to_owned();
        }
        let json = serde_json::Value::from(&*self.0).to_string();
        let escaped: String = self.0.bytes().map(percent_encoded).collect();
        let forms = [&*self.0, &json[1..json.len() - 1], &escaped];
        forms.iter().fold(text.to_owned(), |text, form| text.replace(form, REDACTED))
    }
}

/// A byte as in the query of a URL.
fn percent_encoded(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// The text with every secret replaced.
pub fn redact(secrets: &[Secret], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text))
}

#[cfg(test)]
mod tests {
    use super::{Secret, redact};

    #[test]
    fn every_form_of_a_secret_is_replaced() {
        let secret = Secret::new("sk-a\"b/c+d");
        let text = r#"Bearer sk-a"b/c+d, {"key": "sk-a\"b/c+d"}, ?key=sk-a%22b%2Fc%2Bd"#;
        let redacted = redact(std::slice::from_ref(&secret), text);
        assert_eq!(redacted, r#"Bearer [redacted], {"key": "[redacted]"}, ?key=[redacted]"#);
        assert_eq!(format!("{secret:?}"), "[redacted]");
    }

    #[test]
    fn short_texts_stay() {
        assert_eq!(Secret::new("a").redact("a banana"), "a banana");
        assert_eq!(Secret::new("").redact("a banana"), "a banana");
    }
}
