//! Resizes a source with a method: looks up the windows, chooses and orders the passes, and skips those that change
//! nothing.

use std::ops::Range;
use std::sync::Arc;

use super::arithmetic::{Arithmetic, Double, Fixed, Lerp, TorchAntialiased, TorchCubic};
use super::four_products::four_products;
use super::passes::{horizontal, vertical};
use super::planes::{Element, Planes};
use super::source::Source;
use super::windows::{self, Axis, Cache, Rule, Windows};
use super::{MAX_SIDE, Method, TorchFilter};
use crate::image::Image;
use crate::problem::Problem;

/// Samples to which the rows of results are aligned.
const ALIGNMENT: usize = 16;

/// The resized image and the part of it that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Region {
    /// The whole image of this size.
    pub(crate) fn whole(height: usize, width: usize) -> Self {
        Self { height, width, rows: 0..height, columns: 0..width }
    }
}

/// The weights used last, for the next images of the same size. Use one per thread.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    fixed: Cache<i32>,
    single: Cache<f32>,
    double: Cache<f64>,
}

/// Resizes an image to a height and a width. 8-bit methods give whole numbers in 0..=255.
///
/// # Errors
/// If a side is 0 or longer than [`MAX_SIDE`].
pub fn resize(
    image: &Image,
    height: usize,
    width: usize,
    method: Method,
    workspace: &mut Workspace,
) -> Result<Planes<f32>, Problem> {
    let source = Source::of(image)?;
    let region = Region::whole(height, width);
    if method.is_8bit() {
        let planes = resample_bytes(&source, &region, method, workspace)?;
        Ok(planes.single())
    } else {
        resample(&source, &region, method, workspace)
    }
}

/// Resizes with a method that keeps 8 bits.
pub(crate) fn resample_bytes(
    source: &Source<'_, u8>,
    region: &Region,
    method: Method,
    workspace: &mut Workspace,
) -> Result<Planes<u8>, Problem> {
    check(region)?;
    let axes = Axes::new(source, region);
    let arithmetic = |windows: &Windows<i32>| Fixed { bits: windows.bits };
    match method {
        Method::Pillow { filter, passes } => {
            let windows =
                axes.windows(&mut workspace.fixed, Rule::Pillow(filter), |axis| windows::pillow_fixed(axis, filter));
            Ok(windows.run(source, passes.vertical_first(axes.from(), axes.to()), arithmetic))
        }
        Method::Torch8Bit { filter } => {
            let windows =
                axes.windows(&mut workspace.fixed, Rule::Torch(filter), |axis| windows::torch_fixed(axis, filter));
            Ok(windows.run(source, false, arithmetic))
        }
        Method::PillowFloat { .. } | Method::TensorFlow1 | Method::Torch { .. } => {
            Err(Problem::new("the resize method gives floats; choose one that keeps 8 bits"))
        }
    }
}

/// Resizes with a method that gives floats.
pub(crate) fn resample<S: Element>(
    source: &Source<'_, S>,
    region: &Region,
    method: Method,
    workspace: &mut Workspace,
) -> Result<Planes<f32>, Problem> {
    check(region)?;
    let axes = Axes::new(source, region);
    let single = &mut workspace.single;
    Ok(match method {
        Method::PillowFloat { filter, passes } => axes
            .windows(&mut workspace.double, Rule::Pillow(filter), |axis| windows::pillow(axis, filter))
            .run(source, passes.vertical_first(axes.from(), axes.to()), |_| Double),
        Method::TensorFlow1 => {
            axes.windows(single, Rule::TensorFlow1, windows::tensorflow1).run(source, false, |_| Lerp)
        }
        Method::Torch { filter, antialias: true } => axes
            .windows(single, Rule::Torch(filter), |axis| windows::torch_antialiased(axis, filter))
            .run(source, false, |_| TorchAntialiased),
        Method::Torch { filter: TorchFilter::Bicubic, antialias: false } => axes
            .windows(single, Rule::TorchNearest(TorchFilter::Bicubic), windows::torch_cubic_windows)
            .run(source, false, |_| TorchCubic),
        Method::Torch { filter: TorchFilter::Bilinear, antialias: false } => {
            return torch_bilinear(source, region, &|_, _| {}, workspace);
        }
        Method::Pillow { .. } | Method::Torch8Bit { .. } => {
            return Err(Problem::new("an 8-bit resize cannot follow arithmetic on the values; resize first"));
        }
    })
}

