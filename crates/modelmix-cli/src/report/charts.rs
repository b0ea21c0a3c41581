//! The charts: which numbers go into which kind of drawing. kuva draws them, once for wide pages, once for phones and once
//! for files.

use std::collections::BTreeSet;
use std::sync::Arc;

use kuva::prelude::{
    BandPlot, BarPlot, ColorMap, Heatmap, Layout, LegendEntry, LegendPosition, LegendShape, LinePlot, LineStyle, Plot,
    StackedAreaPlot, TextAnnotation, Theme, TickFormat,
};
use kuva::render::figure::Figure as Panels;
use kuva::render::render::{Scene, render_multiple};
use modelmix::document::{SimulateDocument, SimulatedPolicy, SolveDocument};

use super::colours::{Medium, SERIES};
use super::figure::{Drawing, FONT, Figure};
use super::names::{label, short, shorten};
use super::numbers::{self, Digits};

/// Widths of drawings, in the pixels of the page.
const WIDE: f64 = 720.0;
const NARROW: f64 = 328.0;
const PANEL: f64 = 232.0;

/// A chart, to be drawn as often as there are places for it.
pub(super) struct Chart<'a> {
    /// What it shows, as part of a file's name.
    pub(super) name: &'static str,
    /// What its lines and areas stand for; empty where labels say so.
    pub(super) keys: Vec<Key>,
    panels: Vec<Panel<'a>>,
}

struct Panel<'a> {
    title: Option<String>,
    draw: Box<dyn Fn(&Canvas) -> (Vec<Plot>, Layout) + 'a>,
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) paint: Paint,
    pub(super) stroke: Stroke,
}

/// Whose colour something has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Series(usize),
    Ink,
    Rest,
}

/// How it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid,
    Dashed,
    Dotted,
    Area,
}

impl Paint {
    fn on(self, medium: Medium) -> String {
        match self {
            Paint::Series(index) => medium.series(index),
            Paint::Ink => medium.ink(),
            Paint::Rest => medium.rest(),
        }
    }
}

/// Where a chart is drawn.
struct Canvas {
    medium: Medium,
    width: f64,
}

impl Canvas {
    fn narrow(&self) -> bool {
        self.width < 500.0
    }

    fn layout(&self, plots: &[Plot], height: f64) -> Layout {
        let theme = Theme {
            background: self.medium.background(),
            axis_color: self.medium.quiet(),
            grid_color: self.medium.grid(),
            tick_color: self.medium.quiet(),
            text_color: self.medium.ink(),
            legend_bg: "none".into(),
            legend_border: "none".into(),
            colorbar_border: "none".into(),
            font_family: Some(FONT.into()),
            ..Theme::light()
        };
        let mut layout = Layout::auto_from_plots(plots)
            .with_width(self.width)
            .with_height(height)
            .with_theme(theme)
            .with_tick_size(12)
            .with_label_size(13)
            .with_ticks(if self.narrow() { 4 } else { 6 })
            .with_x_tick_format(TickFormat::Custom(Arc::new(numbers::tick)))
            .with_y_tick_format(TickFormat::Custom(Arc::new(numbers::tick)));
        layout.show_legend = false;
        layout
    }
}

/// A panel of the page: once for wide screens, once for narrow ones, unless it is small anyway.
pub(super) struct Views {
    pub(super) title: Option<String>,
    pub(super) wide: Drawing,
    pub(super) narrow: Option<Drawing>,
}

impl<'a> Chart<'a> {
    fn single(name: &'static str, keys: Vec<Key>, draw: impl Fn(&Canvas) -> (Vec<Plot>, Layout) + 'a) -> Self {
        Self { name, keys, panels: vec![Panel { title: None, draw: Box::new(draw) }] }
    }

