//! The Pareto front of two objectives A and B: the mixtures that minimise A + λB, from λ = 0 to ∞. If A or B is linear,
//! the path is piecewise linear and is found by the ends of its pieces. Otherwise it is followed point by point, with
//! spacing that adapts to its curvature.

use super::{Bounds, NEGLIGIBLE_WEIGHT, Solution};
use crate::error::Result;
use crate::quadratic::Quadratic;

/// The maximum distance between the two sides of a turn, which are mixtures with different arms at their bounds.
const TURN_WIDTH: f64 = 1e-11;
/// An arm with less weight than this at a turn is an error of the turn's position.
const TURN_WEIGHT_ERROR: f64 = 1e-8;
/// The largest step along the path, as a share of the ranges of A and of B.
const MAX_STEP: f64 = 1.0 / 16.0;
/// The largest step near points at which arms enter or leave, if the path is not straight.
const MAX_STEP_AT_TURNS: f64 = 1.0 / 512.0;
/// The smallest step.
const MIN_STEP: f64 = 1e-7;
/// Values that differ by less than this share of a range count as equal.
const EQUAL_VALUES: f64 = 1e-9;
/// The distance of the ends from λ = 0 and ∞ if ties are broken by the other objective.
const TIE_BREAK_SHARE: f64 = 1.0 / (1u64 << 24) as f64;

/// The maximum number of points of a path of two quadratic forms that is followed point by point.
const MAX_POINTS: usize = 400;

/// A mixture on the Pareto front.
#[derive(Clone, Debug, PartialEq)]
pub struct Waypoint {
    /// A λ for which it is optimal; infinite at the end.
    pub multiplier: f64,
    /// α.
    pub weights: Vec<f64>,
    /// The values of A and B, without their constants.
    pub values: [f64; 2],
}

/// Two objectives, as the path search needs them.
pub(crate) trait ObjectivePair {
    /// The best weights for a·A + b·B, with a search from `start`.
    fn minimize(&mut self, shares: [f64; 2], start: &[f64]) -> Result<Solution>;

    /// The values of A and B.
    fn values(&self, weights: &[f64]) -> Result<[f64; 2]>;

    /// Whether the path is piecewise linear.
    fn is_piecewise_linear(&self) -> bool;

    /// The maximum number of points.
    fn max_points(&self) -> usize;
}

/// Finds the Pareto front of two quadratic forms.
///
/// ```
/// use modelmix::{Quadratic, simplex::{self, Bounds}};
/// // Diversity of two arms against the quality of the first: from half of each to all of it.
/// let diversity = Quadratic::new(vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 2])?;
/// let quality = Quadratic::new(vec![0.0; 4], vec![-1.0, 0.0])?;
/// let path = simplex::path(&diversity, &quality, &Bounds::simplex(2))?;
/// assert_eq!((&path[0].weights[..], &path[path.len() - 1].weights[..]), (&[0.5, 0.5][..], &[1.0, 0.0][..]));
/// // In between, a = ½ + λ/4.
/// assert!(path.iter().all(|point| (point.weights[0] - (0.5 + point.multiplier / 4.0).min(1.0)).abs() < 1e-9));
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// As [`super::minimize`].
pub fn path(first: &Quadratic, second: &Quadratic, bounds: &Bounds) -> Result<Vec<Waypoint>> {
    trace(&mut Forms::new([first, second], bounds), bounds)
}

/// Two quadratic forms.
pub(crate) struct Forms<'a> {
    forms: [&'a Quadratic; 2],
    bounds: &'a Bounds,
    solver: super::Solver,
}

impl<'a> Forms<'a> {
    pub(crate) fn new(forms: [&'a Quadratic; 2], bounds: &'a Bounds) -> Self {
        Self { forms, bounds, solver: super::Solver::default() }
    }
}

impl ObjectivePair for Forms<'_> {
    fn minimize(&mut self, shares: [f64; 2], start: &[f64]) -> Result<Solution> {
        let mut sum = Quadratic::zeros(self.forms[0].arms());
        shares.iter().zip(self.forms).for_each(|(share, form)| sum.add(*share, form));
        self.solver.start_from(start);
        self.solver.solve(&sum, self.bounds)
    }

    fn values(&self, weights: &[f64]) -> Result<[f64; 2]> {
        Ok(self.forms.map(|form| form.value(weights)))
    }

    fn is_piecewise_linear(&self) -> bool {
        self.forms.iter().any(|form| form.quadratic().iter().all(|value| *value == 0.0))
    }

    fn max_points(&self) -> usize {
        MAX_POINTS
    }
}

/// A point of the search: a share θ of B, in units of the ranges.
#[derive(Clone)]
struct Point {
    theta: f64,
    weights: Vec<f64>,
    values: [f64; 2],
}

