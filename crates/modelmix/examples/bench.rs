//! Runs one measurement per line: reads commands from standard input and answers each with the seconds it took and a
//! result to compare, so that `benches/peers.py` can alternate between this engine and its peers. Not a benchmark by
//! itself.
//!
//! ```text
//! load NAME PATH                                  features of all arms in a file
//! offline NAME gaussian|polynomial BANDWIDTH THREADS [ENGINE]   K̂ of all arms: seconds, sum of its entries
//! accuracy NAME BANDWIDTH ENGINE                   largest relative errors of K̂ and of sums of rows, engine
//! cross NAME NAME THREADS                         two sets: seconds, sum
//! row NAME | half NAME                             one row against all rows of the first arm: seconds, best of 5
//! bandwidth BYTES | peak                           seconds to read BYTES bytes, best of 5; flops/s of 10⁹ multiply-adds
//! program M warm|cold COUNT                        seconds per quadratic program
//! session NAME POLICY ROUNDS single|half           seconds, rows of all arms told one by one
//! simulate NAME POLICIES ROUNDS SEEDS THREADS      seconds, policies separated by semicolons
//! metric prdc|fid|kid|vendi|rke|double NAME NAME THREADS  first arms of samples and reference: seconds, values; rke as
//!                                                  the score table computes it, double always in double precision
//! memory                                           peak resident bytes
//! ```
//!
//! ENGINE is auto (the default), exact, avx2 or avx2-exact.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use modelmix::compute::{Cpu, Double, Engine, Instructions, Precision, Set};
use modelmix::metrics::{self, KidSettings, Metric, Neighbourhoods, Pool, ScoreSettings, Scorer};
use modelmix::policy::Random;
use modelmix::session::Storage;
use modelmix::simplex::{Bounds, Solver};
use modelmix::{
    Features, Inputs, Kernel, KernelSpec, Objective, Quadratic, RecordedArms, Session, SessionSettings, Simulation,
    load, mixture, simulate,
};

type Sets = BTreeMap<String, RecordedArms>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut sets = Sets::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = answer(&mut sets, &words)?;
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn seconds<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let start = Instant::now();
    let result = std::hint::black_box(work());
    (start.elapsed().as_secs_f64(), result)
}

