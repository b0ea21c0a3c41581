//! JSON Schemas of documents, generated from the Rust types.

use modelmix::session::SessionReport;
use modelmix::{Curated, Mixture, SamplePlan, Scores, SimulationReport};
use modelmix_cli::report::Comparison;
use modelmix_live::status::RunStatus;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::args::Documented;
use crate::encoding::EncodedSets;
use crate::error::{Failure, Result};
use crate::reproduction::Reproduction;
use crate::streaming::Accumulated;

/// A comparison as `report --compare --json` prints it.
#[derive(Serialize)]
#[serde(tag = "command", rename = "compare")]
pub(crate) struct Compared {
    #[serde(flatten)]
    pub(crate) result: Comparison,
}

/// The JSON Schema of a command's `--json` output or of a session's report, as text.
pub(crate) fn schema(document: Documented) -> Result<String> {
    let schema = match document {
        Documented::Solve => printed::<Mixture>("solve"),
        Documented::Score => printed::<Scores>("score"),
        Documented::Simulate => printed::<SimulationReport>("simulate"),
        Documented::Curate => printed::<Curated>("curate"),
        Documented::Plan => printed::<SamplePlan>("plan"),
        Documented::Reproduce => printed::<Reproduction>("reproduce"),
        Documented::Compare => {
            described::<Comparison>("compare", "modelmix report A B --compare --json", Some("compare"))
        }
        Documented::Encode => printed::<EncodedSets>("encode"),
        Documented::Status => printed::<RunStatus>("status"),
        Documented::Accumulate => printed::<Accumulated>("accumulate"),
        // Sessions exist in Rust and Python only; no command prints their reports.
        Documented::Session => described::<SessionReport>("session", "The report of a session", None),
    };
    serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::input(format!("the schema cannot be written as JSON: {error}")))
}

/// The schema of a command's output.
fn printed<T: JsonSchema>(command: &str) -> Value {
    described::<T>(command, &format!("modelmix {command} --json"), Some(command))
}

/// The schema of a result, with the leading field `command` of a command's document.
fn described<T: JsonSchema>(name: &str, title: &str, command: Option<&str>) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    Closed.transform(&mut schema);
    let mut rest = schema.to_value();
    let mut whole = Map::new();
    let Some(rest) = rest.as_object_mut() else { return rest };
    whole.insert("$schema".into(), rest.remove("$schema").unwrap_or_default());
    whole.insert("$id".into(), json!(format!("https://modelmix.invalid/schema/{name}.schema.json")));
    whole.insert("title".into(), json!(title));
    rest.remove("title");
    if let Some(command) = command {
        tag(rest, command);
    }
    let mut definitions = rest.remove("$defs");
    // Nested documents have the field `command` too; the mixture of a run is a plain result.
    let nested: &[&str] = if name == "status" { &[] } else { &["solve", "score", "simulate"] };
    for &inner in nested {
        let schema = definitions.as_mut().and_then(|definitions| definitions.get_mut(inner));
        if let Some(schema) = schema.and_then(Value::as_object_mut) {
            tag(schema, inner);
        }
    }
    whole.append(rest);
    whole.extend(definitions.map(|definitions| ("$defs".to_string(), definitions)));
    Value::Object(whole)
}

/// Adds the field `command`, before all others.
fn tag(schema: &mut Map<String, Value>, command: &str) {
    let is_own = |value: &Value| value.as_str() != Some("command");
    let required = schema.remove("required").and_then(|required| required.as_array().cloned()).unwrap_or_default();
    let tagged = [json!("command")].into_iter().chain(required.into_iter().filter(is_own)).collect();
    schema.insert("required".into(), Value::Array(tagged));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let own = std::mem::take(properties);
        let about = "The command that printed the document.";
        properties.insert("command".into(), json!({"description": about, "const": command}));
        properties.extend(own.into_iter().filter(|(name, _)| name != "command"));
    }
}

/// Forbids properties without a description, and describes properties that identify variants.
struct Closed;

impl Transform for Closed {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
            schema.insert("additionalProperties".into(), Value::Bool(false));
        }
        // If a variant has one property, its description is that of the variant.
        let about = schema.get("description").cloned();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
            && properties.len() == 1
            && let Some(only) = properties.values_mut().next().and_then(Value::as_object_mut)
            && !only.contains_key("$ref")
        {
            only.entry("description").or_insert_with(|| about.unwrap_or_default());
        }
        for property in
            schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
        {
            if let Some(tag) = property.as_object_mut().filter(|property| property.contains_key("const")) {
                tag.entry("description").or_insert_with(|| json!("Name of the variant."));
            }
        }
    }
}
