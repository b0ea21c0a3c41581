//! Runs the conformance suite for every compute engine of this crate, and tests specific to the processor's engine.

use modelmix::compute::{
    Cpu, Double, Engine, HostRows, Instructions, Matrix, Precision, Reference, Resident, Set, Storage,
};
use modelmix::{Error, Features, Kernel, Rows};

use crate::conformance::data::Data;
use crate::conformance::{conforms, conforms_on_little, same_bits};

#[test]
fn engines_conform() {
    let cpu = |instructions| Cpu::with_threads(2).with_instructions(instructions).unwrap();
    let exact = |instructions| Engine::new(cpu(instructions).with_precision(Precision::Exact));
    let double = Engine::new(Double::with_threads(2));
    assert!(double.accuracy().row_sum <= 1e-11);
    let auto = Engine::new(Cpu::with_threads(2));
    let engines: Vec<Engine> = Instructions::available().into_iter().map(exact).chain([auto, double]).collect();
    conforms(&engines);
}

/// A check of the suite itself, on little data because the reference is slow.
#[test]
fn reference_conforms_to_itself() {
    conforms_on_little(&Engine::new(Reference));
}

/// A number of threads beyond what systems can start is limited.
#[test]
fn threads_have_a_limit() {
    let (one, all) = (Engine::new(Cpu::with_threads(1)), Cpu::with_threads(usize::MAX));
    assert_eq!((all.threads(), Cpu::with_threads(0).threads()), (1024, 1));
    let rows = Features::from_rows((0..50).map(|row| [row as f32, 1.0])).unwrap();
    let kernel = Kernel::Gaussian { bandwidth: 3.0 };
    let sums = |engine: &Engine| engine.kernel_sums(&kernel, &rows, &rows).unwrap();
    assert_eq!(sums(&Engine::new(all)), sums(&one));
    let double = Engine::new(Double::with_threads(usize::MAX));
    assert_eq!(sums(&double), sums(&Engine::new(Double::with_threads(1))));
}

#[test]
fn threads_change_no_bit() {
    let threads = [1, 2, 3, 16];
    same_bits(&threads.map(|threads| Engine::new(Cpu::with_threads(threads))));
    same_bits(&threads.map(|threads| Engine::new(Double::with_threads(threads))));
    same_bits(&[Engine::new(Cpu::with_threads(4)), Engine::new(Cpu::with_threads(4)).for_concurrent_callers()]);
}

/// Engines describe themselves, and derived engines use the same device.
#[test]
fn engines_say_what_they_are() {
    let described = |engine: &Engine| engine.describe();
    let portable = Cpu::with_threads(3).with_instructions(Instructions::Portable).unwrap();
    let engine = Engine::new(portable);
    assert_eq!(described(&engine), "cpu, single precision (portable, 3 threads)");
    assert_eq!(described(&engine.for_concurrent_callers()), "cpu, single precision (portable, 1 thread)");
    assert_eq!(described(&engine.precise()), "cpu, double precision (3 threads)");
    assert_eq!(described(&engine.precise().precise()), described(&engine.precise()));
    let rows = Features::new(1, vec![1.0, 2.0, 4.0]).unwrap();
    let kernel = Kernel::Gaussian { bandwidth: 1.0 };
    engine.precise().kernel_sums_among(&kernel, &[Set::from(&rows)]).unwrap();
    assert_eq!(described(&engine), "cpu, double precision (portable, 3 threads)");
    engine.kernel_sums_among(&kernel, &[Set::from(&rows)]).unwrap();
    assert_eq!(described(&engine), "cpu, single and double precision (portable, 3 threads)");
    assert!(described(&Engine::new(Reference)).contains("reference"));
    assert!(engine.precise().accuracy().row_sum < engine.accuracy().row_sum);
    assert_eq!((Cpu::with_threads(0).threads(), Cpu::with_threads(3).threads()), (1, 3));
}

