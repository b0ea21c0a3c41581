//! Charts of simulations over the number of samples: loss, regret, and shares of the arms.

use std::collections::BTreeSet;

use kuva::prelude::{BandPlot, Layout, LinePlot, Plot, StackedAreaPlot};
use modelmix::SimulationReport;
use modelmix::simulate::PolicyReport;

use super::{Canvas, Chart, Key, PANEL_WIDTH, Paint, Panel, Stroke, finite, percents, style};
use crate::report::colours::{Medium, SERIES_COLOURS};

/// The range and the scale of a vertical axis.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// Logarithmic if all values are positive and span more than a factor of five.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        if low > 0.0 && high > 5.0 * low {
            return Some(Self { low: 0.85 * low, high: 1.12 * high, logarithmic: true });
        }
        let margin = (0.06 * (high - low)).max(1e-3 * high.abs()).max(1e-12);
        Some(Self { low: low - margin, high: high + margin, logarithmic: false })
    }

    fn apply(&self, layout: Layout) -> Layout {
        let layout = layout.with_y_axis_min(self.low).with_y_axis_max(self.high);
        if self.logarithmic { layout.with_log_y() } else { layout }
    }
}

/// Whether the axis of the loss is logarithmic, for the caption.
pub(in crate::report) fn loss_is_logarithmic(document: &SimulationReport) -> bool {
    loss_scale(document).is_some_and(|scale| scale.logarithmic)
}

fn loss_scale(document: &SimulationReport) -> Option<Scale> {
    let means = policies(document).flat_map(|(_, policy)| policy.loss.mean.iter().copied());
    let upper = |policy: &PolicyReport| {
        let ends = policy.loss.mean.last().zip(policy.loss.std.last());
        ends.map(|(mean, std)| mean + std)
    };
    let upper = policies(document).filter_map(|(_, policy)| upper(policy));
    Scale::of(means.chain(upper).chain([document.optimum.loss, document.best_single.loss]))
}

/// The policies in the order of the document.
pub(in crate::report) fn policies(document: &SimulationReport) -> impl Iterator<Item = (&String, &PolicyReport)> {
    document.order.iter().filter_map(|name| document.policies.get_key_value(name))
}

fn policy_keys(document: &SimulationReport) -> Vec<Key> {
    let stroke = |index: usize| [Stroke::Solid, Stroke::Dashed, Stroke::Dotted][(index / SERIES_COLOURS) % 3];
    let key = |(index, (name, _)): (usize, (&String, _))| Key {
        name: name.clone(),
        paint: Paint::Series(index),
        stroke: stroke(index),
    };
    policies(document).enumerate().map(key).collect()
}

/// A line over rounds.
fn curve(canvas: &Canvas, key: &Key, rounds: &[usize], values: &[f64]) -> Plot {
    let points = rounds.iter().zip(values).filter(|(_, value)| value.is_finite());
    let points: Vec<(f64, f64)> = points.map(|(&round, &value)| (round as f64, value)).collect();
    let line = LinePlot::new().with_data(points).with_color(key.paint.on(canvas.medium)).with_stroke_width(1.7);
    Plot::from(line.with_line_style(style(key.stroke)))
}

fn level(canvas: &Canvas, key: &Key, last: f64, value: f64) -> Plot {
    let ends = [(0.0, value), (last, value)].into_iter().filter(|_| value.is_finite());
    let line = LinePlot::new().with_data(ends).with_color(key.paint.on(canvas.medium));
    Plot::from(line.with_stroke_width(1.3).with_line_style(style(key.stroke)))
}

fn last_round(document: &SimulationReport) -> f64 {
    policies(document).filter_map(|(_, policy)| policy.rounds.last()).max().map_or(1.0, |&last| last as f64)
}

fn over_rounds(canvas: &Canvas, plots: &[Plot], scale: &Scale, last: f64, what: &str) -> Layout {
    let height = if canvas.narrow() { 260.0 } else { 380.0 };
    let layout = scale.apply(canvas.layout(plots, height).with_x_axis_min(0.0).with_x_axis_max(last));
    let layout = layout.with_x_label("samples");
    if canvas.narrow() {
        layout.with_force_margins(52.0, 18.0).with_force_margins_y(10.0, 42.0)
    } else {
        layout.with_y_label(what)
    }
}

