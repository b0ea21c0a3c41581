//! Downloads the weights of a named encoder into modelmix's cache.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::download::{Done, Download, Stop};
use super::environment::Environment;
use super::http::Client;
use super::locate::cached;
use crate::encoders::{NamedEncoder, Role, Source, WeightsFile};
use crate::onnx::external;
use crate::problem::Problem;

/// The size up to which a model is searched for the names of data files: one without its weights is small.
const LARGEST_GRAPH: u64 = 64 << 20;

/// How downloads are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullOptions {
    /// How many times a request is repeated that makes no progress.
    pub retries: u32,
    /// The pause before the first repetition; it doubles each time.
    pub backoff: Duration,
    /// The longest pause, also if the server asks for a longer one.
    pub longest_wait: Duration,
    /// The time without any byte after which a connection counts as lost.
    pub timeout: Duration,
}

impl Default for PullOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { retries: 5, backoff: seconds(1), longest_wait: seconds(120), timeout: seconds(30) }
    }
}

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file: its repository and path, or its name.
    pub file: &'a str,
    /// The number of bytes that are there.
    pub done: u64,
    /// The number of bytes of the whole file, if the server says it.
    pub total: Option<u64>,
    /// Why the download waits, if it does: the connection broke off, or another process downloads the file.
    pub problem: Option<&'a str>,
}

/// A downloaded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Where it is.
    pub path: PathBuf,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// Whether that equals a published digest, of the table or of the hub. Otherwise it is recorded next to the file,
    /// and later downloads are compared with it.
    pub confirmed: bool,
    /// Whether it was downloaded now; otherwise it was there and intact.
    pub fresh: bool,
}

/// Downloads the weights of an encoder: from its first source that has them, into the folder `hub` or `files` of
/// modelmix's cache. Files that are there and intact are not downloaded again, and interrupted downloads are resumed.
/// `progress` is called often, and stops the download if it returns `false`.
///
/// # Errors
/// If nothing is published, downloads are forbidden, there is no cache folder, no source gives the files, a checksum is
/// wrong, a file cannot be written, or `progress` stops it. What was downloaded is kept, to be resumed.
pub fn pull(
    encoder: &NamedEncoder,
    environment: &Environment,
    options: &PullOptions,
    progress: &dyn Fn(&Progress<'_>) -> bool,
) -> Result<Vec<Pulled>, Problem> {
    let name = encoder.name;
    if encoder.sources.is_empty() {
        let export = encoder.export;
        return Err(Problem::new(format!("no ONNX file of {name} is published; export it with `{export}`")));
    }
    if environment.is_offline() {
        return Err(Problem::new(format!("{name} is not downloaded, because HF_HUB_OFFLINE is set; unset it")));
    }
    let cache = environment
        .cache()
        .ok_or_else(|| Problem::new("there is no home folder, so there is no cache; set MODELMIX_CACHE to a folder"))?;
    let client = Client::new(environment, options);
    let mut first_problem = None;
    for source in encoder.sources {
        let run = |url: &str, shown: &str, path: &str, expected| {
            let target = cached(&cache, source, path);
            let download = Download { client: &client, options, progress, name: shown, url, target: &target, expected };
            download.run().map(|done| (target.clone(), done))
        };
        match files(source, &environment.endpoint(), run) {
            Ok(pulled) => return Ok(pulled),
            Err(Stop::Failed(problem)) => return Err(Problem::new(problem)),
            Err(Stop::Unavailable(problem) | Stop::NotFound(problem)) => {
                first_problem.get_or_insert(problem);
            }
        }
    }
    Err(Problem::new(first_problem.unwrap_or_default()))
}

/// Downloads the files of a source; `run` downloads one, given its address, shown name, path and published digest.
fn files(
    source: &Source,
    endpoint: &str,
    run: impl Fn(&str, &str, &str, Option<&'static str>) -> Result<(PathBuf, Done), Stop>,
) -> Result<Vec<Pulled>, Stop> {
    let mut pulled = Vec::new();
    let mut keep = |(path, done): (PathBuf, Done)| {
        let Done { digest, confirmed, fresh, commit } = done;
        pulled.push(Pulled { path, sha256: digest, confirmed, fresh });
        commit
    };
    match source {
        Source::Address { url, file } => drop(keep(run(url, file.path, file.path, file.sha256)?)),
        Source::Hub { repository, revision, files } => {
            let mut revision = revision.to_string();
            for file in *files {
                let url = format!("{endpoint}/{repository}/resolve/{revision}/{}", file.path);
                let shown = format!("{repository}/{}", file.path);
                let done = match run(&url, &shown, file.path, file.sha256) {
                    Err(Stop::NotFound(_)) if file.role == Role::Settings => continue,
                    done => done?,
                };
                let model = done.0.clone();
                // All files are of one commit, even if a new one is made meanwhile.
                if let Some(commit) = keep(done).filter(|commit| is_commit(commit)) {
                    revision = commit;
                }
                if file.role == Role::Model {
                    for path in unlisted_data_files(&model, file.path, files) {
                        let url = format!("{endpoint}/{repository}/resolve/{revision}/{path}");
                        keep(run(&url, &format!("{repository}/{path}"), &path, None)?);
                    }
                }
            }
        }
    }
    Ok(pulled)
}

/// The paths of the data files that a model names and the table does not list. Some exporters write a file per large tensor.
fn unlisted_data_files(model: &Path, path: &str, listed: &[WeightsFile]) -> Vec<String> {
    let is_small = std::fs::metadata(model).is_ok_and(|metadata| metadata.len() <= LARGEST_GRAPH);
    let bytes = if is_small { external::read(model).unwrap_or_default() } else { Vec::new() };
    let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let names = external::data_files(&bytes).into_iter();
    let names = names.filter(|name| Path::new(name).file_name().is_some_and(|file| file == name.as_str()));
    let paths = names.map(|name| format!("{folder}{name}"));
    paths.filter(|path| listed.iter().all(|file| file.path != path)).collect()
}

/// Whether a text is a full commit, as `X-Repo-Commit` names it.
fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
