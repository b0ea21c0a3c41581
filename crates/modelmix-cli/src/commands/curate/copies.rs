//! Copies of the chosen files of a curated set, in a new folder.

use std::path::{Path, PathBuf};

use modelmix::Curated;
use modelmix::load::ArmSource;

use crate::args::CurateArgs;
use crate::error::{Failure, Result};
use crate::files;
use crate::inputs::Recorded;

/// The files to copy and their places in the folder.
pub(super) struct Copies {
    folder: PathBuf,
    files: Vec<(PathBuf, PathBuf)>,
    link: bool,
}

/// Checks before the work that the folder can be created, as it does not exist or is empty, that it is in no folder of
/// samples, and that the samples are files.
pub(super) fn check(args: &CurateArgs) -> Result<()> {
    let Some(folder) = &args.copy_to else { return Ok(()) };
    files::check_folder(folder)?;
    let is_empty = !folder.exists() || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty {
        let folder = folder.display();
        return Err(Failure::input(format!("cannot copy into {folder}: it is not empty; name a new folder")));
    }
    let place = files::real_folder(folder);
    for text in args.arms.arms.iter().chain(&args.arms.reference).chain(&args.output.images) {
        let source: ArmSource = text.parse()?;
        if source.path.is_dir() && place.starts_with(files::real_folder(&source.path)) {
            let (folder, source) = (folder.display(), source.path.display());
            return Err(Failure::input(format!(
                "cannot copy into {folder}: it is within {source}, whose samples are read; name another folder"
            )));
        }
    }
    for text in args.arms.arms.iter().filter(|_| args.output.images.is_empty()) {
        let source: ArmSource = text.parse()?;
        if source.path.exists() && !source.path.is_dir() {
            return Err(not_files(&source.path.display().to_string()));
        }
    }
    Ok(())
}

/// Checks that the samples of every arm are files.
pub(super) fn check_files(args: &CurateArgs, recorded: &Recorded) -> Result<()> {
    let is_of_files = |arm: &String| recorded.samples.get(arm).is_some_and(|samples| samples.file(0).is_some());
    match recorded.arms.names().iter().find(|arm| args.copy_to.is_some() && !is_of_files(arm)) {
        None => Ok(()),
        Some(arm) => Err(not_files(arm)),
    }
}

fn not_files(arm: &str) -> Failure {
    Failure::input(format!(
        "the samples of {arm} are not files, so they cannot be copied; give a folder of images as the arm, the folder that its features are from as --images ARM=FOLDER, or leave out --copy-to"
    ))
}

impl Copies {
    /// The chosen files of the set: each is copied to the folder of its arm, under its path in the folder that it is from.
    pub(super) fn of(folder: &Path, link: bool, document: &Curated, recorded: &Recorded) -> Result<Self> {
        let mut chosen = Vec::new();
        for row in &document.rows {
            let samples = recorded.samples.get(&row.arm);
            let file = samples.and_then(|samples| Some((samples.file(row.row)?, samples.id(row.row))));
            let Some((file, id)) = file else {
                return Err(not_files(&row.arm));
            };
            // Names of arms are free text; ids are relative paths without "..".
            let arm: String = row.arm.chars().map(|c| if c == '/' || c == '\\' { '_' } else { c }).collect();
            let arm = if arm.chars().all(|c| c == '.') { format!("_{arm}") } else { arm };
            chosen.push((file, Path::new(&arm).join(id)));
        }
        let mut places: Vec<&PathBuf> = chosen.iter().map(|(_, place)| place).collect();
        places.sort();
        if let Some(same) = places.windows(2).find(|pair| pair[0] == pair[1]) {
            let place = same[0].display();
            return Err(Failure::input(format!(
                "two files would be copied to {place}; rename one of the arms, as in other=FOLDER"
            )));
        }
        Ok(Self { folder: folder.into(), files: chosen, link })
    }

    /// Copies all files into a temporary folder beside the wanted one, which is renamed at the end.
    pub(super) fn write(&self) -> Result<()> {
        let parent = self.folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        files::make_folder(parent)?;
        let scratch = files::Scratch::within(parent)?;
        let failed = |path: &Path, error: std::io::Error| Failure::Write(path.into(), error);
        for (file, place) in &self.files {
            let (target, shown) = (scratch.path().join(place), self.folder.join(place));
            if let Some(folder) = target.parent() {
                std::fs::create_dir_all(folder).map_err(|error| failed(&shown, error))?;
            }
            if !file.is_file() {
                let file = file.display();
                return Err(Failure::input(format!("{file} is not there any more, so it cannot be copied")));
            }
            let written = if self.link { link(file, &target) } else { std::fs::copy(file, &target).map(drop) };
            written.map_err(|error| failed(&shown, error))?;
        }
        if self.folder.exists() {
            std::fs::remove_dir(&self.folder).map_err(|error| failed(&self.folder, error))?;
        }
        scratch.rename(&self.folder)
    }
}

/// A symbolic link to the absolute path of a file; a hard link on systems without symbolic ones.
fn link(file: &Path, place: &Path) -> std::io::Result<()> {
    let file = file.canonicalize()?;
    #[cfg(unix)]
    return std::os::unix::fs::symlink(file, place);
    #[cfg(not(unix))]
    return std::fs::hard_link(file, place);
}
