//! Memory-mapped arrays: large arrays that are stored in the layout of features are mapped instead of read, so they may
//! be larger than memory. The operating system loads and evicts pages as tiles use them.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use super::payload::{Layout, Origin};
use crate::arms::check_rows;
use crate::error::Result;
use crate::features::Features;

/// Smaller arrays are read: a copy is cheap, and no longer depends on the file.
const MIN_MAPPED_BYTES: u64 = 256 << 20;

/// A part of a file that contains 32-bit floats.
struct Mapped(Mmap);

impl AsRef<[f32]> for Mapped {
    fn as_ref(&self) -> &[f32] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Maps an array that starts at `start`; `None` if it should be read instead, because it is small or has to be
/// converted.
pub(super) fn features(file: &File, start: u64, layout: &Layout, origin: &Origin<'_>) -> Result<Option<Features>> {
    if layout.bytes() < MIN_MAPPED_BYTES {
        return Ok(None);
    }
    map(file, start, layout, origin)
}

/// Maps some rows of an array that starts at `start`, and passes them to `read`; `None` if they have to be converted. The
/// file must be as long as the layout says.
pub(super) fn rows<T>(
    file: &File,
    start: u64,
    layout: &Layout,
    rows: Range<usize>,
    origin: &Origin<'_>,
    read: impl FnOnce(&[f32]) -> T,
) -> Result<Option<T>> {
    if !layout.is_in_place() || !start.is_multiple_of(4) {
        return Ok(None);
    }
    let width = 4 * layout.columns();
    let (first, length) = (start + (rows.start * width) as u64, rows.len() * width);
    // SAFETY: as in `map`; the length was checked when the file was opened.
    let map = unsafe { MmapOptions::new().offset(first).len(length).map(file) }.map_err(|error| origin.io(error))?;
    Ok(Some(read(bytemuck::cast_slice(&map))))
}

fn map(file: &File, start: u64, layout: &Layout, origin: &Origin<'_>) -> Result<Option<Features>> {
    let in_place = layout.is_in_place() && start.is_multiple_of(4);
    let Some(length) = usize::try_from(layout.bytes()).ok().filter(|_| in_place) else { return Ok(None) };
    // SAFETY: the file's length was checked against the layout. Changing a file while it is mapped changes the
    // features, which the documentation of `load` forbids; the values are plain floats, of which every bit pattern is
    // valid.
    let map = unsafe { MmapOptions::new().offset(start).len(length).map(file) }.map_err(|error| origin.io(error))?;
    let features =
        Features::shared(layout.columns(), Arc::new(Mapped(map))).map_err(|error| error.of(origin.name()))?;
    check_rows(&features).map_err(|error| error.of(origin.name()))?;
    Ok(Some(features))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::super::payload::{Element, Order};
    use super::*;

    #[test]
    fn mapped_and_read_are_the_same() {
        let path = std::env::temp_dir().join(format!("modelmix-mapped-{}", std::process::id()));
        let mut file = File::create(&path).expect("a temporary file");
        file.write_all(&[0; 64]).expect("written");
        let values: Vec<f32> = (0..600).map(|value| value as f32 / 7.0).collect();
        for value in &values {
            file.write_all(&value.to_le_bytes()).expect("written");
        }
        let origin = Origin { path: Path::new("test.npy"), array: None };
        let order = Order { big_endian: false, fortran: false };
        let layout = |element, order| Layout::new(element, order, &[200, 3], &origin).expect("a layout");
        let file = File::open(&path).expect("the file");
        let mapped = map(&file, 64, &layout(Element::F32, order), &origin).expect("mapped").expect("in place");
        assert_eq!(mapped, Features::new(3, values).expect("features"));
        for (element, order) in [
            (Element::F16, order),
            (Element::F32, Order { big_endian: true, ..order }),
            (Element::F32, Order { fortran: true, ..order }),
        ] {
            assert!(map(&file, 64, &layout(element, order), &origin).expect("no error").is_none());
        }
        assert!(map(&file, 62, &layout(Element::F32, order), &origin).expect("no error").is_none(), "not aligned");
        assert!(features(&file, 64, &layout(Element::F32, order), &origin).expect("no error").is_none(), "small");
        drop(mapped);
        std::fs::remove_file(path).expect("removed");
    }
}
