//! Arguments of encoders: how images and texts become features.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Common;
use modelmix_encode::runtime::Device;

/// How images and texts become features.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct EncoderArgs {
    /// Encoder of images or texts: a name (`modelmix encoders` lists them) or an .onnx file
    #[arg(long, value_name = "NAME|FILE", help_heading = "Encoder")]
    pub(crate) encoder: Option<String>,
    /// Weights of the encoder [default: found in the caches of modelmix, Hugging Face and torch.hub]
    #[arg(long, value_name = "PATH", requires = "encoder", help_heading = "Encoder")]
    pub(crate) encoder_weights: Option<PathBuf>,
    /// Tool whose preprocessing is used, as in dgm-eval, dgm-eval+pillow-12 for the resizing of Pillow up to version 12, or
    /// clip-vit-b32/clean-fid for an own .onnx file [default: the encoder's first; `modelmix encoders show NAME` lists them]
    #[arg(long, value_name = "TOOL", requires = "encoder", help_heading = "Encoder")]
    pub(crate) preprocessing: Option<String>,
    /// Runtime of the network: rten is built in, onnxruntime is the library of an installed package
    #[arg(long, value_name = "NAME", default_value_t, value_enum, help_heading = "Encoder")]
    pub(crate) runtime: RuntimeName,
    /// Device of the network; cuda needs --runtime onnxruntime with its GPU package
    #[arg(long, value_name = "NAME", default_value_t, help_heading = "Encoder")]
    pub(crate) device: Device,
    /// What to do with samples that cannot be read: refuse, or skip them and count them
    #[arg(long, value_name = "WHAT", default_value_t, value_enum, help_heading = "Encoder")]
    pub(crate) on_error: OnError,
    /// Folder of the feature cache [default: modelmix/features in the user's cache folder]
    #[arg(long, value_name = "FOLDER", help_heading = "Encoder")]
    pub(crate) cache: Option<PathBuf>,
    /// Neither read nor write cached features
    #[arg(long, conflicts_with = "cache", help_heading = "Encoder")]
    pub(crate) no_cache: bool,
}

/// Runtimes of networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeName {
    #[default]
    Rten,
    Onnxruntime,
}

/// What to do with samples that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    #[default]
    Refuse,
    Skip,
}

/// `modelmix encode`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: modelmix encode flux=out/flux sdxl=out/sdxl --encoder dinov2-vitl14 --preset dgm-eval --out features.npz"
)]
pub(crate) struct EncodeArgs {
    /// Folders, .zip, .npy or .npz files of images; .txt, .jsonl, .json, .csv or .parquet files of texts: [name=]path[:key]
    #[arg(required = true, value_name = "SAMPLES")]
    pub(crate) samples: Vec<String>,
    /// File of features to write: .npz or .safetensors, with one array per name, the ids of the samples and the encoder
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) encoder: EncoderArgs,
    /// Another name of --encoder-weights
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "encoder_weights",
        requires = "encoder",
        help_heading = "Encoder"
    )]
    pub(crate) weights: Option<PathBuf>,
    /// Another name of --preprocessing
    #[arg(long, value_name = "TOOL", conflicts_with = "preprocessing", requires = "encoder", help_heading = "Encoder")]
    pub(crate) preset: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `modelmix encoders`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EncodersArgs {
    #[command(subcommand)]
    pub(crate) action: Option<EncodersAction>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What `modelmix encoders` does.
#[derive(Debug, Subcommand)]
pub(crate) enum EncodersAction {
    /// List every encoder, and whether its weights are on this machine
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Show one encoder: presets, width, where its weights are or how to get them
    Show {
        /// Encoder
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Download the weights of an encoder; an interrupted download is resumed
    Pull {
        /// Encoder
        name: String,
        #[command(flatten)]
        common: Common,
    },
}
