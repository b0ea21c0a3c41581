//! The chart of best mixtures of few arms: the share of the gain that they keep.

use kuva::prelude::{BarPlot, Plot};
use modelmix::Mixture;

use super::{Chart, finite, percents, step, width};
use crate::report::numbers;

/// The share of the gain that the best mixtures of few arms keep, one bar per number of arms; `None` if there is no gain.
pub(in crate::report) fn gain_kept(document: &Mixture) -> Option<Chart<'_>> {
    let subsets = document.worth.subsets.as_ref()?;
    if subsets.len() < 2 || subsets.iter().any(|subset| subset.gain_kept.is_none()) {
        return None;
    }
    Some(Chart::single("subsets", Vec::new(), move |canvas| {
        let kept = |index: usize| finite(subsets[index].gain_kept.unwrap_or(0.0));
        let labels: Vec<String> = subsets
            .iter()
            .enumerate()
            .map(|(index, subset)| {
                let arms = if subset.size == 1 { "arm" } else { "arms" };
                format!("{} {arms}  {}", subset.size, numbers::percent(kept(index)))
            })
            .collect();
        // kuva numbers categories from the bottom.
        let bars = labels.iter().enumerate().rev();
        let plot = BarPlot::new().with_horizontal(true).with_width(0.64).with_colored_bars(
            bars.map(|(index, label)| (label.clone(), kept(index).max(0.0), canvas.medium.series(0))),
        );
        let plots = vec![Plot::from(plot)];
        let left = labels.iter().map(|label| width(label)).fold(0.0, f64::max) + 18.0;
        let layout = canvas
            .layout(&plots, 46.0 + 24.0 * subsets.len() as f64)
            .with_force_margins(left, 24.0)
            .with_force_margins_y(6.0, 40.0)
            .with_x_tick_format(percents())
            .with_x_axis_min(0.0)
            .with_x_axis_max(1.0)
            .with_x_tick_step(step(1.0, if canvas.narrow() { 3.0 } else { 6.0 }))
            .with_x_label("share of the gain kept");
        (plots, layout)
    }))
}
