//! Finds the weights of an encoder among the files that users already have.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::environment::Environment;
use crate::encoders::file::tokenizer_beside;
use crate::encoders::{Kind, NamedEncoder, Role, Source};

/// Where the weights of an encoder are, or how to get them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// They are on this machine.
    Found(Found),
    /// They are not.
    Missing(Missing),
}

/// Weights on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The model: an ONNX file, or a `.pt` or `.pth` file of the FID Inception.
    pub model: PathBuf,
    /// The `tokenizer.json` of a model of texts.
    pub tokenizer: Option<PathBuf>,
    /// The root folder of the model, where settings of sentence-transformers are.
    pub folder: PathBuf,
    /// Where they were found.
    pub origin: Origin,
}

/// Where weights were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// At the path that the user gave.
    Given,
    /// In modelmix's own cache.
    Cache,
    /// In the Hugging Face cache.
    HuggingFace,
    /// In the cache of torch.hub.
    TorchHub,
}

/// Weights that are not on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The files that were looked for.
    pub looked: Vec<PathBuf>,
    /// What to do, in one sentence.
    pub how_to_get: String,
}

/// Finds the weights of an encoder: at the given path alone, or in the caches.
///
/// A given path is the model, or a folder with it. The own cache comes before that of Hugging Face, and that before
/// torch.hub's.
pub fn locate(encoder: &NamedEncoder, given: Option<&Path>, environment: &Environment) -> Location {
    let mut search = Search { encoder, looked: Vec::new() };
    let found = match given {
        Some(path) => search.given(path),
        None => search
            .own_cache(environment)
            .or_else(|| search.hub_cache(environment))
            .or_else(|| search.torch_hub(environment)),
    };
    match found {
        Some(found) => Location::Found(found),
        None => {
            let how_to_get = how_to_get(encoder, given, environment);
            Location::Missing(Missing { looked: search.looked, how_to_get })
        }
    }
}

/// The path of a file in modelmix's own cache.
pub(super) fn cached(cache: &Path, source: &Source, path: &str) -> PathBuf {
    match source {
        Source::Hub { repository, .. } => joined(&cache.join("hub"), &format!("{repository}/{path}")),
        Source::Address { .. } => cache.join("files").join(path),
    }
}

/// The search for one encoder.
struct Search<'a> {
    encoder: &'a NamedEncoder,
    looked: Vec<PathBuf>,
}

