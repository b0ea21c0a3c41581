//! Kernel sums from products of 16-bit integers: exact enough wherever the engine uses them, and refused where they are not.

use modelmix::compute::{Cpu, Double, Engine, Instructions, Precision, Set};
use modelmix::{Features, Kernel};

use crate::conformance::data::Data;

/// Rows of several sets, and a bandwidth.
struct Case {
    name: &'static str,
    sets: Vec<Features>,
    bandwidth: f64,
}

/// Standard normal rows, changed by a function of set, row, column and value.
fn drawn(sets: usize, rows: usize, width: usize, of: impl Fn(usize, usize, usize, f32) -> f32) -> Vec<Features> {
    let set = |set: usize| {
        let normal = Data::Normal.rows(rows, width, 100 + set as u64);
        let values = normal.view().iter().enumerate().flat_map(|(row, values)| {
            values.iter().enumerate().map(|(column, &value)| of(set, row, column, value)).collect::<Vec<_>>()
        });
        Features::new(width, values.collect()).unwrap()
    };
    (0..sets).map(set).collect()
}

/// Normal rows, a tenth of which are near copies of one whose norm is not that of a probe. Errors of near copies
/// do not average out.
fn alike() -> Vec<Features> {
    let normal = drawn(2, 2000, 256, |_, _, _, value| value);
    let copied = |set: usize| {
        let square = |row: &&[f32]| row.iter().map(|value| f64::from(value * value)).sum::<f64>();
        let mut rows: Vec<&[f32]> = normal[set].view().iter().collect();
        rows.sort_by(|a, b| square(a).total_cmp(&square(b)));
        rows[rows.len() / 3].to_vec()
    };
    let copied: Vec<Vec<f32>> = (0..2).map(copied).collect();
    drawn(
        2,
        2000,
        256,
        |set, row, column, value| if row % 20 == 0 { copied[set][column] + 0.01 * value } else { value },
    )
}

/// A direction per set, of length about √width.
fn direction(set: usize, column: usize) -> f32 {
    (((set * 37 + 11) * (column * 29 + 7)) % 101) as f32 / 29.0 - 1.74
}

fn useful() -> Vec<Case> {
    let normal = |rows, width: usize| drawn(3, rows, width, |_, _, _, value| value);
    let case = |name, sets, bandwidth| Case { name, sets, bandwidth };
    vec![
        case("normal", normal(400, 256), 16.0 * 1.4),
        case("odd sizes", normal(317, 129), 16.0),
        case("several parts of columns", normal(250, 1025), 45.0),
        case("several steps of rows", drawn(1, 2500, 1025, |_, _, _, value| value), 45.0),
        case("several tasks", drawn(2, 2100, 40, |_, _, _, value| value), 9.0),
        case("an offset", drawn(3, 400, 256, |_, _, _, value| value + 30.0), 22.0),
        case("far clusters", drawn(3, 400, 256, |set, _, column, value| value + 50.0 * direction(set, column)), 22.0),
        case(
            "far clusters, all within a bandwidth",
            drawn(3, 400, 256, |set, _, column, value| value + 50.0 * direction(set, column)),
            1100.0,
        ),
        case("tiny values", drawn(3, 400, 256, |_, _, _, value| 1e-8 * value), 2.2e-7),
        case(
            "zeros",
            drawn(3, 400, 256, |_, row, column, value| if (row + column) % 3 == 0 { value } else { 0.0 }),
            13.0,
        ),
    ]
}

fn refused() -> Vec<Case> {
    let far = |share: usize, away: f32| {
        drawn(
            3,
            600,
            256,
            move |set, row, column, value| {
                if row % share == 0 { value + away * direction(set, column) } else { value }
            },
        )
    };
    vec![
        Case { name: "a small bandwidth", sets: drawn(3, 400, 256, |_, _, _, value| value), bandwidth: 1.5 },
        Case { name: "a tenth of every set far away", sets: far(10, 20.0), bandwidth: 22.0 },
        Case { name: "a twentieth of every set far away", sets: far(20, 20.0), bandwidth: 22.0 },
        Case { name: "a tenth of every set alike, with ordinary norms", sets: alike(), bandwidth: 9.0 },
    ]
}

fn sums(engine: &Engine, case: &Case) -> Vec<Vec<Vec<f64>>> {
    let sets: Vec<Set<'_>> = case.sets.iter().map(Set::from).collect();
    engine.kernel_sums_among(&Kernel::Gaussian { bandwidth: case.bandwidth }, &sets).unwrap()
}

