//! The library of onnxruntime: where it may be installed, and whether a file is one that can be used. It is opened here
//! first, since `ort` panics if the library is missing or too old.

use std::ffi::{CStr, OsStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ort::environment::Environment;

use super::first_line;
use crate::problem::Problem;

/// How to install onnxruntime.
const INSTALL: &str =
    "install it (pip install onnxruntime, or onnxruntime-gpu for CUDA), or set ORT_DYLIB_PATH to the library";

/// The library of this process. A process can load only one.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// A library that is loaded.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) environment: Environment,
    /// Its version, as in "1.31.1".
    pub(super) version: String,
    path: PathBuf,
}

/// The library of this process, loaded on first use.
pub(super) fn load(explicit: Option<&Path>) -> Result<Loaded, Problem> {
    let mut slot = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(loaded) = &*slot {
        return match explicit.map(file_at) {
            Some(other) if !same(&other, &loaded.path) => Err(Problem::new(format!(
                "onnxruntime is loaded from {} already, and a process can load only one; start another process to use {}",
                loaded.path.display(),
                other.display()
            ))),
            _ => Ok(loaded.clone()),
        };
    }
    let (path, version) = find(explicit)?;
    let failed = |error: String| {
        let reason = first_line(&error);
        Problem::new(format!("onnxruntime cannot be started from {} ({reason}); {INSTALL}", path.display()))
    };
    let environment = ort::init_from(&path).map_err(|error| failed(error.to_string()))?;
    // Microsoft's builds for Windows send telemetry unless told otherwise.
    let environment =
        environment.with_name("modelmix").with_telemetry(false).build().map_err(|error| failed(error.to_string()))?;
    let loaded = Loaded { environment, version, path };
    *slot = Some(loaded.clone());
    Ok(loaded)
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// The library that is used, with its version: the one that was named, or the first that works of those installed.
fn find(explicit: Option<&Path>) -> Result<(PathBuf, String), Problem> {
    let named = explicit.map(|path| (path.to_owned(), "the path given")).or_else(|| {
        let path = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty())?;
        Some((PathBuf::from(path), "ORT_DYLIB_PATH"))
    });
    if let Some((path, origin)) = named {
        let path = file_at(&path);
        return match version(&path) {
            Ok(version) => Ok((path, version)),
            Err(reason) => Err(Problem::new(format!(
                "{origin} is {}, which is not a library of onnxruntime that can be used ({reason}); {INSTALL}",
                path.display()
            ))),
        };
    }
    let mut looked = Vec::new();
    for place in places() {
        let candidate = file_at(&place);
        match version(&candidate) {
            Ok(version) => return Ok((candidate, version)),
            // A file that is there but cannot be used deserves its reason; a missing one does not.
            Err(reason) if candidate.is_file() => looked.push(format!("{} ({reason})", candidate.display())),
            Err(_) => looked.push(place.display().to_string()),
        }
    }
    Err(Problem::new(format!("onnxruntime was not found in {}; {INSTALL}", looked.join(", "))))
}

/// Folders and names that may hold the library: the active Python environment, then the system.
fn places() -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let environments = environments.filter(|path| !path.is_empty()).map(PathBuf::from);
    let mut places: Vec<PathBuf> = environments.flat_map(|environment| in_environment(&environment)).collect();
    for folder in ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/opt/onnxruntime/lib", "/opt/homebrew/lib"] {
        if cfg!(unix) && Path::new(folder).is_dir() {
            places.push(folder.into());
        }
    }
    // By name alone, the system looks where it looks for every library. Packages of Linux without the files for
    // developers have only the name with the major version.
    places.push(file_name().into());
    if cfg!(target_os = "linux") {
        places.push(format!("{}.1", file_name()).into());
    }
    places
}

/// Where the Python package keeps the library in an environment, for each version of Python in it.
fn in_environment(environment: &Path) -> Vec<PathBuf> {
    let package = Path::new("site-packages").join("onnxruntime").join("capi");
    if cfg!(windows) {
        return vec![environment.join("Lib").join(package)];
    }
    let mut found: Vec<PathBuf> = entries(&environment.join("lib"))
        .into_iter()
        .filter(|path| file_name_of(path).starts_with("python3"))
        .map(|path| path.join(&package))
        .collect();
    // A conda package may hold the library itself.
    found.push(environment.join("lib"));
    found
}

fn file_name() -> String {
    format!("{}onnxruntime{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

fn file_name_of(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The library in a folder, which may have its version in its name; any other path stays as it is.
fn file_at(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let plain = path.join(file_name());
    if plain.is_file() {
        return plain;
    }
    let versioned = |path: &PathBuf| {
        let name = file_name_of(path);
        // libonnxruntime.so.1.31.1 on Linux, libonnxruntime.1.31.1.dylib on macOS.
        name.starts_with("libonnxruntime.") && (name.contains(".so.") || name.ends_with(".dylib"))
    };
    entries(path).into_iter().rfind(versioned).unwrap_or(plain)
}

/// The first functions of the library, as its header `onnxruntime_c_api.h` declares them.
#[repr(C)]
struct ApiBase {
    get_api: unsafe extern "system" fn(version: u32) -> *const u8,
    version: unsafe extern "system" fn() -> *const c_char,
}

/// Why a library cannot be opened.
fn reason(path: &Path, error: &libloading::Error) -> String {
    if path.is_absolute() && !path.exists() {
        return "there is no such file".to_owned();
    }
    // The system's own message is the source of libloading's.
    let source = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    first_line(&source)
}

/// The version of a library, or why it cannot be used.
fn version(path: &Path) -> Result<String, String> {
    // SAFETY: opening a library runs its initialisers. The path is one that the user named, or where onnxruntime is
    // installed, and those of onnxruntime are sound.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| reason(path, &error))?;
    // SAFETY: the type is that of the function of this name in onnxruntime's header; its layout has never changed.
    let base = unsafe { library.get::<unsafe extern "C" fn() -> *const ApiBase>(b"OrtGetApiBase") };
    let base = base.map_err(|_| "it has no function OrtGetApiBase".to_owned())?;
    // SAFETY: the function takes nothing and returns a pointer to a static of the library, or null.
    let base = unsafe { base().as_ref() }.ok_or("OrtGetApiBase returns nothing")?;
    // SAFETY: it returns a static text that ends in 0, or null.
    let text = unsafe { (base.version)() };
    if text.is_null() {
        return Err("it has no version".to_owned());
    }
    // SAFETY: not null, and a text that ends in 0 as its header says.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: any number may be asked for; the result is null if the library is older.
    let supported = unsafe { !(base.get_api)(ort::MINOR_VERSION).is_null() };
    // ort compares the second number of the version, so both must say yes.
    let minor = text.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    if !supported || ort::MINOR_VERSION > minor {
        return Err(format!("its version is {text}, and 1.{} or newer is needed", ort::MINOR_VERSION));
    }
    // The library stays loaded: unloading it while threads of it exist is not safe.
    std::mem::forget(library);
    Ok(text)
}
