//! `modelmix::metrics`: against the numbers of other tools, general properties, edge cases, and known truths.

mod edges;
mod fashion;
mod golden;
mod laws;
mod truth;

use modelmix::Features;
use modelmix::policy::Random;

/// Compares relative to the expected value.
fn relative(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected.abs();
    assert!(error <= tolerance, "{what} is {found}, expected {expected}, off by {error:e} relative");
}

fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// Rows around a centre, with the same standard deviation along every axis.
fn cloud(rows: usize, centre: &[f64], spread: f64, random: &mut Random) -> Features {
    let row = |_| centre.iter().map(|at| (at + spread * normal(random)) as f32).collect::<Vec<f32>>();
    Features::from_rows((0..rows).map(row)).unwrap()
}
