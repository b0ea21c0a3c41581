//! Analyses beyond the best mixture: the best mixtures of few arms, and the cheapest mixture that is nearly as good. The Pareto
//! front and the bandwidth sensitivity are in files of their own. `simplex` does the searches; this module defines them and
//! adds names, losses and scores to the results.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::forms::HeldArms;
use super::front::{FrontDocument, front};
use super::program::Program;
use super::sensitivity::{Bandwidths, SensitivityDocument, sensitivity};
use super::{Mixture, Subject, pairs, score, solve_program, with_intervals};
use crate::arms::{RecordedArms, by_arm};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::numbers::{percents, six_digits};
use crate::settings::setters;
use crate::simplex::{self, Bounds, NEGLIGIBLE_WEIGHT, Prices, Solution};

/// With smooth terms every set of arms needs its own search, so their number is limited.
const MAX_ARMS_WITH_SMOOTH_TERMS: usize = 12;

/// Which analyses are computed in addition to the best mixture.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Analyses {
    /// Whether the best mixtures of at most 1, 2, … arms are computed.
    pub subsets: bool,
    /// The cheapest mixture that is nearly as good.
    pub budget: Option<Budget>,
    /// The second objective of the Pareto front; see [`super::front_objective`].
    pub front: Option<Loss>,
    /// The bandwidths of the sensitivity analysis.
    pub bandwidths: Option<Bandwidths>,
    /// Whether confidence intervals and the p-value are left out.
    pub without_intervals: bool,
}

setters! {
    Analyses {
        /// Sets whether the best mixtures of at most 1, 2, … arms are computed.
        subsets: bool,
        /// Sets the prices for the cheapest mixture that is nearly as good; it is not computed if `None`.
        budget: impl Into<Option<Budget>>,
        /// Sets the second objective of the Pareto front; no front is computed if `None`.
        front: impl Into<Option<Loss>>,
        /// Sets the bandwidths of the sensitivity analysis; it is not computed if `None`.
        bandwidths: impl Into<Option<Bandwidths>>,
        /// Sets whether confidence intervals and the p-value are left out.
        without_intervals: bool,
    }
}

impl Analyses {
    /// The number of pairs of samples on which [`solve_with_analyses`] evaluates kernels, as [`pairs`].
    pub fn pairs(&self, arms: &RecordedArms, loss: &Loss) -> u64 {
        let solves = 1 + self.bandwidths.as_ref().map_or(0, Bandwidths::count) as u64;
        solves * pairs(arms, loss) + self.front.as_ref().map_or(0, |second| pairs(arms, second))
    }
}

/// The prices of arms, and how good a mixture must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The fee per period of each arm, due if the arm is used at all.
    pub fees: Vec<f64>,
    /// The cost per sample of each arm.
    pub costs: Vec<f64>,
    /// The number of samples bought per period.
    pub samples: f64,
    /// How much worse than the best mixture it may be.
    pub within: Allowance,
}

impl Budget {
    /// Prices from fees and costs per arm. Fees and costs are each given for all arms or for none, so that no price is
    /// forgotten; costs need the number of samples.
    ///
    /// # Errors
    /// A price for an unknown arm, an arm without a price, a negative fee, costs without the number of samples, or a negative
    /// number of samples.
    pub fn by_arm(
        names: &[String],
        fees: impl IntoIterator<Item = (String, f64)>,
        costs: Option<Vec<f64>>,
        samples: Option<f64>,
        within: Allowance,
    ) -> Result<Self> {
        let fees: Vec<(String, f64)> = fees.into_iter().collect();
        let default = fees.is_empty().then_some(0.0);
        let fees = by_arm("fee", names, fees, default)?;
        if let Some((name, fee)) = names.iter().zip(&fees).find(|(_, fee)| **fee < 0.0) {
            return Err(Error::setting(&format!("the fee of {name}"), fee, "0 or more"));
        }
        if costs.is_none() && fees.iter().all(|fee| *fee == 0.0) {
            return Err(Error::missing(
                "the cheapest mixture",
                "prices: a fee per arm, or a cost per sample of each arm",
            ));
        }
        let samples = match (samples, &costs) {
            (Some(samples), _) if samples.is_finite() && samples >= 0.0 => samples,
            (Some(samples), _) => return Err(Error::setting("samples", samples, "0 or more")),
            (None, None) => 0.0,
            (None, Some(_)) => {
                return Err(Error::missing(
                    "the cheapest mixture",
                    "the number of samples bought per period, by which costs are multiplied; give samples",
                ));
            }
        };
        Ok(Self { fees, costs: costs.unwrap_or_else(|| vec![0.0; names.len()]), samples, within })
    }