/// The loss of the collected samples, over rounds.
pub(in crate::report) fn loss(document: &SimulationReport) -> Option<Chart<'_>> {
    let scale = loss_scale(document)?;
    let mut keys = policy_keys(document);
    let optimum = Key { name: "optimum".into(), paint: Paint::Ink, stroke: Stroke::Dashed };
    let single = format!("best single arm, {}", document.best_single.name);
    let single = Key { name: single, paint: Paint::Ink, stroke: Stroke::Dotted };
    keys.extend([optimum.clone(), single.clone()]);
    let lines = keys.clone();
    Some(Chart::single("loss", keys, move |canvas| {
        let mut plots = Vec::new();
        for ((_, policy), key) in policies(document).zip(&lines) {
            if policy.loss.std.iter().all(|&std| !(std.is_finite() && std > 0.0)) {
                continue;
            }
            // A logarithmic axis cannot show values that are not positive; they are drawn below the axis.
            let floor = if scale.logarithmic { 0.5 * scale.low } else { f64::NEG_INFINITY };
            let known = || {
                let points = policy.rounds.iter().zip(&policy.loss.mean).zip(&policy.loss.std);
                points.filter(|((_, mean), std)| mean.is_finite() && std.is_finite())
            };
            let edge = |sign: f64| known().map(move |((_, mean), std)| (mean + sign * std).max(floor));
            let rounds = known().map(|((&round, _), _)| round as f64);
            let band = BandPlot::new(rounds, edge(-1.0), edge(1.0)).with_opacity(0.16);
            plots.push(Plot::from(band.with_color(key.paint.on(canvas.medium))));
        }
        let last = last_round(document);
        plots.push(level(canvas, &optimum, last, document.optimum.loss));
        plots.push(level(canvas, &single, last, document.best_single.loss));
        plots.extend(curves(canvas, document, &lines, |policy| &policy.loss.mean, f64::NEG_INFINITY));
        let layout = over_rounds(canvas, &plots, &scale, last, "loss");
        (plots, layout)
    }))
}

/// The loss of the kept samples, over rounds; `None` if all were kept.
pub(in crate::report) fn kept_loss(document: &SimulationReport) -> Option<Chart<'_>> {
    fn means(policy: &PolicyReport) -> &[f64] {
        policy.kept.as_ref().map_or(&[], |kept| &kept.loss.mean)
    }
    document.select?;
    let values = policies(document).flat_map(|(_, policy)| means(policy).iter().copied());
    let scale = Scale::of(values.chain([document.optimum.loss]))?;
    let mut keys = policy_keys(document);
    let optimum = Key { name: "optimum".into(), paint: Paint::Ink, stroke: Stroke::Dashed };
    keys.push(optimum.clone());
    let lines = keys.clone();
    Some(Chart::single("kept", keys, move |canvas| {
        let last = last_round(document);
        let mut plots = vec![level(canvas, &optimum, last, document.optimum.loss)];
        plots.extend(curves(canvas, document, &lines, means, f64::NEG_INFINITY));
        let layout = over_rounds(canvas, &plots, &scale, last, "loss of the kept samples");
        (plots, layout)
    }))
}

/// The lines of the policies in reverse order, so that the first is on top.
fn curves(
    canvas: &Canvas,
    document: &SimulationReport,
    keys: &[Key],
    of: fn(&PolicyReport) -> &[f64],
    floor: f64,
) -> Vec<Plot> {
    let line = |((_, policy), key): ((_, &PolicyReport), &Key)| {
        let values: Vec<f64> = of(policy).iter().map(|&value| if value < floor { floor } else { value }).collect();
        curve(canvas, key, &policy.rounds, &values)
    };
    let mut lines: Vec<Plot> = policies(document).zip(keys).map(line).collect();
    lines.reverse();
    lines
}

