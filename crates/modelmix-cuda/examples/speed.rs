//! Times of the engine on the first GPU, as JSON lines: the median, the least and the most of several runs after warm-up,
//! and the target. `speed [part of a name]` runs some of them.

use std::time::Instant;

use modelmix::compute::{Backend, Engine, Resident, Set, Storage};
use modelmix::{Features, Kernel};
use modelmix_cuda::{Cuda, Options, Precision, Tier};

const WARM_UP: usize = 2;
const RUNS: usize = 7;

struct Report {
    filter: String,
    device: String,
}

impl Report {
    fn asks_for(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Times `work` and prints a line; `each` is the number of repetitions within one run.
    fn time(&self, name: &str, target_ms: f64, each: usize, mut work: impl FnMut()) {
        if !self.asks_for(name) {
            return;
        }
        let mut times: Vec<f64> = (0..WARM_UP + RUNS)
            .map(|_| {
                let start = Instant::now();
                (0..each).for_each(|_| work());
                start.elapsed().as_secs_f64() * 1e3 / each as f64
            })
            .skip(WARM_UP)
            .collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{{\"name\": \"{name}\", \"median_ms\": {:.4}, \"least_ms\": {:.4}, \"most_ms\": {:.4}, \"target_ms\": {}, \"device\": \"{}\"}}",
            times[RUNS / 2],
            times[0],
            times[RUNS - 1],
            if target_ms.is_nan() { "null".into() } else { target_ms.to_string() },
            self.device
        );
    }
}

/// Approximately normal values, from a fast generator: 1 GB of them takes seconds.
fn features(rows: usize, width: usize, seed: u64) -> Features {
    let mut values = vec![0.0f32; rows * width];
    let share = values.len().div_ceil(16).max(1);
    std::thread::scope(|scope| {
        for (index, part) in values.chunks_mut(share).enumerate() {
            scope.spawn(move || {
                let mut state = (seed << 8 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                for value in part {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    // The sum of four uniform numbers, with mean 0 and variance 1.
                    let sum: u64 = (0..4).map(|lane| state >> (16 * lane) & 0xffff).sum();
                    *value = (sum as f32 / 65_536.0 - 2.0) * 1.732_050_8;
                }
            });
        }
    });
    Features::new(width, values).expect("generated values are finite")
}

fn main() {
    let cuda = match Cuda::open(None, Options::default()) {
        Ok(cuda) => cuda,
        Err(reason) => {
            println!("skipped: {reason}");
            return;
        }
    };
    let report = Report { filter: std::env::args().nth(1).unwrap_or_default(), device: cuda.describe() };
    let engine = Engine::new(cuda.clone());
    for (rows, width, target) in
        [(10_000, 1024, 10.0), (10_000, 64, 1.6), (10_000, 768, 7.5), (10_000, 2048, 19.0), (50_000, 1024, 240.0)]
    {
        sums(&report, &engine, &format!("sums 5x{rows}x{width}, resident"), (rows, width), target, true);
    }
    sums(&report, &engine, "sums 5x10000x1024, from host memory", (10_000, 1024), 16.0, false);
    if let Ok(mma) = Cuda::open(None, Options::default().tier(Tier::Mma)) {
        let name = "sums 5x10000x1024, resident, mma.sync";
        sums(&report, &Engine::new(mma), name, (10_000, 1024), 25.0, true);
    }
    let double = Engine::new(cuda.with_precision(Precision::Double));
    sums(&report, &double, "sums 5x10000x1024, resident, double precision", (10_000, 1024), f64::NAN, true);
    if let Ok(alone) = Cuda::open(None, Options::default().precision(Precision::Double).libraries(false)) {
        let name = "sums 5x10000x1024, resident, double precision without cuBLAS";
        sums(&report, &Engine::new(alone), name, (10_000, 1024), f64::NAN, true);
    }
    new_rows(&report, &engine);
    let name = "neighbours k=5 10000x2048";
    if report.asks_for(name) {
        let held = engine.hold(&features(10_000, 2048, 1)).expect("there is memory for the rows");
        report.time(name, 1.5, 1, || drop(engine.neighbours(&*held, 5).expect("the device works")));
    }
    session(&report, &cuda);
}

fn sums(report: &Report, engine: &Engine, name: &str, (rows, width): (usize, usize), target: f64, resident: bool) {
    if !report.asks_for(name) {
        return;
    }
    let arms: Vec<Features> = (0..5).map(|arm| features(rows, width, arm + 1)).collect();
    let kernel = Kernel::Gaussian { bandwidth: (2.2 * width as f64).sqrt() };
    let held: Vec<Box<dyn Resident>> = if resident {
        arms.iter().map(|arm| engine.hold(arm).expect("there is memory for the rows")).collect()
    } else {
        Vec::new()
    };
    let sets: Vec<Set<'_>> = match resident {
        true => held.iter().map(|set| Set::from(&**set)).collect(),
        false => arms.iter().map(Set::from).collect(),
    };
    report.time(name, target, 1, || drop(engine.kernel_sums_among(&kernel, &sets).expect("the device works")));
}

fn new_rows(report: &Report, engine: &Engine) {
    let (held, fresh) = (features(8000, 1024, 1), features(64, 1024, 2));
    let resident = engine.hold(&held).expect("there is memory for the rows");
    let kernel = Kernel::Gaussian { bandwidth: 45.0 };
    for (count, target) in [(1, 0.035), (64, 0.2)] {
        let mut out = vec![0.0; count * 8000];
        report.time(&format!("{count} new rows to 8000x1024"), target, 50, || {
            let new = fresh.view().slice(0, count);
            engine.kernel_rows(&kernel, 1.0, new, &*resident, &mut out).expect("the device works");
        });
    }
}

/// The work of a session on the device: in every round one row against all rows so far, and then it is held too.
fn session(report: &Report, cuda: &Cuda) {
    let name = "session of 8000 rounds x1024, kernel rows and appends";
    if !report.asks_for(name) {
        return;
    }
    let engine = Engine::new(cuda.clone());
    let (rows, kernel) = (features(8000, 1024, 1), Kernel::Gaussian { bandwidth: 45.0 });
    let mut out = vec![0.0; 8000];
    report.time(name, 500.0, 1, || {
        let mut set = cuda.empty(1024, Storage::Single).expect("there is memory for the rows");
        for round in 0..8000 {
            let new = rows.view().slice(round, round + 1);
            engine.kernel_rows(&kernel, 1.0, new, &*set, &mut out[..round]).expect("the device works");
            set.append(new).expect("there is memory for the rows");
        }
    });
}
