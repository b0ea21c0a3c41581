//! The `.safetensors` format: the length of the header, a JSON header, and the contiguous tensors.
//! The `safetensors` crate checks the header; only requested tensors are read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use ::safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::about::{self, About};
use super::payload::{self, Element, Layout, Order, Origin};
use super::{mapped, one_line};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::features::Features;

/// The maximum size of a header. The format allows ten times as much, but a parsed header takes many times its own
/// length, and the names and shapes of features take a few thousand bytes.
const LONGEST_HEADER: u64 = 10_000_000;

/// An open `.safetensors` file.
pub(super) struct Safetensors {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// The offset of the first tensor.
    start: u64,
    /// The names of the tensors, sorted.
    pub(super) names: Vec<String>,
    /// How its features were made, if it says so.
    encoding: Option<Encoding>,
}

impl Safetensors {
    pub(super) fn open(path: &Path, mut file: File, length: u64) -> Result<Self> {
        let origin = Origin { path, array: None };
        let forged = |problem: String| origin.file(format!("{problem}; write the file again with safetensors"));

        let Some(rest) = length.checked_sub(8) else {
            return Err(forged(format!("{length} bytes are too few for the length of a header")));
        };
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes).map_err(|error| origin.io(error))?;
        let header = u64::from_le_bytes(bytes);
        if header > rest || header > LONGEST_HEADER {
            return Err(forged(format!(
                "the header claims {header} bytes, but {rest} follow it and {LONGEST_HEADER} are allowed"
            )));
        }
        let mut text = vec![0; header as usize];
        file.read_exact(&mut text).map_err(|error| origin.io(error))?;
        // Not parsed by `SafeTensors::read_metadata`, which needs the whole file in memory.
        let metadata: Metadata = serde_json::from_slice(&text)
            .map_err(|error| forged(format!("the header cannot be read ({})", one_line(error))))?;
        let tensors = metadata.data_len() as u64;
        if tensors != rest - header {
            return Err(forged(format!(
                "the header claims {tensors} bytes of tensors, but {} follow it",
                rest - header
            )));
        }
        let mut names = metadata.offset_keys();
        names.retain(|name| !about::is_reserved(name));
        names.sort_unstable();
        let entry = about::ABOUT_FILE.trim_end_matches(".json");
        let stated = metadata.metadata().as_ref().and_then(|entries| entries.get(entry));
        let encoding =
            stated.map(|text| About::parse(text.as_bytes(), &origin)).transpose()?.map(|about| about.encoding);
        Ok(Self { path: path.into(), file, metadata, start: 8 + header, names, encoding })
    }

    /// The ids of its samples as JSON, if it has them.
    pub(super) fn ids(&mut self) -> Result<Option<Vec<u8>>> {
        let origin = Origin { path: &self.path, array: None };
        let Some(TensorInfo { dtype, data_offsets: (begin, end), .. }) = self.metadata.info(about::IDS_FILE) else {
            return Ok(None);
        };
        let (begin, length) = (*begin as u64, end.saturating_sub(*begin) as u64);
        if *dtype != Dtype::U8 || length > about::LONGEST_IDS {
            let longest = about::LONGEST_IDS;
            return Err(
                origin.file(format!("{} must be at most {longest} bytes; write the file again", about::IDS_FILE))
            );
        }
        self.file.seek(SeekFrom::Start(self.start + begin)).map_err(|error| origin.io(error))?;
        let mut bytes = Vec::new();
        (&self.file).take(length).read_to_end(&mut bytes).map_err(|error| origin.io(error))?;
        Ok(Some(bytes))
    }

    /// The layout of a tensor, and the position of its first element in the file.
    pub(super) fn place(&self, index: usize) -> Result<(Layout, u64)> {
        let name = &self.names[index];
        let origin = Origin { path: &self.path, array: Some(name) };
        let TensorInfo { dtype, shape, data_offsets: (begin, end) } =
            self.metadata.info(name).expect("the names are those of the metadata");
        let element = element(*dtype).map_err(|problem| origin.array(problem))?;
        let shape: Vec<u64> = shape.iter().map(|&length| length as u64).collect();
        let order = Order { big_endian: false, fortran: false };
        let layout = Layout::new(element, order, &shape, &origin)?;

        // The crate has checked that the tensors are contiguous and fill the file; this is a second check.
        let (begin, end) = (*begin as u64, *end as u64);
        if end > self.metadata.data_len() as u64 {
            return Err(origin.file("the tensor extends beyond the file; write the file again with safetensors"));
        }
        layout.check(end.saturating_sub(begin), &origin)?;
        Ok((layout, self.start + begin))
    }

    pub(super) fn read(&mut self, index: usize) -> Result<Features> {
        let (layout, start) = self.place(index)?;
        let origin = Origin { path: &self.path, array: Some(&self.names[index]) };
        let features = match mapped::features(&self.file, start, &layout, &origin)? {
            Some(features) => features,
            None => {
                self.file.seek(SeekFrom::Start(start)).map_err(|error| origin.io(error))?;
                payload::read(&mut self.file, &layout, usize::MAX, &origin)?
            }
        };
        Ok(match &self.encoding {
            Some(encoding) => features.with_encoding(encoding.clone()),
            None => features,
        })
    }
}

/// The element type, or why it cannot be used for features.
fn element(dtype: Dtype) -> Result<Element, String> {
    match dtype {
        Dtype::F16 => Ok(Element::F16),
        Dtype::BF16 => Ok(Element::Bf16),
        Dtype::F32 => Ok(Element::F32),
        Dtype::F64 => Ok(Element::F64),
        Dtype::I8 => Ok(Element::Integer { bytes: 1, signed: true }),
        Dtype::U8 => Ok(Element::Integer { bytes: 1, signed: false }),
        Dtype::I16 => Ok(Element::Integer { bytes: 2, signed: true }),
        Dtype::U16 => Ok(Element::Integer { bytes: 2, signed: false }),
        Dtype::I32 => Ok(Element::Integer { bytes: 4, signed: true }),
        Dtype::U32 => Ok(Element::Integer { bytes: 4, signed: false }),
        Dtype::I64 => Ok(Element::Integer { bytes: 8, signed: true }),
        Dtype::U64 => Ok(Element::Integer { bytes: 8, signed: false }),
        other => Err(format!(
            "the elements are {other}, but features are F16, BF16, F32, F64 or integers; save tensor.to(torch.float32)"
        )),
    }
}
