//! NVRTC: source text to machine code.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

use cudarc::nvrtc::{result, sys};

use crate::cache;

/// Whether the library can be loaded.
pub(crate) fn is_available() -> bool {
    // SAFETY: opens a library and runs its initialisation, as every use of it does.
    unsafe { sys::is_culib_present() }
}

/// The version of the library, which must be available.
pub(crate) fn version() -> Result<(i32, i32), String> {
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: both arguments are valid for writing.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(|error| error.to_string())?;
    Ok((major, minor))
}

/// Compiles a source with macro definitions for an architecture such as `sm_90a`, or reads the result of an earlier
/// process from `folder`.
pub(crate) fn module(
    name: &str,
    source: &str,
    defines: &[String],
    architecture: &str,
    folder: Option<&Path>,
) -> Result<Vec<u8>, String> {
    let (major, minor) = version()?;
    let mut options = vec![format!("--gpu-architecture={architecture}"), "--std=c++17".into()];
    // Unused functions and variables of shared parts.
    options.push("-diag-suppress=177,550".into());
    options.extend(defines.iter().map(|define| format!("-D{define}")));
    let key = cache::key(&[source.as_bytes(), options.join("\n").as_bytes(), format!("{major}.{minor}").as_bytes()]);
    if let Some(module) = folder.and_then(|folder| cache::read(folder, &key)) {
        return Ok(module);
    }
    let module = compile(name, source, &options)?;
    if let Some(folder) = folder {
        // A cache that cannot be written costs time only.
        let _ = cache::write(folder, &key, &module);
    }
    Ok(module)
}

/// Destroys a program when it goes out of scope.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created and is destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn compile(name: &str, source: &str, options: &[String]) -> Result<Vec<u8>, String> {
    let text = |text: &str| CString::new(text).map_err(|_| format!("{name} has a zero byte"));
    let (source, file) = (text(source)?, text(name)?);
    let program = Program(result::create_program(&source, Some(&file)).map_err(|error| error.to_string())?);
    // SAFETY: the program is alive; options have no zero bytes, since they come from this crate.
    if let Err(error) = unsafe { result::compile_program(program.0, options) } {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(program.0) }.map_or_else(|_| String::new(), |log| log_text(&log));
        return Err(format!("{name}: {error}: {log}"));
    }
    let mut size = 0;
    // SAFETY: the program is compiled, and `size` is valid for writing.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) }.result().map_err(|error| error.to_string())?;
    let mut module = vec![0u8; size];
    // SAFETY: the module has the size that the library asked for.
    unsafe { sys::nvrtcGetCUBIN(program.0, module.as_mut_ptr().cast::<c_char>()) }
        .result()
        .map_err(|error| error.to_string())?;
    Ok(module)
}

fn log_text(log: &[c_char]) -> String {
    let bytes: Vec<u8> = log.iter().map(|&byte| byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |log| log.to_string_lossy().trim().to_owned())
}
