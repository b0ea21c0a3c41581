//! Sums and values over many pairs in double precision. Sets are cut into strips; the products of two strips of centred rows
//! are one product of matrices, from which a second kernel computes values and their sums. Pairs among sets are computed
//! once.
//!
//! Two strips are on the device at a time, so sets need not fit into its memory. Strips depend on the sizes of sets alone, so
//! that bits do not depend on memory.

use std::ops::Range;

use modelmix::compute::Run;
use modelmix::{Error, Result};

use crate::device::{Buffer, Grid, Queue};
use crate::exact::centre;
use crate::function::Function;
use crate::modules::Module;
use crate::plan::Pairs;
use crate::product::{Side, product};
use crate::progress::Progress;
use crate::resident::{Loaded, Source};

/// The maximum number of rows of a strip: the products of two take 128 MB, and cuBLAS is not faster with larger ones.
const STRIP: usize = 4096;
/// Rows and columns per partial sum of `double.cu`.
const ROW_BLOCK: usize = 64;
const COLUMN_BLOCK: usize = 128;
/// The number of rows of every set from which a centre is computed. Any point is valid, so a sample is enough.
const CENTRE_ROWS: usize = 64;
/// The least width, and the least number of multiplications per pair of sets: for less, tiles of differences are faster.
const MIN_WIDTH: usize = 16;
const MIN_WORK: u128 = 500_000_000;
/// Multiplications after which the stop token is checked: about 20 ms with tensor cores for double precision, and a tenth of a
/// second on devices without.
const WAIT_WORK: usize = 500_000_000_000;
const SLOW_WAIT_WORK: usize = 50_000_000_000;

/// Whether sums over pairs of these sets are computed in strips.
pub(crate) fn are_worthwhile(sizes: &[usize], pairs: &Pairs, width: usize) -> bool {
    let work = match pairs {
        Pairs::All => {
            let mean = sizes.iter().sum::<usize>() as u128 / sizes.len().max(1) as u128;
            mean * mean * width as u128
        }
        Pairs::Between => sizes[0] as u128 * sizes[1] as u128 * width as u128,
    };
    work >= MIN_WORK && width >= MIN_WIDTH
}

/// Rows of one set.
#[derive(Clone, Debug, PartialEq)]
struct Strip {
    set: usize,
    rows: Range<usize>,
}

/// Sets in strips of about the same length, at most `most` rows.
fn cut(sizes: &[usize], most: usize) -> Vec<Strip> {
    let of = |(set, &size): (usize, &usize)| {
        let length = size.div_ceil(size.div_ceil(most).max(1)).next_multiple_of(ROW_BLOCK).min(most).max(1);
        (0..size).step_by(length).map(move |first| Strip { set, rows: first..(first + length).min(size) })
    };
    sizes.iter().enumerate().flat_map(of).collect()
}

/// The pairs of strips that have all pairs of rows: each once.
fn pairs_of_strips(strips: &[Strip], pairs: &Pairs) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (i, x) in strips.iter().enumerate() {
        for (j, y) in strips.iter().enumerate().skip(i) {
            if *pairs == Pairs::All || x.set != y.set {
                found.push((i, j));
            }
        }
    }
    found
}

/// A strip on the device, as it is and in double precision.
struct Place {
    exact: Buffer<f64>,
    squares: Buffer<f64>,
    held: Option<(usize, Loaded)>,
}

impl Place {
    fn at(&self) -> u64 {
        self.held.as_ref().map_or(0, |(_, loaded)| loaded.base)
    }
}

/// Pairs of sets in strips.
pub(crate) struct Strips<'a> {
    queue: &'a Queue<'a>,
    function: &'a Function,
    sources: &'a [Source<'a>],
    /// Sets that are on the device as a whole, if there is memory for them.
    loaded: Option<Vec<Loaded>>,
    strips: Vec<Strip>,
    centre: Option<Buffer<f32>>,
    places: [Place; 2],
    /// Products of two strips: `[row][column]`.
    tile: Buffer<f64>,
    pitch: usize,
}

