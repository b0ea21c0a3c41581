//! The cheapest mixture whose loss is within a limit, with a fee per arm in use and a price for its share. For given
//! arms it is a convex program, solved by its dual; the arms are found by branch and bound.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::subsets::{MAX_ARMS_OF_COMPLETE_SEARCH, eliminate, support};
use super::{Bounds, NEGLIGIBLE_WEIGHT, Solution, Solver, without_negligible};
use crate::compute::Stop;
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;

/// The width of the price interval, relative to its range, at which the search for multipliers ends.
const PRICE_TOLERANCE: f64 = 1e-12;
/// The maximum number of multipliers that are tried for one set of arms.
const MOST_STEPS: usize = 120;
/// The maximum number of sets of arms that are examined if there are too many for all of them.
const MOST_SETS: usize = 2000;

/// The maximum number of passes over all exchanges.
const MOST_EXCHANGES: usize = 20;

/// What arms cost per period: a fee if an arm is used at all, and the cost of taking all samples from one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// The fee per arm; not negative.
    pub fees: Vec<f64>,
    /// Per arm: price per sample times the number of samples.
    pub costs: Vec<f64>,
}

impl Prices {
    /// The total of the fees of the arms in use.
    pub fn fee(&self, weights: &[f64]) -> f64 {
        self.fees.iter().zip(weights).filter(|(_, weight)| **weight > NEGLIGIBLE_WEIGHT).map(|(fee, _)| fee).sum()
    }

    /// The total cost of the samples.
    pub fn cost(&self, weights: &[f64]) -> f64 {
        dot(&self.costs, weights)
    }

    fn check(&self, arms: usize) -> Result<()> {
        for (what, values) in [("fees", &self.fees), ("costs", &self.costs)] {
            if values.len() != arms {
                return Err(Error::setting(what, format!("{} numbers", values.len()), format!("one per arm: {arms}")));
            }
            if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                return Err(Error::setting(what, value, "finite numbers"));
            }
        }
        match self.fees.iter().find(|fee| **fee < 0.0) {
            Some(fee) => Err(Error::setting("a fee", fee, "0 or more")),
            None => Ok(()),
        }
    }
}

/// The cheapest mixture found, with a bound on how much cheaper another could be.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheapestMixture {
    /// α.
    pub weights: Vec<f64>,
    /// αᵀKα + fᵀα.
    pub value: f64,
    /// Its total cost: fees and samples.
    pub total: f64,
    /// No mixture within the limit costs less than `total − gap`.
    pub gap: f64,
}

/// Finds the cheapest mixture with αᵀKα + fᵀα ≤ limit; among equally cheap ones, the one with the smallest loss. `None`
/// if no mixture satisfies the limit.
///
/// With up to 12 arms the gap is only rounding error. With more, the search may end before all sets of arms are ruled
/// out, and the gap bounds how much cheaper another mixture could be.
///
/// ```
/// use modelmix::{Quadratic, compute::Stop, simplex::{self, Bounds, Prices}};
/// // Of two similar arms, the one without a fee is used.
/// let form = Quadratic::new(vec![1.0, 0.2, 0.2, 0.2, 1.0, 0.99, 0.2, 0.99, 1.0], vec![0.0; 3])?;
/// let prices = Prices { fees: vec![0.0, 0.0, 5.0], costs: vec![1.0, 1.0, 1.0] };
/// let found = simplex::cheapest(&form, &Bounds::simplex(3), &prices, 0.601, &Stop::new())?.expect("half of each has 0.6");
/// assert_eq!(found.weights[2], 0.0);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If the number of prices is not that of the arms, if a fee is negative, as [`super::minimize`], and if it is stopped.
pub fn cheapest(
    form: &Quadratic,
    bounds: &Bounds,
    prices: &Prices,
    limit: f64,
    stop: &Stop,
) -> Result<Option<CheapestMixture>> {
    let arms = form.arms();
    bounds.check(arms)?;
    prices.check(arms)?;
    let mut search = Search { form, bounds, prices, limit, stop, best: None };
    let whole = super::minimize(form, bounds)?;
    if whole.value <= limit {
        search.keep_if_cheaper(without_negligible(whole.weights, bounds));
    }
    if arms > MAX_ARMS_OF_COMPLETE_SEARCH {
        search.search_greedily()?;
    }
    let bound = search.prove(if arms <= MAX_ARMS_OF_COMPLETE_SEARCH { usize::MAX } else { MOST_SETS })?;
    Ok(search.best.map(|best| CheapestMixture { gap: (best.total - bound).max(0.0), ..best }))
}

/// All sets of arms between the forced arms and the allowed arms.
struct Node {
    /// A lower bound on the cost of its mixtures.
    bound: f64,
    allowed: Vec<bool>,
    forced: Vec<bool>,
    /// The arm whose fee is counted least; `None` if all fees are counted in full.
    open: Option<usize>,
}

