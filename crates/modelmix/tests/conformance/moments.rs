//! Means, scatter matrices, projections, products and sums over subsets, all in double precision.

use modelmix::compute::{Engine, Matrix, Reference, Subsets};
use modelmix::policy::Random;
use modelmix::{Features, Kernel};

use super::check;
use super::data::{Data, magnitude};

/// A matrix of numbers between −½ and ½.
fn matrix(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut random = Random::seeded(seed);
    Matrix::from_fn(rows, columns, |_, _| random.unit() - 0.5)
}

fn weights(rows: usize) -> Vec<f64> {
    (0..rows).map(|row| 1.0 / (1 + row % 4) as f64).collect()
}

fn centre(x: &Features) -> Vec<f64> {
    x.row(0).iter().map(|&value| f64::from(value) + 0.5).collect()
}

pub(super) fn conform(engine: &Engine) {
    for (rows, width) in [(1, 1), (40, 7), (9000, 5), (70, 600), (20, 1100)] {
        let x = Data::Offset.rows(rows, width, 3);
        scatter_conforms(engine, &x);
        if rows < 9000 {
            projections_conform(engine, &x);
        }
    }
    for (rows, inner, columns) in [(1, 1, 1), (3, 40, 5), (70, 9, 600), (300, 300, 300)] {
        product_conforms(engine, rows, inner, columns);
    }
    for (rows, columns) in [(40, 30), (600, 270)] {
        subsets_conform(engine, &Data::Normal.rows(rows, 6, 1), &Data::Normal.rows(columns, 6, 2));
    }
    let (x, y) = (Data::Normal.rows(70, 33, 1), Data::Normal.rows(20, 33, 2));
    let truth = Engine::new(Reference).products(x.view(), &y).unwrap();
    let size = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from((a * b).abs())).sum::<f64>();
    let magnitudes: Vec<f64> =
        x.view().iter().flat_map(|a| y.view().iter().map(|b| size(a, b)).collect::<Vec<_>>()).collect();
    check(engine, "products", engine.accuracy().row_sum, &engine.products(x.view(), &y).unwrap(), &truth, &magnitudes);
}

/// Σ w (x − c)(x − c)ᵀ, as one piece, several pieces, and with the rows split; and the mean.
fn scatter_conforms(engine: &Engine, x: &Features) {
    let (rows, width, centre) = (x.len(), x.width(), centre(x));
    let mean = engine.mean(x).unwrap();
    for (column, mean) in mean.iter().enumerate() {
        let truth = (0..rows).map(|row| f64::from(x.row(row)[column])).sum::<f64>() / rows as f64;
        assert!((mean - truth).abs() <= 1e-13 * truth.abs(), "mean of {rows} × {width}: {mean} {truth}");
    }
    let own = weights(rows);
    for weights in [Some(&own[..]), None] {
        let found = engine.scatter(x, &centre, weights).unwrap();
        for (i, j) in [(0, 0), (width - 1, 0), (0, width - 1), (width / 2, width / 3), (width - 1, width - 1)] {
            let deviation = |row: usize, column: usize| f64::from(x.row(row)[column]) - centre[column];
            let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
            let truth: f64 = (0..rows).map(|row| weight(row) * deviation(row, i) * deviation(row, j)).sum();
            let size: f64 = (0..rows).map(|row| (deviation(row, i) * deviation(row, j)).abs()).sum();
            let found = found.at(i, j);
            assert!((found - truth).abs() <= 1e-13 * size, "scatter of {rows} × {width}, {i} {j}: {found} {truth}");
        }
    }
}

fn projections_conform(engine: &Engine, x: &Features) {
    let (width, centre) = (x.width(), centre(x));
    for columns in [1, width] {
        let directions = matrix(width, columns, 5);
        let own = weights(columns);
        let found = engine.projections(x, &centre, &directions, &own).unwrap();
        for (row, found) in x.view().iter().zip(found) {
            let along = |column: usize| -> (f64, f64) {
                let parts = row.iter().zip(&centre).zip(directions.column(column));
                let parts = parts.map(|((&value, centre), u)| (f64::from(value) - centre) * u);
                parts.fold((0.0, 0.0), |(sum, size), part| (sum + part, size + part.abs()))
            };
            let truth: f64 = (0..columns).map(|column| own[column] * along(column).0.powi(2)).sum();
            let size: f64 = (0..columns).map(|column| own[column] * along(column).1.powi(2)).sum();
            assert!((found - truth).abs() <= 1e-13 * size, "projections on {columns} of {width}: {found} {truth}");
        }
    }
}