/// The largest relative errors of entries and of sums of rows.
fn errors(found: &[Vec<Vec<f64>>], truth: &[Vec<Vec<f64>>]) -> (f64, f64) {
    let (mut entry, mut row) = (0.0f64, 0.0f64);
    for (found, truth) in found.iter().flatten().zip(truth.iter().flatten()) {
        let total = truth.iter().sum::<f64>();
        if total > 1e-25 {
            entry = entry.max((found.iter().sum::<f64>() / total - 1.0).abs());
        }
        let rows = found.iter().zip(truth).filter(|(_, truth)| **truth > 1e-25);
        row = rows.map(|(found, truth)| (found / truth - 1.0).abs()).fold(row, f64::max);
    }
    (entry, row)
}

/// Engines with products of integers, one per instruction set.
fn engines() -> impl Iterator<Item = Engine> {
    let engine = |instructions| Engine::new(Cpu::with_threads(2).with_instructions(instructions).unwrap());
    Instructions::available().into_iter().filter(|set| *set != Instructions::Portable).map(engine)
}

/// AVX-512 without VNNI has no fast products of integers.
fn has_integers(engine: &Engine) -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_vnni = is_x86_feature_detected!("avx512vnni");
    #[cfg(not(target_arch = "x86_64"))]
    let has_vnni = false;
    has_vnni || !engine.describe().contains("AVX-512")
}

#[test]
fn integers_are_used_where_they_are_exact_enough() {
    let double = Engine::new(Double::with_threads(2));
    for case in useful() {
        let truth = sums(&double, &case);
        for engine in engines().filter(has_integers) {
            let (entry, row) = errors(&sums(&engine, &case), &truth);
            assert!(engine.describe().starts_with("cpu, 16-bit products"), "{}: {}", case.name, engine.describe());
            assert!(entry <= 3e-7 && row <= 1e-5, "{}: {entry:e} {row:e}, {}", case.name, engine.describe());
        }
    }
}

#[test]
fn integers_are_refused_where_they_are_not() {
    let double = Engine::new(Double::with_threads(2));
    for case in refused() {
        let truth = sums(&double, &case);
        for engine in engines() {
            let (entry, row) = errors(&sums(&engine, &case), &truth);
            assert!(engine.describe().starts_with("cpu, single precision ("), "{}: {}", case.name, engine.describe());
            assert!(entry <= 1e-6 && row <= 1e-5, "{}: {entry:e} {row:e}, {}", case.name, engine.describe());
        }
    }
}

#[test]
fn integers_can_be_turned_off() {
    let case = &useful()[0];
    let cpu = Cpu::with_threads(2).with_precision(Precision::Exact);
    let (exact, auto) = (Engine::new(cpu), Engine::new(Cpu::with_threads(2)));
    let differs = sums(&exact, case) != sums(&auto, case);
    assert!(exact.describe().starts_with("cpu, single precision ("), "{}", exact.describe());
    assert_eq!(differs, auto.describe().starts_with("cpu, 16-bit products"));
}

#[test]
fn threads_change_no_bit_of_integer_sums() {
    for case in &useful()[..2] {
        let on = |threads| sums(&Engine::new(Cpu::with_threads(threads)), case);
        let engine = Engine::new(Cpu::with_threads(1));
        let one = sums(&engine, case);
        assert!(!has_integers(&engine) || engine.describe().contains("16-bit products"), "{}", case.name);
        assert!([2, 3, 16].into_iter().all(|threads| on(threads) == one), "{}", case.name);
    }
}

/// Cross sums, of sets of different sizes.
#[test]
fn two_sets_have_the_sums_of_their_rows() {
    let (x, y) = (Data::Normal.rows(731, 100, 1), Data::Normal.rows(215, 100, 2));
    let kernel = Kernel::Gaussian { bandwidth: 14.0 };
    let truth = Engine::new(Double::with_threads(2)).kernel_sums(&kernel, &x, &y).unwrap();
    for engine in engines().filter(has_integers) {
        let found = engine.kernel_sums(&kernel, &x, &y).unwrap();
        assert!(engine.describe().starts_with("cpu, 16-bit products"), "{}", engine.describe());
        let near = |found: &[f64], truth: &[f64]| found.iter().zip(truth).all(|(a, b)| (a / b - 1.0).abs() < 1e-5);
        assert!(near(&found.rows, &truth.rows) && near(&found.columns, &truth.columns));
    }
}
