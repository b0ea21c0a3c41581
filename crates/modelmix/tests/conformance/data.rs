//! Typical data of engines, and data that reveal distances from norms, sums in single precision, and ties.

use modelmix::objective::Geometry;
use modelmix::policy::Random;
use modelmix::{Features, Kernel};

fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// Kinds of data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Data {
    Normal,
    /// Far from the origin: norms are a thousand times as large as distances.
    Offset,
    /// Four clusters, far apart for their size: centring does not reduce the norms.
    Clusters,
    /// Every row several times, in both sets: distances of exactly zero.
    Duplicated,
    Tiny,
    Large,
    /// Small integers: their squares and sums are exact in any precision and order, and distances tie.
    Grid,
}

pub(crate) const ALL_DATA: [Data; 7] =
    [Data::Normal, Data::Offset, Data::Clusters, Data::Duplicated, Data::Tiny, Data::Large, Data::Grid];

impl Data {
    pub(crate) fn rows(self, rows: usize, width: usize, seed: u64) -> Features {
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

    /// The typical distance of two near rows, about the size of a sensible bandwidth.
    pub(crate) fn spread(self, width: usize) -> f64 {
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

    pub(crate) fn kernels(self, width: usize) -> Vec<Kernel> {
        let bandwidth = self.spread(width);
        // γ such that γ x·y is of order one or √width, as with KID's preset on features of order one.
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

/// A selection of combinations: every width, every number of rows on either side, whole and partial blocks.
pub(crate) const SHAPES: [(usize, usize, usize); 14] = [
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

/// The magnitude to which errors of a pair's value are relative, as `Accuracy` defines it: the larger of |k(x, y)| and
/// its change for a relative error of one in the pair's distance or product.
pub(crate) fn magnitude(kernel: &Kernel, x: &[f32], y: &[f32]) -> f64 {
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
        other => panic!("errors of {other} are not defined here"),
    };
    debug_assert!(kernel.geometry() == Geometry::Cosine || geometry.is_finite());
    kernel.of(geometry).abs().max(slope)
}
