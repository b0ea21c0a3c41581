//! The best mixture of at most k arms, for every k. The choice of arms is a combinatorial search: backward elimination
//! with exchanges, then branch and bound, which proves optimality as far as the work limit allows.

use super::{Bounds, Solution, Solver, without_negligible};
use crate::compute::Stop;
use crate::error::{Error, Result};
use crate::quadratic::Quadratic;

/// A value is smaller only if it is below another by more than this, relative to the size of the form.
const VALUE_TOLERANCE: f64 = 1e-13;
/// The maximum number of arms that are tried in place of one, steepest decrease of the loss first.
const MAX_EXCHANGES_TRIED: usize = 6;
/// With up to this number of arms, every search is complete.
pub(super) const MAX_ARMS_OF_COMPLETE_SEARCH: usize = 12;
/// The maximum number of programs for the proof of one k with more arms.
const MOST_PROGRAMS: usize = 3000;

/// The approximate maximum number of multiplications of a whole search, beyond what every size needs: some ten seconds.
/// With up to about 40 arms the search ends earlier.
const MAX_WORK: u64 = 12_000_000_000;

/// The best mixture found with at most `size` arms.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Subset {
    /// The maximum number of arms.
    pub size: usize,
    /// Its weights, with a duality gap among mixtures of these arms.
    pub solution: Solution,
    /// Whether it is proved that no other subset of this size is better, up to rounding.
    pub proved: bool,
}

/// Finds the best mixtures of at most 1, 2, … arms, up to the number of arms of the best mixture; more do not help.
/// Sizes for which the bounds admit no mixture are left out.
///
/// With up to 12 arms every result is proved optimal; with more, each says whether it is. The work is limited: with
/// hundreds of arms fewer alternatives are tried per size, and hardly any size is proved.
///
/// ```
/// use modelmix::{Quadratic, compute::Stop, simplex::{self, Bounds}};
/// // The third arm lies between the others: the best alone, but useless in combination with them.
/// let form = Quadratic::new(vec![1.0, 0.0, 0.6, 0.0, 1.0, 0.6, 0.6, 0.6, 0.8], vec![0.0; 3])?;
/// let best = simplex::subsets(&form, &Bounds::simplex(3), &Stop::new())?;
/// assert_eq!(best[0].solution.weights, [0.0, 0.0, 1.0]);
/// assert_eq!(best[1].solution.weights[2], 0.0);
/// assert_eq!(best.len(), 2);
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// As [`super::minimize`], and if it is stopped.
pub fn subsets(form: &Quadratic, bounds: &Bounds, stop: &Stop) -> Result<Vec<Subset>> {
    let mut search = Search::new(form, bounds, stop);
    let mut found = search.eliminate()?;
    let forced: Vec<bool> = bounds.floors().iter().map(|&floor| floor > 0.0).collect();
    let most = found.len() - 1;
    let mut certain = vec![true; found.len()];
    for size in 1..most {
        let mut left = if form.arms() <= MAX_ARMS_OF_COMPLETE_SEARCH { usize::MAX } else { MOST_PROGRAMS };
        let (mut allowed, mut forced) = (vec![true; form.arms()], forced.clone());
        let whole = found[most].clone();
        let known = found[size].take();
        search.allow(most);
        let mut proof = Proof { size, best: known, left: &mut left };
        proof.visit(&mut search, &mut allowed, &mut forced, whole)?;
        found[size] = proof.best;
        certain[size] = left > 0;
        if size == 1 && !certain[size] {
            // Of single arms there are few enough to try them all.
            found[size] = search.single()?;
            certain[size] = true;
        }
    }
    let found = found.into_iter().zip(certain).enumerate();
    Ok(found.filter_map(|(size, (found, proved))| found.map(|solution| Subset { size, solution, proved })).collect())
}

/// [`subsets`] by elimination and exchange only, without a proof. Entry k is the best mixture found of at most k arms.
///
/// # Errors
/// As [`super::minimize`], and if it is stopped.
pub fn eliminate(form: &Quadratic, bounds: &Bounds, stop: &Stop) -> Result<Vec<Option<Solution>>> {
    Search::new(form, bounds, stop).eliminate()
}

/// Which arms have a positive weight.
pub(super) fn support(weights: &[f64]) -> Vec<bool> {
    weights.iter().map(|&weight| weight > 0.0).collect()
}

fn count(arms: &[bool]) -> usize {
    arms.iter().filter(|&&arm| arm).count()
}

