//! One part at a time, so that a failure says where it is. Names are numbered in the order of dependence.

use modelmix::compute::{Backend, Double, Engine, Reference, Resident, Run, Set, Storage};
use modelmix::policy::Random;
use modelmix::{Error, Features, Kernel};
use modelmix_cuda::{Cuda, Options, Precision, compile_all};

use super::conformance::data::magnitude;
use super::{cuda, tiers, with};

pub(super) fn normal(rows: usize, width: usize, seed: u64) -> Features {
    let mut random = Random::seeded(seed);
    Features::new(width, (0..rows * width).map(|_| random.normal() as f32).collect()).unwrap()
}

pub(super) fn kernels(width: usize) -> Vec<Kernel> {
    let bandwidth = (2.0 * width as f64).sqrt();
    vec![
        Kernel::Gaussian { bandwidth },
        Kernel::Gaussian { bandwidth }.squared(),
        Kernel::Polynomial { scale: 1.0 / width as f64, offset: 1.0, degree: 3 },
        Kernel::Cosine { power: 1 },
        Kernel::Cosine { power: 2 },
        Kernel::Laplacian { bandwidth },
    ]
}

/// The largest error of `found`, relative to the sum of absolute values.
pub(super) fn worst(found: &[f64], truth: &[f64], scale: f64) -> f64 {
    assert_eq!(found.len(), truth.len());
    found.iter().zip(truth).map(|(a, b)| (a - b).abs() / b.abs().max(scale)).fold(0.0, f64::max)
}

#[test]
fn t0_describes_itself() {
    if let Some(cuda) = cuda() {
        println!("{}", cuda.describe());
        assert!(cuda.describe().starts_with("cuda, "));
    }
}

#[test]
fn t0_modules_compile() {
    // Stored in the user's cache: the other tests need them. MODELMIX_CACHE may have been filled on another machine.
    match compile_all("sm_90a", Options::default().cache.as_deref()) {
        None => println!("skipped: the NVRTC library is not installed"),
        Some(modules) => println!("{} modules", modules.unwrap().len()),
    }
}

#[test]
fn t1_rows_come_back() {
    let Some(cuda) = cuda() else { return };
    for (rows, width) in [(1, 1), (3, 5), (1000, 33), (3001, 1024), (40_000, 64)] {
        let x = normal(rows, width, 1);
        let held = cuda.hold(&x).unwrap();
        assert!(held.read(0..rows).unwrap() == x.values(), "{rows} × {width}");
        assert_eq!(held.read(rows / 2..rows).unwrap(), &x.values()[rows / 2 * width..]);
    }
}

#[test]
fn t1_resident_sets_change() {
    let Some(cuda) = cuda() else { return };
    for storage in [Storage::Single, Storage::Half] {
        let mut set = cuda.empty(3, storage).unwrap();
        set.append(Features::from_rows([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]).unwrap().view()).unwrap();
        set.swap_remove(0).unwrap();
        assert_eq!(set.read(0..2).unwrap(), [7.0, 8.0, 9.0, 4.0, 5.0, 6.0]);
        set.retain(&[false, true]).unwrap();
        assert_eq!(set.read(0..1).unwrap(), [4.0, 5.0, 6.0]);
    }
}

#[test]
fn t2_double_sums_are_exact() {
    let Some(cuda) = cuda() else { return };
    let precise = cuda.with_precision(Precision::Double);
    for (rows, columns, width) in [(1, 1, 1), (65, 33, 3), (130, 1100, 40)] {
        let (x, y) = (normal(rows, width, 1), normal(columns, width, 2));
        for kernel in kernels(width) {
            let found = Engine::new(precise.clone()).kernel_sums(&kernel, &x, &y).unwrap();
            let truth = Engine::new(Reference).kernel_sums(&kernel, &x, &y).unwrap();
            let error = worst(&found.rows, &truth.rows, 1e-3).max(worst(&found.columns, &truth.columns, 1e-3));
            assert!(error < 1e-10, "{rows} × {columns} × {width}, {kernel}: {error:e}");
        }
    }
}

