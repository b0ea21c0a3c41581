//! **modelmix finds the mixture of generative models that beats every single one of them.**
//!
//! Given features of samples from several models, it finds the weights that minimise a kernel score of the pooled
//! output: RKE diversity, MMD or KID to a reference, combined with precision, density or cost. Offline, [`solve`] finds
//! them by a convex program over recorded samples; it also accepts Fréchet distances and Vendi scores. Online, a
//! [`Session`] chooses which model to sample next, so that few paid samples are spent. The method is that of *Be More
//! Diverse than the Most Diverse: Optimal Mixtures of Generative Models via Mixture-UCB Bandit Algorithms* (Rezaei,
//! Farnia, Li; ICLR 2025), which the documentation calls *the paper*. An *arm* is one generative model.
//!
//! ```
//! use modelmix::{Features, Inputs, Objective, RecordedArm, RecordedArms, solve};
//! // Two models, each of which covers half of the data. `load::arms` reads such sets from files.
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
//! Nothing in this crate reads a clock or the environment. Only [`load`] reads files, and only [`compute`] starts
//! threads. A seed reproduces a run exactly, on any number of threads.

pub mod accumulate;
mod arms;
mod certainty;
pub mod compute;
mod confidence;
pub mod curate;
pub mod document;
mod encoding;
mod error;
pub mod experiment;
mod features;
mod fourier;
mod influence;
mod kernel;
pub mod load;
mod loss;
pub mod metrics;
pub mod mixture;
mod normal;
mod numbers;
pub mod objective;
pub mod policy;
mod provenance;
mod quadratic;
mod random;
pub mod session;
mod settings;
pub mod simplex;
pub mod simulate;
mod spectral;
mod statistics;
mod text;
mod version;

pub use accumulate::Accumulator;
pub use arms::{RecordedArm, RecordedArms};
pub use certainty::{Certified, Gap, Until, Verdict};
pub use curate::{Curated, Curation, curate};
pub use encoding::Encoding;
pub use error::{Error, Input, Result};
pub use experiment::Experiment;
pub use features::{Features, Rows};
pub use kernel::{Kernel, KernelSpec};
pub use loss::{Inputs, Loss, Ranges, SessionLoss};
pub use metrics::{Scores, score};
pub use mixture::{Mixture, SamplePlan, plan, solve};
pub use objective::Objective;
pub use policy::{Policy, PolicySpec};
pub use quadratic::Quadratic;
pub use session::{Event, Pull, Retention, Selection, Session, SessionSettings, Values};
pub use simulate::{Simulation, SimulationReport, simulate, simulate_watched};
pub use statistics::Statistics;
pub use version::VERSION;

/// Items that the command line, the Python extension, engines and the tests of this repository share with the library. They are
/// not part of the API: any release may change or remove them.
#[doc(hidden)]
pub mod internals {
    pub use crate::text::nearest as nearest_word;

    /// Numbers per arm, given by name.
    pub mod arms {
        pub use crate::arms::{by_arm, weights_by_arm};
    }
    /// Confidence intervals of weights and gains.
    pub mod certainty {
        pub use crate::certainty::{Certainty, MIN_SAMPLES_PER_ARM, certainty, parse_confidence};
    }
    /// Parts of engines.
    pub mod compute {
        pub use crate::compute::subsets::separately as subset_sums_separately;
    }
    /// Confidence widths of policies.
    pub mod confidence {
        pub use crate::confidence::{adaptive_width, mixture_ucb_width, pooled_variances, width};
    }
    /// Random Fourier features of the Gaussian kernel.
    pub mod fourier {
        pub use crate::fourier::{GaussianFeatures, MOST_FEATURES, features_for};
    }
    /// Influence functions: the effect of each sample on estimates.
    pub mod influence {
        pub use crate::influence::{Influences, Slopes};
    }
    /// What files of features say about themselves; arrays of any element type.
    pub mod load {
        pub use crate::load::about::{ABOUT_FILE, About, IDS_FILE};
        pub use crate::load::raw_arrays::{RawArray, RawArrays};
    }
    /// Which arms tables and sentences list, and how.
    pub mod listing {
        pub use crate::mixture::headline::{listed_arms, named_shares};
    }
    /// Tails of distributions.
    pub mod normal {
        pub use crate::normal::{probability, student_tail};
    }
    /// Number formatting of messages and tables.
    pub mod numbers {
        pub use crate::numbers::{brief, count, parse_bytes, percent, percents, shares};
    }
    /// Seeded random numbers.
    pub mod random {
        pub use crate::random::Random;
    }
    /// Objectives that are functions of the eigenvalues of a mixture.
    pub mod spectral {
        pub use crate::spectral::{MOST_ROWS, Smoothed, Spectral};
    }
    /// Texts in JSON and in Parquet, one by one.
    pub mod texts {
        #[cfg(feature = "parquet")]
        pub use crate::load::parquet::TextTable;
        pub use crate::load::texts::json::{Part, document, line};
    }
}

/// The examples of the crate's README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
