//! Features that are read in parts, for data larger than memory: the parts of files, and the rows of each part in batches.
//! [`arms`](super::arms) reads whole files.

mod arrays;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::arrays::ArrayPart;
#[cfg(feature = "parquet")]
use super::parquet::Table;
use super::source::{ArmSource, picked};
use super::{check_names, extension, open, stem};
use crate::error::{Error, Result};
use crate::features::Rows;

/// The file types that are read in parts.
const SHARD_EXTENSIONS: [&str; 4] = ["npy", "npz", "safetensors", "parquet"];
/// The maximum number of folders in each other: more are a link that leads back.
const MAX_DEPTH: usize = 32;

/// Which columns of a `.parquet` file are read as a shard.
///
/// Without a column of lists, the features are all float columns that are not scores.
///
/// ```
/// use modelmix::load::ShardColumns;
/// let columns = ShardColumns::new().features("embedding").arm("model").scores(["reward"]);
/// assert_eq!(columns.arm.as_deref(), Some("model"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardColumns {
    /// The column of lists of floats; the only one if `None`. A key of a source, as in `path:key`, comes before it.
    pub features: Option<String>,
    /// A text column that names the arm of each row; `None` if a file is one arm.
    pub arm: Option<String>,
    /// Columns of numbers, one score per row.
    pub scores: Vec<String>,
}

impl ShardColumns {
    /// The only column of lists, without arms and scores.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the column of lists of floats.
    #[must_use]
    pub fn features(mut self, column: impl Into<String>) -> Self {
        self.features = Some(column.into());
        self
    }

    /// Names the column that names the arm of each row.
    #[must_use]
    pub fn arm(mut self, column: impl Into<String>) -> Self {
        self.arm = Some(column.into());
        self
    }

    /// Names the columns of scores.
    #[must_use]
    pub fn scores(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scores = columns.into_iter().map(Into::into).collect();
        self
    }
}

/// A part of a file that is read on its own: a row group of a `.parquet` file, or a range of rows of an array in an `.npy`,
/// `.npz` or `.safetensors` file.
///
/// A range has at most 65,536 rows and 64 MiB, but at least one row. A compressed array of an `.npz` file is one shard, which
/// is read whole. The file must not be changed until its shards have been read.
#[derive(Clone)]
pub struct Shard {
    name: String,
    path: Arc<Path>,
    /// The array or the column, if it has a name.
    key: Option<Arc<str>>,
    /// The number of bytes of the file.
    length: u64,
    arm: Option<Arc<str>>,
    rows: u64,
    width: Option<usize>,
    part: Part,
    /// The first width that was found in any of the shards, and the name of that shard.
    common: Arc<OnceLock<(usize, String)>>,
}

#[derive(Clone)]
enum Part {
    Array(ArrayPart),
    #[cfg(feature = "parquet")]
    Group(Arc<Table>, usize),
}

/// Rows of one arm.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShardBatch<'a> {
    /// The name of the arm.
    pub arm: &'a str,
    /// The features; never empty.
    pub rows: Rows<'a>,
    /// The scores by name, one value per row.
    pub scores: BTreeMap<String, Vec<f64>>,
}

impl Shard {
    /// The file and the part of it, as in "part.parquet, row group 3".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The array of an `.npz` or `.safetensors` file, or the column of a `.parquet` file that the source named.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The arm of all rows; `None` if a column names the arm of each.
    pub fn arm(&self) -> Option<&str> {
        self.arm.as_deref()
    }

    /// Number of rows, as the file claims; [`Shard::read`] fails if it has another number.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns of the features; `None` if only reading tells, as for lists in `.parquet` files.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Reads the rows in order, in batches of rows of one arm.
    ///
    /// Batches of a row group have about 16 MiB. If a column names the arms, every 16 MiB are grouped by arm; rows of one arm
    /// stay in order. The values of a batch are finite.
    ///
    /// # Errors
    /// If the file cannot be read or has changed, if a value is not finite or missing, if rows have different widths, or another
    /// width than a shard of the same call of [`shards`] that was read before, or if `each` fails. Some batches may have been
    /// passed to `each` before.
    pub fn read(&self, mut each: impl FnMut(ShardBatch<'_>) -> Result<()>) -> Result<()> {
        let file = self.open()?;
        let mut checked = |batch: ShardBatch<'_>| {
            self.check_width(batch.rows.width())?;
            each(batch)
        };
        let arm = self.arm();
        match &self.part {
            Part::Array(part) => part.read(&self.path, file, self.length, &mut |rows| {
                checked(ShardBatch { arm: arm.unwrap_or_default(), rows, scores: BTreeMap::new() })
            }),
            #[cfg(feature = "parquet")]
            Part::Group(table, group) => table.read(&file, *group, arm, &mut checked),
        }
    }

