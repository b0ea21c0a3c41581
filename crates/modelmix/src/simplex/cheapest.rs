//! The cheapest mixture whose loss is within a limit: a fee for every arm in use, and a price for its share. With the arms
//! given it is a convex program, solved by its dual; which arms to use is found by branch and bound.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::subsets::{MAX_ARMS_OF_COMPLETE_SEARCH, eliminate, support};
use super::{Bounds, NEGLIGIBLE_WEIGHT, Solution, Solver, without_negligible};
use crate::compute::Stop;
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;

/// What is left of a price's range when the search for multipliers ends.
const PRICE_TOLERANCE: f64 = 1e-12;
/// How many multipliers are tried for one set of arms.
const MOST_STEPS: usize = 120;
/// How many sets of arms are looked at where there are too many for all of them.
const MOST_SETS: usize = 2000;

/// How often all exchanges are tried.
const MOST_EXCHANGES: usize = 20;

/// What arms cost, for one period: a fee for whoever is used at all, and what it costs to have all samples from one arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// By arm; not negative.
    pub fees: Vec<f64>,
    /// By arm: price of a sample times the number of samples.
    pub costs: Vec<f64>,
}

impl Prices {
    /// The fees of the arms in use.
    pub fn fee(&self, weights: &[f64]) -> f64 {
        self.fees.iter().zip(weights).filter(|(_, weight)| **weight > NEGLIGIBLE_WEIGHT).map(|(fee, _)| fee).sum()
    }

    /// The price of the samples.
    pub fn cost(&self, weights: &[f64]) -> f64 {
        dot(&self.costs, weights)
    }

    fn check(&self, arms: usize) -> Result<()> {
        for (what, values) in [("fees", &self.fees), ("costs", &self.costs)] {
            if values.len() != arms {
                return Err(Error::setting(what, format!("{} numbers", values.len()), format!("one an arm: {arms}")));
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

/// The cheapest mixture that was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheapestMixture {
    /// α.
    pub weights: Vec<f64>,
    /// αᵀKα + fᵀα.
    pub value: f64,
    /// What it costs in all: fees and samples.
    pub total: f64,
    /// Nothing within the limit costs less than `total − gap`.
    pub gap: f64,
}

/// The cheapest mixture with αᵀKα + fᵀα ≤ limit, and of several the best; nothing where no mixture is as good as that.
///
/// With up to 12 arms its gap is what rounding leaves; beyond, the search may end before all sets of arms are ruled out, and the
/// gap says how much cheaper another could be.
///
/// ```
/// use modelmix::{Quadratic, compute::Stop, simplex::{self, Bounds, Prices}};
/// // of two arms that are alike, the one without a fee will do
/// let form = Quadratic::new(vec![1.0, 0.2, 0.2, 0.2, 1.0, 0.99, 0.2, 0.99, 1.0], vec![0.0; 3])?;
/// let prices = Prices { fees: vec![0.0, 0.0, 5.0], costs: vec![1.0, 1.0, 1.0] };
/// let found = simplex::cheapest(&form, &Bounds::simplex(3), &prices, 0.601, &Stop::new())?.expect("half of each has 0.6");
/// assert_eq!(found.weights[2], 0.0);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// Prices for another number of arms, a negative fee, as [`super::minimize`], and if it is stopped.
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

/// Sets of arms between those that are paid for and those that are allowed.
struct Node {
    /// None of its mixtures costs less.
    bound: f64,
    allowed: Vec<bool>,
    forced: Vec<bool>,
    /// The arm whose fee is counted least; nothing where all fees are counted in full.
    open: Option<usize>,
}

impl Ord for Node {
    /// The least bound is the greatest, for a heap.
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
    /// The sets with the least bound first, until what is left costs no less than what was found. Gives the least bound of
    /// what is left after so many sets.
    fn prove(&mut self, most: usize) -> Result<f64> {
        let arms = self.form.arms();
        // Whoever has a floor is in use anyway.
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

    /// The best mixture of these sets where the fee of an arm that may still be left out is counted by its share: feeᵢ·αᵢ/capᵢ
    /// is no more than feeᵢ, and nothing where it has no weight, so what comes out is a bound. Nothing where no mixture fits.
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

    /// Offers the cheapest mixture of these arms; whether it was taken.
    fn try_arms(&mut self, arms: &[bool]) -> Result<bool> {
        let Some(bounds) = self.bounds.only(arms) else { return Ok(false) };
        let found = self.within(&bounds, &self.prices.costs)?;
        Ok(found.is_some_and(|found| self.keep_if_cheaper(found.weights)))
    }

    /// Where there are too many sets for a proof, a good guess: the best few arms that are good enough, and then without one
    /// of them, or with another in its place, as long as that is cheaper.
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

    /// Takes what is cheaper, and of what costs the same the better.
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

    /// What counts as the same price.
    fn price_tolerance(&self) -> f64 {
        PRICE_TOLERANCE
            * self.prices.fees.iter().chain(&self.prices.costs).fold(0.0f64, |most, price| most.max(price.abs()))
    }
}

/// The mixture of the least price within the limit, and a proof: no price is less than the bound.
struct CheapestWithin {
    weights: Vec<f64>,
    bound: f64,
}

/// min pᵀα with L(α) ≤ limit. For any λ > 0, pᵀα ≥ (min (L + λp) − limit)/λ: the dual. As λ grows, the minimiser of L + λp gets
/// cheaper and worse; between one within the limit and one beyond it, the segment's last point within is tried, and the dual
/// says how far from the optimum that can be. Where both have the same arms the path between is the segment, so that the
/// search ends there.
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
    // Relative to the cheapest, so that what all have in common does not blur the rest.
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

/// The largest share t of the way from one mixture to another at which L ≤ limit: L is a parabola on the way.
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
