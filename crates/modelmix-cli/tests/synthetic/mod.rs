//! Documents and samples made up by formulas, for tests of the report and for the pages that the browser looks at.

use std::collections::BTreeMap;

use modelmix::curate::{
    CURATION_NOTE, Curated, CuratedArm, CuratedMixture, CuratedRow, CuratedSet, Proportions, RandomDraws, Tried,
};
use modelmix::metrics::{Metric, ScoreDefinitions, ScoredArm, ScoredMixture, Scores};
use modelmix::mixture::{
    AnalysisResults, CheapestDocument, FrontDocument, FrontPoint, Intervals, Mixture, MixtureArm, MixtureScore,
    SensitivityDocument, SensitivityPoint, SingleArm, SubsetDocument,
};
use modelmix::objective::ScoreMeaning;
use modelmix::session::{SELECTION_NOTE, Selection};
use modelmix::simulate::{
    KeptReport, Optimum, PolicyReport, Reached, SimulatedSingle, SimulationReport, Spread, Stopped,
};
use modelmix::{Gap, Kernel, Quadratic, Until};
use modelmix_cli::report::{Gallery, GalleryRow, Image, Section};

/// Names that would break out of a page that believed them.
pub(crate) const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>&\"'",
    "</svg><img src=x onerror=alert(2)>",
    "costs $5$ or {{ 7*7 }}\u{202e}\u{7}",
    "-->]]>/~ ]",
];

/// Names of sixty characters that differ at their end only.
pub(crate) fn long_names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("latent-diffusion-xl-turbo-finetuned-on-interiors-guidance-{number:02}")).collect()
}

/// Weights that fall from arm to arm, zero for every fourth.
pub(crate) fn weights(count: usize) -> Vec<f64> {
    let raw: Vec<f64> =
        (0..count).map(|arm| if count > 3 && arm % 4 == 3 { 0.0 } else { 1.0 / (1.3 + arm as f64) }).collect();
    let total: f64 = raw.iter().sum();
    raw.iter().map(|weight| weight / total).collect()
}

/// A whole section about arms of these names.
pub(crate) fn section(name: &str, arms: &[String], policies: &[&str]) -> Section {
    Section {
        name: name.into(),
        note: Some("Made up by formulas, to see how a report looks.".into()),
        solve: Some(Mixture { worth: analyses(arms), ..solve(arms) }),
        score: Some(score(arms)),
        simulate: Some(simulate(arms, policies)),
        ..Section::default()
    }
}

/// A section about a set that was chosen of arms of these names.
pub(crate) fn curated(name: &str, arms: &[String]) -> Section {
    Section { name: name.into(), curate: Some(curate(arms)), ..Section::default() }
}

pub(crate) fn curate(names: &[String]) -> Curated {
    let arms: Vec<CuratedArm> = names
        .iter()
        .zip(weights(names.len()))
        .enumerate()
        .map(|(index, (name, weight))| CuratedArm {
            name: name.clone(),
            samples: 1500 + 137 * index,
            weight,
            chosen: 7 + index,
            share: 0.0,
        })
        .collect();
    let count = arms.iter().map(|arm| arm.chosen).sum();
    let arms: Vec<CuratedArm> =
        arms.into_iter().map(|arm| CuratedArm { share: arm.chosen as f64 / count as f64, ..arm }).collect();
    let rows =
        arms.iter().flat_map(|arm| (0..arm.chosen).map(|row| CuratedRow { arm: arm.name.clone(), row: 37 * row }));
    let tried = |proportions, loss| Tried { proportions, before: 0.0019, loss, exchanges: 31, settled: true };
    Curated {
        version: "0.2.0".into(),
        objective: "kid".into(),
        kernels: vec![Kernel::Gaussian { bandwidth: 20.0 }],
        score: ScoreMeaning { name: "KID ×100".into(), more_is_better: false },
        note: CURATION_NOTE.into(),
        count,
        candidates: 1000,
        seed: 0,
        proportions: Proportions::Free,
        set: CuratedSet { loss: 0.00117, unbiased_loss: -0.0013, score: -0.1312, terms: Vec::new() },
        mixture: CuratedMixture { loss: 0.0021, score: 0.152, gap: 3.1e-17 },
        random: RandomDraws { draws: 20, loss: [0.0071, 0.0004], score: [0.187, 0.041] },
        tried: vec![tried(Proportions::Mixture, 0.00121), tried(Proportions::Free, 0.00117)],
        rows: rows.collect(),
        arms,
    }
}

