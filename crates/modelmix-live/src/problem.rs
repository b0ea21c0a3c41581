//! What is wrong with a run: one sentence with the fix.

use std::path::PathBuf;

/// Why a run cannot be started, continued or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The library rejected an input.
    #[error(transparent)]
    Library(#[from] modelmix::Error),
    /// The configuration is not valid. The message names the file, the key and the fix.
    #[error("{0}")]
    Config(String),
    /// An arm, an encoder or a score cannot be opened.
    #[error("{what}: {problem}")]
    Open {
        /// As in "arm flux".
        what: String,
        /// What is wrong, and the fix.
        problem: String,
    },
    /// The folder of a run cannot be used.
    #[error("{}: {problem}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong, and the fix.
        problem: String,
    },
    /// The database cannot be read or written.
    #[error("{}: {source}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Why features or scores of a sample cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationProblem {
    /// The sample cannot be used: it is not an image, or is refused. Others may be used.
    #[error("{0}")]
    Sample(String),
    /// The encoder or the score cannot be used. The sample may be evaluated later, after that is repaired.
    #[error("{0}")]
    Evaluator(String),
}

impl From<EvaluationProblem> for String {
    fn from(problem: EvaluationProblem) -> Self {
        problem.to_string()
    }
}

/// A result whose error is a [`Problem`].
pub type Result<T, E = Problem> = std::result::Result<T, E>;
