//! Sets of images: folders, zip archives, and arrays of 8-bit pixels.
//!
//! Opening one lists its images and reads none, except those of a compressed array. [`ImageSamples::raw`] then reads
//! one image; many threads may call it at the same time.

mod archive;
mod array;
mod file;
mod folder;
mod listed;
mod names;
mod set;
pub mod texts;

pub use listed::ListedImage;
pub(crate) use set::Raw as AnyRaw;
pub use set::{SampleKind, Samples};
pub use texts::TextSamples;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::decode::{self, Limits};
use crate::image::Image;
use crate::problem::Problem;
use archive::ArchiveImages;
use array::ArrayImages;
use folder::FolderImages;

/// The images of one arm or of a reference, in a fixed order, each with an id.
///
/// Ids are paths relative to the folder or inside the archive, with `/` on every system, or positions in an array. They
/// are distinct. Images are in natural order of their paths, in which `img2` comes before `img10`: folder by folder,
/// runs of digits are compared as numbers and everything else byte by byte. The order does not depend on the file
/// system.
#[derive(Debug)]
pub struct ImageSamples {
    ids: Vec<String>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Folder(FolderImages),
    Archive(ArchiveImages),
    Array(ArrayImages),
    Listed(Vec<ListedImage>),
}

/// One image as it was read: the bytes of an image file, or pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(Content);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// The bytes of an image file.
    File(Vec<u8>),
    /// Rows of interleaved channels: 1 (grey), 3 (red, green, blue) or 4 (and alpha).
    Pixels { width: usize, height: usize, channels: usize, pixels: Vec<u8> },
}

impl ImageSamples {
    /// Lists the images of a folder, a `.zip` archive, or the arrays of an `.npy` or `.npz` file, with the name of each
    /// set: that of the folder, the stem of the file, or the array's name in an `.npz` file.
    ///
    /// A folder is searched with all folders in it. Links are followed, but every folder is searched once, so that
    /// loops end. Hidden files, and files without the extension of an image, are skipped. A file is decoded by its
    /// content, whatever its extension.
    ///
    /// Arrays hold 8-bit pixels in one of the shapes `[n, h, w]`, `[n, h, w, c]` with 1, 3 or 4 channels, and
    /// `[n, c, h, w]` with 1 or 3. `key` picks one array of an `.npz` file. Without it, arrays with fewer
    /// dimensions, as labels, are skipped.
    ///
    /// # Errors
    /// If `path` does not exist or cannot be read, if it holds no images, if it is none of the above, or if a key is
    /// given for anything but an `.npz` file.
    pub fn open(path: &Path, key: Option<&str>) -> modelmix::Result<Vec<(String, Self)>> {
        let io = |source| modelmix::Error::Io { path: path.into(), source };
        let refused = |problem: String| modelmix::Error::File { path: path.into(), problem };
        let folder = std::fs::metadata(path).map_err(io)?.is_dir();
        let extension = names::extension(path);
        let one_set = folder || extension == "zip";
        if let (true, Some(key)) = (one_set, key) {
            return Err(refused(format!("its images are one set without a name; leave out the name {key:?}")));
        }
        if folder {
            let (ids, images) = folder::list(path)?;
            let source = Source::Folder(images);
            return Ok(vec![(names::of_folder(path), Self { ids, source })]);
        }
        match extension.as_str() {
            "zip" => {
                let (ids, images) = archive::list(path)?;
                let source = Source::Archive(images);
                Ok(vec![(names::stem(path), Self { ids, source })])
            }
            "npy" | "npz" => {
                let sets = array::open(path, key)?.into_iter();
                let ids = |images: &ArrayImages| (0..images.len()).map(|index| index.to_string()).collect();
                Ok(sets
                    .map(|(name, images)| (name, Self { ids: ids(&images), source: Source::Array(images) }))
                    .collect())
            }
            _ => Err(refused("this does not hold images; give a folder, or a file of type .zip, .npy or .npz".into())),
        }
    }

    /// The number of images; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// The id of an image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn id(&self, index: usize) -> &str {
        &self.ids[index]
    }

    /// The path of an image that is a file of its own.
    pub fn file(&self, index: usize) -> Option<PathBuf> {
        match &self.source {
            Source::Folder(images) => images.file(index),
            Source::Listed(images) => images.get(index)?.file(),
            Source::Archive(_) | Source::Array(_) => None,
        }
    }

    /// Reads an image, without decoding it.
    ///
    /// # Errors
    /// If there is no such image, if it cannot be read, or if it is unreasonably large.
    pub fn raw(&self, index: usize) -> Result<Raw, Problem> {
        if index >= self.ids.len() {
            return Err(Problem::new(format!("image {index} of {} does not exist", self.ids.len())));
        }
        match &self.source {
            Source::Folder(images) => images.read(index).map(|bytes| Raw(Content::File(bytes))),
            Source::Archive(images) => images.read(index).map(|bytes| Raw(Content::File(bytes))),
            Source::Array(images) => images.read(index),
            Source::Listed(images) => images[index].read(),
        }
    }
}

impl Raw {
    /// The SHA-256 of the content: of the bytes of an image file, or of the size and pixels of an image in an array.
    pub fn digest(&self) -> [u8; 32] {
        match &self.0 {
            Content::File(bytes) => Sha256::digest(bytes).into(),
            Content::Pixels { width, height, channels, pixels } => {
                let mut hasher = Sha256::new();
                hasher.update(b"modelmix pixels");
                for side in [width, height, channels] {
                    hasher.update((*side as u64).to_le_bytes());
                }
                hasher.update(pixels);
                hasher.finalize().into()
            }
        }
    }

    /// The decoded image. Grey values become red, green and blue, and alpha is dropped.
    ///
    /// # Errors
    /// As [`decode`](crate::decode::decode); also if an image of an array is larger than `limits`.
    pub fn image(&self, limits: &Limits) -> Result<Image, Problem> {
        match &self.0 {
            Content::File(bytes) => decode::decode(bytes, limits),
            Content::Pixels { width, height, channels, pixels } => {
                limits.check(*width as u64, *height as u64)?;
                let pixels = match channels {
                    1 => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
                    4 => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
                    _ => pixels.clone(),
                };
                Image::new(*width, *height, pixels)
            }
        }
    }

    /// The bytes of the image file; `None` for an image of an array.
    pub fn encoded(&self) -> Option<&[u8]> {
        match &self.0 {
            Content::File(bytes) => Some(bytes),
            Content::Pixels { .. } => None,
        }
    }
}

/// Whether `path` holds images: a folder, a `.zip` file, or an `.npy` or `.npz` file with arrays of 8-bit integers in
/// three or four dimensions. An `.npz` file that also holds a matrix holds features, unless `key` picks an array of images.
/// Only headers are read; a file that cannot be read holds no images.
pub fn holds_images(path: &Path, key: Option<&str>) -> bool {
    match names::extension(path).as_str() {
        _ if path.is_dir() => true,
        "zip" => path.is_file(),
        "npy" | "npz" => array::holds_images(path, key),
        _ => false,
    }
}
