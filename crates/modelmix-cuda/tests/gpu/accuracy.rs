//! Accuracy of sums by default on large data of many kinds, compared with double precision: the table that is promised.

use modelmix::compute::{Engine, Set};
use modelmix::policy::Random;
use modelmix::{Features, Kernel};
use modelmix_cuda::Precision;

use super::cuda;

const ARMS: usize = 3;
const ROWS: usize = 3000;
const WIDTH: usize = 768;

/// Kinds of data, with the largest accepted errors of entries of K and of row sums.
const KINDS: [(&str, f64, f64); 7] = [
    ("normal", 1e-7, 3e-7),
    ("mean 30 × spread", 1e-7, 3e-7),
    ("clusters 50 apart", 1e-6, 1e-6),
    ("clusters 3 apart", 1e-6, 1e-6),
    ("small bandwidth", 1e-6, 1e-6),
    ("sparse, heavy tails", 1e-6, 1e-6),
    ("few far rows", 1e-6, 1e-6),
];

fn value(kind: &str, random: &mut Random, arm: usize, row: usize, column: usize) -> f64 {
    let normal = random.normal() * (1.0 + 0.05 * arm as f64) + 0.1 * ((1 + column * (1 + arm)) as f64).sin();
    let side = if (column * 7919).is_multiple_of(2) { 1.0 } else { -1.0 };
    let apart = |distance: f64, one_in: usize| {
        if row.is_multiple_of(one_in) { normal + side * distance } else { normal - side * distance }
    };
    match kind {
        "mean 30 × spread" => normal + 30.0,
        "clusters 50 apart" => apart(25.0 * 2f64.sqrt(), 3),
        "clusters 3 apart" => apart(1.5 * 2f64.sqrt(), 3),
        "few far rows" => apart(25.0 * 2f64.sqrt(), 500),
        "sparse, heavy tails" => random.normal().max(0.0) * (1.5 * random.normal()).exp(),
        _ => normal,
    }
}

#[test]
fn t8_sums_are_accurate_on_every_kind_of_data() {
    let Some(cuda) = cuda() else { return };
    let (checked, precise) = (Engine::new(cuda.clone()), Engine::new(cuda.with_precision(Precision::Double)));
    let mut failures = Vec::new();
    for (kind, entry_limit, row_limit) in KINDS {
        let arms: Vec<Features> = (0..ARMS)
            .map(|arm| {
                let mut random = Random::seeded(arm as u64);
                let cells = (0..ROWS).flat_map(|row| (0..WIDTH).map(move |column| (row, column)));
                let values = cells.map(|(row, column)| value(kind, &mut random, arm, row, column) as f32).collect();
                Features::new(WIDTH, values).unwrap()
            })
            .collect();
        let sets: Vec<Set<'_>> = arms.iter().map(Set::from).collect();
        let median = modelmix::objective::median_distance(&arms.iter().collect::<Vec<_>>(), 1).unwrap();
        let near = (2.0 * WIDTH as f64).sqrt();
        let bandwidth = match kind {
            "small bandwidth" => 0.2 * median,
            "clusters 50 apart" | "clusters 3 apart" | "few far rows" => near,
            _ => median,
        };
        for kernel in [Kernel::Gaussian { bandwidth }, Kernel::Gaussian { bandwidth }.squared()] {
            let start = std::time::Instant::now();
            let found = checked.kernel_sums_among(&kernel, &sets).unwrap();
            let took = start.elapsed();
            let truth = precise.kernel_sums_among(&kernel, &sets).unwrap();
            let (mut entry, mut row) = (0.0f64, 0.0f64);
            for (found, truth) in found.iter().flatten().zip(truth.iter().flatten()) {
                let total: f64 = truth.iter().sum();
                entry = entry.max((found.iter().sum::<f64>() / total - 1.0).abs());
                // Rows far from all others have sums of almost nothing, down to zero in single precision.
                let least = 1e-3 * total / truth.len() as f64;
                for (found, truth) in found.iter().zip(truth) {
                    row = row.max((found - truth).abs() / truth.max(least));
                }
            }
            println!("{kind}, {kernel}: entry {entry:.1e}, row sum {row:.1e}, {:.1} ms", took.as_secs_f64() * 1e3);
            if entry > entry_limit || row > row_limit {
                failures.push(format!("{kind}, {kernel}: entry {entry:e}, row sum {row:e}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
