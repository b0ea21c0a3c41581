//! Which source pixels make an output pixel, and with which weights: computed once per pair of sizes and shared by all
//! images of that size.

use std::ops::Range;
use std::sync::Arc;

use super::filter::{Filter, TorchFilter, torch_cubic};

/// Bits of the fraction of Pillow's fixed-point weights: 32 less 8 for the pixel and 2 for overflow.
const PILLOW_BITS: u32 = 22;

/// One side of a resize: its length before and after, and the outputs that are needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Axis {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) needed: Range<usize>,
}

/// The windows of the outputs of one axis: a range of source pixels and their weights.
#[derive(Clone, Debug)]
pub(super) struct Windows<W> {
    /// The first source pixel. May be negative; pixels outside count as the nearest one inside.
    starts: Vec<isize>,
    /// `starts.len() + 1` offsets into the weights.
    offsets: Vec<usize>,
    weights: Vec<W>,
    /// The last pixel of the source.
    last: usize,
    /// Bits of the fraction of fixed-point weights, otherwise 0.
    pub(super) bits: u32,
}

/// The window of one output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'a, W> {
    pub(super) start: isize,
    pub(super) weights: &'a [W],
    pub(super) last: usize,
}

impl<W> Window<'_, W> {
    /// The source pixel of a tap.
    #[inline(always)]
    pub(super) fn index(&self, tap: usize) -> usize {
        let index = self.start.saturating_add_unsigned(tap);
        usize::try_from(index).unwrap_or(0).min(self.last)
    }
}

impl<W: Copy> Windows<W> {
    fn new(axis: &Axis) -> Self {
        let outputs = axis.needed.len();
        let mut offsets = Vec::with_capacity(outputs + 1);
        offsets.push(0);
        Self {
            starts: Vec::with_capacity(outputs),
            offsets,
            weights: Vec::new(),
            last: axis.from.saturating_sub(1),
            bits: 0,
        }
    }

    fn push(&mut self, start: isize, weights: impl IntoIterator<Item = W>) {
        self.starts.push(start);
        self.weights.extend(weights);
        self.offsets.push(self.weights.len());
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, output: usize) -> Window<'_, W> {
        let weights = self.weights.get(self.offsets[output]..self.offsets[output + 1]).unwrap_or_default();
        Window { start: self.starts[output], weights, last: self.last }
    }

    /// The source pixels that any window uses, in ascending order.
    pub(super) fn used(&self) -> Vec<usize> {
        let mut used = Vec::new();
        for output in 0..self.len() {
            let window = self.get(output);
            if window.weights.is_empty() {
                continue;
            }
            let (first, last) = (window.index(0), window.index(window.weights.len() - 1));
            // Starts never decrease, so only the last pixels can be there already.
            let first = used.last().map_or(first, |&previous| first.max(previous + 1));
            used.extend(first..=last);
        }
        used
    }

    /// The same windows over a source that keeps only the used pixels.
    pub(super) fn over(&self, used: &[usize]) -> Self {
        let position = |index: usize| used.partition_point(|&pixel| pixel < index);
        let starts = self.starts.iter().map(|&start| match usize::try_from(start) {
            Ok(index) => position(index) as isize,
            Err(_) => start,
        });
        Self {
            starts: starts.collect(),
            offsets: self.offsets.clone(),
            weights: self.weights.clone(),
            last: used.len().saturating_sub(1),
            bits: self.bits,
        }
    }
}

/// Windows of a filter that widens when the image shrinks: Pillow's `precompute_coeffs`, and the same in torch for
/// 8-bit tensors.
fn widened(axis: &Axis, support: f64, weight: impl Fn(f64) -> f64, outputs: Range<usize>) -> Windows<f64> {
    let scale = axis.from as f64 / axis.to as f64;
    let widening = scale.max(1.0);
    let support = support * widening;
    let narrowing = 1.0 / widening;
    let mut windows = Windows::new(&Axis { needed: outputs.clone(), ..axis.clone() });
    let mut weights = Vec::new();
    for output in outputs {
        let centre = (output as f64 + 0.5) * scale;
        // `as` rounds towards zero and saturates, like the casts in C for values in range.
        let first = (centre - support + 0.5) as usize;
        let end = ((centre + support + 0.5) as usize).min(axis.from);
        weights.clear();
        weights.extend((first..end).map(|pixel| weight((pixel as f64 - centre + 0.5) * narrowing)));
        // From the left, like the loops in C. `sum` would start at −0, which makes no difference to a total.
        let total: f64 = weights.iter().sum();
        if total != 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
        windows.push(first as isize, weights.iter().copied());
    }
    windows
}

/// Fixed-point weights with this many bits after the point, rounded half away from zero.
fn fixed(windows: &Windows<f64>, bits: u32) -> Windows<i32> {
    let one = f64::from(1_u32 << bits);
    let round = |weight: f64| (weight * one + if weight < 0.0 { -0.5 } else { 0.5 }) as i32;
    Windows {
        starts: windows.starts.clone(),
        offsets: windows.offsets.clone(),
        weights: windows.weights.iter().map(|&weight| round(weight)).collect(),
        last: windows.last,
        bits,
    }
}

/// Pillow's windows in double precision.
pub(super) fn pillow(axis: &Axis, filter: Filter) -> Windows<f64> {
    widened(axis, filter.support(), |x| filter.weight(x), axis.needed.clone())
}

