//! Sets of images: folders, archives and arrays.

mod archives;
mod arrays;
mod folders;

use std::path::Path;

use modelmix_encode::samples::ImageSamples;

use crate::fixtures;

/// The only set of a path.
fn only(path: &Path) -> (String, ImageSamples) {
    let mut sets = ImageSamples::open(path, None).unwrap();
    assert_eq!(sets.len(), 1);
    sets.remove(0)
}

fn ids(samples: &ImageSamples) -> Vec<&str> {
    (0..samples.len()).map(|index| samples.id(index)).collect()
}

/// The message of a path that cannot be opened, without the path in front.
fn refusal(path: &Path, key: Option<&str>) -> String {
    let text = ImageSamples::open(path, key).unwrap_err().to_string();
    text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_string()
}

/// Small images of different sizes, and the bytes of one each.
fn image_files() -> Vec<(&'static str, Vec<u8>)> {
    let mut files = fixtures::files();
    let names = ["png/colour2-depth8.png", "jpg/baseline-L.jpg", "webp/canvas.webp", "gif/bits8.gif", "bmp/bits8.bmp"];
    names.into_iter().map(|name| (name, files.remove(name).unwrap())).collect()
}
