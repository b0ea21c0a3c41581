//! The rules: an index per arm, of which the smallest is pulled.

use std::cell::OnceCell;

use modelmix::Statistics;
use modelmix::internals::confidence::{adaptive_width, pooled_variances};
use modelmix::internals::influence::Influences;
use modelmix::policy::Random;

/// A candidate rule: some pulls of every arm, then the arm with the smallest change of the loss minus a width.
#[derive(Clone)]
pub(crate) struct Rule {
    pub(crate) name: String,
    /// The number of initial pulls per arm.
    pub(crate) first: usize,
    /// The number of known samples per arm, which are free.
    pub(crate) free: usize,
    /// Whether K̂ is without self-pairs.
    unbiased: bool,
    /// Whether the index is the change of the loss with one more sample, which includes K̂ᵢᵢ, or the slope toward the
    /// arm.
    is_change: bool,
    width: fn(&View<'_>, usize) -> f64,
}

/// The information that a width may use.
struct View<'a> {
    /// All samples.
    known: &'a Statistics,
    /// Pulls so far, per arm.
    told: &'a [usize],
    variances: Vec<f64>,
    slopes: Vec<f64>,
    covariance: OnceCell<Option<Vec<f64>>>,
    ranges: OnceCell<Vec<f64>>,
}

impl View<'_> {
    /// The number of samples of all arms.
    fn t(&self) -> f64 {
        self.known.len() as f64
    }

    /// The number of samples of one arm.
    fn n(&self, arm: usize) -> f64 {
        self.known.counts()[arm] as f64
    }

    /// The ratio of all samples to those of an arm.
    fn times(&self, arm: usize) -> f64 {
        self.t() / self.n(arm)
    }

    /// The ratio of its equal share to the samples of an arm.
    fn fair(&self, arm: usize) -> f64 {
        self.times(arm) / self.told.len() as f64
    }

    fn shares(&self) -> Vec<f64> {
        let total = self.told.iter().sum::<usize>().max(1) as f64;
        self.told.iter().map(|&count| count as f64 / total).collect()
    }

    /// √(v·logarithm/n).
    fn width(&self, arm: usize, logarithm: f64) -> f64 {
        (self.variances[arm] * logarithm.max(0.0) / self.n(arm)).sqrt()
    }

    /// The width of the default before this study.
    fn before(&self, arm: usize) -> f64 {
        self.width(arm, 2.0 * self.times(arm).ln())
    }

    /// The range of the samples' contributions to the slope of an arm.
    fn range(&self, arm: usize) -> f64 {
        self.ranges.get_or_init(|| {
            let mut ends = vec![(f64::INFINITY, f64::NEG_INFINITY); self.told.len()];
            for (sample, &arm) in self.known.arm_of().iter().enumerate() {
                let sums: f64 = (0..self.told.len()).map(|other| self.known.sums_toward(other)[sample]).sum();
                let value = 2.0 * sums / self.t() + self.known.linear_terms()[sample];
                ends[arm] = (ends[arm].0.min(value), ends[arm].1.max(value));
            }
            ends.into_iter().map(|(low, high)| (high - low).max(0.0)).collect()
        })[arm]
    }

    /// √(2 ln(t/n)) standard errors of the slopes' sum along a direction, from the influence of every sample on all of
    /// them.
    fn joint(&self, arm: usize, along: &[f64]) -> f64 {
        let arms = along.len();
        let covariance = self
            .covariance
            .get_or_init(|| Influences::new(self.known).map(|found| found.gradient_covariance(&self.shares())));
        let Some(covariance) = covariance else { return self.before(arm) };
        let square: f64 = (0..arms * arms).map(|at| along[at / arms] * covariance[at] * along[at % arms]).sum();
        (2.0 * square.max(0.0) * self.times(arm).ln().max(0.0)).sqrt()
    }
}

