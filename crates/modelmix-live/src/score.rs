//! Scores per sample for objectives such as `rke - 0.2*valid`: a command, or a check of texts that gives 1 or 0.

use std::path::Path;

use fancy_regex::Regex;
use jsonschema::Validator;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::arm::Content;
use crate::arm::command::{Body, Launch, ReplyLine, WorkerSettings, Workers, evaluate, sample_body};
use crate::problem::EvaluationProblem;

/// A score of samples, as in `[scores.valid]`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ScoreSettings {
    /// A number from a command.
    Command(CommandScoreSettings),
    /// 1 if a text matches a regular expression.
    Regex(RegexSettings),
    /// 1 if a text is a JSON document that a schema allows.
    JsonSchema(JsonSchemaSettings),
    /// 1 if the length of a text is in a range.
    Length(LengthSettings),
}

/// A command that scores samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandScoreSettings {
    /// The command.
    #[serde(flatten)]
    pub worker: WorkerSettings,
    /// The least and the greatest score, which confidence intervals need. Other values are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// A regular expression, in the syntax of the Rust crate fancy-regex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegexSettings {
    /// The expression; it may match any part of the text.
    pub regex: String,
}

/// A range of lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthSettings {
    /// The least length. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_length: Option<usize>,
    /// The greatest length. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// What is counted.
    #[serde(default)]
    pub unit: LengthUnit,
}

/// A unit of the length of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LengthUnit {
    /// Unicode characters.
    #[default]
    Characters,
    /// Words, separated by white space.
    Words,
}

/// A JSON Schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonSchemaSettings {
    /// The file of the schema, or the schema itself as a table.
    pub json_schema: SchemaSource,
}

/// Where a schema is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SchemaSource {
    /// A file.
    File(String),
    /// The schema.
    Inline(Map<String, Value>),
}

impl<'de> Deserialize<'de> for ScoreSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let has = |key: &str| value.get(key).is_some();
        // The key says which one is meant, so that messages are about its fields.
        match (has("command"), has("regex"), has("json_schema"), has("min_length") || has("max_length")) {
            (true, false, false, false) => serde_json::from_value(value).map(Self::Command),
            (false, true, false, false) => serde_json::from_value(value).map(Self::Regex),
            (false, false, true, false) => serde_json::from_value(value).map(Self::JsonSchema),
            (false, false, false, true) => serde_json::from_value(value).map(Self::Length),
            _ => {
                let problem =
                    "a score needs exactly one of command, regex, json_schema, and a length (min_length, max_length)";
                return Err(D::Error::custom(problem));
            }
        }
        .map_err(D::Error::custom)
    }
}

impl ScoreSettings {
    /// The least and the greatest score; `None` if they are not known.
    pub fn range(&self) -> Option<(f64, f64)> {
        match self {
            Self::Command(settings) => settings.range.map(|[least, greatest]| (least, greatest)),
            Self::Regex(_) | Self::JsonSchema(_) | Self::Length(_) => Some((0.0, 1.0)),
        }
    }
}

/// A score that is ready. Threads share it.
#[derive(Debug)]
pub struct Scorer(Kind);

#[derive(Debug)]
enum Kind {
    Command { workers: Workers, range: Option<[f64; 2]> },
    Regex(Box<Regex>),
    JsonSchema(Box<Validator>),
    Length { least: usize, greatest: usize, unit: LengthUnit },
}

