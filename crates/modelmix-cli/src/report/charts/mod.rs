//! Charts: kuva draws each for wide pages, for phones and for files. The modules `arms`, `rounds`, `subsets`, `terms` and
//! `tradeoff` select the numbers.

mod arms;
mod rounds;
mod subsets;
mod terms;
mod tradeoff;

use std::sync::Arc;

use kuva::prelude::{Layout, LegendEntry, LegendPosition, LegendShape, LineStyle, Plot, Theme, TickFormat};
use kuva::render::figure::Figure as Panels;
use kuva::render::render::{Scene, render_multiple};

use super::colours::Medium;
use super::figure::{Drawing, FONT_FAMILY, Figure};
use super::names::{label, short, shorten};
use super::numbers;

pub(super) use arms::{chosen, kernel_means, weights};
pub(super) use rounds::{kept_loss, loss, loss_is_logarithmic, policies, regret, shares};
pub(super) use subsets::gain_kept;
pub(super) use terms::terms;
pub(super) use tradeoff::{front, sensitivity};

/// Widths of drawings, in CSS pixels.
const WIDE_WIDTH: f64 = 720.0;
const NARROW_WIDTH: f64 = 328.0;
const PANEL_WIDTH: f64 = 232.0;

/// A chart that can be drawn for several media.
pub(super) struct Chart<'a> {
    /// Its part of a file name.
    pub(super) name: &'static str,
    /// Its legend; empty if labels are enough.
    pub(super) keys: Vec<Key>,
    panels: Vec<Panel<'a>>,
}

/// Input of kuva.
type Drawn = (Vec<Plot>, Layout);

struct Panel<'a> {
    title: Option<String>,
    draw: Box<dyn Fn(&Canvas) -> Drawn + 'a>,
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) paint: Paint,
    pub(super) stroke: Stroke,
}

/// The source of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Series(usize),
    Ink,
    Rest,
}

/// The line style.
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

/// The target of a drawing.
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
            font_family: Some(FONT_FAMILY.into()),
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

/// A panel of the page: one drawing for wide screens, one for narrow ones unless it is small.
pub(super) struct Views {
    pub(super) title: Option<String>,
    pub(super) wide: Drawing,
    pub(super) narrow: Option<Drawing>,
}

impl<'a> Chart<'a> {
    fn single(name: &'static str, keys: Vec<Key>, draw: impl Fn(&Canvas) -> Drawn + 'a) -> Self {
        Self { name, keys, panels: vec![Panel { title: None, draw: Box::new(draw) }] }
    }

    /// The drawings for the page; `id` is the id of the figure.
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
                wide: draw(panel, if small { PANEL_WIDTH } else { WIDE_WIDTH }, format!("{id}-{index}-wide")),
                narrow: (!small).then(|| draw(panel, NARROW_WIDTH, format!("{id}-{index}-narrow"))),
            })
            .collect()
    }

    /// The chart as a file, with its legend.
    pub(super) fn file(&self, name: &str) -> Figure {
        let drawing = Drawing::new(&self.scene(), name);
        Figure { name: name.into(), svg: drawing.file(&Medium::File.ink()) }
    }

    fn scene(&self) -> Scene {
        let entries = self.legend();
        if let [panel] = &self.panels[..] {
            let (plots, layout) = (panel.draw)(&Canvas { medium: Medium::File, width: WIDE_WIDTH });
            if entries.is_empty() {
                return render_multiple(plots, layout);
            }
            let height = layout.height.unwrap_or(WIDE_WIDTH / 2.0);
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
        let titles: Vec<String> = self.panels.iter().map(|panel| panel.title.clone().unwrap_or_default()).collect();
        let (mut plots, mut layouts) = (Vec::new(), Vec::new());
        for (panel, title) in self.panels.iter().zip(short(&titles, 30)) {
            let (drawn, layout) = (panel.draw)(&Canvas { medium: Medium::File, width: PANEL_WIDTH });
            plots.push(drawn);
            layouts.push(layout.with_title(label(&title)).with_title_size(13));
        }
        Panels::new(rows, columns)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_cell_size(1.1 * PANEL_WIDTH, 0.9 * PANEL_WIDTH)
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

/// The smallest tick step of 1, 2, 5, 10, … with which the given number of steps reaches the given height.
fn step(high: f64, steps: f64) -> f64 {
    let least = high / steps;
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&step| step >= least).unwrap_or(least)
}

/// Approximate width of a text.
fn width(text: &str) -> f64 {
    7.3 * text.chars().count() as f64
}
