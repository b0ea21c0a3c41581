//! Arms of kind `http`: a request from a template, and a path to the samples in the JSON of its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ureq::http::Uri;

use super::client::{Client, Options};
use super::content::{Part, charged, decode, reply};
use super::keys::{Headers, KeyReference};
use super::path::JsonPath;
use super::settings::{self, PROMPT, Timeouts, check_amount, is_paid, reduced_seed};
use super::{Environment, address};
use crate::arm::{Arm, Content, Failure, FailureKind, Reply, Request};
use crate::secret::Secret;
use crate::units::Size;

/// Settings of an arm of kind `http`.
///
/// In `url` and in the texts of `body`, `{prompt}`, `{seed}`, `{count}` and `{key}` stand for the prompt, a seed of 31 bits, the
/// number of samples and the idempotency key. A text of `body` that is exactly `{seed}` or `{count}` becomes a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// Method of the request (default: `POST`).
    #[serde(default)]
    pub method: Method,
    /// Address of the request.
    pub url: String,
    /// JSON body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Path to the sample, such as `data.0.text` or `/data/0/text`; `*` stands for all items of a list.
    pub answer: String,
    /// What the sample is (default: `text`).
    #[serde(default)]
    pub answer_kind: AnswerKind,
    /// Path to the cost of the request; needs `max_cost_per_request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Price per request, instead of `cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_request: Option<f64>,
    /// Most that a request can cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_request: Option<f64>,
    /// Key, as `env:NAME`, for the header `Authorization: Bearer`; name other keys in `headers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyReference>,
    /// Further headers, whose values may be `env:NAME`.
    #[serde(default)]
    pub headers: Headers,
    /// Time limits, of the request and of each download.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The maximum size of an answer and of a download; 64MiB by default.
    #[serde(default = "settings::max_reply_bytes")]
    pub max_reply_bytes: Size,
    /// Whether requests have a header with the idempotency key (default: false).
    #[serde(default)]
    pub idempotency: bool,
    /// Header of the idempotency key (default: `Idempotency-Key`).
    #[serde(default = "settings::idempotency_header")]
    pub idempotency_header: String,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Without a body.
    Get,
    /// With a body.
    #[default]
    Post,
    /// With a body.
    Put,
}

/// What a sample in an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerKind {
    /// A text.
    #[default]
    Text,
    /// A file as base64.
    Base64,
    /// A link to a file.
    Url,
    /// A list of numbers.
    Features,
}

/// A model behind a server of any kind.
#[derive(Debug)]
pub struct HttpArm {
    settings: HttpSettings,
    client: Client,
    answer: JsonPath,
    cost: Option<JsonPath>,
}

impl HttpSettings {
    /// Whether requests may cost money: they have a price or a key.
    pub fn is_paid(&self) -> bool {
        is_paid(&[self.price_per_request, self.max_cost_per_request], self.key.as_ref(), &self.headers)
    }
}

/// Checks the settings and reads the keys.
///
/// # Errors
/// One sentence with the fix if a setting is not valid or a key is not in the environment.
pub fn open(settings: &HttpSettings, environment: Environment<'_>) -> Result<HttpArm, String> {
    let origin_end = settings.url.find("://").map_or(0, |scheme| scheme + 3);
    let path_start = settings.url[origin_end..].find(['/', '?']).map_or(settings.url.len(), |at| origin_end + at);
    if settings.url[..path_start].contains(['{', '}']) {
        return Err(format!("`url` is {:?}, which has a placeholder in its host; keep them behind it", settings.url));
    }
    let server = address::check("url", &url(&settings.url, &example()))?;
    if settings.method == Method::Get && settings.body.is_some() {
        return Err("`method` is \"GET\", but there is a `body`; leave it out or set `method` to \"POST\"".to_owned());
    }
    let answer = JsonPath::parse("answer", &settings.answer)?;
    let cost = settings.cost.as_ref().map(|cost| JsonPath::parse("cost", cost)).transpose()?;
    if let Some(path) = settings.cost.as_ref().filter(|_| cost.as_ref().is_some_and(JsonPath::is_list)) {
        return Err(format!("`cost` is {path:?}, which leads to a list; write the path to one number"));
    }
    check_amount("price_per_request", settings.price_per_request)?;
    check_amount("max_cost_per_request", settings.max_cost_per_request)?;
    match (&settings.cost, settings.price_per_request, settings.max_cost_per_request) {
        (Some(_), Some(_), _) => {
            return Err("both `cost` and `price_per_request` are set; leave one of them out".to_owned());
        }
        (Some(path), None, None) => {
            return Err(format!(
                "`cost` is {path:?}, but no cost can be reserved before the answer; set `max_cost_per_request`"
            ));
        }
        (None, None, Some(cost)) => {
            return Err(format!(
                "`max_cost_per_request` is {cost}, but there is no price; set `price_per_request` or `cost`"
            ));
        }
        _ => {}
    }
    let options = Options {
        key: settings.key.as_ref(),
        headers: &settings.headers,
        timeouts: &settings.timeouts,
        max_reply_bytes: settings.max_reply_bytes.0,
        idempotency: settings.idempotency.then_some(&settings.idempotency_header),
    };
    let client = Client::open(server, &options, environment)?;
    Ok(HttpArm { settings: settings.clone(), client, answer, cost })
}

