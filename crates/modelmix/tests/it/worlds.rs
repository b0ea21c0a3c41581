//! Worlds with known solutions, and independent evaluations of the paper's definitions: V-statistics by double loops,
//! programs by trying every support. Nothing here uses a number of the library that a test then compares with it.

use modelmix::policy::{AnyPolicy, Random};
use modelmix::{Features, PolicySpec, Pull, Ranges, Session, SessionSettings, Values};

use crate::simplex::{normal, solve_dense};

/// Arms that draw uniformly from a few points; κ between points and f of each are given, so K and f of every arm are
/// known.
#[derive(Clone)]
pub(crate) struct World {
    arms: Vec<Vec<usize>>,
    kappa: Vec<Vec<f64>>,
    linear: Vec<f64>,
}

impl World {
    /// Arms by the points from which they draw, with κ(x, y) = 1 for x = y and otherwise 0, and f = 0.
    pub(crate) fn of_points(arms: &[&[usize]]) -> Self {
        let points = 1 + arms.iter().flat_map(|points| points.iter()).max().unwrap();
        let kappa = (0..points).map(|x| (0..points).map(|y| f64::from(u8::from(x == y))).collect()).collect();
        Self { arms: arms.iter().map(|points| points.to_vec()).collect(), kappa, linear: vec![0.0; points] }
    }

    /// Arm i draws from `modes[i]` points of its own: K is diagonal with 1/modes, so the best mixture has weights in
    /// proportion to `modes` and the loss 1/Σmodes.
    pub(crate) fn of_modes(modes: &[usize]) -> Self {
        let starts = modes.iter().scan(0, |end, &count| {
            *end += count;
            Some(*end - count)
        });
        let arms: Vec<Vec<usize>> = starts.zip(modes).map(|(start, &count)| (start..start + count).collect()).collect();
        Self::of_points(&arms.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Five points per arm, anywhere on a line, with a Gaussian κ and f up to 0.3: no number is round, so no two
    /// choices are equal.
    pub(crate) fn on_a_line(arms: usize, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let places: Vec<f64> = (0..5 * arms).map(|point| (point / 5) as f64 * 0.7 + 2.0 * random.unit()).collect();
        Self {
            arms: (0..arms).map(|arm| (5 * arm..5 * arm + 5).collect()).collect(),
            kappa: places.iter().map(|x| places.iter().map(|y| (-(x - y).powi(2)).exp()).collect()).collect(),
            linear: places.iter().map(|_| 0.3 * random.unit()).collect(),
        }
    }

    /// The same with f of every point.
    pub(crate) fn with_linear(mut self, linear: &[f64]) -> Self {
        assert_eq!(linear.len(), self.linear.len());
        self.linear = linear.to_vec();
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.arms.len()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        (0..self.len()).map(|arm| format!("arm {arm}")).collect()
    }

    /// The smallest and largest κ and f of any point, including zero.
    pub(crate) fn ranges(&self) -> Ranges {
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((0.0f64, 0.0f64), |(least, most), value| (least.min(value), most.max(value)))
        };
        Ranges {
            kappa: range(&mut self.kappa.iter().flatten().copied()),
            linear: range(&mut self.linear.iter().copied()),
        }
    }

    pub(crate) fn draw(&self, arm: usize, random: &mut Random) -> usize {
        self.arms[arm][random.below(self.arms[arm].len())]
    }

    /// K and f: means over the arms' points.
    pub(crate) fn truth(&self) -> Program {
        self.means(&self.arms)
    }

    /// K̂ and f̂ (V-statistics): the same over samples, including each sample with itself. Zero for arms without
    /// samples.
    pub(crate) fn estimate(&self, told: &[(usize, usize)]) -> Program {
        self.means(&(0..self.len()).map(|arm| points_of(told, arm)).collect::<Vec<_>>())
    }

    fn means(&self, sets: &[Vec<usize>]) -> Program {
        let pairs = |left: &[usize], right: &[usize]| {
            let sum: f64 = left.iter().flat_map(|&x| right.iter().map(move |&y| self.kappa[x][y])).sum();
            sum / (left.len() * right.len()).max(1) as f64
        };
        Program {
            quadratic: sets.iter().map(|left| sets.iter().map(|right| pairs(left, right)).collect()).collect(),
            linear: sets.iter().map(|points| mean(points.iter().map(|&x| self.linear[x]))).collect(),
        }
    }

    pub(crate) fn kappa(&self, x: usize, y: usize) -> f64 {
        self.kappa[x][y]
    }

    pub(crate) fn linear(&self, x: usize) -> f64 {
        self.linear[x]
    }
}

/// The points that were told for an arm.
pub(crate) fn points_of(told: &[(usize, usize)], arm: usize) -> Vec<usize> {
    told.iter().filter(|(of, _)| *of == arm).map(|(_, point)| *point).collect()
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    sum / count.max(1) as f64
}

/// αᵀKα + fᵀα.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) quadratic: Vec<Vec<f64>>,
    pub(crate) linear: Vec<f64>,
}

