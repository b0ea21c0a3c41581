//! Times of `score` and `curate` on the first GPU and on two threads of the processor, as JSON lines.
//!
//! `score [cuda|cpu] [score|curate|operations] [arms] [rows] [width] [rows to choose]`: without arguments, both engines and all
//! three on 1 arm of 10,000 rows of width 1024 and a reference of the same size. The first result of a GPU includes the
//! loading of kernels and libraries, so everything is computed once before.

use std::time::Instant;

use modelmix::compute::{Balls, Cpu, Engine, Subsets};
use modelmix::metrics::{Metric, ScoreSettings, score_watched};
use modelmix::{Curation, Features, Inputs, Kernel, Objective, RecordedArm, RecordedArms, curate};
use modelmix_cuda::{Cuda, Options};

const THREADS: usize = 2;

fn main() -> modelmix::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize| arguments.get(index).map_or("", String::as_str);
    let number = |index: usize, default: usize| text(index).parse().unwrap_or(default);
    let (arms, rows, width, count) = (number(2, 1), number(3, 10_000), number(4, 1024), number(5, 1000));
    let features = |seed: u64| Features::new(width, values(rows * width, seed));
    let recorded = |arm: u64| Ok(RecordedArm::new(format!("arm {arm}"), features(arm + 1)?));
    let recorded = RecordedArms::new((0..arms as u64).map(recorded).collect::<modelmix::Result<_>>()?)?;
    let reference = features(99)?;
    let name = format!("{arms}x{rows}x{width}");
    let mut engines = Vec::new();
    if text(0) != "cpu" {
        match Cuda::open(None, Options::default()) {
            Ok(cuda) => engines.push((Engine::new(cuda), 2)),
            Err(reason) => println!("skipped: {reason}"),
        }
    }
    if text(0) != "cuda" {
        engines.push((Engine::new(Cpu::with_threads(THREADS)), 1));
    }
    for (engine, runs) in &engines {
        if matches!(text(1), "operations" | "") {
            operations(engine, 3, &recorded[0].features, &reference)?;
        }
        if matches!(text(1), "score" | "") {
            scores(engine, *runs, &name, &recorded, &reference)?;
        }
        if matches!(text(1), "curate" | "") {
            curated(engine, *runs, &name, &recorded, &reference, count)?;
        }
    }
    Ok(())
}

/// Times a piece of work, the last of several runs.
fn time<T>(engine: &Engine, runs: usize, name: &str, work: impl Fn() -> modelmix::Result<T>) -> modelmix::Result<T> {
    let (mut seconds, mut result) = (0.0, None);
    for _ in 0..runs {
        let start = Instant::now();
        result = Some(work()?);
        seconds = start.elapsed().as_secs_f64();
    }
    println!("{{\"name\": \"{name}\", \"seconds\": {seconds:.4}, \"engine\": \"{}\"}}", engine.describe());
    Ok(result.expect("there is at least one run"))
}

/// The operations that metrics are made of.
fn operations(engine: &Engine, runs: usize, x: &Features, y: &Features) -> modelmix::Result<()> {
    let (width, precise) = (x.width(), engine.precise());
    let time = |name: &str, work: &dyn Fn() -> modelmix::Result<()>| {
        time(engine, runs, &format!("{name} {}x{width}", x.len()), work)
    };
    let held = engine.hold(x)?;
    time("hold", &|| engine.hold(x).map(drop))?;
    time("read", &|| held.read(0..x.len()).map(drop))?;
    time("mean", &|| precise.mean(&*held).map(drop))?;
    let mean = precise.mean(&*held)?;
    time("scatter", &|| precise.scatter(&*held, &mean, None).map(drop))?;
    time("scatter from the host", &|| precise.scatter(x, &mean, None).map(drop))?;
    let scatter = precise.scatter(&*held, &mean, None)?;
    time("product", &|| precise.product(&scatter, &scatter).map(drop))?;
    time("eigenvalues", &|| precise.eigenvalues(&scatter).map(drop))?;
    time("eigen", &|| precise.eigen(&scatter).map(drop))?;
    time("factor", &|| precise.factor(&scatter).map(drop))?;
    let weights = vec![1.0; width];
    time("projections", &|| precise.projections(&*held, &mean, &scatter, &weights).map(drop))?;
    let kernel = Kernel::Polynomial { scale: 1.0 / width as f64, offset: 1.0, degree: 3 };
    let lists: Vec<Vec<usize>> =
        (0..100).map(|list| (0..1000).map(|row| (7 * row + list) % x.len()).collect()).collect();
    let lists: Vec<&[usize]> = lists.iter().map(Vec::as_slice).collect();
    let subsets = Subsets { rows: x.into(), subsets: &lists };
    time("subset sums", &|| engine.subset_sums(&kernel, subsets, None).map(drop))?;
    let others = Subsets { rows: y.into(), subsets: &lists };
    time("subset sums with others", &|| engine.subset_sums(&kernel, subsets, Some(others)).map(drop))?;
    let gaussian = Kernel::Gaussian { bandwidth: (2.0 * width as f64).sqrt() };
    time("precise sums", &|| precise.kernel_sums_within(&gaussian, &*held).map(drop))?;
    time("neighbours", &|| precise.neighbours(&*held, 5).map(drop))?;
    let radii = vec![2.0 * width as f64; x.len()];
    let (a, b) =
        (Balls { centres: (&*held).into(), squared_radii: &radii }, Balls { centres: y.into(), squared_radii: &radii });
    time("overlaps", &|| precise.overlaps(a, &radii, b).map(drop))
}

/// Every metric alone, then all together; their values too, so that engines can be compared.
fn scores(engine: &Engine, runs: usize, name: &str, arms: &RecordedArms, reference: &Features) -> modelmix::Result<()> {
    let score = |metrics: Vec<Metric>| {
        let settings = ScoreSettings::default().metrics(metrics);
        score_watched(arms, Some(reference), &settings, None, engine, &|| {})
    };
    for metric in Metric::ALL {
        time(engine, runs, &format!("score {name}, {metric}"), || score(vec![metric]))?;
    }
    if runs == 1 {
        // The sum of the parts on the processor: a second run of everything would take minutes.
        return Ok(());
    }
    let scores = time(engine, runs, &format!("score {name}, all metrics"), || score(Metric::ALL.to_vec()))?;
    println!("{:?}", scores.arms[0].scores);
    Ok(())
}

fn curated(
    engine: &Engine,
    runs: usize,
    name: &str,
    arms: &RecordedArms,
    reference: &Features,
    count: usize,
) -> modelmix::Result<()> {
    let work = || {
        let inputs = Inputs::new().arms(arms).reference(reference.clone()).engine(engine.clone());
        let loss = Objective::mmd().prepare(inputs)?;
        curate(arms, &loss, &Curation::default().count(count))
    };
    let set = time(engine, runs, &format!("curate {count} of {name}"), work)?;
    let exchanges: usize = set.tried.iter().map(|tried| tried.exchanges).sum();
    println!("loss {:e}, {exchanges} exchanges", set.set.loss);
    Ok(())
}

/// Approximately normal values with another mean per seed.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // The sum of four uniform numbers, with variance 1.
        let sum: u64 = (0..4).map(|lane| state >> (16 * lane) & 0xffff).sum();
        (sum as f32 / 65_536.0 - 2.0) * 1.732_050_8 + 0.01 * seed as f32
    };
    (0..count).map(|_| value()).collect()
}