impl HttpArm {
    /// Whether requests need a prompt.
    pub fn uses_prompt(&self) -> bool {
        self.settings.url.contains(PROMPT) || self.settings.body.as_ref().is_some_and(uses_prompt)
    }

    /// The secrets that requests carry, to be redacted in whatever is kept.
    pub fn secrets(&self) -> &[Secret] {
        self.client.secrets()
    }

    /// The JSON body of a request, which has no secrets; null without one.
    ///
    /// # Errors
    /// A failure if the arm needs a prompt and the request has none.
    pub fn record(&self, request: &Request) -> Result<Value, Failure> {
        if request.prompt.is_none() && self.uses_prompt() {
            let problem = "the request has no prompt; remove {prompt} from `url` and `body`";
            return Err(self.client.failure(FailureKind::NotSent, problem));
        }
        Ok(self.settings.body.as_ref().map_or(Value::Null, |body| fill(body, request)))
    }

    /// What an answer cost; `None` if it does not say.
    fn cost(&self, answer: &Value) -> Option<f64> {
        match &self.cost {
            None => Some(self.settings.price_per_request.unwrap_or(0.0)),
            Some(path) => match path.select(answer)?.as_slice() {
                [cost] => cost.as_f64().filter(|cost| cost.is_finite() && *cost >= 0.0),
                _ => None,
            },
        }
    }

    /// The samples of an answer.
    fn read(&self, answer: &Value, request: &Request) -> Result<Reply, Failure> {
        let cost = self.cost(answer);
        let host = self.client.host();
        let failure = |kind, problem: &str| charged(self.client.failure(kind, problem), cost);
        let Some(values) = self.answer.select(answer) else {
            let said = super::client::message(answer).map(|text| self.client.excerpt(text)).unwrap_or_default();
            let problem = format!("the answer of {host} has nothing at {:?}: {said:?}", self.settings.answer);
            return Err(failure(FailureKind::Invalid, &problem));
        };
        if values.len() > request.count {
            let problem = format!("the answer of {host} has {} samples instead of {}", values.len(), request.count);
            return Err(failure(FailureKind::Invalid, &problem));
        }
        let parts = values.into_iter().map(|value| self.part(value)).collect();
        let empty = || self.client.failure(FailureKind::Empty, &format!("the answer of {host} has no samples"));
        match cost {
            Some(cost) => reply(parts, cost, empty),
            // The answer does not say its cost: at most what was reserved.
            None => reply(parts, self.reserve(request), empty).map_err(Failure::in_doubt),
        }
    }

    /// One sample.
    fn part(&self, value: &Value) -> Part {
        let place = format!("the answer of {} at {:?}", self.client.host(), self.settings.answer);
        let invalid = |problem: &str| self.client.failure(FailureKind::Invalid, &format!("{place} has {problem}"));
        let empty = || self.client.failure(FailureKind::Empty, &format!("{place} is empty"));
        if value.is_null() {
            return Err(empty());
        }
        if self.settings.answer_kind == AnswerKind::Features {
            let numbers = value.as_array().ok_or_else(|| invalid("no list of numbers"))?;
            let features: Option<Vec<f32>> = numbers.iter().map(feature).collect();
            let features = features.ok_or_else(|| invalid("an item that is no finite number"))?;
            return if features.is_empty() { Err(empty()) } else { Ok(Content::Features(features)) };
        }
        let text = value.as_str().ok_or_else(|| invalid("no text"))?;
        if text.trim().is_empty() {
            return Err(empty());
        }
        let bytes = match self.settings.answer_kind {
            AnswerKind::Base64 => decode(text).map_err(|problem| invalid(&problem))?,
            AnswerKind::Url => self.client.download(text)?,
            AnswerKind::Text | AnswerKind::Features => return Ok(Content::Text(text.to_owned())),
        };
        if bytes.is_empty() { Err(empty()) } else { Ok(Content::File(bytes)) }
    }
}

