//! The error type of this crate: every variant carries the offending values, and its message says what to do.

use std::path::PathBuf;

/// Everything that can go wrong.
///
/// Every message is one sentence. It names the thing, the value that was found, and the fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },

    /// A file does not have the format of its extension, or its header contradicts its contents.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and the fix.
        problem: String,
    },

    /// An array cannot be used as features: its shape or its element type is wrong.
    #[error("{origin}: {problem}")]
    Array {
        /// File and array, or the arm's name.
        origin: String,
        /// What is wrong, and the fix.
        problem: String,
    },

    /// A feature is NaN, infinite, or too large for 32-bit floats.
    #[error(
        "{origin}: row {row}, column {column} is {value:?}, but features must be finite 32-bit floats; remove the row or repair the encoder (rows and columns are counted from 0)"
    )]
    NotFinite {
        /// File and array, or the arm's name.
        origin: String,
        /// The row, counted from 0.
        row: usize,
        /// The column, counted from 0.
        column: usize,
        /// The value that was read.
        value: f64,
    },

    /// Two sets that must have the same width do not.
    #[error(
        "{origin} has {found} columns, but {other} has {expected}; every arm and the reference must come from the same encoder"
    )]
    Width {
        /// The set that does not fit.
        origin: String,
        /// Its width.
        found: usize,
        /// The set that it was compared with.
        other: String,
        /// The width of that set.
        expected: usize,
    },

    /// An encoder cannot be opened.
    #[error("encoder {name}: {problem}")]
    Encoder {
        /// Its name.
        name: String,
        /// What is wrong, and the fix.
        problem: String,
    },

    /// Different encoders, or different preprocessing, made two sets.
    #[error(
        "{origin} was made by {found}, but {other} was made by {expected}; every arm and the reference must come from the same encoder with the same preprocessing"
    )]
    Encoding {
        /// The set that does not fit.
        origin: String,
        /// Its encoder.
        found: String,
        /// The set that it was compared with.
        other: String,
        /// The encoder of that set.
        expected: String,
    },

    /// The text of an objective, a kernel or a policy cannot be parsed.
    #[error("cannot read \"{text}\" at character {at}: {problem}")]
    Parse {
        /// The whole text.
        text: String,
        /// The position of the error, in characters counted from 1.
        at: usize,
        /// What was expected there.
        problem: String,
    },

    /// A setting is out of its range.
    #[error("{what} is {value}, but it must be {must}")]
    Setting {
        /// The setting's name.
        what: String,
        /// The value given.
        value: String,
        /// The allowed range, and the fix.
        must: String,
    },

    /// A required input is missing: a reference, costs, scores or a range.
    #[error("{what} needs {needs}")]
    Missing {
        /// The term, kernel or policy that needs it.
        what: String,
        /// What is missing, and how to provide it.
        needs: String,
        /// The missing input, if it is one that callers pass; they can then use their own name for it.
        input: Option<Input>,
    },

    /// Numbers given by arm do not match the arms: a name is unknown or repeated, an arm is missing, or a number is out
    /// of range.
    #[error("{problem}")]
    ByArm {
        /// The quantity: a cost, a weight, a floor, a score.
        what: String,
        /// The arm that is wrong or missing.
        arm: String,
        /// The whole message: what is wrong, and the fix.
        problem: String,
    },

    /// A term that is not a mean over pairs of samples was used where only such terms are supported.
    #[error(
        "{term} is not a mean over pairs of samples, so it can be optimised offline only, by solve; use {instead} in a session"
    )]
    Offline {
        /// The term.
        term: String,
        /// A similar term that is supported.
        instead: &'static str,
    },

    /// The quadratic program has no feasible point, or is not convex.
    #[error("the weights cannot be found: {problem}")]
    Program {
        /// The reason, and the fix.
        problem: String,
    },

    /// This session has no pull with this id.
    #[error("pull {id} was never asked for in this session; tell or abandon an id that `ask` returned")]
    UnknownPull {
        /// The id given.
        id: u64,
    },

    /// A pull was told or abandoned before.
    #[error("pull {id} was already answered or abandoned; every pull is told once")]
    RepeatedPull {
        /// The id given.
        id: u64,
    },

    /// The answer to a pull does not match it. The session is unchanged.
    #[error("pull {id} of arm {arm}: {problem}")]
    Answer {
        /// The pull's id.
        id: u64,
        /// The arm's name.
        arm: String,
        /// What does not match, and the fix.
        problem: String,
    },

    /// Known samples do not match the session, which is unchanged.
    #[error("known samples of arm {arm}: {problem}")]
    Known {
        /// The arm's name.
        arm: String,
        /// What does not match, and the fix.
        problem: String,
    },

    /// An event does not follow from the state of the session that it was applied to, or contradicts a check of that
    /// state.
    #[error("the {event} event {problem}")]
    Event {
        /// Kind of the event, and its identifier.
        event: String,
        /// What does not match, and the fix.
        problem: String,
    },

    /// A journal cannot be read: it is damaged, or has another format.
    #[error("the journal {problem}")]
    Journal {
        /// The reason, its position, and the fix.
        problem: String,
    },

    /// A recorded arm has no samples left, and sampling is without replacement.
    #[error(
        "arm {arm} has no samples left: policy {policy} asked for sample {asked} of {held} at round {round} (seed {seed}); record more samples, simulate fewer rounds, or draw with replacement"
    )]
    RanDry {
        /// The arm's name.
        arm: String,
        /// The policy that asked.
        policy: String,
        /// The index of the sample that it asked for, counted from 1.
        asked: usize,
        /// The number of samples of the arm.
        held: usize,
        /// The round.
        round: usize,
        /// The run's seed.
        seed: u64,
    },

    /// The computation was stopped by its [`Stop`](crate::compute::Stop) token and has no result.
    #[error("the computation was stopped before it finished")]
    Stopped,

    /// There is not enough memory, on the host or on a device.
    #[error(
        "{what} needs {needed} bytes of {place}{}; use fewer samples, half-precision storage, or an engine with more memory",
        free.map_or(String::new(), |free| format!(", and {free} are free"))
    )]
    Memory {
        /// What was being allocated.
        what: String,
        /// The memory: "host memory" or the name of a device.
        place: String,
        /// Number of bytes needed.
        needed: u64,
        /// Number of free bytes, if known.
        free: Option<u64>,
    },

    /// A compute device failed or was lost. Data that was resident on it is lost.
    #[error("{device} failed: {problem}; restart the call, or choose another engine")]
    Device {
        /// The device, as the engine describes it.
        device: String,
        /// The message of its driver.
        problem: String,
    },

    /// A snapshot cannot be restored: it is damaged, or it belongs to another objective.
    #[error("the snapshot cannot be restored: {problem}")]
    Snapshot {
        /// The reason, and the fix.
        problem: String,
    },
}

