//! An encoder of texts behind `/embeddings` of any server that speaks OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use ureq::http::{Method, Uri};

use super::client::{Client, Options};
use super::content::charged;
use super::keys::{Headers, KeyReference};
use super::prices::TokenPrices;
use super::settings::{self, Timeouts, check_parameters, check_text};
use super::template::feature;
use super::{Environment, address};
use crate::arm::{Charge, Failure, FailureKind};
use crate::secret::Secret;
use crate::units::Size;

/// Settings of an encoder behind an OpenAI-compatible server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingsSettings {
    /// Address of the API, such as `http://localhost:8080/v1`.
    pub base_url: String,
    /// Model, as the server names it.
    pub model: String,
    /// Number of features, which is sent as `dimensions` and checked (default: that of the model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// Most texts per request (default: 64).
    #[serde(default = "batch")]
    pub batch: usize,
    /// Further parameters of the request.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// Key, as `env:NAME`; local servers need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyReference>,
    /// Further headers, whose values may be `env:NAME`.
    #[serde(default)]
    pub headers: Headers,
    /// Price per million tokens of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_million_input_tokens: Option<f64>,
    /// Time limits, of each request.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The maximum size of an answer; 64MiB by default.
    #[serde(default = "settings::max_reply_bytes")]
    pub max_reply_bytes: Size,
}

/// The default of `batch`: all servers known to us take as many.
fn batch() -> usize {
    64
}

/// What parameters may not override, and the fix.
const RESERVED: [(&str, &str); 4] = [
    ("model", "set `model` of the encoder"),
    ("input", "leave it out, since it is the samples"),
    ("dimensions", "set `dimensions` of the encoder"),
    ("encoding_format", "leave it out, since answers are read as numbers"),
];

/// The features of texts and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// One row per text, all of the same width.
    pub rows: Vec<Vec<f32>>,
    /// What the requests cost, in the currency of the run.
    pub cost: f64,
}

/// An encoder of texts behind a server.
#[derive(Debug)]
pub struct Embeddings {
    settings: EmbeddingsSettings,
    client: Client,
    uri: Uri,
    prices: Option<TokenPrices>,
}

/// Checks the settings and reads the keys.
///
/// # Errors
/// One sentence with the fix if a setting is not valid or a key is not in the environment.
pub fn open(settings: &EmbeddingsSettings, environment: Environment<'_>) -> Result<Embeddings, String> {
    let uri = address::endpoint(&settings.base_url, "/embeddings")?;
    check_text("model", &settings.model)?;
    check_parameters(&settings.parameters, &RESERVED)?;
    for (name, number) in [("batch", Some(settings.batch)), ("dimensions", settings.dimensions)] {
        if number == Some(0) {
            return Err(format!("`{name}` is 0; set it to a positive integer"));
        }
    }
    let prices = TokenPrices::check(settings.price_per_million_input_tokens, None, None, None)?;
    let options = Options {
        key: settings.key.as_ref(),
        headers: &settings.headers,
        timeouts: &settings.timeouts,
        max_reply_bytes: settings.max_reply_bytes.0,
        idempotency: None,
    };
    let client = Client::open(uri.clone(), &options, environment)?;
    Ok(Embeddings { settings: settings.clone(), client, uri, prices })
}

impl Embeddings {
    /// The secrets that requests carry, to be redacted in whatever is kept.
    pub fn secrets(&self) -> &[Secret] {
        self.client.secrets()
    }