/// Pillow's windows for 8-bit images.
pub(super) fn pillow_fixed(axis: &Axis, filter: Filter) -> Windows<i32> {
    fixed(&pillow(axis, filter), PILLOW_BITS)
}

/// torch's windows for 8-bit tensors: as many bits as the largest weight of all outputs leaves in 16-bit integers.
pub(super) fn torch_fixed(axis: &Axis, filter: TorchFilter) -> Windows<i32> {
    let all = widened(axis, filter.support(), |x| filter.antialiased(x), 0..axis.to);
    let largest = all.weights.iter().copied().fold(0.0, f64::max);
    let fits = |bits: u32| 0.5 + largest * f64::from(1_u32 << (bits + 1)) < f64::from(1_u32 << 15);
    let bits = (0..22).find(|&bits| !fits(bits)).unwrap_or(22);
    let mut needed = Windows::new(axis);
    for output in axis.needed.clone() {
        let window = all.get(output);
        needed.push(window.start, window.weights.iter().copied());
    }
    fixed(&needed, bits)
}

/// torch's windows for float tensors with antialiasing: the same as for 8-bit tensors, in single precision with some
/// steps in double precision, as the promotions of C++ have it.
pub(super) fn torch_antialiased(axis: &Axis, filter: TorchFilter) -> Windows<f32> {
    let scale = axis.from as f32 / axis.to as f32;
    let widening = f64::from(scale).max(1.0);
    let support = (filter.support() * widening) as f32;
    let narrowing = (1.0 / widening) as f32;
    let longest = 2 * (support.ceil() as usize) + 1;
    let mut windows = Windows::new(axis);
    let mut weights = Vec::new();
    for output in axis.needed.clone() {
        let centre = (f64::from(scale) * (output as f64 + 0.5)) as f32;
        let first = (f64::from(centre - support) + 0.5) as usize;
        let end = ((f64::from(centre + support) + 0.5) as usize).min(axis.from).min(first + longest);
        let distance = |pixel: usize| ((f64::from(pixel as f32 - centre) + 0.5) * f64::from(narrowing)) as f32;
        weights.clear();
        weights.extend((first..end).map(|pixel| filter.antialiased_single(distance(pixel))));
        let total: f32 = weights.iter().sum();
        if total != 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
        windows.push(first as isize, weights.iter().copied());
    }
    windows
}

/// torch's windows of the four nearest pixels for float tensors without antialiasing.
pub(super) fn torch_cubic_windows(axis: &Axis) -> Windows<f32> {
    let scale = axis.from as f32 / axis.to as f32;
    let mut windows = Windows::new(axis);
    for output in axis.needed.clone() {
        let position = scale.mul_add(output as f32 + 0.5, -0.5);
        let index = position.floor().min(axis.from as f32 - 1.0);
        windows.push(index as isize - 1, torch_cubic((position - index).clamp(0.0, 1.0)));
    }
    windows
}

/// torch's windows of the two nearest pixels for float tensors without antialiasing.
pub(super) fn torch_linear(axis: &Axis) -> Windows<f32> {
    let scale = axis.from as f32 / axis.to as f32;
    let mut windows = Windows::new(axis);
    for output in axis.needed.clone() {
        let position = scale.mul_add(output as f32 + 0.5, -0.5).max(0.0);
        let index = (position as usize).min(axis.from.saturating_sub(1));
        let second = (position - index as f32).clamp(0.0, 1.0);
        windows.push(index as isize, [1.0 - second, second]);
    }
    windows
}

/// TensorFlow 1's windows: the pixel at ⌊output × scale⌋ and the next one, with the fraction as the second weight.
pub(super) fn tensorflow1(axis: &Axis) -> Windows<f32> {
    let scale = (axis.from as f64 / axis.to as f64) as f32;
    let mut windows = Windows::new(axis);
    for output in axis.needed.clone() {
        let position = output as f32 * scale;
        let index = position as usize;
        let fraction = position - index as f32;
        windows.push(index as isize, [1.0 - fraction, fraction]);
    }
    windows
}

/// Whose windows these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Pillow(Filter),
    Torch(TorchFilter),
    TorchNearest(TorchFilter),
    TensorFlow1,
}

/// The windows used last.
#[derive(Clone, Debug)]
pub(super) struct Cache<W> {
    entries: Vec<(Rule, Axis, Arc<Windows<W>>)>,
}

impl<W> Default for Cache<W> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<W> Cache<W> {
    /// How many windows a cache keeps: both axes of a few sizes.
    const ENTRIES: usize = 16;

    /// The windows of this rule and axis, made now if they are not in the cache.
    pub(super) fn get(&mut self, rule: Rule, axis: Axis, make: impl FnOnce(&Axis) -> Windows<W>) -> Arc<Windows<W>> {
        if let Some(found) = self.entries.iter().position(|entry| entry.0 == rule && entry.1 == axis) {
            // The windows used last are in front.
            self.entries[..=found].rotate_right(1);
        } else {
            self.entries.truncate(Self::ENTRIES - 1);
            let windows = Arc::new(make(&axis));
            self.entries.insert(0, (rule, axis, windows));
        }
        Arc::clone(&self.entries[0].2)
    }
}
