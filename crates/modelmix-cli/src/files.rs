//! Atomic writes: each file is written completely or not at all, and all files of a command together.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Failure, Result};

/// Temporary files and folders, removed if the user interrupts.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes unfinished files. The process must exit afterwards: no file can be started any more.
pub(crate) fn clean_up() {
    let mut paths = unfinished();
    for path in paths.drain(..) {
        // It may be removed already.
        let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
    std::mem::forget(paths);
}

/// A temporary folder, removed on drop.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let mut paths = unfinished();
        let folder = tempfile::tempdir().map_err(|error| Failure::Write(std::env::temp_dir(), without_path(error)))?;
        paths.push(folder.path().into());
        Ok(Self(folder))
    }

    /// A temporary folder in another one.
    pub(crate) fn within(folder: &Path) -> Result<Self> {
        let mut paths = unfinished();
        let made = tempfile::Builder::new().prefix(".modelmix-").tempdir_in(folder);
        let made = made.map_err(|error| Failure::Write(folder.into(), without_path(error)))?;
        paths.push(made.path().into());
        Ok(Self(made))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Moves the folder to its place, where nothing is.
    pub(crate) fn rename(self, place: &Path) -> Result<()> {
        readable_folder(self.path());
        std::fs::rename(self.path(), place).map_err(|error| Failure::Write(place.into(), error))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path());
        unfinished().retain(|path| path != self.path());
    }
}

/// Checks before the work that a file can be written: its folder exists and is writable.
pub(crate) fn check(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Failure::input(format!("cannot write {}: it is a folder; name a file", path.display())));
    }
    let folder = folder(path);
    if !folder.is_dir() {
        let (path, folder) = (path.display(), folder.display());
        return Err(Failure::input(format!("cannot write {path}: there is no folder {folder}; create it first")));
    }
    if !is_special(path) {
        tempfile::tempfile_in(folder).map_err(|error| Failure::Write(path.into(), without_path(error)))?;
    }
    Ok(())
}

/// Checks that all paths differ, so that no file overwrites another.
pub(crate) fn check_distinct<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    let mut places = Vec::new();
    for path in paths.filter(|path| !is_special(path)) {
        let place = (folder(path).canonicalize().ok(), path.file_name());
        if places.contains(&place) {
            let path = path.display();
            return Err(Failure::input(format!("two files would be written to {path}; give one of them another name")));
        }
        places.push(place);
    }
    Ok(())
}

/// Checks that no output replaces a file that the command reads.
pub(crate) fn check_not_inputs<'a, 'b>(
    outputs: impl IntoIterator<Item = &'a PathBuf>,
    inputs: impl IntoIterator<Item = &'b PathBuf>,
) -> Result<()> {
    let real = |path: &PathBuf| path.canonicalize().ok();
    let inputs: Vec<PathBuf> = inputs.into_iter().filter(|path| !is_special(path)).filter_map(real).collect();
    match outputs.into_iter().find(|path| real(path).is_some_and(|place| inputs.contains(&place))) {
        None => Ok(()),
        Some(path) => {
            let path = path.display();
            Err(Failure::input(format!("cannot write {path}: the command reads this file; name another file")))
        }
    }
}

/// Checks that files can be written into a folder, which need not exist yet.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    let here = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    if !here.is_dir() {
        let (path, here) = (path.display(), here.display());
        return Err(Failure::input(format!("cannot write into {path}: {here} is a file; name a folder")));
    }
    tempfile::tempfile_in(here).map(drop).map_err(|error| Failure::Write(path.into(), without_path(error)))
}

/// The absolute path of a folder, which need not exist yet, without links.
pub(crate) fn real_folder(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let here = absolute.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match here {
        None => absolute,
        Some((ancestor, real)) => real.join(absolute.strip_prefix(ancestor).unwrap_or(Path::new(""))),
    }
}

