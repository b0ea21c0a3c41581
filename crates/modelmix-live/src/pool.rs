//! The collected samples of a stored run, and sets drawn from them.

use std::collections::{BTreeMap, HashMap};

use modelmix::Event;
use modelmix::internals::random::Random;
use modelmix::session::Answer;

use crate::store::change::PayloadRef;
use crate::store::history::{History, StoredPull};

/// A collected sample.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PoolSample {
    /// The arm, as an index.
    pub arm: usize,
    /// The pull that it was collected in.
    pub pull: u64,
    /// Its position in the answer, counted from 0.
    pub ordinal: usize,
    /// The number of its prompt.
    pub prompt: Option<u64>,
    /// The seed of its request.
    pub seed: u64,
    /// Its share of what the pull cost, failed attempts included.
    pub cost: f64,
    /// Its file; `None` if the arm gave features only.
    pub payload: Option<PayloadRef>,
    /// Its features.
    pub features: Vec<f32>,
    /// Its scores by name.
    pub scores: BTreeMap<String, f64>,
}

/// All collected samples, in the order told.
pub fn pool(history: &History) -> Vec<PoolSample> {
    let pulls: HashMap<u64, &StoredPull> = history.pulls.iter().map(|pull| (pull.pull, pull)).collect();
    let mut samples = Vec::new();
    for event in &history.events {
        let Event::Told(told) = event else { continue };
        let Answer::Features { width, values, scores } = &told.answer else { continue };
        let Some(pull) = pulls.get(&told.pull) else { continue };
        let rows = values.len() / width;
        let known = pull.attempts.iter().filter_map(|attempt| attempt.outcome.as_ref()?.cost);
        let cost = known.sum::<f64>() / rows.max(1) as f64;
        for (at, features) in values.chunks_exact(*width).enumerate() {
            let Some(stored) = pull.samples.iter().find(|sample| sample.position == Some(at)) else { continue };
            let score = |(name, list): (&String, &Vec<f64>)| Some((name.clone(), *list.get(at)?));
            samples.push(PoolSample {
                arm: pull.arm,
                pull: pull.pull,
                ordinal: stored.ordinal,
                prompt: pull.prompt,
                seed: pull.seed,
                cost,
                payload: stored.payload.clone(),
                features: features.to_vec(),
                scores: scores.iter().filter_map(score).collect(),
            });
        }
    }
    samples
}

/// Indices of samples drawn by the weights of the arms, without replacement: every arm gives its share of `count`, rounded so
/// that the shares add up. Without a count, as many as the scarcest arm allows.
///
/// # Errors
/// If an arm has too few samples.
pub fn draw(arms: &[usize], weights: &[f64], count: Option<usize>, seed: u64) -> Result<Vec<usize>, String> {
    let mut of_arm: Vec<Vec<usize>> = vec![Vec::new(); weights.len()];
    for (at, &arm) in arms.iter().enumerate() {
        of_arm[arm].push(at);
    }
    let most = || {
        let limits = weights.iter().zip(&of_arm).filter(|(weight, _)| **weight > 0.0);
        limits.map(|(weight, rows)| rows.len() as f64 / weight).fold(arms.len() as f64, f64::min)
    };
    // Rounding must not ask the scarcest arm for one sample more.
    let is_given = count.is_some();
    let mut count = count.unwrap_or_else(|| (most() + 1e-9) as usize);
    let quotas = loop {
        let quotas = quotas(weights, count);
        match quotas.iter().zip(&of_arm).position(|(&quota, rows)| quota > rows.len()) {
            None => break quotas,
            Some(arm) if is_given || count == 0 => {
                return Err(format!(
                    "{count} samples by the weights are {} of arm {arm}, which has {}; ask for at most {}",
                    quotas[arm],
                    of_arm[arm].len(),
                    most() as usize
                ));
            }
            Some(_) => count -= 1,
        }
    };
    let mut chosen = Vec::new();
    for (arm, (rows, quota)) in of_arm.iter().zip(quotas).enumerate() {
        let picked = Random::stream(seed, arm as u64).sample(rows.len(), quota);
        chosen.extend(picked.into_iter().map(|at| rows[at]));
    }
    chosen.sort_unstable();
    Ok(chosen)
}

/// Whole numbers near `count` times the weights, with this sum (largest remainders).
fn quotas(weights: &[f64], count: usize) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| weight / total * count as f64).collect();
    let mut quotas: Vec<usize> = exact.iter().map(|share| share.floor() as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| (exact[b].fract()).total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    let missing = count.saturating_sub(quotas.iter().sum());
    order.into_iter().cycle().take(missing).for_each(|arm| quotas[arm] += 1);
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_add_up() {
        assert_eq!(quotas(&[0.5, 0.25, 0.25], 10), [5, 3, 2]);
        assert_eq!(quotas(&[1.0, 0.0], 3), [3, 0]);
        assert_eq!(quotas(&[1.0 / 3.0; 3], 100).iter().sum::<usize>(), 100);
    }

    #[test]
    fn draws_follow_the_weights_without_repetition() {
        let arms: Vec<usize> = (0..100).map(|at| at % 2).collect();
        let drawn = draw(&arms, &[0.75, 0.25], Some(40), 1).expect("there are enough");
        assert_eq!(drawn.iter().filter(|&&at| arms[at] == 0).count(), 30);
        let mut distinct = drawn.clone();
        distinct.dedup();
        assert_eq!(distinct.len(), 40);
        // Two draws of 30 of 50 and 10 of 50 are equal with a chance below 1e-20.
        assert_ne!(draw(&arms, &[0.75, 0.25], Some(40), 2), Ok(drawn));
    }

    #[test]
    fn the_scarcest_arm_limits_the_draw() {
        let arms = [0, 0, 0, 0, 1];
        let drawn = draw(&arms, &[0.5, 0.5], None, 0).expect("one of each");
        assert_eq!(drawn.len(), 2);
        let error = draw(&arms, &[0.5, 0.5], Some(4), 0).expect_err("too many");
        assert!(error.contains("arm 1, which has 1"), "{error}");
        assert_eq!(draw(&[], &[1.0], None, 0), Ok(vec![]));
    }
}
