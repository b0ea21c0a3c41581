//! Reasons for a command to fail, and their exit codes.

use std::path::{Path, PathBuf};

use modelmix::Input;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library rejected the input.
    Library(modelmix::Error),
    /// The command line rejected the input.
    Input(String),
    /// A file could not be written.
    Write(PathBuf, std::io::Error),
    /// A check failed, and was reported.
    Check,
    /// A run was interrupted, and can be resumed.
    Interrupted,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// An error message of the command line.
    pub(crate) fn input(sentence: impl Into<String>) -> Self {
        Failure::Input(sentence.into())
    }

    /// Standard output could not be written.
    pub(crate) fn output(error: std::io::Error) -> Self {
        Failure::Write(Path::new("standard output").into(), error)
    }

    /// 1 if a check failed, 2 for bad input or output that cannot be written. Success is 0.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Check => 1,
            Failure::Interrupted => 130,
            Failure::Library(_) | Failure::Input(_) | Failure::Write(..) => 2,
        }
    }

    /// The error message, on one line even if file names contain line breaks; `None` if it was already printed.
    pub(crate) fn sentence(&self) -> Option<String> {
        let sentence = match self {
            Failure::Library(error) => format!("{error}{}", option(error)),
            Failure::Input(sentence) => sentence.clone(),
            Failure::Write(path, error) => format!("cannot write {}: {error}", path.display()),
            Failure::Check | Failure::Interrupted => return None,
        };
        let plain =
            |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
        Some(sentence.chars().map(plain).collect())
    }
}

/// The option that provides an input that the library misses.
fn option(error: &modelmix::Error) -> &'static str {
    let modelmix::Error::Missing { input: Some(input), .. } = error else { return "" };
    match input {
        Input::Reference => "; give --reference PATH",
        Input::Costs => "; give --costs ARM=COST for every arm",
        Input::Scores => "; give --scores FILE",
        _ => "",
    }
}

impl From<modelmix_live::Problem> for Failure {
    fn from(problem: modelmix_live::Problem) -> Self {
        match problem {
            modelmix_live::Problem::Library(error) => Failure::Library(error),
            problem => Failure::Input(problem.to_string()),
        }
    }
}

impl From<modelmix::Error> for Failure {
    fn from(error: modelmix::Error) -> Self {
        Failure::Library(error)
    }
}
