//! Measures a long session: the time per round and the memory, as JSON lines.
//!
//! `cargo run --release -p modelmix --example stream -- [rounds] [arms] [width] [held] [feature error]`

use std::time::Instant;

use modelmix::session::{Cap, Retention};
use modelmix::{Features, Inputs, Objective, Result, Session, SessionSettings};

/// A fast noise generator: xorshift, four uniform values per draw. The samples need not be normal.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, row: &mut [f32]) {
        for values in row.chunks_mut(4) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            for (lane, value) in values.iter_mut().enumerate() {
                // Variance 1.
                *value = (f32::from((self.0 >> (16 * lane)) as u16) / 32_768.0 - 1.0) * 1.732_050_8;
            }
        }
    }
}

/// A sample of an arm: uniform noise whose standard deviation is between 0.5 and 1, with a third of the columns
/// shifted, both by arm.
fn sample(noise: &mut Noise, arm: usize, arms: usize, width: usize) -> Vec<f32> {
    let mut row = vec![0.0; width];
    noise.fill(&mut row);
    let spread = 0.5 + 0.5 * arm as f32 / arms as f32;
    for (column, value) in row.iter_mut().enumerate() {
        let moved = if (column * 31 + arm * 17) % 3 == arm % 3 { 0.4 } else { 0.0 };
        *value = spread * *value + moved * ((arm % 5) as f32 - 2.0);
    }
    row
}

/// A line of /proc/self/status in MiB, if there is such a file.
fn mebibytes(key: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// Processor time so far in seconds, if there is such a file (its clock has 100 ticks per second on Linux).
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

fn main() -> Result<()> {
    let arguments: Vec<f64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let number = |place: usize, usual: f64| arguments.get(place).copied().unwrap_or(usual);
    let (rounds, arms, width) = (number(0, 1e6) as usize, number(1, 10.0) as usize, number(2, 768.0) as usize);
    let cap = Cap::default().hold(number(3, 1000.0) as usize).error(number(4, 0.02));
    // About the median distance between samples.
    let bandwidth = (2.0 * 0.7 * width as f64).sqrt();
    let loss = Objective::rke().with_bandwidth(bandwidth).prepare(Inputs::new().width(width))?;
    let settings = SessionSettings::default().retention(Retention::Capped(cap));
    let mut session = Session::new((0..arms).map(|arm| format!("arm{arm}")), loss, &settings)?;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let (mut drawing, mut begun, mut last) = (0.0, Instant::now(), 0);
    let mut processor = processor_seconds();
    let every = (rounds / 20).max(1);
    for round in 1..=rounds {
        let pull = session.ask()?;
        let start = Instant::now();
        let row = sample(&mut noise, pull.index, arms, width);
        drawing += start.elapsed().as_secs_f64();
        session.tell(pull.id, &Features::new(width, row)?)?;
        if round % every == 0 || round == 2 * cap.hold {
            let seconds = begun.elapsed().as_secs_f64() - drawing;
            let report = session.report()?;
            let spent = processor_seconds().zip(processor).map(|(now, then)| now - then);
            let line = serde_json::json!({
                "round": round,
                "microseconds_a_round": 1e6 * seconds / (round - last) as f64,
                "processor_microseconds_a_round": spent.map(|seconds| 1e6 * seconds / (round - last) as f64),
                "resident_mib": mebibytes("VmRSS"),
                "peak_mib": mebibytes("VmHWM"),
                "held": session.statistics().rows(),
                "score": report.mixture_loss.map(|loss| 1.0 / loss),
                "feature_error": report.feature_error,
            });
            println!("{line}");
            (drawing, begun, last) = (0.0, Instant::now(), round);
            processor = processor_seconds();
        }
    }
    Ok(())
}
