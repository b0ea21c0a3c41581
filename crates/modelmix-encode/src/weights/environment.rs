//! The environment that weights are searched in: variables, the home folder, the operating system. It is read once and
//! passed in, so that nothing depends on hidden state.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variables that are read.
const VARIABLES: [&str; 16] = [
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "HOME",
    "HUGGINGFACE_HUB_CACHE",
    "HUGGING_FACE_HUB_TOKEN",
    "LOCALAPPDATA",
    "MODELMIX_CACHE",
    "TORCH_HOME",
    "TRANSFORMERS_OFFLINE",
    "USERPROFILE",
    "XDG_CACHE_HOME",
];

/// The hub, unless `HF_ENDPOINT` names another one.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// The maximum size of a token file.
const LONGEST_TOKEN: u64 = 1 << 12;

/// The conventions of an operating system for caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `$XDG_CACHE_HOME`, default `~/.cache`.
    Unix,
    /// `~/Library/Caches`.
    MacOs,
    /// `%LOCALAPPDATA%`.
    Windows,
}

/// Variables of the environment, and the platform.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    platform: Platform,
    /// Whether proxies that the process is configured for are used.
    pub(super) with_proxies: bool,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let platform = match std::env::consts::OS {
            "windows" => Platform::Windows,
            "macos" => Platform::MacOs,
            _ => Platform::Unix,
        };
        let variables = VARIABLES.iter().filter_map(|name| Some((name.to_string(), std::env::var_os(name)?)));
        Self { with_proxies: true, ..Self::new(platform, variables) }
    }

    /// An environment of these variables alone, without proxies.
    pub fn new(platform: Platform, variables: impl IntoIterator<Item = (String, OsString)>) -> Self {
        Self { variables: variables.into_iter().collect(), platform, with_proxies: false }
    }

    /// A variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<&OsString> {
        self.variables.get(name).filter(|value| !value.is_empty())
    }

    /// A path in a variable, with `~` for the home folder.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let path = Path::new(self.variable(name)?);
        match path.strip_prefix("~") {
            Ok(rest) => Some(self.home()?.join(rest)),
            Err(_) => Some(path.into()),
        }
    }

    fn home(&self) -> Option<PathBuf> {
        let name = if self.platform == Platform::Windows { "USERPROFILE" } else { "HOME" };
        self.variable(name).map(PathBuf::from)
    }

    /// Whether a variable is set to a true value.
    fn is_on(&self, name: &str) -> bool {
        let value = self.variable(name).map(|value| value.to_string_lossy().to_ascii_lowercase());
        value.is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.as_str()))
    }

    /// The folder of modelmix's own cache: `$MODELMIX_CACHE`, or `modelmix` in the user's cache folder; `None` if there
    /// is no home folder.
    pub fn cache(&self) -> Option<PathBuf> {
        self.path("MODELMIX_CACHE").or_else(|| {
            let caches = match self.platform {
                Platform::Unix => self.dot_cache()?,
                Platform::MacOs => self.home()?.join("Library/Caches"),
                Platform::Windows => {
                    self.path("LOCALAPPDATA").or_else(|| Some(self.home()?.join("AppData").join("Local")))?
                }
            };
            Some(caches.join("modelmix"))
        })
    }

    /// The folder that Python's tools use on every platform: `$XDG_CACHE_HOME`, default `~/.cache`.
    fn dot_cache(&self) -> Option<PathBuf> {
        self.path("XDG_CACHE_HOME").or_else(|| Some(self.home()?.join(".cache")))
    }

    fn hf_home(&self) -> Option<PathBuf> {
        self.path("HF_HOME").or_else(|| Some(self.dot_cache()?.join("huggingface")))
    }

    /// The Hugging Face cache: `$HF_HUB_CACHE`, or `hub` in `$HF_HOME`, default `~/.cache/huggingface/hub`.
    pub fn hub_cache(&self) -> Option<PathBuf> {
        let named = self.path("HF_HUB_CACHE").or_else(|| self.path("HUGGINGFACE_HUB_CACHE"));
        named.or_else(|| Some(self.hf_home()?.join("hub")))
    }

    /// The folder of files that torch.hub downloaded: in `$TORCH_HOME`, default `~/.cache/torch`.
    pub fn torch_checkpoints(&self) -> Option<PathBuf> {
        let home = self.path("TORCH_HOME").or_else(|| Some(self.dot_cache()?.join("torch")));
        home.map(|home| home.join("hub").join("checkpoints"))
    }

    /// The address of the hub: `$HF_ENDPOINT`, default `https://huggingface.co`.
    pub fn endpoint(&self) -> String {
        let named = self.variable("HF_ENDPOINT").map(|endpoint| endpoint.to_string_lossy().into_owned());
        named.unwrap_or_else(|| DEFAULT_ENDPOINT.into()).trim().trim_end_matches('/').to_string()
    }

    /// The user's token for the hub: `$HF_TOKEN`, or the file that `hf auth login` writes.
    pub fn token(&self) -> Option<String> {
        if self.is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            return None;
        }
        let named = self.variable("HF_TOKEN").or_else(|| self.variable("HUGGING_FACE_HUB_TOKEN"));
        let token = match named {
            Some(token) => token.to_string_lossy().into_owned(),
            None => {
                let path = self.path("HF_TOKEN_PATH").or_else(|| Some(self.hf_home()?.join("token")))?;
                let metadata = std::fs::metadata(&path).ok()?;
                if !metadata.is_file() || metadata.len() > LONGEST_TOKEN {
                    return None;
                }
                std::fs::read_to_string(path).ok()?
            }
        };
        Some(token.trim().to_string()).filter(|token| !token.is_empty())
    }

    /// Whether the user forbids downloads: `$HF_HUB_OFFLINE` or `$TRANSFORMERS_OFFLINE`.
    pub fn is_offline(&self) -> bool {
        self.is_on("HF_HUB_OFFLINE") || self.is_on("TRANSFORMERS_OFFLINE")
    }
}
