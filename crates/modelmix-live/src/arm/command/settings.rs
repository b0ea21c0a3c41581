//! Settings of commands, and their check: what is needed to start a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::{self, Secret};
use crate::units::{Size, Span};

/// The time to wait for the first line of a worker: the time to load a model.
const START_TIMEOUT: Span = Span(Duration::from_secs(60));
/// The time to wait for a reply.
const REPLY_TIMEOUT: Span = Span(Duration::from_secs(600));
/// The maximum size of a line: several large images in base64.
const MAX_LINE_SIZE: Size = Size(64 << 20);
/// The least maximum size of a line: a hello and a short reply.
const LEAST_LINE_SIZE: u64 = 1 << 10;
/// The maximum number of processes of one command.
const MOST_WORKERS: usize = 1024;
/// Ends of the names of inherited variables that are treated as secrets.
const SECRET_NAMES: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// A command that runs as a long-lived worker and speaks JSON lines: see `docs/live-protocol.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// The program and its arguments. No shell is involved. A relative path of a program, with a slash, starts at the folder of the
    /// configuration.
    pub command: Vec<String>,
    /// Environment variables of the command, besides those it inherits. `env:NAME` stands for the value of the variable NAME, and
    /// keeps secrets out of the configuration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The working folder, relative to the folder of the configuration, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The maximum number of processes; they are started as they are needed.
    #[serde(default = "default_workers")]
    #[schemars(range(min = 1, max = 1024))]
    pub workers: usize,
    /// The time to wait until a process has started and written its first line; 60s by default.
    #[serde(default = "default_start_timeout")]
    pub start_timeout: Span,
    /// The time to wait for a reply; 10min by default. A process that takes longer is ended.
    #[serde(default = "default_reply_timeout")]
    pub reply_timeout: Span,
    /// The maximum size of a line that a process writes; 64MiB by default.
    #[serde(default = "default_max_line_size")]
    pub max_line_size: Size,
}

fn default_workers() -> usize {
    1
}

fn default_start_timeout() -> Span {
    START_TIMEOUT
}

fn default_reply_timeout() -> Span {
    REPLY_TIMEOUT
}

fn default_max_line_size() -> Size {
    MAX_LINE_SIZE
}

impl WorkerSettings {
    /// The settings of a command with default values.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            folder: None,
            workers: default_workers(),
            start_timeout: START_TIMEOUT,
            reply_timeout: REPLY_TIMEOUT,
            max_line_size: MAX_LINE_SIZE,
        }
    }
}

/// Checked settings: all that starting a process needs.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The values may be secrets, which no debugging output shows.
    pub(super) variables: BTreeMap<String, Secret>,
    pub(crate) folder: PathBuf,
    pub(super) workers: usize,
    pub(super) start_timeout: Duration,
    pub(super) reply_timeout: Duration,
    pub(super) max_line_size: u64,
    /// Values that messages must not show.
    secrets: Vec<Secret>,
}

impl Launch {
    /// Checks settings. `base` is the folder of the configuration.
    ///
    /// # Errors
    /// One sentence with the fix.
    pub(crate) fn check(
        settings: &WorkerSettings,
        base: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let Some((program, arguments)) = settings.command.split_first().filter(|(program, _)| !program.is_empty())
        else {
            return Err("command is empty; name a program, as in command = [\"python3\", \"worker.py\"]".into());
        };
        // A relative folder would change the meaning of relative programs.
        let base = std::path::absolute(if base.as_os_str().is_empty() { Path::new(".") } else { base })
            .map_err(|error| format!("the folder {} cannot be used ({error}); give another one", base.display()))?;
        let folder = settings.folder.as_ref().map_or_else(|| base.clone(), |folder| base.join(folder));
        if !folder.is_dir() {
            return Err(format!("the working folder {} does not exist; create it or correct folder", folder.display()));
        }
        let has_slash = program.contains(std::path::is_separator);
        let program = if has_slash { base.join(program) } else { PathBuf::from(program) };
        if has_slash && !program.is_file() {
            return Err(format!("the program {} does not exist; correct command", program.display()));
        }
        if !(1..=MOST_WORKERS).contains(&settings.workers) {
            return Err(format!("workers = {} is not possible; choose 1 to {MOST_WORKERS}", settings.workers));
        }
        let Size(max_line_size) = settings.max_line_size;
        if max_line_size < LEAST_LINE_SIZE {
            return Err(format!("max_line_size = {max_line_size}B is too small; give at least {LEAST_LINE_SIZE}B"));
        }
        let (variables, mut secrets) = variables(&settings.environment, environment)?;
        secrets.extend(inherited_secrets());
        Ok(Self {
            program,
            arguments: arguments.to_vec(),
            variables,
            folder,
            workers: settings.workers,
            start_timeout: settings.start_timeout.0,
            reply_timeout: settings.reply_timeout.0,
            max_line_size,
            secrets,
        })
    }

    /// The text without secrets.
    pub(crate) fn redact(&self, text: &str) -> String {
        secret::redact(&self.secrets, text)
    }

    /// The program and its arguments for messages.
    pub(crate) fn describe(&self) -> String {
        let program = self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy();
        let words: Vec<&str> = std::iter::once(&*program).chain(self.arguments.iter().map(String::as_str)).collect();
        super::shortened(&self.redact(&words.join(" ")), 80)
    }
}

/// The variables with references replaced, and the values that were referred to.
fn variables(
    given: &BTreeMap<String, String>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(BTreeMap<String, Secret>, Vec<Secret>), String> {
    let (mut variables, mut secrets) = (BTreeMap::new(), Vec::new());
    for (name, value) in given {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!("environment has the variable {name:?}, which no process can have; rename it"));
        }
        let value = match value.strip_prefix("env:") {
            None => value.clone(),
            Some(reference) => {
                let value = environment(reference).filter(|value| !value.contains('\0')).ok_or_else(|| {
                    format!("environment.{name} refers to the variable {reference:?}, which is not set; set it")
                })?;
                secrets.extend(secrets_in(&value));
                value
            }
        };
        variables.insert(name.clone(), Secret::new(value));
    }
    Ok((variables, secrets))
}

/// The value, and its lines: messages show one line at a time.
fn secrets_in(value: &str) -> impl Iterator<Item = Secret> {
    let lines = value.lines().filter(move |line| *line != value);
    std::iter::once(value).chain(lines).map(Secret::new)
}

/// The values of inherited variables that look like secrets by their name: a worker may print them, too.
fn inherited_secrets() -> Vec<Secret> {
    let is_secret = |name: &str| SECRET_NAMES.iter().any(|end| name.to_ascii_uppercase().ends_with(end));
    std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(is_secret))
        .filter_map(|(_, value)| value.into_string().ok())
        .flat_map(|value| secrets_in(&value).collect::<Vec<_>>())
        .collect()
}