fn product_conforms(engine: &Engine, rows: usize, inner: usize, columns: usize) {
    let (a, b) = (matrix(rows, inner, 1), matrix(inner, columns, 2));
    let turned = |matrix: &Matrix| Matrix::from_fn(matrix.columns(), matrix.rows(), |i, j| matrix.at(j, i));
    let (a_turned, b_turned) = (turned(&a), turned(&b));
    let products = [
        engine.product(&a, &b),
        engine.product(a_turned.transposed(), &b),
        engine.product(&a, b_turned.transposed()),
        engine.product(a_turned.transposed(), b_turned.transposed()),
    ];
    for product in products.map(Result::unwrap) {
        assert_eq!((product.rows(), product.columns()), (rows, columns));
        for (i, j) in [(0, 0), (rows - 1, columns / 2), (rows / 3, columns - 1)] {
            let truth: f64 = (0..inner).map(|k| a.at(i, k) * b.at(k, j)).sum();
            assert!((product.at(i, j) - truth).abs() <= 1e-13 * inner as f64, "{rows} × {inner} × {columns}");
        }
    }
}

/// Subsets that share rows, repeat one, and are empty: each pair by its definition. Few, which engines may evaluate
/// separately, and many that overlap.
fn subsets_conform(engine: &Engine, x: &Features, y: &Features) {
    let few = |rows: usize| vec![(0..rows).step_by(2).collect::<Vec<_>>(), vec![1, 1, rows - 1], vec![]];
    let many = |rows: usize| [few(rows), vec![(0..rows).collect(); 4]].concat();
    subset_sums_conform(engine, (x, few(x.len())), (y, few(y.len())));
    subset_sums_conform(engine, (x, many(x.len())), (y, many(y.len())));
}

fn subset_sums_conform(
    engine: &Engine,
    (x, of_x): (&Features, Vec<Vec<usize>>),
    (y, of_y): (&Features, Vec<Vec<usize>>),
) {
    let kernel = Kernel::Gaussian { bandwidth: 3.0 };
    let of_x: Vec<&[usize]> = of_x.iter().map(Vec::as_slice).collect();
    let of_y: Vec<&[usize]> = of_y.iter().map(Vec::as_slice).collect();
    let own = Subsets { rows: x.into(), subsets: &of_x };
    let other = Subsets { rows: y.into(), subsets: &of_y };
    let sums = |rows: &Features, subsets: &[&[usize]]| -> (Vec<f64>, Vec<f64>) {
        let pair = |&i: &usize, &j: &usize| {
            let (a, b) = (x.row(i), rows.row(j));
            let squared: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
            (kernel.of(squared), magnitude(&kernel, a, b))
        };
        let of = |(xs, ys): (&&[usize], &&[usize])| {
            let pairs = xs.iter().flat_map(|i| ys.iter().map(move |j| pair(i, j)));
            pairs.fold((0.0, 0.0), |(sum, size), (value, magnitude)| (sum + value, size + magnitude))
        };
        of_x.iter().zip(subsets).map(of).unzip()
    };
    let tolerance = engine.accuracy().row_sum;
    let (truth, sizes) = sums(x, &of_x);
    check(
        engine,
        "subsets with themselves",
        tolerance,
        &engine.subset_sums(&kernel, own, None).unwrap(),
        &truth,
        &sizes,
    );
    let (truth, sizes) = sums(y, &of_y);
    check(
        engine,
        "subsets of two sets",
        tolerance,
        &engine.subset_sums(&kernel, own, Some(other)).unwrap(),
        &truth,
        &sizes,
    );
}

/// The results that are compared between engines.
fn bits(engine: &Engine, x: &Features) -> (Matrix, Matrix, Vec<f64>, Vec<f64>) {
    let (width, centre, own) = (x.width(), centre(x), weights(x.len()));
    let directions = matrix(width, width, 7);
    let scatter = engine.scatter(x, &centre, Some(&own)).unwrap();
    let product = engine.product(&scatter, directions.transposed()).unwrap();
    let projections = engine.projections(x, &centre, &directions, &vec![0.3; width]).unwrap();
    let lists: Vec<Vec<usize>> = (1..5).map(|step| (0..x.len()).step_by(step).collect()).collect();
    let lists: Vec<&[usize]> = lists.iter().map(Vec::as_slice).collect();
    let subsets = Subsets { rows: x.into(), subsets: &lists };
    let sums = engine.subset_sums(&Kernel::Gaussian { bandwidth: 2.0 }, subsets, None).unwrap();
    (scatter, product, [projections, engine.mean(x).unwrap()].concat(), sums)
}

pub(super) fn same_bits(engines: &[Engine]) {
    for (rows, width) in [(1, 1), (5000, 9), (70, 600)] {
        let x = Data::Normal.rows(rows, width, 3);
        let expected = bits(&engines[0], &x);
        for engine in &engines[1..] {
            assert!(bits(engine, &x) == expected, "{}, {rows} × {width}", engine.describe());
        }
    }
}
