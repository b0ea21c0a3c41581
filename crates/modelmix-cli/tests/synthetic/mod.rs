//! Documents and samples made up by formulas, for tests of the report and for the pages that the browser looks at.

use std::collections::BTreeMap;

use modelmix::curate::{CURATION_NOTE, Curated, Proportions};
use modelmix::metrics::{Metric, Scores};
use modelmix::mixture::{AnalysisResults, Intervals, Mixture};
use modelmix::session::{SELECTION_NOTE, Selection};
use modelmix::simulate::{KeptReport, SimulationReport, Spread};
use modelmix::{Gap, Kernel, Until};
use modelmix_cli::report::{Gallery, GalleryRow, Image, Section};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

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
        solve: Some(analysed(arms)),
        score: Some(score(arms)),
        simulate: Some(simulate(arms, policies)),
        ..Section::default()
    }
}

/// A section about a set that was chosen of arms of these names.
pub(crate) fn curated(name: &str, arms: &[String]) -> Section {
    Section { name: name.into(), curate: Some(curate(arms)), ..Section::default() }
}

/// The best mixture with all analyses beside it.
fn analysed(arms: &[String]) -> Mixture {
    let mut best = solve(arms);
    best.worth = analyses(arms);
    best
}

/// A document as it would be read from a file.
fn document<T: DeserializeOwned>(fields: Value) -> T {
    serde_json::from_value(fields).expect("the fields are those of the document")
}

pub(crate) fn curate(names: &[String]) -> Curated {
    let chosen = |index: usize| 7 + index;
    let count: usize = (0..names.len()).map(chosen).sum();
    let arm = |(index, (name, weight)): (usize, (&String, f64))| {
        let share = chosen(index) as f64 / count as f64;
        json!({ "name": name, "samples": 1500 + 137 * index, "weight": weight, "chosen": chosen(index), "share": share })
    };
    let rows_of = |(index, name): (usize, &String)| -> Vec<Value> {
        (0..chosen(index)).map(|row| json!({ "arm": name, "row": 37 * row })).collect()
    };
    let tried = |proportions: Proportions, loss: f64| {
        json!({
            "proportions": proportions, "before": 0.0019, "loss": loss, "exchanges": 31, "settled": true,
        })
    };
    document(json!({
        "version": "0.2.0",
        "objective": "mmd",
        "kernels": [Kernel::Gaussian { bandwidth: 20.0 }],
        "score": { "name": "MMD² ×100", "more_is_better": false },
        "note": CURATION_NOTE,
        "count": count,
        "candidates": 1000,
        "seed": 0,
        "proportions": Proportions::Free,
        "set": { "loss": 0.00117, "unbiased_loss": -0.0013, "score": -0.1312, "terms": [] },
        "mixture": { "loss": 0.0021, "score": 0.152, "gap": 3.1e-17 },
        "random": { "draws": 20, "loss": [0.0071, 0.0004], "score": [0.187, 0.041] },
        "tried": vec![tried(Proportions::Mixture, 0.00121), tried(Proportions::Free, 0.00117)],
        "rows": names.iter().enumerate().flat_map(rows_of).collect::<Vec<_>>(),
        "provenance": provenance("curate", 'a'),
        "arms": names.iter().zip(weights(names.len())).enumerate().map(arm).collect::<Vec<_>>(),
    }))
}

/// The provenance of a command on a file with all arms.
pub(crate) fn provenance(command: &str, checksum: char) -> Value {
    let sum = |letter: char| letter.to_string().repeat(64);
    json!({
        "command": format!("modelmix {command} 'my arms.npz' --reference real.npy --bandwidth 20 --json"),
        "version": "0.2.0",
        "engine": "cpu, single precision (AVX2, 8 threads)",
        "seed": 0,
        "date": "2024-02-29T12:34:56Z",
        "inputs": [
            { "role": "arms", "path": "my arms.npz", "arguments": ["my arms.npz"], "bytes": 1234567, "sha256": sum(checksum) },
            { "role": "reference", "path": "real.npy", "arguments": ["real.npy"], "bytes": 7654321, "sha256": sum('f') },
        ],
        "bandwidths": [
            { "of": "kid", "bandwidth": 20.0, "rule": "given" },
            { "of": "vendi", "bandwidth": 38.17458624220411, "rule": "median", "samples": 500, "seed": 0 },
        ],
    })
}

