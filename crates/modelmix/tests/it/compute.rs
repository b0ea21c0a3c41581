//! What every compute engine must do: the same sums as plain loops in double precision, for every kernel and shape, on
//! data that breaks shortcuts; and the same bits on any number of threads.

use modelmix::compute::{Backend, Balls, Cpu, Double, Instructions, Matrix, Neighbour, PairSums, Reference};
use modelmix::features::HalfRows;
use modelmix::kernel::Geometry;
use modelmix::random::Random;
use modelmix::{Features, Kernel, Rows};

/// How far a sum may be from the truth, relative to the sum of the magnitudes of its terms.
const RELATIVE: f64 = 1e-6;
/// What a sum of values too small for single precision may be off by.
const NOTHING: f64 = 1e-34;

fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// Data that engines meet, and data that catch distances taken from norms, single precision sums, and ties.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Data {
    Normal,
    /// Far from the origin: norms are a thousand times as large as distances.
    Offset,
    /// Four clumps, far apart for their size: centring does not bring the norms down.
    Clusters,
    /// Every row several times, in both sets: distances of exactly zero.
    Duplicated,
    Tiny,
    Large,
    /// Small whole numbers: squares and sums of them are exact in any precision and order, and distances tie.
    Grid,
}

const ALL_DATA: [Data; 7] =
    [Data::Normal, Data::Offset, Data::Clusters, Data::Duplicated, Data::Tiny, Data::Large, Data::Grid];

impl Data {
    fn rows(self, rows: usize, width: usize, seed: u64) -> Features {
        let mut random = Random::seeded(seed);
        let clump = |row: usize, column: usize| if (row % 4) >> (column % 2) & 1 == 1 { 300.0 } else { -300.0 };
        let mut values: Vec<f32> = Vec::with_capacity(rows * width);
        for row in 0..rows {
            if self == Data::Duplicated && row >= 3 {
                let from = (row % 3) * width;
                values.extend_from_within(from..from + width);
                continue;
            }
            for column in 0..width {
                let value = normal(&mut random);
                values.push(match self {
                    Data::Normal | Data::Duplicated => value,
                    Data::Offset => 1000.0 + value,
                    Data::Clusters => clump(row, column) + value,
                    Data::Tiny => 1e-9 * value,
                    Data::Large => 1e9 * value,
                    Data::Grid => (value * 2.0).round() + if column == 0 { 5.0 } else { 0.0 },
                } as f32);
            }
        }
        Features::new(width, values).unwrap()
    }

    /// The typical distance of two near rows, which a sensible bandwidth is about.
    fn spread(self, width: usize) -> f64 {
        let unit = (2.0 * width as f64).sqrt();
        match self {
            Data::Tiny => 1e-9 * unit,
            Data::Large => 1e9 * unit,
            Data::Grid => 2.0 * unit,
            _ => unit,
        }
    }

    /// The typical square of a value.
    fn square(self) -> f64 {
        match self {
            Data::Offset => 1e6,
            Data::Clusters => 9e4,
            Data::Tiny => 1e-18,
            Data::Large => 1e18,
            _ => 1.0,
        }
    }

    fn kernels(self, width: usize) -> Vec<Kernel> {
        let bandwidth = self.spread(width);
        // γ such that γ x·y is of order one or √width, as it is with KID's preset on features of order one
        let scale = 1.0 / (width as f64 * self.square());
        let kernels = [
            Kernel::Gaussian { bandwidth },
            Kernel::Gaussian { bandwidth: bandwidth / 4.0 },
            Kernel::Laplacian { bandwidth },
            Kernel::Polynomial { scale, offset: 0.5, degree: 2 },
            Kernel::Polynomial { scale: 1.0 / width as f64, offset: 1.0, degree: 3 },
            Kernel::Cosine { power: 1 },
        ];
        kernels.into_iter().flat_map(|kernel| [kernel, kernel.squared()]).collect()
    }
}

/// Not every combination: every width, every count of rows, on either side, whole and broken blocks.
const SHAPES: [(usize, usize, usize); 14] = [
    (1, 1, 1),
    (2, 3, 1),
    (5, 2, 3),
    (3, 256, 3),
    (257, 5, 8),
    (256, 255, 8),
    (255, 257, 15),
    (5, 5, 16),
    (256, 256, 16),
    (257, 3, 17),
    (600, 257, 3),
    (3, 600, 64),
    (33, 70, 100),
    (5, 9, 1024),
];