impl Scorer {
    /// Opens a score. Commands are started by the first samples.
    ///
    /// # Errors
    /// One sentence with the fix: an expression or a schema that is not valid, an empty range, a command that does not exist.
    pub fn open(
        settings: &ScoreSettings,
        base: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        Ok(Self(match settings {
            ScoreSettings::Command(settings) => {
                let range = settings.range;
                if let Some([least, greatest]) =
                    range.filter(|[least, greatest]| !(least.is_finite() && greatest.is_finite() && least < greatest))
                {
                    return Err(format!(
                        "range = [{least}, {greatest}] is empty; give the least and the greatest score"
                    ));
                }
                Kind::Command { workers: Workers::new(Launch::check(&settings.worker, base, environment)?), range }
            }
            ScoreSettings::Regex(RegexSettings { regex }) => {
                let compiled = Regex::new(regex)
                    .map_err(|error| format!("regex = {regex:?} is not a regular expression ({error}); correct it"))?;
                Kind::Regex(Box::new(compiled))
            }
            ScoreSettings::JsonSchema(JsonSchemaSettings { json_schema }) => {
                Kind::JsonSchema(Box::new(validator(json_schema, base)?))
            }
            ScoreSettings::Length(LengthSettings { min_length, max_length, unit }) => {
                let (least, greatest) = (min_length.unwrap_or(0), max_length.unwrap_or(usize::MAX));
                if least > greatest {
                    return Err(format!("min_length = {least} is more than max_length = {greatest}; exchange them"));
                }
                Kind::Length { least, greatest, unit: *unit }
            }
        }))
    }

    /// The score of a sample.
    ///
    /// # Errors
    /// If a check of texts gets something else, or if the command fails or gives a number out of its range.
    pub fn score(&self, content: &Content, prompt: Option<&str>) -> Result<f64, EvaluationProblem> {
        let is_met = match &self.0 {
            Kind::Command { workers, range } => return score_by_command(workers, *range, content, prompt),
            Kind::Regex(regex) => regex.is_match(text(content)?).map_err(|error| {
                EvaluationProblem::Sample(format!("the regular expression cannot be evaluated on the text ({error})"))
            })?,
            Kind::JsonSchema(validator) => {
                serde_json::from_str(text(content)?).is_ok_and(|document: Value| validator.is_valid(&document))
            }
            Kind::Length { least, greatest, unit } => {
                let text = text(content)?;
                let length = match unit {
                    LengthUnit::Characters => text.chars().count(),
                    LengthUnit::Words => text.split_whitespace().count(),
                };
                (*least..=*greatest).contains(&length)
            }
        };
        Ok(f64::from(u8::from(is_met)))
    }

    /// Ends work in progress, for good.
    pub fn interrupt(&self) {
        if let Kind::Command { workers, .. } = &self.0 {
            workers.interrupt();
        }
    }
}

fn score_by_command(
    workers: &Workers,
    range: Option<[f64; 2]>,
    content: &Content,
    prompt: Option<&str>,
) -> Result<f64, EvaluationProblem> {
    let mut sample = sample_body(content)?;
    sample.insert("prompt".into(), prompt.into());
    let body = Body::from_iter([("score".to_owned(), Value::Object(sample))]);
    evaluate(workers, &body, |ReplyLine { value, .. }| {
        let value = value.ok_or("its reply has neither a value nor an error; write one of them")?;
        match range {
            _ if !value.is_finite() => Err(format!("its value {value} is not finite")),
            Some([least, greatest]) if !(least..=greatest).contains(&value) => Err(format!(
                "its value {value} is not in the range [{least}, {greatest}]; correct range or the command"
            )),
            _ => Ok(value),
        }
    })
}

/// The text of a sample.
fn text(content: &Content) -> Result<&str, EvaluationProblem> {
    match content {
        Content::Text(text) => Ok(text),
        Content::File(bytes) => std::str::from_utf8(bytes).map_err(|_| {
            EvaluationProblem::Sample("the sample is not a text in UTF-8; score it with a command".into())
        }),
        Content::Pixels(_) | Content::Features(_) => {
            Err(EvaluationProblem::Evaluator("the sample is not a text; score it with a command".into()))
        }
    }
}

/// The schema, compiled. Nothing is downloaded.
fn validator(source: &SchemaSource, base: &Path) -> Result<Validator, String> {
    let (name, schema) = match source {
        SchemaSource::Inline(schema) => ("json_schema".to_owned(), Value::Object(schema.clone())),
        SchemaSource::File(file) => {
            let path = base.join(file);
            let name = path.display().to_string();
            let text = modelmix::load::text(&path).map_err(|error| error.to_string())?;
            let schema = serde_json::from_str(&text)
                .map_err(|error| format!("{name} is not JSON ({error}); correct the schema"))?;
            (name, schema)
        }
    };
    jsonschema::validator_for(&schema).map_err(|error| format!("{name} is not a JSON Schema ({error}); correct it"))
}
