//! The headline of a result: what to do, by how much it is better, and how certain that is. The only place that words it.

use super::{Mixture, MixtureArm};
use crate::numbers::{brief, brief_pair, count, share};
use crate::simplex::NEGLIGIBLE_WEIGHT;

/// A mixture of more arms than this is named by its largest arms.
const MOST_LISTED: usize = 8;
/// How many arms are then named, before the number and the share of all others.
const ARMS_LISTED_OF_MANY: usize = 6;

/// A result in two sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// What to use, and what it scores beside the best single model.
    pub answer: String,
    /// Whether the mixture beats every single model; none if there is no test of it.
    pub certainty: Option<String>,
}

impl Mixture {
    /// The result in words. Scores are named only if the objective is that score alone and it is better; otherwise the sentence
    /// is about the loss, which is what was minimised. Every arm that has a weight is named or counted.
    pub fn headline(&self) -> Headline {
        let mut used: Vec<&MixtureArm> = self.arms.iter().filter(|arm| arm.weight > NEGLIGIBLE_WEIGHT).collect();
        used.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let answer = match used[..] {
            [only] => self.alone(only),
            _ => self.mixed(&used),
        };
        Headline { answer, certainty: self.certainty() }
    }

    fn alone(&self, only: &MixtureArm) -> String {
        let name = &only.name;
        // Unbiased scores may rank arms differently from the loss, which is not unbiased.
        let is_best = !self.arms.iter().any(|arm| self.score.is_better(arm.score, only.score));
        if is_best && !self.score.is_loss() {
            format!("Use {name} alone: no mixture has a better {} than its {:.4}.", self.score.name, only.score)
        } else {
            format!("Use {name} alone: no mixture has a smaller loss than its {:.4}.", only.loss)
        }
    }

    fn mixed(&self, used: &[&MixtureArm]) -> String {
        let (listed, others) = used.split_at(if used.len() > MOST_LISTED { ARMS_LISTED_OF_MANY } else { used.len() });
        let mut shares: Vec<String> = listed.iter().map(|arm| format!("{} {}", arm.name, share(arm.weight))).collect();
        if !others.is_empty() {
            let rest: f64 = others.iter().map(|arm| arm.weight).sum();
            shares.push(format!("{} others {} together", count(others.len()), share(rest)));
        }
        let (mixed, single) = (self.mixture.score, self.best_single.score);
        let is_named = !self.score.is_loss() && self.score.is_better(mixed, single);
        let (what, mixed, single) = if is_named {
            (self.score.name.as_str(), mixed, single)
        } else {
            ("a loss of", self.mixture.loss, self.best_single.loss)
        };
        let (mixed, single) = brief_pair(mixed, single);
        format!(
            "Mix {}: {what} {mixed} instead of {single} with the best single model, {}.",
            shares.join(", "),
            self.best_single.name
        )
    }

    fn certainty(&self) -> Option<String> {
        let (p, [low, high]) = (self.p_value?, self.gain_interval?);
        let p_text = if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.*}", if p < 0.1 { 3 } else { 2 }) };
        let (verdict, whose) = if p <= 0.05 {
            ("The best mixture beats every single model", "its")
        } else {
            ("It cannot be ruled out that a single model is as good as any mixture", "a mixture's")
        };
        let end = |value: f64| if value == 0.0 { "0".into() } else { brief(value) };
        let (low, high) = (end(low), end(high));
        Some(format!("{verdict} ({p_text}); {whose} gain in loss is {low} to {high} with 95% confidence."))
    }
}
