//! Pictures of samples for reports: 8-bit arrays, or folders of image files, whose bytes are passed on unchanged.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::npy::{self, Npy, Size};
use super::npz::Npz;
use super::payload::Origin;
use super::source::ArmSource;
use super::{extension, open, source, stem};
use crate::error::{Error, Result};

/// The maximum size of an image file in a gallery.
const LARGEST_IMAGE_FILE: u64 = 16 << 20;

/// The longest side of a picture in an array.
const LONGEST_SIDE: u64 = 1 << 14;

/// The number of bytes read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// The pictures of an arm's first samples, in the order of the rows of its features.
#[derive(Clone, PartialEq, Eq)]
pub enum Pictures {
    /// 8-bit pixels, row-major per picture, with interleaved channels.
    Raw {
        /// The number of pictures; never 0.
        count: usize,
        /// The height of a picture.
        height: usize,
        /// The width of a picture.
        width: usize,
        /// 1 (grey) or 3 (red, green, blue).
        channels: usize,
        /// `count` × `height` × `width` × `channels` values.
        pixels: Vec<u8>,
    },
    /// Image files, one per picture; never empty.
    Encoded(Vec<Encoded>),
}

/// An image file with the signature of its type; it was not decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`.
    pub mime: &'static str,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

impl Pictures {
    /// The number of pictures; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Pictures::Raw { count, .. } => *count,
            Pictures::Encoded(files) => files.len(),
        }
    }
}

impl std::fmt::Debug for Pictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pictures::Raw { count, height, width, channels, .. } => {
                write!(f, "Pictures({count} × {height} × {width} × {channels})")
            }
            Pictures::Encoded(files) => write!(f, "Pictures({} files)", files.len()),
        }
    }
}

impl std::fmt::Debug for Encoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoded({}, {} bytes)", self.mime, self.bytes.len())
    }
}

/// Reads the first `most` pictures (at least one) of each arm in `sources`, in their order.
///
/// In an `.npz` file each array is one arm; a `.npy` file is one arm. Arrays contain 8-bit integers in one of the
/// shapes `[n, h, w]`, `[n, h, w, c]` and `[n, c, h, w]` with 1 or 3 channels. A folder of `.png`, `.jpg`, `.webp` or
/// `.gif` files, sorted by name, is one arm named after the folder; other files in it are ignored. Names and keys are
/// as for arms.
///
/// # Errors
/// If a file or folder cannot be read or contains no pictures, if a type or shape is wrong, or if two arms have the
/// same name.
pub fn pictures(sources: &[ArmSource], most: usize) -> Result<Vec<(String, Pictures)>> {
    read(sources, &|_, count| (0..count.min(most.max(1))).collect())
}

/// [`pictures`] of the `chosen` rows of each arm, in that order, at most `most` of each. Rows without a picture are
/// skipped, and so are arms without any.
///
/// # Errors
/// As [`pictures`].
pub fn chosen_pictures(
    sources: &[ArmSource],
    chosen: &BTreeMap<String, Vec<usize>>,
    most: usize,
) -> Result<Vec<(String, Pictures)>> {
    let wanted = |name: &str, count: usize| {
        let rows = chosen.get(name).into_iter().flatten().copied();
        rows.filter(|&row| row < count).take(most.max(1)).collect()
    };
    let mut arms = read(sources, &wanted)?;
    arms.retain(|(_, pictures)| pictures.len() > 0);
    Ok(arms)
}

/// The file names of every folder of pictures among the sources, in the order of the rows of their arm.
///
/// # Errors
/// If a folder cannot be read or contains no pictures.
pub fn picture_names(sources: &[ArmSource]) -> Result<Vec<(String, Vec<String>)>> {
    let mut arms = Vec::new();
    for ArmSource { name, path, .. } in sources.iter().filter(|source| source.path.is_dir()) {
        let file = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        arms.push((name.clone().unwrap_or_else(|| file(path)), paths(path)?.iter().map(|path| file(path)).collect()));
    }
    Ok(arms)
}

/// The indices of the pictures to read, by the name of the arm and its number of pictures.
type Wanted<'a> = &'a dyn Fn(&str, usize) -> Vec<usize>;

fn read(sources: &[ArmSource], wanted: Wanted<'_>) -> Result<Vec<(String, Pictures)>> {
    let mut arms: Vec<(String, Pictures)> = Vec::new();
    for ArmSource { name, path, key } in sources {
        let folder = std::fs::metadata(path).map_err(|source| Error::Io { path: path.clone(), source })?.is_dir();
        let refused = |problem: String| Error::File { path: path.clone(), problem };
        let alone = |name: &Option<String>| {
            let whole = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            name.clone().unwrap_or_else(|| if folder { whole() } else { stem(path) })
        };
        if let (true, Some(key)) = (folder || extension(path) == "npy", key) {
            return Err(refused(format!("its pictures are one arm without a name; leave out the name {key:?}")));
        }
        if folder {
            let name = alone(name);
            let read = files(path, &|count| wanted(&name, count))?;
            arms.push((name, Pictures::Encoded(read)));
            continue;
        }
        let supported = ".npy, .npz, or a folder of .png, .jpg, .webp or .gif files";
        let (file, length) = open(path, supported)?;
        match extension(path).as_str() {
            "npy" => {
                let name = alone(name);
                let wanted = |count| wanted(&name, count);
                let read =
                    Npy::open(path, file, length).with(|reader, size, origin| array(reader, size, &wanted, origin))?;
                arms.push((name, read));
            }
            "npz" => {
                let mut archive = Npz::open(path, file, length)?;
                for (index, name) in source::picked(name, path, key, &archive.names)? {
                    let wanted = |count| wanted(&name, count);
                    let read = archive.with(index, |reader, size, origin| array(reader, size, &wanted, origin))?;
                    arms.push((name, read));
                }
            }
            _ => return Err(refused(format!("the file type is not known; pictures come from {supported}"))),
        }
    }
    source::distinct(&arms)?;
    Ok(arms)
}