pub(crate) fn trace(pair: &mut dyn ObjectivePair, bounds: &Bounds) -> Result<Vec<Waypoint>> {
    let even = vec![1.0 / bounds.caps().len() as f64; bounds.caps().len()];
    let ends = [best_end(pair, [1.0, 0.0], &even)?, best_end(pair, [0.0, 1.0], &even)?];
    let values = [pair.values(&ends[0])?, pair.values(&ends[1])?];
    let ranges = [values[1][0] - values[0][0], values[0][1] - values[1][1]];
    let size = |at: usize| values[0][at].abs().max(values[1][at].abs()).max(f64::MIN_POSITIVE);
    let point = |end: usize| Point { theta: end as f64, weights: ends[end].clone(), values: values[end] };
    if ranges[0] <= 1e-13 * size(0) || ranges[1] <= 1e-13 * size(1) {
        // One of the ends is optimal for both.
        let only = point(usize::from(ranges[0] <= 1e-13 * size(0)));
        return Ok(vec![Waypoint { multiplier: 0.0, weights: only.weights, values: only.values }]);
    }
    let straight = pair.is_piecewise_linear();
    let mut search = Search { pair, bounds, ranges, points: vec![point(0)] };
    if straight {
        search.find_turns(&point(0), &point(1), 0)?;
        search.fill()?;
    } else {
        search.points.push(point(1));
        search.follow()?;
    }
    let multiplier = |theta: f64| theta / (1.0 - theta) * ranges[0] / ranges[1];
    let Search { pair, points, .. } = search;
    let waypoint = |point: Point| -> Result<Waypoint> {
        let weights = without_turn_errors(point.weights, bounds);
        Ok(Waypoint { multiplier: multiplier(point.theta), values: pair.values(&weights)?, weights })
    };
    let mut path = undominated(points.into_iter().map(waypoint).collect::<Result<_>>()?, ranges);
    if let Some(last) = path.last_mut() {
        // The last turn and the end are the same mixture up to the accuracy of turns.
        let off = last.values[1] - values[1][1];
        if off.abs() < EQUAL_VALUES * ranges[1] {
            (last.weights, last.values) = (ends[1].clone(), values[1]);
        }
    }
    Ok(path)
}

/// Removes the error of a turn's position, which leaves a weight of about that size on arms that enter or leave there.
fn without_turn_errors(found: Vec<f64>, bounds: &Bounds) -> Vec<f64> {
    let (mut weights, mut moved) = (found.clone(), 0.0);
    for (weight, floor) in weights.iter_mut().zip(bounds.floors()) {
        if *weight < TURN_WEIGHT_ERROR && *floor == 0.0 {
            moved += std::mem::take(weight);
        }
    }
    // Moved to the largest weight whose cap allows it; without one, nothing changes.
    let has_room = |arm: &usize| weights[*arm] + moved <= bounds.caps()[*arm];
    let largest = (0..weights.len()).filter(has_room).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
    let Some(largest) = largest else { return found };
    weights[largest] += moved;
    weights
}

/// The optimum of one objective; if there are several, the best of them for the other. A small weight of the other
/// objective finds it; a unique optimum moves by no more than that.
fn best_end(pair: &mut dyn ObjectivePair, shares: [f64; 2], start: &[f64]) -> Result<Vec<f64>> {
    let best = pair.minimize(shares, start)?.weights;
    let other = pair.minimize(shares.map(|share| 1.0 - share), start)?.weights;
    let (here, there) = (pair.values(&best)?, pair.values(&other)?);
    let one = usize::from(shares[1] > 0.0);
    let ratio = (there[one] - here[one]) / (here[1 - one] - there[1 - one]);
    let hint = if ratio.is_finite() && ratio > 0.0 { TIE_BREAK_SHARE * ratio } else { TIE_BREAK_SHARE };
    let mut hinted = [hint; 2];
    hinted[one] = 1.0;
    let tied = pair.minimize(hinted, &best)?.weights;
    let moved = best.iter().zip(&tied).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
    let better = pair.values(&tied)?[1 - one] < here[1 - one];
    Ok(if moved > 1e-4 && better { tied } else { best })
}

struct Search<'a> {
    pair: &'a mut dyn ObjectivePair,
    bounds: &'a Bounds,
    ranges: [f64; 2],
    points: Vec<Point>,
}