/// Many pairs in double precision, on tensor cores, among them equal rows.
#[test]
fn t2_many_double_sums_are_exact() {
    let Some(cuda) = cuda() else { return };
    let precise = Engine::new(cuda.with_precision(Precision::Double));
    let (x, more) = (normal(1100, 900, 1), normal(1100, 900, 2));
    let y = Features::from_rows((0..1100).map(|row| if row % 3 == 0 { x.row(row) } else { more.row(row) })).unwrap();
    for kernel in kernels(900) {
        let found = precise.kernel_sums(&kernel, &x, &y).unwrap();
        let truth = Engine::new(Double::new()).kernel_sums(&kernel, &x, &y).unwrap();
        let error = worst(&found.rows, &truth.rows, 1.0).max(worst(&found.columns, &truth.columns, 1.0));
        assert!(error < 1e-11, "{kernel}: {error:e}");
        let within = precise.kernel_sums_within(&kernel, &x).unwrap();
        let truth = Engine::new(Double::new()).kernel_sums_within(&kernel, &x).unwrap();
        assert!(worst(&within, &truth, 1.0) < 1e-11, "{kernel}: {:e}", worst(&within, &truth, 1.0));
    }
}

#[test]
fn t3_values_of_new_rows() {
    let Some(cuda) = cuda() else { return };
    for width in [1, 33, 64, 1024] {
        let held = normal(200, width, 2);
        let resident = cuda.hold(&held).unwrap();
        for count in [1, 4, 5, 70] {
            let x = normal(count, width, 3);
            for kernel in kernels(width) {
                let (mut found, mut truth) = (vec![0.5; count * 200], vec![0.5; count * 200]);
                Engine::new(cuda.clone()).kernel_rows(&kernel, 2.0, x.view(), &*resident, &mut found).unwrap();
                Engine::new(Reference).kernel_rows(&kernel, 2.0, x.view(), &held, &mut truth).unwrap();
                let error = worst(&found, &truth, 0.5);
                assert!(error < 1e-6, "{count} rows of width {width}, {kernel}: {error:e}");
            }
        }
    }
}

#[test]
fn t3_neighbours_and_balls() {
    let Some(cuda) = cuda() else { return };
    let x = normal(300, 20, 1);
    let (found, truth) = (Engine::new(cuda.clone()).neighbours(&x, 5), Engine::new(Reference).neighbours(&x, 5));
    let rows = |list: modelmix::Result<Vec<modelmix::compute::Neighbour>>| -> Vec<u32> {
        list.unwrap().iter().map(|neighbour| neighbour.row).collect()
    };
    assert_eq!(rows(found), rows(truth));
}

/// Searches with tensor cores find the same neighbours as all distances, to the last bit, on rows with ties, far clusters
/// and heavy tails too.
#[test]
fn t4_neighbours_with_tensor_cores_are_exact() {
    let Some(cuda) = cuda() else { return };
    let (fast, exact) = (cuda.with_precision(Precision::CheckedForAll), cuda);
    for (rows, width) in [(2, 1), (130, 3), (1000, 300), (3000, 64)] {
        let x = normal(rows, width, 7);
        for kind in ["normal", "offset", "grid", "clusters", "heavy tails"] {
            let of = |(index, &value): (usize, &f32)| match kind {
                "offset" => 1000.0 + value,
                "grid" => (2.0 * value).round(),
                "clusters" if (index / width) % 3 == 0 => value + 300.0,
                "heavy tails" => (3.0 * value).exp(),
                _ => value,
            };
            let values = x.values().iter().enumerate().map(of).collect();
            let x = Features::new(width, values).unwrap();
            for k in [1, 5, 8].into_iter().filter(|&k| k < rows) {
                let found = Engine::new(fast.clone()).neighbours(&x, k).unwrap();
                let truth = Engine::new(exact.clone()).neighbours(&x, k).unwrap();
                // 3000 × 3000 × 64 is below the work from which the default engine uses tensor cores.
                assert!(found == truth, "{kind} {rows} × {width}, k {k}");
            }
        }
    }
}