    /// Opens the file again, which must have its length.
    fn open(&self) -> Result<File> {
        let (file, length) = open(&self.path, &supported())?;
        if length == self.length {
            return Ok(file);
        }
        let problem =
            format!("it had {} bytes and now has {length}; do not change files while they are read", self.length);
        Err(Error::File { path: self.path.to_path_buf(), problem })
    }

    fn check_width(&self, width: usize) -> Result<()> {
        let (expected, other) = self.common.get_or_init(|| (width, self.name.clone()));
        if *expected == width {
            return Ok(());
        }
        Err(Error::Width { origin: self.name.clone(), found: width, other: other.clone(), expected: *expected })
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({}, {} rows)", self.name, self.rows)
    }
}

/// Finds the shards of all sources, in the order given and then in the order of the file. Only headers are read.
///
/// Arms are named as by [`arms`](super::arms), but several sources may have the same arm: `flux=part-0.parquet
/// flux=part-1.parquet`. A source may be a folder: all files of the supported types in it and in its subfolders, in the order
/// of their paths, are one arm, which has the name of the folder unless the source names it. Files whose name begins with `.`
/// or `_` are left out. If `columns` has a column of arms, all sources must be `.parquet` files without a name. Files without
/// rows have no shards.
///
/// ```no_run
/// use modelmix::load::{ShardColumns, shards};
/// let mut sums = std::collections::BTreeMap::new();
/// for shard in shards(&["flux=features/flux".parse()?], &ShardColumns::new())? {
///     shard.read(|batch| {
///         *sums.entry(batch.arm.to_string()).or_insert(0) += batch.rows.len();
///         Ok(())
///     })?;
/// }
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// If a file cannot be read, does not have the format of its extension or is of another type, if a column is missing, if
/// widths are known and differ, or if a source has no rows.
pub fn shards(sources: &[ArmSource], columns: &ShardColumns) -> Result<Vec<Shard>> {
    let mut finder = Finder { columns, common: Arc::default(), shards: Vec::new() };
    for source in sources {
        let before = finder.shards.len();
        if source.path.is_dir() {
            finder.folder(source)?;
        } else {
            finder.file(&source.path, source.name.as_deref(), source.key.as_deref(), None)?;
        }
        if finder.shards.len() == before {
            let problem = "there are no rows; give at least one sample".into();
            return Err(Error::Array { origin: source.path.display().to_string(), problem });
        }
    }
    Ok(finder.shards)
}

fn supported() -> String {
    SHARD_EXTENSIONS.map(|extension| format!(".{extension}")).join(", ")
}

/// Collects shards.
struct Finder<'a> {
    columns: &'a ShardColumns,
    common: Arc<OnceLock<(usize, String)>>,
    shards: Vec<Shard>,
}

