//! Arms of kind `openai-images`: a model behind `/images/generations` of any server that speaks OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ureq::http::{Method, Uri};

use super::client::{Client, Options};
use super::content::{Part, charged, decode, image, reply};
use super::keys::{Headers, KeyReference};
use super::settings::{
    self, PROMPT, Timeouts, check_amount, check_parameters, check_text, fill, is_paid, reduced_seed,
};
use super::{Environment, address};
use crate::arm::{Arm, Failure, FailureKind, Reply, Request};
use crate::secret::Secret;
use crate::units::Size;

/// Settings of an arm of kind `openai-images`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImagesSettings {
    /// Address of the API, such as `http://localhost:8080/v1`.
    pub base_url: String,
    /// Model, as the server names it.
    pub model: String,
    /// Description of the image, in which `{prompt}` stands for the prompt (default: `{prompt}`).
    #[serde(default = "settings::prompt")]
    pub prompt: String,
    /// Further parameters of the request, such as `size`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// Whether requests have a `seed`, which OpenAI's own servers refuse (default: false).
    #[serde(default)]
    pub send_seed: bool,
    /// Key, as `env:NAME`; local servers need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyReference>,
    /// Further headers, whose values may be `env:NAME`.
    #[serde(default)]
    pub headers: Headers,
    /// Price per image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_image: Option<f64>,
    /// Most that a request can cost, instead of the price of its images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_request: Option<f64>,
    /// Time limits, of the request and of each download of an image.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The maximum size of an answer and of an image; 64MiB by default.
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
const RESERVED: [(&str, &str); 5] = [
    ("model", "set `model` of the arm"),
    ("prompt", "set `prompt` of the arm"),
    ("messages", "set `prompt` of the arm"),
    ("n", "leave it out, since the run sets the number of samples"),
    ("stream", "leave it out, since answers are read whole"),
];

/// A model behind an API of images.
#[derive(Debug)]
pub struct ImagesArm {
    settings: ImagesSettings,
    client: Client,
    uri: Uri,
}

impl ImagesSettings {
    /// Whether requests may cost money: they have a price or a key.
    pub fn is_paid(&self) -> bool {
        is_paid(&[self.price_per_image], self.key.as_ref(), &self.headers)
    }
}

/// Checks the settings and reads the keys.
///
/// # Errors
/// One sentence with the fix if a setting is not valid or a key is not in the environment.
pub fn open(settings: &ImagesSettings, environment: Environment<'_>) -> Result<ImagesArm, String> {
    let uri = address::endpoint(&settings.base_url, "/images/generations")?;
    check_text("model", &settings.model)?;
    check_text("prompt", &settings.prompt)?;
    check_parameters(&settings.parameters, &RESERVED)?;
    if settings.send_seed {
        check_parameters(&settings.parameters, &[("seed", "leave it out or set `send_seed` to false")])?;
    }
    check_amount("price_per_image", settings.price_per_image)?;
    check_amount("max_cost_per_request", settings.max_cost_per_request)?;
    if let (None, Some(cost)) = (settings.price_per_image, settings.max_cost_per_request) {
        return Err(format!("`max_cost_per_request` is {cost}, but there is no price; set `price_per_image`"));
    }
    let options = Options {
        key: settings.key.as_ref(),
        headers: &settings.headers,
        timeouts: &settings.timeouts,
        max_reply_bytes: settings.max_reply_bytes.0,
        idempotency: settings.idempotency.then_some(&settings.idempotency_header),
    };
    let client = Client::open(uri.clone(), &options, environment)?;
    Ok(ImagesArm { settings: settings.clone(), client, uri })
}

impl ImagesArm {
    /// Whether requests need a prompt.
    pub fn uses_prompt(&self) -> bool {
        self.settings.prompt.contains(PROMPT)
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
        let prompt = fill(&settings.prompt, request.prompt.as_deref()).ok_or_else(|| {
            self.client
                .failure(FailureKind::NotSent, "the request has no prompt; set `prompt` to a text without {prompt}")
        })?;
        let mut body = Map::new();
        body.insert("model".to_owned(), settings.model.clone().into());
        body.insert("prompt".to_owned(), prompt.into());
        body.extend(settings.parameters.clone());
        if request.count > 1 {
            body.insert("n".to_owned(), request.count.into());
        }
        if settings.send_seed {
            body.insert("seed".to_owned(), reduced_seed(request.seed).into());
        }
        Ok(body.into())
    }

    /// The price of this many images.
    fn price(&self, images: usize) -> f64 {
        self.settings.price_per_image.unwrap_or(0.0) * images as f64
    }

    /// What an answer costs that does not say how many images were made.
    fn cost_of_unreadable(&self) -> Option<f64> {
        if self.settings.price_per_image.is_none() { Some(0.0) } else { None }
    }

    /// The samples of an answer.
    fn read(&self, answer: &Value, request: &Request) -> Result<Reply, Failure> {
        let host = self.client.host();
        let invalid = |problem: &str, cost| charged(self.client.failure(FailureKind::Invalid, problem), cost);
        let Some(data) = answer.get("data").and_then(Value::as_array) else {
            let said = super::client::message(answer).map(|text| self.client.excerpt(text)).unwrap_or_default();
            let problem = format!("the answer of {host} has no list `data`: {said:?}");
            return Err(invalid(&problem, self.cost_of_unreadable()));
        };
        let cost = self.price(data.len());
        if data.len() > request.count {
            let problem = format!("the answer of {host} has {} images instead of {}", data.len(), request.count);
            return Err(invalid(&problem, Some(cost)));
        }
        let parts = data.iter().map(|item| self.part(item)).collect();
        reply(parts, cost, || self.client.failure(FailureKind::Empty, &format!("the answer of {host} has no images")))
    }

    /// One image.
    fn part(&self, item: &Value) -> Part {
        let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let invalid = |problem: String| {
            let problem = format!("the answer of {} has {problem}", self.client.host());
            self.client.failure(FailureKind::Invalid, &problem)
        };
        let bytes = match (text("b64_json"), text("url")) {
            (Some(base64), _) => decode(base64).map_err(invalid)?,
            (None, Some(link)) => self.client.download(link)?,
            (None, None) => {
                let problem =
                    format!("an item of the answer of {} has neither `b64_json` nor `url`", self.client.host());
                return Err(self.client.failure(FailureKind::Empty, &problem));
            }
        };
        image(bytes).map_err(invalid)
    }
}

impl Arm for ImagesArm {
    fn needs_prompt(&self) -> bool {
        self.uses_prompt()
    }

    fn reserve(&self, request: &Request) -> f64 {
        self.settings.max_cost_per_request.unwrap_or_else(|| self.price(request.count))
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let body = self.record(request)?;
        let unreadable = self.cost_of_unreadable();
        let answer = self.client.send(Method::POST, &self.uri, Some(&body), &request.key, unreadable)?;
        self.read(&answer, request)
    }

    fn interrupt(&self) {
        self.client.interrupt();
    }
}
