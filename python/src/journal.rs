//! The checkpoint of an online run: the file of its events, its lock, and when events are on disk. The library defines the
//! format of the lines.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{self, Arc, Mutex};

use modelmix::policy::AnyPolicy;
use modelmix::session::{Answer, Event, Header, JournalReader, JournalWriter, KnownAs, Scores};
use modelmix::{Error, Features};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::arrays::{Use, features};
use crate::errors::to_exception;
use crate::session::{Asked, Session, asked, lock};
use crate::work::run_detached;

/// The journal of one session, in a file that is locked against other writers. It is read to its end first, and then written.
#[pyclass(frozen)]
pub(crate) struct Journal {
    path: PathBuf,
    /// Whether the file did not exist before.
    is_new: bool,
    session: Arc<Mutex<modelmix::Session>>,
    stage: Mutex<Stage>,
}

enum Stage {
    /// Earlier events are being applied. `File` is the same file, to be written once all are applied.
    Reading(Box<JournalReader<BufReader<File>>>, File, Header),
    /// All events are read and nothing is written yet. The first event also writes the header, so an error before it leaves no
    /// header.
    Ready(Disk, Header, Start),
    Writing(JournalWriter<Disk>, HashMap<u64, Event>),
    Closed,
}

/// Where writing to a journal continues.
enum Start {
    /// At its beginning.
    Empty,
    /// After earlier events, the last of which has this checksum.
    After(u32),
}

/// The contents of a line: its number, the kind of event, the pull that it settled, the arm whose samples became known, and the
/// note.
type Told = (usize, &'static str, Option<Asked>, Option<usize>, Option<String>);

/// Recorded samples of an arm: its index, their features and their scores.
type Recorded<'py> = (usize, Bound<'py, PyAny>, BTreeMap<String, Vec<f64>>);

/// Why a call failed.
enum Failure {
    /// The file is not usable; the message states the fix.
    Refused(String),
    /// The session rejected an event.
    Session(Error),
    Disk(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// A file that stores the error of a failed write, since the library reports only that it failed.
struct Disk {
    file: File,
    failure: Option<io::Error>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| {
            let kind = error.kind();
            // An interrupted write is retried, so it is not a failure.
            if kind != io::ErrorKind::Interrupted {
                self.failure = Some(error);
            }
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[pymethods]
impl Journal {
    /// Opens or creates the file; `run` describes the run as a JSON object. A file of another run is rejected and left
    /// unchanged.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, run: String, session: &Session) -> PyResult<Self> {
        let (stage, is_new) = run_detached(py, || start(&path, run))?.map_err(|failure| exception(&path, failure))?;
        Ok(Self { path, is_new, session: session.shared(), stage: Mutex::new(stage) })
    }

    /// Applies the next event of an earlier run to the session; with `verify`, decisions are recomputed and compared. After the
    /// last event, an incomplete line is truncated and `None` is returned.
    fn replay(&self, py: Python<'_>, verify: bool) -> PyResult<Option<Told>> {
        self.work(py, |stage, session| {
            let Stage::Reading(reader, ..) = stage else { return Ok(None) };
            let Some(entry) = reader.next() else {
                *stage = read_to_end(std::mem::replace(stage, Stage::Closed))?;
                return Ok(None);
            };
            let entry = entry.map_err(unreadable)?;
            let line = reader.line();
            let mut session = lock(session);
            if verify {
                session.verify(&entry.event).map_err(|error| differs(line, error))?;
            }
            let told = told(&entry.event, &session);
            session.apply(&entry.event).map_err(|error| damaged(line, error))?;
            let (kind, pull, arm) = told;
            Ok(Some((line, kind, pull, arm, entry.note)))
        })
    }

    /// Asks the session and writes the event, without syncing to disk: if the line is lost, the same pull is asked for again.
    fn ask(&self, py: Python<'_>) -> PyResult<Asked> {
        self.write(py, |writer, _, session| {
            let mut session = lock(session);
            let event = session.decide()?;
            let event = session.perform(event)?;
            append(writer, &event, None)?;
            let pull = session.in_flight().pop();
            pull.map(asked).ok_or_else(|| Failure::Refused("has a session without the pull it asked for".into()))
        })
    }

    /// Tells the session, but writes nothing before [`Journal::settle`].
    fn tell(
        &self,
        py: Python<'_>,
        pull: u64,
        array: &Bound<'_, PyAny>,
        scores: BTreeMap<String, Vec<f64>>,
    ) -> PyResult<()> {
        let features = features(&format!("pull {pull}"), array, Use::Call)?;
        self.write(py, |_, held, session| {
            let event = lock(session).perform(Event::told(pull, Answer::scored(&features, &scores)))?;
            held.insert(pull, event);
            Ok(())
        })
    }

    /// Abandons a pull, but writes nothing before [`Journal::settle`].
    fn abandon(&self, py: Python<'_>, pull: u64) -> PyResult<()> {
        self.write(py, |_, held, session| {
            held.insert(pull, lock(session).perform(Event::Abandoned { pull })?);
            Ok(())
        })
    }

    /// Writes the outcome of a pull, with a note, and waits until it is on disk.
    fn settle(&self, py: Python<'_>, pull: u64, note: &str) -> PyResult<()> {
        self.write(py, |writer, held, _| {
            let event = held.remove(&pull).ok_or(Error::UnknownPull { id: pull })?;
            append(writer, &event, Some(note))?;
            Ok(writer.get_mut().file.sync_data()?)
        })
    }

    /// Adds recorded samples of arms (index, features, scores) to the session, and waits until they are on disk. Nothing is written
    /// unless all of them are accepted.
    fn known(&self, py: Python<'_>, samples: Vec<Recorded<'_>>) -> PyResult<()> {
        let name = |arm: usize| lock(&self.session).arms().get(arm).cloned().unwrap_or_default();
        let read = |(arm, array, scores): Recorded<'_>| {
            let features = features(&format!("known samples of arm {}", name(arm)), &array, Use::Call)?;
            Ok((arm, features, scores))
        };
        let samples: Vec<(usize, Features, Scores)> = samples.into_iter().map(read).collect::<PyResult<_>>()?;
        self.work(py, |stage, session| {
            let mut session = lock(session);
            let perform = |(arm, features, scores): &(usize, Features, Scores)| {
                session.perform(Event::known(*arm, Answer::scored(features, scores), KnownAs::Evidence))
            };
            let events = samples.iter().map(perform).collect::<modelmix::Result<Vec<Event>>>()?;
            let (writer, _) = writing(stage)?;
            events.iter().try_for_each(|event| append(writer, event, None))?;
            Ok(writer.get_mut().file.sync_data()?)
        })
    }

    /// Closes the file, and removes it if it was created here and nothing was written.
    fn discard(&self) -> PyResult<()> {
        let mut stage = lock(&self.stage);
        if self.is_new && matches!(*stage, Stage::Reading(..) | Stage::Ready(_, _, Start::Empty)) {
            std::fs::remove_file(&self.path).map_err(|error| exception(&self.path, Failure::Disk(error)))?;
        }
        *stage = Stage::Closed;
        Ok(())
    }

    /// Closes the file and releases its lock. In a forked child process, the lock of the parent stays.
    fn close(&self) {
        // If the process was forked while another thread held this mutex, it stays locked in the child forever.
        match self.stage.try_lock() {
            Ok(mut stage) => *stage = Stage::Closed,
            Err(sync::TryLockError::Poisoned(stage)) => *stage.into_inner() = Stage::Closed,
            Err(sync::TryLockError::WouldBlock) => {}
        }
    }
}

impl Journal {
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Stage, &Mutex<modelmix::Session>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        run_detached(py, || work(&mut lock(&self.stage), &self.session))?
            .map_err(|failure| exception(&self.path, failure))
    }

    fn write<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(
            &mut JournalWriter<Disk>,
            &mut HashMap<u64, Event>,
            &Mutex<modelmix::Session>,
        ) -> Result<T, Failure>
        + Send,
    ) -> PyResult<T> {
        self.work(py, |stage, session| {
            let (writer, held) = writing(stage)?;
            work(writer, held, session)
        })
    }
}

