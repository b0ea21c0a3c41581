//! Solves a mixture of many synthetic arms and prints its time and memory:
//! `cargo run --release --example many_arms -- [arms] [samples] [dimensions] [places] [no-intervals]`.
//! Each arm samples a few random places with noise, so arms overlap, and many have weight in the best mixture.

use std::time::Instant;

use modelmix::mixture::{SolveSettings, solve_with};
use modelmix::policy::Random;
use modelmix::{Error, Features, Inputs, Objective, RecordedArm, RecordedArms};

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (arms, samples, width, places) = (number(0, 500), number(1, 200), number(2, 64), number(3, 50));
    let intervals = !words.iter().any(|word| word == "no-intervals");
    let mut random = Random::seeded(1);
    let centres: Vec<Vec<f64>> = (0..places).map(|_| (0..width).map(|_| random.normal()).collect()).collect();
    let mut recorded = Vec::with_capacity(arms);
    for arm in 0..arms {
        let visits: Vec<f64> = (0..places).map(|_| random.unit().powi(6)).collect();
        let rows = (0..samples).map(|_| {
            let centre = &centres[random.pick(&visits)];
            centre.iter().map(|x| (x + 0.5 * random.normal()) as f32).collect::<Vec<f32>>()
        });
        recorded.push(RecordedArm::new(format!("arm {arm}"), Features::from_rows(rows)?));
    }
    let arms = RecordedArms::new(recorded)?;
    let loss = Objective::rke().with_bandwidth(4.0).prepare(Inputs::new().arms(&arms))?;
    let start = Instant::now();
    let best = solve_with(&arms, &loss, &SolveSettings::new().intervals(intervals))?;
    let used = best.arms.iter().filter(|arm| arm.weight > 0.0).count();
    let unsure =
        best.arms.iter().filter(|arm| arm.interval.is_some_and(|[low, high]| low == 0.0 && high > 0.0)).count();
    println!(
        "{:.1} s, peak {}; {used} of {} arms have a weight, {unsure} may or may not; gain {:.2e} in {:?}, p {:?}",
        start.elapsed().as_secs_f64(),
        peak(),
        best.arms.len(),
        best.gain,
        best.gain_interval,
        best.p_value,
    );
    Ok(())
}

/// The peak memory of the process, from Linux.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".into(), |size| size.trim().to_string())
}
