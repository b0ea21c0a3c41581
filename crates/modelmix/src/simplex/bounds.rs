//! What mixture weights may be: a smallest and a largest for each arm.

use crate::error::{Error, Result};

/// Whether shares may lie between these.
fn is_range(floor: f64, cap: f64) -> bool {
    0.0 <= floor && floor <= cap && cap <= 1.0
}

/// What the weights of each arm may be. They must add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    pub(super) floors: Vec<f64>,
    pub(super) caps: Vec<f64>,
}

impl Bounds {
    /// Any mixture of `arms` arms.
    pub fn simplex(arms: usize) -> Self {
        Self { floors: vec![0.0; arms], caps: vec![1.0; arms] }
    }

    /// Only the arms of `support` may have weight.
    ///
    /// # Panics
    /// When there is no such arm.
    pub fn support(arms: usize, support: &[usize]) -> Self {
        let mut caps = vec![0.0; arms];
        for &arm in support {
            caps[arm] = 1.0;
        }
        Self { floors: vec![0.0; arms], caps }
    }

    /// A smallest and a largest weight for each arm.
    ///
    /// # Errors
    /// Bounds outside 0 to 1, a floor above its cap, or no mixture within all of them.
    pub fn new(floors: Vec<f64>, caps: Vec<f64>) -> Result<Self> {
        if floors.len() != caps.len() {
            return Err(Error::Program {
                problem: format!("there are {} floors and {} caps; give one of each an arm", floors.len(), caps.len()),
            });
        }
        for (arm, (&floor, &cap)) in floors.iter().zip(&caps).enumerate() {
            if !is_range(floor, cap) {
                return Err(Error::Program {
                    problem: format!(
                        "arm {arm} has floor {floor} and cap {cap}; both must be between 0 and 1, the floor first"
                    ),
                });
            }
        }
        let bounds = Self { floors, caps };
        bounds.check(bounds.floors.len())?;
        Ok(bounds)
    }

    /// The same for arms that have names, which errors speak of.
    ///
    /// # Errors
    /// As [`Bounds::new`], and bounds for another number of arms.
    pub fn by_arm(names: &[String], floors: Vec<f64>, caps: Vec<f64>) -> Result<Self> {
        for (name, (&floor, &cap)) in names.iter().zip(floors.iter().zip(&caps)) {
            if !is_range(floor, cap) {
                return Err(Error::ByArm {
                    what: "floor".into(),
                    arm: name.clone(),
                    problem: format!(
                        "the floor of {name} is {floor} and its cap {cap}, but shares are between 0 and 1, and a cap is not below its floor"
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

    /// The same without one arm; nothing where the others cannot make up for it.
    pub fn without(&self, arm: usize) -> Option<Self> {
        let mut bounds = self.clone();
        (bounds.floors[arm], bounds.caps[arm]) = (0.0, 0.0);
        bounds.check(bounds.floors.len()).is_ok().then_some(bounds)
    }

    /// The same with these arms only; nothing where they cannot make a mixture, or an arm that must be there is not.
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
                problem: format!("there are bounds for {} arms, and {arms} arms", self.floors.len()),
            });
        }
        let (least, most): (f64, f64) = (self.floors.iter().sum(), self.caps.iter().sum());
        if least > 1.0 + 1e-12 || most < 1.0 - 1e-12 {
            // Without the roundings of the sums.
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
    /// Bounds for another number of arms, or that no mixture fits.
    pub(crate) fn nearest(&self, point: &[f64]) -> Result<Vec<f64>> {
        self.check(point.len())?;
        let limits = || self.floors.iter().zip(&self.caps).zip(point);
        let shifted = |t: f64| limits().map(move |((floor, cap), p)| (p + t).clamp(*floor, *cap));
        // The sum is linear in t between the places where an arm meets a bound.
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

    /// The weight nearest to a value that an arm may have.
    pub(crate) fn clamped(&self, arm: usize, value: f64) -> f64 {
        value.clamp(self.floors[arm], self.caps[arm])
    }

    /// The same where all arms but these have no more than their floors; nothing where that is too little.
    pub(crate) fn free_only(&self, free: &[usize]) -> Option<Self> {
        let mut bounds = self.clone();
        for arm in (0..self.caps.len()).filter(|arm| !free.contains(arm)) {
            bounds.caps[arm] = bounds.floors[arm];
        }
        bounds.check(bounds.floors.len()).is_ok().then_some(bounds)
    }

    /// The arms that can have weight within these bounds.
    pub(crate) fn usable(&self) -> Vec<usize> {
        let room = 1.0 - self.floors.iter().sum::<f64>();
        (0..self.caps.len()).filter(|&arm| self.floors[arm] > 0.0 || self.caps[arm] > 0.0 && room > 0.0).collect()
    }

    /// The linear program min gᵀy over these bounds: fill the cheapest arms first. Calls `fill(arm, amount)` with what
    /// each gets above its floor, in that order.
    pub(super) fn fill(&self, cost: &[f64], mut fill: impl FnMut(usize, f64)) {
        let room = |arm: usize| self.caps[arm] - self.floors[arm];
        let mut left = 1.0 - self.floors.iter().sum::<f64>();
        // On a plain simplex the cheapest arm takes all.
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