pub(crate) fn solve(names: &[String]) -> Mixture {
    let weights = weights(names.len());
    let arms: Vec<MixtureArm> = names
        .iter()
        .zip(&weights)
        .enumerate()
        .map(|(index, (name, &weight))| MixtureArm {
            name: name.clone(),
            samples: 1500 + 137 * index,
            weight,
            interval: Some([(weight - 0.021).max(0.0), weight + 0.034]),
            loss: 0.0197 + 0.0011 * index as f64,
            score: 1.971 + 0.113 * index as f64,
            adds: Some(0.0123 * weight),
            terms: Vec::new(),
        })
        .collect();
    let quadratic = (0..names.len())
        .map(|row| {
            let value =
                |column: usize| 0.41 + 0.32 * (-(row.abs_diff(column) as f64)).exp() + 0.002 * (row + column) as f64;
            (0..names.len()).map(value).collect::<Vec<f64>>()
        })
        .collect::<Vec<_>>()
        .concat();
    Mixture {
        version: "0.2.0".into(),
        objective: "kid".into(),
        kernel: Some(Kernel::Gaussian { bandwidth: 20.0 }),
        kernels: vec![Kernel::Gaussian { bandwidth: 20.0 }],
        score: ScoreMeaning { name: "KID ×100".into(), more_is_better: false },
        best_single: SingleArm { name: arms[0].name.clone(), loss: arms[0].loss, score: arms[0].score },
        mixture: MixtureScore { loss: 0.0021, score: 0.152, gap: 3.1e-17, terms: Vec::new() },
        gain: 0.0176,
        gain_interval: Some([0.0171, 0.0183]),
        p_value: Some(0.0004),
        intervals: Intervals::Computed,
        form: Quadratic::new(quadratic, vec![-0.5; names.len()]).expect("it is symmetric"),
        constant: 0.25,
        arms,
        worth: AnalysisResults::default(),
    }
}

/// Answers to all that can be asked beside.
fn analyses(names: &[String]) -> AnalysisResults {
    let share = |count: usize| vec![1.0 / count as f64; count];
    let subset = |size: usize| SubsetDocument {
        size,
        arms: names[..size].to_vec(),
        weights: share(size),
        loss: 0.0021 + 0.0176 / size as f64 - 0.0176 / names.len() as f64,
        score: 0.152 + 1.8 / size as f64,
        gain_kept: (names.len() > 1).then(|| (1.0 - 1.0 / size as f64) / (1.0 - 1.0 / names.len() as f64)),
        proved: size < 13,
    };
    let moved = |step: usize| {
        let mut weights = share(names.len());
        let last = names.len() - 1;
        if last > 0 {
            let amount = weights[0] * step as f64 / 10.0;
            weights[0] -= amount;
            weights[last] += amount;
        }
        weights
    };
    let point = |step: usize| FrontPoint {
        multiplier: (step < 10).then_some(0.037 * step as f64),
        weights: moved(step),
        loss: 0.0021 + 0.0002 * (step * step) as f64,
        score: 0.152 + 0.021 * (step * step) as f64,
        second_loss: -0.61 - 0.023 * step as f64,
        second_score: 0.61 + 0.023 * step as f64,
    };
    let tried = |step: usize| SensitivityPoint {
        bandwidth: 20.0 * 2f64.powf(step as f64 / 2.0 - 2.0),
        weights: moved(step),
        loss: 0.0021 + 0.0003 * step as f64,
        score: 0.152 + 0.03 * step as f64,
        gain: 0.0176 - 0.001 * step as f64,
        best_single: names[0].clone(),
        best_single_score: 1.97 + 0.1 * step as f64,
    };
    let front = FrontDocument {
        objective: "-precision".into(),
        score: ScoreMeaning { name: "precision".into(), more_is_better: true },
        points: (0..=10).map(point).collect(),
        exact: true,
    };
    AnalysisResults {
        subsets: Some((1..=names.len()).map(subset).collect()),
        cheapest: Some(CheapestDocument {
            arms: names[..names.len().min(2)].to_vec(),
            weights: share(names.len().min(2)),
            loss: 0.0028,
            score: 0.201,
            above_best: 0.0007,
            within: 0.00088,
            samples: 1000.0,
            fee: 20.0,
            cost: 31.25,
            total: 51.25,
            total_of_best: 74.5,
            gap: 1e-12,
        }),
        front: Some(front),
        sensitivity: Some(SensitivityDocument {
            in_use: 20.0,
            points: (0..=8).map(tried).collect(),
            largest_change: 0.067,
            arm: names[0].clone(),
            at: 40.0,
            verdict: format!(
                "The largest change of a weight between half and twice the bandwidth in use is 6.7 percent points, of {} at 40: the answer depends on it somewhat.",
                names[0]
            ),
        }),
    }
}

