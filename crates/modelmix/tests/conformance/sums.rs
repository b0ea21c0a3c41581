//! Sums and single values of kernels.

use modelmix::compute::{Engine, PairSums, Reference, Set};
use modelmix::objective::Geometry;
use modelmix::{Features, Kernel, Rows};

use super::data::{ALL_DATA, Data, SHAPES, magnitude};
use super::{UNDERFLOW, check};

fn reference() -> Engine {
    Engine::new(Reference)
}

/// Every kind of data, shape and kernel.
pub(super) fn conform(engines: &[Engine]) {
    for data in ALL_DATA {
        for (shape, &(rows, columns, width)) in SHAPES.iter().enumerate() {
            let (x, y) = (data.rows(rows, width, 2 * shape as u64), data.rows(columns, width, 2 * shape as u64 + 1));
            // The large shapes cost most and differ least: a few kernels each, all of them in turn.
            let large = rows * columns * width > 100_000;
            for (index, kernel) in data.kernels(width).iter().enumerate() {
                if large && index % 4 != shape % 4 {
                    continue;
                }
                pairs_conform(engines, data, kernel, x.view(), y.view());
                within_conform(engines, data, kernel, if rows < columns { y.view() } else { x.view() });
            }
        }
    }
}

/// One shape of data far from the origin.
pub(super) fn little_conforms(engine: &Engine) {
    let engines = std::slice::from_ref(engine);
    let x = Data::Offset.rows(7, 5, 1);
    for kernel in Data::Offset.kernels(5) {
        pairs_conform(engines, Data::Offset, &kernel, x.view(), x.view());
        within_conform(engines, Data::Offset, &kernel, x.view());
    }
}

fn pairs_conform(engines: &[Engine], data: Data, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) {
    let what = format!("{data:?} {} × {} of width {}, {kernel}", x.len(), y.len(), x.width());
    let truth = reference().kernel_sums(kernel, x, y).unwrap();
    let mut magnitudes = PairSums { rows: vec![0.0; x.len()], columns: vec![0.0; y.len()] };
    for (i, a) in x.iter().enumerate() {
        for (j, b) in y.iter().enumerate() {
            let magnitude = magnitude(kernel, a, b);
            magnitudes.rows[i] += magnitude;
            magnitudes.columns[j] += magnitude;
        }
    }
    for engine in engines {
        let (tolerance, found) = (engine.accuracy().row_sum, engine.kernel_sums(kernel, x, y).unwrap());
        check(engine, &format!("rows of {what}"), tolerance, &found.rows, &truth.rows, &magnitudes.rows);
        check(engine, &format!("columns of {what}"), tolerance, &found.columns, &truth.columns, &magnitudes.columns);
    }

    // Few rows against all, and many: both are added to the existing values.
    for count in [1, 3, 9].map(|count: usize| count.min(x.len())) {
        let (start, weight, new) = (0.25, -1.5, x.slice(0, count));
        let mut truth = vec![start; count * y.len()];
        reference().kernel_rows(kernel, weight, new, y, &mut truth).unwrap();
        let pairs = new.iter().flat_map(|a| y.iter().map(move |b| (a, b)));
        let magnitudes: Vec<f64> = pairs.map(|(a, b)| start + weight.abs() * magnitude(kernel, a, b)).collect();
        for engine in engines {
            let mut found = vec![start; count * y.len()];
            engine.kernel_rows(kernel, weight, new, y, &mut found).unwrap();
            let what = format!("{count} kernel_rows of {what}");
            check(engine, &what, engine.accuracy().row_sum, &found, &truth, &magnitudes);
        }
    }
}

fn within_conform(engines: &[Engine], data: Data, kernel: &Kernel, x: Rows<'_>) {
    let what = format!("within {data:?} {} of width {}, {kernel}", x.len(), x.width());
    let others = |i: usize| (0..x.len()).filter(move |&j| j != i);
    let magnitudes: Vec<f64> =
        (0..x.len()).map(|i| others(i).map(|j| magnitude(kernel, x.row(i), x.row(j))).sum()).collect();
    let truth = reference().kernel_sums_within(kernel, x).unwrap();
    for engine in engines {
        let found = engine.kernel_sums_within(kernel, x).unwrap();
        check(engine, &what, engine.accuracy().row_sum, &found, &truth, &magnitudes);
    }
}