fn product(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// |k(x, y)|, times how many times larger a relative error of the pair's distance or product is in the kernel's value,
/// where that is more than one: no engine that rounds to single precision can do better. Sums are as good as their large
/// terms, whose factor is near one, so for them this is 1e-6 of the sum wherever terms do not cancel.
fn magnitude(kernel: &Kernel, x: &[f32], y: &[f32]) -> f64 {
    let parts: f64 = x.iter().zip(y).map(|(&a, &b)| (f64::from(a) * f64::from(b)).abs()).sum();
    let squared: f64 = x.iter().zip(y).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    let (geometry, slope) = match *kernel {
        Kernel::Gaussian { bandwidth } => (squared, kernel.of(squared) * squared / (2.0 * bandwidth * bandwidth)),
        Kernel::Laplacian { bandwidth } => (squared, kernel.of(squared) * squared.sqrt() / (2.0 * bandwidth)),
        Kernel::Polynomial { scale, offset, degree } => {
            let base = scale * product(x, y) + offset;
            (product(x, y), f64::from(degree) * base.abs().powi(degree as i32 - 1) * scale * parts)
        }
        Kernel::Cosine { power } => {
            let norms = (product(x, x) * product(y, y)).sqrt();
            let cosine = product(x, y) / norms;
            (cosine, f64::from(power) * cosine.abs().powi(power as i32 - 1) * parts / norms)
        }
    };
    debug_assert!(kernel.geometry() == Geometry::Cosine || geometry.is_finite());
    kernel.of(geometry).abs().max(slope)
}

fn check(what: &str, found: &[f64], truth: &[f64], magnitudes: &[f64]) {
    assert_eq!((found.len(), truth.len()), (magnitudes.len(), magnitudes.len()), "{what}");
    for (index, ((found, truth), magnitude)) in found.iter().zip(truth).zip(magnitudes).enumerate() {
        assert!(
            (found - truth).abs() <= RELATIVE * magnitude + NOTHING,
            "{what}: {index} is {found:e}, expected {truth:e}: off by {:e} of {magnitude:e}",
            (found - truth).abs() / magnitude
        );
    }
}

fn sums_conform(backend: &dyn Backend, data: Data, kernel: &Kernel, x: Rows<'_>, y: Rows<'_>) {
    let what = format!("{data:?} {} × {} of width {}, {kernel}", x.len(), y.len(), x.width());
    let truth = Reference.kernel_sums(kernel, x, y);
    let found = backend.kernel_sums(kernel, x, y);
    let mut magnitudes = PairSums { rows: vec![0.0; x.len()], columns: vec![0.0; y.len()] };
    for (i, a) in x.iter().enumerate() {
        for (j, b) in y.iter().enumerate() {
            let magnitude = magnitude(kernel, a, b);
            magnitudes.rows[i] += magnitude;
            magnitudes.columns[j] += magnitude;
        }
    }
    check(&format!("rows of {what}"), &found.rows, &truth.rows, &magnitudes.rows);
    check(&format!("columns of {what}"), &found.columns, &truth.columns, &magnitudes.columns);

    // Few rows against all, and many: both are added to what is there already.
    for count in [1, 3, 9].map(|count: usize| count.min(x.len())) {
        let (start, weight, new) = (0.25, -1.5, x.slice(0, count));
        let (mut found, mut truth) = (vec![start; count * y.len()], vec![start; count * y.len()]);
        backend.kernel_rows(kernel, weight, new, y, &mut found);
        Reference.kernel_rows(kernel, weight, new, y, &mut truth);
        let pairs = new.iter().flat_map(|a| y.iter().map(move |b| (a, b)));
        let magnitudes: Vec<f64> = pairs.map(|(a, b)| start + weight.abs() * magnitude(kernel, a, b)).collect();
        check(&format!("{count} kernel_rows of {what}"), &found, &truth, &magnitudes);
    }
}

/// Rows held in half precision are the rows that they widen to.
fn halves_conform(backend: &dyn Backend) {
    for (rows, width) in [(1, 1), (5, 16), (70, 33), (257, 64)] {
        let rounded = |features: Features| {
            let round = |&value: &f32| half::f16::from_f32(value).to_f32();
            Features::new(width, features.values().iter().map(round).collect()).unwrap()
        };
        let (x, held) = (Data::Normal.rows(6, width, 3), rounded(Data::Normal.rows(rows, width, 4)));
        let bits: Vec<u16> = held.values().iter().map(|&value| half::f16::from_f32(value).to_bits()).collect();
        for (kernel, count) in Data::Normal.kernels(width).iter().zip([1, 3, 6].into_iter().cycle()) {
            let new = x.view().slice(0, count);
            let (mut found, mut truth) = (vec![0.25; count * rows], vec![0.25; count * rows]);
            backend.kernel_rows_half(kernel, -1.5, new, HalfRows::new(width, &bits), &mut found);
            Reference.kernel_rows(kernel, -1.5, new, held.view(), &mut truth);
            let pairs = new.iter().flat_map(|a| held.view().iter().map(move |b| (a, b)));
            let magnitudes: Vec<f64> = pairs.map(|(a, b)| 0.25 + 1.5 * magnitude(kernel, a, b)).collect();
            check(
                &format!("{count} rows against {rows} halves of width {width}, {kernel}"),
                &found,
                &truth,
                &magnitudes,
            );
        }
    }
}

fn sums_within_conform(backend: &dyn Backend, data: Data, kernel: &Kernel, x: Rows<'_>) {
    let what = format!("within {data:?} {} of width {}, {kernel}", x.len(), x.width());
    let others = |i: usize| (0..x.len()).filter(move |&j| j != i);
    let magnitudes: Vec<f64> =
        (0..x.len()).map(|i| others(i).map(|j| magnitude(kernel, x.row(i), x.row(j))).sum()).collect();
    let (found, truth) = (backend.kernel_sums_within(kernel, x), Reference.kernel_sums_within(kernel, x));
    check(&what, &found, &truth, &magnitudes);
}

/// All pairs among several sets are those of each two of them, and those within each.
fn sums_among_conform(backend: &dyn Backend) {
    for width in [3, 40] {
        let sets = [70, 1, 300, 130].map(|rows| Data::Normal.rows(rows, width, rows as u64));
        let views = sets.each_ref().map(Features::view);
        for kernel in Data::Normal.kernels(width) {
            let found = backend.kernel_sums_among(&kernel, &views);
            for (i, x) in views.iter().enumerate() {
                for (j, y) in views.iter().enumerate() {
                    let truth = if i == j {
                        Reference.kernel_sums_within(&kernel, *x)
                    } else {
                        Reference.kernel_sums(&kernel, *x, *y).rows
                    };
                    let magnitudes: Vec<f64> =
                        x.iter().map(|a| y.iter().map(|b| magnitude(&kernel, a, b)).sum()).collect();
                    check(&format!("set {i} to set {j} of width {width}, {kernel}"), &found[i][j], &truth, &magnitudes);
                }
            }
        }
    }
}

/// Neighbours are decisions, so they are the same, not close: ties, borders and all.
fn neighbours_conform(backend: &dyn Backend, data: Data, x: &Features, y: &Features) {
    for k in [1, 2, 5, x.len().saturating_sub(1)] {
        if k == 0 || k >= x.len() {
            continue;
        }
        let what = format!("{data:?} {} × {}, width {}, k {k}", x.len(), y.len(), x.width());
        let neighbours = backend.neighbours(x.view(), k);
        for (row, nearest) in neighbours.chunks_exact(k).enumerate() {
            // distinct other rows, at the distances that are said, the nearest first
            let mut others: Vec<u32> = nearest.iter().map(|neighbour| neighbour.row).collect();
            others.sort_unstable();
            others.dedup();
            assert!(others.len() == k && !others.contains(&(row as u32)), "{what}: {nearest:?}");
            assert!(nearest.is_sorted_by(|a, b| a.squared_distance <= b.squared_distance), "{what}");
        }
        let distances = |neighbours: Vec<Neighbour>| -> Vec<f64> {
            neighbours.into_iter().map(|neighbour| neighbour.squared_distance).collect()
        };
        let (found, truth) = (distances(neighbours), distances(Reference.neighbours(x.view(), k)));
        if data == Data::Grid || data == Data::Duplicated && k == 1 && x.len() >= 6 {
            assert_eq!(found, truth, "{what}");
        } else {
            // The order of adding in double precision is an engine's own, and nothing else is.
            for (found, truth) in found.iter().zip(&truth) {
                assert!((found - truth).abs() <= 1e-14 * x.width() as f64 * truth, "{what}: {found} {truth}");
            }
        }
        // Each with its own radii: every row lies on the very border of the balls that reach to it.
        let radii = |distances: Vec<f64>| -> Vec<f64> { distances.chunks_exact(k).map(|near| near[k - 1]).collect() };
        let (found, truth) = (radii(found), radii(truth));
        let weights: Vec<f64> = (0..x.len()).map(|row| 1.0 + (row % 3) as f64).collect();
        let overlaps = |engine: &dyn Backend, squared_radii: &[f64]| {
            let x = Balls { centres: x.view(), squared_radii };
            let more: Vec<f64> = (0..y.len()).map(|row| squared_radii[row % squared_radii.len()]).collect();
            engine.overlaps(x, &weights, Balls { centres: y.view(), squared_radii: &more })
        };
        assert_eq!(overlaps(backend, &found), overlaps(&Reference, &truth), "{what}");
        for points in [y, x] {
            assert_eq!(
                backend.ball_counts(points.view(), x.view(), &found),
                Reference.ball_counts(points.view(), x.view(), &truth),
                "{what}"
            );
        }
    }
}

/// Everything but the number of threads.
fn conforms(backend: &dyn Backend) {
    for data in ALL_DATA {
        for (shape, &(rows, columns, width)) in SHAPES.iter().enumerate() {
            let (x, y) = (data.rows(rows, width, 2 * shape as u64), data.rows(columns, width, 2 * shape as u64 + 1));
            // the large shapes cost most and differ least: a few kernels each, all of them in turn
            let large = rows * columns * width > 100_000;
            let kernels = data.kernels(width);
            for (index, kernel) in kernels.iter().enumerate() {
                if large && index % 4 != shape % 4 {
                    continue;
                }
                sums_conform(backend, data, kernel, x.view(), y.view());
                sums_within_conform(backend, data, kernel, if rows < columns { y.view() } else { x.view() });
            }
            if !large || data == Data::Grid || data == Data::Normal {
                neighbours_conform(backend, data, &x, &y);
                neighbours_conform(backend, data, &y, &x);
            }
        }
    }
}

#[test]
fn every_instruction_set_conforms() {
    for instructions in Instructions::available() {
        let engine = Cpu::with_threads(2).with_instructions(instructions).unwrap();
        conforms(&engine);
        halves_conform(&engine);
        sums_among_conform(&engine);
    }
}

/// The engine in double precision against plain loops in double precision: a thousand times closer than the suite asks for.
#[test]
fn double_precision_is_double() {
    let engine = Double::with_threads(2);
    sums_among_conform(&engine);
    for data in ALL_DATA {
        let (x, y) = (data.rows(270, 9, 1), data.rows(530, 9, 2));
        for kernel in data.kernels(9) {
            sums_conform(&engine, data, &kernel, x.view(), y.view());
            sums_within_conform(&engine, data, &kernel, y.view());
            let (found, truth) =
                (engine.kernel_sums(&kernel, x.view(), y.view()), Reference.kernel_sums(&kernel, x.view(), y.view()));
            for (row, (found, truth)) in x.view().iter().zip(found.rows.iter().zip(truth.rows)) {
                let size: f64 = y.view().iter().map(|other| magnitude(&kernel, row, other)).sum();
                assert!((found - truth).abs() <= 1e-11 * size, "{data:?}, {kernel}: {found} {truth}");
            }
        }
        neighbours_conform(&engine, data, &x, &y);
    }
}

/// L·Lᵀ is the matrix again, and L has as many columns as the matrix has rank.
#[test]
fn factors_of_singular_matrices() {
    for (rows, width) in [(50, 7), (4, 9), (1, 5), (130, 130), (90, 300)] {
        let x = Data::Normal.rows(rows, width, 5);
        let matrix = Cpu::with_threads(1).scatter(x.view(), &vec![0.0; width], &|_| 1.0);
        let factor = matrix.factor();
        assert_eq!(factor.columns(), rows.min(width), "{rows} × {width}");
        let again = factor.product_transposed(&factor, 2);
        let largest = (0..width).map(|index| matrix.at(index, index)).fold(0.0, f64::max);
        for (i, j) in (0..width).flat_map(|i| (0..width).map(move |j| (i, j))) {
            assert!((again.at(i, j) - matrix.at(i, j)).abs() <= 1e-12 * largest, "{rows} × {width}: {i} {j}");
        }
    }
    assert_eq!(Matrix::zeros(3, 3).factor().columns(), 0);
}

/// Σ w (x − c)(x − c)ᵀ against plain loops, where it is one piece, several, and of rows in parts.
#[test]
fn scatter_matrices() {
    for (rows, width) in [(1, 1), (40, 7), (9000, 5), (70, 600), (20, 1100)] {
        let x = Data::Offset.rows(rows, width, 3);
        let centre: Vec<f64> = (0..width).map(|column| f64::from(x.row(0)[column]) + 0.5).collect();
        let weight = |row: usize| 1.0 / (1 + row % 4) as f64;
        let found = Cpu::with_threads(2).scatter(x.view(), &centre, &weight);
        for (i, j) in [(0, 0), (width - 1, 0), (0, width - 1), (width / 2, width / 3), (width - 1, width - 1)] {
            let deviation = |row: usize, column: usize| f64::from(x.row(row)[column]) - centre[column];
            let truth: f64 = (0..rows).map(|row| weight(row) * deviation(row, i) * deviation(row, j)).sum();
            let size: f64 = (0..rows).map(|row| (deviation(row, i) * deviation(row, j)).abs()).sum();
            assert!(
                (found.at(i, j) - truth).abs() <= 1e-13 * size,
                "{rows} × {width}, {i} {j}: {} {truth}",
                found.at(i, j)
            );
        }
        for threads in [1, 3] {
            assert_eq!(Cpu::with_threads(threads).scatter(x.view(), &centre, &weight), found);
        }
    }
}

/// Features are any finite 32-bit floats, but the square of one beyond 1e±18 is not a 32-bit float any more.
#[test]
fn scales_whose_squares_leave_single_precision() {
    for scale in [1e-24f32, 1e24] {
        let x = Features::from_rows([[scale], [2.0 * scale], [3.0 * scale]]).unwrap();
        for kernel in [Kernel::Gaussian { bandwidth: f64::from(scale) }, Kernel::Cosine { power: 1 }] {
            sums_conform(&Cpu::with_threads(1), Data::Normal, &kernel, x.view(), x.view());
        }
    }
}

#[test]
fn reference_conforms_to_itself() {
    // what the suite must never find fault with: a check of the suite
    let x = Data::Offset.rows(7, 5, 1);
    for kernel in Data::Offset.kernels(5) {
        sums_conform(&Reference, Data::Offset, &kernel, x.view(), x.view());
        sums_within_conform(&Reference, Data::Offset, &kernel, x.view());
    }
    neighbours_conform(&Reference, Data::Offset, &x, &x);
}

/// All that an engine computes from two sets, as bits.
fn bits(backend: &dyn Backend, kernel: &Kernel, x: &Features, y: &Features) -> Vec<u64> {
    let PairSums { rows, columns } = backend.kernel_sums(kernel, x.view(), y.view());
    let within = backend.kernel_sums_within(kernel, x.view());
    let among = backend.kernel_sums_among(kernel, &[x.view(), y.view()]).concat().concat();
    let mut row = vec![0.0; x.len() * y.len()];
    backend.kernel_rows(kernel, 0.7, x.view(), y.view(), &mut row);
    let radii: Vec<f64> = if x.len() > 3 {
        backend.neighbours(x.view(), 3).iter().map(|neighbour| neighbour.squared_distance).step_by(3).collect()
    } else {
        vec![1.0; x.len()]
    };
    let counts = backend.ball_counts(y.view(), x.view(), &radii);
    let numbers = [rows, columns, within, among, row, radii].concat();
    numbers.into_iter().map(f64::to_bits).chain(counts.into_iter().map(u64::from)).collect()
}

#[test]
fn threads_change_no_bit() {
    for (rows, columns, width) in [(1, 1, 1), (257, 600, 17), (600, 255, 8), (2100, 300, 3)] {
        let (x, y) = (Data::Normal.rows(rows, width, 1), Data::Normal.rows(columns, width, 2));
        for kernel in Data::Normal.kernels(width).into_iter().step_by(3) {
            let expected = bits(&Cpu::with_threads(1), &kernel, &x, &y);
            for threads in [2, 3, 8] {
                let found = bits(&Cpu::with_threads(threads), &kernel, &x, &y);
                assert!(found == expected, "{threads} threads, {rows} × {columns} of width {width}, {kernel}");
            }
        }
    }
}

#[test]
fn threads_change_no_bit_over_many_pieces_of_work() {
    let sets: Vec<Features> = (0..8).map(|seed| Data::Normal.rows(400, 9, seed)).collect();
    let views: Vec<Rows<'_>> = sets.iter().map(Features::view).collect();
    let kernel = Kernel::Gaussian { bandwidth: 4.0 };
    let expected = Cpu::with_threads(1).kernel_sums_among(&kernel, &views);
    for threads in [2, 8] {
        assert!(Cpu::with_threads(threads).kernel_sums_among(&kernel, &views) == expected, "{threads} threads");
    }
}

/// What users see are means over all pairs of two arms: each within a millionth of the truth, on data that breaks shortcuts,
/// arms that repeat one sample among them.
#[test]
fn every_entry_of_a_form_is_good_to_a_millionth() {
    for data in [Data::Normal, Data::Offset, Data::Clusters, Data::Duplicated] {
        for width in [24, 700] {
            let mut sets: Vec<Features> = (0..2).map(|seed| data.rows(260, width, seed)).collect();
            // an arm that always gives the same, long enough for many tiles of equal values
            let one = data.rows(1, width, 9);
            sets.push(Features::from_rows((0..1500).map(|_| one.row(0))).unwrap());
            let views: Vec<Rows<'_>> = sets.iter().map(Features::view).collect();
            let bandwidth = data.spread(width);
            let kernels = [
                Kernel::Gaussian { bandwidth },
                Kernel::Gaussian { bandwidth: bandwidth / 3.0 },
                Kernel::Laplacian { bandwidth },
                Kernel::Polynomial { scale: 1.0 / width as f64, offset: 1.0, degree: 3 },
            ];
            for kernel in kernels {
                // Products of clusters on opposite sides cancel: no sum of them is good in single precision.
                if data == Data::Clusters && kernel.geometry() == Geometry::Product {
                    continue;
                }
                let mean = |sums: &[Vec<Vec<f64>>], i: usize, j: usize| {
                    sums[i][j].iter().sum::<f64>() / (views[i].len() * views[j].len()) as f64
                };
                let truth = truth_among(&kernel, &views);
                for instructions in Instructions::available() {
                    let found = Cpu::with_threads(2)
                        .with_instructions(instructions)
                        .unwrap()
                        .kernel_sums_among(&kernel, &views);
                    for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                        let (found, truth) = (mean(&found, i, j), truth[i][j]);
                        assert!(
                            (found - truth).abs() <= 1e-6 * truth.abs() + NOTHING,
                            "{data:?}, width {width}, {kernel}, {instructions:?}: K[{i}][{j}] is {found:e}, expected {truth:e}"
                        );
                    }
                }
            }
        }
    }
}