fn scores(index: f64) -> (BTreeMap<String, f64>, BTreeMap<String, Option<f64>>) {
    let values = [
        ("rke", 31.5 + 3.1 * index, Some(0.8)),
        ("vendi", 12.25 - 0.4 * index, Some(0.21)),
        ("kid", 0.0193 - 0.0007 * index, None),
        ("fid", 58.21 - 2.37 * index, Some(0.9)),
        ("precision", 0.812 - 0.01 * index, Some(0.012)),
        ("recall", 0.402 + 0.013 * index, Some(0.014)),
        ("density", 0.95 - 0.02 * index, None),
        ("coverage", 0.71 + 0.01 * index, Some(0.011)),
    ];
    let mut scores: BTreeMap<String, f64> = values.iter().map(|(name, value, _)| (name.to_string(), *value)).collect();
    scores.insert("kid_std".into(), 0.0012);
    let errors = values.iter().filter(|(name, ..)| *name != "kid").map(|(name, _, error)| (name.to_string(), *error));
    (scores, errors.collect())
}

pub(crate) fn score(names: &[String]) -> Scores {
    let arms = names.iter().enumerate().map(|(index, name)| {
        let (scores, errors) = scores(index as f64);
        ScoredArm { name: name.clone(), samples: 1500, scores, errors }
    });
    let (scores, errors) = scores(names.len() as f64 + 2.0);
    let weights = names.iter().cloned().zip(weights(names.len())).collect();
    let mixture = ScoredMixture { weights, effective_samples: 4012.0, scores, errors };
    let settings = ScoreDefinitions {
        metrics: Metric::OF_PAPER.to_vec(),
        kernel: Some(Kernel::Gaussian { bandwidth: 20.0 }),
        vendi: None,
        kid: None,
        neighbours: Some(5),
        closed_balls: Some(false),
    };
    Scores { version: "0.2.0".into(), arms: arms.collect(), mixture: Some(mixture), settings }
}

