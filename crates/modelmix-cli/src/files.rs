//! Files that are written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Failure, Result};

/// Temporary files and folders, to be taken away when the user interrupts.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes away what is unfinished. The process must end behind it: nobody can begin a file any more.
pub(crate) fn clean_up() {
    let mut paths = unfinished();
    for path in paths.drain(..) {
        // Nothing is left to do where it is gone already.
        let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
    std::mem::forget(paths);
}

/// A temporary folder, which goes when this does.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let mut paths = unfinished();
        let folder = tempfile::tempdir().map_err(|error| Failure::Write(std::env::temp_dir(), error))?;
        paths.push(folder.path().into());
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path());
        unfinished().retain(|path| path != self.path());
    }
}

/// Whether a file can be written here, before the work that fills it: its folder is there and takes files.
pub(crate) fn check(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Failure::input(format!("cannot write {}: it is a folder; name a file", path.display())));
    }
    let folder = folder(path);
    if !folder.is_dir() {
        let (path, folder) = (path.display(), folder.display());
        return Err(Failure::input(format!("cannot write {path}: there is no folder {folder}; make it first")));
    }
    if !is_special(path) {
        tempfile::tempfile_in(folder).map_err(|error| Failure::Write(path.into(), error))?;
    }
    Ok(())
}

/// Whether files can be written into a folder, which need not be there yet.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    let here = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    if !here.is_dir() {
        let (path, here) = (path.display(), here.display());
        return Err(Failure::input(format!("cannot write into {path}: {here} is a file; name a folder")));
    }
    tempfile::tempfile_in(here).map(drop).map_err(|error| Failure::Write(path.into(), error))
}

/// Writes a file beside its place and moves it there when it is complete.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| Failure::Write(path.into(), error);
    if is_special(path) {
        return std::fs::write(path, bytes).map_err(failed);
    }
    let mut paths = unfinished();
    let mut file = tempfile::Builder::new().prefix(".modelmix-").tempfile_in(folder(path)).map_err(failed)?;
    let temporary = file.path().to_path_buf();
    paths.push(temporary.clone());
    drop(paths);
    let written = file.write_all(bytes).and_then(|()| file.as_file().sync_all());
    let done = written.and_then(|()| {
        readable_by_others(file.as_file());
        file.persist(path).map_err(|error| error.error)
    });
    unfinished().retain(|path| *path != temporary);
    done.map(drop).map_err(failed)
}

/// Makes a folder, where it is not there yet.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Failure::Write(path.into(), error))
}

/// A device or a pipe cannot be moved to.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Temporary files are private; a report is not.
fn readable_by_others(file: &std::fs::File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
    }
    #[cfg(not(unix))]
    let _ = file;
}
