//! Arms of kind `openai-chat`: a model behind `/chat/completions` of any server that speaks OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use ureq::http::{Method, Uri};

use super::client::{Client, Options};
use super::content::{Part, charged, reply};
use super::keys::{Headers, KeyReference};
use super::prices::TokenPrices;
use super::settings::{self, PROMPT, Timeouts, check_parameters, check_text, fill, is_paid, reduced_seed};
use super::{Environment, address};
use crate::arm::{Arm, Content, Failure, FailureKind, Reply, Request};
use crate::secret::Secret;
use crate::units::Size;

/// Settings of an arm of kind `openai-chat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatSettings {
    /// Address of the API, such as `http://localhost:8080/v1`.
    pub base_url: String,
    /// Model, as the server names it.
    pub model: String,
    /// System message, such as a persona.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// User message, in which `{prompt}` stands for the prompt (default: `{prompt}`).
    #[serde(default = "settings::prompt")]
    pub user: String,
    /// Further parameters of the request, such as `temperature`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// Most tokens of a sample; needed with a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Whether requests have a `seed` (default: true).
    #[serde(default = "settings::yes")]
    pub send_seed: bool,
    /// Key, as `env:NAME`; local servers need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyReference>,
    /// Further headers, whose values may be `env:NAME`.
    #[serde(default)]
    pub headers: Headers,
    /// Price per million tokens of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_million_input_tokens: Option<f64>,
    /// Price per million tokens of answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_million_output_tokens: Option<f64>,
    /// Most that a request can cost, instead of the bound by `max_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_request: Option<f64>,
    /// Time limits.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The maximum size of an answer; 64MiB by default.
    #[serde(default = "settings::max_reply_bytes")]
    pub max_reply_bytes: Size,
    /// Whether requests have an idempotency key (default: false).
    #[serde(default)]
    pub idempotency: bool,
    /// Header of the idempotency key (default: `Idempotency-Key`).
    #[serde(default = "settings::idempotency_header")]
    pub idempotency_header: String,
}

/// What parameters may not override, and the fix.
const RESERVED: [(&str, &str); 6] = [
    ("model", "set `model` of the arm"),
    ("messages", "set `system` and `user` of the arm"),
    ("prompt", "set `user` of the arm"),
    ("n", "leave it out, since the run sets the number of samples"),
    ("stream", "leave it out, since answers are read whole"),
    ("max_tokens", "set `max_tokens` of the arm"),
];

/// The newer name of `max_tokens`, which some models insist on.
const COMPLETION_TOKENS: &str = "max_completion_tokens";

/// A model behind a chat API.
#[derive(Debug)]
pub struct ChatArm {
    settings: ChatSettings,
    client: Client,
    uri: Uri,
    prices: Option<TokenPrices>,
}

impl ChatSettings {
    /// Whether requests may cost money: they have a price or a key.
    pub fn is_paid(&self) -> bool {
        let prices = [self.price_per_million_input_tokens, self.price_per_million_output_tokens];
        is_paid(&prices, self.key.as_ref(), &self.headers)
    }
}

/// Checks the settings and reads the keys.
///
/// # Errors
/// One sentence with the fix if a setting is not valid or a key is not in the environment.
pub fn open(settings: &ChatSettings, environment: Environment<'_>) -> Result<ChatArm, String> {
    let uri = address::endpoint(&settings.base_url, "/chat/completions")?;
    check_text("model", &settings.model)?;
    check_text("user", &settings.user)?;
    check_parameters(&settings.parameters, &RESERVED)?;
    if settings.send_seed {
        check_parameters(&settings.parameters, &[("seed", "leave it out or set `send_seed` to false")])?;
    }
    let renamed = settings.parameters.get(COMPLETION_TOKENS);
    if renamed.is_some() && settings.max_tokens.is_some() {
        return Err(format!("both `max_tokens` and `parameters.{COMPLETION_TOKENS}` are set; leave one of them out"));
    }
    let max_tokens =
        match renamed {
            Some(tokens) => Some(tokens.as_u64().ok_or_else(|| {
                format!("`parameters.{COMPLETION_TOKENS}` is {tokens}; set it to a positive integer")
            })?),
            None => settings.max_tokens,
        };
    if max_tokens == Some(0) {
        return Err("`max_tokens` is 0, so that every answer is empty; raise it".to_owned());
    }
    let prices = TokenPrices::check(
        settings.price_per_million_input_tokens,
        settings.price_per_million_output_tokens,
        settings.max_cost_per_request,
        max_tokens,
    )?;
    let options = Options {
        key: settings.key.as_ref(),
        headers: &settings.headers,
        timeouts: &settings.timeouts,
        max_reply_bytes: settings.max_reply_bytes.0,
        idempotency: settings.idempotency.then_some(&settings.idempotency_header),
    };
    let client = Client::open(uri.clone(), &options, environment)?;
    Ok(ChatArm { settings: settings.clone(), client, uri, prices })
}

