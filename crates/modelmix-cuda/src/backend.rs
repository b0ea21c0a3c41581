//! The methods of the engine. All are computed on the GPU, except for decompositions of small matrices and, if cuSOLVER is not
//! installed, of all matrices.

use std::sync::{Arc, Mutex, PoisonError};

use modelmix::compute::{
    Accuracy, Backend, Balls, Eigen, Factor, Matrix, Neighbour, Overlaps, PairSums, Resident, Run, Set, Storage,
    Subsets,
};
use modelmix::internals::compute::subset_sums_separately;
use modelmix::{Error, Features, Kernel, Result, Rows};

use crate::device::{Device, Queue};
use crate::exact::{self, Columns, SLICE, Side, slices};
use crate::function::{Function, FusedKernel};
use crate::fused::{Arrangements, Fused};
use crate::options::{Options, Precision, Tier, Unavailable};
use crate::plan::Pairs;
use crate::progress::Progress;
use crate::resident::{DeviceSet, Loaded, Source};
use crate::strips::{self, Strips};
use crate::values::{self, NewRows, Radii, Scratch};
use crate::{decompose, moments, near, subsets};

/// The number of differences (rows × rows × columns) from which the fused kernels are used. Below, double precision takes
/// at most about a millisecond on an H200, as long as preparing and checking the fused kernels.
const MIN_FUSED_WORK: u128 = 4_000_000_000;
/// The same from which neighbours are searched with tensor cores.
const MIN_NEAR_WORK: u128 = 1_000_000_000;
/// The least number of sums that a thread copies to the caller's arrays.
const MIN_FILLED: usize = 64 << 10;
/// The smallest number of rows of a set for the fused kernels: errors of their values average out over a set.
const MIN_FUSED_ROWS: usize = 16;

/// The engine on an NVIDIA GPU. Clones share the device.
///
/// Results are the same to the last bit in every call on one kind of device with the same libraries, for any
/// [`Options::blocks`], and for any [`Options::memory`] in which the fused kernels have room for one square of rows; with
/// less, sums are computed in double precision. They differ from those of the processor, of other architectures, of another
/// [`Tier`], of another version of cuBLAS and cuSOLVER, and between precisions by rounding.
#[derive(Clone, Debug)]
pub struct Cuda {
    pub(crate) device: Arc<Device>,
    scratch: Arc<Scratch>,
    arrangements: Arc<Arrangements>,
    precision: Precision,
    blocks: Option<u32>,
}

impl Cuda {
    /// Opens a device, the first if none is named.
    ///
    /// # Errors
    /// [`Unavailable`] says why there is none, in one sentence.
    pub fn open(device: Option<usize>, options: Options) -> Result<Self, Unavailable> {
        Ok(Self {
            device: Arc::new(Device::open(device, &options)?),
            scratch: Arc::default(),
            arrangements: Arc::default(),
            precision: options.precision,
            blocks: options.blocks,
        })
    }

    /// The instructions that the fused kernels use.
    pub fn tier(&self) -> Tier {
        self.device.tier
    }

    /// The same device with another precision.
    #[must_use]
    pub fn with_precision(&self, precision: Precision) -> Self {
        Self { precision, ..self.clone() }
    }

    fn function(&self, kernel: &Kernel) -> Result<Function> {
        Function::of(kernel).ok_or_else(|| self.device.problem(format!("it has no kernel {kernel}")))
    }

