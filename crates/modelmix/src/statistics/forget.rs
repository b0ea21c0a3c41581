//! Forgetting: samples that are removed with their sums, all samples of an arm, or exponential decay of old samples.

use super::Statistics;

impl Statistics {
    /// Multiplies the weight of every sample by `factor`.
    pub(crate) fn fade(&mut self, factor: f64) {
        if self.rows() == 0 && self.ageing.is_none() {
            return;
        }
        let mut ageing = self.take_ageing();
        let square = factor * factor;
        let scale = |values: &mut Vec<f64>, factor: f64| values.iter_mut().for_each(|value| *value *= factor);
        for values in self.toward.iter_mut().chain([&mut self.totals, &mut self.linear_sums]) {
            scale(values, factor);
        }
        for values in [&mut ageing.weights, &mut ageing.mass, &mut ageing.gone] {
            scale(values, factor);
        }
        for values in [&mut self.pair_sums, &mut self.self_sums, &mut ageing.squares, &mut ageing.estimated] {
            scale(values, square);
        }
        self.set_ageing(ageing);
    }

    /// Removes a row and its contribution to all sums: `kappa[a]` is κ between it and row a; the entry of the row
    /// itself is ignored. The last row takes its place.
    pub(crate) fn remove(&mut self, row: usize, kappa: &[f64]) {
        debug_assert!(self.ageing.is_none() && kappa.len() == self.rows());
        let arms = self.arms();
        let arm = self.arm_of[row];
        for other in 0..arms {
            let sum = self.toward[other][row];
            self.pair_sums[arm * arms + other] -= sum;
            self.pair_sums[other * arms + arm] -= sum;
        }
        for (other, &value) in kappa.iter().enumerate().filter(|(other, _)| *other != row) {
            self.toward[arm][other] -= value;
            self.totals[other] -= value;
        }
        self.counts[arm] -= 1;
        self.self_sums[arm] -= self.self_terms[row];
        self.linear_sums[arm] -= self.linear[row];
        self.drop_row(row);
    }

    /// Recomputes the sums per arm from those per row, so that rounding errors of added and removed rows do not
    /// accumulate.
    pub(crate) fn refresh(&mut self) {
        if self.ageing.is_none() {
            self.sum_by_arm();
        }
    }

    /// Forgets all samples of an arm, held or evicted. The other rows keep their order. Returns which rows stay.
    pub(crate) fn forget(&mut self, arm: usize) -> Vec<bool> {
        let arms = self.arms();
        for (total, sum) in self.totals.iter_mut().zip(&mut self.toward[arm]) {
            *total -= *sum;
            *sum = 0.0;
        }
        let keep: Vec<bool> = self.arm_of.iter().map(|&other| other != arm).collect();
        let mut lists: Vec<&mut Vec<f64>> = self.toward.iter_mut().collect();
        lists.extend([&mut self.totals, &mut self.self_terms, &mut self.linear]);
        let mut by_pair = vec![&mut self.pair_sums];
        if let Some(ageing) = &mut self.ageing {
            (ageing.mass[arm], ageing.squares[arm], ageing.gone[arm], ageing.rows[arm]) = (0.0, 0.0, 0.0, 0);
            lists.push(&mut ageing.weights);
            by_pair.push(&mut ageing.estimated);
        }
        for list in lists {
            retain(list, &keep);
        }
        retain(&mut self.arm_of, &keep);
        for sums in by_pair {
            for other in 0..arms {
                sums[arm * arms + other] = 0.0;
                sums[other * arms + arm] = 0.0;
            }
        }
        (self.counts[arm], self.self_sums[arm], self.linear_sums[arm]) = (0, 0.0, 0.0);
        keep
    }
}

/// Keeps the values of a list whose flag is set.
pub(crate) fn retain<T: Copy>(list: &mut Vec<T>, keep: &[bool]) {
    let mut at = 0;
    list.retain(|_| {
        at += 1;
        keep[at - 1]
    });
}