    /// The drawings for the page; `id` is that of the figure.
    pub(super) fn views(&self, id: &str) -> Vec<Views> {
        let draw = |panel: &Panel, width: f64, id: String| {
            let (plots, layout) = (panel.draw)(&Canvas { medium: Medium::Page, width });
            Drawing::new(&render_multiple(plots, layout), &id)
        };
        let small = self.panels.iter().any(|panel| panel.title.is_some());
        self.panels
            .iter()
            .enumerate()
            .map(|(index, panel)| Views {
                title: panel.title.clone(),
                wide: draw(panel, if small { PANEL } else { WIDE }, format!("{id}-{index}-wide")),
                narrow: (!small).then(|| draw(panel, NARROW, format!("{id}-{index}-narrow"))),
            })
            .collect()
    }

    /// The chart as a file, its legend in it.
    pub(super) fn file(&self, name: &str) -> Figure {
        let drawing = Drawing::new(&self.scene(), name);
        Figure { name: name.into(), svg: drawing.file(&Medium::File.ink()) }
    }

    fn scene(&self) -> Scene {
        let entries = self.legend();
        if let [panel] = &self.panels[..] {
            let (plots, layout) = (panel.draw)(&Canvas { medium: Medium::File, width: WIDE });
            if entries.is_empty() {
                return render_multiple(plots, layout);
            }
            let height = layout.height.unwrap_or(WIDE / 2.0);
            let rows = entries.len().div_ceil(2) as f64;
            let mut layout = layout
                .with_legend_entries(entries)
                .with_legend_position(LegendPosition::OutsideBottomColumns)
                .with_legend_col_limit(2)
                .with_legend_box(false)
                .with_height(height + 30.0 + 18.0 * rows);
            layout.show_legend = true;
            return render_multiple(plots, layout);
        }
        let columns = self.panels.len().min(3);
        let rows = self.panels.len().div_ceil(columns);
        let (mut plots, mut layouts) = (Vec::new(), Vec::new());
        for panel in &self.panels {
            let (drawn, layout) = (panel.draw)(&Canvas { medium: Medium::File, width: PANEL });
            let title = panel.title.as_deref().unwrap_or_default();
            plots.push(drawn);
            layouts.push(layout.with_title(label(&shorten(title, 30))).with_title_size(13));
        }
        Panels::new(rows, columns)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_cell_size(1.1 * PANEL, 0.9 * PANEL)
            .with_shared_legend_entries(entries)
            .with_shared_legend_bottom()
            .render()
    }

    fn legend(&self) -> Vec<LegendEntry> {
        self.keys
            .iter()
            .map(|key| LegendEntry {
                label: label(&shorten(&key.name, 44)),
                color: key.paint.on(Medium::File),
                shape: if key.stroke == Stroke::Area { LegendShape::Rect } else { LegendShape::Line },
                dasharray: style(key.stroke).dasharray(),
            })
            .collect()
    }
}

fn style(stroke: Stroke) -> LineStyle {
    match stroke {
        Stroke::Solid | Stroke::Area => LineStyle::Solid,
        Stroke::Dashed => LineStyle::Dashed,
        Stroke::Dotted => LineStyle::Dotted,
    }
}

fn percents() -> TickFormat {
    TickFormat::Custom(Arc::new(|share| format!("{}%", numbers::tick((1000.0 * share).round() / 10.0))))
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// The smallest of 1, 2, 5, 10, … by which so many steps reach at least so high.
fn step(high: f64, steps: f64) -> f64 {
    let least = high / steps;
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= least).unwrap_or(least)
}

/// About how wide a text is drawn.
fn width(text: &str) -> f64 {
    7.3 * text.chars().count() as f64
}

