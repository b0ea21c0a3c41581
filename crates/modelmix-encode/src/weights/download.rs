//! One file from an address to its place: in parts that can be resumed, checked, and put in place whole or not at all.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::digest;
use super::http::{Answer, Client, Failure};
use super::pull::{Progress, PullOptions};

/// The pause between two looks at whether to stop, while waiting.
const LOOK: Duration = Duration::from_millis(20);

/// How many times a download begins anew because what is there does not fit the answer.
const MAX_RESTARTS: u32 = 3;

/// A file to download.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a PullOptions,
    pub(super) progress: &'a dyn Fn(&Progress<'_>) -> bool,
    /// The name shown to the user.
    pub(super) name: &'a str,
    pub(super) url: &'a str,
    pub(super) target: &'a Path,
    /// The published SHA-256.
    pub(super) expected: Option<&'a str>,
}

/// A file in its place.
pub(super) struct Done {
    /// Its SHA-256.
    pub(super) digest: String,
    /// Whether a published digest confirms it, from the table or from the hub.
    pub(super) confirmed: bool,
    /// Whether it was downloaded now; otherwise it was there.
    pub(super) fresh: bool,
    /// The commit of the repository that it is from.
    pub(super) commit: Option<String>,
}

/// Why a file was not downloaded.
pub(super) enum Stop {
    /// The server does not have the file, or does not give it; another source may.
    Unavailable(String),
    /// The server does not have the file.
    NotFound(String),
    /// Another source would not help.
    Failed(String),
}

/// What is known of a partial download, stored next to it.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Partial {
    /// The identity of the content.
    identity: Option<String>,
    /// The entity tag of the host that sent the bytes.
    etag: Option<String>,
}

/// The outcome of one request.
enum Attempt {
    /// All bytes are there.
    Whole { answer: Headers },
    /// The connection ended early, or the server was busy.
    Again { problem: String, after: Option<Duration>, done: u64 },
    /// What is there does not fit; begin anew.
    Restart,
}

/// What an answer says about the file.
struct Headers {
    identity: Option<String>,
    commit: Option<String>,
    /// Whether the download continued an earlier one.
    resumed: bool,
}

