//! Confidence: intervals of weights and gain, a test whether a mixture beats every single arm, and bounds on the
//! distance to the optimum. All are computed from the influence of each sample; `docs/certainty.md` states the
//! assumptions.

mod centre;
mod draws;
mod singles;
mod suboptimality;
mod until;

use crate::compute::Stop;
use crate::error::Result;
use crate::influence::Influences;
use crate::simplex::Bounds;
use centre::{Centre, Shape, indistinguishable_arms};
use draws::{DRAWS_PER_FACE, Draws, MIN_DRAWS, TOTAL_DRAWS};

pub use until::{Certified, Gap, MIN_SAMPLES_PER_ARM, Until, Verdict, parse_confidence};
pub(crate) use until::{DEFAULT_CONFIDENCE, Judgement, bound};

/// The share of draws beyond each end of an interval: intervals have a confidence of 95%.
const INTERVAL_TAIL: f64 = 0.025;
/// An arm certainly has a positive weight if its weight is zero in at most this share of the draws.
const SUPPORT_TAIL: f64 = 0.005;
/// The maximum number of sets of arms of either kind that are examined if some arms may have no weight; and the number
/// if there are more than `MANY_ARMS` arms, because every set needs a covariance of all arms.
const MAX_FACES: usize = 12;
const MAX_FACES_WITH_MANY_ARMS: usize = 3;
const MANY_ARMS: usize = 64;
/// The maximum number of multiplications for draws, unless that leaves too few draws: some ten seconds on one
/// processor. With up to `MANY_ARMS` arms, all draws take less.
const MAX_MULTIPLICATIONS: f64 = 2e10;
/// Single arms whose losses differ by less than this number of standard errors may all be the best one.
const RIVAL_STANDARD_ERRORS: f64 = 3.0;

/// The confidence of an offline solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Certainty {
    /// A 95% confidence interval per arm for its weight in the best mixture of the models themselves.
    pub weights: Vec<[f64; 2]>,
    /// The best weights by unbiased estimates, at the centre of the intervals.
    pub centre: Vec<f64>,
    /// An unbiased estimate of the gain: the loss of the best single arm minus that of the best mixture. `None` with one arm.
    pub gain_estimate: Option<f64>,
    /// A 95% confidence interval of the gain. `None` with one arm.
    pub gain: Option<[f64; 2]>,
    /// The largest p-value of the tests that a single arm is as good as the best mixture, one test per arm. `None` with
    /// one arm.
    pub p_value: Option<f64>,
}

/// Confidence intervals of the best weights within the bounds, and of the gain. `weights` are those of the samples' own
/// program; the intervals always contain them.
///
/// With other samples, the gradient at the optimum would be different. To first order it is normal around the unbiased
/// one, with the covariance given by the influences of the samples. Every draw of it gives the weights and the gain
/// that it would lead to; `docs/certainty.md` explains how they are used.
///
/// # Errors
/// If no mixture satisfies the bounds, and if it is stopped.
pub fn certainty(influences: &Influences, bounds: &Bounds, weights: &[f64], stop: &Stop) -> Result<Certainty> {
    let arms = weights.len();
    let shape = Shape::new(influences);
    let centre = Centre::new(influences, &shape, bounds, weights)?;
    let affordable = affordable_draws(&centre.weights);
    let draws = Draws::new(centre, influences, bounds, affordable.clamp(MIN_DRAWS, DRAWS_PER_FACE), stop)?;
    let mut intervals: Vec<[f64; 2]> = (0..arms).map(|arm| interval(&draws, bounds, arm)).collect();
    let mut widen = |arm: usize, [low, high]: [f64; 2]| {
        intervals[arm] = [intervals[arm][0].min(low), intervals[arm][1].max(high)];
    };
    let mut faces = faces(&draws, bounds, affordable)
        .into_iter()
        .map(|face| Ok((Centre::new(influences, &shape, &face, weights)?, face)))
        .collect::<Result<Vec<_>>>()?;
    faces.retain(|(centre, _)| centre.may_be_best(influences, bounds, SUPPORT_TAIL));
    let most = if arms > MANY_ARMS { MIN_DRAWS } else { DRAWS_PER_FACE };
    let count = (TOTAL_DRAWS / faces.len().max(1)).clamp(MIN_DRAWS, most);
    for (centre, face) in faces {
        let draws = Draws::new(centre, influences, &face, count, stop)?;
        (0..arms).for_each(|arm| widen(arm, interval(&draws, &face, arm)));
    }
    for (arm, (&weight, same)) in weights.iter().zip(indistinguishable_arms(influences.form(), weights)).enumerate() {
        widen(arm, [weight, weight]);
        if same.len() > 1 {
            let together = same.iter().map(|&other| weights[other]).sum();
            widen(arm, [bounds.clamped(arm, 0.0), bounds.clamped(arm, together)]);
        }
    }
    if arms == 1 {
        let centre = draws.centre.weights;
        return Ok(Certainty { weights: intervals, centre, gain_estimate: None, gain: None, p_value: None });
    }
    let apart: Vec<f64> = (0..arms).map(|arm| draws.gain_estimate(arm) - draws.optimism).collect();
    let errors: Vec<f64> = (0..arms).map(|arm| draws.gain_error(arm)).collect();
    let p_value = singles::p_value(influences, bounds, &apart, &errors, stop)?;
    let gain = gain(&draws, bounds, p_value);
    let gain_estimate = apart.into_iter().reduce(f64::min);
    let centre = draws.centre.weights;
    Ok(Certainty { weights: intervals, centre, gain_estimate, gain: Some(gain), p_value: Some(p_value) })
}

