//! Arrays of 8-bit images in `.npy` and `.npz` files. Images of an array that is stored as it is are read one by one;
//! a compressed array is read once and held.

use std::fs::File;
use std::path::Path;

use modelmix::internals::load::{RawArray, RawArrays};

use super::file::SharedFile;
use super::names::listed;
use super::{Content, Raw};
use crate::problem::Problem;

/// The images of an array.
#[derive(Debug)]
pub(super) struct ArrayImages {
    shape: Shape,
    pixels: Pixels,
}

/// Where the pixels are.
#[derive(Debug)]
enum Pixels {
    /// In the file, from this position on.
    Stored(SharedFile, u64),
    /// In memory.
    Held(Vec<u8>),
}

/// The shape of an array of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    count: usize,
    height: usize,
    width: usize,
    channels: usize,
    /// Whether each channel is a plane of its own, instead of a value of each pixel.
    planes: bool,
}

impl Shape {
    fn of(shape: &[u64]) -> Option<Self> {
        let (count, height, width, channels, planes) = match *shape {
            [count, height, width] => (count, height, width, 1, false),
            [count, height, width, channels @ (1 | 3 | 4)] => (count, height, width, channels, false),
            [count, channels @ (1 | 3), height, width] => (count, height, width, channels, true),
            _ => return None,
        };
        let side = |side: u64| usize::try_from(side).ok();
        let shape =
            Self { count: side(count)?, height: side(height)?, width: side(width)?, channels: side(channels)?, planes };
        shape.height.checked_mul(shape.width)?.checked_mul(shape.channels)?.checked_mul(shape.count)?;
        Some(shape)
    }

    /// The number of bytes of an image.
    fn bytes(self) -> usize {
        self.height * self.width * self.channels
    }
}

/// Whether an array has the element type and the number of dimensions of images.
fn is_images(array: &RawArray) -> bool {
    array.element.get(1..) == Some("u1") && matches!(array.shape.len(), 3 | 4)
}

/// Whether the array of a file with this name has images; without a name, whether the file has arrays of images, and no
/// matrix, which may be features.
pub(super) fn holds_images(path: &Path, key: Option<&str>) -> bool {
    let headers = || {
        let mut file = RawArrays::open(path)?;
        let picked = file.picked(path, key)?;
        picked.into_iter().map(|(index, _)| file.header(index)).collect::<modelmix::Result<Vec<RawArray>>>()
    };
    headers().is_ok_and(|arrays| arrays.iter().any(is_images) && arrays.iter().all(|array| array.shape.len() != 2))
}

/// Opens the arrays of images of a file, with their names.
pub(super) fn open(path: &Path, key: Option<&str>) -> modelmix::Result<Vec<(String, ArrayImages)>> {
    let mut file = RawArrays::open(path)?;
    let (mut sets, mut skipped) = (Vec::new(), Vec::new());
    let picked = file.picked(path, key)?;
    let alone = picked.len() == 1;
    for (index, name) in picked {
        let array = file.header(index)?;
        // Labels and the like are left out, but not images of another element type.
        if !alone && array.shape.len() < 3 && !array.element.contains('O') {
            skipped.push(name);
            continue;
        }
        let origin =
            if file.names().len() > 1 { format!("{}:{name}", path.display()) } else { path.display().to_string() };
        let shape = checked(&array).map_err(|problem| modelmix::Error::Array { origin, problem })?;
        let pixels = match array.start {
            Some(start) => {
                let io = |source| modelmix::Error::Io { path: path.into(), source };
                Pixels::Stored(SharedFile::new(File::open(path).map_err(io)?).map_err(io)?, start)
            }
            None => Pixels::Held(file.bytes(index)?),
        };
        sets.push((name, ArrayImages { shape, pixels }));
    }
    if sets.is_empty() {
        let problem = format!(
            "it holds no array of 8-bit images, but {}; save images as uint8 with the shape [n, height, width, 3]",
            listed(&skipped)
        );
        return Err(modelmix::Error::File { path: path.into(), problem });
    }
    Ok(sets)
}

