//! cuBLAS and cuSOLVER, loaded when they are first needed. Neither is required: without cuBLAS, products are computed by a
//! kernel of this crate, and without cuSOLVER the processor decomposes matrices.

use std::ffi::{c_int, c_void};

use cudarc::driver::{DriverError, result, sys};
use libloading::Library;
use modelmix::{Error, Result};

use super::{Device, Queue};

/// The workspace of cuBLAS in bytes, which NVIDIA recommends for Hopper. It is fixed, because algorithms are chosen by it.
const WORKSPACE: usize = 32 << 20;

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, sys::CUstream) -> c_int;
type SetWorkspace = unsafe extern "C" fn(Handle, *mut c_void, usize) -> c_int;
type Dgemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f64,
    u64,
    c_int,
    u64,
    c_int,
    *const f64,
    u64,
    c_int,
) -> c_int;
type EigenSize = unsafe extern "C" fn(Handle, c_int, c_int, c_int, u64, c_int, u64, *mut c_int) -> c_int;
type Eigen = unsafe extern "C" fn(Handle, c_int, c_int, c_int, u64, c_int, u64, u64, c_int, u64) -> c_int;
type FactorSize = unsafe extern "C" fn(Handle, c_int, c_int, u64, c_int, *mut c_int) -> c_int;
type Factorize = unsafe extern "C" fn(Handle, c_int, c_int, u64, c_int, u64, c_int, u64) -> c_int;

/// `CUBLAS_FILL_MODE_LOWER`.
const LOWER: c_int = 0;

/// The first library of these versions that can be loaded; `windows` is the name of the file there.
fn open(unix: &str, windows: &str, versions: &[&str]) -> Option<Library> {
    let names = versions.iter().map(|version| match (cfg!(windows), version.is_empty()) {
        (true, _) => format!("{windows}64_{version}.dll"),
        (false, true) => format!("lib{unix}.so"),
        (false, false) => format!("lib{unix}.so.{version}"),
    });
    // SAFETY: opens a library of CUDA and runs its initialisation, as every use of it does.
    names.into_iter().find_map(|name| unsafe { Library::new(name) }.ok())
}

/// A function of a library.
///
/// # Safety
/// `T` must be the type of the function.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: promised by the caller.
    unsafe { library.get::<T>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}

/// cuBLAS with a handle on the device's stream.
pub(crate) struct Blas {
    _library: Library,
    handle: Handle,
    workspace: u64,
    destroy: Destroy,
    dgemm: Dgemm,
}

/// One side of a product: a column-major matrix at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) at: u64,
    /// The distance between columns.
    pub(crate) stride: usize,
    pub(crate) transposed: bool,
}

// SAFETY: a handle may be used by any thread, one at a time: calls hold the queue of the device.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// `None` if it is not installed.
    fn open(device: &Device) -> Result<Option<Self>> {
        let Some(library) = open("cublas", "cublas", &["13", "12", "11", ""]) else { return Ok(None) };
        // SAFETY: the types are those of the library's header.
        let functions = unsafe {
            (
                symbol::<Create>(&library, "cublasCreate_v2"),
                symbol::<Destroy>(&library, "cublasDestroy_v2"),
                symbol::<SetStream>(&library, "cublasSetStream_v2"),
                symbol::<SetWorkspace>(&library, "cublasSetWorkspace_v2"),
                symbol::<Dgemm>(&library, "cublasDgemm_v2"),
            )
        };
        let (Some(create), Some(destroy), Some(set_stream), Some(set_workspace), Some(dgemm)) = functions else {
            return Ok(None);
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the argument is valid for writing.
        let status = unsafe { create(&mut handle) };
        if status != 0 {
            // A library that does not fit the driver counts as not installed.
            return Ok(None);
        }
        let mut blas = Self { _library: library, handle, workspace: 0, destroy, dgemm };
        // SAFETY: the memory is freed when `blas` is dropped.
        blas.workspace = unsafe { result::malloc_sync(WORKSPACE) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::Memory {
                what: "the workspace of cuBLAS".into(),
                place: device.name.clone(),
                needed: WORKSPACE as u64,
                free: None,
            },
            error => device.failed(error),
        })?;
        // SAFETY: stream and workspace live as long as the device, which drops the handle first. The workspace is set
        // after the stream, which resets it.
        let status = unsafe {
            match set_stream(handle, device.stream) {
                0 => set_workspace(handle, blas.workspace as *mut c_void, WORKSPACE),
                status => status,
            }
        };
        if status != 0 {
            return Err(device.problem(format!("cuBLAS cannot use its stream (status {status})")));
        }
        Ok(Some(blas))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the device is current and idle; errors of a lost device are ignored.
        unsafe {
            let _ = (self.destroy)(self.handle);
            if self.workspace != 0 {
                let _ = result::free_sync(self.workspace);
            }
        }
    }
}

