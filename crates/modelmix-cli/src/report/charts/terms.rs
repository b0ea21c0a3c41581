//! The chart of the terms of an objective: values of each arm and of the mixture, one panel per term and one for the loss.

use kuva::prelude::{BarPlot, Plot};
use modelmix::Mixture;

use super::{Chart, Panel, finite, step, width};
use crate::report::names::{label, short};
use crate::report::numbers;

/// Contents of a panel: its title, and one value per arm and for the mixture.
struct Values {
    title: String,
    values: Vec<f64>,
}

/// One panel per term and one for the loss; `None` if the objective has one term, since the loss shows the same.
pub(in crate::report) fn terms(document: &Mixture) -> Option<Chart<'_>> {
    let names = document.term_names();
    if names.is_empty() {
        return None;
    }
    let arms: Vec<_> = document.listed_arms().0.iter().map(|&arm| &document.arms[arm]).collect();
    let mut all: Vec<Values> = names
        .into_iter()
        .enumerate()
        .map(|(term, title)| {
            let of_arms = arms.iter().map(|arm| arm.terms.get(term)).chain([document.mixture.terms.get(term)]);
            Values { title, values: of_arms.map(|term| finite(term.map_or(0.0, |term| term.score))).collect() }
        })
        .collect();
    let losses = arms.iter().map(|arm| arm.loss).chain([document.mixture.loss]).map(finite).collect();
    all.push(Values { title: "loss".into(), values: losses });
    let mut rows: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
    rows.push("mixture".into());
    let rows = short(&rows, 12);
    let panel = |Values { title, values }: Values| {
        let rows = rows.clone();
        Panel { title: Some(title), draw: Box::new(move |canvas| panel(canvas, &rows, &values)) }
    };
    Some(Chart { name: "terms", keys: Vec::new(), panels: all.into_iter().map(panel).collect() })
}

fn panel(canvas: &super::Canvas, rows: &[String], values: &[f64]) -> super::Drawn {
    let labels: Vec<String> =
        rows.iter().zip(values).map(|(row, value)| format!("{}  {}", label(row), numbers::brief(*value))).collect();
    let mixture = rows.len() - 1;
    // kuva numbers categories from the bottom.
    let bars = labels.iter().zip(values).enumerate().rev();
    let plot = BarPlot::new().with_horizontal(true).with_width(0.64).with_colored_bars(
        bars.map(|(row, (label, value))| (label.clone(), *value, canvas.medium.series(usize::from(row == mixture)))),
    );
    let plots = vec![Plot::from(plot)];
    let (low, high) = values.iter().fold((0.0f64, 0.0f64), |(low, high), value| (low.min(*value), high.max(*value)));
    let reach = if high > low { high - low } else { 1.0 };
    let left = labels.iter().map(|label| 0.9 * width(label)).fold(0.0, f64::max) + 12.0;
    let layout = canvas
        .layout(&plots, 34.0 + 20.0 * rows.len() as f64)
        .with_tick_size(11)
        .with_force_margins(left.min(0.72 * canvas.width), 14.0)
        .with_force_margins_y(4.0, 24.0)
        .with_x_axis_min(if low < 0.0 { low - 0.04 * reach } else { 0.0 })
        .with_x_axis_max(if high > 0.0 { high + 0.04 * reach } else { 0.0 })
        .with_x_tick_step(step(reach, 2.0));
    (plots, layout)
}
