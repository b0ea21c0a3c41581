//! Runs the steps of a preprocessing on an image. Resizes compute only what the crop after them keeps, and arithmetic
//! on values runs on the finished tensor.

use std::cell::RefCell;
use std::ops::Range;

use super::{Channels, Known, Preprocessing, Rounding, Size, Step};
use crate::image::Image;
use crate::problem::Problem;
use crate::resize::{
    Element, MAX_SIDE, Method, Planes, Region, Source, TorchFilter, Workspace, deinterleave, resample, resample_bytes,
    torch_bilinear,
};

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::new(Workspace::default());
}

impl Preprocessing {
    /// Writes the tensor of an image: channel by channel, row by row. Threads share nothing; each keeps the weights of
    /// the image sizes that it saw last.
    ///
    /// # Errors
    /// If the tensor has another number of values than `out`, or the preprocessing cannot run on the image.
    pub fn apply(&self, image: &Image, out: &mut [f32]) -> Result<(), Problem> {
        WORKSPACE.with(|workspace| match workspace.try_borrow_mut() {
            Ok(mut workspace) => self.apply_with(image, out, &mut workspace),
            Err(_) => self.apply_with(image, out, &mut Workspace::default()),
        })
    }

    /// The same as [`Preprocessing::apply`], with a workspace of the caller's.
    ///
    /// # Errors
    /// The same.
    pub fn apply_with(&self, image: &Image, out: &mut [f32], workspace: &mut Workspace) -> Result<(), Problem> {
        let [channels, height, width] = self.shape_of(image.width(), image.height())?;
        let values = channels * height * width;
        if out.len() != values {
            let given = out.len();
            return Err(Problem::new(format!(
                "the tensor of an image of {} × {} pixels has {values} values; there is memory for {given}",
                image.width(),
                image.height()
            )));
        }
        let grey;
        let source = match self.channels {
            Channels::Rgb => Source::of(image)?,
            Channels::Grey => {
                grey = brightness(image.pixels());
                Source::of_bytes(&grey, image.width(), image.height(), 1)?
            }
        };
        let mut state = State::Source(source);
        // Arithmetic that has to be done before the next step that moves pixels, or at the end.
        let mut pending: &[Step] = &[];
        let mut index = 0;
        while let Some(step) = self.steps.get(index) {
            let mut taken = 1;
            match step {
                Step::CropSquare | Step::CropCentre { .. } => {
                    state = state.calculate(pending).crop(step)?;
                }
                Step::Resize { size, method } => {
                    let crop = self.steps.get(index + 1).filter(|next| next.crops());
                    taken += usize::from(crop.is_some());
                    state = state.resize(pending, *size, *method, crop, workspace)?;
                }
                _ => {
                    let first = index - pending.len();
                    pending = self.steps.get(first..=index).unwrap_or_default();
                    index += 1;
                    continue;
                }
            }
            pending = &[];
            index += taken;
        }
        state.write(out, width);
        let plane = height * width;
        for (channel, values) in out.chunks_mut(plane).enumerate() {
            calculate(pending, channel, values);
        }
        Ok(())
    }
}

/// Pillow's `convert("L")`: ITU-R 601-2 luma in 16-bit fixed point.
fn brightness(pixels: &[u8]) -> Vec<u8> {
    let (pixels, _) = pixels.as_chunks::<3>();
    let luma = |&[r, g, b]: &[u8; 3]| {
        (u32::from(r) * 19595 + u32::from(g) * 38470 + u32::from(b) * 7471 + 0x8000).to_be_bytes()[1]
    };
    pixels.iter().map(luma).collect()
}

/// Arithmetic on the values of one channel. Each step runs on a few values at once, so that they stay in the cache.
fn calculate(steps: &[Step], channel: usize, values: &mut [f32]) {
    for values in values.chunks_mut(1024) {
        for step in steps {
            match step {
                Step::Clip { low, high } => values.iter_mut().for_each(|value| *value = value.max(*low).min(*high)),
                Step::Add(number) => values.iter_mut().for_each(|value| *value += number),
                Step::Multiply(number) => values.iter_mut().for_each(|value| *value *= number),
                Step::MultiplyDouble(number) => {
                    values.iter_mut().for_each(|value| *value = (f64::from(*value) * number) as f32);
                }
                Step::Divide(number) => values.iter_mut().for_each(|value| *value /= number),
                Step::Normalise { mean, std } => {
                    if let (Some(mean), Some(std)) = (mean.get(channel), std.get(channel)) {
                        values.iter_mut().for_each(|value| *value = (*value - mean) / std);
                    }
                }
                Step::CropSquare | Step::Resize { .. } | Step::CropCentre { .. } => {}
            }
        }
    }
}

