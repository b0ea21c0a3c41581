//! Kernels: similarity of two feature rows. They are a closed set, so a kernel is data. Sums of kernels are computed by
//! `compute`.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::numbers::six_digits;
use crate::random::Random;
use crate::text::{Call, Reader, nearest};

/// A positive semidefinite kernel with all parameters set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum Kernel {
    /// Gaussian kernel, exp(−‖x−y‖² / 2σ²).
    Gaussian {
        /// The bandwidth σ.
        #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
        bandwidth: f64,
    },
    /// Laplacian kernel, exp(−‖x−y‖ / σ), with the Euclidean norm (scikit-learn's `laplacian_kernel` uses the sum of
    /// absolute differences).
    Laplacian {
        /// The bandwidth σ.
        #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
        bandwidth: f64,
    },
    /// Polynomial kernel, (γ x·y + c)^p.
    Polynomial {
        /// γ.
        scale: f64,
        /// c.
        offset: f64,
        /// p.
        degree: u32,
    },
    /// Cosine kernel, (x·y / ‖x‖‖y‖)^p.
    Cosine {
        /// p; 1 for the plain kernel, 2 for its square.
        power: u32,
    },
}

/// The geometry of two rows that a kernel depends on: their distance, product or cosine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// ‖x−y‖².
    SquaredDistance,
    /// x·y.
    Product,
    /// x·y / ‖x‖‖y‖.
    Cosine,
}

impl Kernel {
    /// The squared kernel k², which RKE needs. It is a kernel too: σ/√2 for the Gaussian, twice the degree for the
    /// polynomial.
    #[must_use]
    pub fn squared(self) -> Self {
        match self {
            Kernel::Gaussian { bandwidth } => {
                Kernel::Gaussian { bandwidth: bandwidth * std::f64::consts::FRAC_1_SQRT_2 }
            }
            Kernel::Laplacian { bandwidth } => Kernel::Laplacian { bandwidth: bandwidth / 2.0 },
            Kernel::Polynomial { scale, offset, degree } => Kernel::Polynomial { scale, offset, degree: 2 * degree },
            Kernel::Cosine { power } => Kernel::Cosine { power: 2 * power },
        }
    }

    /// The smallest and the largest value, or `None` if the kernel is unbounded.
    pub fn range(&self) -> Option<(f64, f64)> {
        match self {
            Kernel::Gaussian { .. } | Kernel::Laplacian { .. } => Some((0.0, 1.0)),
            Kernel::Cosine { power } if power % 2 == 0 => Some((0.0, 1.0)),
            Kernel::Cosine { .. } => Some((-1.0, 1.0)),
            Kernel::Polynomial { .. } => None,
        }
    }

    /// Which geometry the kernel depends on.
    pub fn geometry(&self) -> Geometry {
        match self {
            Kernel::Gaussian { .. } | Kernel::Laplacian { .. } => Geometry::SquaredDistance,
            Kernel::Polynomial { .. } => Geometry::Product,
            Kernel::Cosine { .. } => Geometry::Cosine,
        }
    }

    /// The value of the kernel if its [`Geometry`] has the value `geometry`.
    #[inline]
    pub fn of(&self, geometry: f64) -> f64 {
        match *self {
            Kernel::Gaussian { bandwidth } => (-geometry / (2.0 * bandwidth * bandwidth)).exp(),
            Kernel::Laplacian { bandwidth } => (-geometry.sqrt() / bandwidth).exp(),
            Kernel::Polynomial { scale, offset, degree } => (scale * geometry + offset).powi(degree as i32),
            Kernel::Cosine { power } => geometry.clamp(-1.0, 1.0).powi(power as i32),
        }
    }

    /// k(x, x), in double precision.
    pub fn of_self(&self, x: &[f32]) -> f64 {
        match self.geometry() {
            Geometry::SquaredDistance => self.of(0.0),
            Geometry::Product => self.of(x.iter().map(|&value| f64::from(value).powi(2)).sum()),
            Geometry::Cosine => self.of(1.0),
        }
    }