/// torch's bilinear resize without antialiasing, after arithmetic on the values of each channel. Only values that are
/// needed take part in it.
pub(crate) fn torch_bilinear<S: Element>(
    source: &Source<'_, S>,
    region: &Region,
    prepare: &dyn Fn(usize, &mut [f32]),
    workspace: &mut Workspace,
) -> Result<Planes<f32>, Problem> {
    check(region)?;
    let axes = Axes::new(source, region);
    let rule = Rule::TorchNearest(TorchFilter::Bilinear);
    let rows = workspace.single.get(rule, axes.rows, windows::torch_linear);
    let columns = workspace.single.get(rule, axes.columns, windows::torch_linear);
    let mut out = Planes::zeros(source.channels(), rows.len(), columns.len(), ALIGNMENT);
    for channel in 0..source.channels() {
        four_products(source, &rows, &columns, channel, &mut out, prepare);
    }
    Ok(out)
}

/// Refuses sizes that cannot be resized to.
fn check(region: &Region) -> Result<(), Problem> {
    let Region { height, width, rows, columns } = region;
    if rows.is_empty() || columns.is_empty() || rows.end > *height || columns.end > *width {
        return Err(Problem::new(format!("a resize to {width} × {height} pixels leaves none; choose a larger size")));
    }
    if *height > MAX_SIDE || *width > MAX_SIDE {
        return Err(Problem::new(format!(
            "a resize to {width} × {height} pixels exceeds {MAX_SIDE} pixels per side; crop the image or choose a smaller size"
        )));
    }
    Ok(())
}

/// Both sides of a resize.
struct Axes {
    rows: Axis,
    columns: Axis,
}

impl Axes {
    fn new<S: Element>(source: &Source<'_, S>, region: &Region) -> Self {
        Self {
            rows: Axis { from: source.height(), to: region.height, needed: region.rows.clone() },
            columns: Axis { from: source.width(), to: region.width, needed: region.columns.clone() },
        }
    }

    /// Height and width before.
    fn from(&self) -> (usize, usize) {
        (self.rows.from, self.columns.from)
    }

    /// Height and width after.
    fn to(&self) -> (usize, usize) {
        (self.rows.to, self.columns.to)
    }

    /// What to do with each side. A side that keeps its length needs no windows.
    fn windows<W: Copy>(&self, cache: &mut Cache<W>, rule: Rule, make: impl Fn(&Axis) -> Windows<W>) -> Sides<W> {
        let mut side = |axis: &Axis| {
            if axis.from == axis.to {
                Side::Kept(axis.needed.clone())
            } else {
                Side::Resized(cache.get(rule, axis.clone(), &make))
            }
        };
        Sides { rows: side(&self.rows), columns: side(&self.columns) }
    }
}

/// What happens to one side.
enum Side<W> {
    /// This range is kept.
    Kept(Range<usize>),
    /// It is resized.
    Resized(Arc<Windows<W>>),
}

/// What happens to both sides.
struct Sides<W> {
    rows: Side<W>,
    columns: Side<W>,
}