/// Fused sums of one pair of sets per kernel and tier. 600 rows have masked tiles, a diagonal and whole tiles. Errors are
/// relative to the magnitude that `Accuracy` defines: sums of cosines cancel.
#[test]
fn t4_fused_sums() {
    for cuda in tiers() {
        for width in [8, 64, 100, 1024] {
            let (x, y) = (normal(600, width, 1), normal(300, width, 2));
            for kernel in kernels(width) {
                let engine = Engine::new(cuda.clone());
                let found = engine.kernel_sums_among(&kernel, &[Set::from(&x), Set::from(&y)]).unwrap();
                let truth = Engine::new(Reference).kernel_sums_among(&kernel, &[Set::from(&x), Set::from(&y)]).unwrap();
                let mut most = 0.0f64;
                for (i, rows) in [&x, &y].into_iter().enumerate() {
                    for (j, columns) in [&x, &y].into_iter().enumerate() {
                        // Every seventh row: magnitudes take long, and all places of a tile are met.
                        for row in (0..rows.len()).step_by(7) {
                            let others = (0..columns.len()).filter(|&other| i != j || other != row);
                            let size = |other| magnitude(&kernel, rows.row(row), columns.row(other));
                            let size: f64 = others.map(size).sum();
                            most = most.max((found[i][j][row] - truth[i][j][row]).abs() / size);
                        }
                    }
                }
                println!("{}, width {width}, {kernel}: {most:.1e}", cuda.describe());
                assert!(most < 1e-6, "{}, width {width}, {kernel}: {most:e}", cuda.describe());
            }
        }
    }
}

/// Few rows through the fused kernels, the searches and the values of new rows: small enough for compute-sanitizer, whose
/// racecheck takes minutes for the other tests.
#[test]
fn t4_small_calls() {
    for cuda in tiers() {
        let (engine, reference) = (Engine::new(cuda.clone()), Engine::new(Reference));
        for width in [64, 100] {
            let (x, y) = (normal(300, width, 1), normal(70, width, 2));
            let kernel = Kernel::Gaussian { bandwidth: (2.0 * width as f64).sqrt() };
            let sets = [Set::from(&x), Set::from(&y)];
            let found = engine.kernel_sums_among(&kernel, &sets).unwrap();
            let truth = reference.kernel_sums_among(&kernel, &sets).unwrap();
            for (found, truth) in found.iter().flatten().zip(truth.iter().flatten()) {
                assert!(worst(found, truth, 1.0) < 1e-6, "{}, width {width}", cuda.describe());
            }
            for count in [1, 70] {
                let (mut found, mut truth) = (vec![0.0; count * 300], vec![0.0; count * 300]);
                let new = y.view().slice(0, count);
                engine.kernel_rows(&kernel, 1.0, new, &x, &mut found).unwrap();
                reference.kernel_rows(&kernel, 1.0, new, &x, &mut truth).unwrap();
                assert!(worst(&found, &truth, 0.1) < 1e-6, "{count} rows of width {width}");
            }
            let rows = |engine: &Engine| -> Vec<u32> {
                engine.neighbours(&x, 5).unwrap().iter().map(|neighbour| neighbour.row).collect()
            };
            assert_eq!(rows(&engine), rows(&reference), "width {width}");
        }
    }
}

#[test]
fn t5_too_little_memory_is_an_error() {
    let Some(cuda) = cuda() else { return };
    let small = with(Options::default().memory(1 << 20));
    let x = normal(3000, 1024, 1);
    match small.hold(&x) {
        Err(Error::Memory { needed, .. }) => assert_eq!(needed, 3000 * 1024 * 4),
        other => panic!("{other:?}"),
    }
    // The engine is usable afterwards, and so is another one.
    small.hold(&normal(10, 10, 1)).unwrap();
    cuda.hold(&x).unwrap();
}

#[test]
fn t5_callers_on_many_threads() {
    let Some(cuda) = cuda() else { return };
    let (x, kernel) = (normal(200, 32, 1), Kernel::Gaussian { bandwidth: 8.0 });
    let truth = cuda.kernel_sums(&Run::default(), &kernel, (&x).into(), (&x).into()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let held = cuda.hold(&x).unwrap();
                    let held: &dyn Resident = &*held;
                    let found = cuda.kernel_sums(&Run::default(), &kernel, held.into(), held.into()).unwrap();
                    assert!(found == truth);
                }
            });
        }
    });
}