pub(crate) fn solve(names: &[String]) -> Mixture {
    let weights = weights(names.len());
    let loss = |index: usize| 0.0197 + 0.0011 * index as f64;
    let score = |index: usize| 1.971 + 0.113 * index as f64;
    let arm = |(index, (name, &weight)): (usize, (&String, &f64))| {
        json!({
            "name": name,
            "samples": 1500 + 137 * index,
            "weight": weight,
            "interval": [(weight - 0.021).max(0.0), weight + 0.034],
            "loss": loss(index),
            "score": score(index),
            "adds": 0.0123 * weight,
            "terms": [],
        })
    };
    let row = |row: usize| -> Vec<f64> {
        let value =
            |column: usize| 0.41 + 0.32 * (-(row.abs_diff(column) as f64)).exp() + 0.002 * (row + column) as f64;
        (0..names.len()).map(value).collect()
    };
    document(json!({
        "version": "0.2.0",
        "objective": "mmd",
        "kernel": Kernel::Gaussian { bandwidth: 20.0 },
        "kernels": [Kernel::Gaussian { bandwidth: 20.0 }],
        "score": { "name": "MMD² ×100", "more_is_better": false },
        "best_single": { "name": names[0], "loss": loss(0), "score": score(0) },
        "mixture": { "loss": 0.0021, "score": 0.152, "gap": 3.1e-17, "terms": [] },
        "gain": 0.0176,
        "gain_interval": [0.0171, 0.0183],
        "p_value": 0.0004,
        "intervals": Intervals::Computed,
        "quadratic": (0..names.len()).map(row).collect::<Vec<_>>(),
        "linear": vec![-0.5; names.len()],
        "constant": 0.25,
        "provenance": provenance("solve", 'a'),
        "arms": names.iter().zip(&weights).enumerate().map(arm).collect::<Vec<_>>(),
    }))
}