fn answer(sets: &mut Sets, words: &[&str]) -> Result<String, Box<dyn Error>> {
    let set = |name: &str| sets.get(name).ok_or_else(|| format!("{name} is not loaded"));
    Ok(match words {
        ["load", name, path] => {
            let arms = load::arms(&[path.parse()?])?;
            sets.insert((*name).into(), arms);
            "0".into()
        }
        ["offline", name, kernel, bandwidth, threads, engine @ ..] => {
            let arms = set(name)?;
            let objective = match *kernel {
                // The square of this kernel is the requested one.
                "gaussian" => Objective::rke().with_bandwidth(bandwidth.parse::<f64>()? * std::f64::consts::SQRT_2),
                _ => Objective::mmd().with_kernel(KernelSpec::Kid),
            };
            let cpu = Engine::new(cpu(engine.first().copied().unwrap_or("auto"), threads.parse()?)?);
            if *kernel == "gaussian" {
                let loss = objective.prepare(Inputs::new().arms(arms).engine(cpu))?;
                let (time, form) = seconds(|| mixture::statistics(arms, &loss));
                format!("{time} {}", form?.biased().quadratic().iter().sum::<f64>())
            } else {
                let kernel = modelmix::Kernel::Polynomial { scale: 1.0 / arms.width() as f64, offset: 1.0, degree: 3 };
                let (time, sum) = seconds(|| polynomial(arms, &kernel, &cpu));
                format!("{time} {}", sum?)
            }
        }
        ["accuracy", name, bandwidth, engine] => {
            let arms = set(name)?;
            let sets: Vec<Set<'_>> = arms.iter().map(|arm| Set::from(&arm.features)).collect();
            let kernel = Kernel::Gaussian { bandwidth: bandwidth.parse()? };
            let (engine, double) = (Engine::new(cpu(engine, 2)?), Engine::new(Double::with_threads(2)));
            let (entry, row) =
                errors(&engine.kernel_sums_among(&kernel, &sets)?, &double.kernel_sums_among(&kernel, &sets)?);
            format!("{entry:.2e} {row:.2e} {}", engine.describe())
        }
        ["cross", name, other, threads] => {
            let (x, y) = (set(name)?[0].features.view(), set(other)?[0].features.view());
            let kernel = modelmix::Kernel::Gaussian { bandwidth: (x.width() as f64).sqrt() };
            let cpu = Engine::new(Cpu::with_threads(threads.parse()?));
            let (time, sums) = seconds(|| cpu.kernel_sums(&kernel, x, y));
            format!("{time} {}", sums?.rows.iter().sum::<f64>())
        }
        ["row", name] => {
            let rows = set(name)?[0].features.view();
            let mut out = vec![0.0; rows.len()];
            let kernel = modelmix::Kernel::Gaussian { bandwidth: 20.0 };
            let cpu = Engine::new(Cpu::with_threads(1));
            let pass = |out: &mut [f64]| seconds(|| cpu.kernel_rows(&kernel, 1.0, rows.slice(0, 1), rows, out)).0;
            (0..5).map(|_| pass(&mut out)).fold(f64::INFINITY, f64::min).to_string()
        }
        ["half", name] => {
            let features = &set(name)?[0].features;
            let kernel = modelmix::Kernel::Gaussian { bandwidth: 20.0 };
            let cpu = Engine::new(Cpu::with_threads(1));
            let mut rows = cpu.empty(features.width(), Storage::Half)?;
            rows.append(features.view())?;
            let mut out = vec![0.0; rows.len()];
            let new = features.view().slice(0, 1);
            let pass = |out: &mut [f64]| seconds(|| cpu.kernel_rows(&kernel, 1.0, new, &*rows, out)).0;
            (0..5).map(|_| pass(&mut out)).fold(f64::INFINITY, f64::min).to_string()
        }
        ["metric", metric, name, other, threads] => {
            metric_of(metric, &set(name)?[0].features, &set(other)?[0].features, threads.parse()?)?
        }
        ["bandwidth", bytes] => {
            let values = vec![1.0f32; bytes.parse::<usize>()? / 4];
            (0..5).map(|_| read(&values)).fold(f64::INFINITY, f64::min).to_string()
        }
        ["peak"] => (0..5).map(|_| peak()).fold(0.0, f64::max).to_string(),
        ["program", arms, start, count] => program(arms.parse()?, *start == "warm", count.parse()?)?.to_string(),
        ["session", name, policy, rounds, storage] => {
            let arms = set(name)?;
            let storage = if *storage == "half" { Storage::Half } else { Storage::Single };
            let settings = SessionSettings::default().policy(policy.parse()?).storage(storage);
            let loss = Objective::rke().with_bandwidth(28.0).prepare(Inputs::new().engine(Cpu::with_threads(1)))?;
            let mut session = Session::new(arms.names(), loss, &settings)?;
            let mut next = vec![0; arms.len()];
            let (time, done) = seconds(|| -> modelmix::Result<()> {
                for _ in 0..rounds.parse::<usize>().unwrap_or(0) {
                    let pull = session.ask()?;
                    let features = &arms[pull.index].features;
                    let row = next[pull.index] % features.len();
                    next[pull.index] += 1;
                    session.tell(pull.id, &features.select([row])?)?;
                }
                Ok(())
            });
            done?;
            time.to_string()
        }
        ["simulate", name, policies, rounds, seeds, threads] => {
            let arms = set(name)?;
            let threads: usize = threads.parse()?;
            let policies = policies.split(';').map(str::parse).collect::<modelmix::Result<_>>()?;
            let simulation =
                Simulation::default().policies(policies).rounds(rounds.parse()?).seeds(seeds.parse()?).threads(threads);
            let loss =
                Objective::rke().with_bandwidth(28.0).prepare(Inputs::new().engine(Cpu::with_threads(threads)))?;
            // The true K of all recorded samples is used to evaluate a simulation, and is not a part of its rounds.
            let (truth, _) = seconds(|| mixture::statistics(arms, &loss).map(|_| ()));
            let (time, report) = seconds(|| simulate(arms, &loss, &simulation).map(|_| ()));
            report?;
            format!("{time} {truth}")
        }
        ["memory"] => {
            let status = std::fs::read_to_string("/proc/self/status")?;
            let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
            (line.split_whitespace().nth(1).ok_or("no value")?.parse::<u64>()? * 1024).to_string()
        }
        _ => return Err(format!("cannot read {words:?}").into()),
    })
}