impl Search<'_> {
    fn needs_tokenizer(&self) -> bool {
        matches!(self.encoder.kind, Kind::Text { .. })
    }

    fn is_there(&mut self, path: &Path) -> bool {
        let there = path.is_file();
        if !there {
            self.looked.push(path.into());
        }
        there
    }

    /// A model with the tokenizer next to it, if it needs one.
    fn model(&mut self, model: PathBuf, origin: Origin) -> Option<Found> {
        if !self.is_there(&model) {
            return None;
        }
        let tokenizer = tokenizer_beside(&model);
        let parent = model.parent().unwrap_or(Path::new(""));
        if self.needs_tokenizer() && tokenizer.is_none() {
            self.looked.push(parent.join("tokenizer.json"));
            return None;
        }
        let in_onnx = parent.file_name().is_some_and(|name| name == "onnx");
        let folder = if in_onnx { parent.parent().unwrap_or(parent) } else { parent }.into();
        Some(Found { model, tokenizer: tokenizer.filter(|_| self.needs_tokenizer()), folder, origin })
    }

    fn given(&mut self, path: &Path) -> Option<Found> {
        if !path.is_dir() {
            return self.model(path.into(), Origin::Given);
        }
        let mut names: Vec<String> = vec![format!("{}.onnx", self.encoder.name)];
        for file in self.encoder.sources.iter().flat_map(Source::files).filter(|file| file.role == Role::Model) {
            let name = file.path.rsplit('/').next().unwrap_or(file.path);
            names.extend([file.path.to_string(), name.to_string()]);
        }
        names.extend(["onnx/model.onnx".into(), "model.onnx".into()]);
        let mut tried = Vec::new();
        for name in names {
            if !tried.contains(&name) {
                if let Some(found) = self.model(joined(path, &name), Origin::Given) {
                    return Some(found);
                }
                tried.push(name);
            }
        }
        None
    }

    fn own_cache(&mut self, environment: &Environment) -> Option<Found> {
        let cache = environment.cache()?;
        // A user's own export comes first: it may have the features that published files do not have to the last digit.
        let exports = cache.join("encoders");
        let name = self.encoder.name;
        for export in [exports.join(format!("{name}.onnx")), exports.join(name).join("model.onnx")] {
            if let Some(found) = self.model(export, Origin::Cache) {
                return Some(found);
            }
        }
        let mut sources = self.encoder.sources.iter();
        sources.find_map(|source| self.all(source, Origin::Cache, |path| cached(&cache, source, path)))
    }

    fn hub_cache(&mut self, environment: &Environment) -> Option<Found> {
        let cache = environment.hub_cache()?;
        for source in self.encoder.sources {
            let Source::Hub { repository, revision, .. } = source else { continue };
            let folder = cache.join(format!("models--{}", repository.replace('/', "--")));
            let snapshots = snapshots(&folder, revision);
            if snapshots.is_empty() {
                self.looked.push(folder);
            }
            for snapshot in snapshots {
                if let Some(found) = self.all(source, Origin::HuggingFace, |path| joined(&snapshot, path)) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn torch_hub(&mut self, environment: &Environment) -> Option<Found> {
        let checkpoints = environment.torch_checkpoints()?;
        self.encoder.sources.iter().find_map(|source| {
            let Source::Address { file, .. } = source else { return None };
            self.model(checkpoints.join(file.path), Origin::TorchHub)
        })
    }

    /// The model of a source, if all files that it needs are there.
    fn all(&mut self, source: &Source, origin: Origin, place: impl Fn(&str) -> PathBuf) -> Option<Found> {
        let needed = source.files().iter().filter(|file| file.role != Role::Settings);
        let mut model = None;
        for file in needed {
            let path = place(file.path);
            if !self.is_there(&path) {
                return None;
            }
            if file.role == Role::Model {
                model = Some(path);
            }
        }
        self.model(model?, origin)
    }
}

/// The snapshots of a repository in the Hugging Face cache: the wanted revision, `main`, then others from the newest.
fn snapshots(folder: &Path, revision: &str) -> Vec<PathBuf> {
    let root = folder.join("snapshots");
    let referred = |name: &str| std::fs::read_to_string(folder.join("refs").join(name)).ok();
    let mut found: Vec<PathBuf> = Vec::new();
    for commit in [Some(revision.to_string()), referred(revision), referred("main")].into_iter().flatten() {
        // A reference is a file of a cache, so it could name any path.
        let commit = commit.trim();
        if !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            found.push(root.join(commit));
        }
    }
    let mut others: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(&root)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            (modified.unwrap_or(SystemTime::UNIX_EPOCH), entry.path())
        })
        .collect();
    others.sort();
    found.extend(others.into_iter().rev().map(|(_, path)| path));
    let mut distinct: Vec<PathBuf> = Vec::new();
    found.into_iter().filter(|path| path.is_dir()).for_each(|path| {
        if !distinct.contains(&path) {
            distinct.push(path);
        }
    });
    distinct
}

/// A path of the table, which has slashes, below a folder.
fn joined(folder: &Path, path: &str) -> PathBuf {
    path.split('/').fold(folder.to_path_buf(), |path, part| path.join(part))
}

/// How to get the weights of an encoder, in one sentence.
fn how_to_get(encoder: &NamedEncoder, given: Option<&Path>, environment: &Environment) -> String {
    let name = encoder.name;
    if let Some(path) = given {
        let files =
            if matches!(encoder.kind, Kind::Text { .. }) { "the model and its tokenizer.json" } else { "the model" };
        return format!("{} does not have {files}; give the file, or a folder that has them", path.display());
    }
    match encoder.sources.first() {
        Some(source) => {
            let origin = match source {
                Source::Hub { repository, .. } => format!("{}/{repository}", environment.endpoint()),
                Source::Address { url, .. } => (*url).to_string(),
            };
            format!("run `modelmix encoders pull {name}`, which downloads {origin}, or give the path of its files")
        }
        None => {
            let place = environment.cache().map_or(String::new(), |cache| {
                let place = cache.join("encoders").join(format!("{name}.onnx"));
                format!(", as the path of the weights or at {}", place.display())
            });
            format!("no ONNX file is published; export it with `{}` and give the result{place}", encoder.export)
        }
    }
}
