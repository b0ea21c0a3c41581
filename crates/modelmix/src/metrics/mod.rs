//! Metrics of samples: RKE, Vendi, MMD², KID, FID, precision, recall, density and coverage, for one set and for
//! weighted mixtures ([`Pool`]), each with a standard error and its method ([`Estimate`]).
//!
//! All are plain functions on a compute engine. Only Vendi stores a matrix of all pairs. To publish numbers, use
//! [`Double`](crate::compute::Double), which is as exact as NumPy in `float64`. [`Cpu`](crate::compute::Cpu) is faster
//! and accurate to about 3e-7 of a mean of kernel values. Neighbourhoods and moments are exact with both. A [`Scorer`] chooses by
//! metric: RKE as the engine computes it if its error bound is below a hundredth of the standard error, KID in the
//! engine's precision, and everything else in double precision.
//!
//! ```
//! use modelmix::compute::{Double, Engine};
//! use modelmix::metrics::{Neighbourhoods, Pool, fid, prdc};
//! use modelmix::Features;
//! let samples = Features::from_rows((0..40).map(|i| [(i % 8) as f32, (i / 8) as f32]))?;
//! let reference = Features::from_rows((0..40).map(|i| [(i % 8) as f32 + 3.0, (i / 8) as f32]))?;
//! let engine = Engine::new(Double::new());
//! let distance = fid(&Pool::of(&samples), &reference, &engine)?;
//! assert!((distance - 9.0).abs() < 1e-9); // the same shape, three to the right
//! let scores = prdc(&Pool::of(&samples), &reference, &Neighbourhoods::default(), &engine)?;
//! assert!(scores.precision.value < 1.0);
//! # Ok::<(), modelmix::Error>(())
//! ```

mod check;
mod estimate;
mod fid;
mod kid;
mod mmd;
mod moments;
mod numpy;
mod pairs;
mod pool;
mod prdc;
mod rke;
mod score;
mod scores;
mod vendi;

pub use estimate::{ErrorBy, Estimate};
pub use fid::{Extrapolation, FidReference, Frechet, fid, fid_estimate, fid_infinity};
pub use kid::{KidSettings, kid, kid_kernel};
pub use mmd::{CMMD_BANDWIDTH, Mmd, cmmd, mmd};
pub use moments::Moments;
pub use numpy::NumPyRandom;
pub use pool::{Part, Pool};
pub use prdc::{DEFAULT_NEIGHBOURS, Neighbourhoods, Prdc, ReferenceBalls, prdc};
pub use rke::{Rke, rke};
pub use score::{Metric, Preset, ScoreSettings, ScoreTable, Scorer};
pub use scores::{
    ScoreDefinitions, ScoredArm, ScoredMixture, Scores, VendiDefinition, by_name, more_is_better, score, score_watched,
};
pub use vendi::{LARGEST_MATRIX, vendi, vendi_estimate};