    fn source<'a>(&self, set: Set<'a>) -> Result<Source<'a>> {
        Source::new(&self.device, set)
    }

    /// The kernel for the fused kernels, if they are to be used for these sets.
    fn fused(&self, kernel: &Kernel, sizes: &[usize], pairs: u128, width: usize) -> Option<FusedKernel> {
        // Few rows are in double precision even if few pairs are not: a sum over three rows has the error of single values,
        // which may be above what is promised for sums.
        let is_work_enough = match self.precision {
            Precision::Checked => pairs * width as u128 >= MIN_FUSED_WORK,
            Precision::CheckedForAll => true,
            Precision::Double => false,
        };
        if is_work_enough && sizes.iter().all(|&size| size >= MIN_FUSED_ROWS) { FusedKernel::of(kernel) } else { None }
    }

    /// Adds `weight` times the function of every new row with every held row to `out`.
    fn add_values(
        &self,
        run: &Run,
        function: &Function,
        weight: f64,
        is_precise: bool,
        (x, held): (Rows<'_>, Set<'_>),
        out: &mut [f64],
    ) -> Result<()> {
        let held = self.source(held)?;
        let queue = self.device.begin()?;
        NewRows { queue: &queue, scratch: &self.scratch, run, function, weight, is_precise }.add(x, &held, out)
    }

    /// Calls `take` with sums of pairs, `[set][row]` over all rows of all sets, by the fused kernels or in strips, and with whether
    /// `meanwhile` has seen them; `None` if there are too few pairs for either. `meanwhile` may be called before, while the device
    /// is busy: first without sums, then with those that are being checked.
    fn pair_sums<T>(
        &self,
        queue: &Queue<'_>,
        kernel: &Kernel,
        (sources, pairs): (&[Source<'_>], Pairs),
        progress: &Progress<'_>,
        meanwhile: &dyn Fn(Option<&[f64]>),
        take: impl FnOnce(&[f64], bool) -> T,
    ) -> Result<Option<T>> {
        let function = self.function(kernel)?;
        let sizes: Vec<usize> = sources.iter().map(Source::rows).collect();
        let rows = sizes.iter().sum::<usize>() as u128;
        let width = sources.first().map_or(1, Source::width);
        let count = match pairs {
            Pairs::All => rows * rows,
            Pairs::Between => 2 * (sizes[0] as u128) * sizes[1] as u128,
        };
        if let Some(fused) = self.fused(kernel, &sizes, count, width) {
            let (run, blocks, arrangements) = (progress.run, self.blocks, &*self.arrangements);
            let mut take = Some(take);
            let mut attempt = |is_tight: bool| {
                let loaded = if is_tight {
                    sources.iter().map(|source| source.load_on_host(queue)).collect::<Result<Vec<_>>>()?
                } else {
                    Source::load_all(queue, sources)?
                };
                let sets: Vec<&Loaded> = loaded.iter().collect();
                let (sets, pairs, kernel) = (&sets[..], pairs.clone(), fused);
                let call = Fused {
                    queue,
                    run,
                    kernel,
                    function,
                    sets,
                    pairs,
                    blocks,
                    progress,
                    arrangements,
                    is_tight,
                    meanwhile,
                };
                Ok(call.sums()?.and_then(|sums| take.take().map(|take| take(&sums, true))))
            };
            let found = match attempt(false) {
                // Once more with rows in memory of the host, and one square of split rows at a time.
                Err(Error::Memory { .. }) => {
                    self.device.trim(0)?;
                    attempt(true)
                }
                found => found,
            };
            match found {
                Ok(Some(found)) => return Ok(Some(found)),
                // Too little memory for the arrays of all rows, or sums that are not accurate enough. Strips take less memory.
                Ok(None) | Err(Error::Memory { .. }) => {}
                Err(error) => return Err(error),
            }
            let Some(take) = take else { return Ok(None) };
            return self.double_sums(queue, &function, (sources, pairs), progress, take);
        }
        self.double_sums(queue, &function, (sources, pairs), progress, take)
    }

    /// The same in double precision.
    fn double_sums<T>(
        &self,
        queue: &Queue<'_>,
        function: &Function,
        (sources, pairs): (&[Source<'_>], Pairs),
        progress: &Progress<'_>,
        take: impl FnOnce(&[f64], bool) -> T,
    ) -> Result<Option<T>> {
        let sizes: Vec<usize> = sources.iter().map(Source::rows).collect();
        if !strips::are_worthwhile(&sizes, &pairs, sources.first().map_or(1, Source::width)) {
            return Ok(None);
        }
        Strips::new(queue, function, sources)?.sums(progress.run, &pairs, progress).map(|sums| Some(take(&sums, false)))
    }
}

/// Sums by row of each set, from those of all.
fn by_set(sizes: &[usize], sums: &[f64]) -> Vec<Vec<Vec<f64>>> {
    let total: usize = sizes.iter().sum();
    let mut first = 0;
    let of = |&size: &usize| {
        let rows = first..first + size;
        first += size;
        (0..sizes.len()).map(|set| sums[set * total..][rows.clone()].to_vec()).collect()
    };
    sizes.iter().map(of).collect()
}

/// Work of several threads: their number, how often it is to be called, and the work.
type Share<'a> = &'a dyn Fn(usize, usize, &(dyn Fn(usize) + Sync));

/// Overwrites the result of [`by_set`] by that of other sums, on threads.
fn fill(by_set: &mut [Vec<Vec<f64>>], sums: &[f64], share: Share<'_>) {
    let total: usize = by_set.iter().map(|rows| rows.first().map_or(0, Vec::len)).sum();
    let (mut first, mut places) = (0, Vec::new());
    for sets in by_set {
        let size = sets.first().map_or(0, Vec::len);
        let of = |(set, rows)| Mutex::new((rows, &sums[set * total + first..][..size]));
        places.extend(sets.iter_mut().enumerate().map(of));
        first += size;
    }
    let threads = places.len().min(sums.len() / MIN_FILLED);
    share(threads, places.len(), &|place| {
        let mut place = places[place].lock().unwrap_or_else(PoisonError::into_inner);
        let (rows, sums) = &mut *place;
        rows.copy_from_slice(sums);
    });
}

impl Backend for Cuda {
    fn describe(&self) -> String {
        let instructions = match self.device.tier {
            Tier::Wgmma => "wgmma",
            Tier::Mma => "mma.sync",
        };
        let path = match self.precision {
            Precision::Checked => instructions.into(),
            Precision::CheckedForAll => format!("{instructions} for few pairs too"),
            Precision::Double => "double precision".into(),
        };
        format!("cuda, {} ({}, {path})", self.device.name, self.device.architecture)
    }

    /// In double precision, sums are as accurate as the processor's. Fused sums are accepted if sampled rows, among them
    /// those most at risk, have half of this error. Otherwise, rows far from all others, or all, are recomputed in double
    /// precision.
    fn accuracy(&self) -> Accuracy {
        match self.precision {
            Precision::Double => Accuracy { entry: 1e-11, row_sum: 1e-11 },
            _ => Accuracy { entry: 1e-6, row_sum: 1e-6 },
        }
    }

    fn precise(&self) -> Arc<dyn Backend> {
        Arc::new(self.with_precision(Precision::Double))
    }

    fn hold(&self, features: &Features) -> Result<Box<dyn Resident>> {
        Ok(Box::new(match DeviceSet::shared(&self.device, features) {
            Some(set) => set,
            None => DeviceSet::of(&self.device, features.host()?)?,
        }))
    }

    fn empty(&self, width: usize, storage: Storage) -> Result<Box<dyn Resident>> {
        Ok(Box::new(DeviceSet::empty(&self.device, width, storage)?))
    }

    fn kernel_sums(&self, run: &Run, kernel: &Kernel, x: Set<'_>, y: Set<'_>) -> Result<PairSums> {
        run.check()?;
        let (rows, columns) = (x.len(), y.len());
        if rows == 0 || columns == 0 {
            return Ok(PairSums { rows: vec![0.0; rows], columns: vec![0.0; columns] });
        }
        let (sources, function) = ([self.source(x)?, self.source(y)?], self.function(kernel)?);
        let queue = self.device.begin()?;
        let progress = Progress::new(run, (rows * columns) as u64);
        // The sums over y of the rows of x, and over x of those of y.
        let take = |sums: &[f64], _: bool| {
            let (over_x, over_y) = sums.split_at(rows + columns);
            PairSums { rows: over_y[..rows].to_vec(), columns: over_x[rows..].to_vec() }
        };
        if let Some(sums) = self.pair_sums(&queue, kernel, (&sources, Pairs::Between), &progress, &|_| (), take)? {
            return Ok(sums);
        }
        let (x, y) = (sources[0].load(&queue)?, sources[1].load(&queue)?);
        let (x, y) = (Side::new(&queue, &[&x], &function)?, Side::new(&queue, &[&y], &function)?);
        let sums = |x: &Side, y: &Side, before: usize| {
            let (slices, set_slice) = slices(&[y.rows], SLICE);
            let done = std::cell::Cell::new(before);
            let side = Columns { side: y, slices: &slices, set_slice: &set_slice, own: None };
            exact::sums(&queue, run, &function, x, &side, |count| {
                done.set(done.get() + count * y.rows);
                progress.reach(done.get() as u64, 2 * (rows * columns) as u64);
            })
        };
        Ok(PairSums { rows: sums(&x, &y, 0)?, columns: sums(&y, &x, rows * columns)? })
    }

    fn kernel_sums_among(&self, run: &Run, kernel: &Kernel, sets: &[Set<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
        run.check()?;
        let sizes: Vec<usize> = sets.iter().map(Set::len).collect();
        let total: usize = sizes.iter().sum();
        if total == 0 {
            return Ok(by_set(&sizes, &[]));
        }
        let sources = sets.iter().map(|&set| self.source(set)).collect::<Result<Vec<_>>>()?;
        let function = self.function(kernel)?;
        let queue = self.device.begin()?;
        let progress = Progress::new(run, (total as u64).saturating_mul(total as u64) / 2);
        // The first use of new memory takes as long as the copy: both are made while the device is busy.
        let places = std::cell::RefCell::new(Vec::new());
        let meanwhile = |sums: Option<&[f64]>| match sums {
            None => *places.borrow_mut() = by_set(&sizes, &vec![f64::NAN; sizes.len() * total]),
            Some(sums) => fill(&mut places.borrow_mut(), sums, &|threads, count, work| {
                self.device.share(threads, count, work);
            }),
        };
        let take = |sums: &[f64], was_seen: bool| if was_seen { places.take() } else { by_set(&sizes, sums) };
        if let Some(sums) = self.pair_sums(&queue, kernel, (&sources, Pairs::All), &progress, &meanwhile, take)? {
            return Ok(sums);
        }
        let loaded = Source::load_all(&queue, &sources)?;
        let loaded: Vec<&Loaded> = loaded.iter().collect();
        let side = Side::new(&queue, &loaded, &function)?;
        let own: Vec<i32> = (0..total as i32).collect();
        let own = queue.upload("indices of rows", &own)?;
        let (slices, set_slice) = slices(&sizes, SLICE);
        let done = std::cell::Cell::new(0);
        let advance = |count| {
            done.set(done.get() + count);
            progress.reach(done.get() as u64, total as u64);
        };
        let columns = Columns { side: &side, slices: &slices, set_slice: &set_slice, own: Some(&own) };
        Ok(by_set(&sizes, &exact::sums(&queue, run, &function, &side, &columns, advance)?))
    }

    fn kernel_rows(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Set<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        let is_precise = self.precision == Precision::Double;
        self.add_values(run, &self.function(kernel)?, weight, is_precise, (x, held), out)
    }

    fn products(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        let mut out = vec![0.0; x.len() * held.len()];
        self.add_values(run, &Function::PRODUCT, 1.0, true, (x, held), &mut out)?;
        Ok(out)
    }

    fn distances(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> Result<Vec<f64>> {
        let mut out = vec![0.0; x.len() * held.len()];
        self.add_values(run, &Function::DISTANCE, 1.0, true, (x, held), &mut out)?;
        Ok(out)
    }

    fn neighbours(&self, run: &Run, x: Set<'_>, k: usize) -> Result<Vec<Neighbour>> {
        let rows = x.len() as u128;
        let x = self.source(x)?;
        let queue = self.device.begin()?;
        let x = x.load(&queue)?;
        // Both are exact.
        let is_large = rows * rows * x.width as u128 >= MIN_NEAR_WORK || self.precision == Precision::CheckedForAll;
        if is_large && (1..=near::MAX_NEAR).contains(&k) && k < x.rows {
            match near::neighbours(&queue, run, &x, k) {
                // All distances of a few rows at a time take less memory.
                Err(Error::Memory { .. }) => {}
                result => return result,
            }
        }
        values::neighbours(&queue, run, &x, k)
    }

    fn ball_counts(&self, run: &Run, points: Set<'_>, balls: Balls<'_>) -> Result<Vec<u32>> {
        let (points, centres) = (self.source(points)?, self.source(balls.centres)?);
        let queue = self.device.begin()?;
        let radii = Radii { rows: None, columns: Some(balls.squared_radii) };
        Ok(values::balls(&queue, run, &points.load(&queue)?, &centres.load(&queue)?, radii)?.0)
    }

    fn overlaps(&self, run: &Run, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Result<Overlaps> {
        let (x_rows, y_rows) = (self.source(x.centres)?, self.source(y.centres)?);
        let queue = self.device.begin()?;
        let (x_rows, y_rows) = (x_rows.load(&queue)?, y_rows.load(&queue)?);
        let of_y = Radii { rows: None, columns: Some(y.squared_radii) };
        let (counts, _) = values::balls(&queue, run, &x_rows, &y_rows, of_y)?;
        let of_both = Radii { rows: Some((y.squared_radii, weights)), columns: Some(x.squared_radii) };
        let (holders, masses) = values::balls(&queue, run, &y_rows, &x_rows, of_both)?;
        Ok(Overlaps { counts, masses, held: holders.into_iter().map(|count| count > 0).collect() })
    }

    fn mean(&self, run: &Run, x: Set<'_>) -> Result<Vec<f64>> {
        let x = self.source(x)?;
        moments::mean(&self.device.begin()?, run, &x)
    }

    fn scatter(&self, run: &Run, x: Set<'_>, centre: &[f64], weights: Option<&[f64]>) -> Result<Matrix> {
        let x = self.source(x)?;
        moments::scatter(&self.device.begin()?, run, &x, centre, weights)
    }

    fn projections(
        &self,
        run: &Run,
        x: Set<'_>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> Result<Vec<f64>> {
        let x = self.source(x)?;
        moments::projections(&self.device.begin()?, run, &x, centre, directions, weights)
    }

    fn subset_sums(&self, run: &Run, kernel: &Kernel, x: Subsets<'_>, y: Option<Subsets<'_>>) -> Result<Vec<f64>> {
        if subsets::are_separate(x, y) {
            return subset_sums_separately(self, 1, run, kernel, x, y);
        }
        let both: Vec<Subsets<'_>> = [x].into_iter().chain(y).collect();
        let sources = both.iter().map(|side| self.source(side.rows)).collect::<Result<Vec<_>>>()?;
        let lists: Vec<&[&[usize]]> = both.iter().map(|side| side.subsets).collect();
        subsets::sums(&self.device.begin()?, run, &self.function(kernel)?, &sources, &lists)
    }

    fn product(&self, run: &Run, a: Factor<'_>, b: Factor<'_>) -> Result<Matrix> {
        moments::matrix_product(&self.device.begin()?, run, a, b)
    }

    fn eigenvalues(&self, run: &Run, matrix: &Matrix) -> Result<Vec<f64>> {
        if matrix.rows() >= decompose::MIN_ROWS
            && let Some(values) = decompose::eigenvalues(&self.device.begin()?, run, matrix)?
        {
            return Ok(values);
        }
        run.check().map(|()| matrix.eigenvalues())
    }

    fn eigen(&self, run: &Run, matrix: &Matrix) -> Result<Eigen> {
        if matrix.rows() >= decompose::MIN_ROWS
            && let Some(eigen) = decompose::eigen(&self.device.begin()?, run, matrix)?
        {
            return Ok(eigen);
        }
        run.check().map(|()| matrix.eigen())
    }

    fn factor(&self, run: &Run, matrix: &Matrix) -> Result<Matrix> {
        if matrix.rows() >= decompose::MIN_ROWS
            && let Some(factor) = decompose::factor(&self.device.begin()?, run, matrix)?
        {
            return Ok(factor);
        }
        run.check().map(|()| matrix.factor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sorted_by_set() {
        let sums: Vec<f64> = (0..10).map(f64::from).collect();
        let expected = vec![vec![vec![0.0, 1.0], vec![5.0, 6.0]], vec![vec![2.0, 3.0, 4.0], vec![7.0, 8.0, 9.0]]];
        assert_eq!(by_set(&[2, 3], &sums), expected);
        let mut filled = by_set(&[2, 3], &[f64::NAN; 10]);
        fill(&mut filled, &sums, &|_, count, work| (0..count).for_each(work));
        assert_eq!(filled, expected);
        assert_eq!(by_set(&[0, 0], &[]), vec![vec![Vec::<f64>::new(); 2]; 2]);
    }

    #[test]
    fn a_missing_device_has_a_reason() {
        if let Err(reason) = Cuda::open(Some(99), Options::default()) {
            let reason = reason.to_string();
            assert!(reason.len() > 20 && !reason.contains('\n'), "{reason}");
        }
    }
}
