//! The headline of a result: the recommendation, the improvement and its certainty. All front ends use this wording.

use super::{Mixture, MixtureArm};
use crate::numbers::{brief, brief_pair, count, shares};
use crate::objective::{Measure, Objective, Term};
use crate::simplex::NEGLIGIBLE_WEIGHT;

/// A mixture of more arms than this is described by its largest arms.
const MOST_LISTED: usize = 8;
/// The number of arms then named, before the number and the share of all others.
const ARMS_LISTED_OF_MANY: usize = 6;
/// The largest p-value of a significant gain.
const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// A gain below this, relative to the losses whose difference it is, is rounding error.
const ROUNDING: f64 = 1e-12;

/// A result in two sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// The recommendation, and its score compared with the best single model. It states if the gain is not significant.
    pub answer: String,
    /// The p-value and the confidence interval of the gain; `None` if there is no test.
    pub certainty: Option<String>,
}

/// Tables list arms without weight up to this number, apart from the best single one; more are counted in one line.
const MOST_UNUSED_LISTED: usize = 5;

/// The arms that a table lists, by decreasing weight, and the number of arms left out. Arms without weight are left out if
/// there are more than a few, except `best`, the best single arm.
pub fn listed_arms(weights: &[f64], best: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let is_unused = |arm: usize| weights[arm] <= NEGLIGIBLE_WEIGHT && arm != best;
    let unused = order.iter().filter(|&&arm| is_unused(arm)).count();
    if unused <= MOST_UNUSED_LISTED {
        return (order, 0);
    }
    order.retain(|&arm| !is_unused(arm));
    (order, unused)
}

impl Mixture {
    /// The arms that tables list, as indices into `arms` (see [`listed_arms`]), and the number of arms left out.
    pub fn listed_arms(&self) -> (Vec<usize>, usize) {
        listed_arms(&self.weights(), self.best_index())
    }

    /// The headline of the result.
    ///
    /// A score is named only if the objective is that score alone and the score improves; otherwise the sentence is about the
    /// loss, which was minimised. Every arm with a weight is named or counted, and the shares add up to 100%. A gain that is
    /// not significant is described as such; without a test, the sentence makes no statement about significance.
    pub fn headline(&self) -> Headline {
        let mut used: Vec<&MixtureArm> = self.arms.iter().filter(|arm| arm.weight > NEGLIGIBLE_WEIGHT).collect();
        used.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let is_significant = self.p_value.map(|p| p <= SIGNIFICANCE_LEVEL);
        let answer = if self.arms.len() == 1 {
            format!("{} is the only arm: {}.", self.arms[0].name, self.value(&self.arms[0]))
        } else if self.gain < -self.least_gain() {
            self.worse_than_single(&used)
        } else if self.gain <= self.least_gain() {
            self.alone(&used, is_significant)
        } else if is_significant == Some(false) {
            self.not_significant(&used)
        } else {
            let (mixed, single) = self.pair();
            let name = &self.best_single.name;
            format!("Mix {}: {mixed} instead of {single} with the best single model, {name}.", list(&used))
        };
        Headline { answer, certainty: self.certainty(is_significant) }
    }

    /// The smallest gain that is not rounding error.
    fn least_gain(&self) -> f64 {
        ROUNDING * self.best_single.loss.abs().max(self.mixture.loss.abs()).max(self.constant.abs())
    }

    /// The sentence if no mixture is better than the best single arm.
    fn alone(&self, used: &[&MixtureArm], is_significant: Option<bool>) -> String {
        let best = self.best_arm();
        let (name, within) = (&best.name, if self.bounded { " within the floors and caps" } else { "" });
        // The weights are optimised with the bias of small samples; the test is unbiased.
        if is_significant == Some(true) && !self.bounded {
            let p = self.p_text().unwrap_or_default();
            return format!(
                "{name} alone has the smallest loss of these samples, {}, but without the bias of small samples a mixture is \
                 significantly better ({p}); record more samples.",
                brief(best.loss)
            );
        }
        let equal = match used {
            [only] if only.name == *name => String::new(),
            _ => format!(" The weights found, {}, are as good.", list(used)),
        };
        if self.score_follows_loss() {
            format!(
                "Use {name} alone: no mixture{within} has a better {} than its {:.4}.{equal}",
                self.score.name, best.score
            )
        } else {
            let score = if self.score.is_loss() { String::new() } else { format!(" ({})", self.value(best)) };
            format!("Use {name} alone{score}: no mixture{within} has a smaller loss than its {:.4}.{equal}", best.loss)
        }
    }

