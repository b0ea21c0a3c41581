//! Accuracy of sums by default on large data of many kinds, compared with double precision: the table that is promised.

use modelmix::compute::{Engine, Set};
use modelmix::policy::Random;
use modelmix::{Features, Kernel};
use modelmix_cuda::Precision;

use super::cuda;

const ARMS: usize = 3;
const ROWS: usize = 3000;
/// 64 columns have both parts in half precision, more have small parts in 8 bits; 100 fill no whole step of tensor cores.
const WIDTHS: [usize; 5] = [64, 100, 768, 1024, 2048];

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

/// The sets of a kind, on threads.
fn arms(kind: &str, width: usize) -> Vec<Features> {
    let arm = |arm: usize| {
        let mut random = Random::seeded(arm as u64);
        let cells = (0..ROWS).flat_map(|row| (0..width).map(move |column| (row, column)));
        let values = cells.map(|(row, column)| value(kind, &mut random, arm, row, column) as f32).collect();
        Features::new(width, values).unwrap()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..ARMS).map(|index| scope.spawn(move || arm(index))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn t8_sums_are_accurate_on_every_kind_of_data() {
    let Some(cuda) = cuda() else { return };
    let (checked, precise) = (Engine::new(cuda.clone()), Engine::new(cuda.with_precision(Precision::Double)));
    let mut failures = Vec::new();
    for (width, (kind, entry_limit, row_limit)) in WIDTHS.into_iter().flat_map(|width| KINDS.map(|kind| (width, kind)))
    {
        let arms = arms(kind, width);
        let sets: Vec<Set<'_>> = arms.iter().map(Set::from).collect();
        let median = modelmix::objective::median_distance(&arms.iter().collect::<Vec<_>>(), 1).unwrap();
        let near = (2.0 * width as f64).sqrt();
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
                // With its sign: a bias has the same in all entries.
                let error = found.iter().sum::<f64>() / total - 1.0;
                entry = if error.abs() > entry.abs() { error } else { entry };
                // Rows far from all others have sums of almost nothing, down to zero in single precision.
                let least = 1e-3 * total / truth.len() as f64;
                for (found, truth) in found.iter().zip(truth) {
                    row = row.max((found - truth).abs() / truth.max(least));
                }
            }
            let line = format!("{width} columns, {kind}, {kernel}: entry {entry:+.1e}, row sum {row:.1e}");
            println!("{line}, {:.1} ms", took.as_secs_f64() * 1e3);
            if entry.abs() > entry_limit || row > row_limit {
                failures.push(line);
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