/// All pairs among several sets equal those of each two of them, and those within each; many rows against all equal
/// their values.
pub(super) fn among_conform(engines: &[Engine]) {
    for width in [3, 40] {
        let sets = [70, 1, 300, 130].map(|rows| Data::Normal.rows(rows, width, rows as u64));
        let views = sets.each_ref().map(Features::view);
        for kernel in Data::Normal.kernels(width) {
            let sums = |engine: &Engine| engine.kernel_sums_among(&kernel, &views.map(Set::from)).unwrap();
            let found: Vec<_> = engines.iter().map(sums).collect();
            for (i, x) in views.iter().enumerate() {
                for (j, y) in views.iter().enumerate() {
                    let truth = if i == j {
                        reference().kernel_sums_within(&kernel, *x).unwrap()
                    } else {
                        reference().kernel_sums(&kernel, *x, *y).unwrap().rows
                    };
                    let magnitudes: Vec<f64> =
                        x.iter().map(|a| y.iter().map(|b| magnitude(&kernel, a, b)).sum()).collect();
                    let what = format!("set {i} to set {j} of width {width}, {kernel}");
                    for (engine, found) in engines.iter().zip(&found) {
                        check(engine, &what, engine.accuracy().row_sum, &found[i][j], &truth, &magnitudes);
                    }
                }
            }
            let (x, y) = (views[2], views[0]);
            let mut truth = vec![0.0; x.len() * y.len()];
            reference().kernel_rows(&kernel, 1.0, x, y, &mut truth).unwrap();
            let magnitudes: Vec<f64> =
                x.iter().flat_map(|a| y.iter().map(|b| magnitude(&kernel, a, b)).collect::<Vec<_>>()).collect();
            for engine in engines {
                let mut found = vec![0.0; x.len() * y.len()];
                engine.kernel_rows(&kernel, 1.0, x, y, &mut found).unwrap();
                let what = format!("all values of width {width}, {kernel}");
                check(engine, &what, engine.accuracy().row_sum, &found, &truth, &magnitudes);
            }
        }
    }
}

/// Users see means over all pairs of two arms: each must be within the stated error of the truth, on data that breaks
/// shortcuts, including arms that repeat one sample.
pub(super) fn entries_conform(engines: &[Engine]) {
    for data in [Data::Normal, Data::Offset, Data::Clusters, Data::Duplicated] {
        for width in [24, 520] {
            let mut sets: Vec<Features> = (0..2).map(|seed| data.rows(260, width, seed)).collect();
            // An arm that always returns the same sample, long enough for many tiles of equal values.
            let one = data.rows(1, width, 9);
            sets.push(Features::from_rows((0..600).map(|_| one.row(0))).unwrap());
            let views: Vec<Rows<'_>> = sets.iter().map(Features::view).collect();
            let bandwidth = data.spread(width);
            let kernels = [
                Kernel::Gaussian { bandwidth },
                Kernel::Gaussian { bandwidth: bandwidth / 3.0 },
                Kernel::Laplacian { bandwidth },
                Kernel::Polynomial { scale: 1.0 / width as f64, offset: 1.0, degree: 3 },
            ];
            for kernel in kernels {
                // Products of clusters on opposite sides cancel: no sum of them is accurate in single precision.
                if data == Data::Clusters && kernel.geometry() == Geometry::Product {
                    continue;
                }
                let truth = truth_among(&kernel, &views);
                let set: Vec<Set<'_>> = views.iter().map(|&rows| rows.into()).collect();
                for engine in engines {
                    let found = engine.kernel_sums_among(&kernel, &set).unwrap();
                    for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                        let found = found[i][j].iter().sum::<f64>() / (views[i].len() * views[j].len()) as f64;
                        let truth = truth[i][j];
                        assert!(
                            (found - truth).abs() <= engine.accuracy().entry * truth.abs() + UNDERFLOW,
                            "{}, {data:?}, width {width}, {kernel}: K[{i}][{j}] is {found:e}, expected {truth:e}, off by {:e}",
                            engine.describe(),
                            (found - truth).abs() / truth.abs()
                        );
                    }
                }
            }
        }
    }
}

