//! Names of files: which are images, their natural order, and ids that are distinct and printable. Names for messages.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::Path;

/// Extensions of image files, in lower case: those that are decoded, and others. The others are listed too, so that
/// the user is told to convert them instead of getting a result without them.
const IMAGE_EXTENSIONS: [&str; 28] = [
    "png", "apng", "jpg", "jpeg", "jpe", "jfif", "webp", "bmp", "dib", "gif", //
    "tif", "tiff", "avif", "heic", "heif", "jxl", "jp2", "j2k", "jpx", "psd", "ppm", "pgm", "pbm", "pnm", "tga", "exr",
    "hdr", "qoi",
];

/// Whether a file of this name is taken to be an image. Names are bytes, since they need not be UTF-8.
pub(super) fn is_image(name: &[u8]) -> bool {
    let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else { return false };
    // Names that start with a dot are hidden, as the ._ files that macOS adds to archives.
    let hidden = name.starts_with(b".");
    let extension = name[dot + 1..].to_ascii_lowercase();
    !hidden && IMAGE_EXTENSIONS.iter().any(|known| known.as_bytes() == extension)
}

/// Whether folders of this name are skipped: hidden ones, and the one that macOS adds to archives.
pub(super) fn is_hidden_folder(name: &[u8]) -> bool {
    name.starts_with(b".") || name == b"__MACOSX"
}

/// Compares paths in natural order: folder by folder, with runs of digits as numbers.
pub(super) fn natural_order(left: &[u8], right: &[u8]) -> Ordering {
    let parts = |path| <[u8]>::split(path, |&byte| byte == b'/');
    let by_parts = parts(left).zip(parts(right)).map(|(left, right)| natural_order_of_names(left, right));
    let first = by_parts.into_iter().find(|order| order.is_ne());
    // Numbers with and without leading zeros are equal above.
    first.unwrap_or_else(|| parts(left).count().cmp(&parts(right).count())).then_with(|| left.cmp(right))
}

fn natural_order_of_names(mut left: &[u8], mut right: &[u8]) -> Ordering {
    loop {
        let order = match (number(&mut left), number(&mut right)) {
            (Some(left), Some(right)) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
            (Some(_), None) => return byte_order(b'0', right.first()),
            (None, Some(_)) => return byte_order(b'0', left.first()).reverse(),
            (None, None) => match (left.split_first(), right.split_first()) {
                (Some((a, rest_left)), Some((b, rest_right))) => {
                    (left, right) = (rest_left, rest_right);
                    a.cmp(b)
                }
                (a, b) => return a.is_some().cmp(&b.is_some()),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The order of a digit and of what is at the same place in the other name, which is not a digit.
fn byte_order(digit: u8, other: Option<&u8>) -> Ordering {
    other.map_or(Ordering::Greater, |other| digit.cmp(other))
}

/// The run of digits at the start of a name, which is cut off, without leading zeros.
fn number<'a>(name: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = name.split_at(length);
    *name = rest;
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count();
    (length > 0).then(|| &digits[zeros..])
}

/// Ids of paths: their text, with `\xNN` for bytes that are not UTF-8. If two are equal, the later one gets a number.
pub(super) fn ids<'a>(paths: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut ids: Vec<String> = paths.map(printable).collect();
    let mut distinct = HashSet::with_capacity(ids.len());
    if ids.iter().all(|id| distinct.insert(id.as_str())) {
        return ids;
    }
    let mut taken = HashSet::with_capacity(ids.len());
    for id in &mut ids {
        let (first, mut copies) = (id.clone(), 2);
        while !taken.insert(id.clone()) {
            *id = format!("{first} ({copies})");
            copies += 1;
        }
    }
    ids
}

fn printable(path: &[u8]) -> String {
    let mut id = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        id.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| id.push_str(&format!("\\x{byte:02X}")));
    }
    id
}

/// The file's extension in lower case.
pub(super) fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// The file's name without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of a folder, also if its path ends in `.` or `..`.
pub(super) fn of_folder(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let resolved = || path.canonicalize().ok().and_then(|path| name(&path));
    name(path).or_else(resolved).unwrap_or_else(|| path.display().to_string())
}

/// Names for a message, shortened if there are many.
pub(super) fn listed(names: &[String]) -> String {
    const MAX_LISTED_NAMES: usize = 20;
    if names.is_empty() {
        return "none".into();
    }
    let shown = names.iter().take(MAX_LISTED_NAMES).map(|name| shortened(name)).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED_NAMES { format!("{shown} and {} more", names.len() - MAX_LISTED_NAMES) } else { shown }
}

/// Words on one line of bounded length, because they may come from a forged file.
pub(super) fn shortened(words: &str) -> String {
    words.chars().take(200).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
