//! Stopping and progress: a set token ends every method, and observers see every pair.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use modelmix::compute::{Balls, Engine, Matrix, Set, Stop, Subsets};
use modelmix::{Error, Kernel};

use super::data::Data;

pub(super) fn conform(engine: &Engine) {
    let (x, kernel) = (Data::Normal.rows(300, 5, 1), Kernel::Gaussian { bandwidth: 2.0 });
    let stop = Stop::new();
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let engine = engine.clone().stopped_by(stop.clone()).observed_by(move |pairs| {
        count.fetch_add(pairs, Ordering::SeqCst);
    });
    let before = engine.kernel_sums(&kernel, &x, &x).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 300 * 300, "an observer is told of every pair");
    stop.set();
    let (set, rows, radii) = (Set::from(&x), x.view(), vec![1.0; 300]);
    let balls = Balls { centres: set, squared_radii: &radii };
    let subsets = Subsets { rows: set, subsets: &[&[0, 1]] };
    let square = Matrix::zeros(5, 5);
    let mut out = vec![0.0; 300 * 300];
    let results: [(&str, modelmix::Result<()>); 14] = [
        ("kernel_sums", engine.kernel_sums(&kernel, set, set).map(drop)),
        ("kernel_sums_among", engine.kernel_sums_among(&kernel, &[set]).map(drop)),
        ("kernel_rows", engine.kernel_rows(&kernel, 1.0, rows, set, &mut out)),
        ("kernel_rows of one", engine.kernel_rows(&kernel, 1.0, rows.slice(0, 1), set, &mut out[..300])),
        ("products", engine.products(rows, set).map(drop)),
        ("distances", engine.distances(rows, set).map(drop)),
        ("neighbours", engine.neighbours(set, 3).map(drop)),
        ("ball_counts", engine.ball_counts(set, balls).map(drop)),
        ("overlaps", engine.overlaps(balls, &radii, balls).map(drop)),
        ("mean", engine.mean(set).map(drop)),
        ("scatter", engine.scatter(set, &[0.0; 5], None).map(drop)),
        ("projections", engine.projections(set, &[0.0; 5], &square, &[1.0; 5]).map(drop)),
        ("subset_sums", engine.subset_sums(&kernel, subsets, None).map(drop)),
        ("product", engine.product(&square, &square).map(drop)),
    ];
    for (method, result) in results {
        assert!(matches!(result, Err(Error::Stopped)), "{method}: {result:?}");
    }
    assert!(matches!(engine.check(), Err(Error::Stopped)));
    // A stopped call has no effect.
    assert_eq!(engine.unstoppable().kernel_sums(&kernel, set, set).unwrap(), before);
    assert_eq!(engine.clone().stopped_by(Stop::new()).kernel_sums(&kernel, set, set).unwrap(), before);
}