/// Answers to all that can be asked beside.
fn analyses(names: &[String]) -> AnalysisResults {
    let share = |count: usize| vec![1.0 / count as f64; count];
    let subset = |size: usize| {
        json!({
            "size": size,
            "arms": names[..size].to_vec(),
            "weights": share(size),
            "loss": 0.0021 + 0.0176 / size as f64 - 0.0176 / names.len() as f64,
            "score": 0.152 + 1.8 / size as f64,
            "gain_kept": (names.len() > 1).then(|| (1.0 - 1.0 / size as f64) / (1.0 - 1.0 / names.len() as f64)),
            "proved": size < 13,
        })
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
    let point = |step: usize| {
        json!({
            "multiplier": (step < 10).then_some(0.037 * step as f64),
            "weights": moved(step),
            "loss": 0.0021 + 0.0002 * (step * step) as f64,
            "score": 0.152 + 0.021 * (step * step) as f64,
            "second_loss": -0.61 - 0.023 * step as f64,
            "second_score": 0.61 + 0.023 * step as f64,
        })
    };
    let tried = |step: usize| {
        json!({
            "bandwidth": 20.0 * 2f64.powf(step as f64 / 2.0 - 2.0),
            "weights": moved(step),
            "loss": 0.0021 + 0.0003 * step as f64,
            "score": 0.152 + 0.03 * step as f64,
            "gain": 0.0176 - 0.001 * step as f64,
            "best_single": names[0],
            "best_single_score": 1.97 + 0.1 * step as f64,
        })
    };
    let front = json!({
        "objective": "-precision",
        "score": { "name": "precision", "more_is_better": true },
        "points": (0..=10).map(point).collect::<Vec<_>>(),
        "exact": true,
    });
    document(json!({
        "subsets": (1..=names.len()).map(subset).collect::<Vec<_>>(),
        "cheapest": {
            "arms": names[..names.len().min(2)].to_vec(),
            "weights": share(names.len().min(2)),
            "loss": 0.0028,
            "score": 0.201,
            "above_best": 0.0007,
            "within": 0.00088,
            "samples": 1000.0,
            "fee": 20.0,
            "cost": 31.25,
            "total": 51.25,
            "total_of_best": 74.5,
            "gap": 1e-12,
        },
        "front": front,
        "sensitivity": {
            "in_use": 20.0,
            "points": (0..=8).map(tried).collect::<Vec<_>>(),
            "largest_change": 0.067,
            "arm": names[0],
            "at": 40.0,
            "verdict": format!(
                "The largest change of a weight between half and twice the bandwidth in use is 6.7 percentage points, of {} at 40: the answer depends on it somewhat.",
                names[0]
            ),
        },
    }))
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
        json!({ "name": name, "samples": 1500, "scores": scores, "errors": errors })
    });
    let (scores, errors) = scores(names.len() as f64 + 2.0);
    let weights: BTreeMap<String, f64> = names.iter().cloned().zip(weights(names.len())).collect();
    let mixture = json!({ "weights": weights, "effective_samples": 4012.0, "scores": scores, "errors": errors });
    let settings = json!({
        "metrics": Metric::OF_PAPER.to_vec(),
        "kernel": Kernel::Gaussian { bandwidth: 20.0 },
        "vendi": Value::Null,
        "kid": Value::Null,
        "neighbours": 5,
        "closed_balls": false,
    });
    let arms: Vec<Value> = arms.collect();
    document(json!({ "version": "0.2.0", "arms": arms, "mixture": mixture, "settings": settings }))
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
        let loss: Vec<f64> =
            rounds.iter().zip(&regret).map(|(&round, regret)| optimum + regret + 0.4 / round as f64).collect();
        let std = |scale: f64| -> Vec<f64> { rounds.iter().map(|&round| scale / (round as f64).sqrt()).collect() };
        let share = |&round: &usize| -> Vec<f64> {
            best.iter().map(|weight| left(round) / count + (1.0 - left(round)) * weight).collect()
        };
        let shares: Vec<Vec<f64>> = rounds.iter().map(share).collect();
        json!({
            "weights": shares[shares.len() - 1].clone(),
            "loss": { "mean": loss, "std": std(0.012) },
            "regret": { "mean": regret, "std": std(0.002) },
            "rounds": rounds.clone(),
            "shares": shares,
            "reached": {
                "percent_90": 1.5 * slow,
                "percent_95": Some((2.5 * slow).round()),
                "percent_99": (index < 2).then_some(5.0 * slow),
            },
            "stopped": { "round": (index < 2).then_some(7.5 * slow), "share": 0.9, "wrong": 0.0 },
            "features": Value::Null,
            "kept": Value::Null,
        })
    };
    let by_policy: BTreeMap<&str, Value> =
        policies.iter().enumerate().map(|(index, &name)| (name, policy(index))).collect();
    document(json!({
        "version": "0.2.0",
        "objective": "mmd",
        "kernel": Kernel::Gaussian { bandwidth: 20.0 },
        "score": { "name": "MMD² ×100", "more_is_better": false },
        "arms": names,
        "seeds": 10,
        "seed": 0,
        "optimum": { "weights": best.clone(), "loss": optimum },
        "best_single": { "name": names[0], "loss": single },
        "gain": single - optimum,
        "until": Some(Until::new(Gap::Share(0.05)).confidence(0.95)),
        "known": Value::Null,
        "select": Value::Null,
        "note": Value::Null,
        "order": policies,
        "policies": by_policy,
    }))
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
        of: Some(count + 7 * arm),
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
        of: None,
    };
    Gallery::Texts(names.iter().zip(weights(names.len())).map(row).collect())
}