struct Search<'a> {
    form: &'a Quadratic,
    bounds: &'a Bounds,
    stop: &'a Stop,
    solver: Solver,
    tolerance: f64,
    /// The approximate number of multiplications so far, and the limit of the present size.
    work: u64,
    limit: u64,
}

impl<'a> Search<'a> {
    fn new(form: &'a Quadratic, bounds: &'a Bounds, stop: &'a Stop) -> Self {
        let size = form.quadratic().iter().chain(form.linear()).fold(0.0f64, |size, value| size.max(value.abs()));
        let (solver, tolerance) = (Solver::default(), VALUE_TOLERANCE * size);
        Self { form, bounds, stop, solver, tolerance, work: 0, limit: u64::MAX }
    }

    /// Gives the search of one of `sizes` sizes its share of the work: every size is searched downward, upward, and for
    /// a proof.
    fn allow(&mut self, sizes: usize) {
        let is_complete = self.form.arms() <= MAX_ARMS_OF_COMPLETE_SEARCH;
        self.limit = if is_complete { u64::MAX } else { self.work + MAX_WORK / (3 * sizes as u64) };
    }

    fn is_spent(&self) -> bool {
        self.work >= self.limit
    }

    /// The cost of a program that starts from `used` arms: the form relative to one arm, and a Cholesky factor.
    fn cost(&self, used: usize) -> u64 {
        let (arms, used) = (self.form.arms() as u64, used as u64);
        arms * arms + used * used * used / 3
    }

    /// The best mixture of these arms, with a search from `near`; `None` if the bounds admit none.
    fn solve(&mut self, allowed: &[bool], near: &[f64]) -> Result<Option<Solution>> {
        self.stop.check()?;
        let Some(bounds) = self.bounds.only(allowed) else { return Ok(None) };
        let kept = || near.iter().zip(allowed).filter(|(_, allowed)| **allowed).map(|(weight, _)| weight);
        let total: f64 = kept().sum();
        self.solver.forget();
        if total > 0.0 {
            let start: Vec<f64> =
                near.iter().zip(allowed).map(|(weight, allowed)| if *allowed { weight / total } else { 0.0 }).collect();
            self.solver.start_from(&start);
        }
        self.work += self.cost(kept().filter(|weight| **weight > 0.0).count());
        let found = self.solver.solve(self.form, &bounds)?;
        let weights = without_negligible(found.weights, &bounds);
        Ok(Some(Solution { value: self.form.value(&weights), weights, ..found }))
    }

    fn is_less(&self, one: &Solution, other: &Option<Solution>) -> bool {
        other.as_ref().is_none_or(|other| one.value < other.value - self.tolerance)
    }

    /// Backward elimination from the best mixture of all arms, then forward selection; exchanges at every size.
    fn eliminate(&mut self) -> Result<Vec<Option<Solution>>> {
        let arms = self.form.arms();
        let whole = self.solve(&vec![true; arms], &[])?.ok_or_else(|| Error::Program {
            problem: "the bounds leave no mixture; lower a floor or raise a cap".into(),
        })?;
        let most = count(&support(&whole.weights));
        let mut found: Vec<Option<Solution>> = vec![None; most + 1];
        found[most] = Some(whole);
        for size in (1..most).rev() {
            let Some(larger) = found[size + 1].clone() else { break };
            let used = support(&larger.weights);
            if count(&used) <= size {
                found[size] = Some(larger);
                continue;
            }
            self.allow(most);
            let mut best = None;
            let mut going: Vec<usize> = (0..arms).filter(|&arm| used[arm]).collect();
            if self.work.saturating_add(going.len() as u64 * self.cost(going.len())) > self.limit {
                // If not all can be tried, those with the smallest weights come first.
                going.sort_by(|&a, &b| larger.weights[a].total_cmp(&larger.weights[b]));
            }
            for arm in going {
                let mut fewer = used.clone();
                fewer[arm] = false;
                self.try_set(&fewer, &larger.weights, &mut best)?;
                if self.is_spent() && best.is_some() {
                    break;
                }
            }
            found[size] = self.exchange(best, size)?;
        }
        for size in 2..most {
            let Some(smaller) = found[size - 1].clone() else { continue };
            self.allow(most);
            let mut best = None;
            let used = support(&smaller.weights);
            for arm in self.steepest(&smaller, &used) {
                let mut more = used.clone();
                more[arm] = true;
                self.try_set(&more, &smaller.weights, &mut best)?;
                if self.is_spent() {
                    break;
                }
            }
            let best = self.exchange(best, size)?;
            if let Some(best) = best.filter(|best| self.is_less(best, &found[size])) {
                found[size] = Some(best);
            }
        }
        Ok(found)
    }