#[test]
fn t5_devices_that_do_not_exist() {
    if cuda().is_some() {
        let reason = Cuda::open(Some(99), Options::default()).unwrap_err().to_string();
        assert!(reason.contains("there is no CUDA device 99"), "{reason}");
    }
}

/// Threads of callers keep the context that they had, here none.
#[test]
fn t5_the_context_of_the_caller_stays() {
    let Some(cuda) = cuda() else { return };
    let current = || cudarc::driver::result::ctx::get_current().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(current().is_none(), "a new thread has no context");
            let other = with(Options::default());
            let (x, kernel) = (normal(2000, 700, 1), Kernel::Gaussian { bandwidth: 30.0 });
            let held = other.hold(&x).unwrap();
            other.kernel_sums(&Run::default(), &kernel, (&x).into(), (&*held).into()).unwrap();
            other
                .eigenvalues(&Run::default(), &modelmix::compute::Matrix::from_fn(700, 700, |i, j| f64::from(i == j)))
                .unwrap();
            other.trim(0).unwrap();
            assert!(current().is_none() && !other.is_lost());
            drop(held);
            drop(other);
            assert!(current().is_none(), "nor after everything is dropped");
            cuda.hold(&x).unwrap();
            assert!(current().is_none());
        });
    });
}

/// Rows in pinned memory of the caller are copied before a call returns, although the device may read them directly.
#[test]
fn t5_rows_of_callers_may_change_after_a_call() {
    let Some(cuda) = cuda() else { return };
    use cudarc::driver::result;
    // Other work that the stream has to do first.
    let (x, kernel) = (normal(3000, 256, 1), Kernel::Gaussian { bandwidth: 20.0 });
    let (rows, width) = (500, 512);
    let mut device = std::mem::MaybeUninit::uninit();
    // SAFETY: the context of the first device is retained and made current; the memory has all values and is freed at the end.
    let values = unsafe {
        cudarc::driver::sys::cuDeviceGet(device.as_mut_ptr(), 0).result().unwrap();
        let context = result::primary_ctx::retain(device.assume_init()).unwrap();
        result::ctx::set_current(context).unwrap();
        let pinned = result::malloc_host(rows * width * size_of::<f32>(), 0).unwrap().cast::<f32>();
        std::slice::from_raw_parts_mut(pinned, rows * width)
    };
    for turn in 0..20 {
        values.fill(1.0 + turn as f32);
        let mut set = cuda.empty(width, Storage::Single).unwrap();
        for _ in 0..4 {
            set.append(modelmix::Rows::new(width, values)).unwrap();
        }
        values.fill(f32::NAN);
        assert!(set.read(0..4 * rows).unwrap().iter().all(|&value| value == 1.0 + turn as f32), "turn {turn}");
        cuda.kernel_sums(&Run::default(), &kernel, (&x).into(), (&x).into()).unwrap();
    }
    // SAFETY: freed once; no work uses it.
    unsafe {
        result::free_host(values.as_mut_ptr().cast()).unwrap();
        result::ctx::set_current(std::ptr::null_mut()).unwrap();
    }
}

/// More rows than slices of one tile of the check fit into a grid.
#[test]
fn t7_sums_over_millions_of_rows() {
    let Some(cuda) = cuda() else { return };
    let (x, y, kernel) = (normal(2_100_000, 16, 1), normal(20_000, 16, 2), Kernel::Gaussian { bandwidth: 5.0 });
    let sums = |cuda: &Cuda| cuda.kernel_sums(&Run::default(), &kernel, (&x).into(), (&y).into()).unwrap();
    let (found, truth) = (sums(cuda), sums(&cuda.with_precision(Precision::Double)));
    let error = worst(&found.rows, &truth.rows, 1.0).max(worst(&found.columns, &truth.columns, 1.0));
    println!("2,100,000 × 20,000 rows: {error:.1e}");
    assert!(error < 1e-6 && found != truth, "{error:e}");
}