impl Ord for Node {
    /// Reversed, so that a heap yields the smallest bound first.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .bound
            .total_cmp(&self.bound)
            .then_with(|| other.allowed.cmp(&self.allowed))
            .then_with(|| other.forced.cmp(&self.forced))
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Node {}

struct Search<'a> {
    form: &'a Quadratic,
    bounds: &'a Bounds,
    prices: &'a Prices,
    limit: f64,
    stop: &'a Stop,
    best: Option<CheapestMixture>,
}

impl Search<'_> {
    /// Visits nodes in the order of their bounds, until the rest cannot be cheaper than the best mixture found. Returns
    /// the smallest bound of the rest after at most `most` sets.
    fn prove(&mut self, most: usize) -> Result<f64> {
        let arms = self.form.arms();
        // An arm with a floor is always in use.
        let forced = self.bounds.floors().iter().map(|&floor| floor > 0.0).collect();
        let mut nodes = BinaryHeap::from_iter(self.node(vec![true; arms], forced)?);
        for _ in 0..most {
            let Some(node) = nodes.pop() else { break };
            let done = self.best.as_ref().is_some_and(|best| node.bound >= best.total - self.price_tolerance());
            let Some(arm) = node.open.filter(|_| !done) else { return Ok(node.bound) };
            let (mut without, mut with) = (node.allowed.clone(), node.forced.clone());
            without[arm] = false;
            with[arm] = true;
            nodes.extend(self.node(without, node.forced)?);
            nodes.extend(self.node(node.allowed, with)?);
        }
        Ok(nodes.pop().map_or(f64::INFINITY, |node| node.bound))
    }

    /// The best mixture of a node, if the fee of an arm that may still be left out is counted in proportion to its
    /// share: feeᵢ·αᵢ/capᵢ is at most feeᵢ, and zero if the arm has no weight, so the result is a lower bound. `None`
    /// if no mixture satisfies the bounds.
    fn node(&mut self, allowed: Vec<bool>, forced: Vec<bool>) -> Result<Option<Node>> {
        let Some(bounds) = self.bounds.only(&allowed) else { return Ok(None) };
        let price = |arm: usize| {
            let fee = self.prices.fees[arm];
            let open = if forced[arm] || fee == 0.0 { 0.0 } else { fee / self.bounds.caps()[arm] };
            self.prices.costs[arm] + open
        };
        let prices: Vec<f64> = (0..allowed.len()).map(|arm| if allowed[arm] { price(arm) } else { 0.0 }).collect();
        let Some(found) = self.within(&bounds, &prices)? else { return Ok(None) };
        let paid: f64 = self.prices.fees.iter().zip(&forced).filter(|(_, forced)| **forced).map(|(fee, _)| fee).sum();
        let missing = |arm: usize| self.prices.fees[arm] * (1.0 - found.weights[arm] / self.bounds.caps()[arm]);
        let open = (0..allowed.len())
            .filter(|&arm| found.weights[arm] > 0.0 && !forced[arm] && self.prices.fees[arm] > 0.0)
            .max_by(|&a, &b| missing(a).total_cmp(&missing(b)));
        self.try_arms(&support(&found.weights))?;
        self.keep_if_cheaper(found.weights);
        Ok(Some(Node { bound: paid + found.bound, allowed, forced, open }))
    }

    /// [`cheapest_within`] the limit, unless the search is stopped.
    fn within(&self, bounds: &Bounds, prices: &[f64]) -> Result<Option<CheapestWithin>> {
        self.stop.check()?;
        cheapest_within(self.form, bounds, prices, self.limit)
    }

    /// Tries the cheapest mixture of these arms; returns whether it is the new best.
    fn try_arms(&mut self, arms: &[bool]) -> Result<bool> {
        let Some(bounds) = self.bounds.only(arms) else { return Ok(false) };
        let found = self.within(&bounds, &self.prices.costs)?;
        Ok(found.is_some_and(|found| self.keep_if_cheaper(found.weights)))
    }

    /// A heuristic if there are too many sets for a proof: starts from the best small subset that satisfies the limit,
    /// then removes or exchanges arms as long as that is cheaper.
    fn search_greedily(&mut self) -> Result<()> {
        for found in eliminate(self.form, self.bounds, self.stop)?.into_iter().flatten() {
            self.try_arms(&support(&found.weights))?;
        }
        for _ in 0..MOST_EXCHANGES {
            let mut moved = false;
            let Some(used) = self.best.as_ref().map(|best| support(&best.weights)) else { return Ok(()) };
            for out in (0..used.len()).filter(|&arm| used[arm]) {
                let mut fewer = used.clone();
                fewer[out] = false;
                moved |= self.try_arms(&fewer)?;
                for other in (0..used.len()).filter(|&arm| !used[arm] && self.prices.fees[arm] < self.prices.fees[out])
                {
                    let mut swapped = fewer.clone();
                    swapped[other] = true;
                    moved |= self.try_arms(&swapped)?;
                }
            }
            if !moved {
                break;
            }
        }
        Ok(())
    }

    /// Keeps the mixture if it is cheaper, or equally cheap and better.
    fn keep_if_cheaper(&mut self, weights: Vec<f64>) -> bool {
        let total = self.prices.fee(&weights) + self.prices.cost(&weights);
        let value = self.form.value(&weights);
        let room = self.price_tolerance();
        let is_better = self
            .best
            .as_ref()
            .is_none_or(|best| total < best.total - room || total <= best.total + room && value < best.value);
        if is_better {
            self.best = Some(CheapestMixture { weights, value, total, gap: 0.0 });
        }
        is_better
    }

    /// Prices that differ by less than this count as equal.
    fn price_tolerance(&self) -> f64 {
        PRICE_TOLERANCE
            * self.prices.fees.iter().chain(&self.prices.costs).fold(0.0f64, |most, price| most.max(price.abs()))
    }
}

