//! The two passes of a separable resize. Both sum windows for many outputs at once, one vector lane per output: the
//! vertical pass for neighbouring columns, the horizontal pass for 16 rows after transposing them.

use super::arithmetic::Arithmetic;
use super::dispatch::{Job, run};
use super::planes::{Element, Planes};
use super::source::Source;
use super::transpose::transpose;
use super::windows::{Window, Windows};

/// Rows that the horizontal pass transposes at once.
const ROWS: usize = 16;

/// Columns that the vertical pass sums at once.
const COLUMNS: usize = 32;

/// Samples up to which rows are transposed. Longer rows would need too much memory; they are summed one by one.
const LONGEST_TRANSPOSED: usize = 1 << 16;

/// Resizes the height. The result has the layout of the source: `windows.len()` rows of interleaved channels.
pub(super) fn vertical<S: Element, A: Arithmetic<S>>(
    source: &Source<'_, S>,
    windows: &Windows<A::Weight>,
    arithmetic: A,
    out: &mut [A::Output],
    stride: usize,
) {
    run(Vertical { source, windows, arithmetic, out, stride });
}

/// Resizes the width of the given rows. The result has one plane per channel.
pub(super) fn horizontal<S: Element, A: Arithmetic<S>>(
    source: &Source<'_, S>,
    rows: &[usize],
    windows: &Windows<A::Weight>,
    arithmetic: A,
    out: &mut Planes<A::Output>,
) {
    run(Horizontal { source, rows, windows, arithmetic, out });
}

/// The results of `L` neighbouring lanes. `samples` starts at the lanes of the first source pixel.
#[inline(always)]
fn sum<S: Element, A: Arithmetic<S>, const L: usize>(
    arithmetic: A,
    samples: &[S],
    stride: usize,
    window: Window<'_, A::Weight>,
) -> [A::Output; L] {
    let mut sums = [arithmetic.zero(); L];
    let taps = window.weights.len();
    for tap in 0..taps {
        let pixel = A::pixel(tap);
        let index = window.index(pixel) * stride;
        if let (Some(&weight), Some(lanes)) =
            (window.weights.get(pixel), samples.get(index..).and_then(|rest| rest.first_chunk::<L>()))
        {
            arithmetic.add(&mut sums, tap, taps, weight, lanes);
        }
    }
    sums.map(
        #[inline(always)]
        |sum| arithmetic.finish(sum),
    )
}

struct Vertical<'a, S: Element, A: Arithmetic<S>> {
    source: &'a Source<'a, S>,
    windows: &'a Windows<A::Weight>,
    arithmetic: A,
    out: &'a mut [A::Output],
    stride: usize,
}

impl<S: Element, A: Arithmetic<S>> Job for Vertical<'_, S, A> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let columns = self.source.width() * self.source.channels();
        let (samples, stride) = (self.source.data(), self.source.stride());
        for (output, row) in self.out.chunks_mut(self.stride).take(self.windows.len()).enumerate() {
            let window = self.windows.get(output);
            let mut column = 0;
            while column + COLUMNS <= columns {
                let results = sum::<S, A, COLUMNS>(self.arithmetic, &samples[column..], stride, window);
                row[column..column + COLUMNS].copy_from_slice(&results);
                column += COLUMNS;
            }
            // The rest again with whole vectors if possible: some results are computed twice.
            if column < columns && columns >= COLUMNS {
                column = columns - COLUMNS;
                let results = sum::<S, A, COLUMNS>(self.arithmetic, &samples[column..], stride, window);
                row[column..columns].copy_from_slice(&results);
                column = columns;
            }
            while column < columns {
                [row[column]] = sum::<S, A, 1>(self.arithmetic, &samples[column..], stride, window);
                column += 1;
            }
        }
    }
}

struct Horizontal<'a, S: Element, A: Arithmetic<S>> {
    source: &'a Source<'a, S>,
    rows: &'a [usize],
    windows: &'a Windows<A::Weight>,
    arithmetic: A,
    out: &'a mut Planes<A::Output>,
}

