//! A set of samples of one kind: images or texts.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use modelmix::load::ArmSource;
use modelmix::{Error, Result};
use sha2::{Digest as _, Sha256};

use super::folder::unreadable;
use super::texts::{self, TextSamples};
use super::{ImageSamples, array, holds_images, names};
use crate::cache::Digest;
use crate::decode::Limits;
use crate::image::Image;
use crate::problem::Problem;

/// The alternative to repairing a sample, unless a front end names its own.
const SKIP_HINT: &str = "set on-error to skip, to leave such samples out";

/// Samples of one model: images or texts.
#[derive(Debug)]
pub struct Samples {
    /// Where they come from, for messages.
    source: PathBuf,
    content: Content,
    /// The alternative to repairing a sample, for messages.
    skip_hint: &'static str,
}

#[derive(Debug)]
enum Content {
    Images(ImageSamples),
    Texts(TextSamples),
}

/// What samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Images.
    Images,
    /// Texts.
    Texts,
}

impl SampleKind {
    /// The kind of samples at a path, without reading them; `None` if it has neither images nor texts, such as a file of
    /// features. In a table, a key names a column of texts.
    pub fn at(path: &Path, key: Option<&str>) -> Option<Self> {
        if holds_images(path, key) {
            return Some(SampleKind::Images);
        }
        texts::holds_texts(path, key).then_some(SampleKind::Texts)
    }

    /// Its name in messages, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            SampleKind::Images => "images",
            SampleKind::Texts => "texts",
        }
    }
}

impl Samples {
    /// Opens the samples of a source, by the name of the arm.
    ///
    /// # Errors
    /// If the source has neither images nor texts, cannot be read, or has a line or row that is no text.
    pub fn open(source: &ArmSource) -> Result<Vec<(String, Samples)>> {
        let sets = Self::open_with_problems(source)?;
        let broken = |samples: &Samples| Some(samples.error(samples.first_problem()?.1.to_string()));
        match sets.iter().find_map(|(_, samples)| broken(samples)) {
            Some(error) => Err(error),
            None => Ok(sets),
        }
    }

    /// The same as [`Samples::open`], but lines and rows that are no texts are samples, which can be skipped.
    ///
    /// # Errors
    /// If the source has neither images nor texts, or cannot be read.
    pub fn open_with_problems(source: &ArmSource) -> Result<Vec<(String, Samples)>> {
        let ArmSource { name, path, key } = source;
        let of = |content| Samples::new(path.clone(), content);
        let mut sets: Vec<(String, Samples)> = match SampleKind::at(path, key.as_deref()) {
            Some(SampleKind::Images) => ImageSamples::open(path, key.as_deref())?
                .into_iter()
                .map(|(name, images)| (name, of(Content::Images(images))))
                .collect(),
            Some(SampleKind::Texts) => texts::read(path, key.as_deref())?
                .into_iter()
                .map(|(name, texts)| (name, of(Content::Texts(texts))))
                .collect(),
            None => return Err(not_samples(path, key.as_deref())),
        };
        if let Some(name) = name {
            match sets.as_mut_slice() {
                [(only, _)] => only.clone_from(name),
                several => {
                    let problem = format!(
                        "it has {} sets of samples, so {name} cannot name them all; pick one, as in {name}={}:{}, or leave out the name",
                        several.len(),
                        path.display(),
                        several[0].0
                    );
                    return Err(Error::File { path: path.clone(), problem });
                }
            }
        }
        Ok(sets)
    }

    /// A set of images that are not in one source, such as images in memory.
    pub fn of_images(source: PathBuf, images: ImageSamples) -> Self {
        Self::new(source, Content::Images(images))
    }

    /// A set of texts that are not in one source, such as texts in memory.
    pub fn of_texts(source: PathBuf, texts: TextSamples) -> Self {
        Self::new(source, Content::Texts(texts))
    }

    fn new(source: PathBuf, content: Content) -> Self {
        Self { source, content, skip_hint: SKIP_HINT }
    }

    /// The same samples, whose messages name another way to leave out those that cannot be read.
    #[must_use]
    pub fn with_skip_hint(mut self, hint: &'static str) -> Self {
        self.skip_hint = hint;
        self
    }

    /// What they are.
    pub fn kind(&self) -> SampleKind {
        match self.content {
            Content::Images(_) => SampleKind::Images,
            Content::Texts(_) => SampleKind::Texts,
        }
    }

