//! Cells of numbers: text with three digits, and values with all digits.

use modelmix::internals::numbers::{self, brief, count};

use super::{Cell, MISSING, Value};

fn value(value: Option<f64>) -> Value {
    value.map_or(Value::Missing, Value::Number)
}

/// A number with three significant digits.
pub fn brief_cell(number: impl Into<Option<f64>>) -> Cell {
    let number = number.into();
    let text = number.filter(|number| number.is_finite()).map_or(MISSING.into(), brief);
    Cell::new(text, vec![(String::new(), value(number))])
}

/// A number with ±; `what` names the second number (error, std).
pub fn spread(number: f64, error: Option<f64>, what: &str) -> Cell {
    let after = error.filter(|error| error.is_finite()).map(|error| format!(" ± {}", brief(error)));
    let cell = brief_cell(number);
    let text = format!("{}{}", cell.text, after.unwrap_or_default());
    Cell::new(text, vec![(String::new(), Value::Number(number)), (format!(" {what}"), value(error))])
}

/// A share as a percentage.
pub fn percent(share: f64) -> Cell {
    Cell::new(numbers::percent(share), vec![(String::new(), Value::Number(share))])
}

/// Shares of a whole as percentages, rounded so that they sum to 100%.
pub fn percents(shares: impl IntoIterator<Item = f64>) -> Vec<Cell> {
    let shares: Vec<f64> = shares.into_iter().collect();
    let cell = |(text, &share): (String, &f64)| Cell::new(text, vec![(String::new(), Value::Number(share))]);
    numbers::percents(&shares).into_iter().zip(&shares).map(cell).collect()
}

/// An interval of shares.
pub fn interval(ends: Option<[f64; 2]>) -> Cell {
    let text =
        ends.map_or(String::new(), |[low, high]| format!("{}–{}", numbers::percent(low), numbers::percent(high)));
    let [low, high] = ends.map_or([Value::Missing, Value::Missing], |ends| ends.map(Value::Number));
    Cell::new(text, vec![(" low".into(), low), (" high".into(), high)])
}

/// A mixture, the largest share first.
pub fn shares(arms: &[String], weights: &[f64]) -> Cell {
    let mut used: Vec<usize> = (0..arms.len()).filter(|&arm| weights[arm] > 0.0).collect();
    used.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let written = numbers::percents(weights);
    let text: Vec<String> = used.iter().map(|&arm| format!("{} {}", arms[arm], written[arm])).collect();
    let values = arms.iter().zip(weights).map(|(arm, &weight)| (format!(" {arm}"), Value::Number(weight)));
    Cell::new(text.join(", "), values.collect())
}

/// A name and its number, such as "flow 1.97"; `what` names the number.
pub fn best_of(name: &str, text: String, number: f64, what: &str) -> Cell {
    let values = vec![(String::new(), Value::Name(name.into())), (format!(" {what}"), Value::Number(number))];
    Cell::new(format!("{name} {text}"), values)
}

/// A whole number with commas between thousands.
pub fn count_cell(number: usize) -> Cell {
    Cell::new(count(number), vec![(String::new(), Value::Count(number as u64))])
}

/// A number of rounds, which may be the mean or the median of several.
pub fn rounds(number: Option<f64>) -> Cell {
    let text = number.map_or(MISSING.into(), |number| count((number + 0.5).floor() as usize));
    Cell::new(text, vec![(String::new(), value(number))])
}
