//! The score table: metrics in their usual order, the best of each marked, and their definitions.

use std::collections::BTreeMap;

use modelmix::Scores;
use modelmix::metrics::{Metric, more_is_better};
use serde_json::Value;

use super::names::pointer;
use super::numbers::{self, Digits};
use super::page::{Block, Fact, Place, TableBlock};
use super::table::{Cell, Column, Row, Table};

type Values = BTreeMap<String, f64>;
type Errors = BTreeMap<String, Option<f64>>;

/// The display name of a metric.
fn title(metric: &str) -> String {
    match metric {
        "rke" => "RKE".into(),
        "kid" => "KID, subsets".into(),
        "kid_full" => "KID, all pairs".into(),
        "mmd" => "MMD²".into(),
        "cmmd" => "CMMD".into(),
        "fid" => "FID".into(),
        "fid_infinity" => "FID∞".into(),
        other => {
            let mut letters = other.replace('_', " ").chars().collect::<Vec<char>>();
            if let Some(first) = letters.first_mut() {
                *first = first.to_ascii_uppercase();
            }
            letters.into_iter().collect()
        }
    }
}

/// The metrics of all rows, known ones first; standard deviations between subsets are shown with their metric.
fn metrics(document: &Scores) -> Vec<String> {
    let rows =
        document.arms.iter().map(|arm| &arm.scores).chain(document.mixture.as_ref().map(|mixture| &mixture.scores));
    let mut names: Vec<String> = rows.flat_map(BTreeMap::keys).cloned().collect();
    names.sort();
    names.dedup();
    let known = |name: &String| Metric::ALL.iter().position(|metric| metric.name() == name).unwrap_or(usize::MAX);
    names.sort_by_key(known);
    let spread_of_another =
        |name: &String| name.strip_suffix("_std").is_some_and(|metric| names.iter().any(|n| n == metric));
    names.iter().filter(|name| !spread_of_another(name)).cloned().collect()
}

/// The number after ± and its JSON pointer: a standard error, or the standard deviation between subsets.
fn error(metric: &str, scores: &Values, errors: &Errors) -> Option<(f64, String)> {
    let spread = format!("{metric}_std");
    match (errors.get(metric), scores.get(&spread)) {
        (Some(&Some(error)), _) => Some((error, format!("errors/{}", pointer(metric)))),
        (_, Some(&value)) => Some((value, format!("scores/{}", pointer(&spread)))),
        _ => None,
    }
}

/// A setting as text: `{"name": "gaussian", "bandwidth": 20.0}` is "gaussian, bandwidth 20".
fn setting(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), numbers::tick),
        Value::Null => "automatic".into(),
        Value::Array(values) => values.iter().map(setting).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| match key.as_str() {
                "name" => setting(value),
                _ => format!("{} {}", key.replace('_', " "), setting(value)),
            };
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

pub(super) fn blocks(document: &Scores, place: &Place) -> Vec<Block> {
    let at = &place.at;
    let mut rows: Vec<(&str, &Values, &Errors, String)> = document
        .arms
        .iter()
        .enumerate()
        .map(|(index, arm)| (arm.name.as_str(), &arm.scores, &arm.errors, format!("{at}/arms/{index}")))
        .collect();
    if let Some(mixture) = &document.mixture {
        rows.push(("mixture", &mixture.scores, &mixture.errors, format!("{at}/mixture")));
    }
    let mut table = Table::new("Arm", Vec::new(), rows.iter().map(|(name, ..)| Row::new(name, Vec::new())).collect());
    if document.mixture.is_some() {
        table.rows.last_mut().expect("the mixture has just been given a row").apart = true;
    }
    let mut subsets = Vec::new();
    for metric in metrics(document) {
        let better = more_is_better(&metric);
        table.columns.push(match better {
            Some(true) => Column::meaning(format!("{}\u{a0}↑", title(&metric)), "higher is better"),
            Some(false) => Column::meaning(format!("{}\u{a0}↓", title(&metric)), "lower is better"),
            None => Column::new(title(&metric)),
        });
        let values = rows.iter().filter_map(|(_, scores, ..)| scores.get(&metric).copied());
        let found = rows.iter().filter_map(|(_, scores, errors, _)| error(&metric, scores, errors));
        let digits = Digits::of(values.clone(), found.map(|(error, _)| error));
        let finite = values.filter(|value| value.is_finite());
        let best = match better {
            Some(true) => finite.max_by(f64::total_cmp),
            Some(false) => finite.min_by(f64::total_cmp),
            None => None,
        };
        if rows.iter().any(|(_, scores, ..)| scores.contains_key(&format!("{metric}_std"))) {
            subsets.push(title(&metric));
        }
        for ((_, scores, errors, at), row) in rows.iter().zip(&mut table.rows) {
            let Some(&value) = scores.get(&metric) else {
                row.cells.push(Cell::missing());
                continue;
            };
            let mut cell = Cell::number(value, digits, format!("{at}/scores/{}", pointer(&metric)));
            cell.best = best.is_some_and(|best| digits.write(best) == digits.write(value));
            if let Some((error, place)) = error(&metric, scores, errors).filter(|(error, _)| error.is_finite()) {
                cell = cell.within(error, digits, format!("{at}/{place}"));
            }
            row.cells.push(cell);
        }
    }
    let spread = match &subsets[..] {
        [] => String::new(),
        names => format!(" For {}, ± is the standard deviation between subsets.", names.join(" and ")),
    };
    let caption = format!(
        "Scores of the arms and of the mixture; the best value per metric is bold. ↑: higher is better; ↓: lower is better; \
         ±: standard error.{spread}"
    );
    let settings = serde_json::to_value(&document.settings).unwrap_or_default();
    let fact = |(key, value): (&String, &Value)| Fact::new(key.replace('_', " "), setting(value));
    let mut block = TableBlock::new(caption, table);
    block.settings = settings.as_object().into_iter().flatten().map(fact).collect();
    vec![Block::Table(block)]
}
