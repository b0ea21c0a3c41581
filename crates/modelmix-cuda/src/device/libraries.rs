//! cuBLAS and cuSOLVER, loaded when they are first needed. Neither is required: without cuBLAS, products are computed by a
//! kernel of this crate, and without cuSOLVER the processor decomposes matrices.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

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

/// Files to try for a library: those of its versions where the system looks, newest first, and then in the folders of wheels.
fn names(library: &str, versions: &[&str], folders: &[PathBuf]) -> Vec<PathBuf> {
    let file = |version: &&str| match (cfg!(windows), version.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("{library}64_{version}.dll")),
        (false, true) => Some(format!("lib{library}.so")),
        (false, false) => Some(format!("lib{library}.so.{version}")),
    };
    let files: Vec<String> = versions.iter().filter_map(file).collect();
    let in_folders = folders.iter().flat_map(|folder| files.iter().map(move |file| folder.join(file)));
    files.iter().map(PathBuf::from).chain(in_folders.filter(|path| path.exists())).collect()
}

/// The libraries of these versions that can be loaded, each when it is asked for.
fn open(library: &'static str, versions: &[&str]) -> impl Iterator<Item = Library> {
    // SAFETY: opens a library of CUDA and runs its initialisation, as every use of it does.
    names(library, versions, &wheel_folders(library)).into_iter().filter_map(|name| unsafe { Library::new(name) }.ok())
}

/// Folders in which wheels of PyPI have a library, if NVRTC was loaded from one.
fn wheel_folders(library: &str) -> Vec<PathBuf> {
    // Lines end with the file that is mapped. Other systems have no such list.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let nvrtc = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so")));
    nvrtc.map_or_else(Vec::new, |nvrtc| beside(nvrtc, library))
}

/// Folders of a library beside NVRTC: the same (`nvidia/cu13/lib`), or that of another wheel (`nvidia/cublas/lib` beside
/// `nvidia/cuda_nvrtc/lib`).
fn beside(nvrtc: &Path, library: &str) -> Vec<PathBuf> {
    let own = nvrtc.parent().map(Path::to_path_buf);
    let other = nvrtc.ancestors().nth(3).map(|wheels| wheels.join(library).join("lib"));
    own.into_iter().chain(other).collect()
}

/// A status with which libraries report that there is no memory for their handle.
const BLAS_ALLOC_FAILED: c_int = 3;
const SOLVER_ALLOC_FAILED: c_int = 2;

/// Too little memory for a library.
fn no_memory(device: &Device, what: &str, bytes: usize) -> Error {
    Error::Memory { what: what.into(), place: device.name.clone(), needed: bytes as u64, free: None }
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
        // A library that does not fit the driver counts as not installed; an older one may.
        open("cublas", &["13", "12", "11", ""]).find_map(|library| Self::of(device, library).transpose()).transpose()
    }

    /// `None` if the library cannot be used.
    fn of(device: &Device, library: Library) -> Result<Option<Self>> {
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
        match unsafe { create(&mut handle) } {
            0 => {}
            BLAS_ALLOC_FAILED => return Err(no_memory(device, "cuBLAS", WORKSPACE)),
            _ => return Ok(None),
        }
        let mut blas = Self { _library: library, handle, workspace: 0, destroy, dgemm };
        // SAFETY: the memory is freed when `blas` is dropped.
        blas.workspace = unsafe { result::malloc_sync(WORKSPACE) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                no_memory(device, "the workspace of cuBLAS", WORKSPACE)
            }
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
        open("cusolver", &["12", "11", ""]).find_map(|library| Self::of(device, library).transpose()).transpose()
    }

    /// `None` if the library cannot be used.
    fn of(device: &Device, library: Library) -> Result<Option<Self>> {
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
        match unsafe { create(&mut handle) } {
            0 => {}
            SOLVER_ALLOC_FAILED => return Err(no_memory(device, "cuSOLVER", WORKSPACE)),
            _ => return Ok(None),
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

/// Opens a library, which does not take memory from the pool: if there is too little, once more without what the pool keeps.
fn first_use<T>(device: &Device, open: impl Fn(&Device) -> Result<Option<T>>) -> Result<Option<T>> {
    match open(device) {
        Err(Error::Memory { .. }) => device.trim(0).and_then(|()| open(device)),
        found => found,
    }
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
            libraries.blas = Some(if device.has_libraries { first_use(device, Blas::open)? } else { None });
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
            libraries.solver = Some(if device.has_libraries { first_use(device, Solver::open)? } else { None });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_wheels_are_beside_nvrtc() {
        let found = beside(Path::new("/site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"), "cublas");
        assert_eq!(found, ["/site/nvidia/cuda_nvrtc/lib", "/site/nvidia/cublas/lib"].map(PathBuf::from));
        let found = beside(Path::new("/site/nvidia/cu13/lib/libnvrtc.so.13"), "cusolver");
        assert_eq!(found[0], Path::new("/site/nvidia/cu13/lib"));
    }

    #[test]
    #[cfg(unix)]
    fn names_are_those_of_versions_and_files_of_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("libcublas.so.12");
        std::fs::write(&file, b"").expect("a file");
        let found = names("cublas", &["13", "12", ""], &[folder.path().into(), "/absent".into()]);
        assert_eq!(
            found,
            [Path::new("libcublas.so.13"), Path::new("libcublas.so.12"), Path::new("libcublas.so"), &file]
        );
    }
}