impl<S: Element, A: Arithmetic<S>> Job for Horizontal<'_, S, A> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let transposed = self.source.width() * self.source.channels() <= LONGEST_TRANSPOSED && self.rows.len() > 2;
        match (self.source.channels(), transposed) {
            (1, true) => self.transposed::<1, ROWS>(),
            (3, true) => self.transposed::<3, { 3 * ROWS }>(),
            (1, false) => self.one_by_one::<1>(),
            (3, false) => self.one_by_one::<3>(),
            // Images have one or three channels.
            _ => {}
        }
    }
}

impl<S: Element, A: Arithmetic<S>> Horizontal<'_, S, A> {
    /// `L` is the number of channels times [`ROWS`].
    #[inline(always)]
    fn transposed<const C: usize, const L: usize>(&mut self) {
        let width = self.windows.len();
        // For each sample of a row, the values in 16 rows; of the results, plane by plane.
        let mut packed = vec![[S::default(); ROWS]; self.source.width() * C];
        let mut sums = vec![[A::Output::default(); ROWS]; C * width];
        for (block, rows) in self.rows.chunks(ROWS).enumerate() {
            pack(self.source, rows, &mut packed);
            let samples = packed.as_flattened();
            for output in 0..width {
                let results = sum::<S, A, L>(self.arithmetic, samples, L, self.windows.get(output));
                let (results, _) = results.as_chunks::<ROWS>();
                for (channel, &lanes) in results.iter().enumerate() {
                    sums[channel * width + output] = lanes;
                }
            }
            for channel in 0..C {
                unpack(&sums[channel * width..][..width], self.out, channel, block * ROWS, rows.len());
            }
        }
    }

    #[inline(always)]
    fn one_by_one<const C: usize>(&mut self) {
        for (position, &y) in self.rows.iter().enumerate() {
            let samples = self.source.row(y);
            for output in 0..self.windows.len() {
                let results = sum::<S, A, C>(self.arithmetic, samples, C, self.windows.get(output));
                for (channel, result) in results.into_iter().enumerate() {
                    if let Some(place) = self.out.row_mut(channel, position).get_mut(output) {
                        *place = result;
                    }
                }
            }
        }
    }
}

/// Transposes up to 16 rows. If there are fewer, the last one fills the block.
#[inline(always)]
fn pack<S: Element>(source: &Source<'_, S>, rows: &[usize], packed: &mut [[S; ROWS]]) {
    let last = rows.len() - 1;
    let rows: [&[S]; ROWS] = std::array::from_fn(|row| source.row(rows[row.min(last)]));
    let (tiles, rest) = packed.as_chunks_mut::<ROWS>();
    let mut start = 0;
    for tile in tiles {
        let block: [[S; ROWS]; ROWS] = std::array::from_fn(
            #[inline(always)]
            |row| rows[row].get(start..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default(),
        );
        *tile = transpose(&block);
        start += ROWS;
    }
    for (lanes, position) in rest.iter_mut().zip(start..) {
        *lanes = std::array::from_fn(|row| rows[row].get(position).copied().unwrap_or_default());
    }
}

/// Transposes the results of up to 16 rows back, into rows `first..first + count` of a plane.
#[inline(always)]
fn unpack<T: Element>(sums: &[[T; ROWS]], out: &mut Planes<T>, channel: usize, first: usize, count: usize) {
    let (tiles, rest) = sums.as_chunks::<ROWS>();
    for (tile, start) in tiles.iter().zip((0..).step_by(ROWS)) {
        for (values, y) in transpose(tile).iter().take(count).zip(first..) {
            out.row_mut(channel, y)[start..start + ROWS].copy_from_slice(values);
        }
    }
    let start = tiles.len() * ROWS;
    for (lanes, x) in rest.iter().zip(start..) {
        for (&value, y) in lanes.iter().take(count).zip(first..) {
            out.row_mut(channel, y)[x] = value;
        }
    }
}
