//! Running sums over samples: counts, Σκ per pair of arms (self-terms separately), Σf, and the sums of each sample.
//! They give the V-statistics of the paper, the unbiased U-statistics, and variances. No kernel is evaluated here.
//! `ageing` handles evicted samples.

mod ageing;
mod convex;
mod forget;
mod totals;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::quadratic::Quadratic;
use ageing::Ageing;
pub(crate) use ageing::whole_samples;
pub(crate) use forget::retain;
pub(crate) use totals::Totals;

/// Sums of κ and f over the samples of m arms, from which all estimates are computed.
///
/// Adding a sample takes one pass over the held samples. Features are not needed: the caller passes κ and f.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    counts: Vec<usize>,
    /// Σκ over pairs of different samples, per pair of arms; both (a, b) and (b, a) count.
    pair_sums: Vec<f64>,
    /// Σκ(x, x) per arm.
    self_sums: Vec<f64>,
    /// Σf per arm.
    linear_sums: Vec<f64>,
    /// Per sample, in the order of arrival: its arm, κ(x, x) and f(x).
    arm_of: Vec<usize>,
    self_terms: Vec<f64>,
    linear: Vec<f64>,
    /// `toward[j][a]`: Σκ(x_a, x_b) over the samples b of arm j, b ≠ a.
    toward: Vec<Vec<f64>>,
    /// Σκ(x_a, x_b) over all held samples b, including a itself.
    totals: Vec<f64>,
    /// Sums of evicted samples, and weights of samples; `None` if all samples are held and have the same weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ageing: Option<Box<Ageing>>,
}

impl Statistics {
    /// Creates statistics without samples.
    pub fn new(arms: usize) -> Self {
        Self {
            counts: vec![0; arms],
            pair_sums: vec![0.0; arms * arms],
            self_sums: vec![0.0; arms],
            linear_sums: vec![0.0; arms],
            arm_of: Vec::new(),
            self_terms: Vec::new(),
            linear: Vec::new(),
            toward: vec![Vec::new(); arms],
            totals: Vec::new(),
            ageing: None,
        }
    }

    /// Creates statistics from known sums, as an offline pass computes them: for each sample its arm, κ(x, x), f(x),
    /// and `toward[j][a]`, the sum of κ over the other samples of arm j.
    ///
    /// # Errors
    /// If lists have different lengths, if an arm does not exist, or if a value is not finite.
    pub fn from_sums(
        arm_of: Vec<usize>,
        self_terms: Vec<f64>,
        linear: Vec<f64>,
        toward: Vec<Vec<f64>>,
    ) -> Result<Self> {
        let (arms, samples) = (toward.len(), arm_of.len());
        let fits = self_terms.len() == samples
            && linear.len() == samples
            && toward.iter().all(|sums| sums.len() == samples)
            && arm_of.iter().all(|&arm| arm < arms);
        if !fits {
            let problem =
                "the sums do not match each other; give one value per sample in every list, of arms that exist";
            return Err(Error::Program { problem: problem.into() });
        }
        let is_finite = |sample: usize| {
            self_terms[sample].is_finite()
                && linear[sample].is_finite()
                && toward.iter().all(|sums| sums[sample].is_finite())
        };
        if let Some(sample) = (0..samples).find(|&sample| !is_finite(sample)) {
            return Err(totals::not_finite(&arm_of[sample].to_string()));
        }
        let mut statistics = Self { arm_of, self_terms, linear, toward, ..Self::new(arms) };
        statistics.sum_by_arm();
        Ok(statistics)
    }