/// The weights as bars, with their intervals.
pub(super) fn weights(document: &SolveDocument) -> Chart<'_> {
    Chart::single("weights", Vec::new(), move |canvas| {
        let names: Vec<String> = document.arms.iter().map(|arm| arm.name.clone()).collect();
        let names = short(&names, if canvas.narrow() { 14 } else { 34 });
        let labels: Vec<String> = names
            .iter()
            .zip(&document.arms)
            .map(|(name, arm)| format!("{}  {}", label(name), numbers::percent(arm.weight)))
            .collect();
        // kuva counts categories from below.
        let bars = labels.iter().zip(&document.arms).rev();
        let mut plot = BarPlot::new()
            .with_horizontal(true)
            .with_width(0.64)
            .with_colored_bars(bars.map(|(label, arm)| (label.clone(), finite(arm.weight), canvas.medium.series(0))));
        let interval = |weight: f64, interval: Option<[f64; 2]>| {
            interval.map_or((0.0, 0.0), |[low, high]| (finite(weight - low).max(0.0), finite(high - weight).max(0.0)))
        };
        if document.arms.iter().any(|arm| arm.interval.is_some()) {
            plot = plot
                .with_asymmetric_error(document.arms.iter().rev().map(|arm| interval(arm.weight, arm.interval)))
                .with_error_color(canvas.medium.ink())
                .with_error_cap_width(0.45);
        }
        let high = document.arms.iter().map(|arm| finite(arm.weight) + interval(arm.weight, arm.interval).1);
        let high = high.fold(0.05, f64::max);
        let plots = vec![Plot::from(plot)];
        let left = labels.iter().map(|label| width(label)).fold(0.0, f64::max) + 18.0;
        let layout = canvas
            .layout(&plots, 46.0 + 24.0 * document.arms.len() as f64)
            .with_force_margins(left, 24.0)
            .with_force_margins_y(6.0, 40.0)
            .with_x_tick_format(percents())
            .with_x_axis_min(0.0)
            .with_x_axis_max((1.06 * high).min(high.max(1.0)))
            .with_x_tick_step(step(high, if canvas.narrow() { 3.0 } else { 6.0 }))
            .with_x_label("share of the mixture");
        (plots, layout)
    })
}

/// K, how alike the samples of each pair of arms are. In the page its colours are explained beside it, in a file within it.
pub(super) fn kernel_means(document: &SolveDocument) -> Chart<'_> {
    Chart::single("kernel", Vec::new(), move |canvas| {
        let count = document.arms.len();
        let names: Vec<String> = document.arms.iter().map(|arm| arm.name.clone()).collect();
        let scale = if canvas.medium == Medium::File { 84.0 } else { 12.0 };
        let longest = |names: &[String]| names.iter().map(|name| width(name)).fold(0.0, f64::max) + 18.0;
        let side = |left: f64| ((canvas.width - left - scale) / count as f64).min(88.0);
        let (rows, columns) = rows_and_columns(&names, canvas.narrow(), |rows| longest(rows) < side(longest(rows)));
        let left = longest(&rows);
        let side = side(left);
        let values: Vec<Vec<f64>> =
            document.quadratic.iter().rev().map(|row| row.iter().copied().map(finite).collect()).collect();
        let medium = canvas.medium;
        let plot = Heatmap::new()
            .with_data(values.clone())
            .with_color_map(ColorMap::Custom(Arc::new(move |share| medium.heat(share))))
            .with_cell_size(1.0);
        let plots = vec![Plot::from(plot)];
        let right = if medium == Medium::File { scale } else { canvas.width - left - side * count as f64 };
        // Rows keep the height of their names where columns are narrower.
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
            // kuva puts the foot of a text six units above its place.
            let drop = 10.0 / side.clamp(17.0, 60.0);
            for (y, row) in values.iter().enumerate() {
                for (x, &value) in row.iter().enumerate() {
                    let (x, y) = (x as f64 + 1.0, y as f64 + 1.0 - drop);
                    layout = layout.with_annotation(TextAnnotation::new(digits.write(value), x, y));
                }
            }
        }
        (plots, layout)
    })
}