/// The cheapest mixture within the limit, and a lower bound on its price.
struct CheapestWithin {
    weights: Vec<f64>,
    bound: f64,
}

/// min pᵀα with L(α) ≤ limit. For any λ > 0 the dual gives pᵀα ≥ (min (L + λp) − limit)/λ. As λ grows, the minimiser of
/// L + λp becomes cheaper and worse. Between one within the limit and one beyond it, the last point of the segment
/// within the limit is tried, and the dual bounds its distance to the optimum. If both use the same arms, the path
/// between them is the segment, so the search ends there.
fn cheapest_within(form: &Quadratic, bounds: &Bounds, prices: &[f64], limit: f64) -> Result<Option<CheapestWithin>> {
    let mut solver = Solver::default();
    let best = solver.solve(form, bounds)?;
    let size = form.quadratic().iter().chain(form.linear()).fold(0.0f64, |size, value| size.max(value.abs()));
    if best.value > limit + 1e-13 * size {
        return Ok(None);
    }
    let limit = limit.max(best.value);
    let usable = bounds.usable();
    let ends = usable.iter().map(|&arm| prices[arm]);
    let (least, most) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), price| (least.min(price), most.max(price)));
    let range = most - least;
    if range.is_nan() || range <= 0.0 {
        let bound = dot(prices, &best.weights);
        return Ok(Some(CheapestWithin { weights: best.weights, bound }));
    }
    // Relative to the cheapest price, so that a common offset does not cost precision.
    let relative: Vec<f64> = prices.iter().map(|price| price - least).collect();
    let mut at = |multiplier: f64| -> Result<(Solution, f64, f64)> {
        let mut tilted = form.clone();
        tilted.linear_mut().iter_mut().zip(&relative).for_each(|(f, price)| *f += multiplier * price);
        let found = solver.solve(&tilted, bounds)?;
        let loss = form.value(&found.weights);
        let bound = dot(&relative, &found.weights) + (loss - limit - found.gap) / multiplier;
        Ok((found, loss, bound))
    };
    let mut bound = 0.0f64;
    let mut low = (0.0, best.weights);
    let mut high: Option<(f64, Vec<f64>)> = None;
    let mut multiplier = ((limit - best.value) / range).max(1e-9 * size / range);
    let mut answer = low.1.clone();
    for step in 0..MOST_STEPS {
        let (found, loss, here) = at(multiplier)?;
        bound = bound.max(here);
        if loss <= limit {
            low = (multiplier, found.weights);
        } else {
            high = Some((multiplier, found.weights));
        }
        let share = match &high {
            None => 0.0,
            Some((_, beyond)) => last_within(form, &low.1, beyond, limit),
        };
        answer = match &high {
            None => low.1.clone(),
            Some((_, beyond)) => low.1.iter().zip(beyond).map(|(a, b)| a + share * (b - a)).collect(),
        };
        if dot(&relative, &answer) - bound <= PRICE_TOLERANCE * range {
            break;
        }
        multiplier = match &high {
            None => 8.0 * multiplier,
            Some((beyond, _)) if low.0 == 0.0 && step % 2 == 1 => beyond / 8.0,
            Some((beyond, _)) if step % 2 == 1 => (low.0 * beyond).sqrt(),
            Some((beyond, _)) => low.0 + share.clamp(1e-3, 1.0 - 1e-3) * (beyond - low.0),
        };
        if multiplier.is_nan() || multiplier <= 0.0 || multiplier.is_infinite() {
            break;
        }
    }
    Ok(Some(CheapestWithin { weights: without_negligible(answer, bounds), bound: bound.max(0.0) + least }))
}

/// The largest t at which the point from + t·(to − from) has L ≤ limit; L is a parabola along the segment.
fn last_within(form: &Quadratic, from: &[f64], to: &[f64], limit: f64) -> f64 {
    let way: Vec<f64> = from.iter().zip(to).map(|(a, b)| b - a).collect();
    let slope = dot(&form.gradient(from), &way);
    let bent: f64 = form.quadratic().chunks(way.len()).zip(&way).map(|(row, step)| step * dot(row, &way)).sum();
    let room = (limit - form.value(from)).max(0.0);
    let root = (slope * slope + 4.0 * bent.max(0.0) * room).sqrt();
    let share = if slope >= 0.0 { 2.0 * room / (slope + root) } else { (root - slope) / (2.0 * bent) };
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