/// The regret of the policies, over rounds, on a logarithmic axis; `None` if it is zero everywhere.
pub(in crate::report) fn regret(document: &SimulationReport) -> Option<Chart<'_>> {
    let regrets = || policies(document).flat_map(|(_, policy)| policy.regret.mean.iter().copied());
    let high = regrets().chain([document.gain]).filter(|regret| regret.is_finite()).fold(0.0, f64::max);
    let low = regrets().filter(|&regret| regret > 1e-5 * high).fold(f64::INFINITY, f64::min);
    if !(high > 0.0 && low.is_finite()) {
        return None;
    }
    let scale = Scale { low: 0.8 * low, high: 1.2 * high, logarithmic: high > 5.0 * low };
    let mut keys = policy_keys(document);
    let single = format!("best single arm, {}", document.best_single.name);
    let single = Key { name: single, paint: Paint::Ink, stroke: Stroke::Dotted };
    keys.push(single.clone());
    let lines = keys.clone();
    Some(Chart::single("regret", keys, move |canvas| {
        let last = last_round(document);
        let mut plots = Vec::new();
        if document.gain > 0.0 {
            plots.push(level(canvas, &single, last, document.gain));
        }
        plots.extend(curves(canvas, document, &lines, |policy| &policy.regret.mean, 0.5 * scale.low));
        let layout = over_rounds(canvas, &plots, &scale, last, "regret");
        (plots, layout)
    }))
}

/// Arms that are drawn separately: all if there are few, otherwise those with the largest final share of any policy or in
/// the optimum. The others are pooled.
fn drawn_arms(document: &SimulationReport) -> Vec<usize> {
    let count = document.arms.len();
    if count <= SERIES_COLOURS {
        return (0..count).collect();
    }
    let mut arms: Vec<usize> = (0..count).collect();
    let largest = |arm: usize| {
        let ends = policies(document).map(|(_, policy)| policy.weights[arm]);
        ends.chain([document.optimum.weights[arm]]).map(finite).fold(0.0, f64::max)
    };
    arms.sort_by(|&a, &b| largest(b).total_cmp(&largest(a)).then(a.cmp(&b)));
    let chosen: BTreeSet<usize> = arms.into_iter().take(SERIES_COLOURS).collect();
    chosen.into_iter().collect()
}

/// The share of each arm in the pulls, over rounds, one panel per policy.
pub(in crate::report) fn shares(document: &SimulationReport) -> Chart<'_> {
    let arms = drawn_arms(document);
    let mut keys: Vec<Key> = arms
        .iter()
        .enumerate()
        .map(|(index, &arm)| Key {
            name: document.arms[arm].clone(),
            paint: Paint::Series(index),
            stroke: Stroke::Area,
        })
        .collect();
    let pooled = document.arms.len() - arms.len();
    if pooled > 0 {
        let name = format!("the other {} arms", pooled);
        keys.push(Key { name, paint: Paint::Rest, stroke: Stroke::Area });
    }
    let panels = policies(document)
        .map(|(name, policy)| {
            let arms = arms.clone();
            Panel { title: Some(name.clone()), draw: Box::new(move |canvas| share_panel(canvas, policy, &arms)) }
        })
        .collect();
    Chart { name: "shares", keys, panels }
}

fn share_panel(canvas: &Canvas, policy: &PolicyReport, arms: &[usize]) -> (Vec<Plot>, Layout) {
    let mut plot = StackedAreaPlot::new()
        .with_x(policy.rounds.iter().map(|&round| round as f64))
        .with_fill_opacity(1.0)
        .with_strokes(false);
    for (index, &arm) in arms.iter().enumerate() {
        let series = policy.shares.iter().map(|shares| finite(shares[arm]));
        plot = plot.with_series(series).with_color(Paint::Series(index).on(canvas.medium));
    }
    if policy.shares.first().is_some_and(|shares| shares.len() > arms.len()) {
        let rest = |shares: &Vec<f64>| (1.0 - arms.iter().map(|&arm| finite(shares[arm])).sum::<f64>()).max(0.0);
        plot = plot.with_series(policy.shares.iter().map(rest)).with_color(Paint::Rest.on(canvas.medium));
    }
    let plots = vec![Plot::from(plot)];
    let (first, last) = (policy.rounds.first().copied().unwrap_or(0), policy.rounds.last().copied().unwrap_or(1));
    let mut layout = canvas
        .layout(&plots, 0.66 * PANEL_WIDTH)
        .with_ticks(3)
        .with_tick_size(11)
        .with_x_axis_min(if first < last { first as f64 } else { first as f64 - 1.0 })
        .with_x_axis_max(last as f64)
        .with_y_axis_min(0.0)
        .with_y_axis_max(1.0)
        .with_y_tick_step(0.5)
        .with_y_tick_format(percents())
        .with_show_grid(false)
        .with_force_margins(42.0, 16.0);
    if canvas.medium == Medium::Page {
        layout = layout.with_force_margins_y(6.0, 22.0);
    }
    (plots, layout)
}