/// The names of rows and of columns: where names are too long to stand under columns, columns have numbers, and rows have
/// both.
fn rows_and_columns(names: &[String], narrow: bool, fit: impl Fn(&[String]) -> bool) -> (Vec<String>, Vec<String>) {
    let rows = short(names, if narrow { 12 } else { 30 });
    if fit(&rows) {
        return (rows.clone(), rows);
    }
    let most = if narrow { 11 } else { 30 };
    let row = |(index, name): (usize, &String)| format!("{} {}", index + 1, shorten(name, most));
    (names.iter().enumerate().map(row).collect(), (1..=names.len()).map(|number| number.to_string()).collect())
}

/// Numbers under columns that are too narrow for all of them: the first, and every fifth.
fn thinned(columns: Vec<String>, side: f64) -> Vec<String> {
    if side >= 19.0 {
        return columns;
    }
    let keep = |index: usize| index == 0 || (index + 1) % 5 == 0;
    columns.into_iter().enumerate().map(|(index, name)| if keep(index) { name } else { String::new() }).collect()
}

/// The range and the scale of a vertical axis.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// Logarithmic where all is above zero and spans more than a factor of five.
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

/// Whether the loss is drawn on a logarithmic axis, for the caption.
pub(super) fn loss_is_logarithmic(document: &SimulateDocument) -> bool {
    loss_scale(document).is_some_and(|scale| scale.logarithmic)
}

fn loss_scale(document: &SimulateDocument) -> Option<Scale> {
    let means = policies(document).flat_map(|(_, policy)| policy.loss.mean.iter().copied());
    let upper = |policy: &SimulatedPolicy| {
        let ends = policy.loss.mean.last().zip(policy.loss.std.last());
        ends.map(|(mean, std)| mean + std)
    };
    let upper = policies(document).filter_map(|(_, policy)| upper(policy));
    Scale::of(means.chain(upper).chain([document.optimum.loss, document.best_single.loss]))
}

/// The policies in their order.
pub(super) fn policies(document: &SimulateDocument) -> impl Iterator<Item = (&String, &SimulatedPolicy)> {
    document.order.iter().filter_map(|name| document.policies.get_key_value(name))
}

fn policy_keys(document: &SimulateDocument) -> Vec<Key> {
    let stroke = |index: usize| [Stroke::Solid, Stroke::Dashed, Stroke::Dotted][(index / SERIES) % 3];
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
    let line = LinePlot::new().with_data([(0.0, value), (last, value)]).with_color(key.paint.on(canvas.medium));
    Plot::from(line.with_stroke_width(1.3).with_line_style(style(key.stroke)))
}

fn last_round(document: &SimulateDocument) -> f64 {
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

/// The loss of what the policies have collected, over rounds.
pub(super) fn loss(document: &SimulateDocument) -> Option<Chart<'_>> {
    let scale = loss_scale(document)?;
    let mut keys = policy_keys(document);
    let optimum = Key { name: "the optimum".into(), paint: Paint::Ink, stroke: Stroke::Dashed };
    let single = format!("the best single arm, {}", document.best_single.name);
    let single = Key { name: single, paint: Paint::Ink, stroke: Stroke::Dotted };
    keys.extend([optimum.clone(), single.clone()]);
    let lines = keys.clone();
    Some(Chart::single("loss", keys, move |canvas| {
        let mut plots = Vec::new();
        for ((_, policy), key) in policies(document).zip(&lines) {
            if policy.loss.std.iter().all(|&std| !(std.is_finite() && std > 0.0)) {
                continue;
            }
            // A logarithmic axis has no place for what is not above zero; below the axis is low enough.
            let floor = if scale.logarithmic { 0.5 * scale.low } else { f64::NEG_INFINITY };
            let edge = |sign: f64| {
                let edge = policy.loss.mean.iter().zip(&policy.loss.std);
                edge.map(move |(&mean, &std)| finite(mean + sign * finite(std)).max(floor))
            };
            let rounds = policy.rounds.iter().map(|&round| round as f64);
            let band = BandPlot::new(rounds, edge(-1.0), edge(1.0)).with_opacity(0.16);
            plots.push(Plot::from(band.with_color(key.paint.on(canvas.medium))));
        }
        let last = last_round(document);
        plots.push(level(canvas, &optimum, last, document.optimum.loss));
        plots.push(level(canvas, &single, last, document.best_single.loss));
        for ((_, policy), key) in policies(document).zip(&lines).rev_all() {
            plots.push(curve(canvas, key, &policy.rounds, &policy.loss.mean));
        }
        let layout = over_rounds(canvas, &plots, &scale, last, "loss");
        (plots, layout)
    }))
}