    fn prices(&self) -> Prices {
        Prices { fees: self.fees.clone(), costs: self.costs.iter().map(|cost| self.samples * cost).collect() }
    }
}

/// How much worse than the best mixture a mixture may be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Allowance {
    /// A share of the gain over the best single arm: 0.05 for `5%` or `gain=0.05`.
    Share(f64),
    /// A difference of the loss: `loss=0.001`.
    Loss(f64),
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance::Share(0.05)
    }
}

impl FromStr for Allowance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let text = text.trim();
        let read = match (text.strip_suffix('%'), text.split_once('=').map(|(name, value)| (name.trim(), value))) {
            (Some(percent), None) => number(percent).map(|percent| Allowance::Share(percent / 100.0)),
            (None, Some(("gain", share))) => number(share).map(Allowance::Share),
            (None, Some(("loss", loss))) => number(loss).map(Allowance::Loss),
            _ => None,
        };
        // A bare number could be either, and they differ by orders of magnitude.
        let must = match number(text) {
            Some(size) => format!(
                "a number with its meaning: {}% for that share of the gain, or loss={text} for a difference of the loss",
                six_digits(if size < 1.0 { 100.0 * size } else { size })
            ),
            None => {
                "a share of the gain, such as 5% or gain=0.05, or a difference of the loss, such as loss=0.001".into()
            }
        };
        read.ok_or_else(|| Error::setting("within", format!("\"{text}\""), must))
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowance::Share(share) => write!(f, "{}% of the gain", 100.0 * share),
            Allowance::Loss(loss) => write!(f, "a loss of {loss}"),
        }
    }
}

/// The results of analyses in a document; `None` for an analysis that was not requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AnalysisResults {
    /// The best mixtures of at most 1, 2, … arms, up to the number of arms in the best mixture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsets: Option<Vec<SubsetDocument>>,
    /// The cheapest mixture that is nearly as good as the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheapest: Option<CheapestDocument>,
    /// The Pareto front of the objective and a second one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<FrontDocument>,
    /// The best mixture over a range of bandwidths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<SensitivityDocument>,
}

/// The best mixture of a limited number of arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubsetDocument {
    /// The largest number of arms allowed.
    pub size: usize,
    /// The arms in use, in the order given.
    pub arms: Vec<String>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
    /// The share of the best mixture's gain over the best single arm that it keeps; `None` if there is no gain.
    pub gain_kept: Option<f64>,
    /// Whether it is proven that no other set of at most that many arms is better; if false, none was found.
    pub proved: bool,
}

/// The cheapest mixture that is nearly as good as the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheapestDocument {
    /// The arms in use, in the order given.
    pub arms: Vec<String>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// Its loss.
    pub loss: f64,
    /// Its score.
    pub score: f64,
    /// Its loss minus that of the best mixture.
    pub above_best: f64,
    /// The largest difference that was allowed.
    pub within: f64,
    /// The number of samples bought per period.
    pub samples: f64,
    /// The fees of its arms.
    pub fee: f64,
    /// The cost of its samples.
    pub cost: f64,
    /// Fees and costs together.
    pub total: f64,
    /// The total for the best mixture.
    pub total_of_best: f64,
    /// No mixture that is good enough costs less than `total − gap`.
    pub gap: f64,
}

