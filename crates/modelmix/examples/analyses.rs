//! Measures the cost of analyses and of session options, as Markdown.
//!
//! `cargo run --release -p modelmix --example analyses`

use std::error::Error;
use std::time::Instant;

use modelmix::mixture::{Analyses, Bandwidths, Budget, solve_with_analyses, statistics};
use modelmix::policy::Random;
use modelmix::session::{Cap, Retention};
use modelmix::simplex::Bounds;
use modelmix::{
    Curation, Features, Gap, Inputs, Loss, Objective, RecordedArm, RecordedArms, Selection, Session, SessionSettings,
    Until, curate, solve,
};

const WIDTH: usize = 64;

/// Normal points around overlapping centres, and one score per sample.
fn arms(count: usize, rows: usize) -> modelmix::Result<RecordedArms> {
    let mut random = Random::seeded(count as u64);
    let arm = |arm: usize| {
        let centre: Vec<f64> = (0..WIDTH).map(|_| 0.5 * random.normal()).collect();
        let values = (0..rows * WIDTH).map(|at| (centre[at % WIDTH] + random.normal()) as f32).collect();
        let good = (0..rows).map(|_| random.unit()).collect();
        Ok(RecordedArm::new(format!("arm{arm}"), Features::new(WIDTH, values)?).with_score("good", good))
    };
    RecordedArms::new((0..count).map(arm).collect::<modelmix::Result<Vec<_>>>()?)
}

/// The minimum of several runs, in milliseconds.
fn milliseconds<R>(runs: usize, mut work: impl FnMut() -> modelmix::Result<R>) -> modelmix::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        std::hint::black_box(work()?);
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(1e3 * least)
}

fn offline() -> Result<(), Box<dyn Error>> {
    println!(
        "| arms × samples | kernels | solve | certainty | best k | cheapest | front, linear | front, mmd | 9 bandwidths |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (count, rows, runs) in [(5, 1500, 5), (12, 600, 5), (20, 400, 3), (64, 100, 2)] {
        let arms = arms(count, rows)?;
        let reference = arms[0].features.select(0..rows.min(300))?;
        let prepare = |text: &str| -> modelmix::Result<Loss> {
            Objective::parse(text)?.prepare(Inputs::new().arms(&arms).reference(reference.clone()))
        };
        let loss = prepare("rke(bandwidth=8)")?;
        let bounds = Bounds::simplex(count);
        let kernels = milliseconds(runs, || statistics(&arms, &loss))?;
        let all = milliseconds(runs, || solve(&arms, &loss))?;
        let extra = |analyses: Analyses| -> modelmix::Result<f64> {
            Ok(milliseconds(runs, || solve_with_analyses(&arms, &loss, &bounds, &analyses))? - all)
        };
        let subsets = extra(Analyses::default().subsets(true))?;
        let fees = arms.names().into_iter().enumerate().map(|(arm, name)| (name, 5.0 + (arm % 4) as f64));
        let budget = Some(Budget::by_arm(&arms.names(), fees, None, None, "5%".parse()?)?);
        let cheapest = extra(Analyses::default().budget(budget))?;
        let mut fronts = Vec::new();
        for second in ["-1*good", "mmd(bandwidth=8)"] {
            fronts.push(extra(Analyses::default().front(prepare(second)?))?);
        }
        let bandwidths = extra(Analyses::default().bandwidths(Bandwidths::Auto))?;
        // Without confidence intervals, a solve is its kernels and a program that takes microseconds.
        println!(
            "| {count} × {rows} | {kernels:.1} | {all:.1} | {:.1} | {subsets:.1} | {cheapest:.1} | {:.1} | {:.1} | {bandwidths:.1} |",
            all - kernels,
            fronts[0],
            fronts[1]
        );
    }
    println!("\nMilliseconds; the cost of analyses is in addition to the solve.\n");
    println!("| curate | milliseconds |\n|---|---|");
    for (rows, chosen) in [(1500, 100), (1500, 1000), (10_000, 1000)] {
        let arms = arms(5, rows)?;
        let loss = Objective::parse("rke(bandwidth=8)")?.prepare(Inputs::new().arms(&arms))?;
        let settings = Curation::default().count(chosen);
        println!("| {chosen} of 5 × {rows} | {:.0} |", milliseconds(1, || curate(&arms, &loss, &settings))?);
    }
    Ok(())
}

fn sessions() -> Result<(), Box<dyn Error>> {
    println!(
        "\n| session of 1,000 rounds | 5 arms: per round | report | 20 arms: per round | report | 64 arms: per round | report |"
    );
    println!("|---|---|---|---|---|---|---|");
    let usual = SessionSettings::default();
    let until = |gap| SessionSettings::default().until(Until::new(gap));
    let kinds = [
        ("plain", usual.clone()),
        ("until 1e-9, never reached", until(Gap::Loss(1e-9))),
        ("better half", usual.clone().select(Selection::BetterHalf)),
        ("alarm", usual.clone().alarm(0.01)),
        ("half-life 300", usual.clone().retention(Retention::half_life(300.0))),
        ("window 300", usual.clone().retention(Retention::Window(300))),
        ("hold 300", usual.clone().retention(Retention::Capped(Cap::default().hold(300).error(0.05)))),
    ];
    for (name, settings) in kinds {
        let mut cells = Vec::new();
        for count in [5, 20, 64] {
            let arms = arms(count, 250)?;
            let loss = Objective::parse("rke(bandwidth=8)")?.prepare(Inputs::new())?;
            let mut session = Session::new(arms.names(), loss, &settings)?;
            let mut next = vec![0; count];
            let start = Instant::now();
            for _ in 0..1000 {
                let pull = session.ask()?;
                let row = next[pull.index] % 250;
                next[pull.index] += 1;
                session.tell(pull.id, &arms[pull.index].features.select(row..row + 1)?)?;
            }
            let round = 1e3 * start.elapsed().as_secs_f64();
            cells.push(format!("{round:.0} µs | {:.1} ms", milliseconds(3, || session.report())?));
        }
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    offline()?;
    sessions()
}
