//! One process of a worker: its pipes, the requests that it has not answered yet, and its end.
//!
//! Threads write requests, read replies, drain stderr, and notice the exit of the process. So no call waits for a pipe.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::protocol::{Body, Hello, Id};
use super::settings::Launch;
use super::stderr::Tail;
use super::{CallProblem, group, quoted};
use crate::units::Span;

/// The time that a process has to exit after it closed stdout, and that the reader of stderr has after the end of the process.
const SETTLE: Duration = Duration::from_millis(300);
/// The time after which an exit is noticed if another process keeps stdout open.
const WATCH: Duration = Duration::from_millis(100);
/// The time that ending a process takes at most, with all of its steps.
const ENDING: Duration = Duration::from_secs(3);

/// A running worker.
#[derive(Debug)]
pub(super) struct Process {
    shared: Arc<Shared>,
    /// Requests to write; `None` after stdin was closed.
    lines: Mutex<Option<Sender<Line>>>,
}

/// A request to write.
#[derive(Debug)]
struct Line {
    id: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    launch: Arc<Launch>,
    child: Mutex<Child>,
    tail: Arc<Tail>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    hello: Option<Hello>,
    /// The requests without an answer.
    pending: HashMap<u64, Pending>,
    /// The number of requests so far; the last one has this id.
    requests: u64,
    /// The replies that were read whole since the last request.
    received: Vec<u64>,
    /// Whether the process is being ended.
    is_ending: bool,
    /// Why no more requests are answered.
    ended: Option<String>,
}

#[derive(Debug)]
struct Pending {
    answer: SyncSender<Result<Vec<u8>, CallProblem>>,
    /// Whether writing it has begun.
    is_sent: bool,
}

/// Why no process could be started.
pub(super) struct StartProblem {
    pub(super) message: String,
    /// Whether another start would fail, too.
    pub(super) is_permanent: bool,
}