/// Iterators whose length is not known from behind, drawn from behind: the first policy lies on top.
trait ReverseAll: Iterator + Sized {
    fn rev_all(self) -> std::iter::Rev<std::vec::IntoIter<Self::Item>> {
        self.collect::<Vec<_>>().into_iter().rev()
    }
}

impl<I: Iterator> ReverseAll for I {}

/// How far the policies' shares are from the optimum, over rounds, on a logarithmic axis; nothing where all is zero.
pub(super) fn regret(document: &SimulateDocument) -> Option<Chart<'_>> {
    let regrets = || policies(document).flat_map(|(_, policy)| policy.regret.mean.iter().copied());
    let high = regrets().chain([document.gain]).filter(|regret| regret.is_finite()).fold(0.0, f64::max);
    let low = regrets().filter(|&regret| regret > 1e-5 * high).fold(f64::INFINITY, f64::min);
    if !(high > 0.0 && low.is_finite()) {
        return None;
    }
    let scale = Scale { low: 0.8 * low, high: 1.2 * high, logarithmic: high > 5.0 * low };
    let mut keys = policy_keys(document);
    let single = format!("the best single arm, {}", document.best_single.name);
    let single = Key { name: single, paint: Paint::Ink, stroke: Stroke::Dotted };
    keys.push(single.clone());
    let lines = keys.clone();
    Some(Chart::single("regret", keys, move |canvas| {
        let last = last_round(document);
        let mut plots = Vec::new();
        if document.gain > 0.0 {
            plots.push(level(canvas, &single, last, document.gain));
        }
        for ((_, policy), key) in policies(document).zip(&lines).rev_all() {
            let held: Vec<f64> = policy.regret.mean.iter().map(|&regret| regret.max(0.5 * scale.low)).collect();
            plots.push(curve(canvas, key, &policy.rounds, &held));
        }
        let layout = over_rounds(canvas, &plots, &scale, last, "loss above the optimum");
        (plots, layout)
    }))
}

/// Which arms are drawn by themselves: all where there are few, else those with the largest shares in any policy's end or in
/// the optimum. The others are pooled.
fn drawn_arms(document: &SimulateDocument) -> Vec<usize> {
    let count = document.arms.len();
    if count <= SERIES {
        return (0..count).collect();
    }
    let mut arms: Vec<usize> = (0..count).collect();
    let largest = |arm: usize| {
        let ends = policies(document).map(|(_, policy)| policy.weights[arm]);
        ends.chain([document.optimum.weights[arm]]).map(finite).fold(0.0, f64::max)
    };
    arms.sort_by(|&a, &b| largest(b).total_cmp(&largest(a)).then(a.cmp(&b)));
    let chosen: BTreeSet<usize> = arms.into_iter().take(SERIES).collect();
    chosen.into_iter().collect()
}

/// The share of each arm in the pulls, over rounds, a panel a policy.
pub(super) fn shares(document: &SimulateDocument) -> Chart<'_> {
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

fn share_panel(canvas: &Canvas, policy: &SimulatedPolicy, arms: &[usize]) -> (Vec<Plot>, Layout) {
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
        .layout(&plots, 0.66 * PANEL)
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