/// The same means in double precision; a row that comes again is evaluated once.
fn truth_among(kernel: &Kernel, views: &[Rows<'_>]) -> Vec<Vec<f64>> {
    let last = views.len() - 1;
    let short: Vec<Rows<'_>> =
        views.iter().enumerate().map(|(i, rows)| if i == last { rows.slice(0, 1) } else { *rows }).collect();
    let entry = |i: usize, j: usize| {
        let (n, m) = (views[i].len() as f64, views[j].len() as f64);
        let pairs = if i == j {
            Reference.kernel_sums_within(kernel, short[i])
        } else {
            Reference.kernel_sums(kernel, short[i], short[j]).rows
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

#[test]
fn no_threads_count_as_one() {
    assert_eq!(Cpu::with_threads(0).threads(), 1);
    assert_eq!(Cpu::with_threads(3).threads(), 3);
}

#[test]
fn empty_sides_give_empty_sums() {
    let x = Data::Normal.rows(3, 2, 1);
    let none = x.view().slice(0, 0);
    let kernel = Kernel::Cosine { power: 1 };
    for backend in [&Cpu::with_threads(2) as &dyn Backend, &Reference] {
        assert_eq!(backend.kernel_sums(&kernel, none, x.view()), PairSums { rows: vec![], columns: vec![0.0; 3] });
        assert_eq!(backend.kernel_sums(&kernel, x.view(), none), PairSums { rows: vec![0.0; 3], columns: vec![] });
        assert!(backend.kernel_sums_within(&kernel, none).is_empty());
        assert!(backend.ball_counts(none, x.view(), &[1.0; 3]).is_empty());
        assert_eq!(backend.ball_counts(x.view(), none, &[]), [0; 3]);
        backend.kernel_rows(&kernel, 1.0, x.view(), none, &mut []);
    }
}
