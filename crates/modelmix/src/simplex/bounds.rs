//! Bounds on mixture weights: a floor and a cap per arm.

use crate::error::{Error, Result};

/// Whether floor and cap are a valid range of weights.
fn is_range(floor: f64, cap: f64) -> bool {
    0.0 <= floor && floor <= cap && cap <= 1.0
}

/// A smallest and a largest weight for each arm. Weights always sum to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    pub(super) floors: Vec<f64>,
    pub(super) caps: Vec<f64>,
}

impl Bounds {
    /// Allows every mixture of `arms` arms.
    pub fn simplex(arms: usize) -> Self {
        Self { floors: vec![0.0; arms], caps: vec![1.0; arms] }
    }

    /// Allows only the arms of `support` to have weight.
    ///
    /// # Panics
    /// If an arm does not exist.
    pub fn support(arms: usize, support: &[usize]) -> Self {
        let mut caps = vec![0.0; arms];
        for &arm in support {
            caps[arm] = 1.0;
        }
        Self { floors: vec![0.0; arms], caps }
    }

    /// Creates bounds from a smallest and a largest weight per arm.
    ///
    /// # Errors
    /// If a bound is outside 0 to 1, if a floor is above its cap, or if no mixture satisfies all bounds.
    pub fn new(floors: Vec<f64>, caps: Vec<f64>) -> Result<Self> {
        if floors.len() != caps.len() {
            return Err(Error::Program {
                problem: format!("there are {} floors and {} caps; give one of each per arm", floors.len(), caps.len()),
            });
        }
        for (arm, (&floor, &cap)) in floors.iter().zip(&caps).enumerate() {
            if !is_range(floor, cap) {
                return Err(Error::Program {
                    problem: format!(
                        "arm {arm} has floor {floor} and cap {cap}; both must be between 0 and 1, and the floor must not exceed the cap"
                    ),
                });
            }
        }
        let bounds = Self { floors, caps };
        bounds.check(bounds.floors.len())?;
        Ok(bounds)
    }

    /// [`Bounds::new`] for named arms; errors contain the names.
    ///
    /// # Errors
    /// As [`Bounds::new`], and if the number of bounds is not that of the arms.
    pub fn by_arm(names: &[String], floors: Vec<f64>, caps: Vec<f64>) -> Result<Self> {
        for (name, (&floor, &cap)) in names.iter().zip(floors.iter().zip(&caps)) {
            if !is_range(floor, cap) {
                return Err(Error::ByArm {
                    what: "floor".into(),
                    arm: name.clone(),
                    problem: format!(
                        "the floor of {name} is {floor} and its cap {cap}, but both must be between 0 and 1, and the floor must not exceed the cap"
                    ),
                });
            }
        }
        let bounds = Self::new(floors, caps)?;
        bounds.check(names.len())?;
        Ok(bounds)
    }

    /// Whether they rule out any mixture.
    pub(crate) fn restricts(&self) -> bool {
        self.floors.iter().any(|&floor| floor > 0.0) || self.caps.iter().any(|&cap| cap < 1.0)
    }

    /// The smallest weight of each arm.
    pub fn floors(&self) -> &[f64] {
        &self.floors
    }

    /// The largest weight of each arm.
    pub fn caps(&self) -> &[f64] {
        &self.caps
    }

    /// The bounds without one arm; `None` if the others cannot replace it.
    pub fn without(&self, arm: usize) -> Option<Self> {
        let mut bounds = self.clone();
        (bounds.floors[arm], bounds.caps[arm]) = (0.0, 0.0);
        bounds.check(bounds.floors.len()).is_ok().then_some(bounds)
    }

    /// The bounds with only these arms; `None` if they admit no mixture, or if an arm with a positive floor is left
    /// out.
    pub fn only(&self, allowed: &[bool]) -> Option<Self> {
        let mut bounds = self.clone();
        for (arm, allowed) in allowed.iter().enumerate() {
            if !allowed && bounds.floors[arm] > 0.0 {
                return None;
            }
            if !allowed {
                bounds.caps[arm] = 0.0;
            }
        }
        bounds.check(allowed.len()).is_ok().then_some(bounds)
    }

