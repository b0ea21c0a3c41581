//! Bandwidth sensitivity: whether the best mixture depends on the bandwidth, over a range of bandwidths and as a sentence.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::forms::HeldArms;
use super::program::Program;
use super::{Mixture, Subject, solve_program};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::simplex::Bounds;

/// The default bandwidths, as multiples of the one in use: 1/4 to 4 in steps of √2.
const STEPS_EACH_WAY: i32 = 4;
/// The largest changes of weights, as shares, at which the result hardly or only moderately depends on the bandwidth.
const SMALL_CHANGE: f64 = 0.05;
const MODERATE_CHANGE: f64 = 0.15;

/// The bandwidths of a sensitivity analysis.
#[derive(Clone, Debug, PartialEq)]
pub enum Bandwidths {
    /// Nine, from a quarter to four times the one in use.
    Auto,
    /// These, for all kernels that have a bandwidth.
    Given(Vec<f64>),
}

impl FromStr for Bandwidths {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.trim() == "auto" {
            return Ok(Bandwidths::Auto);
        }
        let must = "auto, or positive numbers separated by commas, such as 5,10,20";
        let refuse = || Error::setting("bandwidths", format!("\"{text}\""), must);
        let number = |part: &str| part.trim().parse::<f64>().map_err(|_| refuse());
        Self::given(text.split(',').map(number).collect::<Result<_>>()?).map_err(|_| refuse())
    }
}

impl Bandwidths {
    /// These bandwidths, in increasing order.
    ///
    /// # Errors
    /// An empty list, or a bandwidth that is not a positive number.
    pub fn given(mut bandwidths: Vec<f64>) -> Result<Self> {
        let bad = bandwidths.iter().find(|value| !(value.is_finite() && **value > 0.0));
        if bandwidths.is_empty() || bad.is_some() {
            let found = bad.map_or("an empty list".into(), ToString::to_string);
            return Err(Error::setting("bandwidths", found, "auto, or a list of positive numbers"));
        }
        bandwidths.sort_by(f64::total_cmp);
        bandwidths.dedup();
        Ok(Bandwidths::Given(bandwidths))
    }

    /// The number of bandwidths.
    pub fn count(&self) -> usize {
        match self {
            Bandwidths::Auto => 2 * STEPS_EACH_WAY as usize + 1,
            Bandwidths::Given(bandwidths) => bandwidths.len(),
        }
    }
}

/// The best mixture over a range of bandwidths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SensitivityDocument {
    /// The bandwidth in use, of the first kernel that has one.
    pub in_use: f64,
    /// One point per bandwidth, in increasing order.
    pub points: Vec<SensitivityPoint>,
    /// The largest change of a weight between half and twice the bandwidth in use, relative to its value there; over all
    /// bandwidths tried if none are in that range.
    pub largest_change: f64,
    /// The arm whose weight changes most.
    pub arm: String,
    /// The bandwidth of that change.
    pub at: f64,
    /// The conclusion in one sentence.
    pub verdict: String,
}

/// The best mixture with one bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SensitivityPoint {
    /// The bandwidth of the first kernel that has one. Other kernels are scaled by the same factor, or have the same bandwidth
    /// if bandwidths were given.
    pub bandwidth: f64,
    /// The weights, one per arm.
    pub weights: Vec<f64>,
    /// The loss of the mixture. Losses of different bandwidths are not comparable, because their kernels differ.
    pub loss: f64,
    /// The score of the mixture.
    pub score: f64,
    /// The loss of the best single arm minus that of the mixture.
    pub gain: f64,
    /// The best single arm.
    pub best_single: String,
    /// Its score.
    pub best_single_score: f64,
}

pub(super) fn sensitivity(
    held: &HeldArms<'_>,
    loss: &Loss,
    bounds: &Bounds,
    best: &Mixture,
    bandwidths: &Bandwidths,
) -> Result<SensitivityDocument> {
    let in_use = loss.bandwidth()?;
    let solve =
        |other: &Loss| solve_program(&Subject::new(held.arms(), other), bounds, &Program::of(held, other, false)?);
    let points = match bandwidths {
        Bandwidths::Auto => (-STEPS_EACH_WAY..=STEPS_EACH_WAY)
            .map(|step| {
                let factor = 2.0f64.powf(f64::from(step) / 2.0);
                let mixture = if step == 0 { best.clone() } else { solve(&loss.with_bandwidths(|own| factor * own)?)? };
                Ok(point(factor * in_use, &mixture))
            })
            .collect::<Result<Vec<_>>>()?,
        Bandwidths::Given(given) => given
            .iter()
            .map(|&bandwidth| Ok(point(bandwidth, &solve(&loss.with_bandwidths(|_| bandwidth)?)?)))
            .collect::<Result<Vec<_>>>()?,
    };
    let weights = best.weights();
    let near = |point: &&SensitivityPoint| (0.499..=2.001).contains(&(point.bandwidth / in_use));
    let around = points.iter().any(|point| near(&point) && point.bandwidth != in_use);
    let mut largest = (0.0, 0, in_use);
    for point in points.iter().filter(|point| !around || near(point)) {
        for (arm, (new, old)) in point.weights.iter().zip(&weights).enumerate() {
            let change: f64 = new - old;
            if change.abs() > largest.0 {
                largest = (change.abs(), arm, point.bandwidth);
            }
        }
    }
    let (largest_change, arm, at) = largest;
    let arm = best.arms[arm].name.clone();
    let verdict = verdict(largest_change, &arm, at, around);
    Ok(SensitivityDocument { in_use, points, largest_change, arm, at, verdict })
}

fn point(bandwidth: f64, mixture: &Mixture) -> SensitivityPoint {
    let single = &mixture.best_single;
    SensitivityPoint {
        bandwidth,
        weights: mixture.weights(),
        loss: mixture.mixture.loss,
        score: mixture.mixture.score,
        gain: mixture.gain,
        best_single: single.name.clone(),
        best_single_score: single.score,
    }
}

fn verdict(change: f64, arm: &str, at: f64, around: bool) -> String {
    let range = if around { "between half and twice the bandwidth in use" } else { "over the bandwidths tried" };
    if change == 0.0 {
        return format!("No weight changes {range}: the answer does not depend on it.");
    }
    let says = match change {
        change if change <= SMALL_CHANGE => "the answer hardly depends on it",
        change if change <= MODERATE_CHANGE => "the answer depends on it somewhat",
        _ => "the answer depends on it, so choose it with care",
    };
    let at = (at * 1e4).round() / 1e4;
    format!(
        "The largest change of a weight {range} is {:.1} percentage points, of {arm} at {at}: {says}.",
        100.0 * change
    )
}