impl<'a> Strips<'a> {
    /// The sources must have the same width.
    pub(crate) fn new(queue: &'a Queue<'a>, function: &'a Function, sources: &'a [Source<'a>]) -> Result<Self> {
        let sizes: Vec<usize> = sources.iter().map(Source::rows).collect();
        let strips = cut(&sizes, STRIP);
        let width = sources.first().map_or(1, Source::width);
        let longest = strips.iter().map(|strip| strip.rows.len()).max().unwrap_or(0);
        // Even, for pairs of values.
        let pitch = longest.next_multiple_of(2);
        let needed = 8 * (2 * longest * (width + 1) + longest * pitch) + 2 * 4 * longest * width;
        let memory = |error| match error {
            Error::Memory { place, free, .. } => {
                let what =
                    format!("sums in double precision over pairs of rows of width {width}, {longest} at a time,");
                Error::Memory { what, place, needed: needed as u64, free }
            }
            error => error,
        };
        let place = || {
            Ok(Place {
                exact: queue.allocate("rows in double precision", longest * width)?,
                squares: queue.allocate("squares of rows", longest)?,
                held: None,
            })
        };
        let places = [place().map_err(memory)?, place().map_err(memory)?];
        let tile = queue.allocate("products of rows", longest * pitch).map_err(memory)?;
        Ok(Self { queue, function, sources, loaded: None, strips, centre: None, places, tile, pitch })
    }

    /// Loads whole sets if they fit, after everything else is allocated, and finds the centre.
    fn load(&mut self) -> Result<()> {
        match Source::load_all(self.queue, self.sources) {
            Ok(loaded) => self.loaded = Some(loaded),
            Err(Error::Memory { .. }) => {}
            Err(error) => return Err(error),
        }
        self.centre = self.find_centre()?;
        Ok(())
    }

    fn width(&self) -> usize {
        self.sources.first().map_or(1, Source::width)
    }

    /// Rows of a set on the device.
    fn piece(&self, set: usize, rows: Range<usize>) -> Result<Loaded> {
        match &self.loaded {
            Some(loaded) => Ok(Loaded::at(loaded[set].row(rows.start), rows.len(), self.width())),
            None => self.sources[set].piece(self.queue, rows),
        }
    }

    /// The mean of sampled rows of every set, if the function is one of distances.
    fn find_centre(&self) -> Result<Option<Buffer<f32>>> {
        if self.function.is_product() {
            return Ok(None);
        }
        let mut sampled = Vec::new();
        for (set, source) in self.sources.iter().enumerate() {
            for row in spread(source.rows(), CENTRE_ROWS) {
                sampled.push(self.piece(set, row..row + 1)?);
            }
        }
        let at: Vec<u64> = sampled.iter().map(|row| row.base).collect();
        let at = self.queue.upload("sampled rows", &at)?;
        Ok(Some(centre(self.queue, &at, at.len, self.width())?.0))
    }

    /// Makes a strip resident in one of the two places.
    fn place(&mut self, which: usize, strip: usize) -> Result<()> {
        if self.places[which].held.as_ref().is_some_and(|(held, _)| *held == strip) {
            return Ok(());
        }
        // Freed first, so that there is room.
        self.places[which].held = None;
        let Strip { set, rows } = self.strips[strip].clone();
        let loaded = self.piece(set, rows)?;
        let place = &mut self.places[which];
        let (rows, width) = (loaded.rows as i32, loaded.width as i32);
        let (centre, none) = (self.centre.as_ref().map_or(0, |centre| centre.at), 0u64);
        // SAFETY: the buffers have places for the longest strip.
        unsafe {
            self.queue.launch(
                Module::Double,
                "rows_double",
                Grid::new(loaded.rows.div_ceil(8), 256),
                &[&loaded.base, &rows, &width, &centre, &none, &none, &place.exact.at, &place.squares.at],
            )?;
        }
        place.held = Some((strip, loaded));
        Ok(())
    }

    /// The products of the rows of strip `i` with those of strip `j`.
    fn multiply(&mut self, i: usize, j: usize) -> Result<()> {
        self.place(0, i)?;
        if i != j {
            self.place(1, j)?;
        }
        let (x, y) = (&self.places[0], &self.places[usize::from(i != j)]);
        let (rows, columns, width) = (self.strips[i].rows.len(), self.strips[j].rows.len(), self.width());
        let side = |place: &Place, transposed| Side { at: place.exact.at, stride: width, transposed };
        // SAFETY: rows are columns of matrices of `width` rows, and the tile has room for all products.
        unsafe {
            let to = (self.tile.at, self.pitch);
            product(self.queue, (columns, rows, width), side(y, true), side(x, false), false, to)
        }
    }

    /// `[set][row]`: for every set, the sums of all rows of all sets over it, 0 for pairs that are not asked for.
    pub(crate) fn sums(&mut self, run: &Run, pairs: &Pairs, progress: &Progress<'_>) -> Result<Vec<f64>> {
        let queue = self.queue;
        let mut first_rows = vec![0];
        for source in self.sources {
            first_rows.push(first_rows[first_rows.len() - 1] + source.rows());
        }
        let total = first_rows[self.sources.len()];
        let longest = self.pitch;
        let out = queue.zeros::<f64>("sums of rows", self.sources.len() * total)?;
        let row_part = queue.allocate::<f64>("partial sums", longest.div_ceil(COLUMN_BLOCK) * longest)?;
        let column_part = queue.allocate::<f64>("partial sums", longest.div_ceil(ROW_BLOCK) * longest)?;
        self.load()?;
        let place_of = |strip: &Strip, toward: usize| {
            out.at + ((toward * total + first_rows[strip.set] + strip.rows.start) * size_of::<f64>()) as u64
        };
        let all = pairs_of_strips(&self.strips, pairs);
        let most = if queue.device.has_fast_double { WAIT_WORK } else { SLOW_WAIT_WORK };
        let mut work = 0;
        for (index, &(i, j)) in all.iter().enumerate() {
            self.multiply(i, j)?;
            let (x, y) = (self.strips[i].clone(), self.strips[j].clone());
            let of_columns = if i == j { 0 } else { column_part.at };
            self.tile_sums(i, j, (row_part.at, of_columns))?;
            self.add(&row_part, y.rows.len().div_ceil(COLUMN_BLOCK), x.rows.len(), place_of(&x, y.set))?;
            if i != j {
                self.add(&column_part, x.rows.len().div_ceil(ROW_BLOCK), y.rows.len(), place_of(&y, x.set))?;
            }
            work += x.rows.len() * y.rows.len() * self.width();
            if work >= most || index + 1 == all.len() {
                queue.wait()?;
                progress.reach(index as u64 + 1, all.len() as u64);
                run.check()?;
                work = 0;
            }
        }
        queue.values(&out)
    }

    /// Partial sums of the tile, of its rows and, unless the address is 0, of its columns.
    fn tile_sums(&self, i: usize, j: usize, (row_part, column_part): (u64, u64)) -> Result<()> {
        let name = self.function.of_tiles();
        let (x, y) = (&self.places[0], &self.places[usize::from(i != j)]);
        let (rows, columns) = (self.strips[i].rows.len(), self.strips[j].rows.len());
        let (pitch, stride) = (self.pitch as i64, self.pitch as i64);
        // SAFETY: there are products of all rows and columns, squares of both, and a partial sum for every block.
        unsafe {
            self.queue.launch(
                Module::Double,
                name,
                Grid::two(columns.div_ceil(COLUMN_BLOCK), rows.div_ceil(ROW_BLOCK), 256),
                &[
                    &self.tile.at,
                    &pitch,
                    &(rows as i32),
                    &(columns as i32),
                    &x.squares.at,
                    &y.squares.at,
                    &x.at(),
                    &y.at(),
                    &(self.width() as i32),
                    self.function,
                    &i32::from(i == j),
                    &row_part,
                    &stride,
                    &column_part,
                    &stride,
                ],
            )
        }
    }

    /// Adds partial sums of `rows` rows to those at an address.
    fn add(&self, part: &Buffer<f64>, blocks: usize, rows: usize, to: u64) -> Result<()> {
        let (blocks, stride) = (blocks as i32, self.pitch as i64);
        let grid = Grid::new(rows.div_ceil(128), 128);
        // SAFETY: there is a partial sum for every block and row, and a sum for every row.
        unsafe {
            self.queue.launch(Module::Double, "add_parts", grid, &[&part.at, &blocks, &stride, &(rows as i32), &to])
        }
    }

    /// The maximum number of rows of a strip, rounded up.
    pub(crate) fn longest(&self) -> usize {
        self.pitch
    }

    /// Calls `work` with the values of every pair of strips: their sets and rows, and an address and the distance between
    /// rows.
    pub(crate) fn values(
        &mut self,
        run: &Run,
        pairs: &Pairs,
        mut work: impl FnMut([(usize, Range<usize>); 2], (u64, usize)) -> Result<()>,
    ) -> Result<()> {
        self.load()?;
        for (i, j) in pairs_of_strips(&self.strips, pairs) {
            run.check()?;
            self.multiply(i, j)?;
            let (x, y) = (&self.places[0], &self.places[usize::from(i != j)]);
            let (rows, columns) = (self.strips[i].rows.len(), self.strips[j].rows.len());
            // SAFETY: there are products of all rows and columns, and squares of both.
            unsafe {
                self.queue.launch(
                    Module::Double,
                    "tile_values",
                    Grid::two(columns.div_ceil(128), rows, 128),
                    &[
                        &self.tile.at,
                        &(self.pitch as i64),
                        &(columns as i32),
                        &x.squares.at,
                        &y.squares.at,
                        &x.at(),
                        &y.at(),
                        &(self.width() as i32),
                        self.function,
                    ],
                )?;
            }
            let of = |strip: &Strip| (strip.set, strip.rows.clone());
            work([of(&self.strips[i]), of(&self.strips[j])], (self.tile.at, self.pitch))?;
        }
        self.queue.wait()
    }
}

/// At most `most` of `rows` rows, spread over all of them without a period.
fn spread(rows: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = rows.min(most);
    let step = rows.checked_div(count).unwrap_or(1);
    (0..count).map(move |index| index * step + (index.wrapping_mul(2_654_435_761) >> 8) % step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_cover_every_row_once() {
        let sizes = [10_000, 0, 1, 4096, 4097];
        let strips = cut(&sizes, STRIP);
        assert_eq!(
            strips.iter().map(|strip| strip.rows.len()).collect::<Vec<_>>(),
            [3392, 3392, 3216, 1, 4096, 2112, 1985]
        );
        for (set, &size) in sizes.iter().enumerate() {
            let rows: Vec<usize> =
                strips.iter().filter(|strip| strip.set == set).flat_map(|strip| strip.rows.clone()).collect();
            assert_eq!(rows, (0..size).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_pair_of_strips_is_computed_once() {
        let strips = cut(&[100, 70], 64);
        assert_eq!(strips.len(), 4);
        let all = pairs_of_strips(&strips, &Pairs::All);
        assert_eq!(all.len(), 4 * 5 / 2);
        let between = pairs_of_strips(&strips, &Pairs::Between);
        assert_eq!(between, [(0, 2), (0, 3), (1, 2), (1, 3)]);
    }

    #[test]
    fn sampled_rows_are_different_and_inside() {
        for rows in [0, 1, 63, 64, 65, 127, 128, 10_000] {
            let found: Vec<usize> = spread(rows, 64).collect();
            assert_eq!(found.len(), rows.min(64));
            assert!(found.windows(2).all(|two| two[0] < two[1]) && found.iter().all(|&row| row < rows), "{rows}");
        }
    }

    #[test]
    fn few_pairs_and_narrow_rows_are_not_cut() {
        assert!(are_worthwhile(&[10_000; 5], &Pairs::All, 1024));
        assert!(!are_worthwhile(&[100; 500], &Pairs::All, 1024));
        assert!(!are_worthwhile(&[100_000; 5], &Pairs::All, 8));
        assert!(are_worthwhile(&[2000, 1000], &Pairs::Between, 300));
        assert!(!are_worthwhile(&[1000, 100], &Pairs::Between, 300));
    }
}