/// cuSOLVER with a handle on the device's stream.
pub(crate) struct Solver {
    _library: Library,
    handle: Handle,
    destroy: Destroy,
    eigen_size: EigenSize,
    eigen: Eigen,
    factor_size: FactorSize,
    factorize: Factorize,
}

// SAFETY: as for `Blas`.
unsafe impl Send for Solver {}
// SAFETY: as for `Blas`.
unsafe impl Sync for Solver {}

impl Solver {
    /// `None` if it is not installed.
    fn open(device: &Device) -> Result<Option<Self>> {
        let Some(library) = open("cusolver", "cusolver", &["12", "11", ""]) else { return Ok(None) };
        // SAFETY: the types are those of the library's header.
        let functions = unsafe {
            (
                symbol::<Create>(&library, "cusolverDnCreate"),
                symbol::<Destroy>(&library, "cusolverDnDestroy"),
                symbol::<SetStream>(&library, "cusolverDnSetStream"),
                symbol::<EigenSize>(&library, "cusolverDnDsyevd_bufferSize"),
                symbol::<Eigen>(&library, "cusolverDnDsyevd"),
                symbol::<FactorSize>(&library, "cusolverDnDpotrf_bufferSize"),
                symbol::<Factorize>(&library, "cusolverDnDpotrf"),
            )
        };
        let (
            Some(create),
            Some(destroy),
            Some(set_stream),
            Some(eigen_size),
            Some(eigen),
            Some(factor_size),
            Some(factorize),
        ) = functions
        else {
            return Ok(None);
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the argument is valid for writing.
        if unsafe { create(&mut handle) } != 0 {
            return Ok(None);
        }
        let solver = Self { _library: library, handle, destroy, eigen_size, eigen, factor_size, factorize };
        // SAFETY: the stream lives as long as the device, which drops the handle first.
        match unsafe { set_stream(handle, device.stream) } {
            0 => Ok(Some(solver)),
            status => Err(device.problem(format!("cuSOLVER cannot use its stream (status {status})"))),
        }
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: the device is current and idle; errors of a lost device are ignored.
        let _ = unsafe { (self.destroy)(self.handle) };
    }
}

/// Libraries that are loaded, or known to be absent.
#[derive(Default)]
pub(crate) struct Libraries {
    blas: Option<Option<Blas>>,
    solver: Option<Option<Solver>>,
}

/// A size for a library, which takes 32-bit numbers.
fn size(device: &Device, size: usize) -> Result<c_int> {
    c_int::try_from(size).map_err(|_| device.problem(format!("a matrix has {size} rows, more than its libraries take")))
}

impl Queue<'_> {
    /// C = A·B, or C + A·B with `add`, of m × k and k × n matrices in double precision; column-major. Returns whether cuBLAS
    /// is installed: without it, nothing is done.
    ///
    /// # Safety
    /// The addresses must be those of matrices of these sizes.
    pub(crate) unsafe fn dgemm(
        &self,
        (m, n, k): (usize, usize, usize),
        a: Side,
        b: Side,
        add: bool,
        c: (u64, usize),
    ) -> Result<bool> {
        let device = self.device;
        let mut libraries = device.libraries.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if libraries.blas.is_none() {
            libraries.blas = Some(if device.has_libraries { Blas::open(device)? } else { None });
        }
        let Some(Some(blas)) = &libraries.blas else { return Ok(false) };
        let size = |value: usize| size(device, value);
        let (one, beta) = (1.0, f64::from(u8::from(add)));
        // SAFETY: the handle is alive, and the caller promises the matrices.
        let status = unsafe {
            (blas.dgemm)(
                blas.handle,
                c_int::from(a.transposed),
                c_int::from(b.transposed),
                size(m)?,
                size(n)?,
                size(k)?,
                &one,
                a.at,
                size(a.stride)?,
                b.at,
                size(b.stride)?,
                &beta,
                c.0,
                size(c.1)?,
            )
        };
        if status != 0 {
            return Err(device.problem(format!("cuBLAS reports status {status} for a product")));
        }
        Ok(true)
    }