impl Download<'_> {
    /// Downloads the file, unless it is there and intact.
    pub(super) fn run(&self) -> Result<Done, Stop> {
        let folder = self.target.parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(folder).map_err(|error| self.unwritten(folder, &error))?;
        let lock_path = beside(self.target, "lock");
        let lock = OpenOptions::new().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(|error| self.unwritten(&lock_path, &error))?;
        self.wait_for(&lock, &lock_path)?;
        if let Some(done) = self.already_there()? {
            return Ok(done);
        }
        let mut restarted = false;
        loop {
            let answer = self.fetch()?;
            let part = beside(self.target, "part");
            let found = digest::sha256(&part).map_err(|error| self.unwritten(&part, &error))?;
            let linked = answer.identity.as_deref().and_then(digest::digits);
            let published = self.expected.map(str::to_string).or(linked);
            if let Some(what) = published.is_none().then(|| unlike(self.target, &part)).flatten() {
                self.drop_part();
                let name = self.name;
                return Err(Stop::Unavailable(format!(
                    "the server sent {what} instead of {name}; check the endpoint and the network, then try again"
                )));
            }
            let expected = published.clone().or_else(|| digest::recorded(self.target));
            match expected {
                Some(expected) if !found.starts_with(&expected) => {
                    self.drop_part();
                    // The first part may be of another file with the same name; a whole download settles it.
                    if answer.resumed && !restarted {
                        restarted = true;
                        continue;
                    }
                    let (origin, remedy) = if published.is_some() {
                        ("published", "or use another endpoint".to_owned())
                    } else {
                        let record = digest::record_path(self.target);
                        let removal = format!("or remove {} if the file was published anew", record.display());
                        ("recorded by an earlier download", format!("use another endpoint, {removal}"))
                    };
                    return Err(Stop::Unavailable(format!(
                        "the SHA-256 of {} is {found}, but {expected} is {origin}; try again, {remedy}",
                        self.name
                    )));
                }
                _ => {}
            }
            self.put_in_place(&part, &found)?;
            return Ok(Done { digest: found, confirmed: published.is_some(), fresh: true, commit: answer.commit });
        }
    }

    /// Waits until no other process downloads the file.
    fn wait_for(&self, lock: &File, path: &Path) -> Result<(), Stop> {
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(std::fs::TryLockError::WouldBlock) => {
                    let problem = format!("another process downloads {}", self.name);
                    self.pause(Duration::from_millis(200), 0, Some(&problem))?;
                }
                // Some network file systems cannot lock; a download without a lock is better than none.
                Err(std::fs::TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => return Ok(()),
                Err(std::fs::TryLockError::Error(error)) => return Err(self.unwritten(path, &error)),
            }
        }
    }

    /// The file, if it is there and has its published or recorded digest.
    fn already_there(&self) -> Result<Option<Done>, Stop> {
        if !self.target.is_file() || (self.expected.is_none() && unlike(self.target, self.target).is_some()) {
            return Ok(None);
        }
        let found = digest::sha256(self.target).map_err(|error| self.unwritten(self.target, &error))?;
        let expected = self.expected.map(str::to_string).or_else(|| digest::recorded(self.target));
        if expected.as_ref().is_some_and(|expected| !found.starts_with(expected)) {
            return Ok(None);
        }
        if digest::recorded(self.target).is_none() {
            self.write_whole(&digest::record_path(self.target), digest::record(self.target, &found).as_bytes())?;
        }
        Ok(Some(Done { digest: found, confirmed: self.expected.is_some(), fresh: false, commit: None }))
    }

    /// Requests the file until all of it is there, or there is no hope.
    fn fetch(&self) -> Result<Headers, Stop> {
        let (mut failures, mut restarts, mut furthest) = (0, 0, self.part_length());
        loop {
            match self.attempt()? {
                Attempt::Whole { answer } => return Ok(answer),
                Attempt::Restart if restarts == MAX_RESTARTS => {
                    let problem = "contradicts itself about its size and ranges; use another endpoint";
                    return Err(Stop::Unavailable(format!("the server of {} {problem}", self.name)));
                }
                Attempt::Restart => {
                    restarts += 1;
                    self.drop_part();
                }
                Attempt::Again { problem, after, done } => {
                    // Bytes that were there before are no progress: some servers cannot resume.
                    failures = if done > furthest { 1 } else { failures + 1 };
                    furthest = furthest.max(done);
                    if failures > self.options.retries {
                        return Err(Stop::Unavailable(problem));
                    }
                    if let Some(after) = after.filter(|&after| after > self.options.longest_wait) {
                        let seconds = after.as_secs();
                        let problem = format!("the server of {} asks to wait {seconds} s; try again then", self.name);
                        return Err(Stop::Unavailable(problem));
                    }
                    let backoff = self.options.backoff.saturating_mul(1 << (failures - 1).min(16));
                    let time = after.unwrap_or(backoff).min(self.options.longest_wait);
                    // It is tried again, so the user need not do anything.
                    let (what, _remedy) = problem.split_once("; ").unwrap_or((&problem, ""));
                    self.pause(time, self.part_length(), Some(what))?;
                }
            }
        }
    }

    /// One request for the bytes that are missing.
    fn attempt(&self) -> Result<Attempt, Stop> {
        let partial = self.partial();
        let start = if partial.identity.is_some() { self.part_length() } else { 0 };
        let answer = match self.client.get(self.url, start, partial.etag.as_deref()) {
            Ok(answer) => answer,
            Err(Failure::Retry(problem, after)) => {
                return Ok(Attempt::Again { problem, after, done: 0 });
            }
            Err(Failure::OutOfRange) if start > 0 => return Ok(Attempt::Restart),
            Err(Failure::OutOfRange) => {
                return Err(Stop::Unavailable(format!("the server has no bytes of {}; try again later", self.name)));
            }
            Err(Failure::NotFound(problem)) => return Err(Stop::NotFound(problem)),
            Err(Failure::Final(problem)) => return Err(Stop::Unavailable(problem)),
        };
        let resumed = answer.response.status().as_u16() == 206;
        if resumed && (start == 0 || answer.identity != partial.identity || range_start(&answer) != Some(start)) {
            return Ok(Attempt::Restart);
        }
        let start = if resumed { start } else { 0 };
        let total = total(&answer, start);
        let part = beside(self.target, "part");
        let record = Partial { identity: answer.identity.clone(), etag: answer.etag.clone() };
        let mut options = OpenOptions::new();
        let opened = if resumed { options.append(true) } else { options.create(true).write(true).truncate(true) };
        let mut file = opened.open(&part).map_err(|error| self.unwritten(&part, &error))?;
        let described = serde_json::to_vec(&record).unwrap_or_default();
        self.write_whole(&beside(self.target, "part.json"), &described)?;
        let headers = Headers { identity: answer.identity, commit: answer.commit, resumed };
        let mut body = answer.response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; 1 << 17];
        let mut done = start;
        loop {
            self.report(done, total, None)?;
            let problem = match body.read(&mut buffer) {
                Ok(0) if total.is_none_or(|total| done == total) => break,
                Ok(0) => "the connection ended early".to_string(),
                Ok(count) => {
                    file.write_all(&buffer[..count]).map_err(|error| self.unwritten(&part, &error))?;
                    done += count as u64;
                    if total.is_some_and(|total| done > total) {
                        return Ok(Attempt::Restart);
                    }
                    continue;
                }
                Err(error) => error.to_string(),
            };
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            let problem = format!(
                "the download of {} broke off after {done}{of} bytes ({problem}); run the command again to resume it",
                self.name
            );
            return Ok(Attempt::Again { problem, after: None, done });
        }
        file.sync_all().map_err(|error| self.unwritten(&part, &error))?;
        Ok(Attempt::Whole { answer: headers })
    }

    fn partial(&self) -> Partial {
        let record = std::fs::read(beside(self.target, "part.json"));
        record.ok().and_then(|record| serde_json::from_slice(&record).ok()).unwrap_or_default()
    }

    fn part_length(&self) -> u64 {
        std::fs::metadata(beside(self.target, "part")).map_or(0, |metadata| metadata.len())
    }

    fn drop_part(&self) {
        // They may not exist, and the next attempt overwrites what is left.
        for extension in ["part", "part.json"] {
            let _ = std::fs::remove_file(beside(self.target, extension));
        }
    }

    /// Renames the finished part, after its digest is recorded.
    fn put_in_place(&self, part: &Path, digest: &str) -> Result<(), Stop> {
        self.write_whole(&digest::record_path(self.target), digest::record(self.target, digest).as_bytes())?;
        std::fs::rename(part, self.target).map_err(|error| self.unwritten(self.target, &error))?;
        self.drop_part();
        // So that the name survives a power failure. Windows cannot open folders, and some file systems cannot sync them.
        if let Some(folder) = self.target.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    /// Writes a small file whole or not at all.
    fn write_whole(&self, path: &Path, bytes: &[u8]) -> Result<(), Stop> {
        let temporary = beside(path, "new");
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let placed = written.and_then(|()| std::fs::rename(&temporary, path));
        placed.map_err(|error| self.unwritten(path, &error))
    }

    fn report(&self, done: u64, total: Option<u64>, problem: Option<&str>) -> Result<(), Stop> {
        let go_on = (self.progress)(&Progress { file: self.name, done, total, problem });
        if go_on { Ok(()) } else { Err(Stop::Failed("the download was stopped; run it again to resume it".into())) }
    }

    /// Waits because of a problem, unless the user stops it.
    fn pause(&self, time: Duration, done: u64, problem: Option<&str>) -> Result<(), Stop> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.report(done, None, problem)?;
            std::thread::sleep(LOOK.min(time.saturating_sub(begin.elapsed())));
        }
        Ok(())
    }

    fn unwritten(&self, path: &Path, error: &std::io::Error) -> Stop {
        Stop::Failed(unwritten(path, error))
    }
}

