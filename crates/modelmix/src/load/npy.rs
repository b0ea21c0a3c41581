//! The `.npy` format: a preamble, a header in Python's notation, and the elements.
//!
//! The header is parsed here instead of by a crate: the available one multiplies shapes without overflow checks, which
//! panics or wraps around for a forged file, and accepts any Python literal although only three fixed keys are needed.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::payload::{self, Element, Layout, Order, Origin};
use super::{mapped, one_line, stem};
use crate::error::Result;
use crate::features::Features;

/// Much longer than any header of plain floats; only structured arrays, which are rejected, come near it.
const LONGEST_HEADER: u64 = 1 << 16;

/// Sizes that are known before the header of an array is read.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// The number of bytes of the array, including its header.
    pub(super) available: u64,
    /// The number of bytes that may be allocated before they have been read.
    pub(super) at_once: usize,
}

/// An open `.npy` file.
pub(super) struct Npy {
    path: PathBuf,
    file: File,
    length: u64,
    /// The file's stem.
    pub(super) name: String,
}

impl Npy {
    pub(super) fn open(path: &Path, file: File, length: u64) -> Self {
        Self { path: path.into(), file, length, name: stem(path) }
    }

    pub(super) fn read(&mut self) -> Result<Features> {
        let origin = Origin { path: &self.path, array: None };
        let mut reader = BufReader::new(&mut self.file);
        let (layout, used) = header(&mut reader, self.length, &origin)?;
        layout.check(self.length - used, &origin)?;
        if let Some(features) = mapped::features(reader.get_ref(), used, &layout, &origin)? {
            return Ok(features);
        }
        payload::read(&mut reader, &layout, usize::MAX, &origin)
    }

    /// The layout of the array, and the position of its first element in the file.
    pub(super) fn place(&mut self) -> Result<(Layout, u64)> {
        let origin = Origin { path: &self.path, array: None };
        let (layout, used) = header(&mut BufReader::new(&mut self.file), self.length, &origin)?;
        layout.check(self.length - used, &origin)?;
        Ok((layout, used))
    }