/// The same means in double precision; a repeated row is evaluated once.
fn truth_among(kernel: &Kernel, views: &[Rows<'_>]) -> Vec<Vec<f64>> {
    let last = views.len() - 1;
    let short: Vec<Rows<'_>> =
        views.iter().enumerate().map(|(i, rows)| if i == last { rows.slice(0, 1) } else { *rows }).collect();
    let entry = |i: usize, j: usize| {
        let (n, m) = (views[i].len() as f64, views[j].len() as f64);
        let pairs = if i == j {
            reference().kernel_sums_within(kernel, short[i]).unwrap()
        } else {
            reference().kernel_sums(kernel, short[i], short[j]).unwrap().rows
        };
        let sum: f64 = pairs.iter().sum();
        match (i == last, j == last) {
            (true, true) => kernel.of_self(short[i].row(0)) * n * (n - 1.0) / (n * m),
            (true, false) => sum * n / (n * m),
            (false, true) => sum * m / (n * m),
            (false, false) => sum / (n * m),
        }
    };
    (0..views.len()).map(|i| (0..views.len()).map(|j| entry(i, j)).collect()).collect()
}

/// Features are any finite 32-bit floats, but the square of a value beyond 1e±18 is not a 32-bit float.
pub(super) fn extreme_scales_conform(engines: &[Engine]) {
    for scale in [1e-24f32, 1e24] {
        let x = Features::from_rows([[scale], [2.0 * scale], [3.0 * scale]]).unwrap();
        for kernel in [Kernel::Gaussian { bandwidth: f64::from(scale) }, Kernel::Cosine { power: 1 }] {
            pairs_conform(engines, Data::Normal, &kernel, x.view(), x.view());
        }
    }
}

pub(super) fn empty_sides_conform(engine: &Engine) {
    let x = Data::Normal.rows(3, 2, 1);
    let (x, none) = (x.view(), x.view().slice(0, 0));
    let kernel = Kernel::Cosine { power: 1 };
    let sums = |x: Rows<'_>, y: Rows<'_>| engine.kernel_sums(&kernel, x, y).unwrap();
    assert_eq!(sums(none, x), PairSums { rows: vec![], columns: vec![0.0; 3] });
    assert_eq!(sums(x, none), PairSums { rows: vec![0.0; 3], columns: vec![] });
    assert!(engine.kernel_sums_within(&kernel, none).unwrap().is_empty());
    engine.kernel_rows(&kernel, 1.0, x, none, &mut []).unwrap();
    engine.kernel_rows(&kernel, 1.0, none, x, &mut []).unwrap();
    assert!(engine.products(x, none).unwrap().is_empty() && engine.distances(none, x).unwrap().is_empty());
}

/// All results of an engine for two sets, as bits.
fn bits(engine: &Engine, kernel: &Kernel, x: &Features, y: &Features) -> Vec<u64> {
    let PairSums { rows, columns } = engine.kernel_sums(kernel, x, y).unwrap();
    let within = engine.kernel_sums_within(kernel, x).unwrap();
    let among = engine.kernel_sums_among(kernel, &[x.into(), y.into()]).unwrap().concat().concat();
    let mut row = vec![0.0; x.len() * y.len()];
    engine.kernel_rows(kernel, 0.7, x.view(), y, &mut row).unwrap();
    let products = engine.products(x.view(), y).unwrap();
    [rows, columns, within, among, row, products].concat().into_iter().map(f64::to_bits).collect()
}

pub(super) fn same_bits(engines: &[Engine]) {
    for (rows, columns, width) in [(1, 1, 1), (257, 600, 17), (600, 255, 8), (2100, 300, 3)] {
        let (x, y) = (Data::Normal.rows(rows, width, 1), Data::Normal.rows(columns, width, 2));
        for kernel in Data::Normal.kernels(width).into_iter().step_by(3) {
            let expected = bits(&engines[0], &kernel, &x, &y);
            for engine in &engines[1..] {
                let what = format!("{}, {rows} × {columns} of width {width}, {kernel}", engine.describe());
                assert!(bits(engine, &kernel, &x, &y) == expected, "{what}");
            }
        }
    }
    let sets: Vec<Features> = (0..8).map(|seed| Data::Normal.rows(400, 9, seed)).collect();
    let sets: Vec<Set<'_>> = sets.iter().map(Set::from).collect();
    let kernel = Kernel::Gaussian { bandwidth: 4.0 };
    let expected = engines[0].kernel_sums_among(&kernel, &sets).unwrap();
    for engine in &engines[1..] {
        assert!(engine.kernel_sums_among(&kernel, &sets).unwrap() == expected, "{}", engine.describe());
    }
}