impl CheapestDocument {
    /// The result in one sentence.
    pub fn sentence(&self) -> String {
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        order.sort_by(|&a, &b| self.weights[b].total_cmp(&self.weights[a]));
        let written = percents(&self.weights);
        let shares: Vec<String> = order.iter().map(|&arm| format!("{} {}", self.arms[arm], written[arm])).collect();
        format!(
            "Cheapest mixture within the tolerance: {}; {} per period instead of {} for the best mixture.",
            shares.join(", "),
            format_amount(self.total),
            format_amount(self.total_of_best)
        )
    }
}

/// An amount, with cents if it is small.
fn format_amount(amount: f64) -> String {
    if amount.abs() < 10_000.0 { format!("{amount:.2}") } else { format!("{amount:.0}") }
}

/// The best mixture, with the results of analyses.
///
/// # Errors
/// As [`super::solve_within`], and analyses that do not fit the objective or the arms.
pub fn solve_with_analyses(arms: &RecordedArms, loss: &Loss, bounds: &Bounds, analyses: &Analyses) -> Result<Mixture> {
    // Checked before the work, which may take long.
    if analyses.budget.is_some() {
        loss.check_quadratic("the cheapest mixture")?;
    }
    if analyses.bandwidths.is_some() {
        loss.bandwidth()?;
    }
    let held = HeldArms::new(arms, loss.engine())?;
    let program = Program::of(&held, loss, !analyses.without_intervals)?;
    let mut best = if analyses.without_intervals {
        solve_program(&Subject::new(arms, loss), bounds, &program)?
    } else {
        with_intervals(arms, loss, bounds, &program)?
    };
    let analysis = Analysis { program: &program, best: &best, bounds };
    best.worth = AnalysisResults {
        subsets: analyses.subsets.then(|| analysis.subsets()).transpose()?,
        cheapest: analyses.budget.as_ref().map(|budget| analysis.cheapest(budget)).transpose()?,
        front: analyses.front.as_ref().map(|second| analysis.front(&held, second)).transpose()?,
        sensitivity: match &analyses.bandwidths {
            Some(bandwidths) => Some(sensitivity(&held, loss, bounds, &best, bandwidths)?),
            None => None,
        },
    };
    Ok(best)
}

impl Mixture {
    /// A note if the table of subsets shows a better score for fewer arms although the loss is not smaller: squared MMD and KID
    /// are reported without the bias of small samples. `None` otherwise.
    pub fn subsets_note(&self) -> Option<String> {
        let is_better = |subset: &SubsetDocument| self.score.is_better(subset.score, self.mixture.score);
        self.worth.subsets.as_ref()?.iter().find(|subset| is_better(subset) && subset.loss > self.mixture.loss)?;
        Some(format!(
            "weights minimise the loss, a V-statistic; {} is shown as a U-statistic, which is unbiased, so fewer arms may score better",
            self.score.name
        ))
    }
}

struct Analysis<'a> {
    program: &'a Program,
    best: &'a Mixture,
    bounds: &'a Bounds,
}