    /// Checks that k(x, x) = 1 for every x. Otherwise RKE and Vendi scores are not numbers of modes.
    ///
    /// # Errors
    /// If the kernel does not have this property.
    pub(crate) fn check_unit(&self) -> Result<()> {
        match self {
            Kernel::Gaussian { .. } | Kernel::Laplacian { .. } | Kernel::Cosine { .. } => Ok(()),
            Kernel::Polynomial { .. } => {
                let must = "one with k(x, x) = 1: cosine, gaussian or laplacian";
                Err(Error::setting("the kernel of rke or vendi", self, must))
            }
        }
    }

    /// Checks that the kernel is defined for every row.
    ///
    /// # Errors
    /// If a row is all zeros, for the cosine kernel.
    pub fn check(&self, rows: Rows<'_>) -> Result<()> {
        self.check_rows(|| Ok(rows))
    }

    /// The same for features, whose rows are not read if the kernel is defined everywhere.
    pub(crate) fn check_features(&self, features: &Features) -> Result<()> {
        self.check_rows(|| features.host())
    }

    fn check_rows<'a>(&self, rows: impl FnOnce() -> Result<Rows<'a>>) -> Result<()> {
        if self.geometry() == Geometry::Cosine
            && let Some(row) = rows()?.iter().position(|row| row.iter().all(|&value| value == 0.0))
        {
            return Err(Error::Array {
                origin: "features".into(),
                problem: format!(
                    "row {row} is all zeros and has no direction for the cosine kernel; remove it or use another kernel"
                ),
            });
        }
        Ok(())
    }
}

/// In words, with six significant digits; documents have all digits.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernel::Gaussian { bandwidth } => write!(f, "gaussian, bandwidth {}", six_digits(*bandwidth)),
            Kernel::Laplacian { bandwidth } => write!(f, "laplacian, bandwidth {}", six_digits(*bandwidth)),
            Kernel::Polynomial { scale, offset, degree } => {
                write!(f, "polynomial, ({} x·y + {})^{degree}", six_digits(*scale), six_digits(*offset))
            }
            Kernel::Cosine { power: 1 } => write!(f, "cosine"),
            Kernel::Cosine { power } => write!(f, "cosine^{power}"),
        }
    }
}

/// The smallest bandwidth. Kernels are evaluated in single precision, in which 1/σ² of a smaller one overflows.
const MIN_BANDWIDTH: f64 = 1e-18;

/// A bandwidth: a number, or `auto`, which finds one from the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Bandwidth {
    /// The median distance between samples; see [`median_distance`].
    #[default]
    Auto,
    /// σ as a number.
    #[serde(untagged)]
    Fixed(f64),
}

/// A kernel as written in an objective. Missing parameters are found from the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum KernelSpec {
    /// [`Kernel::Gaussian`].
    Gaussian {
        /// σ, or `auto`.
        #[serde(default)]
        bandwidth: Bandwidth,
    },
    /// [`Kernel::Laplacian`].
    Laplacian {
        /// σ, or `auto`.
        #[serde(default)]
        bandwidth: Bandwidth,
    },
    /// [`Kernel::Polynomial`].
    Polynomial {
        /// γ; default 1/width.
        #[serde(default)]
        scale: Option<f64>,
        /// c.
        offset: f64,
        /// p.
        degree: u32,
    },
    /// [`Kernel::Cosine`] of power 1.
    #[serde(deserialize_with = "no_settings")]
    Cosine,
    /// The kernel of the Kernel Inception Distance, (x·y/d + 1)³.
    #[serde(deserialize_with = "no_settings")]
    Kid,
}

/// Reads a kernel that has no parameters; for a unit variant serde would accept any.
fn no_settings<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

impl Default for KernelSpec {
    fn default() -> Self {
        KernelSpec::Gaussian { bandwidth: Bandwidth::Auto }
    }
}

const NAMES: [&str; 5] = ["gaussian", "laplacian", "polynomial", "cosine", "kid"];

impl KernelSpec {
    /// Whether the bandwidth has to be found from data.
    pub fn is_auto(&self) -> bool {
        matches!(
            self,
            KernelSpec::Gaussian { bandwidth: Bandwidth::Auto } | KernelSpec::Laplacian { bandwidth: Bandwidth::Auto }
        )
    }