    /// The sentence if floors and caps exclude every mixture that is as good as a single arm.
    fn worse_than_single(&self, used: &[&MixtureArm]) -> String {
        let (mixed, single) = brief_pair(self.mixture.loss, self.best_single.loss);
        let name = &self.best_single.name;
        format!(
            "The best mixture within the floors and caps is {}: a loss of {mixed}; the best single model, {name}, is better: {single}.",
            list(used)
        )
    }

    fn not_significant(&self, used: &[&MixtureArm]) -> String {
        let (mixed, single) = self.pair();
        let (p, interval) = (self.p_text().unwrap_or_default(), self.interval_text().unwrap_or_default());
        format!(
            "No significant gain over the best single model, {} ({p}; 95% CI {interval}). The best mixture of these samples is {}: \
             {mixed} instead of {single}.",
            self.best_single.name,
            list(used)
        )
    }

    /// The mixture and the best single arm: in the score if the score improves, otherwise in the loss; with enough digits to
    /// tell them apart.
    fn pair(&self) -> (String, String) {
        let (mixed, single) = (self.mixture.score, self.best_single.score);
        // Unbiased scores may rank arms differently from the loss.
        let is_best = |score: f64| !self.arms.iter().any(|arm| self.score.is_better(arm.score, score));
        if !self.score.is_loss() && self.score.is_better(mixed, single) && is_best(single) {
            let (mixed, single) = brief_pair(mixed, single);
            return (format!("{} {mixed}", self.score.name), single);
        }
        let (mixed, single) = brief_pair(self.mixture.loss, self.best_single.loss);
        (format!("a loss of {mixed}"), single)
    }

    /// The score of an arm alone.
    fn value(&self, arm: &MixtureArm) -> String {
        let name = if self.score.is_loss() { "a loss of" } else { &self.score.name };
        format!("{name} {}", brief(arm.score))
    }

    /// Whether the mixture with the smallest loss has the best score: false for squared MMD and KID, whose reported scores are
    /// unbiased, unlike the loss.
    fn score_follows_loss(&self) -> bool {
        let objective = self.objective.parse::<Objective>();
        let is_unbiased = |term: &Term| matches!(term.measure, Measure::Mmd { .. } | Measure::Kid);
        objective.is_ok_and(|objective| matches!(objective.terms(), [term] if !is_unbiased(term)))
    }

    /// "p = 0.27".
    fn p_text(&self) -> Option<String> {
        let p = self.p_value?;
        Some(if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.*}", if p < 0.1 { 3 } else { 2 }) })
    }

    /// "0 to 1.5e-4".
    fn interval_text(&self) -> Option<String> {
        let end = |value: f64| if value == 0.0 { "0".into() } else { brief(value) };
        self.gain_interval.map(|[low, high]| format!("{} to {}", end(low), end(high)))
    }

    fn certainty(&self, is_significant: Option<bool>) -> Option<String> {
        let (p, interval) = (self.p_text()?, self.interval_text()?);
        Some(if is_significant? {
            format!(
                "The best mixture beats every single model ({p}); its gain in loss is {interval} with 95% confidence."
            )
        } else {
            format!(
                "The gain in loss of the best mixture is {interval} with 95% confidence; {p} for the hypothesis that some single \
                 model is as good as any mixture."
            )
        })
    }
}

/// The arms of a mixture as text.
fn list(used: &[&MixtureArm]) -> String {
    let arms: Vec<(&str, f64)> = used.iter().map(|arm| (arm.name.as_str(), arm.weight)).collect();
    named_shares(&arms)
}

/// Arms with their shares, largest first, which add up to 100%. Of many arms, the largest are named and all others are added
/// together. Arms without weight are left out.
pub fn named_shares(arms: &[(&str, f64)]) -> String {
    let mut used: Vec<(&str, f64)> = arms.iter().copied().filter(|(_, weight)| *weight > NEGLIGIBLE_WEIGHT).collect();
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (listed, others) = used.split_at(if used.len() > MOST_LISTED { ARMS_LISTED_OF_MANY } else { used.len() });
    let mut names: Vec<String> = listed.iter().map(|(name, _)| name.to_string()).collect();
    let mut weights: Vec<f64> = listed.iter().map(|(_, weight)| *weight).collect();
    if !others.is_empty() {
        names.push(format!("{} others together", count(others.len())));
        weights.push(others.iter().map(|(_, weight)| weight).sum());
    }
    // Weights within rounding error are not listed.
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
    let written = names.iter().zip(shares(&weights)).map(|(name, share)| format!("{name} {share}"));
    written.collect::<Vec<_>>().join(", ")
}