    /// What decides the features, as a SHA-256 in hexadecimal digits: the address, the model, the dimensions and the parameters.
    pub fn fingerprint(&self) -> String {
        let EmbeddingsSettings { base_url, model, dimensions, parameters, .. } = &self.settings;
        let mut identity = json!([base_url.trim_end_matches('/'), model, dimensions, parameters]);
        // The order of parameters in the file does not matter.
        identity.sort_all_objects();
        Sha256::digest(identity.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The JSON body of a request, which has no secrets.
    pub fn record(&self, texts: &[&str]) -> Value {
        let mut body = Map::new();
        body.insert("model".to_owned(), self.settings.model.clone().into());
        body.insert("input".to_owned(), texts.into());
        body.extend(self.settings.parameters.clone());
        if let Some(dimensions) = self.settings.dimensions {
            body.insert("dimensions".to_owned(), dimensions.into());
        }
        body.into()
    }

    /// The most that encoding these texts can cost.
    pub fn reserve(&self, texts: &[&str]) -> f64 {
        let Some(prices) = &self.prices else { return 0.0 };
        let requests = texts.chunks(self.settings.batch);
        requests.map(|texts| prices.reserve(self.record(texts).to_string().len(), 0)).sum()
    }

    /// Encodes texts, in as many requests as needed.
    ///
    /// # Errors
    /// What became of the first request without usable features, with the cost of all.
    pub fn embed(&self, texts: &[&str]) -> Result<Embedded, Failure> {
        let mut embedded = Embedded { rows: Vec::with_capacity(texts.len()), cost: 0.0 };
        for texts in texts.chunks(self.settings.batch) {
            let before = embedded.cost;
            let request = self.embed_batch(texts).map_err(|failure| match failure.charge {
                Charge::Known(cost) => failure.costing(before + cost),
                Charge::Doubt => failure,
            })?;
            embedded.cost += request.cost;
            embedded.rows.extend(request.rows);
            let first = embedded.rows.first().map_or(0, Vec::len);
            if let Some(row) = embedded.rows.iter().find(|row| row.len() != first) {
                let problem = format!("rows of {first} and of {} features; use one model", row.len());
                return Err(self.invalid(&problem).costing(embedded.cost));
            }
        }
        Ok(embedded)
    }

    fn embed_batch(&self, texts: &[&str]) -> Result<Embedded, Failure> {
        let free = if self.prices.is_none() { Some(0.0) } else { None };
        let answer = self.client.send(Method::POST, &self.uri, Some(&self.record(texts)), "", free)?;
        let cost = match &self.prices {
            Some(prices) => prices.cost(&answer),
            None => Some(0.0),
        };
        let rows = self.rows(&answer, texts.len()).map_err(|problem| charged(self.invalid(&problem), cost))?;
        // An answer that does not say its cost: at most what was reserved.
        Ok(Embedded { rows, cost: cost.unwrap_or_else(|| self.reserve(texts)) })
    }

    /// The rows of an answer in the order of the texts.
    fn rows(&self, answer: &Value, count: usize) -> Result<Vec<Vec<f32>>, String> {
        let data = answer.get("data").and_then(Value::as_array).ok_or_else(|| {
            let said = super::client::message(answer).map(|text| self.client.excerpt(text)).unwrap_or_default();
            format!("no list `data`: {said:?}")
        })?;
        if data.len() != count {
            return Err(format!("{} rows instead of {count}", data.len()));
        }
        let mut rows: Vec<Option<Vec<f32>>> = vec![None; count];
        for (position, item) in data.iter().enumerate() {
            // A server without `index` keeps the order.
            let index = item.get("index").map_or(Some(position as u64), Value::as_u64);
            let row = index.and_then(|index| rows.get_mut(usize::try_from(index).ok()?));
            let row = row.filter(|row| row.is_none()).ok_or_else(|| {
                format!("the `index` {} twice or out of range", item.get("index").unwrap_or(&Value::Null))
            })?;
            *row = Some(self.row(item, position)?);
        }
        rows.into_iter().collect::<Option<_>>().ok_or_else(|| "a row without its `index`".to_owned())
    }

    fn row(&self, item: &Value, position: usize) -> Result<Vec<f32>, String> {
        let numbers = item.get("embedding").and_then(Value::as_array);
        let numbers = numbers.filter(|numbers| !numbers.is_empty());
        let numbers = numbers.ok_or_else(|| format!("no list of numbers in row {position}"))?;
        if let Some(width) = self.settings.dimensions.filter(|width| *width != numbers.len()) {
            return Err(format!(
                "{} features in row {position} instead of {width}; correct `dimensions`",
                numbers.len()
            ));
        }
        let row: Option<Vec<f32>> = numbers.iter().map(feature).collect();
        row.ok_or_else(|| format!("an item in row {position} that is no finite number"))
    }

    fn invalid(&self, problem: &str) -> Failure {
        self.client.failure(FailureKind::Invalid, &format!("the answer of {} has {problem}", self.client.host()))
    }

    /// Ends requests in progress, and refuses later ones.
    pub fn interrupt(&self) {
        self.client.interrupt();
    }
}
