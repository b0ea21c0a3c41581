//! Evicted samples, whose sums stay, and weights of samples with exponential decay (`forget`). `session` decides which
//! samples are evicted.

use serde::{Deserialize, Serialize};

use super::Statistics;
use super::convex::make_convex;
use crate::quadratic::Quadratic;

/// Weights of samples, and sums of evicted ones.
///
/// With weights w all sums are weighted: those over pairs with w_a·w_b, f and `toward` with w, self-terms with w².
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ageing {
    /// The weight of each held row; 1 for a new one.
    pub(super) weights: Vec<f64>,
    /// The number of held rows per arm.
    pub(super) rows: Vec<usize>,
    /// Σw and Σw² per arm, over all samples.
    pub(super) mass: Vec<f64>,
    pub(super) squares: Vec<f64>,
    /// Σw per arm, over evicted samples.
    pub(super) gone: Vec<f64>,
    /// Σ w_a·w_b over the pairs whose κ was estimated, per pair of arms; both (a, b) and (b, a) count.
    pub(super) estimated: Vec<f64>,
}

impl Ageing {
    fn new(statistics: &Statistics) -> Self {
        let arms = statistics.arms();
        let mass: Vec<f64> = statistics.counts.iter().map(|&count| count as f64).collect();
        Self {
            weights: vec![1.0; statistics.rows()],
            rows: statistics.counts.clone(),
            squares: mass.clone(),
            mass,
            gone: vec![0.0; arms],
            estimated: vec![0.0; arms * arms],
        }
    }

    /// Whether deserialised numbers match the sums that they belong to.
    pub(super) fn fits(&self, counts: &[usize], held: &[usize], rows: usize) -> bool {
        let arms = counts.len();
        let is_size = |value: &f64| value.is_finite() && *value >= 0.0;
        self.weights.len() == rows
            && self.rows == held
            && [&self.mass, &self.squares, &self.gone].iter().all(|list| list.len() == arms)
            && self.estimated.len() == arms * arms
            && self.weights.iter().chain(&self.mass).chain(&self.squares).chain(&self.gone).all(is_size)
            && self.mass.iter().zip(counts).all(|(&mass, &count)| whole_samples(mass) == count)
    }

    /// Makes K̂ positive semidefinite, which estimated values of κ may slightly prevent.
    pub(super) fn make_convex(&self, form: &mut Quadratic) {
        if self.estimated.iter().any(|&share| share > 0.0) {
            make_convex(form);
        }
    }
}

/// The number of samples that a mass corresponds to, rounded.
pub(crate) fn whole_samples(mass: f64) -> usize {
    mass.round() as usize
}

impl Statistics {
    /// Whether samples were evicted or have different weights.
    pub fn is_aged(&self) -> bool {
        self.ageing.is_some()
    }

    /// The weight of a held row.
    pub(crate) fn weight(&self, row: usize) -> f64 {
        self.ageing.as_ref().map_or(1.0, |ageing| ageing.weights[row])
    }

    /// Σw of an arm; n without decay.
    pub(crate) fn mass(&self, arm: usize) -> f64 {
        self.ageing.as_ref().map_or(self.counts[arm] as f64, |ageing| ageing.mass[arm])
    }

    /// Σw of all arms; 1 if there are no samples.
    pub(super) fn total(&self) -> f64 {
        match &self.ageing {
            None => self.len().max(1) as f64,
            Some(_) if self.is_empty() => 1.0,
            Some(ageing) => ageing.mass.iter().sum(),
        }
    }

    /// The divisor of a sum over an arm's samples. A sum over no samples is zero and stays zero; an arm that has
    /// decayed completely has none.
    pub(super) fn divisor(&self, arm: usize) -> f64 {
        match &self.ageing {
            None => self.counts[arm].max(1) as f64,
            Some(_) if self.counts[arm] == 0 => f64::INFINITY,
            Some(ageing) => ageing.mass[arm],
        }
    }

    /// The divisor of a sum over all pairs of two arms' samples.
    pub(super) fn pairs(&self, i: usize, j: usize) -> f64 {
        match &self.ageing {
            None => (self.counts[i] * self.counts[j]).max(1) as f64,
            Some(_) => self.divisor(i) * self.divisor(j),
        }
    }

    /// The same without the pair of each sample with itself.
    pub(super) fn different_pairs(&self, i: usize, j: usize) -> f64 {
        match &self.ageing {
            None => {
                let others = if i == j { self.counts[i].saturating_sub(1) } else { self.counts[i] };
                (others * self.counts[j]).max(1) as f64
            }
            Some(ageing) if i == j => {
                let pairs = ageing.mass[i] * ageing.mass[i] - ageing.squares[i];
                if self.counts[i] < 2 || pairs <= 0.0 { f64::INFINITY } else { pairs }
            }
            Some(_) => self.pairs(i, j),
        }
    }

    /// The number of samples of an arm that are held individually.
    pub fn rows_of(&self, arm: usize) -> usize {
        self.ageing.as_ref().map_or(self.counts[arm], |ageing| ageing.rows[arm])
    }

