//! Charts of the Pareto front and of the sensitivity to the bandwidth.

use std::sync::Arc;

use kuva::prelude::{LinePlot, Plot, ScatterPlot, StackedAreaPlot, TextAnnotation, TickFormat};
use modelmix::Mixture;
use modelmix::mixture::{FrontPoint, SensitivityDocument};

use super::{Canvas, Chart, Drawn, Key, PANEL_WIDTH, Paint, Panel, Stroke, finite, percents};
use crate::report::colours::{Medium, SERIES_COLOURS};
use crate::report::names::{label, shorten};
use crate::report::numbers;

/// A range with a margin.
fn around(values: impl Iterator<Item = f64>, room: f64) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let margin = (room * (high - low)).max(1e-6 * high.abs()).max(1e-12);
    (low - margin, high + margin)
}

/// The Pareto front: the score of A against that of B, from the best for A to the best for B, with labels of some λ; `None` if one
/// mixture is the best for both.
pub(in crate::report) fn front(document: &Mixture) -> Option<Chart<'_>> {
    let front = document.worth.front.as_ref()?;
    let is_known = |point: &&FrontPoint| point.score.is_finite() && point.second_score.is_finite();
    let points: Vec<&FrontPoint> = front.points.iter().filter(is_known).collect();
    if points.len() < 2 {
        return None;
    }
    Some(Chart::single("front", Vec::new(), move |canvas| {
        let at = |point: &FrontPoint| (point.second_score, point.score);
        let colour = canvas.medium.series(0);
        let line = LinePlot::new().with_data(points.iter().map(|point| at(point)));
        let line = line.with_color(colour.clone()).with_stroke_width(1.8);
        let marked = labelled(&points, if canvas.narrow() { 3 } else { 5 });
        let dots = ScatterPlot::new().with_data(marked.iter().map(|&index| at(points[index])));
        let dots = dots.with_color(colour).with_size(4.0);
        let plots = vec![Plot::from(line), Plot::from(dots)];
        let (left, right) = around(points.iter().map(|point| point.second_score), 0.14);
        let (low, high) = around(points.iter().map(|point| point.score), 0.14);
        let height = if canvas.narrow() { 260.0 } else { 380.0 };
        let mut layout = canvas
            .layout(&plots, height)
            .with_x_axis_min(left)
            .with_x_axis_max(right)
            .with_y_axis_min(low)
            .with_y_axis_max(high)
            .with_x_label(label(&shorten(&front.score.name, 40)));
        layout = if canvas.narrow() {
            layout.with_force_margins(52.0, 18.0).with_force_margins_y(10.0, 42.0)
        } else {
            layout.with_y_label(label(&shorten(&document.score.name, 40)))
        };
        for index in marked {
            let (x, y) = at(points[index]);
            let text = match points[index].multiplier {
                Some(multiplier) => format!("λ {}", numbers::tick(two_digits(multiplier))),
                None => "λ → ∞".into(),
            };
            layout = layout.with_annotation(TextAnnotation::new(text, x, y + 0.03 * (high - low)));
        }
        (plots, layout)
    }))
}

fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// Points with a label of λ: the ends, and some with enough distance from them and from each other.
fn labelled(points: &[&FrontPoint], most: usize) -> Vec<usize> {
    let last = points.len() - 1;
    let range = |of: fn(&FrontPoint) -> f64| (of(points[last]) - of(points[0])).abs().max(f64::MIN_POSITIVE);
    let (wide, high) = (range(|point| point.second_score), range(|point| point.score));
    let apart = |a: usize, b: usize| {
        let (a, b) = (points[a], points[b]);
        ((a.second_score - b.second_score).abs() / wide).max((a.score - b.score).abs() / high)
    };
    let mut chosen = vec![0, last];
    for index in 1..last {
        if chosen.len() < most && chosen.iter().all(|&other| apart(index, other) > 0.8 / (most - 1) as f64) {
            chosen.push(index);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The weights by bandwidth, and the gain over the best single arm; `None` if there is only one bandwidth.
pub(in crate::report) fn sensitivity(document: &Mixture) -> Option<Chart<'_>> {
    let tried = document.worth.sensitivity.as_ref().filter(|tried| tried.points.len() > 1)?;
    let arms = drawn_arms(document, tried);
    let name = |(index, &arm): (usize, &usize)| Key {
        name: document.arms[arm].name.clone(),
        paint: Paint::Series(index),
        stroke: Stroke::Area,
    };
    let mut keys: Vec<Key> = arms.iter().enumerate().map(name).collect();
    let pooled = document.arms.len() - arms.len();
    if pooled > 0 {
        keys.push(Key { name: format!("the other {pooled} arms"), paint: Paint::Rest, stroke: Stroke::Area });
    }
    let panels = vec![
        Panel {
            title: Some("weights by bandwidth".into()),
            draw: Box::new(move |canvas| weights(canvas, tried, &arms)),
        },
        Panel { title: Some("gain by bandwidth".into()), draw: Box::new(move |canvas| gains(canvas, tried)) },
    ];
    Some(Chart { name: "bandwidths", keys, panels })
}

/// All arms if there are few, otherwise those with the largest weights.
fn drawn_arms(document: &Mixture, tried: &SensitivityDocument) -> Vec<usize> {
    let mut arms: Vec<usize> = (0..document.arms.len()).collect();
    if arms.len() > SERIES_COLOURS {
        let largest = |arm: usize| tried.points.iter().map(|point| finite(point.weights[arm])).fold(0.0, f64::max);
        arms.sort_by(|&a, &b| largest(b).total_cmp(&largest(a)).then(a.cmp(&b)));
        arms.truncate(SERIES_COLOURS);
        arms.sort_unstable();
    }
    arms
}

/// Positions on a logarithmic axis: doublings of the bandwidth in use.
fn doublings(tried: &SensitivityDocument) -> Vec<f64> {
    tried.points.iter().map(|point| finite((point.bandwidth / tried.in_use).log2())).collect()
}

fn over_bandwidths(canvas: &Canvas, plots: &[Plot], tried: &SensitivityDocument) -> kuva::prelude::Layout {
    let places = doublings(tried);
    let (first, last) = (places[0], places[places.len() - 1]);
    let in_use = tried.in_use;
    let tick = move |doublings: f64| numbers::tick(in_use * doublings.exp2());
    let layout = canvas
        .layout(plots, 0.66 * PANEL_WIDTH)
        .with_ticks(3)
        .with_tick_size(11)
        .with_x_axis_min(first)
        .with_x_axis_max(if last > first { last } else { first + 1.0 })
        .with_x_tick_step(((last - first) / 2.0).ceil().max(1.0))
        .with_x_tick_format(TickFormat::Custom(Arc::new(tick)))
        .with_y_tick_format(percents())
        .with_show_grid(false)
        .with_force_margins(42.0, 16.0);
    if canvas.medium == Medium::Page { layout.with_force_margins_y(6.0, 22.0) } else { layout }
}

fn weights(canvas: &Canvas, tried: &SensitivityDocument, arms: &[usize]) -> Drawn {
    let mut plot = StackedAreaPlot::new().with_x(doublings(tried)).with_fill_opacity(1.0).with_strokes(false);
    for (index, &arm) in arms.iter().enumerate() {
        let series = tried.points.iter().map(|point| finite(point.weights[arm]));
        plot = plot.with_series(series).with_color(Paint::Series(index).on(canvas.medium));
    }
    if tried.points[0].weights.len() > arms.len() {
        let rest = tried
            .points
            .iter()
            .map(|point| (1.0 - arms.iter().map(|&arm| finite(point.weights[arm])).sum::<f64>()).max(0.0));
        plot = plot.with_series(rest).with_color(Paint::Rest.on(canvas.medium));
    }
    let plots = vec![Plot::from(plot)];
    let layout = over_bandwidths(canvas, &plots, tried).with_y_axis_min(0.0).with_y_axis_max(1.0).with_y_tick_step(0.5);
    (plots, layout)
}

/// The gain relative to the loss of the best single arm, so that bandwidths are comparable.
fn gains(canvas: &Canvas, tried: &SensitivityDocument) -> Drawn {
    let share = |gain: f64, loss: f64| finite(gain / (gain + loss).abs());
    let shares: Vec<f64> = tried.points.iter().map(|point| share(point.gain, point.loss)).collect();
    let line = LinePlot::new().with_data(doublings(tried).into_iter().zip(shares.iter().copied()));
    let line = line.with_color(canvas.medium.ink()).with_stroke_width(1.7);
    let plots = vec![Plot::from(line)];
    let high = shares.iter().copied().fold(0.0, f64::max).max(1e-6);
    let low = shares.iter().copied().fold(0.0, f64::min);
    let layout = over_bandwidths(canvas, &plots, tried).with_y_axis_min(low).with_y_axis_max(1.1 * high);
    (plots, layout)
}