    /// Fills in and checks all parameters. A missing scale is found from `width`. A missing bandwidth is found by
    /// `median`, which is called only if it is needed.
    ///
    /// # Errors
    /// If a parameter is out of range, and the errors of `median`.
    pub(crate) fn resolve(&self, width: Option<usize>, median: &mut dyn FnMut() -> Result<f64>) -> Result<Kernel> {
        let positive = |what: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(value)
            } else {
                Err(Error::setting(what, value, "a positive number"))
            }
        };
        let inverse_width = || {
            width.map(|width| 1.0 / width as f64).ok_or_else(|| {
                Error::missing(
                    "a polynomial kernel without a scale",
                    "the features' width; give arms, a reference, the width or a scale",
                )
            })
        };
        let mut bandwidth = |bandwidth: Bandwidth| {
            let value = match bandwidth {
                Bandwidth::Fixed(value) => positive("bandwidth", value)?,
                Bandwidth::Auto => median()?,
            };
            if value < MIN_BANDWIDTH {
                let must = format!("at least {MIN_BANDWIDTH:e}; multiply features and bandwidth by the same number");
                return Err(Error::setting("bandwidth", value, must));
            }
            Ok(value)
        };
        Ok(match *self {
            KernelSpec::Gaussian { bandwidth: value } => Kernel::Gaussian { bandwidth: bandwidth(value)? },
            KernelSpec::Laplacian { bandwidth: value } => Kernel::Laplacian { bandwidth: bandwidth(value)? },
            KernelSpec::Polynomial { scale, offset, degree } => {
                if !(1..=64).contains(&degree) {
                    return Err(Error::setting("degree", degree, "between 1 and 64"));
                }
                if !(offset.is_finite() && offset >= 0.0) {
                    return Err(Error::setting(
                        "offset",
                        offset,
                        "zero or a positive number, or the kernel is not positive semidefinite",
                    ));
                }
                let scale = scale.map_or_else(inverse_width, |scale| positive("scale", scale))?;
                Kernel::Polynomial { scale, offset, degree }
            }
            KernelSpec::Cosine => Kernel::Cosine { power: 1 },
            KernelSpec::Kid => Kernel::Polynomial { scale: inverse_width()?, offset: 1.0, degree: 3 },
        })
    }

    /// Reads the kernel from the arguments of a term: `kernel=…, bandwidth=…` and the parameters of the polynomial.
    pub(crate) fn read(reader: &Reader<'_>, call: &mut Call<'_>) -> Result<Option<Self>> {
        let bandwidth = call
            .argument("bandwidth")
            .map(|(value, at)| match value.parse::<f64>() {
                _ if value == "auto" => Ok(Bandwidth::Auto),
                Ok(number) if number.is_finite() && number > 0.0 => Ok(Bandwidth::Fixed(number)),
                _ => Err(reader.error(at, format!("bandwidth must be a positive number or auto, not \"{value}\""))),
            })
            .transpose()?;
        let scale = call.number(reader, "scale")?;
        let offset = call.number(reader, "offset")?;
        let degree = call.count(reader, "degree")?;
        let named = call.argument("kernel");
        let polynomial = scale.is_some() || offset.is_some() || degree.is_some();
        let (name, at) = match named {
            Some(named) => named,
            None if bandwidth.is_some() || polynomial => ("gaussian", call.at),
            None => return Ok(None),
        };
        let refuse = |setting: &str| Err(reader.error(at, format!("the {name} kernel has no {setting}")));
        if bandwidth.is_some() && !matches!(name, "gaussian" | "laplacian") && NAMES.contains(&name) {
            return refuse("bandwidth");
        }
        if polynomial && name != "polynomial" && NAMES.contains(&name) {
            return refuse("scale, offset or degree; name kernel=polynomial");
        }
        let bandwidth = bandwidth.unwrap_or_default();
        Ok(Some(match name {
            "gaussian" => KernelSpec::Gaussian { bandwidth },
            "laplacian" => KernelSpec::Laplacian { bandwidth },
            "cosine" => KernelSpec::Cosine,
            "kid" => KernelSpec::Kid,
            "polynomial" => KernelSpec::Polynomial {
                scale,
                offset: offset.unwrap_or(1.0),
                degree: degree.map_or(3, |degree| u32::try_from(degree).unwrap_or(u32::MAX)),
            },
            _ => {
                let hint = nearest(name, &NAMES).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                return Err(
                    reader.error(at, format!("there is no kernel {name}{hint}; there are {}", NAMES.join(", ")))
                );
            }
        }))
    }
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bandwidth = |bandwidth: &Bandwidth| match bandwidth {
            Bandwidth::Auto => "auto".to_string(),
            Bandwidth::Fixed(value) => value.to_string(),
        };
        match self {
            KernelSpec::Gaussian { bandwidth: value } => write!(f, "bandwidth={}", bandwidth(value)),
            KernelSpec::Laplacian { bandwidth: value } => write!(f, "kernel=laplacian, bandwidth={}", bandwidth(value)),
            KernelSpec::Polynomial { scale, offset, degree } => {
                write!(f, "kernel=polynomial")?;
                if let Some(scale) = scale {
                    write!(f, ", scale={scale}")?;
                }
                write!(f, ", offset={offset}, degree={degree}")
            }
            KernelSpec::Cosine => write!(f, "kernel=cosine"),
            KernelSpec::Kid => write!(f, "kernel=kid"),
        }
    }
}