    pub(super) fn check(&self, arms: usize) -> Result<()> {
        if self.floors.len() != arms {
            return Err(Error::Program {
                problem: format!("there are bounds for {} arms, but {arms} arms", self.floors.len()),
            });
        }
        let (least, most): (f64, f64) = (self.floors.iter().sum(), self.caps.iter().sum());
        if least > 1.0 + 1e-12 || most < 1.0 - 1e-12 {
            // Removes the rounding errors of the sums.
            let [least, most] = [least, most].map(|sum| (sum * 1e12).round() / 1e12);
            return Err(Error::Program {
                problem: format!(
                    "the floors add up to {least} and the caps to {most}; no weights that add up to 1 lie between"
                ),
            });
        }
        Ok(())
    }

    /// The allowed mixture nearest to a point: clamp(pᵢ + t, floor, cap) with the t that makes the sum 1.
    ///
    /// # Errors
    /// If the number of bounds is not that of the arms, or if no mixture satisfies them.
    pub(crate) fn nearest(&self, point: &[f64]) -> Result<Vec<f64>> {
        self.check(point.len())?;
        let limits = || self.floors.iter().zip(&self.caps).zip(point);
        let shifted = |t: f64| limits().map(move |((floor, cap), p)| (p + t).clamp(*floor, *cap));
        // The sum is linear in t between the points at which an arm reaches a bound.
        let mut turns: Vec<f64> = limits().flat_map(|((floor, cap), p)| [floor - p, cap - p]).collect();
        turns.sort_by(f64::total_cmp);
        let sum = |t: f64| shifted(t).sum::<f64>();
        let after = turns.partition_point(|&t| sum(t) < 1.0).clamp(1, turns.len() - 1);
        let (left, right) = (turns[after - 1], turns[after]);
        let (low, high) = (sum(left), sum(right));
        let share = if high > low { ((1.0 - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
        Ok(shifted(left + share * (right - left)).collect())
    }

    /// Whether one arm may have all of the weight.
    pub(crate) fn allows_only(&self, arm: usize) -> bool {
        (0..self.caps.len()).all(|other| if other == arm { self.caps[arm] == 1.0 } else { self.floors[other] == 0.0 })
    }

    /// The allowed weight of an arm that is nearest to a value.
    pub(crate) fn clamped(&self, arm: usize, value: f64) -> f64 {
        value.clamp(self.floors[arm], self.caps[arm])
    }

    /// The bounds in which all arms except these are fixed at their floors; `None` if that admits no mixture.
    pub(crate) fn free_only(&self, free: &[usize]) -> Option<Self> {
        let mut bounds = self.clone();
        for arm in (0..self.caps.len()).filter(|arm| !free.contains(arm)) {
            bounds.caps[arm] = bounds.floors[arm];
        }
        bounds.check(bounds.floors.len()).is_ok().then_some(bounds)
    }

    /// The arms that can have positive weight within these bounds.
    pub(crate) fn usable(&self) -> Vec<usize> {
        let room = 1.0 - self.floors.iter().sum::<f64>();
        (0..self.caps.len()).filter(|&arm| self.floors[arm] > 0.0 || self.caps[arm] > 0.0 && room > 0.0).collect()
    }

    /// Solves the linear program min gᵀy over these bounds: fills the cheapest arms first. Calls `fill(arm, amount)`
    /// with the amount above its floor that each arm gets, in that order.
    pub(super) fn fill(&self, cost: &[f64], mut fill: impl FnMut(usize, f64)) {
        let room = |arm: usize| self.caps[arm] - self.floors[arm];
        let mut left = 1.0 - self.floors.iter().sum::<f64>();
        // On a plain simplex the cheapest arm gets everything.
        let cheapest = (0..cost.len()).filter(|&arm| room(arm) > 0.0).min_by(|&a, &b| cost[a].total_cmp(&cost[b]));
        if let Some(arm) = cheapest.filter(|&arm| left > 0.0 && room(arm) >= left) {
            return fill(arm, left);
        }
        let mut order: Vec<usize> = (0..cost.len()).collect();
        order.sort_by(|&a, &b| cost[a].total_cmp(&cost[b]));
        for arm in order {
            if left <= 0.0 {
                break;
            }
            let amount = room(arm).min(left);
            if amount > 0.0 {
                left -= amount;
                fill(arm, amount);
            }
        }
    }
}