impl<W: Copy> Sides<W> {
    /// Runs the passes that are needed.
    fn run<S, T, A>(
        &self,
        source: &Source<'_, S>,
        vertical_first: bool,
        arithmetic: impl Fn(&Windows<W>) -> A,
    ) -> Planes<T>
    where
        S: Element,
        T: Element,
        A: Arithmetic<S, Weight = W, Output = T> + Arithmetic<T, Weight = W, Output = T>,
    {
        match (&self.rows, &self.columns) {
            (Side::Kept(rows), Side::Kept(columns)) => {
                let mut out = Planes::zeros(source.channels(), rows.len(), columns.len(), ALIGNMENT);
                deinterleave(source, rows.clone(), columns.clone(), &mut out, <A as Arithmetic<S>>::copy);
                out
            }
            (Side::Kept(rows), Side::Resized(columns)) => {
                let rows: Vec<usize> = rows.clone().collect();
                let mut out = Planes::zeros(source.channels(), rows.len(), columns.len(), ALIGNMENT);
                horizontal(source, &rows, columns, arithmetic(columns), &mut out);
                out
            }
            (Side::Resized(rows), Side::Kept(columns)) => {
                let rows = Rows::vertical(source, rows, arithmetic(rows));
                let mut out = Planes::zeros(source.channels(), rows.height, columns.len(), ALIGNMENT);
                if let Some(source) = rows.source() {
                    deinterleave(&source, 0..rows.height, columns.clone(), &mut out, <A as Arithmetic<T>>::copy);
                }
                out
            }
            (Side::Resized(rows), Side::Resized(columns)) if vertical_first => {
                let rows = Rows::vertical(source, rows, arithmetic(rows));
                let mut out = Planes::zeros(source.channels(), rows.height, columns.len(), ALIGNMENT);
                if let Some(source) = rows.source() {
                    let all: Vec<usize> = (0..rows.height).collect();
                    horizontal(&source, &all, columns, arithmetic(columns), &mut out);
                }
                out
            }
            (Side::Resized(rows), Side::Resized(columns)) => {
                let used = rows.used();
                let mut between = Planes::zeros(source.channels(), used.len(), columns.len(), ALIGNMENT);
                horizontal(source, &used, columns, arithmetic(columns), &mut between);
                let mut out = Planes::zeros(source.channels(), rows.len(), columns.len(), ALIGNMENT);
                let rows = if used.len() == source.height() { Arc::clone(rows) } else { Arc::new(rows.over(&used)) };
                let size = out.height * out.stride;
                for (channel, plane) in out.data.chunks_mut(size.max(1)).enumerate() {
                    if let Some(source) = between.plane(channel) {
                        vertical(&source, &rows, arithmetic(&rows), plane, out.stride);
                    }
                }
                out
            }
        }
    }
}

/// Rows of interleaved channels after a vertical pass.
struct Rows<T> {
    height: usize,
    width: usize,
    channels: usize,
    data: Vec<T>,
}

impl<T: Element> Rows<T> {
    fn vertical<S, A>(source: &Source<'_, S>, windows: &Windows<A::Weight>, arithmetic: A) -> Self
    where
        S: Element,
        A: Arithmetic<S, Output = T>,
    {
        let (height, width, channels) = (windows.len(), source.width(), source.channels());
        let mut data = vec![T::default(); height * width * channels];
        vertical(source, windows, arithmetic, &mut data, width * channels);
        Self { height, width, channels, data }
    }

    fn source(&self) -> Option<Source<'_, T>> {
        Source::new(&self.data, self.width * self.channels, self.width, self.height, self.channels)
    }
}

/// Copies a part of a source into planes.
pub(crate) fn deinterleave<S: Element, T: Element>(
    source: &Source<'_, S>,
    rows: Range<usize>,
    columns: Range<usize>,
    out: &mut Planes<T>,
    copy: impl Fn(S) -> T,
) {
    let channels = source.channels();
    for (y, row) in rows.enumerate() {
        let samples = source.row(row).get(columns.start * channels..columns.end * channels).unwrap_or_default();
        if let (3, Some([red, green, blue])) = (channels, out.rgb_row_mut(y)) {
            let places = red.iter_mut().zip(green).zip(blue);
            for (((red, green), blue), &[r, g, b]) in places.zip(samples.as_chunks::<3>().0) {
                (*red, *green, *blue) = (copy(r), copy(g), copy(b));
            }
            continue;
        }
        for channel in 0..channels {
            let samples = samples.iter().skip(channel).step_by(channels);
            for (place, &sample) in out.row_mut(channel, y).iter_mut().zip(samples) {
                *place = copy(sample);
            }
        }
    }
}