/// Why a file that [`holds_images`] denies cannot be used, by opening it.
pub(super) fn not_images(path: &Path, key: Option<&str>) -> modelmix::Error {
    let (name, beside) = match (open(path, key), RawArrays::open(path)) {
        (Err(error), _) | (_, Err(error)) => return error,
        (Ok(sets), Ok(file)) => {
            let names: Vec<String> = sets.into_iter().map(|(name, _)| name).collect();
            let beside = file.names().iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>();
            (listed(&names), listed(&beside))
        }
    };
    let problem = format!(
        "it holds images ({name}) beside arrays that may be features ({beside}); pick one, as in {}:NAME",
        path.display()
    );
    modelmix::Error::File { path: path.into(), problem }
}

/// The shape of an array if it holds images, or why it does not.
fn checked(array: &RawArray) -> Result<Shape, String> {
    let RawArray { element, fortran, shape, .. } = array;
    if element.contains('O') {
        return Err(
            "the elements are Python objects, which are not read; save numbers, or pick another array by its name"
                .into(),
        );
    }
    let listed = shape.iter().take(8).map(u64::to_string).collect::<Vec<_>>().join(", ");
    let Some(sides) = Shape::of(shape) else {
        return Err(format!(
            "the shape ({listed}) is not that of images; save them as [n, height, width], [n, height, width, 3] or [n, 3, height, width]"
        ));
    };
    if element.get(1..) != Some("u1") {
        let remedy = match element.get(1..).unwrap_or_default() {
            "b1" => "save array.astype(numpy.uint8) * 255",
            "u2" => "save (array // 257).astype(numpy.uint8)",
            kind if kind.starts_with(['u', 'i']) => "save array.astype(numpy.uint8) if they are 0 to 255",
            kind if kind.starts_with('f') => {
                "save (array * 255).round().astype(numpy.uint8) if they are 0 to 1, or array.astype(numpy.uint8) if they are 0 to 255"
            }
            _ => "save an array of numpy.uint8",
        };
        let element: String = element.chars().take(40).collect();
        return Err(format!("the elements ('{element}') are not 8-bit pixels; {remedy}"));
    }
    if *fortran {
        return Err("the array is in Fortran order; save numpy.ascontiguousarray(array)".into());
    }
    if sides.count == 0 || sides.bytes() == 0 {
        return Err(format!("the shape ({listed}) has no images; save one or more, with at least one pixel"));
    }
    Ok(sides)
}

impl ArrayImages {
    pub(super) fn len(&self) -> usize {
        self.shape.count
    }

    /// Reads an image.
    pub(super) fn read(&self, index: usize) -> Result<Raw, Problem> {
        let Shape { height, width, channels, planes, .. } = self.shape;
        let size = self.shape.bytes();
        let pixels = match &self.pixels {
            Pixels::Held(bytes) => bytes[index * size..][..size].to_vec(),
            Pixels::Stored(file, start) => {
                let mut bytes = Vec::new();
                let full =
                    |_| Problem::new(format!("{size} bytes of pixels do not fit into memory; save smaller images"));
                bytes.try_reserve_exact(size).map_err(full)?;
                bytes.resize(size, 0);
                let at = start + (index * size) as u64;
                let unreadable = |error| Problem::new(format!("the array cannot be read ({error}); write it again"));
                file.read_exact_at(&mut bytes, at).map_err(unreadable)?;
                bytes
            }
        };
        let pixels = if planes && channels > 1 { interleaved(&pixels, channels) } else { pixels };
        Ok(Raw(Content::Pixels { width, height, channels, pixels }))
    }
}

/// Pixels with interleaved channels, from one plane per channel.
fn interleaved(planes: &[u8], channels: usize) -> Vec<u8> {
    let plane = planes.len() / channels;
    (0..plane).flat_map(|at| (0..channels).map(move |channel| planes[channel * plane + at])).collect()
}