/// Returns the writer, after writing the header if this is the first event.
fn writing(stage: &mut Stage) -> Result<(&mut JournalWriter<Disk>, &mut HashMap<u64, Event>), Failure> {
    if let Stage::Ready(..) = stage {
        *stage = begin(std::mem::replace(stage, Stage::Closed))?;
    }
    match stage {
        Stage::Writing(writer, held) => Ok((writer, held)),
        Stage::Reading(..) | Stage::Ready(..) => {
            Err(Failure::Refused("has not been read to its end, so it cannot be written".into()))
        }
        Stage::Closed => Err(Failure::Refused("is closed".into())),
    }
}

/// Opens the file and returns whether it was created. Not in append mode, because Windows cannot truncate such a file.
fn open(path: &PathBuf) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok((options.create(true).open(path)?, false)),
        Err(error) => Err(error),
    }
}

/// Opens and locks the file and reads its first line; also returns whether the file is new.
fn start(path: &PathBuf, run: String) -> Result<(Stage, bool), Failure> {
    let refuse = |problem: &str| Err(Failure::Refused(problem.into()));
    let (file, is_new) = open(path)?;
    if !file.metadata()?.is_file() {
        return refuse("is not a regular file; name another file");
    }
    // Some file systems have no locks; on these, other writers cannot be detected.
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return refuse("is being written by another run; wait until it ends, or name another file");
    }
    let header = Header::new(run);
    let reader = JournalReader::new(BufReader::new(file.try_clone()?)).map_err(unreadable)?;
    match reader.header() {
        Some(found) => same_run(&found.run, &header.run)?,
        None => {
            let mut part = Vec::new();
            let mut file = &file;
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut part)?;
            if !first_line(&header)?.starts_with(&part) {
                return refuse("is not a journal, or an incomplete one; name another file");
            }
        }
    }
    Ok((Stage::Reading(Box::new(reader), file, header), is_new))
}

fn first_line(header: &Header) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    JournalWriter::start(&mut line, header)?;
    Ok(line)
}

