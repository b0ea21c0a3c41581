//! Neighbours, distances and balls: these are decisions, so they must equal the truth exactly.

use modelmix::Features;
use modelmix::compute::{Balls, Engine, Neighbour, Overlaps, Reference};

use super::data::{ALL_DATA, Data, SHAPES};

pub(super) fn conform(engine: &Engine) {
    for data in ALL_DATA {
        for (shape, &(rows, columns, width)) in SHAPES.iter().enumerate() {
            let (x, y) = (data.rows(rows, width, 2 * shape as u64), data.rows(columns, width, 2 * shape as u64 + 1));
            if rows * columns * width <= 100_000 || data == Data::Grid || data == Data::Normal {
                sets_conform(engine, data, &x, &y);
                sets_conform(engine, data, &y, &x);
            }
        }
    }
    let x = Data::Normal.rows(3, 2, 1);
    let none = x.view().slice(0, 0);
    let counts = |points, balls| engine.ball_counts(points, balls).unwrap();
    assert!(counts(none, Balls { centres: (&x).into(), squared_radii: &[1.0; 3] }).is_empty());
    assert_eq!(counts(x.view(), Balls { centres: none.into(), squared_radii: &[] }), [0; 3]);
}

/// Includes ties and points on borders.
fn sets_conform(engine: &Engine, data: Data, x: &Features, y: &Features) {
    let reference = Engine::new(Reference);
    let (found, truth) = (engine.distances(x.view(), y).unwrap(), reference.distances(x.view(), y).unwrap());
    let what = format!("{data:?} {} × {}, width {}", x.len(), y.len(), x.width());
    near(&format!("distances of {what}"), x.width(), &found, &truth);
    for k in [1, 2, 5, x.len().saturating_sub(1)] {
        if k == 0 || k >= x.len() {
            continue;
        }
        let what = format!("{what}, k {k}");
        let neighbours = engine.neighbours(x, k).unwrap();
        for (row, nearest) in neighbours.chunks_exact(k).enumerate() {
            // Distinct other rows, nearest first, and the first of equally near ones.
            let mut others: Vec<u32> = nearest.iter().map(|neighbour| neighbour.row).collect();
            others.sort_unstable();
            others.dedup();
            assert!(others.len() == k && !others.contains(&(row as u32)), "{what}: {nearest:?}");
            let order = |neighbour: &Neighbour| (neighbour.squared_distance, neighbour.row);
            assert!(nearest.is_sorted_by(|a, b| order(a) < order(b)), "{what}: {nearest:?}");
        }
        let truth = reference.neighbours(x, k).unwrap();
        let distances = |neighbours: &[Neighbour]| -> Vec<f64> {
            neighbours.iter().map(|neighbour| neighbour.squared_distance).collect()
        };
        if data == Data::Grid || data == Data::Duplicated && k == 1 && x.len() >= 6 {
            assert_eq!(neighbours, truth, "{what}");
        }
        let (found, truth) = (distances(&neighbours), distances(&truth));
        near(&what, x.width(), &found, &truth);
        // Each with its own radii: every row lies exactly on the border of the balls that extend to it.
        let radii = |distances: Vec<f64>| -> Vec<f64> { distances.chunks_exact(k).map(|near| near[k - 1]).collect() };
        let (found, truth) = (radii(found), radii(truth));
        let weights: Vec<f64> = (0..x.len()).map(|row| 1.0 + (row % 3) as f64).collect();
        let overlaps = |engine: &Engine, squared_radii: &[f64]| {
            let x = Balls { centres: x.into(), squared_radii };
            let more: Vec<f64> = (0..y.len()).map(|row| squared_radii[row % squared_radii.len()]).collect();
            engine.overlaps(x, &weights, Balls { centres: y.into(), squared_radii: &more }).unwrap()
        };
        assert_eq!(overlaps(engine, &found), overlaps(&reference, &truth), "{what}");
        for points in [y, x] {
            let counts = |engine: &Engine, squared_radii: &[f64]| {
                engine.ball_counts(points, Balls { centres: x.into(), squared_radii }).unwrap()
            };
            assert_eq!(counts(engine, &found), counts(&reference, &truth), "{what}");
        }
    }
}

/// Engines may differ only in the order of additions in double precision.
fn near(what: &str, width: usize, found: &[f64], truth: &[f64]) {
    assert_eq!(found.len(), truth.len(), "{what}");
    for (found, truth) in found.iter().zip(truth) {
        assert!((found - truth).abs() <= 1e-14 * width as f64 * truth, "{what}: {found} {truth}");
    }
}

/// Rows that occur hundreds of times: among equally near rows, the first count, as with few.
pub(super) fn copies_conform(engine: &Engine) {
    let values: Vec<f32> = (0..700).flat_map(|row| [(row % 3) as f32, if row % 6 == 0 { -0.0 } else { 0.0 }]).collect();
    let x = Features::new(2, values).unwrap();
    for k in [1, 7, 60] {
        assert_eq!(engine.neighbours(&x, k).unwrap(), Engine::new(Reference).neighbours(&x, k).unwrap(), "k {k}");
    }
}

/// Neighbours, and overlaps whose masses are sums of thirds, which round.
fn bits(engine: &Engine, x: &Features, y: &Features) -> (Vec<Neighbour>, Vec<u64>, Overlaps) {
    let nearest = engine.neighbours(x, 3).unwrap();
    // A little beyond the third neighbour: balls that contain many points.
    let radii: Vec<f64> = nearest.iter().skip(2).step_by(3).map(|neighbour| 4.0 * neighbour.squared_distance).collect();
    let counts = engine.ball_counts(y, Balls { centres: x.into(), squared_radii: &radii }).unwrap();
    let wide = vec![radii.iter().fold(0.0f64, |most, &radius| most.max(radius)); y.len()];
    let weights: Vec<f64> = (0..x.len()).map(|row| (1 + row % 5) as f64 / 3.0).collect();
    let (x, y) =
        (Balls { centres: x.into(), squared_radii: &radii }, Balls { centres: y.into(), squared_radii: &wide });
    let overlaps = engine.overlaps(x, &weights, y).unwrap();
    (nearest, counts.into_iter().map(u64::from).collect(), overlaps)
}

pub(super) fn same_bits(engines: &[Engine]) {
    for (data, rows, columns, width) in
        [(Data::Normal, 2500, 300, 6), (Data::Grid, 700, 900, 2), (Data::Duplicated, 400, 30, 5)]
    {
        let (x, y) = (data.rows(rows, width, 1), data.rows(columns, width, 2));
        let expected = bits(&engines[0], &x, &y);
        assert!(data == Data::Duplicated || expected.2.masses.iter().any(|mass| mass.fract() != 0.0), "{data:?}");
        for engine in &engines[1..] {
            let found = bits(engine, &x, &y);
            assert!(found == expected, "{}, {data:?} {rows} × {columns} of width {width}", engine.describe());
        }
    }
}