impl Arm for HttpArm {
    fn needs_prompt(&self) -> bool {
        self.uses_prompt()
    }

    fn reserve(&self, _: &Request) -> f64 {
        self.settings.max_cost_per_request.or(self.settings.price_per_request).unwrap_or(0.0)
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let body = self.record(request)?;
        let address: Uri = url(&self.settings.url, request).parse().map_err(|_| {
            self.client
                .failure(FailureKind::NotSent, "the `url` of the request is not an address; correct its placeholders")
        })?;
        let method = match self.settings.method {
            Method::Get => ureq::http::Method::GET,
            Method::Post => ureq::http::Method::POST,
            Method::Put => ureq::http::Method::PUT,
        };
        // A request without a body in the settings that may have one sends an empty object.
        let body = if body.is_null() { Value::Object(Map::new()) } else { body };
        let body = if self.settings.method == Method::Get { None } else { Some(&body) };
        let is_free = self.cost.is_none() && self.settings.price_per_request.is_none();
        let unreadable = if is_free { Some(0.0) } else { None };
        let answer = self.client.send(method, &address, body, &request.key, unreadable)?;
        self.read(&answer, request)
    }

    fn interrupt(&self) {
        self.client.interrupt();
    }
}

/// A feature, if it is finite in single precision.
pub(super) fn feature(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32).filter(|number| number.is_finite())
}

/// Whether a template has the prompt in it.
fn uses_prompt(template: &Value) -> bool {
    match template {
        Value::String(text) => text.contains(PROMPT),
        Value::Array(items) => items.iter().any(uses_prompt),
        Value::Object(fields) => fields.values().any(uses_prompt),
        _ => false,
    }
}

/// A template of JSON with its placeholders replaced.
fn fill(template: &Value, request: &Request) -> Value {
    match template {
        Value::String(text) if text == "{seed}" => reduced_seed(request.seed).into(),
        Value::String(text) if text == "{count}" => request.count.into(),
        Value::String(text) => substitute(text, request, str::to_owned).into(),
        Value::Array(items) => items.iter().map(|item| fill(item, request)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), fill(value, request))).collect(),
        value => value.clone(),
    }
}

/// An address with its placeholders replaced.
fn url(template: &str, request: &Request) -> String {
    substitute(template, request, |text| text.bytes().map(percent_encoded).collect())
}

/// A byte as it stands in a path or a query.
fn percent_encoded(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

/// A text with its placeholders replaced, in one pass: a placeholder in a prompt stays. Other texts in braces stay, too.
fn substitute(template: &str, request: &Request, encode: impl Fn(&str) -> String) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let value = |(name, value): (&str, String)| from.strip_prefix(name).map(|rest| (value, rest));
        let placeholders = [
            (PROMPT, request.prompt.clone().unwrap_or_default()),
            ("{seed}", reduced_seed(request.seed).to_string()),
            ("{count}", request.count.to_string()),
            ("{key}", request.key.clone()),
        ];
        match placeholders.into_iter().find_map(value) {
            Some((value, after)) => {
                text.push_str(&encode(&value));
                rest = after;
            }
            None => {
                text.push('{');
                rest = &from[1..];
            }
        }
    }
    text + rest
}

/// A request to check addresses with.
fn example() -> Request {
    Request { pull: 0, attempt: 1, key: "key".to_owned(), prompt: Some("prompt".to_owned()), seed: 0, count: 1 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Request, fill, url};

    fn request() -> Request {
        let prompt = Some("a \"cat\"\n{seed} & {count}".to_owned());
        Request { pull: 1, attempt: 1, key: "k-1".to_owned(), prompt, seed: (1 << 40) + 5, count: 2 }
    }

    #[test]
    fn placeholders_are_replaced_once_and_safely() {
        let template = json!({"p": "<{prompt}>", "s": "{seed}", "t": "seed {seed}", "c": ["{count}", {"k": "{key}{"}], "x": "{other}"});
        let expected = json!({
            "p": "<a \"cat\"\n{seed} & {count}>", "s": 5, "t": "seed 5", "c": [2, {"k": "k-1{"}], "x": "{other}"
        });
        assert_eq!(fill(&template, &request()), expected);
        assert_eq!(
            url("http://h/{count}?q={prompt}", &request()),
            "http://h/2?q=a%20%22cat%22%0A%7Bseed%7D%20%26%20%7Bcount%7D"
        );
    }
}