impl Program {
    pub(crate) fn value(&self, weights: &[f64]) -> f64 {
        let product = |i: usize| -> f64 { weights.iter().zip(&self.quadratic[i]).map(|(weight, k)| weight * k).sum() };
        (0..weights.len()).map(|i| weights[i] * (product(i) + self.linear[i])).sum()
    }

    /// The same with εᵀα added, or subtracted if `sign` is −1.
    pub(crate) fn with_widths(&self, sign: f64, widths: &[f64]) -> Self {
        let linear = self.linear.iter().zip(widths).map(|(f, width)| f + sign * width).collect();
        Self { linear, ..self.clone() }
    }

    /// The minimum over mixtures of these arms, and its weights: on every support, the point at which 2Kα + f is
    /// constant, if it is a mixture.
    pub(crate) fn least(&self, arms: &[usize]) -> (f64, Vec<f64>) {
        let mut best = (f64::INFINITY, Vec::new());
        for mask in 1u32..1 << arms.len() {
            let support: Vec<usize> =
                arms.iter().copied().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, arm)| arm).collect();
            let n = support.len();
            let mut system = vec![vec![0.0; n + 2]; n + 1];
            for (row, &i) in support.iter().enumerate() {
                for (column, &j) in support.iter().enumerate() {
                    system[row][column] = 2.0 * self.quadratic[i][j];
                }
                (system[row][n], system[row][n + 1], system[n][row]) = (-1.0, -self.linear[i], 1.0);
            }
            system[n][n + 1] = 1.0;
            let Some(solved) = solve_dense(system) else { continue };
            let mut weights = vec![0.0; self.linear.len()];
            support.iter().zip(&solved).for_each(|(&arm, &weight)| weights[arm] = weight);
            if solved[..n].iter().all(|&weight| weight >= 0.0) && self.value(&weights) < best.0 {
                best = (self.value(&weights), weights);
            }
        }
        best
    }
}

/// A session on values in a [`World`], with a record of everything asked and told.
pub(crate) struct Play<'a> {
    world: &'a World,
    pub(crate) session: Session<AnyPolicy>,
    /// Arm and point of every sample, in the order told.
    pub(crate) told: Vec<(usize, usize)>,
    /// Pulls that were neither told nor abandoned.
    pub(crate) flight: Vec<Pull>,
    pub(crate) asked: Vec<usize>,
    pub(crate) random: Random,
}

impl<'a> Play<'a> {
    pub(crate) fn new(world: &'a World, policy: &PolicySpec, seed: u64) -> Self {
        Self::with_settings(world, &SessionSettings::default().policy(policy.clone()).seed(seed))
    }

    /// The samples are drawn from another stream than that of the session.
    pub(crate) fn with_settings(world: &'a World, settings: &SessionSettings) -> Self {
        let session = Session::on_values(world.names(), Some(world.ranges()), settings).unwrap();
        let random = Random::stream(settings.seed, 1);
        Self { world, session, told: Vec::new(), flight: Vec::new(), asked: Vec::new(), random }
    }

    pub(crate) fn ask(&mut self) -> usize {
        let pull = self.session.ask().unwrap();
        assert!(pull.index < self.world.len(), "{pull:?}");
        self.asked.push(pull.index);
        self.flight.push(pull);
        self.asked[self.asked.len() - 1]
    }

