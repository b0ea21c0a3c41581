//! Paths into JSON: pointers such as `/data/0/text` (RFC 6901) and names with dots such as `data.0.text`, in both of which `*`
//! stands for all items of a list.

use serde_json::Value;

/// A path into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A field, or the position in a list.
    Name(String),
    /// All items of a list.
    All,
}

impl JsonPath {
    /// Reads a path. The empty text is the path to the whole value.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let is_pointer = text.starts_with('/');
        let steps: Vec<String> = match text.strip_prefix('/') {
            _ if text.is_empty() => Vec::new(),
            Some(rest) => rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
            None => text.split('.').map(str::to_owned).collect(),
        };
        if !is_pointer && steps.iter().any(String::is_empty) {
            return Err(format!("`{name}` is {text:?}, which has an empty part; write a path such as \"data.0.text\""));
        }
        if steps.iter().filter(|step| *step == "*").count() > 1 {
            return Err(format!("`{name}` is {text:?}, which has more than one *; keep one"));
        }
        let step = |step| if step == "*" { Step::All } else { Step::Name(step) };
        Ok(Self(steps.into_iter().map(step).collect()))
    }

    /// Whether it leads to a list of values.
    pub(super) fn is_list(&self) -> bool {
        self.0.contains(&Step::All)
    }

    /// The values that it leads to; `None` if one of its steps does not exist.
    pub(super) fn select<'v>(&self, value: &'v Value) -> Option<Vec<&'v Value>> {
        let mut values = vec![value];
        for step in &self.0 {
            values = match step {
                Step::All => {
                    values.into_iter().map(Value::as_array).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()
                }
                Step::Name(name) => values.into_iter().map(|value| item(value, name)).collect::<Option<_>>()?,
            };
        }
        Some(values)
    }
}

fn item<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonPath;

    fn select(path: &str, value: &Value) -> Option<Value> {
        let values = JsonPath::parse("answer", path).unwrap().select(value)?;
        Some(values.into_iter().cloned().collect())
    }

    #[test]
    fn pointers_and_names_lead_to_the_same_values() {
        // The document and the pointers of RFC 6901, section 5.
        let value = json!({"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8});
        for (pointer, expected) in
            [("/foo/0", json!(["bar"])), ("/", json!([0])), ("/a~1b", json!([1])), ("/m~0n", json!([8]))]
        {
            assert_eq!(select(pointer, &value), Some(expected), "{pointer}");
        }
        assert_eq!(select("foo.1", &value), Some(json!(["baz"])));
        assert_eq!(select("foo.*", &value), Some(json!(["bar", "baz"])));
        assert_eq!(select("", &json!("text")), Some(json!(["text"])));
        let nested = json!({"data": [{"text": 1}, {"text": 2}], "none": []});
        assert_eq!(select("data.*.text", &nested), Some(json!([1, 2])));
        assert_eq!(select("/data/*/text", &nested), Some(json!([1, 2])));
        assert_eq!(select("none.*.text", &nested), Some(json!([])));
        for path in ["foo", "data.2", "data.*.other", "data.0.text.deeper", "data.-1", "none.0", "data.0.*"] {
            assert_eq!(select(path, &nested), None, "{path}");
        }
    }

    #[test]
    fn paths_that_lead_nowhere_are_refused() {
        for path in ["data..text", ".data", "data.", "*.*", "/a/*/*"] {
            assert!(JsonPath::parse("answer", path).unwrap_err().contains(path), "{path}");
        }
    }
}