impl ChatArm {
    /// Whether requests need a prompt.
    pub fn uses_prompt(&self) -> bool {
        self.settings.user.contains(PROMPT)
    }

    /// The secrets that requests carry, to be redacted in whatever is kept.
    pub fn secrets(&self) -> &[Secret] {
        self.client.secrets()
    }

    /// The JSON body of a request, which has no secrets.
    ///
    /// # Errors
    /// A failure if the arm needs a prompt and the request has none.
    pub fn record(&self, request: &Request) -> Result<Value, Failure> {
        let settings = &self.settings;
        let user = fill(&settings.user, request.prompt.as_deref()).ok_or_else(|| {
            self.client
                .failure(FailureKind::NotSent, "the request has no prompt; set `user` to a text without {prompt}")
        })?;
        let mut messages = Vec::new();
        if let Some(system) = &settings.system {
            messages.push(json!({"role": "system", "content": system}));
        }
        messages.push(json!({"role": "user", "content": user}));
        let mut body = Map::new();
        body.insert("model".to_owned(), settings.model.clone().into());
        body.insert("messages".to_owned(), messages.into());
        body.extend(settings.parameters.clone());
        if let Some(tokens) = settings.max_tokens {
            body.insert("max_tokens".to_owned(), tokens.into());
        }
        if request.count > 1 {
            body.insert("n".to_owned(), request.count.into());
        }
        if settings.send_seed {
            body.insert("seed".to_owned(), reduced_seed(request.seed).into());
        }
        Ok(body.into())
    }

    /// The samples of an answer.
    fn read(&self, answer: &Value, request: &Request) -> Result<Reply, Failure> {
        let cost = match &self.prices {
            Some(prices) => prices.cost(answer),
            None => Some(0.0),
        };
        let host = self.client.host();
        let invalid = |problem: &str| charged(self.client.failure(FailureKind::Invalid, problem), cost);
        let Some(choices) = answer.get("choices").and_then(Value::as_array) else {
            let said = super::client::message(answer).map(|text| self.client.excerpt(text)).unwrap_or_default();
            return Err(invalid(&format!("the answer of {host} has no list `choices`: {said:?}")));
        };
        if choices.len() > request.count {
            let problem = format!("the answer of {host} has {} choices instead of {}", choices.len(), request.count);
            return Err(invalid(&problem));
        }
        let parts = choices.iter().map(|choice| self.part(choice)).collect();
        let empty = || self.client.failure(FailureKind::Empty, &format!("the answer of {host} has no choices"));
        match cost {
            Some(cost) => reply(parts, cost, empty),
            // The answer does not say its cost: at most what was reserved.
            None => reply(parts, self.reserve(request), empty).map_err(Failure::in_doubt),
        }
    }

    /// The sample of one choice.
    fn part(&self, choice: &Value) -> Part {
        let host = self.client.host();
        let failure = |kind, problem: String| self.client.failure(kind, &problem);
        let Some(message) = choice.get("message").filter(|message| message.is_object()) else {
            return Err(failure(FailureKind::Invalid, format!("a choice of {host} has no `message`")));
        };
        let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or("none");
        let refusal = message.get("refusal").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        if let Some(refusal) = refusal {
            return Err(failure(FailureKind::Refusal, format!("the model refuses: {}", self.client.excerpt(refusal))));
        }
        if reason == "content_filter" {
            return Err(failure(FailureKind::Refusal, format!("the content filter of {host} withholds the answer")));
        }
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            None | Some(Value::Null) => String::new(),
            Some(_) => {
                return Err(failure(FailureKind::Invalid, format!("the `content` of a choice of {host} is no text")));
            }
        };
        if text.trim().is_empty() {
            let reason = self.client.excerpt(reason);
            return Err(failure(
                FailureKind::Empty,
                format!("the answer of {host} has no text (finish_reason: {reason})"),
            ));
        }
        Ok(Content::Text(text))
    }
}

impl Arm for ChatArm {
    fn needs_prompt(&self) -> bool {
        self.uses_prompt()
    }

    fn reserve(&self, request: &Request) -> f64 {
        let Some(prices) = &self.prices else { return 0.0 };
        // A request that cannot be written is not sent.
        let bytes = self.record(request).map_or(0, |body| body.to_string().len());
        prices.reserve(bytes, request.count)
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let body = self.record(request)?;
        let free = if self.prices.is_none() { Some(0.0) } else { None };
        let answer = self.client.send(Method::POST, &self.uri, Some(&body), &request.key, free)?;
        self.read(&answer, request)
    }

    fn interrupt(&self) {
        self.client.interrupt();
    }
}