/// The number of draws that are affordable: each exchanges a number of arms that grows with m, and every exchange
/// updates a factor of the arms in use.
fn affordable_draws(weights: &[f64]) -> usize {
    let used = weights.iter().filter(|&&weight| weight > 0.0).count();
    (MAX_MULTIPLICATIONS / (weights.len() * used * used).max(1) as f64) as usize
}

/// Bounds that leave some arms out.
///
/// An arm whose true weight may be zero takes weight from the others in half of all draws. If it is not part of the
/// best mixture, their weights are those without it. Intervals are therefore also computed without the least certain
/// arm, without the two least certain ones, and so on, and with each uncertain arm together with the certain ones only.
/// If there are many such sets, an evenly spaced selection is used.
fn faces(draws: &Draws, bounds: &Bounds, affordable: usize) -> Vec<Bounds> {
    let positive = |arm: usize| draws.positive_share(arm, bounds);
    let mut order: Vec<usize> = (0..draws.centre.weights.len()).filter(|&arm| positive(arm) > SUPPORT_TAIL).collect();
    order.sort_by(|&a, &b| positive(b).total_cmp(&positive(a)));
    let sure = order.iter().filter(|&&arm| positive(arm) >= 1.0 - SUPPORT_TAIL).count();
    let nested: Vec<Vec<usize>> = (sure..order.len()).map(|kept| order[..kept].to_vec()).collect();
    let beside: Vec<Vec<usize>> = order.iter().skip(sure + 1).map(|&arm| [&order[..sure], &[arm]].concat()).collect();
    let is_many = draws.centre.weights.len() > MANY_ARMS;
    let most = if is_many { (affordable / (2 * MIN_DRAWS)).clamp(1, MAX_FACES_WITH_MANY_ARMS) } else { MAX_FACES };
    spread_evenly(nested, most).chain(spread_evenly(beside, most)).filter_map(|free| bounds.free_only(&free)).collect()
}

/// All of them, or `most` that are evenly spaced from the first to the last.
fn spread_evenly(mut all: Vec<Vec<usize>>, most: usize) -> impl Iterator<Item = Vec<usize>> {
    let last = all.len().saturating_sub(1);
    let places = all.len().min(most);
    let place = move |step: usize| if places < 2 { 0 } else { step * last / (places - 1) };
    (0..places).map(move |step| std::mem::take(&mut all[place(step)]))
}

/// Bounds push draws away from their centre just as they pushed the centre away from the truth. The interval therefore
/// covers the draws, and also the truth if it is as far from the centre on the other side. Away from all bounds the two
/// are the same.
fn interval(draws: &Draws, bounds: &Bounds, arm: usize) -> [f64; 2] {
    let (low, high) = (draws.weight_quantile(arm, INTERVAL_TAIL), draws.weight_quantile(arm, 1.0 - INTERVAL_TAIL));
    let twice = 2.0 * draws.centre.weights[arm];
    [bounds.clamped(arm, low.min(twice - high)), bounds.clamped(arm, high.max(twice - low))]
}

/// The interval of the gain, which is the minimum of the gains over each arm. The minimum of several lower ends is a
/// lower end with the confidence of each. The upper ends must hold for all arms that may be the best, so the tail
/// probability is divided among them.
fn gain(draws: &Draws, bounds: &Bounds, p_value: f64) -> [f64; 2] {
    let arms = draws.centre.weights.len();
    let best = (0..arms).min_by(|&a, &b| draws.gain_estimate(a).total_cmp(&draws.gain_estimate(b))).unwrap_or(0);
    let is_near = |arm: &usize| {
        draws.gain_estimate(*arm) - draws.gain_estimate(best)
            <= RIVAL_STANDARD_ERRORS * draws.loss_difference_error(*arm, best)
    };
    let near: Vec<usize> = (0..arms).filter(is_near).collect();
    let least = |ends: &mut dyn Iterator<Item = f64>| ends.fold(f64::INFINITY, f64::min);
    // The mixture was optimised on the samples, so its loss is optimistically biased, and once more in every draw.
    let low = least(&mut (0..arms).map(|arm| draws.gain_quantile(arm, INTERVAL_TAIL) - 2.0 * draws.optimism));
    let tail = INTERVAL_TAIL / near.len() as f64;
    let high = least(&mut near.into_iter().map(|arm| draws.gain_quantile(arm, 1.0 - tail)));
    if !(0..arms).all(|arm| bounds.allows_only(arm)) {
        return [low.min(high), high];
    }
    // No mixture is worse than a part of itself. If a single arm may be the best, the gain may be zero.
    let (low, high) = (if p_value > INTERVAL_TAIL { 0.0 } else { low.max(0.0) }, high.max(0.0));
    [low.min(high), high]
}
