//! Folders of image files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::names;
use crate::problem::Problem;

/// The maximum size of an image file: more than any image within the default limit of pixels takes without compression.
const LARGEST_FILE: u64 = 1 << 30;

/// The image files of a folder, in their order.
#[derive(Debug)]
pub(super) struct FolderImages {
    root: PathBuf,
    /// Paths relative to the root.
    paths: Vec<PathBuf>,
}

/// Lists the images of a folder and of the folders in it.
pub(super) fn list(root: &Path) -> modelmix::Result<(Vec<String>, FolderImages)> {
    let mut search = Search { root, seen: BTreeSet::new(), links: Vec::new(), found: Vec::new() };
    search.tree(Path::new(""))?;
    // Folders that are links come last, so that an image has the path without a link if it has one.
    while !search.links.is_empty() {
        let mut links = std::mem::take(&mut search.links);
        links.sort_unstable();
        links.iter().try_for_each(|link| search.tree(link))?;
    }
    let mut found: Vec<(Vec<u8>, PathBuf)> = search.found.into_iter().map(|path| (slashed(&path), path)).collect();
    if found.is_empty() {
        let problem = "the folder holds no images; give one with .png, .jpg, .webp, .gif or .bmp files".into();
        return Err(modelmix::Error::File { path: root.into(), problem });
    }
    found.sort_unstable_by(|left, right| names::natural_order(&left.0, &right.0));
    let ids = names::ids(found.iter().map(|(name, _)| name.as_slice()));
    let paths = found.into_iter().map(|(_, path)| path).collect();
    Ok((ids, FolderImages { root: root.into(), paths }))
}

/// The bytes of a relative path, with `/` on every system.
fn slashed(path: &Path) -> Vec<u8> {
    let parts: Vec<&[u8]> = path.iter().map(OsStr::as_encoded_bytes).collect();
    parts.join(&b'/')
}

/// A search for images below a folder.
struct Search<'a> {
    root: &'a Path,
    /// The real paths of the folders that were searched.
    seen: BTreeSet<PathBuf>,
    /// Links to folders, which are searched after everything else.
    links: Vec<PathBuf>,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    /// Searches a folder and those in it, except links and folders that were searched before.
    fn tree(&mut self, start: &Path) -> modelmix::Result<()> {
        let mut folders = vec![start.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let path = self.root.join(&folder);
            let io = |source| modelmix::Error::Io { path: path.clone(), source };
            if !self.seen.insert(path.canonicalize().map_err(io)?) {
                continue;
            }
            for entry in std::fs::read_dir(&path).map_err(io)? {
                let entry = entry.map_err(io)?;
                let (name, kind) = (entry.file_name(), entry.file_type().map_err(io)?);
                let name = name.as_encoded_bytes();
                let relative = || folder.join(entry.file_name());
                // A link that leads nowhere counts as a file, so that the user is told.
                let link_to_folder = kind.is_symlink() && entry.path().is_dir();
                if kind.is_dir() || link_to_folder {
                    match names::is_hidden_folder(name) {
                        true => {}
                        false if link_to_folder => self.links.push(relative()),
                        false => folders.push(relative()),
                    }
                } else if names::is_image(name) {
                    self.found.push(relative());
                }
            }
        }
        Ok(())
    }
}

impl FolderImages {
    pub(super) fn file(&self, index: usize) -> Option<PathBuf> {
        self.paths.get(index).map(|path| self.root.join(path))
    }

    /// Reads the bytes of a file.
    pub(super) fn read(&self, index: usize) -> Result<Vec<u8>, Problem> {
        read_file(&self.root.join(&self.paths[index]))
    }
}

/// Reads the bytes of an image file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    // Checked before the file is opened, because opening a pipe would wait for its writer.
    let unreadable = |error| unreadable(path, &error);
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Problem::new("this is not a regular file; remove it, or replace it with an image"));
    }
    if metadata.len() > LARGEST_FILE {
        let length = metadata.len();
        return Err(Problem::new(format!(
            "{length} bytes are more than the {LARGEST_FILE} that an image may have; scale it down"
        )));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    File::open(path).map_err(unreadable)?.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Why a path cannot be read, and what to do.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(match (error.kind(), std::fs::read_link(path)) {
        (io::ErrorKind::NotFound, Ok(target)) => {
            format!("it is a link to {}, which does not exist; replace the link", target.display())
        }
        (_, Ok(_)) => format!("it is a link that cannot be followed ({error}); replace the link"),
        (io::ErrorKind::NotFound, Err(_)) => "it does not exist; check the path".into(),
        (io::ErrorKind::PermissionDenied, Err(_)) => "it may not be read; change its permissions".into(),
        _ => format!("it cannot be read ({error}); check the disk"),
    })
}
