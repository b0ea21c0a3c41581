//! Slopes from one arm alone toward the others, dᵢ = gᵢ − g_b with g = 2Ke_b + f: variances and third moments of all of
//! them, covariances of some.

use super::{Influences, dot};
use crate::compute::Matrix;

/// Moments of the slopes from one arm toward all others; zero for the arm itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    /// The variance of each estimate.
    pub variances: Vec<f64>,
    /// The third central moment of each estimate.
    pub third_moments: Vec<f64>,
}

impl Influences<'_> {
    /// Variances and third moments of the slopes from `arm` toward each other arm. A sample a of `arm` changes dᵢ by
    /// 2κ̃_ai − 4κ̃_ab − f̃_a, and one of arm i changes it by 2κ̃_ab + f̃_a.
    pub fn slopes(&self, arm: usize) -> Slopes {
        let m = self.arms();
        let common = self.common(arm);
        let (mut variances, mut third_moments) = (vec![0.0; m], vec![0.0; m]);
        // A sum of cubes over an arm's samples is multiplied by 1/(number · size²) to make a third moment of a mean.
        let cube = |count: usize, size: usize| (count as f64 * (size as f64).powi(2)).max(1.0);
        let rows_cubed = cube(self.reference.rows(), self.reference_size.unwrap_or(self.reference.rows()));
        for other in (0..m).filter(|&other| other != arm) {
            let (mut squares, mut cubes, mut at) = (0.0, 0.0, 0);
            self.for_each(arm, other, |kappa| {
                let value = 2.0 * kappa - common[at];
                squares += value * value;
                cubes += value * value * value;
                at += 1;
            });
            let other_terms = self.other_terms(arm, other);
            let rows = self.reference.column(other).iter().zip(self.reference.column(arm));
            let rows: f64 = rows.map(|(toward, from)| (toward - from).powi(3)).sum();
            variances[other] = self.factors[arm] * squares
                + self.own_floor(arm)
                + 4.0 * self.rare_of(arm)[other]
                + self.other_variance(arm, other, &other_terms)
                + self.reference_covariance(arm, other, other)
                + self.frequency_covariance(arm, &[other]).at(0, 0);
            third_moments[other] = cubes / cube(self.samples[arm].len(), self.sizes[arm])
                + other_terms.iter().map(|value| value.powi(3)).sum::<f64>()
                    / cube(other_terms.len(), self.sizes[other])
                + rows / rows_cubed;
        }
        Slopes { variances, third_moments }
    }

    /// The covariance of the slopes from `arm` toward these others.
    pub(crate) fn slope_covariance(&self, arm: usize, others: &[usize]) -> Matrix {
        let common = self.common(arm);
        let mut block = Matrix::zeros(common.len(), others.len());
        for (index, &other) in others.iter().enumerate() {
            let (column, mut at) = (block.column_mut(index), 0);
            self.for_each(arm, other, |kappa| {
                column[at] = 2.0 * kappa - common[at];
                at += 1;
            });
        }
        let mut covariance = block.transposed_times(&block);
        covariance.scale(self.factors[arm]);
        covariance.add(1.0, &self.frequency_covariance(arm, others));
        for (j, &other) in others.iter().enumerate() {
            for (i, &another) in others.iter().enumerate() {
                *covariance.at_mut(i, j) += self.own_floor(arm) + self.reference_covariance(arm, another, other);
            }
            let other_terms = self.other_variance(arm, other, &self.other_terms(arm, other));
            *covariance.at_mut(j, j) += 4.0 * self.rare_of(arm)[other] + other_terms;
        }
        covariance
    }

    /// 4κ̃_ab + f̃_a of the arm's own samples.
    fn common(&self, arm: usize) -> Vec<f64> {
        let f = self.column(arm, self.arms());
        self.column(arm, arm).iter().zip(f).map(|(own, f)| 4.0 * own + f).collect()
    }

    /// 2κ̃_ab + f̃_a of the other arm's samples.
    fn other_terms(&self, arm: usize, other: usize) -> Vec<f64> {
        let f = self.column(other, self.arms());
        self.column(other, arm).iter().zip(f).map(|(toward, f)| 2.0 * toward + f).collect()
    }

    fn other_variance(&self, arm: usize, other: usize, other_terms: &[f64]) -> f64 {
        let rare = self.rare_of(other);
        self.factors[other] * dot(other_terms, other_terms) + 4.0 * rare[arm] + rare[self.arms()]
    }

    /// What rare values of the arm itself add to every pair of slopes.
    fn own_floor(&self, arm: usize) -> f64 {
        let rare = self.rare_of(arm);
        16.0 * rare[arm] + rare[self.arms()]
    }

    fn frequency_covariance(&self, arm: usize, others: &[usize]) -> Matrix {
        let mut covariance = Matrix::zeros(others.len(), others.len());
        for frequencies in &self.frequencies {
            covariance.add(1.0, &frequencies.slope_covariance(arm, others));
        }
        covariance
    }

    fn reference_covariance(&self, arm: usize, i: usize, j: usize) -> f64 {
        if self.reference.rows() == 0 {
            return 0.0;
        }
        let own = self.reference.column(arm);
        let pairs = self.reference.column(i).iter().zip(self.reference.column(j)).zip(own);
        self.reference_factor() * pairs.map(|((i, j), own)| (i - own) * (j - own)).sum::<f64>()
    }
}