/// The sum of K̂ over all pairs of arms, like `offline` for the Gaussian kernel.
fn polynomial(arms: &RecordedArms, kernel: &modelmix::Kernel, cpu: &Engine) -> modelmix::Result<f64> {
    let sets: Vec<_> = arms.iter().map(|arm| arm.features.view()).collect();
    let sums = cpu.kernel_sums_among(kernel, &sets.iter().map(|&set| set.into()).collect::<Vec<_>>())?;
    let mut total = 0.0;
    for (x, sums) in sets.iter().zip(sums) {
        let own: f64 = x.iter().map(|row| kernel.of_self(row)).sum();
        total += own / (x.len() as f64).powi(2);
        for (y, sums) in sets.iter().zip(sums) {
            total += sums.iter().sum::<f64>() / (x.len() * y.len()) as f64;
        }
    }
    Ok(total)
}

/// Seconds to read all values once.
fn read(values: &[f32]) -> f64 {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn wide(values: &[f32]) -> [f32; 64] {
        sum(values)
    }
    #[inline(always)]
    fn sum(values: &[f32]) -> [f32; 64] {
        let mut sums = [0.0; 64];
        for chunk in values.as_chunks::<64>().0 {
            sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
        }
        sums
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return seconds(|| unsafe { wide(values) }).0;
    }
    seconds(|| sum(values)).0
}

/// Fused multiply-adds in registers, in flops per second: an upper bound for code on one core.
fn peak() -> f64 {
    const STEPS: usize = 4_000_000;
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn with_avx2() -> f32 {
        use std::arch::x86_64::*;
        let (factor, term) = (_mm256_set1_ps(0.999_9), _mm256_set1_ps(1e-6));
        let mut sums = [_mm256_set1_ps(1.0); 12];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, term);
            }
        }
        sums.iter().map(|&sum| _mm256_cvtss_f32(sum)).sum()
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn with_avx512() -> f32 {
        use std::arch::x86_64::*;
        let (factor, term) = (_mm512_set1_ps(0.999_9), _mm512_set1_ps(1e-6));
        let mut sums = [_mm512_set1_ps(1.0); 12];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, term);
            }
        }
        sums.iter().map(|&sum| _mm512_cvtss_f32(sum)).sum()
    }
    let mut best = f64::NAN;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has AVX2 and FMA.
        best = best.max((STEPS * 12 * 8 * 2) as f64 / seconds(|| unsafe { with_avx2() }).0);
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            best = best.max((STEPS * 12 * 16 * 2) as f64 / seconds(|| unsafe { with_avx512() }).0);
        }
    }
    best
}