    /// The number of samples; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Images(images) => images.len(),
            Content::Texts(texts) => texts.len(),
        }
    }

    /// The id of a sample: the relative path of an image, or the row of a text.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn id(&self, index: usize) -> String {
        match &self.content {
            Content::Images(images) => images.id(index).to_string(),
            Content::Texts(texts) => texts.id(index),
        }
    }

    /// The path of a sample that is a file of its own.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn file(&self, index: usize) -> Option<PathBuf> {
        match &self.content {
            Content::Images(images) => images.file(index),
            Content::Texts(_) => None,
        }
    }

    /// The text of a sample; `None` for an image.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn text(&self, index: usize) -> Option<&str> {
        match &self.content {
            Content::Images(_) => None,
            Content::Texts(texts) => Some(texts.text(index)),
        }
    }

    /// The decoded image of a sample; `None` for a text.
    ///
    /// # Errors
    /// If the image cannot be read or decoded.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn image(&self, index: usize) -> Option<Result<Image, Problem>> {
        Some(self.raw_image(index)?.and_then(|raw| raw.image(&Limits::default())))
    }

    /// An image as it was read, not decoded; `None` for a text.
    ///
    /// # Errors
    /// If the image cannot be read.
    pub fn raw_image(&self, index: usize) -> Option<Result<super::Raw, Problem>> {
        match &self.content {
            Content::Images(images) => Some(images.raw(index)),
            Content::Texts(_) => None,
        }
    }

    /// Refuses a set with samples that were found broken when it was opened, such as lines that are not UTF-8. Others are
    /// found when they are encoded.
    ///
    /// # Errors
    /// If there is such a sample; the message names the first.
    pub fn check(&self) -> Result<()> {
        self.first_problem().map_or(Ok(()), |(index, problem)| Err(self.error_of(index, problem)))
    }

    fn first_problem(&self) -> Option<(usize, &Problem)> {
        match &self.content {
            Content::Images(_) => None,
            Content::Texts(texts) => texts.first_problem(),
        }
    }

    /// The content of a sample, as it is encoded.
    pub(crate) fn raw(&self, index: usize) -> Result<Raw<'_>, Problem> {
        match &self.content {
            Content::Images(images) => images.raw(index).map(Raw::Image),
            Content::Texts(texts) => match texts.problem(index) {
                Some(problem) => Err(problem.clone()),
                None => Ok(Raw::Text(texts.text(index))),
            },
        }
    }

    /// The checksum of a set: of the id of each sample and the checksum of its content, in order.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn checksum<'d>(&self, samples: impl IntoIterator<Item = (usize, &'d Digest)>) -> Digest {
        let mut whole = Sha256::new();
        for (index, digest) in samples {
            whole.update(self.id(index).as_bytes());
            whole.update([0]);
            whole.update(digest);
        }
        whole.finalize().into()
    }

    /// The order in which samples are put into batches: texts by length, so that little is padded.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        if let Content::Texts(texts) = &self.content {
            order.sort_by_key(|&index| texts.text(index).len());
        }
        order
    }

    /// An error of the whole set.
    pub(crate) fn error(&self, problem: String) -> Error {
        Error::File { path: self.source.clone(), problem }
    }

    /// The error of one sample.
    pub(crate) fn error_of(&self, index: usize, problem: &Problem) -> Error {
        let problem = format!("{problem} (or {})", self.skip_hint);
        match self.file(index) {
            Some(path) => Error::File { path, problem },
            None => self.error(self.described(index, problem)),
        }
    }

    /// A problem with the place of its sample in the source. Problems of texts name their line or row.
    pub(crate) fn described(&self, index: usize, problem: impl Display) -> String {
        match self.content {
            Content::Images(_) => format!("{}: {problem}", self.id(index)),
            Content::Texts(_) => problem.to_string(),
        }
    }

    /// A problem of the content of a sample, which names the line or row of a text.
    pub(crate) fn located(&self, index: usize, problem: Problem) -> Problem {
        match &self.content {
            Content::Images(_) => problem,
            Content::Texts(texts) => Problem::new(format!("{}: {problem}", texts.place(index))),
        }
    }
}

/// Why a source has neither images nor texts.
fn not_samples(path: &Path, key: Option<&str>) -> Error {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            let source = io::Error::new(error.kind(), unreadable(path, &error).to_string());
            return Error::Io { path: path.into(), source };
        }
    };
    let refused = |problem: &str| Error::File { path: path.into(), problem: problem.into() };
    if !metadata.is_file() {
        return refused("this is not a regular file; give a folder or a file of images or texts");
    }
    let unused = || {
        refused(
            "it has neither images nor texts; give a folder, a .zip, .npy or .npz file of images, or a .txt, .jsonl, .json, \
             .csv or .parquet file of texts",
        )
    };
    match names::extension(path).as_str() {
        "npy" | "npz" => array::not_images(path, key),
        "csv" | "tsv" | "parquet" => TextSamples::open(path, key).err().unwrap_or_else(unused),
        _ => unused(),
    }
}

/// The content of a sample.
pub(crate) enum Raw<'a> {
    Image(super::Raw),
    Text(&'a str),
}

impl Raw<'_> {
    /// The SHA-256 checksum of the content.
    pub(crate) fn digest(&self) -> Digest {
        match self {
            Raw::Image(image) => image.digest(),
            Raw::Text(text) => Sha256::digest(text.as_bytes()).into(),
        }
    }
}
