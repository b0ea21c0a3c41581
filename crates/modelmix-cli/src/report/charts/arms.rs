//! Charts of weights, of the shares of a curated set, and of the similarity of arms.

use std::sync::Arc;

use kuva::prelude::{BarPlot, ColorMap, Heatmap, Plot, TextAnnotation, TickFormat};
use modelmix::{Curated, Mixture};

use super::{Chart, finite, percents, step, width};
use crate::report::colours::Medium;
use crate::report::names::{label, short, shorten};
use crate::report::numbers::{self, Digits};

/// The weights as bars with their intervals, in descending order; of many arms without weight only the best single one is drawn.
pub(in crate::report) fn weights(document: &Mixture) -> Chart<'_> {
    let (listed, _) = document.listed_arms();
    let arms = listed.iter().map(|&arm| &document.arms[arm]);
    shares("weights", arms.map(|arm| (arm.name.clone(), arm.weight, arm.interval)).collect(), "share of the mixture")
}

/// The shares of a curated set as bars.
pub(in crate::report) fn chosen(document: &Curated) -> Chart<'_> {
    let bars = document.arms.iter().map(|arm| (arm.name.clone(), arm.share, None)).collect();
    shares("chosen", bars, "share of the set")
}

/// One bar per arm, with its name, share and interval.
fn shares<'a>(name: &'static str, arms: Vec<(String, f64, Option<[f64; 2]>)>, axis: &'static str) -> Chart<'a> {
    Chart::single(name, Vec::new(), move |canvas| {
        let names: Vec<String> = arms.iter().map(|(name, ..)| name.clone()).collect();
        let names = short(&names, if canvas.narrow() { 14 } else { 34 });
        let labels: Vec<String> = names
            .iter()
            .zip(numbers::percents(&arms.iter().map(|(_, share, _)| *share).collect::<Vec<_>>()))
            .map(|(name, share)| format!("{}  {share}", label(name)))
            .collect();
        // kuva numbers categories from the bottom.
        let bars = labels.iter().zip(&arms).rev();
        let mut plot = BarPlot::new().with_horizontal(true).with_width(0.64).with_colored_bars(
            bars.map(|(label, (_, share, _))| (label.clone(), finite(*share), canvas.medium.series(0))),
        );
        let interval = |share: f64, interval: Option<[f64; 2]>| {
            interval.map_or((0.0, 0.0), |[low, high]| (finite(share - low).max(0.0), finite(high - share).max(0.0)))
        };
        if arms.iter().any(|(_, _, interval)| interval.is_some()) {
            plot = plot
                .with_asymmetric_error(arms.iter().rev().map(|(_, share, known)| interval(*share, *known)))
                .with_error_color(canvas.medium.ink())
                .with_error_cap_width(0.45);
        }
        let high = arms.iter().map(|(_, share, known)| finite(*share) + interval(*share, *known).1);
        let high = high.fold(0.05, f64::max);
        let plots = vec![Plot::from(plot)];
        let left = labels.iter().map(|label| width(label)).fold(0.0, f64::max) + 18.0;
        let layout = canvas
            .layout(&plots, 46.0 + 24.0 * arms.len() as f64)
            .with_force_margins(left, 24.0)
            .with_force_margins_y(6.0, 40.0)
            .with_x_tick_format(percents())
            .with_x_axis_min(0.0)
            .with_x_axis_max((1.06 * high).min(high.max(1.0)))
            .with_x_tick_step(step(high, if canvas.narrow() { 3.0 } else { 6.0 }))
            .with_x_label(axis);
        (plots, layout)
    })
}

/// K, the similarity of each pair of arms, as a heat map; `None` if there is only one arm. In the page the colour scale is outside
/// the drawing, in a file inside it.
pub(in crate::report) fn kernel_means(document: &Mixture) -> Option<Chart<'_>> {
    let chart = Chart::single("kernel", Vec::new(), move |canvas| {
        let count = document.arms.len();
        let names: Vec<String> = document.arms.iter().map(|arm| arm.name.clone()).collect();
        let scale = if canvas.medium == Medium::File { 84.0 } else { 12.0 };
        let longest = |names: &[String]| names.iter().map(|name| width(name)).fold(0.0, f64::max) + 18.0;
        let side = |left: f64| ((canvas.width - left - scale) / count as f64).min(88.0);
        let (rows, columns) = rows_and_columns(&names, canvas.narrow(), |rows| longest(rows) < side(longest(rows)));
        let left = longest(&rows);
        let side = side(left);
        let values: Vec<Vec<f64>> =
            document.form.rows().into_iter().rev().map(|row| row.into_iter().map(finite).collect()).collect();
        let medium = canvas.medium;
        let plot = Heatmap::new()
            .with_data(values.clone())
            .with_color_map(ColorMap::Custom(Arc::new(move |share| medium.heat(share))))
            .with_cell_size(1.0);
        let plots = vec![Plot::from(plot)];
        let right = if medium == Medium::File { scale } else { canvas.width - left - side * count as f64 };
        // Rows keep the height of their names if columns are narrower.
        let mut layout = canvas
            .layout(&plots, side.clamp(17.0, 60.0) * count as f64 + 36.0)
            .with_width(left + side * count as f64 + right)
            .with_force_margins(left, right)
            .with_force_margins_y(8.0, 28.0)
            .with_show_grid(false)
            .with_x_axis_min(0.5)
            .with_x_axis_max(count as f64 + 0.5)
            .with_y_axis_min(0.5)
            .with_y_axis_max(count as f64 + 0.5)
            .with_colorbar_tick_format(TickFormat::Custom(Arc::new(numbers::tick)))
            .with_x_categories(thinned(columns, side).iter().map(|name| label(name)).collect())
            .with_y_categories(rows.iter().rev().map(|name| label(name)).collect());
        layout.show_colorbar = medium == Medium::File;
        let digits = Digits::of(values.iter().flatten().copied(), std::iter::empty());
        let widest = values.iter().flatten().map(|&value| width(&digits.write(value))).fold(0.0, f64::max);
        if widest < side {
            // kuva draws the baseline of a text six units above its position.
            let drop = 10.0 / side.clamp(17.0, 60.0);
            for (y, row) in values.iter().enumerate() {
                for (x, &value) in row.iter().enumerate() {
                    let (x, y) = (x as f64 + 1.0, y as f64 + 1.0 - drop);
                    layout = layout.with_annotation(TextAnnotation::new(digits.write(value), x, y));
                }
            }
        }
        (plots, layout)
    });
    (document.arms.len() > 1).then_some(chart)
}

/// Labels of rows and columns: if names are too long for columns, columns have numbers, and rows have numbers and
/// names.
fn rows_and_columns(names: &[String], narrow: bool, fit: impl Fn(&[String]) -> bool) -> (Vec<String>, Vec<String>) {
    let rows = short(names, if narrow { 12 } else { 30 });
    if fit(&rows) {
        return (rows.clone(), rows);
    }
    let most = if narrow { 11 } else { 30 };
    let row = |(index, name): (usize, &String)| format!("{} {}", index + 1, shorten(name, most));
    (names.iter().enumerate().map(row).collect(), (1..=names.len()).map(|number| number.to_string()).collect())
}

/// Labels of columns that are too narrow for all numbers: the first, and every fifth.
fn thinned(columns: Vec<String>, side: f64) -> Vec<String> {
    if side >= 19.0 {
        return columns;
    }
    let keep = |index: usize| index == 0 || (index + 1).is_multiple_of(5);
    columns.into_iter().enumerate().map(|(index, name)| if keep(index) { name } else { String::new() }).collect()
}
