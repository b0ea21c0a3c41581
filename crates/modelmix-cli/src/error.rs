//! What can end a command, and the exit code that says so.

use std::path::{Path, PathBuf};

use modelmix::Input;

/// Why a command ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library refused the input, with its sentence.
    Library(modelmix::Error),
    /// The command line refused it.
    Input(String),
    /// A file could not be written.
    Write(PathBuf, std::io::Error),
    /// A check failed, and was reported.
    Check,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A sentence of the command line's own.
    pub(crate) fn input(sentence: impl Into<String>) -> Self {
        Failure::Input(sentence.into())
    }

    /// Standard output could not be written.
    pub(crate) fn output(error: std::io::Error) -> Self {
        Failure::Write(Path::new("standard output").into(), error)
    }

    /// 1 a check failed, 2 bad input or output that cannot be written; 0 is for commands that did everything asked for.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Check => 1,
            Failure::Library(_) | Failure::Input(_) | Failure::Write(..) => 2,
        }
    }

    /// The sentence for a person, on one line whatever files are called; nothing where all has been said.
    pub(crate) fn sentence(&self) -> Option<String> {
        let sentence = match self {
            Failure::Library(error) => format!("{error}{}", option(error)),
            Failure::Input(sentence) => sentence.clone(),
            Failure::Write(path, error) => format!("cannot write {}: {error}", path.display()),
            Failure::Check => return None,
        };
        let plain =
            |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
        Some(sentence.chars().map(plain).collect())
    }
}

/// The option that gives what the library misses, which knows no options.
fn option(error: &modelmix::Error) -> &'static str {
    let modelmix::Error::Missing { input: Some(input), .. } = error else { return "" };
    match input {
        Input::Reference => "; give --reference PATH",
        Input::Costs => "; give --costs ARM=COST for every arm",
        Input::Scores => "; give --scores FILE",
        _ => "",
    }
}

impl From<modelmix::Error> for Failure {
    fn from(error: modelmix::Error) -> Self {
        Failure::Library(error)
    }
}
