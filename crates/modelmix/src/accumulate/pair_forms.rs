//! From sums over pairs of blocks to the forms of a program, if no pair is missing.

use super::Accumulator;
use super::pairs::position;
use crate::error::{Error, Input, Result};
use crate::mixture::SummedTerm;
use crate::numbers::count;
use crate::objective::Measure;
use crate::quadratic::Quadratic;

impl Accumulator {
    /// Checks that all pairs of the rows that were counted are included.
    pub(super) fn check_pairs(&self) -> Result<()> {
        let plan = &self.plan;
        if let Some(arm) = self.arms.keys().find(|arm| !plan.arms.contains(arm)) {
            return Err(Error::setting("the arm", arm, format!("one of the survey: {}", plan.arms.join(", "))));
        }
        let has_reference = self.terms.kernels.iter().any(|term| term.has_reference);
        if has_reference && self.reference.count < 2 {
            return Err(Error::missing_input(Input::Reference, "mmd or kid", "a reference of at least 2 rows"));
        }
        let names = plan.arms.iter().map(|arm| format!("arm {arm}")).chain(["the reference".to_string()]);
        for (side, name) in names.enumerate().take(plan.arms.len() + usize::from(has_reference)) {
            let sums = plan.arms.get(side).map_or(Some(&self.reference), |arm| self.arms.get(arm));
            let counted = sums.map_or(0, |sums| sums.count);
            let paired: u64 = self.pairs.blocks.values().map(|block| block.counts[side]).sum();
            if counted != paired {
                return Err(Error::setting(
                    &format!("the number of rows of {name} in blocks"),
                    count(paired as usize),
                    format!(
                        "{}, the number passed to update; pass every row to update once, and pair every block with itself and with every other block",
                        count(counted as usize)
                    ),
                ));
            }
        }
        let blocks: Vec<(&String, u64)> =
            self.pairs.blocks.iter().map(|(name, rows)| (name, rows.counts.iter().sum())).collect();
        let (mut missing, mut rows, mut example) = (0, 0, String::new());
        for (at, (first, own)) in blocks.iter().enumerate() {
            for (second, others) in &blocks[at..] {
                if !self.pairs.has(first, second) {
                    if missing == 0 {
                        example = format!("{first} × {second}");
                    }
                    missing += 1;
                    let pairs = if first == second {
                        own.saturating_mul(own.saturating_sub(1)) / 2
                    } else {
                        own.saturating_mul(*others)
                    };
                    rows = u64::saturating_add(rows, pairs);
                }
            }
        }
        if missing == 0 {
            return Ok(());
        }
        let all = blocks.len() * (blocks.len() + 1) / 2;
        Err(Error::missing(
            "a mixture from all pairs",
            format!(
                "every pair of blocks, but {} of {} are missing, such as {example}, with {} pairs of rows; sum them too, with the same plan",
                count(missing),
                count(all),
                count(rows as usize)
            ),
        ))
    }

    /// K̂ and f̂ of a quadratic term with and without self-pairs. `sides` are those of the arms.
    pub(super) fn pair_term(&self, index: usize, measure: &Measure, sides: &[usize], counts: &[usize]) -> SummedTerm {
        let (sums, own) = (&self.pairs.sums[index], &self.pairs.own[index]);
        let quantum = self.plan.pairs.as_ref().map_or(1.0, |pairs| pairs.quanta[index]);
        let means = |i: usize, j: usize, n: f64, m: f64| {
            let pairs = sums[position(i, j)];
            let both = if i == j { pairs + own[i] } else { pairs };
            let different = if i == j { m - 1.0 } else { m };
            (both as f64 * quantum / (n * m), pairs as f64 * quantum / (n * different))
        };
        let (mut biased, mut unbiased) = (Quadratic::zeros(sides.len()), Quadratic::zeros(sides.len()));
        for (i, &side) in sides.iter().enumerate() {
            for (j, &other) in sides.iter().enumerate() {
                (*biased.at_mut(i, j), *unbiased.at_mut(i, j)) = means(side, other, counts[i] as f64, counts[j] as f64);
            }
        }
        let mut constant = (0.0, 0.0);
        let term = &self.terms.kernels[index];
        if term.has_reference {
            let (reference, rows) = (self.plan.arms.len(), self.reference.count as f64);
            for (i, &side) in sides.iter().enumerate() {
                let cross = -2.0 * means(side, reference, counts[i] as f64, rows).0;
                biased.linear_mut()[i] = cross;
                unbiased.linear_mut()[i] = cross;
            }
            constant = means(reference, reference, rows, rows);
        }
        SummedTerm::form(measure, term.weight, biased, unbiased, constant)
    }

    /// The side of each arm.
    pub(super) fn sides_of(&self, names: &[String]) -> Vec<usize> {
        let side = |name: &String| self.plan.arms.iter().position(|known| known == name);
        names.iter().map(|name| side(name).unwrap_or(self.plan.arms.len())).collect()
    }
}