impl Process {
    /// Starts the program, without waiting for its hello.
    pub(super) fn spawn(launch: &Arc<Launch>) -> Result<Self, StartProblem> {
        let failed = |error: std::io::Error| {
            let fix = match error.kind() {
                ErrorKind::NotFound => "there is no such program; install it or correct command".to_owned(),
                ErrorKind::PermissionDenied => "it is not executable; make it so with chmod +x".to_owned(),
                _ => format!("{error}; check command"),
            };
            let message = format!("{} does not start: {fix}", launch.describe());
            let is_permanent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
            StartProblem { message, is_permanent }
        };
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.arguments)
            .envs(launch.variables.iter().map(|(name, value)| (name, value.expose())))
            .current_dir(&launch.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        group::separate(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let tail = Arc::new(Tail::default());
        let shared = Arc::new(Shared {
            launch: Arc::clone(launch),
            child: Mutex::new(child),
            tail: Arc::clone(&tail),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (lines, queue) = channel();
        if let Some(stderr) = stderr {
            thread::spawn(move || tail.drain(stderr));
        }
        if let Some(stdout) = stdout {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.read(stdout));
        }
        if let Some(stdin) = stdin {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.write(stdin, &queue));
        }
        let watched = Arc::clone(&shared);
        thread::spawn(move || watched.watch());
        Ok(Self { shared, lines: Mutex::new(Some(lines)) })
    }

    /// Waits for the hello. A process without one is ended.
    pub(super) fn hello(&self) -> Result<Hello, String> {
        let Shared { launch, changed, .. } = &*self.shared;
        let is_waiting = |state: &mut State| state.hello.is_none() && state.ended.is_none();
        let (state, _) = changed
            .wait_timeout_while(self.shared.state(), launch.start_timeout, is_waiting)
            .unwrap_or_else(PoisonError::into_inner);
        match (&state.hello, &state.ended) {
            (_, Some(ended)) => Err(ended.clone()),
            (Some(hello), None) => Ok(hello.clone()),
            (None, None) => {
                drop(state);
                let limit = Span(launch.start_timeout);
                self.stop(&format!("wrote no hello within {limit}; raise start_timeout if it needs longer to load"));
                Err(self.shared.ended())
            }
        }
    }

    /// Whether requests are answered.
    pub(super) fn is_running(&self) -> bool {
        !self.shared.state().is_ending
    }

    /// Sends a request and waits for its reply: its id and its line.
    pub(super) fn call(&self, mut body: Body) -> Result<(u64, Vec<u8>), CallProblem> {
        let (answer, answered) = sync_channel(1);
        let mut state = self.shared.state();
        if state.is_ending {
            drop(state);
            return Err(CallProblem::not_sent(self.shared.ended()));
        }
        state.requests += 1;
        let id = state.requests;
        body.insert("id".into(), id.into());
        if !state.received.is_empty() {
            body.insert("received".into(), std::mem::take(&mut state.received).into());
        }
        let mut line = Value::Object(body).to_string().into_bytes();
        line.push(b'\n');
        state.pending.insert(id, Pending { answer, is_sent: false });
        drop(state);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // If the writer has ended, so has the process or will soon: its end is the answer.
        let _ = lines.as_ref().map(|lines| lines.send(Line { id, bytes: line }));
        drop(lines);
        let limit = self.shared.launch.reply_timeout;
        match answered.recv_timeout(limit) {
            Ok(answer) => answer.map(|line| (id, line)),
            Err(RecvTimeoutError::Disconnected) => Err(CallProblem::Broken(self.shared.ended())),
            // The answer came at the last moment.
            Err(RecvTimeoutError::Timeout) if self.shared.state().pending.remove(&id).is_none() => {
                let answer = answered.recv().unwrap_or_else(|_| Err(CallProblem::Broken(self.shared.ended())));
                answer.map(|line| (id, line))
            }
            Err(RecvTimeoutError::Timeout) => {
                let limit = Span(limit);
                self.stop(&format!(
                    "wrote no reply within {limit} and was ended; raise reply_timeout if it needs longer"
                ));
                Err(CallProblem::Timeout(self.shared.ended()))
            }
        }
    }

    /// Notes that a reply was read whole, with the files that it names.
    pub(super) fn received(&self, id: u64) {
        self.shared.state().received.push(id);
    }

    /// Ends the process for this reason.
    pub(super) fn stop(&self, reason: &str) {
        self.shared.stop(reason);
    }

    /// Closes stdin, after which a worker exits.
    pub(super) fn close(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Waits until the process has ended; whether it has.
    pub(super) fn wait(&self, deadline: Instant) -> bool {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let is_running = |state: &mut State| state.ended.is_none();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.state(), timeout, is_running)
            .unwrap_or_else(PoisonError::into_inner);
        state.ended.is_some()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes requests until stdin is closed or the process ends.
    fn write(&self, mut stdin: ChildStdin, queue: &Receiver<Line>) {
        while let Ok(Line { id, bytes }) = queue.recv() {
            match self.state().pending.get_mut(&id) {
                // Noted before the first byte leaves: a request counts as sent if that is possible.
                Some(pending) => pending.is_sent = true,
                None => continue,
            }
            if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
                return;
            }
        }
    }

    /// Reads lines until the process ends or does not keep to the protocol.
    fn read(&self, stdout: ChildStdout) {
        let mut reader = BufReader::new(stdout);
        let limit = self.launch.max_line_size;
        loop {
            let mut line = Vec::new();
            match reader.by_ref().take(limit + 1).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return self.exited(),
                Ok(length) if length as u64 > limit => {
                    return self.stop(&format!("wrote a line of more than {limit} bytes; raise max_line_size"));
                }
                // The last line of a process that ended in the middle of it, or only forgot its end.
                Ok(_) if !line.ends_with(b"\n") => {
                    let _ = self.take(line);
                    return self.exited();
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => {
                    if let Err(problem) = self.take(line) {
                        return self.stop(&problem);
                    }
                }
            }
        }
    }

    /// Takes a line: the hello, or a reply, which is passed on to the call that waits for it. A reply counts also if the process is
    /// being ended: it may have been paid.
    fn take(&self, line: Vec<u8>) -> Result<(), String> {
        let mut state = self.state();
        if state.hello.is_none() {
            state.hello = Some(Hello::parse(&line, &self.launch)?);
            self.changed.notify_all();
            return Ok(());
        }
        let Id { id } = serde_json::from_slice(&line).map_err(|error| {
            format!(
                "wrote {}, which is not a reply in JSON with an id ({error}); print to stderr",
                quoted(&self.launch, &line)
            )
        })?;
        match state.pending.remove(&id) {
            Some(pending) => {
                // A call that does not wait any more has given its own reason.
                let _ = pending.answer.send(Ok(line));
                Ok(())
            }
            None if (1..=state.requests).contains(&id) => {
                Err(format!("answered the request {id} twice; write one line per request"))
            }
            None => Err(format!("answered the request {id}, which was not sent; copy the id of the request")),
        }
    }

    /// Notices the exit of the process. Usually the end of stdout says it earlier, but a child of the process may keep that open.
    fn watch(&self) {
        let wait_for_end = |time| {
            let is_running = |state: &mut State| !state.is_ending;
            let waited = self.changed.wait_timeout_while(self.state(), time, is_running);
            waited.unwrap_or_else(PoisonError::into_inner).0.is_ending
        };
        while !wait_for_end(WATCH) {
            if let Some(status) = self.reap(Instant::now()) {
                // What it wrote before is read first.
                if !wait_for_end(SETTLE) {
                    self.stop(&describe_exit(status));
                }
                return;
            }
        }
    }

    /// The end of stdout: the process exits, or has no more use.
    fn exited(&self) {
        let status = self.reap(Instant::now() + SETTLE);
        self.stop(&status.map_or_else(|| "closed its stdout without exiting".into(), describe_exit));
    }

    /// Ends the process and all that it started, and fails the requests without an answer. Only the first reason counts.
    fn stop(&self, reason: &str) {
        if std::mem::replace(&mut self.state().is_ending, true) {
            return;
        }
        group::kill(&mut self.child.lock().unwrap_or_else(PoisonError::into_inner));
        self.reap(Instant::now() + SETTLE);
        self.tail.settle(SETTLE);
        let redact = |text: &str| self.launch.redact(text);
        let message = format!("{} {}{}", self.launch.describe(), redact(reason), self.tail.describe(redact));
        let mut state = self.state();
        for (_, pending) in state.pending.drain() {
            let message = message.clone();
            let failed = if pending.is_sent { CallProblem::Broken(message) } else { CallProblem::not_sent(message) };
            let _ = pending.answer.send(Err(failed));
        }
        state.ended = Some(message);
        self.changed.notify_all();
    }

    /// Why the process ended, after it did.
    fn ended(&self) -> String {
        let is_ending = |state: &mut State| state.ended.is_none();
        let (state, _) =
            self.changed.wait_timeout_while(self.state(), ENDING, is_ending).unwrap_or_else(PoisonError::into_inner);
        state.ended.clone().unwrap_or_else(|| format!("{} is being ended", self.launch.describe()))
    }

    /// The exit status, if the process exits before the deadline.
    fn reap(&self, deadline: Instant) -> Option<ExitStatus> {
        let mut pause = Duration::from_micros(200);
        loop {
            let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            match status {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(pause),
                Ok(None) | Err(_) => return None,
            }
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// As in "exited with code 1".
fn describe_exit(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with code {code}"),
        None => format!("was killed ({status})"),
    }
}