/// The message that a file cannot be written.
pub(super) fn unwritten(path: &Path, error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            return format!(
                "the disk of {} is full; free space, or set MODELMIX_CACHE to another folder",
                path.display()
            );
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "allow it, or set MODELMIX_CACHE to another folder"
        }
        _ => "set MODELMIX_CACHE to a folder that can be written",
    };
    format!("{} cannot be written ({error}); {remedy}", path.display())
}

/// What a file is if it cannot be the one of this name: nothing, or a page that a proxy or a login puts in place of files.
fn unlike(name: &Path, file: &Path) -> Option<&'static str> {
    let mut start = Vec::new();
    // A file that cannot be read is found out elsewhere.
    File::open(file).ok()?.take(1024).read_to_end(&mut start).ok()?;
    let is_json = name.extension().is_some_and(|extension| extension == "json");
    let start = start.trim_ascii_start();
    // A file of weights may begin with any byte, so one is not enough to tell.
    let is_page = ["<!doctype", "<html", "<head", "<?xml"]
        .iter()
        .any(|tag| start.get(..tag.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(tag.as_bytes())));
    match start.first() {
        None => Some("nothing"),
        Some(_) if is_page => Some("a web page"),
        Some(first) if is_json && !b"{[".contains(first) => Some("something else"),
        Some(_) => None,
    }
}

/// The name of a file with another extension appended: `model.onnx.part`.
pub(super) fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().into();
    name.push(".");
    name.push(extension);
    path.with_file_name(name)
}

/// Where the bytes of a partial answer begin.
fn range_start(answer: &Answer) -> Option<u64> {
    content_range(answer)?.0
}

/// The size of the whole file, if the answer says it.
fn total(answer: &Answer, start: u64) -> Option<u64> {
    let of_range = content_range(answer).and_then(|(_, total)| total);
    let of_body = answer.response.body().content_length().map(|length| start.saturating_add(length));
    of_range.or(of_body).or(answer.size)
}

/// The numbers in `Content-Range: bytes 100-199/200`: the start and the total.
fn content_range(answer: &Answer) -> Option<(Option<u64>, Option<u64>)> {
    let range = answer.response.headers().get("content-range")?.to_str().ok()?;
    let (bytes, total) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
    let start = bytes.split_once('-').and_then(|(start, _)| start.trim().parse().ok());
    Some((start, total.trim().parse().ok()))
}
