//! The active-set solver: a Cholesky factor over the free arms, which is extended and rotated as arms enter and leave.

use serde::{Deserialize, Serialize};

use super::{Bounds, Solution};
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;

/// K is rejected if a curvature is below zero by more than this, relative to K. Sums in single precision are accurate
/// to 1e-6, so arms that are alike may seem to curve downward by that much. Smaller curvatures are treated as flat.
const MAX_NEGATIVE_CURVATURE: f64 = 1e-5;

fn not_convex() -> Error {
    let problem = "K is not positive semidefinite, so the loss is not convex; use V-statistics, which include self-pairs, or a positive semidefinite kernel";
    Error::Program { problem: problem.into() }
}

/// The position of an arm's weight relative to its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Floor,
    Cap,
    Free,
}

/// A solver that starts from its last solution.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "LastAnswer", into = "LastAnswer")]
pub struct Solver {
    /// The present point, and after a solve its solution.
    weights: Vec<f64>,
    places: Vec<Place>,
    /// Free arms, in the order of the rows of `factor`.
    free: Vec<usize>,
    /// L of (K̃ + c·11ᵀ) on the free arms = L Lᵀ, rows of stride m.
    factor: Vec<f64>,
    /// K̃: the form relative to one arm, scaled to order 1; see [`Solver::shift`].
    shifted: Vec<f64>,
    shifted_linear: Vec<f64>,
    gradient: Vec<f64>,
    column: Vec<f64>,
    direction: Vec<f64>,
    ones: Vec<f64>,
    /// c.
    ridge: f64,
    /// Rounding noise of K̃'s entries, and the size of K's.
    noise: f64,
    size: f64,
    /// The divisor of K̃ and its linear part.
    scale: f64,
}

/// All state that a later solve depends on: a solver restored from it gives identical bits.
#[derive(Serialize, Deserialize)]
struct LastAnswer {
    weights: Vec<f64>,
}

impl From<LastAnswer> for Solver {
    fn from(last: LastAnswer) -> Self {
        Self { weights: last.weights, ..Self::default() }
    }
}

impl From<Solver> for LastAnswer {
    fn from(solver: Solver) -> Self {
        Self { weights: solver.weights }
    }
}