    /// Recomputes the sums per arm from those per sample.
    fn sum_by_arm(&mut self) {
        let arms = self.arms();
        self.counts = vec![0; arms];
        self.pair_sums = vec![0.0; arms * arms];
        self.self_sums = vec![0.0; arms];
        self.linear_sums = vec![0.0; arms];
        for (sample, &arm) in self.arm_of.iter().enumerate() {
            self.counts[arm] += 1;
            self.self_sums[arm] += self.self_terms[sample];
            self.linear_sums[arm] += self.linear[sample];
        }
        for (j, sums) in self.toward.iter().enumerate() {
            for (&arm, sum) in self.arm_of.iter().zip(sums) {
                self.pair_sums[arm * arms + j] += sum;
            }
        }
        self.totals.clone_from(&self.self_terms);
        for sums in &self.toward {
            for (total, sum) in self.totals.iter_mut().zip(sums) {
                *total += sum;
            }
        }
        totals::make_symmetric(&mut self.pair_sums, arms);
    }

    /// Adds a sample of `arm`: `kappa[a]` is κ(new, sample a) in the order of arrival, `own` is κ(new, new), `linear`
    /// is f(new).
    ///
    /// # Panics
    /// If `kappa` does not have one value per held sample, or if there is no such arm. Callers check both.
    pub fn add(&mut self, arm: usize, kappa: &[f64], own: f64, linear: f64) {
        assert_eq!(kappa.len(), self.rows(), "κ is needed against every sample held");
        if self.ageing.is_some() {
            return self.add_with_evicted(arm, kappa, &vec![0.0; self.arms()], own, linear);
        }
        let arms = self.arms();
        let mut sums = vec![0.0; arms];
        for (((&value, &other), toward), total) in
            kappa.iter().zip(&self.arm_of).zip(&mut self.toward[arm]).zip(&mut self.totals)
        {
            sums[other] += value;
            *toward += value;
            *total += value;
        }
        self.totals.push(own + sums.iter().sum::<f64>());
        for (other, &sum) in sums.iter().enumerate() {
            self.toward[other].push(sum);
            self.pair_sums[arm * arms + other] += sum;
            self.pair_sums[other * arms + arm] += sum;
        }
        self.counts[arm] += 1;
        self.self_sums[arm] += own;
        self.linear_sums[arm] += linear;
        self.arm_of.push(arm);
        self.self_terms.push(own);
        self.linear.push(linear);
    }

    /// The number of arms, m.
    pub fn arms(&self) -> usize {
        self.counts.len()
    }

