//! Writes example reports: synthetic ones with 1, 3 and 20 arms and with hostile names, and one of the real generators in
//! `data/fashion`. `make browser` checks them in Chromium.
//!
//! `cargo run --example report_pages -- FOLDER [IMAGES]`; IMAGES has one folder of PNG files per arm.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use modelmix::document::Document;
use modelmix::metrics::{Metric, ScoreSettings};
use modelmix::{Inputs, Objective, Simulation, load, score, simulate, solve};
use modelmix_cli::report::{Gallery, GalleryRow, Image, Report, Section, compare};

type Outcome<T> = Result<T, Box<dyn Error>>;

const POLICIES: [&str; 6] = [
    "adaptive",
    "cab(sensitivity=0.03)",
    "ogd(sensitivity=0.03)",
    "vanilla(sensitivity=0.03)",
    "one-arm-oracle",
    "mixture-oracle",
];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("give a folder to write pages to")?;
    let images = arguments.next();
    fs::create_dir_all(&folder)?;

    let three: Vec<String> = ["painter", "photographer", "sketcher"].map(String::from).into();
    let mut section = synthetic::section("Three arms", &three, &POLICIES[..3]);
    section.gallery = Some(synthetic::images(&three, 24));
    write(&folder, "three", "Three models", vec![section])?;

    let twenty = synthetic::long_names(20);
    let many: Vec<String> =
        (0..10).map(|index| format!("ogd(sensitivity=0.0{index}, horizon=10000, weights=uniform)")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut section = synthetic::section("Twenty arms with long names", &twenty, &many);
    section.gallery = Some(synthetic::texts(&twenty, 3));
    write(&folder, "twenty", "Twenty models with names of sixty characters each", vec![section])?;

    let hostile = synthetic::HOSTILE.map(String::from);
    let mut section = synthetic::section(synthetic::HOSTILE[0], &hostile, &synthetic::HOSTILE);
    section.gallery = Some(synthetic::texts(&hostile, 2));
    write(&folder, "hostile", synthetic::HOSTILE[1], vec![section])?;

    let kept = synthetic::selected(&three, &POLICIES[..3]);
    let kept = Section { name: "Kept samples".into(), simulate: Some(kept), ..Section::default() };
    write(&folder, "kept", "Samples that were kept", vec![kept])?;

    let (old, mut new) = (synthetic::solve(&three), synthetic::solve(&three));
    new.provenance = serde_json::from_value(synthetic::provenance("solve", 'b'))?;
    new.arms.swap(0, 1);
    let comparison = compare(["old", "new"], &Document::Solve(old.clone()), &Document::Solve(new.clone()))?;
    let runs = [("old", old), ("new", new)];
    let sections = runs.map(|(name, run)| Section { name: name.into(), solve: Some(run), ..Section::default() }).into();
    write_report(
        &folder,
        "compared",
        &Report { title: "Two runs".into(), comparison: Some(comparison), sections, ..Report::default() },
    )?;

    let one = Section { name: "One arm".into(), solve: Some(synthetic::solve(&three[..1])), ..Section::default() };
    write(&folder, "one", "One model", vec![one])?;

    let mut sections = vec![
        synthetic::curated("Chosen of three arms", &three),
        synthetic::curated("Chosen of twenty arms", &twenty),
        synthetic::curated(synthetic::HOSTILE[2], &hostile),
    ];
    sections[0].gallery = Some(synthetic::images(&three, 24));
    write(&folder, "curated", "Curated sets", sections)?;

    let sections = vec![
        fashion(
            "specialists",
            "mmd",
            1000,
            "Three models that know a part of the data each, two that know all of it.",
            images.as_deref(),
        )?,
        fashion(
            "truncated",
            "rke",
            600,
            "Eight copies of one model, each concentrated around a different point.",
            images.as_deref(),
        )?,
    ];
    write(&folder, "fashion", "Mixtures of small generators of clothing images", sections)
}

fn write(folder: &Path, name: &str, title: &str, sections: Vec<Section>) -> Outcome<()> {
    write_report(folder, name, &Report { title: title.into(), sections, ..Report::default() })
}

fn write_report(folder: &Path, name: &str, report: &Report) -> Outcome<()> {
    fs::write(folder.join(format!("{name}.html")), report.html()?)?;
    fs::write(folder.join(format!("{name}.json")), serde_json::to_string(report)?)?;
    for figure in report.figures()? {
        fs::write(folder.join(format!("{name}.{}.svg", figure.name)), &figure.svg)?;
        fs::write(folder.join(format!("{name}.{}.png", figure.name)), figure.png(2.0)?)?;
    }
    Ok(())
}

/// A scenario of real generators: solved, scored and simulated by the library.
fn fashion(name: &str, objective: &str, rounds: usize, note: &str, images: Option<&Path>) -> Outcome<Section> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion");
    let arms = load::arms(&[data.join(format!("{name}.npz")).to_string_lossy().parse()?])?;
    let reference = load::features(data.join("reference.npy"), None)?;
    let objective = Objective::parse(objective)?.with_bandwidth(20.0);
    let loss = objective.prepare(Inputs::new().arms(&arms).reference(reference.clone()))?;
    let best = solve(&arms, &loss)?;

    let metrics = vec![
        Metric::Rke,
        Metric::Kid,
        Metric::Fid,
        Metric::Precision,
        Metric::Recall,
        Metric::Density,
        Metric::Coverage,
    ];
    let settings = ScoreSettings::default().metrics(metrics);
    let score = score(&arms, Some(&reference), &settings, Some(&best.weights()))?;

    let policies = POLICIES.into_iter().map(str::parse).collect::<modelmix::Result<_>>()?;
    let simulation = Simulation::default().policies(policies).rounds(rounds).seeds(5);
    let report = simulate(&arms, &loss, &simulation)?;
    Ok(Section {
        name: name.into(),
        note: Some(note.into()),
        gallery: images.map(|folder| gallery(folder, &arms.names(), &best.weights())).transpose()?.flatten(),
        solve: Some(best),
        score: Some(score),
        simulate: Some(report),
        ..Section::default()
    })
}

fn gallery(folder: &Path, names: &[String], weights: &[f64]) -> Outcome<Option<Gallery>> {
    let mut rows = Vec::new();
    for (name, &weight) in names.iter().zip(weights) {
        let Ok(files) = fs::read_dir(folder.join(name)) else { return Ok(None) };
        let mut files = files.map(|file| Ok(file?.path())).collect::<Outcome<Vec<PathBuf>>>()?;
        files.sort();
        let items = files.iter().map(|file| Ok(Image::encoded(fs::read(file)?)?)).collect::<Outcome<Vec<Image>>>()?;
        rows.push(GalleryRow::new(name, weight, items));
    }
    Ok(Some(Gallery::Images(rows)))
}