impl Solver {
    /// Solves a problem, starting from the last solution if it satisfies the bounds.
    ///
    /// # Errors
    /// If no mixture satisfies the bounds, or if K is found not to be positive semidefinite in some direction.
    pub fn solve(&mut self, form: &Quadratic, bounds: &Bounds) -> Result<Solution> {
        let arms = form.arms();
        bounds.check(arms)?;
        let is_mixture = (self.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9;
        let warm = self.weights.len() == arms && is_mixture && self.is_within(bounds);
        let result = self.shift(form).and_then(|scale| {
            if warm {
                self.start_warm(bounds)?
            } else {
                self.start_cold(form, bounds)
            }
            self.scale = scale;
            Ok((self.descend(bounds)?, scale))
        });
        let (iterations, scale) = match result {
            Ok(done) => done,
            Err(error) => {
                self.weights.clear();
                return Err(error);
            }
        };
        let weights = self.weights.clone();
        Ok(Solution { value: form.value(&weights), gap: self.gap(bounds) * scale, weights, iterations })
    }

    /// The best weights with the K of the last solve and another f, starting from the last solution. Nothing that
    /// depends only on K is recomputed. All sizes must be the same as then.
    ///
    /// # Errors
    /// As [`Solver::solve`].
    pub(crate) fn solve_again(&mut self, form: &Quadratic, linear: &[f64], bounds: &Bounds) -> Result<Vec<f64>> {
        debug_assert_eq!(self.shifted.len(), form.arms() * form.arms(), "the same K has been solved with");
        let (common, scale) = (form.at(0, 0), self.scale);
        for (arm, value) in self.shifted_linear.iter_mut().enumerate() {
            *value = (linear[arm] - linear[0] + 2.0 * (form.at(arm, 0) - common)) / scale;
        }
        let result = self.start_warm(bounds).and_then(|()| self.descend(bounds));
        if let Err(error) = result {
            self.weights.clear();
            return Err(error);
        }
        Ok(self.weights.clone())
    }

    /// Forgets the last solution: the next solve starts from scratch and reuses the memory.
    pub fn forget(&mut self) {
        self.weights.clear();
    }

    /// Starts the next solve from these weights, if they satisfy its bounds.
    pub fn start_from(&mut self, weights: &[f64]) {
        self.weights.clear();
        self.weights.extend_from_slice(weights);
    }

    fn is_within(&self, bounds: &Bounds) -> bool {
        self.weights
            .iter()
            .zip(bounds.floors.iter().zip(&bounds.caps))
            .all(|(weight, (floor, cap))| floor <= weight && weight <= cap)
    }

    /// Transforms the form relative to arm 0, which changes its value only by a constant, because Σα = 1: K̃ᵢⱼ = Kᵢⱼ −
    /// Kᵢ₀ − K₀ⱼ + K₀₀ and f̃ᵢ = fᵢ − f₀ + 2(Kᵢ₀ − K₀₀). This removes what all arms have in common, so small
    /// differences keep their precision. Both are divided by the returned scale.
    fn shift(&mut self, form: &Quadratic) -> Result<f64> {
        let m = form.arms();
        let common = form.at(0, 0);
        let mut size = 0.0f64;
        self.shifted.clear();
        self.shifted_linear.clear();
        let first = &form.quadratic()[..m];
        for (row, f) in form.quadratic().chunks_exact(m).zip(form.linear()) {
            let base = row[0] - common;
            self.shifted_linear.push(f - form.linear()[0] + 2.0 * base);
            self.shifted.extend(row.iter().zip(first).map(|(value, above)| value - above - base));
            size = row.iter().fold(size, |size, value| size.max(value.abs()));
        }
        // A form has finite values, but values that callers add to its f may not be finite.
        if !self.shifted_linear.iter().all(|value| value.is_finite()) {
            return Err(Error::Program { problem: "f has a value that is not finite".into() });
        }
        let noise = 8.0 * f64::EPSILON * size;
        if (0..m).any(|i| self.shifted[i * m + i] < -MAX_NEGATIVE_CURVATURE * size) {
            return Err(not_convex());
        }
        let curvature = (0..m).fold(0.0f64, |most, i| most.max(self.shifted[i * m + i]));
        let slope = self.shifted_linear.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let scale = curvature.max(slope).max(noise);
        if scale == 0.0 {
            (self.noise, self.size, self.ridge) = (0.0, 0.0, 1.0);
            return Ok(1.0);
        }
        for value in self.shifted.iter_mut().chain(&mut self.shifted_linear) {
            *value /= scale;
        }
        self.noise = noise / scale;
        self.size = size / scale;
        // With the ridge c·11ᵀ, which is constant on Σα = 1, the block of a set of arms is singular only if it contains
        // a direction along which a mixture can move without curvature.
        self.ridge = if curvature > noise { curvature / scale } else { 1.0 };
        Ok(scale)
    }

    /// Starts from the arm with the smallest loss alone, as far as the caps allow.
    fn start_cold(&mut self, form: &Quadratic, bounds: &Bounds) {
        let m = form.arms();
        let alone: Vec<f64> = (0..m).map(|arm| form.single(arm)).collect();
        self.weights.clear();
        self.weights.extend_from_slice(&bounds.floors);
        let mut last = None;
        bounds.fill(&alone, |arm, amount| {
            self.weights[arm] = (self.weights[arm] + amount).min(bounds.caps[arm]);
            last = Some(arm);
        });
        self.reset_places(bounds);
        // One arm is always free, even if it is at a bound: it compensates for the weight that another one gets.
        let basis = last.or_else(|| (0..m).find(|&arm| bounds.floors[arm] < bounds.caps[arm]));
        if let Some(arm) = basis {
            self.append(arm);
        }
    }

    fn reset_places(&mut self, bounds: &Bounds) {
        let m = self.weights.len();
        self.free.clear();
        // The rest of an earlier factor is overwritten before it is read.
        self.factor.resize(m * m, 0.0);
        self.places.clear();
        self.places.extend((0..m).map(|arm| {
            let at_cap = self.weights[arm] >= bounds.caps[arm] && bounds.caps[arm] > bounds.floors[arm];
            if at_cap { Place::Cap } else { Place::Floor }
        }));
        self.compute_gradient();
    }

    fn start_warm(&mut self, bounds: &Bounds) -> Result<()> {
        let m = self.weights.len();
        self.reset_places(bounds);
        let mut inside: Vec<usize> = (0..m)
            .filter(|&arm| bounds.floors[arm] < self.weights[arm] && self.weights[arm] < bounds.caps[arm])
            .collect();
        if inside.is_empty() {
            inside.extend(
                (0..m)
                    .filter(|&arm| bounds.floors[arm] < bounds.caps[arm])
                    .max_by(|&a, &b| self.weights[a].total_cmp(&self.weights[b])),
            );
        }
        for arm in inside {
            self.release(arm, bounds, None)?;
        }
        Ok(())
    }

    fn compute_gradient(&mut self) {
        let m = self.weights.len();
        self.gradient.clear();
        self.gradient.extend_from_slice(&self.shifted_linear);
        for (row, weight) in self.shifted.chunks(m).zip(&self.weights) {
            if *weight != 0.0 {
                for (g, k) in self.gradient.iter_mut().zip(row) {
                    *g += 2.0 * weight * k;
                }
            }
        }
    }

    /// Tries to append `arm` to the factor. Leaves y = L⁻¹(K̃ + c)_{F,arm} in `column`, and returns the pivot.
    fn append(&mut self, arm: usize) -> Option<f64> {
        let m = self.weights.len();
        let size = self.free.len();
        self.column.clear();
        for (row, &other) in self.free.iter().enumerate() {
            let mut value = self.shifted[arm * m + other] + self.ridge;
            for (l, y) in self.factor[row * m..][..row].iter().zip(&self.column) {
                value -= l * y;
            }
            self.column.push(value / self.factor[row * m + row]);
        }
        let diagonal = self.shifted[arm * m + arm] + self.ridge;
        let pivot = diagonal - self.column.iter().map(|y| y * y).sum::<f64>();
        let tolerance = 8.0 * f64::EPSILON * (size + 1) as f64 * diagonal.max(self.ridge) + 2.0 * self.noise;
        if pivot <= tolerance {
            return Some(pivot);
        }
        self.factor[size * m..][..size].copy_from_slice(&self.column);
        self.factor[size * m + size] = pivot.sqrt();
        self.free.push(arm);
        self.places[arm] = Place::Free;
        None
    }

    /// Removes the free arm at `position` from the factor: deletes its row, and makes the rest triangular again by
    /// rotations.
    fn remove(&mut self, position: usize, place: Place) {
        let m = self.weights.len();
        let size = self.free.len();
        self.places[self.free.remove(position)] = place;
        for row in position..size - 1 {
            self.factor.copy_within((row + 1) * m..(row + 1) * m + row + 2, row * m);
            let (a, b) = (self.factor[row * m + row], self.factor[row * m + row + 1]);
            let length = a.hypot(b);
            let (cosine, sine) = (a / length, b / length);
            // The row itself, and the same two columns of the following rows.
            self.factor[row * m + row] = length;
            for below in row + 2..size {
                let at = below * m + row;
                let (left, right) = (self.factor[at], self.factor[at + 1]);
                self.factor[at] = cosine * left + sine * right;
                self.factor[at + 1] = cosine * right - sine * left;
            }
        }
    }

    /// Solves L Lᵀ x = b in place.
    fn back_substitute(factor: &[f64], m: usize, x: &mut [f64]) {
        for row in (0..x.len()).rev() {
            x[row] /= factor[row * m + row];
            let value = x[row];
            for (earlier, l) in x[..row].iter_mut().zip(&factor[row * m..][..row]) {
                *earlier -= l * value;
            }
        }
    }

    fn solve_factor(factor: &[f64], m: usize, x: &mut [f64]) {
        for row in 0..x.len() {
            let mut value = x[row];
            for (l, earlier) in factor[row * m..][..row].iter().zip(&*x) {
                value -= l * earlier;
            }
            x[row] = value / factor[row * m + row];
        }
        Self::back_substitute(factor, m, x);
    }

    /// Frees an arm. If it depends on the free ones, first moves along the flat direction, down the slope (`sign` is
    /// the direction in which the arm itself may move; both if `None`), until another arm reaches a bound and leaves.
    fn release(&mut self, arm: usize, bounds: &Bounds, sign: Option<f64>) -> Result<()> {
        let m = self.weights.len();
        while let Some(pivot) = self.append(arm) {
            if pivot < -MAX_NEGATIVE_CURVATURE * self.size.max(1.0) {
                return Err(not_convex());
            }
            if self.free.is_empty() {
                // All curvature is rounding error, and no other arm can compensate for the weight that this one would
                // get.
                return Ok(());
            }
            // z = e_arm − L⁻ᵀy has no curvature, and sums to 0.
            self.direction.clear();
            self.direction.extend_from_slice(&self.column);
            Self::back_substitute(&self.factor, m, &mut self.direction);
            let slope = self.gradient[arm]
                - self.free.iter().zip(&self.direction).map(|(&other, z)| self.gradient[other] * z).sum::<f64>();
            let sign = sign.unwrap_or(if slope > 0.0 { -1.0 } else { 1.0 });
            for z in &mut self.direction {
                *z *= -sign;
            }
            let own =
                if sign > 0.0 { bounds.caps[arm] - self.weights[arm] } else { self.weights[arm] - bounds.floors[arm] };
            let (step, blocking) = self.longest_step(bounds, own);
            self.weights[arm] += sign * step;
            match blocking {
                None => {
                    let cap = sign > 0.0;
                    self.weights[arm] = if cap { bounds.caps[arm] } else { bounds.floors[arm] };
                    self.places[arm] = if cap { Place::Cap } else { Place::Floor };
                    self.compute_gradient();
                    return Ok(());
                }
                Some((position, place)) => {
                    self.settle(position, place, bounds);
                    self.compute_gradient();
                }
            }
        }
        Ok(())
    }

    /// Moves the free arms along `direction`, at most by `limit`, up to the first bound. Returns that bound, if any.
    fn longest_step(&mut self, bounds: &Bounds, limit: f64) -> (f64, Option<(usize, Place)>) {
        let mut step = limit;
        let mut blocking = None;
        for (position, (&arm, &z)) in self.free.iter().zip(&self.direction).enumerate() {
            let (room, place) = if z < 0.0 {
                ((self.weights[arm] - bounds.floors[arm]) / -z, Place::Floor)
            } else if z > 0.0 {
                ((bounds.caps[arm] - self.weights[arm]) / z, Place::Cap)
            } else {
                continue;
            };
            if room < step {
                step = room.max(0.0);
                blocking = Some((position, place));
            }
        }
        for (&arm, &z) in self.free.iter().zip(&self.direction) {
            self.weights[arm] = (self.weights[arm] + step * z).clamp(bounds.floors[arm], bounds.caps[arm]);
        }
        (step, blocking)
    }

    /// Sets a free arm exactly to the bound that it reached.
    fn settle(&mut self, position: usize, place: Place, bounds: &Bounds) {
        let arm = self.free[position];
        self.weights[arm] = if place == Place::Cap { bounds.caps[arm] } else { bounds.floors[arm] };
        self.remove(position, place);
    }

    /// The active-set loop: minimise over the free arms. If a bound stops the step, fix the arm there; otherwise free
    /// the arm whose multiplier has the wrong sign; done if there is none.
    fn descend(&mut self, bounds: &Bounds) -> Result<usize> {
        let m = self.weights.len();
        if self.free.is_empty() {
            return Ok(0);
        }
        let most = 60 * m + 200;
        let mut tolerance = 8.0 * f64::EPSILON + self.noise;
        let mut refinements = 0;
        let mut released = None;
        for iteration in 1..=most {
            if self.free.len() > 1 {
                self.newton_direction();
                let (_, blocking) = self.longest_step(bounds, 1.0);
                if let Some((position, place)) = blocking {
                    if released == Some(self.free[position]) {
                        // The arm that was just freed is back at its bound: its multiplier was rounding noise.
                        tolerance *= 4.0;
                    }
                    self.settle(position, place, bounds);
                    self.compute_gradient();
                    refinements = 0;
                    continue;
                }
                self.compute_gradient();
            }
            let level = self.free.iter().map(|&arm| self.gradient[arm]).sum::<f64>() / self.free.len() as f64;
            let uneven = self.free.iter().fold(0.0f64, |most, &arm| most.max((self.gradient[arm] - level).abs()));
            if uneven > tolerance && refinements < 2 {
                refinements += 1;
                continue;
            }
            refinements = 0;
            let candidate = (0..m)
                .filter(|&arm| bounds.floors[arm] < bounds.caps[arm])
                .filter_map(|arm| {
                    let violation = match self.places[arm] {
                        Place::Floor => level - self.gradient[arm],
                        Place::Cap => self.gradient[arm] - level,
                        Place::Free => return None,
                    };
                    (violation > tolerance).then_some((arm, violation))
                })
                .max_by(|a, b| a.1.total_cmp(&b.1));
            let Some((arm, _)) = candidate else {
                self.make_sum_exact(bounds);
                return Ok(iteration);
            };
            let sign = if self.places[arm] == Place::Floor { 1.0 } else { -1.0 };
            released = Some(arm);
            self.release(arm, bounds, Some(sign))?;
        }
        self.make_sum_exact(bounds);
        Ok(most)
    }

    /// The step to the minimum over the free arms: ½(μv − u) with (K̃ + c)u = gradient, (K̃ + c)v = 1, summing to 0.
    fn newton_direction(&mut self) {
        let m = self.weights.len();
        self.direction.clear();
        self.direction.extend(self.free.iter().map(|&arm| self.gradient[arm]));
        Self::solve_factor(&self.factor, m, &mut self.direction);
        self.ones.clear();
        self.ones.resize(self.free.len(), 1.0);
        Self::solve_factor(&self.factor, m, &mut self.ones);
        let level = self.direction.iter().sum::<f64>() / self.ones.iter().sum::<f64>();
        for (u, v) in self.direction.iter_mut().zip(&self.ones) {
            *u = 0.5 * (level * v - *u);
        }
    }

    /// Rounding leaves Σα off by a few units in the last place; the largest free arm is corrected by the difference.
    fn make_sum_exact(&mut self, bounds: &Bounds) {
        let off = 1.0 - self.weights.iter().sum::<f64>();
        if let Some(&arm) = self.free.iter().max_by(|&&a, &&b| self.weights[a].total_cmp(&self.weights[b])) {
            self.weights[arm] = (self.weights[arm] + off).clamp(bounds.floors[arm], bounds.caps[arm]);
        }
    }

    /// The duality gap in scaled units, on the shifted form, because a constant added to the gradient cancels.
    fn gap(&mut self, bounds: &Bounds) -> f64 {
        self.compute_gradient();
        let least: f64 = {
            let mut sum: f64 = self.gradient.iter().zip(&bounds.floors).map(|(g, floor)| g * floor).sum();
            bounds.fill(&self.gradient, |arm, amount| sum += self.gradient[arm] * amount);
            sum
        };
        let here: f64 = self.gradient.iter().zip(&self.weights).map(|(g, weight)| g * weight).sum();
        (here - least).max(0.0)
    }
}