impl Finder<'_> {
    fn folder(&mut self, ArmSource { name, path, key }: &ArmSource) -> Result<()> {
        let mut files = Vec::new();
        add_files(path, 0, &mut files)?;
        files.retain(|file| SHARD_EXTENSIONS.contains(&extension(file).as_str()));
        files.sort_unstable();
        if files.is_empty() {
            let problem = format!("the folder has no files of type {}; give one that has", supported());
            return Err(Error::File { path: path.clone(), problem });
        }
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let folder = whole.components().next_back().map(|last| last.as_os_str().to_string_lossy().into_owned());
        let arm = name.clone().or(folder).unwrap_or_default();
        for file in &files {
            self.file(file, name.as_deref(), key.as_deref(), Some(&arm))?;
        }
        Ok(())
    }

    /// Adds the shards of a file; `folder` names the arm of all its arrays.
    fn file(&mut self, path: &Path, name: Option<&str>, key: Option<&str>, folder: Option<&str>) -> Result<()> {
        let refused = |problem: String| Error::File { path: path.into(), problem };
        let (file, length) = open(path, &supported())?;
        let kind = extension(path);
        if ["csv", "tsv"].contains(&kind.as_str()) {
            return Err(refused("tables of text are not read in parts; convert it to .parquet or .npy".into()));
        }
        if !SHARD_EXTENSIONS.contains(&kind.as_str()) {
            return Err(refused(format!("the file type is not read in parts; give a file of type {}", supported())));
        }
        if length == 0 {
            return Err(refused("the file is empty; write or copy it again".into()));
        }
        if let (Some(column), Some(name)) = (&self.columns.arm, name) {
            return Err(refused(format!("column {column} names the arms, so leave out the name {name}")));
        }
        if kind == "parquet" {
            return self.parquet(path, file, length, (name.or(folder), key));
        }
        if let Some(column) = self.columns.arm.iter().chain(&self.columns.scores).next() {
            return Err(refused(format!(
                "only .parquet files have columns, but {column} is needed; write a .parquet file"
            )));
        }
        let mut arrays = arrays::Arrays::open(path, file, length)?;
        check_names(path, arrays.names())?;
        let stem = stem(path);
        let names: Vec<String> = match (arrays.has_names(), key) {
            (false, Some(key)) => {
                return Err(refused(format!("the file holds one array without a name; leave out the name {key:?}")));
            }
            _ => arrays.names().to_vec(),
        };
        let arms = match (folder, key, kind.as_str()) {
            (Some(folder), None, _) => (0..names.len()).map(|index| (index, folder.to_string())).collect(),
            (None, None, "safetensors") if names.len() == 1 => vec![(0, name.unwrap_or(&stem).to_string())],
            _ => picked(&name.or(folder).map(Into::into), path, &key.map(Into::into), &names)?,
        };
        let path: Arc<Path> = path.into();
        for (index, arm) in arms {
            let whole = arrays.part(index, &path, length)?;
            let array: Option<Arc<str>> = arrays.has_names().then(|| names[index].as_str().into());
            let arm: Arc<str> = arm.into();
            for part in whole.split() {
                let rows = part.rows();
                let from = match &array {
                    Some(array) => format!("{}:{array}", path.display()),
                    None => path.display().to_string(),
                };
                let shard = Shard {
                    name: format!("{from}, rows {} to {}", grouped(rows.start), grouped(rows.end - 1)),
                    path: path.clone(),
                    key: array.clone(),
                    length,
                    arm: Some(arm.clone()),
                    rows: rows.len() as u64,
                    width: Some(part.width()),
                    part: Part::Array(part),
                    common: self.common.clone(),
                };
                shard.check_width(whole.width())?;
                self.shards.push(shard);
            }
        }
        Ok(())
    }

    #[cfg(feature = "parquet")]
    fn parquet(
        &mut self,
        path: &Path,
        file: File,
        length: u64,
        (name, key): (Option<&str>, Option<&str>),
    ) -> Result<()> {
        let table = Arc::new(Table::open(path, &file, length, key, self.columns)?);
        let arm: Option<Arc<str>> = match self.columns.arm {
            Some(_) => None,
            None => Some(name.map_or_else(|| stem(path).into(), Into::into)),
        };
        let shared: Arc<Path> = path.into();
        for (group, rows) in table.groups().enumerate().filter(|(_, rows)| *rows > 0) {
            let shard = Shard {
                name: match key {
                    Some(key) => format!("{}:{key}, row group {group}", path.display()),
                    None => format!("{}, row group {group}", path.display()),
                },
                path: shared.clone(),
                key: key.map(Into::into),
                length,
                arm: arm.clone(),
                rows,
                width: table.width(),
                part: Part::Group(table.clone(), group),
                common: self.common.clone(),
            };
            if let Some(width) = shard.width {
                shard.check_width(width)?;
            }
            self.shards.push(shard);
        }
        Ok(())
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&mut self, path: &Path, _: File, _: u64, _: (Option<&str>, Option<&str>)) -> Result<()> {
        Err(super::without_parquet(path))
    }
}

/// Adds the files in a folder and in its subfolders that are not hidden. `depth` is the number of folders around it.
fn add_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    if depth > MAX_DEPTH {
        let problem = format!("there are {depth} folders around it; does a link lead back to one of them?");
        return Err(Error::File { path: folder.into(), problem });
    }
    let io = |source| Error::Io { path: folder.into(), source };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with(['.', '_']);
        if !is_hidden && path.is_dir() {
            add_files(&path, depth + 1, files)?;
        } else if !is_hidden && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// A number with commas between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}