    /// Calls `work` with cuSOLVER; `None` if it is not installed.
    fn with_solver<T>(&self, work: impl FnOnce(&Solver) -> Result<T>) -> Result<Option<T>> {
        let device = self.device;
        let mut libraries = device.libraries.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if libraries.solver.is_none() {
            libraries.solver = Some(if device.has_libraries { Solver::open(device)? } else { None });
        }
        match &libraries.solver {
            Some(Some(solver)) => work(solver).map(Some),
            _ => Ok(None),
        }
    }

    /// Eigenvalues of the symmetric n × n matrix at an address, of which the lower triangle is read, in ascending order into
    /// `values`; with `vectors`, the matrix becomes that of its eigenvectors, otherwise it is overwritten. Returns the
    /// library's report, 0 if it converged; `None` if there is no library.
    ///
    /// # Safety
    /// There must be a column-major matrix at `matrix` and n values at `values`.
    pub(crate) unsafe fn eigen(&self, n: usize, matrix: u64, values: u64, vectors: bool) -> Result<Option<i32>> {
        self.with_solver(|solver| {
            let (device, mode, n) = (self.device, c_int::from(vectors), size(self.device, n)?);
            let mut work_len = 0;
            // SAFETY: the handle is alive; the function only reads sizes.
            let status =
                unsafe { (solver.eigen_size)(solver.handle, mode, LOWER, n, matrix, n, values, &mut work_len) };
            let failed = |status| device.problem(format!("cuSOLVER reports status {status} for eigenvalues"));
            if status != 0 {
                return Err(failed(status));
            }
            let work = self.allocate::<f64>("eigenvalues", usize::try_from(work_len).unwrap_or(0))?;
            let info = self.zeros::<i32>("eigenvalues", 1)?;
            // SAFETY: the caller promises the matrix and the values; the work space has the size asked for.
            let status =
                unsafe { (solver.eigen)(solver.handle, mode, LOWER, n, matrix, n, values, work.at, work_len, info.at) };
            if status != 0 {
                return Err(failed(status));
            }
            Ok(self.values(&info)?[0])
        })
    }

    /// The lower Cholesky factor of the n × n matrix at an address, in its place. Returns the library's report, 0 if the
    /// matrix is positive definite; `None` if there is no library.
    ///
    /// # Safety
    /// There must be a column-major matrix at `matrix`.
    pub(crate) unsafe fn cholesky(&self, n: usize, matrix: u64) -> Result<Option<i32>> {
        self.with_solver(|solver| {
            let (device, n) = (self.device, size(self.device, n)?);
            let mut work_len = 0;
            // SAFETY: the handle is alive; the function only reads sizes.
            let status = unsafe { (solver.factor_size)(solver.handle, LOWER, n, matrix, n, &mut work_len) };
            let failed = |status| device.problem(format!("cuSOLVER reports status {status} for a Cholesky factor"));
            if status != 0 {
                return Err(failed(status));
            }
            let work = self.allocate::<f64>("a Cholesky factor", usize::try_from(work_len).unwrap_or(0))?;
            let info = self.zeros::<i32>("a Cholesky factor", 1)?;
            // SAFETY: the caller promises the matrix; the work space has the size asked for.
            let status = unsafe { (solver.factorize)(solver.handle, LOWER, n, matrix, n, work.at, work_len, info.at) };
            if status != 0 {
                return Err(failed(status));
            }
            Ok(self.values(&info)?[0])
        })
    }
}
