//! A test engine: that of the processor, whose calls can be made to fail or to run other code first, and whose resident
//! sets can be hidden from the host like those of a device.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use modelmix::compute::{
    Accuracy, Backend, Balls, Cpu, Factor, HostRows, Matrix, Neighbour, Overlaps, PairSums, Resident, Run, Set,
    Storage, Subsets,
};
use modelmix::{Error, Features, Kernel, Rows};

/// The engine.
#[derive(Clone)]
pub(crate) struct Faulty {
    inner: Cpu,
    /// Called before every computation.
    before: Arc<dyn Fn() -> modelmix::Result<()> + Send + Sync>,
    /// Whether its sets are in memory that the host cannot access.
    is_device: bool,
    /// Whether no more sets can be created.
    pub(crate) is_full: Arc<AtomicBool>,
    /// Whether sets that the host cannot access can no longer be read.
    pub(crate) is_lost: Arc<AtomicBool>,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl Faulty {
    pub(crate) fn new(before: impl Fn() -> modelmix::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            inner: Cpu::with_threads(1),
            before: Arc::new(before),
            is_device: false,
            is_full: Arc::default(),
            is_lost: Arc::default(),
        }
    }

    /// Uses sets that the host cannot access.
    pub(crate) fn device(self) -> Self {
        Self { is_device: true, ..self }
    }

    fn call(&self) -> modelmix::Result<&Cpu> {
        (self.before)().map(|()| &self.inner)
    }

    fn allocate(&self) -> modelmix::Result<()> {
        if !self.is_full.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(Error::Memory { what: "a set".into(), place: "a device".into(), needed: 40, free: Some(8) })
    }

    fn place(&self, set: Box<dyn Resident>) -> Box<dyn Resident> {
        if self.is_device { Box::new(DeviceSet(set, Arc::clone(&self.is_lost))) } else { set }
    }
}

/// A set that the host cannot access, and whether its device is lost.
#[derive(Debug)]
struct DeviceSet(Box<dyn Resident>, Arc<AtomicBool>);

impl Resident for DeviceSet {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn storage(&self) -> Storage {
        self.0.storage()
    }

    fn append(&mut self, rows: Rows<'_>) -> modelmix::Result<()> {
        self.0.append(rows)
    }

    fn swap_remove(&mut self, row: usize) -> modelmix::Result<()> {
        self.0.swap_remove(row)
    }

    fn retain(&mut self, keep: &[bool]) -> modelmix::Result<()> {
        self.0.retain(keep)
    }

    fn read(&self, rows: Range<usize>) -> modelmix::Result<Vec<f32>> {
        if self.1.load(Ordering::SeqCst) {
            return Err(Error::Device { device: "a device".into(), problem: "it is lost".into() });
        }
        self.0.read(rows)
    }

    fn duplicate(&self) -> modelmix::Result<Box<dyn Resident>> {
        Ok(Box::new(DeviceSet(self.0.duplicate()?, Arc::clone(&self.1))))
    }

    fn host(&self) -> Option<HostRows<'_>> {
        None
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Backend for Faulty {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn accuracy(&self) -> Accuracy {
        self.inner.accuracy()
    }

    fn precise(&self) -> Arc<dyn Backend> {
        self.inner.precise()
    }

    fn hold(&self, features: &Features) -> modelmix::Result<Box<dyn Resident>> {
        self.inner.hold(features).map(|set| self.place(set))
    }

    fn empty(&self, width: usize, storage: Storage) -> modelmix::Result<Box<dyn Resident>> {
        self.allocate()?;
        self.inner.empty(width, storage).map(|set| self.place(set))
    }

    fn kernel_sums(&self, run: &Run, kernel: &Kernel, x: Set<'_>, y: Set<'_>) -> modelmix::Result<PairSums> {
        self.call()?.kernel_sums(run, kernel, x, y)
    }

    fn kernel_sums_among(&self, run: &Run, kernel: &Kernel, sets: &[Set<'_>]) -> modelmix::Result<Vec<Vec<Vec<f64>>>> {
        self.call()?.kernel_sums_among(run, kernel, sets)
    }

    fn kernel_rows(
        &self,
        run: &Run,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: Set<'_>,
        out: &mut [f64],
    ) -> modelmix::Result<()> {
        self.call()?.kernel_rows(run, kernel, weight, x, held, out)
    }

    fn products(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> modelmix::Result<Vec<f64>> {
        self.call()?.products(run, x, held)
    }

    fn distances(&self, run: &Run, x: Rows<'_>, held: Set<'_>) -> modelmix::Result<Vec<f64>> {
        self.call()?.distances(run, x, held)
    }

    fn neighbours(&self, run: &Run, x: Set<'_>, k: usize) -> modelmix::Result<Vec<Neighbour>> {
        self.call()?.neighbours(run, x, k)
    }

    fn ball_counts(&self, run: &Run, points: Set<'_>, balls: Balls<'_>) -> modelmix::Result<Vec<u32>> {
        self.call()?.ball_counts(run, points, balls)
    }

    fn overlaps(&self, run: &Run, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> modelmix::Result<Overlaps> {
        self.call()?.overlaps(run, x, weights, y)
    }

    fn mean(&self, run: &Run, x: Set<'_>) -> modelmix::Result<Vec<f64>> {
        self.call()?.mean(run, x)
    }

    fn scatter(&self, run: &Run, x: Set<'_>, centre: &[f64], weights: Option<&[f64]>) -> modelmix::Result<Matrix> {
        self.call()?.scatter(run, x, centre, weights)
    }

    fn projections(
        &self,
        run: &Run,
        x: Set<'_>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> modelmix::Result<Vec<f64>> {
        self.call()?.projections(run, x, centre, directions, weights)
    }

    fn subset_sums(
        &self,
        run: &Run,
        kernel: &Kernel,
        x: Subsets<'_>,
        y: Option<Subsets<'_>>,
    ) -> modelmix::Result<Vec<f64>> {
        self.call()?.subset_sums(run, kernel, x, y)
    }

    fn product(&self, run: &Run, a: Factor<'_>, b: Factor<'_>) -> modelmix::Result<Matrix> {
        self.call()?.product(run, a, b)
    }
}
