//! The one error type: every variant carries the offending values and its sentence says what to do about them.

use std::path::PathBuf;

/// What can go wrong, from a hostile file to a pull that was never asked for.
///
/// Every message is a single sentence for a person: it names the thing, the value that was found, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read a file.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// A file is not what its name promises, or its header does not agree with its bytes.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what to do.
        problem: String,
    },

    /// An array cannot serve as features: its shape or its element type is wrong.
    #[error("{origin}: {problem}")]
    Array {
        /// File and array, or the arm's name.
        origin: String,
        /// What is wrong with it and what to do.
        problem: String,
    },

    /// A feature is NaN, infinite, or too large for 32-bit floats.
    #[error(
        "{origin}: row {row}, column {column} is {value:?}, and features must be finite 32-bit floats; remove the row or repair the encoder (rows and columns are counted from 0)"
    )]
    NotFinite {
        /// File and array, or the arm's name.
        origin: String,
        /// The row, counted from 0.
        row: usize,
        /// The column, counted from 0.
        column: usize,
        /// The value as it was read.
        value: f64,
    },

    /// Two sets that must have the same width do not.
    #[error(
        "{origin} has {found} columns where {other} has {expected}; every arm and the reference must come from the same encoder"
    )]
    Width {
        /// The set that does not fit.
        origin: String,
        /// Its width.
        found: usize,
        /// The set it was compared with.
        other: String,
        /// That set's width.
        expected: usize,
    },

    /// The text of an objective, a kernel or a policy could not be read.
    #[error("cannot read \"{text}\" at character {at}: {problem}")]
    Parse {
        /// The whole text.
        text: String,
        /// Where reading stopped, in characters counted from 1.
        at: usize,
        /// What was expected there.
        problem: String,
    },

    /// A setting is outside what it may be.
    #[error("{what} is {value}, but it must be {must}")]
    Setting {
        /// The setting's name.
        what: String,
        /// The value given.
        value: String,
        /// What is allowed, and the remedy.
        must: String,
    },

    /// The objective needs something that was not given: a reference set, costs, scores or a range.
    #[error("{what} needs {needs}")]
    Missing {
        /// The term, kernel or policy that needs it.
        what: String,
        /// What to give, and how.
        needs: String,
        /// The input that would provide it, if it is one that callers hand over; they know what they call it.
        input: Option<Input>,
    },

    /// What was given by arm does not fit the arms: it names a stranger, names one twice, leaves one out, or is out of range.
    #[error("{problem}")]
    ByArm {
        /// What was given: a cost, a weight, a floor, a score.
        what: String,
        /// The arm that is wrong or missing.
        arm: String,
        /// The whole sentence: what is wrong, and what to do.
        problem: String,
    },

    /// A term that is not a mean over pairs of samples was given to something that knows only such means.
    #[error(
        "{term} is not a mean over pairs of samples, so it can be optimised offline only, by solve; use {instead} in a session"
    )]
    Offline {
        /// The term.
        term: String,
        /// A term of the same kind that is one.
        instead: &'static str,
    },

    /// The quadratic program has no feasible point, or is not convex.
    #[error("the weights cannot be found: {problem}")]
    Program {
        /// Why, and what to do.
        problem: String,
    },

    /// A pull's id was never given out by this session.
    #[error("pull {id} was never asked for in this session; tell or abandon an id that `ask` returned")]
    UnknownPull {
        /// The id given.
        id: u64,
    },

    /// A pull was answered or abandoned before.
    #[error("pull {id} was already answered or abandoned; every pull is told once")]
    RepeatedPull {
        /// The id given.
        id: u64,
    },

    /// What was told of a pull does not fit it; the session is as it was before.
    #[error("pull {id} of arm {arm}: {problem}")]
    Answer {
        /// The pull's id.
        id: u64,
        /// The arm's name.
        arm: String,
        /// What does not fit, and what would.
        problem: String,
    },

    /// Recorded samples that were given as known do not fit; the session is as it was before.
    #[error("known samples of arm {arm}: {problem}")]
    Known {
        /// The arm's name.
        arm: String,
        /// What does not fit, and what would.
        problem: String,
    },

    /// An event does not follow from the state of the session it was applied to, or from a check of it.
    #[error("the {event} event {problem}")]
    Event {
        /// What kind of event, and which.
        event: String,
        /// What does not fit, and what to do.
        problem: String,
    },

    /// A journal cannot be read: it is damaged, or of another form.
    #[error("the journal {problem}")]
    Journal {
        /// Why, where, and what to do.
        problem: String,
    },

    /// A recorded arm has no sample left, and samples are drawn without replacement.
    #[error(
        "arm {arm} ran dry: policy {policy} asked for sample {asked} of {held} at round {round} (seed {seed}); record more samples, simulate fewer rounds, or draw with replacement"
    )]
    RanDry {
        /// The arm's name.
        arm: String,
        /// The policy that asked.
        policy: String,
        /// Which sample it asked for, counted from 1.
        asked: usize,
        /// How many the arm has.
        held: usize,
        /// The round.
        round: usize,
        /// The run's seed.
        seed: u64,
    },

    /// The work was stopped by its [`Stop`](crate::compute::Stop) token; it has no result.
    #[error("the work was stopped before it was done")]
    Stopped,

    /// There is not enough memory, on the host or on a device.
    #[error(
        "{what} needs {needed} bytes of {place}{}; use fewer samples, half-precision storage, or an engine with more memory",
        free.map_or(String::new(), |free| format!(", and {free} are free"))
    )]
    Memory {
        /// What was to be allocated.
        what: String,
        /// Whose memory: "host memory" or the name of a device.
        place: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes that are free, if that is known.
        free: Option<u64>,
    },

    /// A compute device failed or was lost. Data that was resident on it is gone.
    #[error("{device} failed: {problem}; restart the call, or choose another engine")]
    Device {
        /// The device, as the engine describes it.
        device: String,
        /// What its driver said.
        problem: String,
    },

    /// A snapshot cannot be restored: it is damaged, or belongs to another objective.
    #[error("the snapshot cannot be restored: {problem}")]
    Snapshot {
        /// Why, and what to do.
        problem: String,
    },
}