    /// The best arm alone.
    fn single(&mut self) -> Result<Option<Solution>> {
        let arms = self.form.arms();
        let mut best = None;
        for arm in 0..arms {
            let alone: Vec<bool> = (0..arms).map(|other| other == arm).collect();
            self.try_set(&alone, &[], &mut best)?;
        }
        Ok(best)
    }

    fn try_set(&mut self, arms: &[bool], near: &[f64], best: &mut Option<Solution>) -> Result<()> {
        if let Some(one) = self.solve(arms, near)?.filter(|one| self.is_less(one, best)) {
            *best = Some(one);
        }
        Ok(())
    }

    /// Arms that are not in use, steepest decrease of the loss first.
    fn steepest(&self, solution: &Solution, used: &[bool]) -> Vec<usize> {
        let gradient = self.form.gradient(&solution.weights);
        let mut others: Vec<usize> = (0..used.len()).filter(|&arm| !used[arm]).collect();
        others.sort_by(|&a, &b| gradient[a].total_cmp(&gradient[b]));
        others.truncate(if used.len() <= MAX_ARMS_OF_COMPLETE_SEARCH {
            MAX_ARMS_OF_COMPLETE_SEARCH
        } else {
            MAX_EXCHANGES_TRIED
        });
        others
    }

    /// Exchanges one arm for another as long as that helps and the work limit allows.
    fn exchange(&mut self, start: Option<Solution>, size: usize) -> Result<Option<Solution>> {
        let Some(mut here) = start else { return Ok(None) };
        loop {
            let used = support(&here.weights);
            let mut best = None;
            for out in (0..used.len()).filter(|&arm| used[arm]) {
                if self.is_spent() {
                    break;
                }
                let mut without = used.clone();
                without[out] = false;
                let without_it = self.solve(&without, &here.weights)?;
                let near = without_it.as_ref().unwrap_or(&here).clone();
                for arm in self.steepest(&near, &used) {
                    let mut other = without.clone();
                    other[arm] = true;
                    if count(&other) <= size {
                        self.try_set(&other, &near.weights, &mut best)?;
                    }
                }
            }
            match best {
                Some(better) if better.value < here.value - self.tolerance => here = better,
                _ => return Ok(Some(here)),
            }
        }
    }
}

/// Branch and bound for one size: fewer arms are never better, so the best mixture of all allowed arms is a bound for
/// their subsets of this size.
struct Proof<'a> {
    size: usize,
    best: Option<Solution>,
    /// The number of programs that may still be solved.
    left: &'a mut usize,
}

impl Proof<'_> {
    /// Visits all sets between `forced` and `allowed`; `here` is the best mixture of all allowed arms.
    fn visit(
        &mut self,
        search: &mut Search<'_>,
        allowed: &mut [bool],
        forced: &mut [bool],
        here: Option<Solution>,
    ) -> Result<()> {
        let Some(here) = here.filter(|here| search.is_less(here, &self.best)) else { return Ok(()) };
        let used = support(&here.weights);
        if count(&used) <= self.size {
            self.best = Some(here);
            return Ok(());
        }
        let kept = count(forced);
        let mut open: Vec<usize> = (0..used.len()).filter(|&arm| used[arm] && !forced[arm]).collect();
        // Arms with the largest weights first, so that branches without them end soon.
        open.sort_by(|&a, &b| here.weights[b].total_cmp(&here.weights[a]));
        // At least one of the first size + 1 − |forced| open arms must be left out: the first, or else the second, …
        open.truncate((self.size + 1).saturating_sub(kept));
        for &arm in &open {
            if search.is_spent() {
                *self.left = 0;
            }
            if *self.left == 0 {
                break;
            }
            *self.left -= 1;
            allowed[arm] = false;
            let full = count(forced) == self.size;
            let next =
                if full { search.solve(forced, &here.weights)? } else { search.solve(allowed, &here.weights)? };
            self.visit(search, allowed, forced, next)?;
            allowed[arm] = true;
            forced[arm] = true;
        }
        open.iter().for_each(|&arm| forced[arm] = false);
        Ok(())
    }
}