/// The image between two steps.
enum State<'a> {
    Source(Source<'a, u8>),
    Bytes(Planes<u8>),
    Floats(Planes<f32>),
}

impl<'a> State<'a> {
    fn size(&self) -> (usize, usize) {
        match self {
            Self::Source(source) => (source.height(), source.width()),
            Self::Bytes(planes) => (planes.height(), planes.width()),
            Self::Floats(planes) => (planes.height(), planes.width()),
        }
    }

    /// Does arithmetic on all values, if there is any to do.
    fn calculate(self, steps: &[Step]) -> Self {
        if steps.is_empty() {
            return self;
        }
        let mut floats = match self {
            Self::Floats(planes) => planes,
            Self::Bytes(planes) => planes.single(),
            Self::Source(source) => {
                let mut planes = Planes::zeros(source.channels(), source.height(), source.width(), 1);
                deinterleave(&source, 0..source.height(), 0..source.width(), &mut planes, f32::from);
                planes
            }
        };
        for channel in 0..floats.channels() {
            for y in 0..floats.height() {
                calculate(steps, channel, floats.row_mut(channel, y));
            }
        }
        Self::Floats(floats)
    }

    fn crop(self, step: &Step) -> Result<Self, Problem> {
        let (height, width) = self.size();
        let (rows, columns) = step.crop(height, width);
        let inside = |range: &Crop, size: usize| range.padded() == 0 && range.kept(size).len() == range.length;
        if let Self::Source(source) = &self
            && inside(&rows, height)
            && inside(&columns, width)
        {
            let part = source.part(columns.kept(width).start, rows.kept(height).start, columns.length, rows.length);
            return part.map(State::Source).ok_or_else(|| Problem::new("the crop is empty; choose a larger one"));
        }
        Ok(match self {
            Self::Source(source) => {
                let mut planes = Planes::zeros(source.channels(), height, width, 1);
                deinterleave(&source, 0..height, 0..width, &mut planes, |sample| sample);
                Self::Bytes(pad(&planes, &rows, &columns, height, width))
            }
            Self::Bytes(planes) => Self::Bytes(pad(&planes, &rows, &columns, height, width)),
            Self::Floats(planes) => Self::Floats(pad(&planes, &rows, &columns, height, width)),
        })
    }

    /// Does arithmetic on the values, resizes, and crops the result.
    fn resize(
        self,
        pending: &[Step],
        size: Size,
        method: Method,
        crop: Option<&Step>,
        workspace: &mut Workspace,
    ) -> Result<Self, Problem> {
        let (height, width) = self.size();
        let (height, width) = size.of(height, width);
        if height.max(width) > MAX_SIDE {
            return Err(Problem::new(format!(
                "a resize to {width} × {height} pixels exceeds {MAX_SIDE} pixels per side; crop the image first"
            )));
        }
        let whole = Step::CropCentre { height, width, rounding: Rounding::Down };
        let (rows, columns) = crop.unwrap_or(&whole).crop(height, width);
        let region = Region { height, width, rows: rows.kept(height), columns: columns.kept(width) };
        let pads = region.rows.len() != rows.length || region.columns.len() != columns.length;
        let bilinear = method == Method::Torch { filter: TorchFilter::Bilinear, antialias: false };
        let state = if bilinear && matches!(self, Self::Source(_)) { self } else { self.calculate(pending) };
        let resized = match state {
            Self::Source(source) if bilinear => {
                let prepare = |channel: usize, values: &mut [f32]| calculate(pending, channel, values);
                Self::Floats(torch_bilinear(&source, &region, &prepare, workspace)?)
            }
            Self::Source(source) => resize_source(&source, &region, method, workspace)?,
            Self::Bytes(planes) => {
                let sources = (0..planes.channels()).filter_map(|channel| planes.plane(channel));
                let resized = sources.map(|source| resize_source(&source, &region, method, workspace));
                Self::stack(resized.collect::<Result<_, _>>()?)
            }
            Self::Floats(planes) => {
                let sources = (0..planes.channels()).filter_map(|channel| planes.plane(channel));
                let resized = sources.map(|source| resample(&source, &region, method, workspace).map(State::Floats));
                Self::stack(resized.collect::<Result<_, _>>()?)
            }
        };
        if !pads {
            return Ok(resized);
        }
        // The kept part is the whole of what was resized; only padding is left to do.
        let (rows, columns) = (rows.after(&region.rows), columns.after(&region.columns));
        let (height, width) = (region.rows.len(), region.columns.len());
        Ok(match resized {
            Self::Floats(planes) => Self::Floats(pad(&planes, &rows, &columns, height, width)),
            Self::Bytes(planes) => Self::Bytes(pad(&planes, &rows, &columns, height, width)),
            source @ Self::Source(_) => source,
        })
    }