/// Tasks of the engine in double precision that are longer than one block: rows of every block against plain loops.
#[test]
fn double_precision_sums_over_long_tasks() {
    let rows = Data::Normal.rows(6000, 2, 11);
    let engine = Engine::new(Double::with_threads(2));
    for kernel in [Kernel::Gaussian { bandwidth: 1.5 }, Kernel::Laplacian { bandwidth: 0.7 }] {
        let sums = engine.kernel_sums_among(&kernel, &[(&rows).into()]).unwrap();
        for row in (0..6000).step_by(171) {
            let pair = |other: usize| {
                let pairs = rows.row(row).iter().zip(rows.row(other));
                kernel.of(pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum())
            };
            let expected: f64 = (0..6000).filter(|&other| other != row).map(pair).sum();
            let found = sums[0][0][row];
            assert!((found - expected).abs() < 1e-11 * expected, "{kernel:?}, row {row}: {found}, not {expected}");
        }
    }
}

/// Gigabytes of features are held without a copy.
#[test]
fn held_features_share_their_memory() {
    let features = Data::Normal.rows(10, 4, 1);
    for engine in [Engine::new(Cpu::new()), Engine::new(Double::new()), Engine::new(Reference)] {
        let held = engine.hold(&features).unwrap();
        let Some(HostRows::Single(rows)) = held.host() else { panic!("not in host memory") };
        assert_eq!(rows.values().as_ptr(), features.values().as_ptr());
        assert_eq!(Set::from(&*held).rows().unwrap().view().values().as_ptr(), features.values().as_ptr());
    }
}

/// A set of another engine, in memory that this one cannot access, is read back.
#[test]
fn a_set_from_elsewhere_is_read_back() {
    #[derive(Debug)]
    struct Elsewhere(Features);

    impl Resident for Elsewhere {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn width(&self) -> usize {
            self.0.width()
        }

        fn storage(&self) -> Storage {
            Storage::Single
        }

        fn append(&mut self, _: Rows<'_>) -> modelmix::Result<()> {
            Err(Error::Memory { what: "a row".into(), place: "a device".into(), needed: 40, free: Some(8) })
        }

        fn swap_remove(&mut self, _: usize) -> modelmix::Result<()> {
            Err(Error::Device { device: "a device".into(), problem: "it was unplugged".into() })
        }

        fn retain(&mut self, _: &[bool]) -> modelmix::Result<()> {
            Ok(())
        }

        fn read(&self, rows: std::ops::Range<usize>) -> modelmix::Result<Vec<f32>> {
            Ok(self.0.view().slice(rows.start, rows.end).values().to_vec())
        }

        fn duplicate(&self) -> modelmix::Result<Box<dyn Resident>> {
            Ok(Box::new(Elsewhere(self.0.clone())))
        }

        fn host(&self) -> Option<HostRows<'_>> {
            None
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let (x, kernel) = (Data::Normal.rows(40, 3, 1), Kernel::Gaussian { bandwidth: 1.0 });
    let mut elsewhere = Elsewhere(x.clone());
    for engine in [Engine::new(Cpu::new()), Engine::new(Double::new()), Engine::new(Reference)] {
        let found = engine.kernel_sums(&kernel, &elsewhere as &dyn Resident, &x).unwrap();
        assert_eq!(found, engine.kernel_sums(&kernel, &x, &x).unwrap());
    }
    // Errors of a device have a message.
    let sentence = elsewhere.append(x.view()).unwrap_err().to_string();
    assert!(sentence.contains("a row needs 40 bytes of a device, and 8 are free"), "{sentence}");
    let sentence = elsewhere.swap_remove(0).unwrap_err().to_string();
    assert!(sentence.contains("a device failed: it was unplugged"), "{sentence}");
}

/// L·Lᵀ equals the matrix, and the number of columns of L is its rank.
#[test]
fn factors_of_singular_matrices() {
    let engine = Engine::new(Cpu::with_threads(2));
    for (rows, width) in [(50, 7), (4, 9), (1, 5), (130, 130), (90, 300)] {
        let x = Data::Normal.rows(rows, width, 5);
        let matrix = engine.scatter(&x, &vec![0.0; width], None).unwrap();
        let factor = matrix.factor();
        assert_eq!(factor.columns(), rows.min(width), "{rows} × {width}");
        let again = engine.product(&factor, factor.transposed()).unwrap();
        let largest = (0..width).map(|index| matrix.at(index, index)).fold(0.0, f64::max);
        for (i, j) in (0..width).flat_map(|i| (0..width).map(move |j| (i, j))) {
            assert!((again.at(i, j) - matrix.at(i, j)).abs() <= 1e-12 * largest, "{rows} × {width}: {i} {j}");
        }
    }
    assert_eq!(Matrix::zeros(3, 3).factor().columns(), 0);
}
