//! Answers that are errors: what their status and their body say.

use std::io::Read;

use serde_json::Value;
use ureq::Body;
use ureq::http::{Response, StatusCode, Uri};

use super::Client;
use crate::arm::http::date::retry_after;
use crate::arm::{Failure, FailureKind};

/// Bytes of an error's body that are read.
const MOST: u64 = 64 << 10;

/// Codes of errors that are refusals, as OpenAI and Azure send them with status 400.
const REFUSALS: [&str; 5] = [
    "content_filter",
    "content_policy_violation",
    "moderation_blocked",
    "ResponsibleAIPolicyViolation",
    "sensitive_content",
];

impl Client {
    /// The failure of an answer whose status is not success. Such an answer is not charged.
    pub(super) fn of_status(&self, uri: &Uri, response: &mut Response<Body>) -> Failure {
        let status = response.status();
        let mut bytes = Vec::new();
        // As much as arrives: the status is known, and the message is a courtesy.
        let _ = response.body_mut().as_reader().take(MOST).read_to_end(&mut bytes);
        let json = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&bytes)));
        let said = match message(&json).map(|text| self.excerpt(text)) {
            Some(text) if !text.is_empty() => format!(": {text}"),
            _ => String::new(),
        };
        let host = uri.authority().map_or("", |authority| authority.as_str());
        if status.is_redirection() {
            let to = response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            let to = self.excerpt(to);
            let problem =
                format!("{host} redirects ({status}) to {to}, which is not followed; set the address to the final one");
            return Failure { status: Some(status.as_u16()), ..self.failure(FailureKind::Error, &problem) };
        }
        let is_temporary = is_temporary(status);
        let is_refusal = status.is_client_error() && !is_temporary && is_refusal(&json);
        let kind = if is_refusal { FailureKind::Refusal } else { FailureKind::Error };
        let fix = match status.as_u16() {
            401 | 403 if !is_refusal && self.secrets.is_empty() => "; name the key in `key`",
            401 | 403 if !is_refusal => "; check the key",
            404 => "; check the address and the model",
            _ => "",
        };
        Failure {
            status: Some(status.as_u16()),
            is_temporary,
            retry_after: is_temporary.then(|| retry_after(response.headers())).flatten(),
            ..self.failure(kind, &format!("{host} answers {status}{said}{fix}"))
        }
    }
}

/// Whether another attempt may succeed.
fn is_temporary(status: StatusCode) -> bool {
    matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) || status.is_server_error()
}

/// The message of an error, in the forms that servers use.
pub(in crate::arm::http) fn message(json: &Value) -> Option<&str> {
    let pointers = ["/error/message", "/error", "/message", "/detail", "/detail/0/msg", ""];
    pointers.iter().find_map(|pointer| json.pointer(pointer)?.as_str())
}

/// Whether an error says that the request was refused for its content.
fn is_refusal(json: &Value) -> bool {
    let pointers = ["/error/code", "/error/type", "/error/innererror/code", "/code"];
    pointers.iter().filter_map(|pointer| json.pointer(pointer)?.as_str()).any(|code| REFUSALS.contains(&code))
}