    /// One image of the channels of several.
    fn stack(images: Vec<State<'_>>) -> State<'static> {
        let (mut bytes, mut floats) = (Vec::new(), Vec::new());
        for image in images {
            match image {
                State::Bytes(planes) => bytes.push(planes),
                State::Floats(planes) => floats.push(planes),
                State::Source(_) => {}
            }
        }
        if floats.is_empty() { State::Bytes(Planes::stack(bytes)) } else { State::Floats(Planes::stack(floats)) }
    }

    /// Writes the values of all channels.
    fn write(self, out: &mut [f32], width: usize) {
        let rows = out.chunks_mut(width.max(1));
        match self {
            Self::Source(source) => {
                let mut planes = Planes::zeros(source.channels(), source.height(), source.width(), 1);
                deinterleave(&source, 0..source.height(), 0..source.width(), &mut planes, f32::from);
                rows.zip(planes.rows()).for_each(|(out, row)| out.copy_from_slice(row));
            }
            Self::Floats(planes) => rows.zip(planes.rows()).for_each(|(out, row)| out.copy_from_slice(row)),
            Self::Bytes(planes) => {
                for (out, row) in rows.zip(planes.rows()) {
                    out.iter_mut().zip(row).for_each(|(place, &value)| *place = f32::from(value));
                }
            }
        }
    }
}

fn resize_source(
    source: &Source<'_, u8>,
    region: &Region,
    method: Method,
    workspace: &mut Workspace,
) -> Result<State<'static>, Problem> {
    if method.is_8bit() {
        resample_bytes(source, region, method, workspace).map(State::Bytes)
    } else {
        resample(source, region, method, workspace).map(State::Floats)
    }
}

/// One side of a crop: `length` pixels from `offset` on, which may lie outside the image.
struct Crop {
    offset: isize,
    length: usize,
}

impl Crop {
    /// The pixels of the image that are kept.
    fn kept(&self, size: usize) -> Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(0).min(size);
        let end = usize::try_from(self.offset.saturating_add_unsigned(self.length)).unwrap_or(0).min(size);
        start..end.max(start)
    }

    /// How many zeros come first.
    fn padded(&self) -> usize {
        usize::try_from(self.offset.saturating_neg()).unwrap_or(0).min(self.length)
    }

    /// The same crop of an image that consists of the kept pixels only.
    fn after(&self, kept: &Range<usize>) -> Self {
        Self { offset: self.offset.saturating_sub_unsigned(kept.start), length: self.length }
    }
}

impl Step {
    fn crops(&self) -> bool {
        matches!(self, Self::CropSquare | Self::CropCentre { .. })
    }

    /// The crop of an image of this height and width: rows and columns. Other steps keep everything.
    fn crop(&self, height: usize, width: usize) -> (Crop, Crop) {
        let Known::Fixed(new_height, new_width) = self.known(Known::Fixed(height, width)) else {
            return (Crop { offset: 0, length: height }, Crop { offset: 0, length: width });
        };
        let rounding = if let Self::CropCentre { rounding, .. } = self { *rounding } else { Rounding::Down };
        (
            Crop { offset: rounding.offset(height, new_height), length: new_height },
            Crop { offset: rounding.offset(width, new_width), length: new_width },
        )
    }
}

/// Crops an image of this height and width, and pads it with zeros.
fn pad<T: Element>(planes: &Planes<T>, rows: &Crop, columns: &Crop, height: usize, width: usize) -> Planes<T> {
    let mut out = Planes::zeros(planes.channels(), rows.length, columns.length, 1);
    let (kept_rows, kept_columns) = (rows.kept(height), columns.kept(width));
    for channel in 0..planes.channels() {
        for (y, row) in kept_rows.clone().zip(rows.padded()..) {
            let values = planes.row(channel, y).get(kept_columns.clone()).unwrap_or_default();
            let places = out.row_mut(channel, row).iter_mut().skip(columns.padded());
            places.zip(values).for_each(|(place, &value)| *place = value);
        }
    }
    out
}
