//! The tools whose preprocessing can be reproduced, with their names on the command line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// A tool whose features people compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tool {
    /// torch-fidelity 0.4.
    TorchFidelity,
    /// clean-fid, mode `clean`.
    CleanFid,
    /// pytorch-fid.
    PytorchFid,
    /// dgm-eval.
    DgmEval,
    /// dgm-eval with `--clean_resize`.
    DgmEvalClean,
    /// cmmd-pytorch.
    Cmmd,
    /// Image processors of `transformers` on torchvision: the default from version 5 on.
    #[serde(rename = "huggingface")]
    HuggingFace,
    /// Image processors of `transformers` on Pillow: the default up to version 4.
    #[serde(rename = "huggingface-pil")]
    HuggingFacePil,
    /// The feature extractors of the authors of Mixture-UCB.
    MixtureUcb,
    /// OpenCLIP, and OpenAI's `clip` package.
    OpenClip,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 10] = [
        Self::TorchFidelity,
        Self::CleanFid,
        Self::PytorchFid,
        Self::DgmEval,
        Self::DgmEvalClean,
        Self::Cmmd,
        Self::HuggingFace,
        Self::HuggingFacePil,
        Self::MixtureUcb,
        Self::OpenClip,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::TorchFidelity => "torch-fidelity",
            Self::CleanFid => "clean-fid",
            Self::PytorchFid => "pytorch-fid",
            Self::DgmEval => "dgm-eval",
            Self::DgmEvalClean => "dgm-eval-clean",
            Self::Cmmd => "cmmd",
            Self::HuggingFace => "huggingface",
            Self::HuggingFacePil => "huggingface-pil",
            Self::MixtureUcb => "mixture-ucb",
            Self::OpenClip => "open-clip",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Tool {
    type Err = Problem;

    fn from_str(name: &str) -> Result<Self, Problem> {
        Self::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Problem::new(format!("no preprocessing is named after a tool {name:?}; choose one of {names}"))
        })
    }
}
