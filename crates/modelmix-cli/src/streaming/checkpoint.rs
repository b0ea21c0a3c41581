//! Files of sums so far, from which interrupted work goes on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use modelmix::accumulate::{Accumulator, Method, Plan};
use modelmix::load::Shard;
use serde::{Deserialize, Serialize};

use super::{Extent, Input, Settings, read};
use crate::args::MethodName;
use crate::error::{Failure, Result};
use crate::files;
use crate::terminal::{Terminal, count};

/// How often a checkpoint is written.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// A file of sums so far. Its first line states the settings, so that another command does not go on from it.
pub(crate) struct Checkpoint {
    path: Option<PathBuf>,
    /// The first lines of a survey and of other sums.
    headers: [String; 2],
    /// What the file held when the command started.
    found: Option<Accumulator>,
    /// Whether this run has written the file, or goes on from it.
    is_own: bool,
    written: Instant,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Header {
    checkpoint: u32,
    version: String,
    /// Settings and the names of the sources, as text: they are only compared.
    settings: String,
    /// The length and the time of every file.
    files: BTreeMap<PathBuf, String>,
}

impl Checkpoint {
    /// No checkpoint.
    pub(crate) fn none() -> Self {
        Self { path: None, headers: Default::default(), found: None, is_own: false, written: Instant::now() }
    }

    /// Opens a checkpoint, which need not exist yet. A survey depends on fewer settings than other sums do: it may have been made
    /// for another objective.
    ///
    /// # Errors
    /// If the file is damaged or that of another command, or cannot be written.
    pub(crate) fn open(
        path: &Path,
        input: &Input,
        (extent, plan): (Extent, Option<&Plan>),
        settings: &Settings<'_>,
    ) -> Result<Self> {
        files::check(path)?;
        let sums = settings.sums;
        let is_pairs =
            sums.method == Some(MethodName::Pairs) || plan.is_some_and(|plan| plan.method() == Method::Pairs);
        let plan = plan.map(|plan| String::from_utf8_lossy(&plan.to_bytes()).into_owned());
        let survey = format!(
            "{extent:?}; {:?}; seed {}; {} sampled; {:?}; {:?}; {} rows",
            settings.task,
            settings.seed,
            settings.sample(input, extent),
            input.columns,
            input.sources,
            input.rows()
        );
        let whole = format!(
            "{survey}; {plan:?}; {}; {:?}; {:?} {:?} {:?} {:?}",
            settings.objective,
            settings.costs,
            sums.method,
            sums.random_features,
            sums.approximation_error,
            // It decides the blocks of pairs.
            sums.memory.filter(|_| is_pairs),
        );
        let files = files_of(input);
        let header =
            |settings| Header { checkpoint: 1, version: modelmix::VERSION.into(), settings, files: files.clone() };
        let headers = [header(survey), header(whole)];
        let line = |header: &Header| {
            let line = serde_json::to_string(header);
            line.map(|line| line + "\n")
                .map_err(|error| Failure::input(format!("the checkpoint cannot be written: {error}")))
        };
        let found = if path.exists() { open_checkpoint(path, input, &headers)? } else { None };
        let headers = [line(&headers[0])?, line(&headers[1])?];
        let is_own = found.is_some();
        Ok(Self { path: Some(path.into()), headers, found, is_own, written: Instant::now() })
    }

    /// The plan of sums that were found, if the first pass was finished.
    pub(super) fn plan(&self) -> Option<Plan> {
        let found = self.found.as_ref()?.current_plan();
        (found.method() != Method::Survey).then(|| found.clone())
    }

    /// What was found, with the engine and reference of `empty`; otherwise `empty`.
    pub(super) fn resume(&mut self, empty: Accumulator, terminal: &Terminal) -> Result<Accumulator> {
        let Some(found) = self.found.take() else { return Ok(empty) };
        let path = self.path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let mut sums = empty;
        sums.merge(&found)
            .map_err(|error| Failure::input(format!("{path}: {error}; or remove the file to start again")))?;
        let rows: u64 = sums.shards().values().chain(sums.reference_shards().values()).sum();
        terminal.remark(format!("Going on from {path}: {} rows are done.", count(rows as usize)));
        Ok(sums)
    }

    pub(super) fn write_if_due(&mut self, sums: &Accumulator) -> Result<()> {
        if self.path.is_none() || self.written.elapsed() < CHECKPOINT_INTERVAL {
            return Ok(());
        }
        self.write(sums)
    }

    pub(super) fn write(&mut self, sums: &Accumulator) -> Result<()> {
        // Nothing is lost without a shard, and the file may be that of another run.
        if sums.shards().is_empty() && sums.reference_shards().is_empty() {
            return Ok(());
        }
        if let Some(path) = &self.path {
            let is_survey = sums.current_plan().method() == Method::Survey;
            let mut bytes = self.headers[usize::from(!is_survey)].clone().into_bytes();
            bytes.extend(sums.to_bytes());
            files::write(path, &bytes)?;
            self.written = Instant::now();
            self.is_own = true;
        }
        Ok(())
    }

    /// Removes the file after the work is done.
    pub(crate) fn remove(self) -> Result<()> {
        match self.path.filter(|path| self.is_own && path.exists()) {
            Some(path) => std::fs::remove_file(&path).map_err(|error| Failure::Write(path, error)),
            None => Ok(()),
        }
    }
}

/// What identifies the files of the shards: a file that was written again has another time.
fn files_of(input: &Input) -> BTreeMap<PathBuf, String> {
    let of = |path: PathBuf| {
        let file = std::fs::metadata(&path).ok()?;
        let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some((path, format!("{} bytes, {} ns", file.len(), modified.as_nanos())))
    };
    input.paths().into_iter().filter_map(of).collect()
}

/// The sums in a checkpoint; `None` for a survey with other settings or files, which is made again: it takes one pass.
fn open_checkpoint(path: &Path, input: &Input, [survey, whole]: &[Header; 2]) -> Result<Option<Accumulator>> {
    let refuse =
        |problem: String| Failure::input(format!("{}: {problem}; remove the file to start again", path.display()));
    let bytes = read(path)?;
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(|| refuse("it is no checkpoint".into()))?;
    let header: Header = serde_json::from_slice(&bytes[..end]).map_err(|_| refuse("it is no checkpoint".into()))?;
    let sums = Accumulator::from_bytes(&bytes[end + 1..], None).map_err(|error| refuse(error.to_string()))?;
    let is_survey = sums.current_plan().method() == Method::Survey;
    let expected = if is_survey { survey } else { whole };
    // Files that were repaired may have changed, if their rows are not yet included.
    let included =
        |shard: &&Shard| sums.shards().contains_key(shard.name()) || sums.reference_shards().contains_key(shard.name());
    let mut shards = input.arms.iter().chain(&input.reference).filter(included);
    let changed = shards.find(|shard| header.files.get(shard.path()) != expected.files.get(shard.path()));
    match (header.settings == expected.settings && header.version == expected.version, changed) {
        (true, None) => Ok(Some(sums)),
        _ if is_survey => Ok(None),
        (true, Some(shard)) => Err(refuse(format!("{} has changed since it was summed", shard.path().display()))),
        (false, _) => Err(refuse("it is the checkpoint of a command with other options or files".into())),
    }
}
