//! Settings that all kinds share: time limits, sizes, and the checks of numbers and of parameters.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::keys::{Headers, KeyReference};
use crate::units::{Size, Span};

/// The longest time limit.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The text that stands for the prompt.
pub(super) const PROMPT: &str = "{prompt}";

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// The time to find the host, and again to connect to it; 10s by default.
    pub connect: Span,
    /// The time from the end of the request to the end of the answer's headers; 2min by default.
    pub first_byte: Span,
    /// The time from the start of the request to the end of the answer, however slowly it arrives; 5min by default.
    pub total: Span,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |seconds| Span(Duration::from_secs(seconds));
        Self { connect: seconds(10), first_byte: seconds(120), total: seconds(300) }
    }
}

impl Timeouts {
    /// The limits `connect`, `first_byte` and `total`.
    pub(super) fn check(&self) -> Result<[Duration; 3], String> {
        let limit = |name: &str, span: Span| {
            let is_limit = !span.0.is_zero() && span.0 <= LONGEST;
            is_limit.then_some(span.0).ok_or_else(|| format!("`timeouts.{name}` is {span}; set it to at most 1d"))
        };
        Ok([limit("connect", self.connect)?, limit("first_byte", self.first_byte)?, limit("total", self.total)?])
    }
}

/// The default of `max_reply_bytes`: 64 MiB, above any image and any text.
pub(super) fn max_reply_bytes() -> Size {
    Size(64 << 20)
}

/// The default of `idempotency_header`.
pub(super) fn idempotency_header() -> String {
    "Idempotency-Key".to_owned()
}

/// The default of templates of prompts.
pub(super) fn prompt() -> String {
    PROMPT.to_owned()
}

/// The default of `send_seed` of chats.
pub(super) fn yes() -> bool {
    true
}

/// A price or a cost: finite and not negative.
pub(super) fn check_amount(name: &str, amount: Option<f64>) -> Result<(), String> {
    match amount {
        Some(amount) if !(amount.is_finite() && amount >= 0.0) => {
            Err(format!("`{name}` is {amount}; set it to a finite number that is not negative"))
        }
        _ => Ok(()),
    }
}

/// Whether requests may cost money: local servers have neither prices nor keys.
pub(super) fn is_paid(prices: &[Option<f64>], key: Option<&KeyReference>, headers: &Headers) -> bool {
    prices.iter().flatten().any(|price| *price > 0.0) || key.is_some() || headers.have_secrets()
}

/// A text that has to be there.
pub(super) fn check_text(name: &str, text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err(format!("`{name}` is empty; set it")) } else { Ok(()) }
}

/// Parameters may not override what the arm sets itself. `reserved` are names with the fix.
pub(super) fn check_parameters(parameters: &Map<String, Value>, reserved: &[(&str, &str)]) -> Result<(), String> {
    match reserved.iter().find(|(name, _)| parameters.contains_key(*name)) {
        Some((name, fix)) => Err(format!("`parameters.{name}` would override what the arm sends; {fix}")),
        None => Ok(()),
    }
}

/// The seed as servers take it: 31 bits fit every integer type that they use.
pub(super) fn reduced_seed(seed: u64) -> u64 {
    seed & 0x7fff_ffff
}

/// A template with the prompt in it; `None` if it needs a prompt and there is none.
pub(super) fn fill(template: &str, prompt: Option<&str>) -> Option<String> {
    if !template.contains(PROMPT) {
        return Some(template.to_owned());
    }
    prompt.map(|prompt| template.replace(PROMPT, prompt))
}
