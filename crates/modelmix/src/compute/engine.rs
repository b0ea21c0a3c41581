//! The engine of a run: a backend, a stop token and a progress observer.

use std::sync::Arc;

use super::{
    Accuracy, Backend, Balls, Cpu, Eigen, Factor, Matrix, Neighbour, Overlaps, PairSums, Resident, Run, Set, Stop,
    Storage, Subsets,
};
use crate::error::Result;
use crate::features::{Features, Rows};
use crate::kernel::Kernel;

/// A compute engine: backend, stop token and progress observer. Clones are cheap and share all three.
///
/// ```
/// use modelmix::compute::{Cpu, Engine, Stop};
/// use modelmix::{Features, Inputs, Objective};
/// let stop = Stop::new();
/// let engine = Engine::new(Cpu::with_threads(2)).stopped_by(stop.clone());
/// let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().engine(engine))?;
/// // Any thread may call stop.set(); computations with this loss then return Error::Stopped.
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    backend: Arc<dyn Backend>,
    run: Run,
}

impl Default for Engine {
    /// Uses all cores of this machine.
    fn default() -> Self {
        Self::new(Cpu::new())
    }
}

impl<B: Backend + 'static> From<B> for Engine {
    fn from(backend: B) -> Self {
        Self::new(backend)
    }
}

/// The computing methods are those of [`Backend`], for any kind of set.
impl Engine {
    /// Creates an engine on a backend, without a stop token or an observer.
    pub fn new(backend: impl Backend + 'static) -> Self {
        Self { backend: Arc::new(backend), run: Run::default() }
    }

    /// The same engine with the stop token `stop`.
    #[must_use]
    pub fn stopped_by(self, stop: Stop) -> Self {
        let run = Run::with_stop(&self.run, stop);
        Self { run, ..self }
    }

    /// The same engine with a progress observer, which is called with the number of kernel pairs of every finished
    /// piece of work, on the thread that did it.
    #[must_use]
    pub fn observed_by(self, observer: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self { run: self.run.observed(observer), ..self }
    }

    /// The same engine without a stop token, for work that must not be interrupted.
    #[must_use]
    pub fn unstoppable(&self) -> Self {
        self.clone().stopped_by(Stop::new())
    }

    /// The same device in double precision.
    #[must_use]
    pub fn precise(&self) -> Self {
        Self { backend: self.backend.precise(), run: self.run.clone() }
    }

    /// The same device for callers that run many tasks at once on their own threads.
    #[must_use]
    pub fn for_concurrent_callers(&self) -> Self {
        let backend = self.backend.for_concurrent_callers().unwrap_or_else(|| Arc::clone(&self.backend));
        Self { backend, run: self.run.clone() }
    }

    /// Its backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Its stop token.
    pub fn stop(&self) -> &Stop {
        self.run.stop()
    }

    /// Fails if it is stopped.
    ///
    /// # Errors
    /// [`Error::Stopped`](crate::Error::Stopped).
    pub fn check(&self) -> Result<()> {
        self.run.check()
    }

    /// Name, device and instruction set.
    pub fn describe(&self) -> String {
        self.backend.describe()
    }

    /// The accuracy of its kernel sums.
    pub fn accuracy(&self) -> Accuracy {
        self.backend.accuracy()
    }

    /// Makes features resident; see [`Backend::hold`].
    ///
    /// # Errors
    /// Those of the backend, as with all methods below.
    pub fn hold(&self, features: &Features) -> Result<Box<dyn Resident>> {
        self.backend.hold(features)
    }