    /// Answers one of the pulls in flight with the requested number of samples.
    pub(crate) fn answer(&mut self, position: usize) {
        self.answer_with(position, self.flight[position].count);
    }

    pub(crate) fn answer_with(&mut self, position: usize, samples: usize) {
        let pull = self.flight.remove(position);
        let before = self.told.len();
        for _ in 0..samples {
            self.told.push((pull.index, self.world.draw(pull.index, &mut self.random)));
        }
        let rows: Vec<Vec<f64>> = (before..self.told.len()).map(|at| self.kappa_row(at)).collect();
        let values: Vec<Values<'_>> = rows
            .iter()
            .zip(&self.told[before..])
            .map(|(kappa, &(_, point))| Values {
                kappa,
                own: self.world.kappa(point, point),
                linear: self.world.linear(point),
            })
            .collect();
        self.session.tell_values(pull.id, &values).unwrap();
    }

    fn kappa_row(&self, at: usize) -> Vec<f64> {
        self.told[..at].iter().map(|&(_, point)| self.world.kappa(self.told[at].1, point)).collect()
    }

    pub(crate) fn abandon(&mut self, position: usize) {
        let pull = self.flight.remove(position);
        self.session.abandon(pull.id).unwrap();
    }

    /// Asks, and answers immediately.
    pub(crate) fn round(&mut self) -> usize {
        let arm = self.ask();
        self.answer(self.flight.len() - 1);
        arm
    }

    pub(crate) fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| {
            self.round();
        });
    }

    pub(crate) fn ask_times(&mut self, count: usize) {
        (0..count).for_each(|_| {
            self.ask();
        });
    }

    /// Asks until `in_flight` pulls are in flight, then answers any one of them: delayed answers, out of order.
    pub(crate) fn round_in_flight(&mut self, in_flight: usize) {
        while self.flight.len() < in_flight {
            self.ask();
        }
        let position = self.random.below(self.flight.len());
        self.answer(position);
    }

    /// Samples told, per arm.
    pub(crate) fn held(&self) -> Vec<usize> {
        (0..self.world.len()).map(|arm| points_of(&self.told, arm).len()).collect()
    }

    /// Samples in flight, per arm.
    pub(crate) fn pending(&self) -> Vec<usize> {
        let of = |arm: usize| self.flight.iter().filter(|pull| pull.index == arm).map(|pull| pull.count).sum();
        (0..self.world.len()).map(of).collect()
    }

    /// n: samples told and in flight, per arm.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.held().iter().zip(self.pending()).map(|(held, pending)| held + pending).collect()
    }

    /// How often each arm was asked.
    pub(crate) fn asks(&self) -> Vec<usize> {
        (0..self.world.len()).map(|arm| self.asked.iter().filter(|&&asked| asked == arm).count()).collect()
    }

    pub(crate) fn estimate(&self) -> Program {
        self.world.estimate(&self.told)
    }
}

/// Pearson's statistic of counts against expected ones.
pub(crate) fn chi_square(counts: &[usize], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(&count, expected)| (count as f64 - expected).powi(2) / expected).sum()
}

/// The values that chi-square exceeds with a probability of 0.01% at 1, 2 and 3 degrees of freedom. Seeds are fixed, so
/// a test that passes once always passes; this is the probability that a valid change of the draws fails one.
pub(crate) const CHI_SQUARE: [f64; 3] = [15.14, 18.42, 21.11];

/// Gaussian clusters in the plane: features for sessions that evaluate a kernel.
pub(crate) fn cluster(arm: usize, random: &mut Random) -> Vec<f32> {
    let centre = [[0.0, 0.0], [2.5, 0.5], [0.5, 3.0], [4.0, 4.0]][arm % 4];
    centre.iter().map(|place| (place + 0.6 * normal(random)) as f32).collect()
}

pub(crate) fn clusters(arm: usize, samples: usize, random: &mut Random) -> Features {
    Features::from_rows((0..samples).map(|_| cluster(arm, random))).unwrap()
}