/// Truncates an incomplete last line and prepares to write after the last complete line.
fn read_to_end(stage: Stage) -> Result<Stage, Failure> {
    let Stage::Reading(reader, mut file, header) = stage else { return Ok(stage) };
    let whole = reader.whole_lines_len();
    if file.metadata()?.len() > whole {
        file.set_len(whole)?;
    }
    file.seek(SeekFrom::Start(whole))?;
    let start = if reader.header().is_some() { Start::After(reader.checksum()) } else { Start::Empty };
    Ok(Stage::Ready(Disk { file, failure: None }, header, start))
}

/// Writes the header, unless it exists.
fn begin(stage: Stage) -> Result<Stage, Failure> {
    let Stage::Ready(mut disk, header, start) = stage else { return Ok(stage) };
    let checksum = match start {
        Start::After(checksum) => checksum,
        Start::Empty => {
            let line = first_line(&header)?;
            disk.file.write_all(&line)?;
            disk.file.sync_data()?;
            JournalReader::<_, AnyPolicy>::new(line.as_slice()).map_err(unreadable)?.checksum()
        }
    };
    Ok(Stage::Writing(JournalWriter::resume(disk, checksum), HashMap::new()))
}

fn append(writer: &mut JournalWriter<Disk>, event: &Event, note: Option<&str>) -> Result<(), Failure> {
    writer.append(event, note).map_err(|error| match writer.get_mut().failure.take() {
        Some(failure) => Failure::Disk(failure),
        None => Failure::Session(error),
    })
}

/// Describes an event before it is applied.
fn told(event: &Event, session: &modelmix::Session) -> (&'static str, Option<Asked>, Option<usize>) {
    let settled = |id: u64| session.in_flight().into_iter().find(|pull| pull.id == id).map(asked);
    match event {
        Event::Asked(_) => ("asked", None, None),
        Event::Told(told) => ("told", settled(told.pull), None),
        Event::Abandoned { pull } => ("abandoned", settled(*pull), None),
        Event::Known(known) => ("known", None, Some(known.arm)),
        _ => ("other", None, None),
    }
}

/// Compares the descriptions of two runs; a run resumes only with its original one. The fingerprint is compared last, because a
/// difference in it is the least specific.
fn same_run(found: &str, wanted: &str) -> Result<(), Failure> {
    let read = |text: &str| {
        serde_json::from_str::<Map<String, Value>>(text).map_err(|error| {
            Failure::Refused(format!("has an unreadable run description ({error}); name another file"))
        })
    };
    let (found, wanted) = (read(found)?, read(wanted)?);
    let said = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".into(),
        Some(value) => value.to_string(),
    };
    let names = wanted.keys().chain(found.keys().filter(|name| !wanted.contains_key(*name)));
    let other = names.filter(|name| said(found.get(*name)) != said(wanted.get(*name)));
    match other.min_by_key(|name| name.as_str() == "fingerprint") {
        None => Ok(()),
        Some(name) if name == "fingerprint" => Err(Failure::Refused(
            "belongs to another reference, kernel or costs; use those of the first run, or name another file".into(),
        )),
        Some(name) => Err(Failure::Refused(format!(
            "has {name} {}, and this run has {}; use the settings of the first run, or name another file",
            said(found.get(name)),
            said(wanted.get(name))
        ))),
    }
}

/// Converts a library error about a journal to one about this file.
fn unreadable(error: Error) -> Failure {
    match error {
        Error::Journal { problem } => Failure::Refused(problem),
        error => Failure::Session(error),
    }
}

/// Whether an error means that the event contradicts the session. Any other error, such as out of memory, is not the fault of
/// the file.
fn contradicts(error: &Error) -> bool {
    matches!(
        error,
        Error::Event { .. }
            | Error::Answer { .. }
            | Error::Known { .. }
            | Error::UnknownPull { .. }
            | Error::RepeatedPull { .. }
            | Error::Setting { .. }
    )
}

fn damaged(line: usize, error: Error) -> Failure {
    if !contradicts(&error) {
        return Failure::Session(error);
    }
    Failure::Refused(format!(
        "is damaged at line {line} ({error}); delete that line and all after it to continue from there, or name another file"
    ))
}

fn differs(line: usize, error: Error) -> Failure {
    if !contradicts(&error) {
        return Failure::Session(error);
    }
    Failure::Refused(format!(
        "differs from the recomputed decision at line {line}: {error}; set verify=False to accept it, or name another file"
    ))
}

/// Converts a failure to an exception.
fn exception(path: &std::path::Path, failure: Failure) -> PyErr {
    match failure {
        Failure::Refused(problem) => PyValueError::new_err(format!("the checkpoint {} {problem}", path.display())),
        Failure::Session(error) => to_exception(error),
        Failure::Disk(error) => match error.raw_os_error() {
            Some(code) => {
                let text = error.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                PyOSError::new_err((code, text.to_string(), path.display().to_string()))
            }
            None => PyRuntimeError::new_err(format!("the checkpoint {} cannot be used: {error}", path.display())),
        },
    }
}