/// Seconds per program, over a sequence that drifts like that of a session.
fn program(arms: usize, warm: bool, count: usize) -> Result<f64, Box<dyn Error>> {
    let mut random = Random::seeded(3);
    let points: Vec<Vec<f64>> = (0..arms).map(|_| (0..arms + 3).map(|_| random.unit() - 0.5).collect()).collect();
    let product = |at: usize| points[at / arms].iter().zip(&points[at % arms]).map(|(a, b)| a * b).sum::<f64>();
    let quadratic: Vec<f64> = (0..arms * arms).map(|at| 0.3 + product(at) / arms as f64).collect();
    let linear = |step: usize| (0..arms).map(|arm| ((step * 7 + arm * 13) % 17) as f64 * 1e-4).collect();
    let forms =
        (0..100).map(|step| Quadratic::new(quadratic.clone(), linear(step))).collect::<modelmix::Result<Vec<_>>>()?;
    let bounds = Bounds::simplex(arms);
    let mut solver = Solver::default();
    let (time, result) = seconds(|| -> modelmix::Result<f64> {
        let mut total = 0.0;
        for step in 0..count {
            if !warm {
                solver.forget();
            }
            total += solver.solve(&forms[step % forms.len()], &bounds)?.value;
        }
        Ok(total)
    });
    result?;
    Ok(time / count as f64)
}

/// The engine of a measurement.
fn cpu(name: &str, threads: usize) -> Result<Cpu, String> {
    let cpu = Cpu::with_threads(threads);
    let avx2 = || cpu.clone().with_instructions(Instructions::Avx2).ok_or("the processor has no AVX2");
    Ok(match name {
        "auto" => cpu,
        "exact" => cpu.with_precision(Precision::Exact),
        "avx2" => avx2()?,
        "avx2-exact" => avx2()?.with_precision(Precision::Exact),
        _ => return Err(format!("there is no engine {name}")),
    })
}

/// The largest relative errors of entries of K and of sums of rows, of those that are not negligible.
fn errors(found: &[Vec<Vec<f64>>], truth: &[Vec<Vec<f64>>]) -> (f64, f64) {
    let error = |found: f64, truth: f64| if truth > 1e-25 { (found / truth - 1.0).abs() } else { 0.0 };
    let (mut entry, mut row) = (0.0f64, 0.0f64);
    for (found, truth) in found.iter().flatten().zip(truth.iter().flatten()) {
        entry = entry.max(error(found.iter().sum(), truth.iter().sum()));
        row = found.iter().zip(truth).map(|(found, truth)| error(*found, *truth)).fold(row, f64::max);
    }
    (entry, row)
}

/// A metric as the score table computes it.
fn metric_of(metric: &str, samples: &Features, reference: &Features, threads: usize) -> Result<String, Box<dyn Error>> {
    let (double, cpu) = (Engine::new(Double::with_threads(threads)), Engine::new(Cpu::with_threads(threads)));
    let pool = Pool::of(samples);
    let (time, values) = seconds(|| -> modelmix::Result<Vec<f64>> {
        Ok(match metric {
            "prdc" => {
                let all = metrics::prdc(&pool, reference, &Neighbourhoods::default(), &double)?;
                vec![all.precision.value, all.recall.value, all.density.value, all.coverage.value]
            }
            "fid" => vec![metrics::fid(&pool, reference, &double)?],
            "kid" => {
                let kernel = metrics::kid_kernel(samples.width());
                let kid = metrics::kid(&pool, reference, &kernel, &KidSettings::default(), &cpu)?;
                vec![kid.value, kid.standard_error]
            }
            "vendi" => vec![metrics::vendi(&pool, &Kernel::Cosine { power: 1 }, 1.0, &double)?],
            "rke" => {
                let kernel = KernelSpec::Gaussian {
                    bandwidth: modelmix::objective::Bandwidth::Fixed((samples.width() as f64).sqrt()),
                };
                let settings = ScoreSettings::default().metrics(vec![Metric::Rke]).kernel(kernel);
                let table = Scorer::new(settings, &[samples], None, &cpu)?.score(&pool)?;
                vec![table[&Metric::Rke].value, table[&Metric::Rke].standard_error]
            }
            _ => {
                let kernel = Kernel::Gaussian { bandwidth: (samples.width() as f64).sqrt() };
                let modes = metrics::rke(&pool, &kernel, &double)?.modes;
                vec![modes.value, modes.standard_error]
            }
        })
    });
    let values: Vec<String> = values?.iter().map(f64::to_string).collect();
    Ok(format!("{time} {}", values.join(" ")))
}
