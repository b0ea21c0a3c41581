//! Which engine a program is told to use, as text. Engines on GPUs are in other crates.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The engine that a program is told to use: `auto`, `cpu`, `cuda` or `cuda:1`.
///
/// ```
/// use modelmix::compute::EngineChoice;
/// assert_eq!("cuda:1".parse::<EngineChoice>()?, EngineChoice::Cuda { device: Some(1) });
/// assert_eq!(EngineChoice::default().to_string(), "auto");
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineChoice {
    /// A GPU if there is one and the work is large enough, otherwise the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA GPU, or an error.
    Cuda {
        /// Its number, counted from 0; the first, or that of the input, if `None`.
        device: Option<usize>,
    },
}

impl FromStr for EngineChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(EngineChoice::Auto),
            "cpu" => Ok(EngineChoice::Cpu),
            "cuda" => Ok(EngineChoice::Cuda { device: None }),
            _ => text
                .strip_prefix("cuda:")
                .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|number| number.parse().ok())
                .map(|device| EngineChoice::Cuda { device: Some(device) })
                .ok_or_else(|| Error::setting("engine", text, "auto, cpu, cuda, or a device such as cuda:1")),
        }
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineChoice::Auto => write!(f, "auto"),
            EngineChoice::Cpu => write!(f, "cpu"),
            EngineChoice::Cuda { device: None } => write!(f, "cuda"),
            EngineChoice::Cuda { device: Some(device) } => write!(f, "cuda:{device}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:12"] {
            assert_eq!(text.parse::<EngineChoice>().expect("an engine").to_string(), text);
        }
        for text in
            ["", "CPU", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda 1", "cuda:99999999999999999999999"]
        {
            let problem = text.parse::<EngineChoice>().expect_err("no engine").to_string();
            assert!(problem.contains("auto, cpu, cuda"), "{problem}");
        }
    }
}
