//! The problems: the shipped real generators, and synthetic arms.

use std::error::Error;

use modelmix::policy::Random;
use modelmix::simplex::{self, Bounds};
use modelmix::{Features, Inputs, Loss, Objective, Quadratic, Ranges, RecordedArm, RecordedArms, load, mixture};

/// Rows used per arm: κ of all pairs is stored.
const ROWS: usize = 250;

/// A problem with all κ known.
pub(crate) struct Problem {
    pub(crate) name: String,
    pub(crate) group: &'static str,
    pub(crate) arms: usize,
    rows: usize,
    kappa: Vec<f32>,
    linear: Vec<f64>,
    truth: Quadratic,
    optimal: f64,
    gain: f64,
    pub(crate) ranges: Option<Ranges>,
}

impl Problem {
    fn new(name: String, group: &'static str, arms: &RecordedArms, loss: &Loss) -> Result<Self, Box<dyn Error>> {
        let rows = arms.iter().map(|arm| arm.features.len()).min().unwrap_or(0);
        let all: Vec<f32> = arms.iter().flat_map(|arm| arm.features.values()[..rows * arms.width()].to_vec()).collect();
        let all = Features::new(arms.width(), all)?;
        let mut kappa = Vec::with_capacity(all.len() * all.len());
        let mut block = Vec::new();
        for start in (0..all.len()).step_by(64) {
            loss.kappa_rows(all.view().slice(start, (start + 64).min(all.len())), &all, &mut block)?;
            kappa.extend(block.iter().map(|&value| value as f32));
        }
        let linear: Vec<f64> = arms
            .iter()
            .enumerate()
            .map(|(index, arm)| loss.linear(index, arm.features.view().slice(0, rows), &arm.scores))
            .collect::<modelmix::Result<Vec<_>>>()?
            .concat();
        let truth = mixture::statistics(arms, loss)?.biased();
        let best = simplex::minimize(&truth, &Bounds::simplex(arms.len()))?;
        let single = (0..arms.len()).map(|arm| truth.single(arm)).fold(f64::INFINITY, f64::min);
        Ok(Self {
            name,
            group,
            arms: arms.len(),
            rows,
            kappa,
            linear,
            optimal: best.value,
            gain: single - best.value,
            truth,
            ranges: loss.ranges().ok(),
        })
    }

    /// Whether mixing is worthwhile: problems with a negligible gain are skipped.
    pub(crate) fn is_one(&self) -> bool {
        self.gain > 0.02 * self.truth.single(0).abs().max(self.optimal.abs())
    }

    /// Draws one of an arm's samples.
    pub(crate) fn draw(&self, arm: usize, random: &mut Random) -> usize {
        arm * self.rows + random.below(self.rows)
    }

    /// κ of a sample with others, κ with itself, and f.
    pub(crate) fn values(&self, sample: usize, others: &[usize]) -> (Vec<f64>, f64, f64) {
        let total = self.arms * self.rows;
        let all = &self.kappa[sample * total..(sample + 1) * total];
        let kappa = others.iter().map(|&other| f64::from(all[other])).collect();
        (kappa, f64::from(all[sample]), self.linear[sample])
    }

    /// The missing share of the gain with these proportions.
    pub(crate) fn missing(&self, shares: &[f64]) -> f64 {
        (self.truth.value(shares) - self.optimal) / self.gain
    }
}