impl Analysis<'_> {
    /// Loss and score of a mixture.
    fn at(&self, weights: &[f64]) -> Result<(f64, f64)> {
        let (value, terms) = self.program.at(weights)?;
        let loss = value + self.program.constant();
        Ok((loss, score(&terms, loss)))
    }

    /// The arms in use, and their weights.
    fn used(&self, weights: &[f64]) -> (Vec<String>, Vec<f64>) {
        let used = self.best.arms.iter().zip(weights).filter(|(_, weight)| **weight > NEGLIGIBLE_WEIGHT);
        used.map(|(arm, weight)| (arm.name.clone(), *weight)).unzip()
    }

    fn subsets(&self) -> Result<Vec<SubsetDocument>> {
        let found: Vec<(usize, Solution, bool)> = if self.program.is_smooth() {
            self.eliminate()?
        } else {
            let found = simplex::subsets(self.program.form(), self.bounds, self.program.engine().stop())?;
            found.into_iter().map(|subset| (subset.size, subset.solution, subset.proved)).collect()
        };
        let gain = self.best.gain;
        let single = self.best.best_arm().loss;
        let document = |(size, solution, proved): (usize, Solution, bool)| {
            let (arms, weights) = self.used(&solution.weights);
            let (loss, score) = self.at(&solution.weights)?;
            let gain_kept = (gain > 0.0).then(|| (single - loss) / gain);
            Ok(SubsetDocument { size, arms, weights, loss, score, gain_kept, proved })
        };
        found.into_iter().map(document).collect()
    }

    /// With smooth terms: backward elimination from the best mixture, which removes the arm that adds least.
    fn eliminate(&self) -> Result<Vec<(usize, Solution, bool)>> {
        let weights = self.best.weights();
        let mut used: Vec<bool> = weights.iter().map(|&weight| weight > NEGLIGIBLE_WEIGHT).collect();
        let most = used.iter().filter(|&&used| used).count();
        if most > MAX_ARMS_WITH_SMOOTH_TERMS {
            return Err(Error::setting(
                "the number of arms in the best mixture",
                most,
                format!(
                    "at most {MAX_ARMS_WITH_SMOOTH_TERMS} to search for the best few arms with fid or vendi; use mmd, kid or rke, or leave arms out"
                ),
            ));
        }
        let whole = self.program.minimize(self.bounds, &weights)?;
        let mut found = vec![(most, whole, true)];
        for size in (1..most).rev() {
            let mut best: Option<(usize, Solution)> = None;
            let here = found[found.len() - 1].1.weights.clone();
            for arm in (0..used.len()).filter(|&arm| used[arm]) {
                let mut fewer = used.clone();
                fewer[arm] = false;
                let Some(bounds) = self.bounds.only(&fewer) else { continue };
                let one = self.program.minimize(&bounds, &here)?;
                if best.as_ref().is_none_or(|(_, best)| one.value < best.value) {
                    best = Some((arm, one));
                }
            }
            let Some((arm, solution)) = best else { break };
            used[arm] = false;
            // All single arms are known; for two or more arms, other sets may be better.
            found.push((size, solution, false));
        }
        found.reverse();
        self.use_best_single(&mut found)?;
        Ok(found)
    }

    /// The best single arm is known, independent of the elimination.
    fn use_best_single(&self, found: &mut [(usize, Solution, bool)]) -> Result<()> {
        let Some((1, solution, proved)) = found.first_mut() else { return Ok(()) };
        let mut only = vec![false; self.best.arms.len()];
        only[self.best.best_index()] = true;
        if let Some(bounds) = self.bounds.only(&only) {
            let weights: Vec<f64> = only.iter().map(|&only| if only { 1.0 } else { 0.0 }).collect();
            *solution = self.program.minimize(&bounds, &weights)?;
            *proved = true;
        }
        Ok(())
    }

    fn front(&self, held: &HeldArms<'_>, second: &Loss) -> Result<FrontDocument> {
        front(self.program, &Program::of(held, second, false)?, second.objective(), self.bounds)
    }

    fn cheapest(&self, budget: &Budget) -> Result<CheapestDocument> {
        let within = match budget.within {
            Allowance::Share(share) => share * self.best.gain.max(0.0),
            Allowance::Loss(loss) => loss,
        };
        let weights = self.best.weights();
        let prices = budget.prices();
        let limit = self.program.form().value(&weights) + within;
        let stop = self.program.engine().stop();
        let found = simplex::cheapest(self.program.form(), self.bounds, &prices, limit, stop)?.ok_or_else(|| {
            Error::Program { problem: format!("no mixture is within {within} of the best; allow more") }
        })?;
        let (loss, score) = self.at(&found.weights)?;
        let (arms, shares) = self.used(&found.weights);
        Ok(CheapestDocument {
            arms,
            weights: shares,
            loss,
            score,
            above_best: (loss - self.best.mixture.loss).max(0.0),
            within,
            samples: budget.samples,
            fee: prices.fee(&found.weights),
            cost: prices.cost(&found.weights),
            total: prices.fee(&found.weights) + prices.cost(&found.weights),
            total_of_best: prices.fee(&weights) + prices.cost(&weights),
            gap: found.gap,
        })
    }
}