    /// The share of the pairs of two arms' samples whose κ was estimated.
    pub(crate) fn estimated_share(&self, i: usize, j: usize) -> f64 {
        self.ageing.as_ref().map_or(0.0, |ageing| ageing.estimated[i * self.arms() + j] / self.pairs(i, j))
    }

    pub(super) fn take_ageing(&mut self) -> Box<Ageing> {
        self.ageing.take().unwrap_or_else(|| Box::new(Ageing::new(self)))
    }

    /// Restores the weights; counts follow from them.
    pub(super) fn set_ageing(&mut self, ageing: Box<Ageing>) {
        for (count, &mass) in self.counts.iter_mut().zip(&ageing.mass) {
            *count = whole_samples(mass);
        }
        self.ageing = Some(ageing);
    }

    /// [`Statistics::add`] after evictions: `beyond[j]` is the estimated weighted sum of κ between the new sample and
    /// the evicted samples of arm j.
    ///
    /// # Panics
    /// As [`Statistics::add`].
    pub(crate) fn add_with_evicted(&mut self, arm: usize, kappa: &[f64], beyond: &[f64], own: f64, linear: f64) {
        assert_eq!(kappa.len(), self.rows(), "κ is needed against every sample held");
        let arms = self.arms();
        let mut ageing = self.take_ageing();
        let mut sums = beyond.to_vec();
        for (row, &value) in kappa.iter().enumerate() {
            sums[self.arm_of[row]] += ageing.weights[row] * value;
            self.toward[arm][row] += value;
            self.totals[row] += value;
        }
        self.totals.push(own + sums.iter().sum::<f64>());
        for (other, &sum) in sums.iter().enumerate() {
            self.toward[other].push(sum);
            for place in [arm * arms + other, other * arms + arm] {
                self.pair_sums[place] += sum;
                ageing.estimated[place] += ageing.gone[other];
            }
        }
        self.self_sums[arm] += own;
        self.linear_sums[arm] += linear;
        self.arm_of.push(arm);
        self.self_terms.push(own);
        self.linear.push(linear);
        ageing.weights.push(1.0);
        ageing.rows[arm] += 1;
        ageing.mass[arm] += 1.0;
        ageing.squares[arm] += 1.0;
        self.set_ageing(ageing);
    }

    /// Evicts a row; all sums stay. The last row takes its place.
    pub(crate) fn evict(&mut self, row: usize) {
        let mut ageing = self.take_ageing();
        let arm = self.drop_row(row);
        ageing.gone[arm] += ageing.weights.swap_remove(row);
        ageing.rows[arm] -= 1;
        self.set_ageing(ageing);
    }

    /// Drops a row whose weight is negligible; all sums stay, and continue to decay. The last row takes its place.
    pub(crate) fn drop_faded(&mut self, row: usize) {
        let mut ageing = self.take_ageing();
        let arm = self.drop_row(row);
        let weight = ageing.weights.swap_remove(row);
        ageing.mass[arm] = (ageing.mass[arm] - weight).max(0.0);
        ageing.squares[arm] = (ageing.squares[arm] - weight * weight).max(0.0);
        ageing.rows[arm] -= 1;
        self.set_ageing(ageing);
    }

    pub(super) fn drop_row(&mut self, row: usize) -> usize {
        for values in self.toward.iter_mut().chain([&mut self.totals, &mut self.self_terms, &mut self.linear]) {
            values.swap_remove(row);
        }
        self.arm_of.swap_remove(row)
    }

    /// [`Statistics::gradient_scatter`] from the held rows, assuming that evicted samples have the same variance. An
    /// arm with fewer than two rows gets the average of the others.
    pub(super) fn aged_scatter(&self, ageing: &Ageing) -> Vec<f64> {
        let factor = 2.0 / self.total();
        let arms = self.arms();
        let term = |row: usize| factor * self.totals[row] + self.linear[row];
        let (mut weights, mut means) = (vec![0.0; arms], vec![0.0; arms]);
        for (row, &arm) in self.arm_of.iter().enumerate() {
            weights[arm] += ageing.weights[row];
            means[arm] += ageing.weights[row] * term(row);
        }
        for (mean, weight) in means.iter_mut().zip(&weights) {
            *mean /= weight.max(f64::MIN_POSITIVE);
        }
        let mut scatter = vec![0.0; arms];
        for (row, &arm) in self.arm_of.iter().enumerate() {
            scatter[arm] += ageing.weights[row] * (term(row) - means[arm]).powi(2);
        }
        // The variance of an arm: Σw(g − ḡ)²/Σw, corrected for r rows by r/(r − 1).
        let variance = |arm: usize| {
            let rows = ageing.rows[arm] as f64;
            (ageing.rows[arm] > 1 && weights[arm] > 0.0).then(|| scatter[arm] / weights[arm] * rows / (rows - 1.0))
        };
        let known: Vec<f64> = (0..arms).filter_map(variance).collect();
        let pooled = known.iter().sum::<f64>() / known.len().max(1) as f64;
        (0..arms).map(|arm| variance(arm).unwrap_or(pooled) * self.counts[arm].saturating_sub(1) as f64).collect()
    }
}