/// Files that are moved to their places together: each is written completely to a temporary file in the same folder before
/// the first one is moved. Files that were not moved, and folders that were created for them, are removed on drop.
#[derive(Default)]
pub(crate) struct Batch {
    files: Vec<(PathBuf, Contents)>,
    /// Folders that did not exist before, outer ones first.
    folders: Vec<PathBuf>,
}

enum Contents {
    Beside(tempfile::NamedTempFile),
    /// Contents for a device or a pipe, which cannot be replaced by a file.
    Held(Vec<u8>),
}

impl Batch {
    /// Writes a temporary file in the same folder.
    pub(crate) fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        if is_special(path) {
            self.files.push((path.into(), Contents::Held(bytes.into())));
            return Ok(());
        }
        self.add_with(path, |file| file.write_all(bytes))
    }

    /// [`Batch::add`] with a function that writes the contents; not for devices and pipes.
    pub(crate) fn add_with(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>,
    ) -> Result<()> {
        let failed = |error| Failure::Write(path.into(), error);
        if is_special(path) {
            let path = path.display();
            return Err(Failure::input(format!("cannot write {path}: it is not a regular file; name a file")));
        }
        let mut paths = unfinished();
        let temporary = tempfile::Builder::new().prefix(".modelmix-").tempfile_in(folder(path));
        let temporary = temporary.map_err(|error| failed(without_path(error)))?;
        paths.push(temporary.path().into());
        drop(paths);
        let written = temporary.as_file().try_clone().and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()
        });
        readable_by_others(temporary.as_file());
        self.files.push((path.into(), Contents::Beside(temporary)));
        written.map_err(failed)
    }

    /// Creates a folder for files unless it exists.
    pub(crate) fn add_folder(&mut self, path: &Path) -> Result<()> {
        let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let missing: Vec<PathBuf> = missing.map(PathBuf::from).collect();
        self.folders.extend(missing.into_iter().rev());
        make_folder(path)
    }

    /// Moves every file to its place and returns the places, in the order in which the files were added. Devices and pipes are
    /// written last, so that a failure there affects no file.
    pub(crate) fn commit(mut self) -> Result<Vec<PathBuf>> {
        let places = self.files.iter().map(|(path, _)| path.clone()).collect();
        let mut held = Vec::new();
        for (path, contents) in self.files.drain(..) {
            match contents {
                Contents::Held(bytes) => held.push((path, bytes)),
                Contents::Beside(temporary) => {
                    let beside = temporary.path().to_path_buf();
                    let moved = temporary.persist(&path);
                    unfinished().retain(|path| *path != beside);
                    moved.map_err(|error| Failure::Write(path, error.error))?;
                }
            }
        }
        self.folders.clear();
        for (path, bytes) in held {
            let written = std::fs::write(&path, bytes);
            accept_closed(written).map_err(|error| Failure::Write(path, error))?;
        }
        Ok(places)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for (_, contents) in self.files.drain(..) {
            if let Contents::Beside(temporary) = contents {
                let beside = temporary.path().to_path_buf();
                drop(temporary);
                unfinished().retain(|path| *path != beside);
            }
        }
        for folder in self.folders.iter().rev() {
            // Fails if the folder is not empty; it must stay then.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Writes one file atomically.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut batch = Batch::default();
    batch.add(path, bytes)?;
    batch.commit().map(drop)
}

/// Creates a folder unless it exists.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Failure::Write(path.into(), error))
}

/// A reader that closes its end of a pipe early is not an error.
pub(crate) fn accept_closed(written: std::io::Result<()>) -> std::io::Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// The error without the path of the temporary file, which the user does not know.
fn without_path(error: std::io::Error) -> std::io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((reason, _)) => std::io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Whether the path is a device or a pipe, which cannot be replaced by a file.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Temporary folders are private; results have the usual permissions.
fn readable_folder(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755));
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Temporary files are private; reports have the usual permissions.
fn readable_by_others(file: &std::fs::File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
    }
    #[cfg(not(unix))]
    let _ = file;
}
