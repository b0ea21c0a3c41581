//! Files that are written whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::error::{Failure, Result};

/// The file being written now, to be taken away when the user interrupts.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn unfinished() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes away what an interrupted write left behind.
pub(crate) fn clean_up() {
    if let Some(path) = unfinished().take() {
        // Nothing is left to do where it is gone already.
        let _ = std::fs::remove_file(path);
    }
}

/// Whether a file can be written here, before the work that fills it: its folder is there and takes files.
pub(crate) fn check(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Failure::input(format!("cannot write {}: it is a folder; name a file", path.display())));
    }
    if !is_special(path) {
        tempfile::tempfile_in(folder(path)).map_err(|error| Failure::Write(path.into(), error))?;
    }
    Ok(())
}

/// Writes a file beside its place and moves it there when it is complete.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| Failure::Write(path.into(), error);
    if is_special(path) {
        return std::fs::write(path, bytes).map_err(failed);
    }
    let mut file = tempfile::Builder::new().prefix(".modelmix-").tempfile_in(folder(path)).map_err(failed)?;
    *unfinished() = Some(file.path().into());
    let written = file.write_all(bytes).and_then(|()| file.as_file().sync_all());
    let done = written.and_then(|()| {
        readable_by_others(file.as_file());
        file.persist(path).map_err(|error| error.error)
    });
    *unfinished() = None;
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