    /// Creates an empty resident set; see [`Backend::empty`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn empty(&self, width: usize, storage: Storage) -> Result<Box<dyn Resident>> {
        self.backend.empty(width, storage)
    }

    /// Sums of a kernel over all pairs of two sets; see [`Backend::kernel_sums`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn kernel_sums<'a>(&self, kernel: &Kernel, x: impl Into<Set<'a>>, y: impl Into<Set<'a>>) -> Result<PairSums> {
        self.backend.kernel_sums(&self.run, kernel, x.into(), y.into())
    }

    /// Sums of a kernel over all pairs among several sets; see [`Backend::kernel_sums_among`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn kernel_sums_among(&self, kernel: &Kernel, sets: &[Set<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
        self.backend.kernel_sums_among(&self.run, kernel, sets)
    }

    /// The sum of a kernel for every row over all other rows of its set.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn kernel_sums_within<'a>(&self, kernel: &Kernel, x: impl Into<Set<'a>>) -> Result<Vec<f64>> {
        Ok(self.kernel_sums_among(kernel, &[x.into()])?.concat().concat())
    }

    /// Kernel values of new rows against a set; see [`Backend::kernel_rows`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn kernel_rows<'a>(
        &self,
        kernel: &Kernel,
        weight: f64,
        x: Rows<'_>,
        held: impl Into<Set<'a>>,
        out: &mut [f64],
    ) -> Result<()> {
        self.backend.kernel_rows(&self.run, kernel, weight, x, held.into(), out)
    }

    /// Inner products of rows with a set; see [`Backend::products`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn products<'a>(&self, x: Rows<'_>, held: impl Into<Set<'a>>) -> Result<Vec<f64>> {
        self.backend.products(&self.run, x, held.into())
    }

    /// Eigenvalues of a symmetric matrix; see [`Backend::eigenvalues`].
    ///
    /// # Errors
    /// Those of the engine.
    pub fn eigenvalues(&self, matrix: &Matrix) -> Result<Vec<f64>> {
        self.backend.eigenvalues(&self.run, matrix)
    }

    /// Eigenvalues and eigenvectors of a symmetric matrix; see [`Backend::eigen`].
    ///
    /// # Errors
    /// Those of the engine.
    pub fn eigen(&self, matrix: &Matrix) -> Result<Eigen> {
        self.backend.eigen(&self.run, matrix)
    }

    /// The Cholesky factor of a positive semidefinite matrix; see [`Backend::factor`].
    ///
    /// # Errors
    /// Those of the engine.
    pub fn factor(&self, matrix: &Matrix) -> Result<Matrix> {
        self.backend.factor(&self.run, matrix)
    }

    /// Squared distances of rows to a set; see [`Backend::distances`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn distances<'a>(&self, x: Rows<'_>, held: impl Into<Set<'a>>) -> Result<Vec<f64>> {
        self.backend.distances(&self.run, x, held.into())
    }

    /// The nearest neighbours of every row of a set; see [`Backend::neighbours`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn neighbours<'a>(&self, x: impl Into<Set<'a>>, k: usize) -> Result<Vec<Neighbour>> {
        self.backend.neighbours(&self.run, x.into(), k)
    }

    /// The number of balls that contain each point; see [`Backend::ball_counts`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn ball_counts<'a>(&self, points: impl Into<Set<'a>>, balls: Balls<'_>) -> Result<Vec<u32>> {
        self.backend.ball_counts(&self.run, points.into(), balls)
    }

    /// Overlaps of the balls of two sets; see [`Backend::overlaps`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn overlaps(&self, x: Balls<'_>, weights: &[f64], y: Balls<'_>) -> Result<Overlaps> {
        self.backend.overlaps(&self.run, x, weights, y)
    }

    /// The mean of all rows, in double precision.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn mean<'a>(&self, x: impl Into<Set<'a>>) -> Result<Vec<f64>> {
        self.backend.mean(&self.run, x.into())
    }

    /// The scatter matrix of rows; see [`Backend::scatter`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn scatter<'a>(&self, x: impl Into<Set<'a>>, centre: &[f64], weights: Option<&[f64]>) -> Result<Matrix> {
        self.backend.scatter(&self.run, x.into(), centre, weights)
    }

    /// Sums of products of whole numbers; see [`Backend::whole_products`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn whole_products(&self, rows: &[i16], width: usize) -> Result<Vec<i64>> {
        self.backend.whole_products(&self.run, rows, width)
    }

    /// Sums of cosines and sines over rows, as whole numbers; see [`Backend::wave_sums`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn wave_sums(&self, x: Rows<'_>, centre: &[f32], frequencies: Rows<'_>) -> Result<Vec<i64>> {
        self.backend.wave_sums(&self.run, x, centre, frequencies)
    }

    /// Weighted sums of squared projections of rows; see [`Backend::projections`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn projections<'a>(
        &self,
        x: impl Into<Set<'a>>,
        centre: &[f64],
        directions: &Matrix,
        weights: &[f64],
    ) -> Result<Vec<f64>> {
        self.backend.projections(&self.run, x.into(), centre, directions, weights)
    }

    /// Sums of a kernel over pairs of subsets; see [`Backend::subset_sums`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn subset_sums(&self, kernel: &Kernel, x: Subsets<'_>, y: Option<Subsets<'_>>) -> Result<Vec<f64>> {
        self.backend.subset_sums(&self.run, kernel, x, y)
    }

    /// The product A·B, with [`Matrix::transposed`] for either; see [`Backend::product`].
    ///
    /// # Errors
    /// Those of the backend.
    pub fn product<'a>(&self, a: impl Into<Factor<'a>>, b: impl Into<Factor<'a>>) -> Result<Matrix> {
        self.backend.product(&self.run, a.into(), b.into())
    }
}