    /// The number of samples in the sums, t: held and evicted ones. With exponential decay, the rounded sum of their
    /// weights.
    pub fn len(&self) -> usize {
        if self.ageing.is_some() { self.counts.iter().sum() } else { self.arm_of.len() }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of samples that are held individually: all, unless some were evicted.
    pub fn rows(&self) -> usize {
        self.arm_of.len()
    }

    /// The number of samples in the sums per arm, n.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// The arm of each sample, in the order of arrival.
    pub fn arm_of(&self) -> &[usize] {
        &self.arm_of
    }

    /// f(x) of each sample, in the order of arrival.
    pub fn linear_terms(&self) -> &[f64] {
        &self.linear
    }

    /// κ(x, x) of each sample, in the order of arrival.
    pub fn self_terms(&self) -> &[f64] {
        &self.self_terms
    }

    /// Σκ over pairs of different samples per pair of arms, Σκ(x, x) per arm, and Σf per arm.
    pub(crate) fn sums(&self) -> (&[f64], &[f64], &[f64]) {
        (&self.pair_sums, &self.self_sums, &self.linear_sums)
    }

    /// For each sample, Σκ over the other samples of `arm`.
    pub fn sums_toward(&self, arm: usize) -> &[f64] {
        &self.toward[arm]
    }

    /// The proportions n/t; all zero before the first sample.
    pub fn proportions(&self) -> Vec<f64> {
        let total = self.total();
        (0..self.arms()).map(|arm| self.mass(arm) / total).collect()
    }

    /// K̂ and f̂ as defined in the paper: means over all pairs, including each sample with itself (V-statistics). K̂ is
    /// positive semidefinite if κ is. Arms without samples have zeros.
    pub fn biased(&self) -> Quadratic {
        let mut form = self.linear_form();
        for i in 0..self.arms() {
            for j in 0..self.arms() {
                let own = if i == j { self.self_sums[i] } else { 0.0 };
                *form.at_mut(i, j) = (self.pair_sums[i * self.arms() + j] + own) / self.pairs(i, j);
            }
        }
        if let Some(ageing) = &self.ageing {
            ageing.make_convex(&mut form)
        }
        form
    }

    /// K̂ and f̂ without self-pairs (U-statistics): unbiased, but not necessarily positive semidefinite. Arms with
    /// fewer than two samples have zero on the diagonal.
    pub fn unbiased(&self) -> Quadratic {
        let mut form = self.linear_form();
        for i in 0..self.arms() {
            for j in 0..self.arms() {
                *form.at_mut(i, j) = self.pair_sums[i * self.arms() + j] / self.different_pairs(i, j);
            }
        }
        form
    }

    fn linear_form(&self) -> Quadratic {
        let mut form = Quadratic::zeros(self.arms());
        for (arm, (f, sum)) in form.linear_mut().iter_mut().zip(&self.linear_sums).enumerate() {
            *f = sum / self.divisor(arm);
        }
        form
    }

    /// L(P̂), the loss of the held samples with equal weights: ΣΣκ/t² + Σf/t. `None` before the first sample.
    pub fn empirical_loss(&self) -> Option<f64> {
        let total = self.total();
        let quadratic: f64 = self.pair_sums.iter().chain(&self.self_sums).sum();
        let linear: f64 = self.linear_sums.iter().sum();
        (!self.is_empty()).then(|| quadratic / (total * total) + linear / total)
    }

    /// The scatter of the gradient per arm: Σ(g_a − ḡ)² over the samples of the arm, with g_a = 2·Σ_s κ(x_a, x_s)/t +
    /// f(x_a) over all held samples s.
    pub fn gradient_scatter(&self) -> Vec<f64> {
        if let Some(ageing) = &self.ageing {
            return self.aged_scatter(ageing);
        }
        let factor = 2.0 / self.len().max(1) as f64;
        let term = |sample: usize| factor * self.totals[sample] + self.linear[sample];
        let mut means = vec![0.0; self.arms()];
        for (sample, &arm) in self.arm_of.iter().enumerate() {
            means[arm] += term(sample);
        }
        for (mean, &count) in means.iter_mut().zip(&self.counts) {
            *mean /= count.max(1) as f64;
        }
        // Computed around the mean, not as a difference of squares, so rounding cannot make it negative.
        let mut scatter = vec![0.0; self.arms()];
        for (sample, &arm) in self.arm_of.iter().enumerate() {
            scatter[arm] += (term(sample) - means[arm]).powi(2);
        }
        scatter
    }

    /// Checks that deserialised sums are consistent; snapshots are untrusted input.
    pub(crate) fn check(&self) -> Result<()> {
        let arms = self.arms();
        let mut counts = vec![0; arms];
        for &arm in &self.arm_of {
            *counts.get_mut(arm).ok_or_else(|| snapshot("a sample belongs to an arm that does not exist"))? += 1;
        }
        let lengths = self.pair_sums.len() == arms * arms
            && self.self_sums.len() == arms
            && self.linear_sums.len() == arms
            && self.self_terms.len() == self.rows()
            && self.linear.len() == self.rows()
            && self.totals.len() == self.rows()
            && self.toward.len() == arms
            && self.toward.iter().all(|sums| sums.len() == self.rows());
        let counted = match &self.ageing {
            None => counts == self.counts,
            Some(ageing) => ageing.fits(&self.counts, &counts, self.rows()),
        };
        if !lengths || !counted {
            return Err(snapshot("its sums do not match its samples"));
        }
        Ok(())
    }
}

fn snapshot(problem: &str) -> Error {
    Error::Snapshot { problem: format!("{problem}; it is damaged, so start from an earlier one") }
}
