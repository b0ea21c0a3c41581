//! `modelmix demo`: encodes images of real generators, then solves, scores and simulates on more of their samples; all are
//! built in.

mod images;

use std::path::Path;
use std::sync::Arc;

use modelmix::document::{InputRole, Provenance, UsedBandwidth};
use modelmix::load::{self, ArmSource};
use modelmix::metrics::ScoreSettings;
use modelmix::mixture::Analyses;
use modelmix::objective::Bandwidth;
use modelmix::simplex::Bounds;
use modelmix::{Inputs, KernelSpec, Objective, Simulation};

use super::output::{self, Section};
use super::{score, simulate, solve};
use crate::args::{DemoArgs, OutputArgs};
use crate::error::Result;
use crate::files::{self, Scratch};
use crate::inputs::Recorded;
use crate::provenance::Sources;
use crate::terminal::{Terminal, bold, count};

macro_rules! data {
    ($file:literal) => {
        ($file, include_bytes!(concat!("../../demo/", $file)))
    };
}

/// Features and images of two scenarios, and the encoder that made the features.
const DATA_FILES: [(&str, &[u8]); 7] = [
    data!("encoder.onnx"),
    data!("encoder.encoder.toml"),
    data!("specialists.npz"),
    data!("truncated.npz"),
    data!("reference.npy"),
    data!("images/specialists.npz"),
    data!("images/truncated.npz"),
];

/// One scenario of the demo.
struct Scenario {
    name: &'static str,
    note: &'static str,
    objective: &'static str,
    bandwidth: f64,
    rounds: usize,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario {
        name: "specialists",
        note: "Five small generators of clothing images: three cover one part of the data each, two cover all of it at lower quality. \
               Objective: similarity to real images (MMD², the squared maximum mean discrepancy).",
        objective: "mmd",
        bandwidth: 20.0,
        rounds: 1000,
    },
    Scenario {
        name: "truncated",
        note: "Eight copies of one generator, each restricted to samples near a different point of its latent space, so that each has low diversity. \
               Objective: diversity (RKE).",
        objective: "rke",
        bandwidth: 20.0,
        rounds: 600,
    },
];

/// The seed of the demo, which is the default of every command.
const SEED: u64 = 0;

/// The constants of `cab`, `ogd` and `vanilla` were tuned on this data, as those of the paper were on its data.
const POLICIES: [&str; 8] = [
    "adaptive",
    "ogd(sensitivity=0.03)",
    "cab(sensitivity=0.03)",
    "greedy",
    "vanilla(sensitivity=0.03)",
    "halving",
    "one-arm-oracle",
    "mixture-oracle",
];

pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    files::check(&args.html)?;
    let folder = unpack()?;
    images::encode(folder.path(), &args.common, &terminal)?;
    let mut sections = Vec::new();
    for scenario in &SCENARIOS {
        sections.push(run_scenario(scenario, folder.path(), args, &terminal)?);
    }
    let version = env!("CARGO_PKG_VERSION");
    terminal.document(&serde_json::json!({"command": "demo", "version": version, "scenarios": sections}))?;
    let output = OutputArgs { html: Some(args.html.clone()), ..OutputArgs::default() };
    let written = output::write(&terminal, "modelmix on real generators".into(), sections, &output);
    terminal.print_after(written).map(drop)
}

/// The provenance of a scenario. Its files are named as in the repository, not by their temporary paths.
fn provenance(
    folder: &Path,
    name: &str,
    bandwidths: &[UsedBandwidth],
    terminal: &Terminal,
) -> Result<Option<Provenance>> {
    let files = [(InputRole::Arms, format!("{name}.npz")), (InputRole::Reference, "reference.npy".into())];
    let mut sources = Sources::default();
    for (role, file) in &files {
        sources.add(*role, &folder.join(file), file);
    }
    let mut found = sources.hash(true).provenance(terminal.engine_text(), SEED, bandwidths.to_vec())?;
    for input in found.iter_mut().flat_map(|found| &mut found.inputs) {
        input.path = input.arguments.first().map(|file| format!("{file} (built in)"));
        input.arguments.clear();
    }
    Ok(found)
}

/// Writes the data to files, which the library reads like a user's files.
fn unpack() -> Result<Scratch> {
    let folder = Scratch::new()?;
    files::make_folder(&folder.path().join("images"))?;
    for (name, bytes) in DATA_FILES {
        files::write(&folder.path().join(name), bytes)?;
    }
    Ok(folder)
}

fn run_scenario(scenario: &Scenario, folder: &Path, args: &DemoArgs, terminal: &Terminal) -> Result<Section> {
    let Scenario { name, note, objective, bandwidth, rounds } = scenario;
    let source = |file: String| ArmSource { name: None, path: folder.join(file), key: None };
    let arms = load::arms(&[source(format!("{name}.npz"))])?;
    let recorded = Recorded::of(arms, Some(Arc::new(load::features(folder.join("reference.npy"), None)?)));
    recorded.choose_engine(&args.engine, terminal)?;
    terminal.say(bold(&format!("── {name} ──")));
    terminal.say(format!("{note}\n"));
    terminal.remark(format!(
        "Solving offline: {} samples of {} arms, {objective} with bandwidth {bandwidth} …",
        count(recorded.samples()),
        recorded.arms.len()
    ));
    let objective = Objective::parse(objective)?.with_bandwidth(*bandwidth);
    let mut inputs = Inputs::new().arms(&recorded.arms).engine(terminal.engine().clone());
    if let Some(reference) = &recorded.reference {
        inputs = inputs.reference(Arc::clone(reference));
    }
    let loss = objective.prepare(inputs)?;
    let bounds = Bounds::simplex(recorded.arms.len());
    let mut solved = solve::solve(&recorded, &loss, &bounds, &Analyses::default(), terminal)?;
    solve::print(terminal, &solved, false);
    terminal.say("");

    terminal.remark("Scoring every arm and the mixture …");
    let weights: Vec<f64> = solved.arms.iter().map(|arm| arm.weight).collect();
    let kernel = KernelSpec::Gaussian { bandwidth: Bandwidth::Fixed(*bandwidth) };
    let settings = ScoreSettings::default().kernel(kernel);
    let mut scored = score::score(&recorded, &settings, Some(&weights), terminal)?;
    score::print(terminal, &scored);
    terminal.say("");

    terminal.remark(format!("Simulating {} policies, {} pulls each, 10 seeds …", POLICIES.len(), count(*rounds)));
    let simulation = Simulation::default()
        .policies(POLICIES.iter().map(|policy| policy.parse()).collect::<modelmix::Result<_>>()?)
        .rounds(*rounds)
        .threads(args.common.threads);
    let mut simulated = simulate::run_policies(&recorded, &loss, &simulation, terminal)?;
    simulate::print(terminal, &simulated);
    terminal.say("");

    let provenance = provenance(folder, name, &loss.bandwidths(&recorded.arms, SEED), terminal)?;
    solved.provenance.clone_from(&provenance);
    scored.provenance.clone_from(&provenance);
    simulated.provenance = provenance;
    let images = ArmSource { name: None, path: folder.join(format!("images/{name}.npz")), key: None };
    let named: Vec<(String, f64)> = solved.arms.iter().map(|arm| (arm.name.clone(), arm.weight)).collect();
    Ok(Section {
        name: (*name).into(),
        note: Some((*note).into()),
        solve: Some(solved),
        score: Some(scored),
        simulate: Some(simulated),
        gallery: output::gallery(&[images], &[], &named)?,
        ..Section::default()
    })
}