impl Rule {
    pub(crate) fn choose(&self, known: &Statistics, told: &[usize], random: &mut Random) -> usize {
        let arms: Vec<usize> = (0..told.len()).collect();
        if told.iter().any(|&count| count < self.first) {
            return random.smallest(&arms, |arm| told[arm] as f64);
        }
        let form = if self.unbiased { known.unbiased() } else { known.biased() };
        let total = told.iter().sum::<usize>() as f64;
        let slope = |arm: usize| {
            let row: f64 = arms.iter().map(|&other| form.at(arm, other) * told[other] as f64).sum();
            if self.is_change {
                form.linear()[arm] + (2.0 * row + form.at(arm, arm)) / (total + 1.0)
            } else {
                form.linear()[arm] + 2.0 * row / total.max(1.0)
            }
        };
        let view = View {
            known,
            told,
            variances: pooled_variances(&known.gradient_scatter(), known.counts()),
            slopes: arms.iter().map(|&arm| slope(arm)).collect(),
            covariance: OnceCell::new(),
            ranges: OnceCell::new(),
        };
        let index: Vec<f64> = arms.iter().map(|&arm| view.slopes[arm] - (self.width)(&view, arm)).collect();
        random.smallest(&arms, |arm| index[arm])
    }
}

/// A unit vector.
fn unit(arm: usize, arms: usize) -> Vec<f64> {
    (0..arms).map(|other| f64::from(u8::from(other == arm))).collect()
}

/// The first one is the default before this study, with which all others are compared.
pub(crate) fn rules() -> Vec<Rule> {
    let rule =
        |name: &str, width| Rule { name: name.into(), first: 2, free: 0, unbiased: false, is_change: true, width };
    let first = |first, rule: &Rule| Rule { name: format!("{first} first, {}", rule.name), first, ..rule.clone() };
    let slope = |rule: &Rule| Rule { name: format!("slope, {}", rule.name), is_change: false, ..rule.clone() };
    let unbiased = |rule: &Rule| Rule { name: format!("unbiased, {}", rule.name), unbiased: true, ..rule.clone() };
    let before = rule("before", |view, arm| view.before(arm));
    let none = rule("no width", |_, _| 0.0);
    let half = rule("half", |view, arm| view.width(arm, view.times(arm).ln()));
    let moss = rule("moss", |view, arm| view.width(arm, 2.0 * view.fair(arm).ln()));
    let half_moss = rule("half moss", |view, arm| view.width(arm, view.fair(arm).ln()));
    let mut rules = vec![before.clone(), none.clone(), half.clone(), moss.clone(), half_moss.clone()];
    rules.extend([
        rule("log log t", |view, arm| view.width(arm, 2.0 * (1.0 + view.t().ln()).ln())),
        // Time-uniform empirical Bernstein bound.
        rule("Bernstein", |view, arm| {
            let logarithm = view.times(arm).ln().max(0.0) + 2.0 * (1.0 + view.n(arm).ln()).ln();
            view.width(arm, 2.0 * logarithm) + 3.0 * view.range(arm) * logarithm / view.n(arm)
        }),
        // The error of the slope from the influence of all samples, not only of the arm's own.
        rule("joint", |view, arm| view.joint(arm, &unit(arm, view.told.len()))),
        // The same for a step toward the arm.
        rule("joint, of a step", |view, arm| {
            let unit = unit(arm, view.told.len());
            view.joint(arm, &unit.iter().zip(view.shares()).map(|(one, share)| one - share).collect::<Vec<_>>())
        }),
        // No width if even a large one leaves the arm above the mean of the held samples.
        rule("eliminating", |view, arm| {
            let level: f64 = view.shares().iter().zip(&view.slopes).map(|(share, slope)| share * slope).sum();
            let is_out = view.n(arm) >= 4.0 && view.slopes[arm] - view.width(arm, 2.0 * view.t().ln()) > level;
            if is_out { 0.0 } else { view.before(arm) }
        }),
    ]);
    rules.extend([unbiased(&before), unbiased(&none), unbiased(&half), unbiased(&moss), slope(&half)]);
    rules.push(first(4, &before));
    rules.extend([&before, &none, &half, &moss, &half_moss].map(|rule| first(1, rule)));
    rules.extend([&before, &none, &half, &moss].map(|rule| first(1, &slope(rule))));
    // One initial pull, slope, half the MOSS width.
    rules.push(Rule {
        first: 1,
        is_change: false,
        ..rule("adaptive", |view, arm| {
            let (arms, counts) = (view.told.len(), view.known.counts());
            adaptive_width(view.variances[arm], arms, view.known.len(), counts[arm])
        })
    });
    rules.push(Rule { name: "10 free samples per arm".into(), first: 0, free: 10, ..before });
    rules
}
