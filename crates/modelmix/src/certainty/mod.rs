//! How sure the answer is: intervals on weights and gain, whether a mixture beats every single arm, and how far from the
//! optimum a mixture can be. All of it from the influence of each sample; what it rests on is in `docs/certainty.md`.

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

/// The share of draws beyond each end of an interval: intervals hold 95%.
const INTERVAL_TAIL: f64 = 0.025;
/// The share of draws in which an arm that surely has a weight may be without.
const SUPPORT_TAIL: f64 = 0.005;
/// How many sets of arms of either kind are looked at if some arms may be without weight; and with more than `MANY_ARMS` arms, of which every
/// set costs a covariance of all of them.
const MAX_FACES: usize = 12;
const MAX_FACES_WITH_MANY_ARMS: usize = 3;
const MANY_ARMS: usize = 64;
/// How many multiplications draws may take, as far as there remain draws enough: some ten seconds of one processor. With up to `MANY_ARMS`
/// arms that is more than all draws take.
const MAX_MULTIPLICATIONS: f64 = 2e10;
/// Single arms whose losses differ by less than so many standard errors may all be the best one.
const RIVAL_STANDARD_ERRORS: f64 = 3.0;

/// How sure an offline answer is.
#[derive(Clone, Debug, PartialEq)]
pub struct Certainty {
    /// A 95% interval for the weight of each arm in the best mixture of the models themselves.
    pub weights: Vec<[f64; 2]>,
    /// The best weights by unbiased estimates, around which intervals are.
    pub centre: Vec<f64>,
    /// The best single arm's loss less that of the best mixture, unbiased; `None` with a single arm.
    pub gain_estimate: Option<f64>,
    /// A 95% interval for the best single arm's loss less that of the best mixture; nothing with a single arm.
    pub gain: Option<[f64; 2]>,
    /// The greatest p-value of the tests that a single arm is as good as the best mixture, one an arm; nothing with a single
    /// arm.
    pub p_value: Option<f64>,
}

/// How sure the best weights within the bounds are; `weights` are those of the samples' own program, which intervals hold in
/// any case.
///
/// Had other samples been drawn, the gradient at the optimum would have been another. To first order it is normal around
/// the unbiased one, with the covariance that the samples' influences have; every draw of it gives the weights and the gain
/// that it would have led to. See `docs/certainty.md` for what is made of them.
///
/// # Errors
/// Bounds that no mixture fits, and if it is stopped.
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

/// How many draws may be made: each exchanges a number of arms that grows with m, and every exchange works on a factor of those in use.
fn affordable_draws(weights: &[f64]) -> usize {
    let used = weights.iter().filter(|&&weight| weight > 0.0).count();
    (MAX_MULTIPLICATIONS / (weights.len() * used * used).max(1) as f64) as usize
}

/// Bounds that leave some arms out.
///
/// An arm that may be without weight in truth takes some from the others in half of all draws; where it is not one of the
/// mixture, theirs are what they are without it. So intervals are also found without the least certain arm, without the two
/// least certain, and so on, and with each uncertain arm beside the certain ones alone; of many, some that are spread evenly.
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

/// All of them, or so many that are spread evenly, from the first to the last.
fn spread_evenly(mut all: Vec<Vec<usize>>, most: usize) -> impl Iterator<Item = Vec<usize>> {
    let last = all.len().saturating_sub(1);
    let places = all.len().min(most);
    let place = move |step: usize| if places < 2 { 0 } else { step * last / (places - 1) };
    (0..places).map(move |step| std::mem::take(&mut all[place(step)]))
}

/// Borders push draws away from where they were drawn around as they pushed that from the truth; so both count, where the draws
/// are and where the truth is if they are as far from it. Inside of all borders the two are the same.
fn interval(draws: &Draws, bounds: &Bounds, arm: usize) -> [f64; 2] {
    let (low, high) = (draws.weight_quantile(arm, INTERVAL_TAIL), draws.weight_quantile(arm, 1.0 - INTERVAL_TAIL));
    let twice = 2.0 * draws.centre.weights[arm];
    [bounds.clamped(arm, low.min(twice - high)), bounds.clamped(arm, high.max(twice - low))]
}

/// The gain is the least of the gains over each arm. The least of several lower ends lies below it as surely as each does; for
/// upper ends, those of all arms that may be the best must hold, so each gets its part of the tail.
fn gain(draws: &Draws, bounds: &Bounds, p_value: f64) -> [f64; 2] {
    let arms = draws.centre.weights.len();
    let best = (0..arms).min_by(|&a, &b| draws.gain_estimate(a).total_cmp(&draws.gain_estimate(b))).unwrap_or(0);
    let is_near = |arm: &usize| {
        draws.gain_estimate(*arm) - draws.gain_estimate(best)
            <= RIVAL_STANDARD_ERRORS * draws.loss_difference_error(*arm, best)
    };
    let near: Vec<usize> = (0..arms).filter(is_near).collect();
    let least = |ends: &mut dyn Iterator<Item = f64>| ends.fold(f64::INFINITY, f64::min);
    // Optimised on the samples themselves, the mixture looks better than it is, and once more in every draw.
    let low = least(&mut (0..arms).map(|arm| draws.gain_quantile(arm, INTERVAL_TAIL) - 2.0 * draws.optimism));
    let tail = INTERVAL_TAIL / near.len() as f64;
    let high = least(&mut near.into_iter().map(|arm| draws.gain_quantile(arm, 1.0 - tail)));
    if !(0..arms).all(|arm| bounds.allows_only(arm)) {
        return [low.min(high), high];
    }
    // No mixture is worse than a part of itself; and where a single arm may be the best, there may be no gain.
    let (low, high) = (if p_value > INTERVAL_TAIL { 0.0 } else { low.max(0.0) }, high.max(0.0));
    [low.min(high), high]
}
