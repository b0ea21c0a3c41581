//! Errors of the store, with the file or folder that they are about.

use std::io;
use std::path::Path;

use crate::problem::Problem;

/// A problem with a run's folder.
pub(super) fn in_folder(folder: &Path, problem: impl Into<String>) -> Problem {
    Problem::Folder { folder: folder.to_owned(), problem: problem.into() }
}

/// An error of the operating system.
pub(super) fn in_file(path: &Path, source: io::Error) -> Problem {
    Problem::File { path: path.to_owned(), source }
}

/// An error of SQLite.
pub(super) fn in_database(path: &Path, source: rusqlite::Error) -> Problem {
    Problem::Database { path: path.to_owned(), source }
}