    /// Calls `read` with the array, of any type, its number of bytes, and the number that may be allocated at once.
    pub(super) fn with<T>(&mut self, read: impl FnOnce(&mut dyn Read, Size, &Origin<'_>) -> Result<T>) -> Result<T> {
        let origin = Origin { path: &self.path, array: None };
        let size = Size { available: self.length, at_once: usize::MAX };
        read(&mut BufReader::new(&mut self.file), size, &origin)
    }
}

/// Reads the header of an array of features that takes `available` bytes in all; also returns the length of the header.
pub(super) fn header(reader: &mut impl Read, available: u64, origin: &Origin<'_>) -> Result<(Layout, u64)> {
    let (header, used) = described(reader, available, origin)?;
    let (element, big_endian) = element(&header.element).map_err(|problem| origin.array(problem))?;
    let order = Order { big_endian, fortran: header.fortran };
    Ok((Layout::new(element, order, &header.shape, origin)?, used))
}

/// The same for an array of any type; its claims are not checked yet.
pub(super) fn described(reader: &mut impl Read, available: u64, origin: &Origin<'_>) -> Result<(Header, u64)> {
    let no_array =
        |problem: String| origin.file(format!("this is not a .npy array: {problem}; save it with numpy.save"));
    let short = || no_array(format!("its {available} bytes are fewer than the header needs"));

    let mut preamble = [0; 12];
    if available < 10 {
        return Err(short());
    }
    reader.read_exact(&mut preamble[..10]).map_err(|error| origin.io(error))?;
    if !preamble.starts_with(b"\x93NUMPY") {
        return Err(no_array("it does not begin with the magic number".into()));
    }
    let (start, length) = match preamble[6] {
        1 => (10, u64::from(u16::from_le_bytes([preamble[8], preamble[9]]))),
        2 | 3 if available >= 12 => {
            reader.read_exact(&mut preamble[10..]).map_err(|error| origin.io(error))?;
            (12, u64::from(u32::from_le_bytes([preamble[8], preamble[9], preamble[10], preamble[11]])))
        }
        2 | 3 => return Err(short()),
        other => return Err(no_array(format!("version {other} of the format is not known"))),
    };
    if length > LONGEST_HEADER {
        return Err(no_array(format!("a header of {length} bytes does not describe plain numbers")));
    }
    let used = start + length;
    if used > available {
        return Err(short());
    }

    let mut text = vec![0; length as usize];
    reader.read_exact(&mut text).map_err(|error| origin.io(error))?;
    let header = Literal { bytes: &text, at: 0 }
        .header()
        .map_err(|Unread { at, wanted }| no_array(format!("its header should have {wanted} at byte {}", start + at)))?;
    Ok((header, used))
}

/// The element type for NumPy's name, and whether it is big-endian; or why it cannot be used for features.
fn element(name: &str) -> Result<(Element, bool), String> {
    let (order, kind) = name.split_at_checked(1).unwrap_or_default();
    let big_endian = order == ">";
    if big_endian || order == "<" {
        match kind {
            "f2" => return Ok((Element::F16, big_endian)),
            "f4" => return Ok((Element::F32, big_endian)),
            "f8" => return Ok((Element::F64, big_endian)),
            _ => {}
        }
    }
    if let [kind @ (b'i' | b'u'), size @ (b'1' | b'2' | b'4' | b'8')] = kind.as_bytes()
        && (big_endian || order == "<" || order == "|" && *size == b'1')
    {
        return Ok((Element::Integer { bytes: usize::from(size - b'0'), signed: *kind == b'i' }, big_endian));
    }
    let cast = "save array.astype(numpy.float32)";
    let (what, remedy) = match kind.as_bytes() {
        [b'O', ..] => ("pickled Python objects, which are never unpickled", "save a plain array of floats"),
        b"V2" => (
            "nameless 2-byte values, which is how NumPy saves bfloat16",
            "save array.astype(numpy.float32), or write a .safetensors file, which keeps bfloat16",
        ),
        [b'i' | b'u', ..] => ("integers that are not of 8, 16, 32 or 64 bits", cast),
        [b'b', ..] => ("booleans, but features are numbers", cast),
        [b'c', ..] => ("complex numbers, but features are real", "save array.real or numpy.abs(array)"),
        [b'S' | b'U', ..] => ("text, but features are floats", "save the encoder's output"),
        [b'f', ..] => ("floats that are not of 16, 32 or 64 bits", cast),
        _ => ("not floats of a known type", cast),
    };
    Err(format!("the elements ('{}') are {what}; {remedy}", one_line(name)))
}

/// The contents of a header, unchecked.
pub(super) struct Header {
    /// NumPy's name for the element type.
    pub(super) element: String,
    pub(super) fortran: bool,
    pub(super) shape: Vec<u64>,
}

/// The position at which parsing a header stopped, and what was expected there.
struct Unread {
    at: u64,
    wanted: &'static str,
}

/// The text of a header and the position of the parser. It accepts Python's notation as NumPy writes it: one dictionary
/// of three keys in any order, whose values are not nested.
struct Literal<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    fn header(mut self) -> Result<Header, Unread> {
        let (mut element, mut fortran, mut shape) = (None, None, None);
        if !self.take(b'{') {
            return self.unread("'{'");
        }
        while !self.take(b'}') {
            let key = self.string("one of the keys 'descr', 'fortran_order' and 'shape'")?;
            if !self.take(b':') {
                return self.unread("':'");
            }
            match key.as_str() {
                "descr" if element.is_none() => {
                    element = Some(self.string("one plain element type (a structured array cannot be features)")?);
                }
                "fortran_order" if fortran.is_none() => fortran = Some(self.truth()?),
                "shape" if shape.is_none() => shape = Some(self.shape()?),
                _ => return self.unread("each of the keys 'descr', 'fortran_order' and 'shape' once, before here"),
            }
            if !self.take(b',') && self.next() != Some(b'}') {
                return self.unread("',' or '}'");
            }
        }
        if self.next().is_some() {
            return self.unread("nothing but spaces");
        }
        match (element, fortran, shape) {
            (Some(element), Some(fortran), Some(shape)) => Ok(Header { element, fortran, shape }),
            _ => self.unread("all of the keys 'descr', 'fortran_order' and 'shape' before its end"),
        }
    }

    fn unread<T>(&self, wanted: &'static str) -> Result<T, Unread> {
        Err(Unread { at: self.at as u64, wanted })
    }

    /// The next byte that is not a space.
    fn next(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let found = self.next() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// A quoted string without escapes.
    fn string(&mut self, wanted: &'static str) -> Result<String, Unread> {
        let Some(quote @ (b'\'' | b'"')) = self.next() else {
            return self.unread(wanted);
        };
        let rest = &self.bytes[self.at + 1..];
        let word = rest.split(|&byte| byte == quote).next().unwrap_or_default();
        if word.len() == rest.len() || !word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\') {
            return self.unread(wanted);
        }
        self.at += word.len() + 2;
        Ok(String::from_utf8_lossy(word).into_owned())
    }

    fn truth(&mut self) -> Result<bool, Unread> {
        self.next();
        for (word, truth) in [("True", true), ("False", false)] {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(truth);
            }
        }
        self.unread("True or False")
    }

    fn shape(&mut self) -> Result<Vec<u64>, Unread> {
        let mut shape = Vec::new();
        if !self.take(b'(') {
            return self.unread("'('");
        }
        while !self.take(b')') {
            shape.push(self.length()?);
            if !self.take(b',') && self.next() != Some(b')') {
                return self.unread("',' or ')'");
            }
        }
        Ok(shape)
    }

    fn length(&mut self) -> Result<u64, Unread> {
        self.next();
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = str::from_utf8(&self.bytes[self.at..][..digits]).unwrap_or_default();
        let Ok(length) = text.parse() else {
            return self.unread("a length that is not negative and below 2⁶⁴");
        };
        self.at += digits;
        // Python 2 wrote long integers this way.
        self.at += usize::from(self.bytes.get(self.at) == Some(&b'L'));
        Ok(length)
    }
}