/// Inputs that an objective or a metric may need besides samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A reference set: features of real samples.
    Reference,
    /// The cost per sample, for each arm.
    Costs,
    /// Your own scores, one value per sample.
    Scores,
}

/// Longer numbers are shown with an exponent. All 64-bit integers are shorter.
const MAX_PLAIN_DIGITS: usize = 20;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The same error with its origin: a file, an array or an arm.
    #[must_use]
    pub fn of(self, name: impl Into<String>) -> Self {
        let origin = name.into();
        match self {
            Error::Array { problem, .. } => Error::Array { origin, problem },
            Error::NotFinite { row, column, value, .. } => Error::NotFinite { origin, row, column, value },
            Error::Width { found, other, expected, .. } => Error::Width { origin, found, other, expected },
            Error::Encoding { found, other, expected, .. } => Error::Encoding { origin, found, other, expected },
            other => other,
        }
    }

    pub(crate) fn setting(what: &str, value: impl ToString, must: impl Into<String>) -> Self {
        let mut value = value.to_string();
        // Without an exponent, 1e-300 has 300 zeros.
        if value.len() > MAX_PLAIN_DIGITS && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-')) {
            value = value.parse::<f64>().map_or(value, |number| format!("{number:e}"));
        }
        Error::Setting { what: what.into(), value, must: must.into() }
    }

    pub(crate) fn missing(what: impl Into<String>, needs: impl Into<String>) -> Self {
        Error::Missing { what: what.into(), needs: needs.into(), input: None }
    }

    /// [`Error::missing`] for an input that callers pass.
    pub(crate) fn missing_input(input: Input, what: impl Into<String>, needs: impl Into<String>) -> Self {
        Error::Missing { what: what.into(), needs: needs.into(), input: Some(input) }
    }
}
