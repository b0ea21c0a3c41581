//! Resident sets: rows that were appended, removed and read back are the same to the last bit.

use modelmix::compute::{Balls, Engine, Resident, Set, Storage};
use modelmix::policy::Random;
use modelmix::{Features, Kernel, Rows};

use super::check;
use super::data::{Data, magnitude};

pub(super) fn conform(engine: &Engine) {
    for storage in [Storage::Single, Storage::Half] {
        for width in [1, 16, 33] {
            changes_conform(engine, storage, width);
        }
    }
    held_conforms(engine);
    halves_conform(engine);
}

/// The same changes to a resident set and to plain rows.
fn changes_conform(engine: &Engine, storage: Storage, width: usize) {
    let mut random = Random::seeded(width as u64);
    let mut set = engine.empty(width, storage).unwrap();
    let mut rows: Vec<Vec<f32>> = Vec::new();
    assert!(set.is_empty() && set.width() == width && set.storage() == storage);
    for step in 0..60u64 {
        match random.below(8) {
            0..5 => {
                let more = rounded(Data::Normal.rows(1 + random.below(9), width, step), storage);
                set.append(more.view()).unwrap();
                rows.extend(more.view().iter().map(<[f32]>::to_vec));
            }
            5 | 6 if !rows.is_empty() => {
                let row = random.below(rows.len());
                set.swap_remove(row).unwrap();
                rows.swap_remove(row);
            }
            _ => {
                let keep: Vec<bool> = rows.iter().map(|_| random.unit() < 0.8).collect();
                set.retain(&keep).unwrap();
                let mut keep = keep.iter();
                rows.retain(|_| *keep.next().unwrap());
            }
        }
        assert_eq!(set.len(), rows.len(), "step {step}");
        assert_eq!(set.read(0..rows.len()).unwrap(), rows.concat(), "step {step}");
    }
    assert!(rows.len() > 10, "too few rows to tell");
    let middle = rows.len() / 3..rows.len() / 2;
    assert_eq!(set.read(middle.clone()).unwrap(), rows[middle].concat());
    // A copy is independent of the original.
    let mut copy = set.duplicate().unwrap();
    copy.swap_remove(0).unwrap();
    assert_eq!((copy.len(), set.read(0..1).unwrap()), (rows.len() - 1, rows[0].clone()));
    // A set with a history, and one that was created from the same rows at once, give the same bits.
    let mut fresh = engine.empty(width, storage).unwrap();
    fresh.append(Features::from_rows(&rows).unwrap().view()).unwrap();
    let new = Data::Normal.rows(5, width, 99);
    for count in [1, 5] {
        assert_eq!(
            values(engine, new.view().slice(0, count), (&*set).into()),
            values(engine, new.view().slice(0, count), (&*fresh).into())
        );
    }
}

/// One or more rows against a set.
fn values(engine: &Engine, new: Rows<'_>, set: Set<'_>) -> Vec<f64> {
    let mut out = vec![0.0; new.len() * set.len()];
    engine.kernel_rows(&Kernel::Gaussian { bandwidth: 3.0 }, 1.5, new, set, &mut out).unwrap();
    out
}

fn rounded(features: Features, storage: Storage) -> Features {
    let round = |&value: &f32| half::f16::from_f32(value).to_f32();
    match storage {
        Storage::Single => features,
        Storage::Half => Features::new(features.width(), features.values().iter().map(round).collect()).unwrap(),
        other => panic!("{other:?} is not defined here"),
    }
}

/// Every method gives the same bits for resident and for borrowed sets.
fn held_conforms(engine: &Engine) {
    let (x, y) = (Data::Clusters.rows(130, 7, 1), Data::Clusters.rows(61, 7, 2));
    let (x_held, y_held) = (engine.hold(&x).unwrap(), engine.hold(&y).unwrap());
    assert_eq!((x_held.len(), x_held.width(), x_held.storage()), (130, 7, Storage::Single));
    let all = |x_set: Set<'_>, y_set: Set<'_>| {
        let kernel = Kernel::Laplacian { bandwidth: 5.0 };
        let sums = engine.kernel_sums(&kernel, x_set, y_set).unwrap();
        let among = engine.kernel_sums_among(&kernel, &[x_set, y_set]).unwrap();
        let nearest = engine.neighbours(x_set, 2).unwrap();
        let radii: Vec<f64> = nearest.iter().step_by(2).map(|neighbour| 2.0 * neighbour.squared_distance).collect();
        let balls = Balls { centres: x_set, squared_radii: &radii };
        let counts = engine.ball_counts(y_set, balls).unwrap();
        let overlaps =
            engine.overlaps(balls, &vec![1.0 / 3.0; 130], Balls { centres: y_set, squared_radii: &radii[..61] });
        let scatter = engine.scatter(x_set, &[0.5; 7], None).unwrap();
        let forms = engine.projections(y_set, &[0.5; 7], &scatter, &[1.0; 7]).unwrap();
        let rows = [
            values(engine, y.view(), x_set),
            engine.products(y.view(), x_set).unwrap(),
            engine.distances(y.view(), x_set).unwrap(),
        ];
        (sums, among, nearest, (counts, overlaps.unwrap()), (scatter, forms), rows, engine.mean(x_set).unwrap())
    };
    assert!(all((&x).into(), (&y).into()) == all((&*x_held).into(), (&*y_held).into()));
    // A held set may change; the features that it was created from do not.
    let mut held: Box<dyn Resident> = x_held;
    held.swap_remove(0).unwrap();
    held.append(y.view()).unwrap();
    assert_eq!((held.len(), x.len(), x.row(0)), (190, 130, Data::Clusters.rows(130, 7, 1).row(0)));
    assert_eq!(held.read(0..1).unwrap(), x.row(129));
}

/// Rows stored in half precision count as the rows that they widen to.
fn halves_conform(engine: &Engine) {
    for (rows, width) in [(1, 1), (5, 16), (70, 33), (257, 64)] {
        let (x, held) = (Data::Normal.rows(6, width, 3), rounded(Data::Normal.rows(rows, width, 4), Storage::Half));
        let mut set = engine.empty(width, Storage::Half).unwrap();
        set.append(held.view()).unwrap();
        for (kernel, count) in Data::Normal.kernels(width).iter().zip([1, 3, 6].into_iter().cycle()) {
            let new = x.view().slice(0, count);
            let (mut found, mut truth) = (vec![0.25; count * rows], vec![0.25; count * rows]);
            engine.kernel_rows(kernel, -1.5, new, &*set, &mut found).unwrap();
            Engine::new(modelmix::compute::Reference).kernel_rows(kernel, -1.5, new, &held, &mut truth).unwrap();
            let pairs = new.iter().flat_map(|a| held.view().iter().map(move |b| (a, b)));
            let magnitudes: Vec<f64> = pairs.map(|(a, b)| 0.25 + 1.5 * magnitude(kernel, a, b)).collect();
            let what = format!("{count} rows against {rows} halves of width {width}, {kernel}");
            check(engine, &what, engine.accuracy().row_sum, &found, &truth, &magnitudes);
        }
    }
}
