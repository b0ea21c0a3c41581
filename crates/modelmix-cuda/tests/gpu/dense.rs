//! Double precision over many rows: sums in strips, moments, products, subsets and decompositions, with cuBLAS and cuSOLVER and
//! without; and the same bits if memory is short.

use modelmix::compute::{Backend, Cpu, Double, Engine, Matrix, Run, Set, Subsets};
use modelmix::policy::Random;
use modelmix::{Error, Features, Kernel};
use modelmix_cuda::{Cuda, Options, Precision};

use super::parts::{kernels, normal, worst};
use super::{cuda, with};

/// An engine with cuBLAS and cuSOLVER, if they are installed, and one without.
fn engines() -> Vec<Cuda> {
    if cuda().is_none() {
        return Vec::new();
    }
    let of = |libraries| with(Options::default().precision(Precision::Double).libraries(libraries));
    vec![of(true), of(false)]
}

fn matrix(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut random = Random::seeded(seed);
    Matrix::from_fn(rows, columns, |_, _| random.normal())
}

/// The largest difference of two matrices.
fn apart(a: &Matrix, b: &Matrix) -> f64 {
    assert_eq!((a.rows(), a.columns()), (b.rows(), b.columns()));
    let column = |j| a.column(j).iter().zip(b.column(j)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    (0..a.columns()).map(column).fold(0.0, f64::max)
}

fn cpu() -> Engine {
    Engine::new(Cpu::new())
}

#[test]
fn t2_sums_in_strips_are_exact() {
    for cuda in engines() {
        let engine = Engine::new(cuda);
        // Two strips of one set, a set that is shorter than a block, and an empty one.
        let (x, y) = (normal(4700, 70, 1), normal(3000, 70, 2));
        let y = Features::from_rows((0..3000).map(|row| if row % 3 == 0 { x.row(row) } else { y.row(row) })).unwrap();
        for kernel in kernels(70) {
            let found = engine.kernel_sums_among(&kernel, &[(&x).into(), (&y).into()]).unwrap();
            let truth = Engine::new(Double::new()).kernel_sums_among(&kernel, &[(&x).into(), (&y).into()]).unwrap();
            for (found, truth) in found.iter().flatten().zip(truth.iter().flatten()) {
                let error = worst(found, truth, 1.0);
                assert!(error < 1e-11, "{kernel}: {error:e}");
            }
            let found = engine.kernel_sums(&kernel, &y, &x).unwrap();
            let truth = Engine::new(Double::new()).kernel_sums(&kernel, &y, &x).unwrap();
            let error = worst(&found.rows, &truth.rows, 1.0).max(worst(&found.columns, &truth.columns, 1.0));
            assert!(error < 1e-11, "{kernel}: {error:e}");
            assert!(found == engine.kernel_sums(&kernel, &y, &x).unwrap(), "the same bits in every call");
        }
    }
}

#[test]
fn t2_moments_of_many_rows() {
    for cuda in engines() {
        let engine = Engine::new(cuda);
        let x = normal(9001, 130, 3);
        let centre: Vec<f64> = (0..130).map(|column| 0.01 * f64::from(column)).collect();
        let weights: Vec<f64> = (0..9001).map(|row| 0.1 + f64::from(row % 7)).collect();
        assert!(worst(&engine.mean(&x).unwrap(), &cpu().mean(&x).unwrap(), 1.0) < 1e-14);
        for weights in [None, Some(&weights[..])] {
            let found = engine.scatter(&x, &centre, weights).unwrap();
            let truth = cpu().scatter(&x, &centre, weights).unwrap();
            assert!(apart(&found, &truth) < 1e-13 * truth.trace(), "{:e}", apart(&found, &truth));
            assert!((0..130).all(|i| (0..i).all(|j| found.at(i, j) == found.at(j, i))), "it is symmetric");
            assert!(found == engine.scatter(&x, &centre, weights).unwrap());
        }
        let directions = matrix(130, 90, 4);
        let own: Vec<f64> = (0..90).map(|direction| f64::from(direction) - 20.0).collect();
        let found = engine.projections(&x, &centre, &directions, &own).unwrap();
        let truth = cpu().projections(&x, &centre, &directions, &own).unwrap();
        assert!(worst(&found, &truth, 1e5) < 1e-13, "{:e}", worst(&found, &truth, 1e5));
    }
}

#[test]
fn t2_products_of_large_matrices() {
    for cuda in engines() {
        let engine = Engine::new(cuda);
        for (m, k, n) in [(1, 700, 1), (65, 3, 129), (700, 900, 530)] {
            let (a, b, a_turned, b_turned) = (matrix(m, k, 1), matrix(k, n, 2), matrix(k, m, 3), matrix(n, k, 4));
            let pairs = [
                (engine.product(&a, &b), cpu().product(&a, &b)),
                (engine.product(a_turned.transposed(), &b), cpu().product(a_turned.transposed(), &b)),
                (engine.product(&a, b_turned.transposed()), cpu().product(&a, b_turned.transposed())),
                (
                    engine.product(a_turned.transposed(), b_turned.transposed()),
                    cpu().product(a_turned.transposed(), b_turned.transposed()),
                ),
                (engine.product(&a, a.transposed()), cpu().product(&a, a.transposed())),
            ];
            for (found, truth) in pairs {
                let error = apart(&found.unwrap(), &truth.unwrap());
                assert!(error < 1e-13 * k as f64, "{m} × {k} × {n}: {error:e}");
            }
        }
    }
}

#[test]
fn t2_subsets_of_many_rows() {
    let mut random = Random::seeded(5);
    let mut lists = |rows: usize| -> Vec<Vec<usize>> { (0..7).map(|size| random.sample(rows, 150 * size)).collect() };
    let (x, y) = (normal(4500, 40, 1), normal(900, 40, 2));
    let (of_x, of_y) = (lists(4500), lists(900));
    let of_x: Vec<&[usize]> = of_x.iter().map(Vec::as_slice).collect();
    let of_y: Vec<&[usize]> = of_y.iter().map(Vec::as_slice).collect();
    for cuda in engines() {
        let engine = Engine::new(cuda);
        for kernel in kernels(40) {
            let (own, other) =
                (Subsets { rows: (&x).into(), subsets: &of_x }, Subsets { rows: (&y).into(), subsets: &of_y });
            for other in [None, Some(other)] {
                let found = engine.subset_sums(&kernel, own, other).unwrap();
                let truth = Engine::new(Double::new()).subset_sums(&kernel, own, other).unwrap();
                assert!(worst(&found, &truth, 100.0) < 1e-11, "{kernel}: {found:?} {truth:?}");
            }
        }
    }
}

#[test]
fn t3_decompositions() {
    for cuda in engines() {
        let engine = Engine::new(cuda);
        for size in [300, 601] {
            let factor = matrix(size, size, 6);
            let symmetric = cpu().product(&factor, factor.transposed()).unwrap();
            let (values, truth) = (engine.eigenvalues(&symmetric).unwrap(), cpu().eigenvalues(&symmetric).unwrap());
            let largest = truth[size - 1];
            assert!(worst(&values, &truth, largest) < 1e-13, "{:e}", worst(&values, &truth, largest));
            let eigen = engine.eigen(&symmetric).unwrap();
            assert!(worst(&eigen.values, &truth, largest) < 1e-13);
            let turned = cpu().product(&symmetric, &eigen.vectors).unwrap();
            let scaled =
                Matrix::from_fn(size, size, |row, column| eigen.vectors.at(row, column) * eigen.values[column]);
            assert!(apart(&turned, &scaled) < 1e-12 * largest, "{:e}", apart(&turned, &scaled) / largest);
            let lower = engine.factor(&symmetric).unwrap();
            let again = cpu().product(&lower, lower.transposed()).unwrap();
            assert!(apart(&again, &symmetric) < 1e-13 * largest);
            // A matrix of a lower rank has a factor with fewer columns.
            let thin = matrix(size, 200, 7);
            let singular = cpu().product(&thin, thin.transposed()).unwrap();
            let lower = engine.factor(&singular).unwrap();
            assert_eq!(lower.columns(), 200);
            assert!(apart(&cpu().product(&lower, lower.transposed()).unwrap(), &singular) < 1e-12 * largest);
        }
    }
}

/// Fused sums of more rows than fit: rows are read from memory of the host, and split rows are in memory for two strips at a
/// time. Cosines have normalised copies of the rows, and far clusters need centres of their own.
#[test]
fn t5_bits_of_fused_sums_do_not_depend_on_memory() {
    let Some(cuda) = cuda() else { return };
    // 40,000 and 30,000 rows of width 1024 take 287 MB, and split ones as much; partial sums take 134 MB.
    let small = with(Options::default().memory(480 << 20));
    let (x, y) = (normal(40_000, 1024, 1), normal(30_000, 1024, 2));
    let shifted = |x: &Features| {
        let of = |(index, &value): (usize, &f32)| if index / 1024 % 3 == 0 { value + 40.0 } else { value };
        Features::new(1024, x.values().iter().enumerate().map(of).collect()).unwrap()
    };
    let clusters = (shifted(&x), shifted(&y));
    let gaussian = Kernel::Gaussian { bandwidth: 45.0 };
    for ((x, y), kernel) in [(&(x, y), gaussian), (&clusters, gaussian), (&clusters, Kernel::Cosine { power: 2 })] {
        let all = |cuda: &Cuda| {
            let engine = Engine::new(cuda.clone());
            let sums = engine.kernel_sums_among(&kernel, &[Set::from(x), Set::from(y)]).unwrap();
            (sums, engine.kernel_sums(&kernel, x, y).unwrap())
        };
        assert!(all(cuda) == all(&small), "{kernel}");
    }
    // Less than that is enough for strips in double precision, and less than two of these an error that says how much is needed.
    let sums =
        |cuda: &Cuda| cuda.kernel_sums_among(&Run::default(), &gaussian, &[(&clusters.0).into(), (&clusters.1).into()]);
    let double = sums(&cuda.with_precision(Precision::Double)).unwrap();
    assert!(sums(&with(Options::default().memory(300 << 20))).unwrap() == double);
    match sums(&with(Options::default().memory(150 << 20))) {
        Err(Error::Memory { needed, .. }) => assert!(needed > 200 << 20 && needed < 240 << 20, "{needed}"),
        other => panic!("{:?}", other.map(drop)),
    }
}

/// Sets that do not fit are uploaded in pieces, and results have the same bits.
#[test]
fn t5_bits_do_not_depend_on_memory() {
    if cuda().is_none() {
        return;
    }
    let (x, y) = (normal(9000, 200, 1), normal(8500, 200, 2));
    let kernel = Kernel::Gaussian { bandwidth: 20.0 };
    for libraries in [true, false] {
        let options = Options::default().precision(Precision::Double).libraries(libraries);
        // Strips of 3008 rows take 89 MB, and 98 MB with both sets.
        let (large, small) = (with(options.clone()), with(options.clone().memory(90 << 20)));
        let all = |cuda: &Cuda| {
            let engine = Engine::new(cuda.clone());
            let sums = engine.kernel_sums_among(&kernel, &[Set::from(&x), Set::from(&y)]).unwrap();
            let between = engine.kernel_sums(&kernel, &x, &y).unwrap();
            let scatter = engine.scatter(&x, &[0.0; 200], None).unwrap();
            (sums, between, scatter, engine.mean(&y).unwrap())
        };
        assert!(all(&large) == all(&small), "libraries: {libraries}");
        // Less than two strips is an error that says how much is needed.
        let tiny = with(options.memory(20 << 20));
        match tiny.kernel_sums(&Run::default(), &kernel, (&x).into(), (&y).into()) {
            Err(Error::Memory { needed, free, .. }) => {
                assert!(needed > 80 << 20 && needed < 100 << 20 && free.is_some(), "{needed} {free:?}");
            }
            other => panic!("{:?}", other.map(drop)),
        }
        // The engine is usable afterwards.
        tiny.mean(&Run::default(), (&normal(10, 10, 1)).into()).unwrap();
    }
}