impl Search<'_> {
    /// Which bounds the weights are at.
    fn places(&self, weights: &[f64]) -> Vec<u8> {
        let limits = self.bounds.floors().iter().zip(self.bounds.caps());
        let place = |(weight, (floor, cap)): (&f64, (&f64, &f64))| match weight {
            weight if *weight <= floor + NEGLIGIBLE_WEIGHT => 0,
            weight if *weight >= cap - NEGLIGIBLE_WEIGHT && *cap < 1.0 => 2,
            _ => 1,
        };
        weights.iter().zip(limits).map(place).collect()
    }

    fn at(&mut self, theta: f64, start: &[f64]) -> Result<Point> {
        let shares = [(1.0 - theta) / self.ranges[0], theta / self.ranges[1]];
        let weights = self.pair.minimize(shares, start)?.weights;
        Ok(Point { theta, values: self.pair.values(&weights)?, weights })
    }

    /// The largest difference of two points, as a share of the ranges.
    fn step(&self, left: &Point, right: &Point) -> f64 {
        let step = |at: usize| (left.values[at] - right.values[at]).abs() / self.ranges[at];
        step(0).max(step(1))
    }

    /// Appends the ends of straight pieces after `left`, up to `right`, to the list.
    fn find_turns(&mut self, left: &Point, right: &Point, depth: usize) -> Result<()> {
        // While the same arms are at their bounds, optimality is a set of linear conditions on λ (or on 1/λ): if they
        // hold at both ends, they hold between.
        if self.places(&left.weights) == self.places(&right.weights) {
            // Adjacent parts of one straight piece are joined.
            let joined = |at: usize| self.places(&self.points[at].weights) == self.places(&right.weights);
            let count = self.points.len();
            if count > 1 && joined(count - 1) && joined(count - 2) {
                self.points.pop();
            }
            self.points.push(right.clone());
            return Ok(());
        }
        if right.theta - left.theta < TURN_WIDTH || depth > 60 {
            self.points.push(right.clone());
            return Ok(());
        }
        let middle = self.at(0.5 * (left.theta + right.theta), &left.weights)?;
        self.find_turns(left, &middle, depth + 1)?;
        self.find_turns(&middle, right, depth + 1)
    }

    /// Adds points on straight pieces, close enough that a line through them shows the curvature of A and B.
    fn fill(&mut self) -> Result<()> {
        let turns = std::mem::take(&mut self.points);
        // If B is linear, weights are linear in λ, otherwise in 1/λ.
        let middle: Vec<f64> =
            turns[0].weights.iter().zip(&turns[turns.len() - 1].weights).map(|(a, b)| 0.5 * (a + b)).collect();
        let (from, to) = (turns[0].values[1], turns[turns.len() - 1].values[1]);
        let in_odds = (self.pair.values(&middle)?[1] - 0.5 * (from + to)).abs() <= 1e-12 * self.ranges[1];
        let odds = |theta: f64| if in_odds { theta / (1.0 - theta) } else { (1.0 - theta) / theta };
        for pair in turns.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            self.points.push(left.clone());
            let pieces = (self.step(left, right) / MAX_STEP).ceil() as usize;
            let (from, to) = (odds(left.theta), odds(right.theta));
            for piece in 1..pieces.max(1) {
                let share = piece as f64 / pieces as f64;
                let weights: Vec<f64> =
                    left.weights.iter().zip(&right.weights).map(|(a, b)| a + share * (b - a)).collect();
                let odds = from + share * (to - from);
                let theta = if in_odds { odds / (1.0 + odds) } else { 1.0 / (1.0 + odds) };
                self.points.push(Point { theta, values: self.pair.values(&weights)?, weights });
            }
        }
        self.points.extend(turns.last().cloned());
        Ok(())
    }

    /// Adds points where the path bends or arms enter or leave, the largest gap first.
    fn follow(&mut self) -> Result<()> {
        while self.points.len() < self.pair.max_points() {
            let need = |at: usize| {
                let (left, right) = (&self.points[at], &self.points[at + 1]);
                let (step, width) = (self.step(left, right), right.theta - left.theta);
                let turns = || self.places(&left.weights) != self.places(&right.weights);
                match step {
                    _ if width < MIN_STEP => 0.0,
                    step if step > MAX_STEP => 1.0 + step,
                    step if step > EQUAL_VALUES && width > MAX_STEP_AT_TURNS && turns() => width,
                    _ => 0.0,
                }
            };
            let needs = (0..self.points.len() - 1).map(|at| (at, need(at)));
            let Some((at, need)) = needs.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            if need == 0.0 {
                break;
            }
            let (left, right) = (self.points[at].clone(), self.points[at + 1].clone());
            let middle = self.at(0.5 * (left.theta + right.theta), &left.weights)?;
            self.points.insert(at + 1, middle);
        }
        Ok(())
    }
}

/// Keeps undominated points, from the best for A to the best for B: each is worse in A and better in B than the one
/// before.
fn undominated(points: Vec<Waypoint>, ranges: [f64; 2]) -> Vec<Waypoint> {
    let mut kept: Vec<Waypoint> = Vec::new();
    for point in points {
        while kept.last().is_some_and(|last| {
            last.values[0] >= point.values[0] - 1e-12 * ranges[0] && last.values[1] > point.values[1]
        }) && kept.len() > 1
        {
            kept.pop();
        }
        // The two ends of a turn count as one point: the tiny difference between them depends on the processor.
        if kept.last().is_none_or(|last| point.values[1] < last.values[1] - EQUAL_VALUES * ranges[1]) {
            kept.push(point);
        }
    }
    kept
}