/// What an objective or a metric may need beside the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A reference set: features of real samples.
    Reference,
    /// The cost of a sample of each arm.
    Costs,
    /// Scores of the user's own, one value per sample.
    Scores,
}

/// Numbers of more characters are shown with an exponent; all whole numbers of 64 bits have fewer.
const MAX_PLAIN_DIGITS: usize = 20;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The same error, with the place where it happened named: a file, an array or an arm.
    #[must_use]
    pub fn of(self, name: impl Into<String>) -> Self {
        let origin = name.into();
        match self {
            Error::Array { problem, .. } => Error::Array { origin, problem },
            Error::NotFinite { row, column, value, .. } => Error::NotFinite { origin, row, column, value },
            Error::Width { found, other, expected, .. } => Error::Width { origin, found, other, expected },
            other => other,
        }
    }

    pub(crate) fn setting(what: &str, value: impl ToString, must: impl Into<String>) -> Self {
        let mut value = value.to_string();
        // 1e-300 has 300 zeros without an exponent, and is as easily read as it was written with one.
        if value.len() > MAX_PLAIN_DIGITS && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-')) {
            value = value.parse::<f64>().map_or(value, |number| format!("{number:e}"));
        }
        Error::Setting { what: what.into(), value, must: must.into() }
    }

    pub(crate) fn missing(what: impl Into<String>, needs: impl Into<String>) -> Self {
        Error::Missing { what: what.into(), needs: needs.into(), input: None }
    }

    /// The same for an input that was not handed over.
    pub(crate) fn missing_input(input: Input, what: impl Into<String>, needs: impl Into<String>) -> Self {
        Error::Missing { what: what.into(), needs: needs.into(), input: Some(input) }
    }
}
