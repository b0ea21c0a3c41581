//! **modelmix finds the mixture of generative models that beats every single one of them.**
//!
//! Given samples of several models as features, it finds the weights that minimise a kernel score of the pooled output:
//! RKE diversity, MMD or KID to a reference, with precision, density or cost beside them. Offline, by a convex
//! program over samples that you have ([`solve`]), of Fréchet distances and Vendi scores too; online, by choosing which model to ask next, so that as few paid samples
//! as possible are spent ([`Session`]). The method is that of *Be More Diverse than the Most Diverse: Optimal Mixtures of
//! Generative Models via Mixture-UCB Bandit Algorithms* (Rezaei, Farnia, Li; ICLR 2025), which the documentation calls
//! *the paper*.
//!
//! ```
//! use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};
//! // two models, each of which knows half of the world; `load::arms` reads such sets from files
//! let left = Features::from_rows((0..50).map(|i| [0.0, i as f32 / 50.0]))?;
//! let right = Features::from_rows((0..50).map(|i| [4.0, i as f32 / 50.0]))?;
//! let arms = RecordedArms::new(vec![RecordedArm::new("left", left), RecordedArm::new("right", right)])?;
//!
//! let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(&arms))?;
//! let best = solve(&arms, &loss)?;
//! assert!((best.arms[0].weight - 0.5).abs() < 1e-6); // half of each
//! assert!(best.mixture.score > 1.9 * best.best_single.score); // nearly twice the modes of either
//! # Ok::<(), modelmix::Error>(())
//! ```
//!
//! Nothing in this crate reads a clock or the environment; only [`load`] touches files; only [`compute`] has threads. A seed
//! reproduces a run exactly, on any number of threads.

pub mod arms;
pub mod certainty;
pub mod compute;
pub mod confidence;
pub mod curate;
pub mod document;
pub mod error;
pub mod experiment;
pub mod features;
pub mod fourier;
pub mod influence;
pub mod kernel;
pub mod load;
pub mod loss;
pub mod metrics;
pub mod mixture;
mod normal;
pub mod numbers;
pub mod objective;
pub mod policy;
pub mod quadratic;
pub mod random;
pub mod session;
pub mod simplex;
pub mod simulate;
pub mod spectral;
pub mod statistics;
mod text;
mod version;

pub use arms::{RecordedArm, RecordedArms};
pub use certainty::{Certified, Gap, Until};
pub use curate::{Curated, Curation, curate};
pub use error::{Error, Result};
pub use experiment::Experiment;
pub use features::{Features, Rows};
pub use kernel::{Kernel, KernelSpec};
pub use loss::{Inputs, Loss, Ranges};
pub use metrics::{Scores, score};
pub use mixture::{Mixture, solve};
pub use objective::Objective;
pub use policy::{Policy, PolicySpec};
pub use quadratic::Quadratic;
pub use session::{Event, Pull, Retention, Selection, Session, SessionSettings, Values};
pub use simulate::{Simulation, SimulationReport, simulate, simulate_watched};
pub use statistics::Statistics;
pub use text::nearest as nearest_word;
pub use version::VERSION;

/// The examples of the crate's README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