/// Reads pictures from an array.
fn array(
    reader: &mut dyn Read,
    size: Size,
    wanted: &dyn Fn(usize) -> Vec<usize>,
    origin: &Origin<'_>,
) -> Result<Pictures> {
    let mut reader = reader;
    let (header, used) = npy::described(&mut reader, size.available, origin)?;
    if header.element.get(1..) != Some("u1") {
        return Err(origin.array(format!(
            "the elements ('{}') are not 8-bit pixels; save (array * 255).astype(numpy.uint8)",
            super::one_line(&header.element)
        )));
    }
    let (count, height, width, channels, planes) = match header.shape[..] {
        [count, height, width] => (count, height, width, 1, false),
        [count, height, width, channels @ (1 | 3)] => (count, height, width, channels, false),
        [count, channels @ (1 | 3), height, width] => (count, height, width, channels, channels > 1),
        _ => {
            let shape: Vec<String> = header.shape.iter().map(u64::to_string).collect();
            return Err(origin.array(format!(
                "the shape ({}) is not that of pictures; save them as [n, height, width], [n, height, width, 3] or [n, 3, height, width]",
                super::one_line(shape.join(", "))
            )));
        }
    };
    if header.fortran {
        return Err(origin.array("the array is in Fortran order; save numpy.ascontiguousarray(array)"));
    }
    if count == 0 || height == 0 || width == 0 || height > LONGEST_SIDE || width > LONGEST_SIDE {
        return Err(origin.array(format!(
            "{count} pictures of {height} × {width} pixels cannot be shown; give one or more, with sides from 1 to {LONGEST_SIDE}"
        )));
    }
    let picture = (height * width * channels) as usize;
    let claimed = count.checked_mul(picture as u64);
    if claimed != Some(size.available - used) {
        return Err(origin.file(format!(
            "the header claims {count} pictures of {picture} bytes, but {} bytes follow it; write or copy the file again",
            size.available - used
        )));
    }
    let wanted = wanted(usize::try_from(count).unwrap_or(usize::MAX));
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|&place| wanted[place]);
    let (mut read, mut next) = (vec![Vec::new(); wanted.len()], 0);
    for place in order {
        let between = ((wanted[place] - next) as u64).saturating_mul(picture as u64);
        std::io::copy(&mut (&mut *reader).take(between), &mut std::io::sink()).map_err(|error| origin.io(error))?;
        read[place] = bytes(reader, picture, size.at_once, origin)?;
        next = wanted[place] + 1;
    }
    let (count, pixels) = (wanted.len(), read.concat());
    let (height, width, channels) = (height as usize, width as usize, channels as usize);
    let pixels = if planes { interleave_channels(&pixels, picture, channels) } else { pixels };
    Ok(Pictures::Raw { count, height, width, channels, pixels })
}

/// Reads `total` bytes; at most `at_once` are allocated before they have been read, and later as many again as have
/// been read.
fn bytes(reader: &mut dyn Read, total: usize, at_once: usize, origin: &Origin<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < total {
        let (start, more) = (bytes.len(), CHUNK_BYTES.min(total - bytes.len()));
        if bytes.capacity() - start < more {
            let room = start.max(at_once).max(more).min(total - start);
            let full = |_| origin.array(format!("{total} bytes of pictures do not fit into memory; show fewer"));
            bytes.try_reserve_exact(room).map_err(full)?;
        }
        bytes.resize(start + more, 0);
        reader.read_exact(&mut bytes[start..]).map_err(|error| origin.io(error))?;
    }
    Ok(bytes)
}

/// Converts pictures with one plane per channel to pictures with interleaved channels.
fn interleave_channels(planes: &[u8], picture: usize, channels: usize) -> Vec<u8> {
    let plane = picture / channels;
    let mut pixels = Vec::with_capacity(planes.len());
    for picture in planes.chunks_exact(picture) {
        for at in 0..plane {
            pixels.extend(picture.chunks_exact(plane).map(|plane| plane[at]));
        }
    }
    pixels
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}

/// The image files of a folder, sorted by name.
fn paths(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io(folder))? {
        let path = entry.map_err(io(folder))?.path();
        if ["png", "jpg", "jpeg", "webp", "gif"].contains(&extension(&path).as_str()) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let problem = "the folder holds no .png, .jpg, .webp or .gif files; give one that does".into();
        return Err(Error::File { path: folder.into(), problem });
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Reads image files from a folder.
fn files(folder: &Path, wanted: &dyn Fn(usize) -> Vec<usize>) -> Result<Vec<Encoded>> {
    let paths = paths(folder)?;
    let mut files = Vec::new();
    for path in wanted(paths.len()).into_iter().map(|row| &paths[row]) {
        let refused = |problem: String| Error::File { path: path.clone(), problem };
        let (file, length) = open(path, ".png, .jpg, .webp or .gif")?;
        if length > LARGEST_IMAGE_FILE {
            return Err(refused(format!(
                "{length} bytes are more than the {LARGEST_IMAGE_FILE} allowed in a gallery; scale the picture down"
            )));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST_IMAGE_FILE).read_to_end(&mut bytes).map_err(io(path))?;
        let mime = mime(&bytes)
            .ok_or_else(|| refused("the file is not a PNG, JPEG, WebP or GIF picture; save it as one".into()))?;
        files.push(Encoded { mime, bytes });
    }
    Ok(files)
}

/// The MIME type of an image with these first bytes.
fn mime(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ => None,
    }
}