pub(crate) fn simulate(names: &[String], policies: &[&str]) -> SimulationReport {
    let best = weights(names.len());
    let count = names.len() as f64;
    let rounds: Vec<usize> = (1..=100).map(|step| 10 * step).collect();
    let (optimum, single) = (0.0021, 0.0197);
    let policy = |index: usize| {
        let slow = 60.0 * (1.0 + index as f64);
        let left = |round: usize| (-(round as f64) / slow).exp();
        let regret: Vec<f64> = rounds.iter().map(|&round| 0.03 * left(round) + 2e-5 * (1.0 + index as f64)).collect();
        let loss = rounds.iter().zip(&regret).map(|(&round, regret)| optimum + regret + 0.4 / round as f64).collect();
        let std = |scale: f64| rounds.iter().map(|&round| scale / (round as f64).sqrt()).collect();
        let share = |&round: &usize| -> Vec<f64> {
            best.iter().map(|weight| left(round) / count + (1.0 - left(round)) * weight).collect()
        };
        let shares: Vec<Vec<f64>> = rounds.iter().map(share).collect();
        PolicyReport {
            weights: shares[shares.len() - 1].clone(),
            loss: Spread { mean: loss, std: std(0.012) },
            regret: Spread { mean: regret, std: std(0.002) },
            rounds: rounds.clone(),
            shares,
            reached: Reached {
                percent_90: Some(1.5 * slow),
                percent_95: Some((2.5 * slow).round()),
                percent_99: (index < 2).then_some(5.0 * slow),
            },
            stopped: Some(Stopped { round: (index < 2).then_some(7.5 * slow), share: 0.9, wrong: 0.0 }),
            features: None,
            kept: None,
        }
    };
    SimulationReport {
        version: "0.2.0".into(),
        objective: "kid".into(),
        kernel: Some(Kernel::Gaussian { bandwidth: 20.0 }),
        score: ScoreMeaning { name: "KID ×100".into(), more_is_better: false },
        arms: names.to_vec(),
        seeds: 10,
        seed: 0,
        optimum: Optimum { weights: best.clone(), loss: optimum },
        best_single: SimulatedSingle { name: names[0].clone(), loss: single },
        gain: single - optimum,
        until: Some(Until::new(Gap::Share(0.05)).confidence(0.95)),
        known: None,
        select: None,
        note: None,
        order: policies.iter().map(|name| name.to_string()).collect(),
        policies: policies.iter().enumerate().map(|(index, name)| (name.to_string(), policy(index))).collect(),
    }
}

/// The same of policies that kept the better half of their samples.
pub(crate) fn selected(names: &[String], policies: &[&str]) -> SimulationReport {
    let mut document = simulate(names, policies);
    (document.select, document.note) = (Some(Selection::BetterHalf), Some(SELECTION_NOTE.into()));
    for (index, policy) in document.policies.values_mut().enumerate() {
        let below = |loss: &f64| loss - 0.0007 + 0.0001 * index as f64;
        let halves = policy.rounds.iter().map(|&round| (round as f64 / 2.0).round()).collect();
        let std = vec![0.0002; policy.rounds.len()];
        policy.kept = Some(KeptReport {
            loss: Spread { mean: policy.loss.mean.iter().map(below).collect(), std: std.clone() },
            samples: Spread { mean: halves, std },
            reached: (index < 2).then_some(310.5),
        });
    }
    document
}

/// Small pictures: discs whose place and colour tell the arm.
pub(crate) fn images(names: &[String], count: usize) -> Gallery {
    const SIDE: usize = 28;
    let picture = |arm: usize, number: usize| {
        let (x, y) = ((7 + 5 * ((number * 7 + arm) % 4)) as f64, (7 + 5 * ((number * 3 + arm * 2) % 4)) as f64);
        let mut pixels = Vec::new();
        for place in 0..SIDE * SIDE {
            let (column, row) = ((place % SIDE) as f64, (place / SIDE) as f64);
            let inside = (column - x).powi(2) + (row - y).powi(2) < (4.0 + (number % 3) as f64).powi(2);
            let colour = [[230, 120, 40], [60, 150, 210], [90, 180, 110], [200, 90, 160]][arm % 4];
            pixels.extend(if inside { colour } else { [24, 24, 28] });
        }
        Image::new(SIDE as u32, SIDE as u32, 3, &pixels).expect("sizes fit")
    };
    let row = |(arm, (name, weight)): (usize, (&String, f64))| GalleryRow {
        name: name.clone(),
        weight,
        items: (0..count).map(|number| picture(arm, number)).collect(),
    };
    Gallery::Images(names.iter().zip(weights(names.len())).enumerate().map(row).collect())
}

/// Short texts that tell the arm.
pub(crate) fn texts(names: &[String], count: usize) -> Gallery {
    let text = |name: &String, number: usize| {
        format!(
            "{name} wrote line {number} of this: a slow river, a bridge of stone, and the sound of rain on the roof of a small house at its end."
        )
    };
    let row = |(name, weight): (&String, f64)| GalleryRow {
        name: name.clone(),
        weight,
        items: (1..=count).map(|number| text(name, number)).collect(),
    };
    Gallery::Texts(names.iter().zip(weights(names.len())).map(row).collect())
}
