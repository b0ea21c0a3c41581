//! Running sums over samples: counts, Σκ by pair of arms, self-terms apart, Σf, and each sample's own sums. From them
//! come the paper's V-statistics, the unbiased U-statistics, and variances. No kernel is evaluated here. Samples that leave
//! are in `ageing`.

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

/// Sums over the samples held, of m arms.
///
/// One new sample costs one pass over the samples held. Features are not needed: the caller gives κ and f.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    counts: Vec<usize>,
    /// Σκ over pairs of different samples, by arm and arm: both (a, b) and (b, a) count.
    pair_sums: Vec<f64>,
    /// Σκ(x, x), by arm.
    self_sums: Vec<f64>,
    /// Σf, by arm.
    linear_sums: Vec<f64>,
    /// By sample, in the order of arrival: its arm, κ(x, x) and f(x).
    arm_of: Vec<usize>,
    self_terms: Vec<f64>,
    linear: Vec<f64>,
    /// `toward[j][a]`: Σκ(x_a, x_b) over the samples b of arm j, b ≠ a.
    toward: Vec<Vec<f64>>,
    /// Σκ(x_a, x_b) over all samples b held, a itself included.
    totals: Vec<f64>,
    /// What is known of samples that were let go, and what samples count; nothing where all are held and count the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ageing: Option<Box<Ageing>>,
}

impl Statistics {
    /// No samples yet.
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

    /// Takes samples whose sums are known already, as an offline pass gives them: for each its arm, κ(x, x), f(x), and
    /// `toward[j][a]`, the sum of κ over the other samples of arm j.
    ///
    /// # Errors
    /// Lists of different lengths, an arm that is not there, values that are not finite.
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
            let problem = "sums of samples do not fit each other; give one value a sample and list";
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

    /// Recomputes the sums by arm from those by sample.
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

    /// Adds a sample of `arm`: `kappa[a]` is κ(new, sample a) in the order of arrival, `own` is κ(new, new), `linear` is
    /// f(new).
    ///
    /// # Panics
    /// When `kappa` has another length than there are samples, or there is no such arm: callers check that.
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

    /// m.
    pub fn arms(&self) -> usize {
        self.counts.len()
    }

    /// How many samples the sums are over, t: those held and those let go, whole ones where they fade.
    pub fn len(&self) -> usize {
        if self.ageing.is_some() { self.counts.iter().sum() } else { self.arm_of.len() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many samples are held one by one: all, unless some were let go.
    pub fn rows(&self) -> usize {
        self.arm_of.len()
    }

    /// How many samples of each arm the sums are over, n.
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

    /// Σκ over pairs of different samples by arm and arm, Σκ(x, x) by arm, and Σf by arm.
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

    /// K̂ and f̂ as the paper has them: means over all pairs, a sample with itself included (V-statistics). K̂ is positive
    /// semidefinite wherever κ is. Arms without samples have zeros.
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

    /// K̂ and f̂ without self-pairs (U-statistics): unbiased, but not positive semidefinite. Arms with fewer than two
    /// samples have zero on the diagonal.
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

    /// L(P̂), the loss of the samples held, each counting the same: ΣΣκ/t² + Σf/t. Nothing before the first sample.
    pub fn empirical_loss(&self) -> Option<f64> {
        let total = self.total();
        let quadratic: f64 = self.pair_sums.iter().chain(&self.self_sums).sum();
        let linear: f64 = self.linear_sums.iter().sum();
        (!self.is_empty()).then(|| quadratic / (total * total) + linear / total)
    }

    /// How much the samples of each arm differ in what they add to the loss: Σ(g_a − ḡ)² over the arm's samples, where
    /// g_a = 2·Σ_s κ(x_a, x_s)/t + f(x_a) over all samples s held.
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
        // Around the mean, not as a difference of squares: it cannot round below zero.
        let mut scatter = vec![0.0; self.arms()];
        for (sample, &arm) in self.arm_of.iter().enumerate() {
            scatter[arm] += (term(sample) - means[arm]).powi(2);
        }
        scatter
    }

    /// Whether deserialised sums fit each other; a snapshot is not trusted.
    pub(crate) fn check(&self) -> Result<()> {
        let arms = self.arms();
        let mut counts = vec![0; arms];
        for &arm in &self.arm_of {
            *counts.get_mut(arm).ok_or_else(|| snapshot("a sample of an arm that is not there"))? += 1;
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
            return Err(snapshot("its sums do not fit its samples"));
        }
        Ok(())
    }
}

fn snapshot(problem: &str) -> Error {
    Error::Snapshot { problem: format!("{problem}; it is damaged, so start from an earlier one") }
}