/// The number of rows that the median rule uses: 124,750 pairs.
pub const MEDIAN_ROWS: usize = 500;

/// The number of distances that are summed side by side: the additions of one sum wait for each other.
const DISTANCES_AT_ONCE: usize = 4;

/// ‖left − right‖² for up to [`DISTANCES_AT_ONCE`] rows, each summed in the order of columns.
fn squared_distances(left: &[f32], rights: &[Cow<'_, [f32]>]) -> [f64; DISTANCES_AT_ONCE] {
    let mut sums = [0.0; DISTANCES_AT_ONCE];
    let right: [&[f32]; DISTANCES_AT_ONCE] = std::array::from_fn(|lane| &**rights.get(lane).unwrap_or(&rights[0]));
    let width = left.len();
    let right = right.map(|row| &row[..width]);
    for (column, &a) in left.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(right) {
            *sum += (f64::from(a) - f64::from(row[column])).powi(2);
        }
    }
    sums
}

/// Finds a bandwidth by the median rule: the median Euclidean distance over all pairs of at most [`MEDIAN_ROWS`] rows.
/// The rows are spread evenly over the sets and drawn with the seed. The same rows are drawn for any order of the sets.
///
/// # Errors
/// If all sampled rows are equal, or if rows on a device cannot be read.
pub fn median_distance(sets: &[&Features], seed: u64) -> Result<f64> {
    let share = (MEDIAN_ROWS / sets.len()).max(2);
    let drawn = sets
        .iter()
        .flat_map(|set| Random::seeded(seed).sample(set.len(), share).into_iter().map(|index| set.read_row(index)));
    let rows = drawn.collect::<Result<Vec<_>>>()?;
    let mut distances = Vec::with_capacity(rows.len() * rows.len().saturating_sub(1) / 2);
    for (index, left) in rows.iter().enumerate() {
        for rights in rows[..index].chunks(DISTANCES_AT_ONCE) {
            let squared = squared_distances(left, rights);
            distances
                .extend(squared[..rights.len()].iter().filter(|&&squared| squared > 0.0).map(|squared| squared.sqrt()));
        }
    }
    if distances.is_empty() {
        return Err(Error::setting(
            "bandwidth",
            "auto",
            "a number here, because all sampled rows are equal and have no median distance",
        ));
    }
    // Pairs of equal rows are left out: they do not measure scale, and in a set with many repeats their median would be
    // zero.
    distances.sort_by(f64::total_cmp);
    let middle = distances.len() / 2;
    Ok(if distances.len().is_multiple_of(2) {
        (distances[middle - 1] + distances[middle]) / 2.0
    } else {
        distances[middle]
    })
}