/// Arms of normal points around their own centres.
fn synthetic(kind: &str, m: usize, seed: u64) -> Result<(RecordedArms, Features), Box<dyn Error>> {
    const WIDTH: usize = 8;
    let mut random = Random::seeded(seed);
    let mut centres: Vec<Vec<f64>> = (0..m).map(|_| (0..WIDTH).map(|_| 1.5 * random.normal()).collect()).collect();
    let mut spreads = vec![1.0; m];
    let mut quality = vec![0.8; m];
    match kind {
        // Every second arm is nearly the one before it.
        "duplicates" => {
            for arm in (1..m).step_by(2) {
                centres[arm] = centres[arm - 1].iter().map(|value| value + 0.05 * random.normal()).collect();
            }
        }
        // Half of the arms are collapsed, or far from everything.
        "dominated" => {
            for (arm, spread) in spreads.iter_mut().enumerate().skip(m.div_ceil(2)) {
                *spread = 0.15;
                centres[arm] = centres[arm % m.div_ceil(2)].iter().map(|value| value + 0.3 * random.normal()).collect();
            }
        }
        // Different probabilities of a good sample.
        "bernoulli" => quality = (0..m).map(|_| 0.2 + 0.75 * random.unit()).collect(),
        _ => {}
    }
    let points = |random: &mut Random, centre: &[f64], spread: f64, rows: usize| -> Vec<f32> {
        (0..rows)
            .flat_map(|_| centre.iter().map(|c| (c + spread * random.normal()) as f32).collect::<Vec<_>>())
            .collect()
    };
    let rows = ROWS.min(4000 / m);
    let mut arms = Vec::new();
    for arm in 0..m {
        let features = Features::new(WIDTH, points(&mut random, &centres[arm], spreads[arm], rows))?;
        let good = (0..rows).map(|_| f64::from(u8::from(random.unit() < quality[arm]))).collect();
        arms.push(RecordedArm::new(format!("arm{arm}"), features).with_score("good", good));
    }
    let mut reference = Vec::new();
    for centre in &centres[..m.div_ceil(2)] {
        reference.extend(points(&mut random, centre, 1.0, 60));
    }
    Ok((RecordedArms::new(arms)?, Features::new(WIDTH, reference)?))
}

pub(crate) fn synthetic_problems(first_seed: u64) -> Result<Vec<Problem>, Box<dyn Error>> {
    let mut problems = Vec::new();
    for (at, kind) in ["plain", "duplicates", "dominated", "bernoulli"].into_iter().enumerate() {
        for (by, m) in [3, 5, 8, 12, 20].into_iter().enumerate() {
            let (arms, reference) = synthetic(kind, m, first_seed + (10 * at + by) as u64)?;
            let texts: &[&str] = match kind {
                "bernoulli" => &["rke(bandwidth=3) - 0.1*good"],
                _ => &["rke(bandwidth=3)", "mmd(bandwidth=3)"],
            };
            for text in texts {
                let objective = Objective::parse(text)?;
                let loss = objective.prepare(Inputs::new().arms(&arms).reference(reference.clone()))?;
                let short = text.split('(').next().unwrap_or(text);
                problems.push(Problem::new(format!("{kind} {short} m={m}"), "synthetic", &arms, &loss)?);
            }
        }
    }
    Ok(problems)
}

/// The shipped real generators at several bandwidths, and the quality problems.
pub(crate) fn recorded_problems() -> Result<Vec<Problem>, Box<dyn Error>> {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion");
    let reference = load::features(data.join("reference.npy"), None)?;
    let mut problems = Vec::new();
    for scenario in ["specialists", "generators", "truncated", "categories", "quality"] {
        let source = data.join(format!("{scenario}.npz")).to_string_lossy().into_owned();
        let recorded = load::arms(&[source.parse()?])?;
        let arms = recorded
            .iter()
            .map(|arm| Ok(RecordedArm::new(arm.name.clone(), arm.features.select(0..ROWS.min(arm.features.len()))?)))
            .collect::<modelmix::Result<Vec<_>>>()?;
        let arms = RecordedArms::new(arms)?;
        let mut texts: Vec<String> = ["rke", "mmd"]
            .iter()
            .flat_map(|term| [10, 20, 40].map(|bandwidth| format!("{term}(bandwidth={bandwidth})")))
            .collect();
        if scenario == "quality" {
            texts.extend(["precision", "density"].map(|term| format!("rke(bandwidth=20) - 0.2*{term}")));
        }
        for text in texts {
            let loss = Objective::parse(&text)?.prepare(Inputs::new().arms(&arms).reference(reference.clone()))?;
            problems.push(Problem::new(format!("{scenario} {text}"), "recorded", &arms, &loss)?);
        }
    }
    Ok(problems)
}
