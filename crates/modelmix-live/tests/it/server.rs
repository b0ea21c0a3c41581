//! A small HTTP/1.1 server on loopback that does per request what a test tells it, also what no good server does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

/// A request that the server has read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body, which has to be JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body of a request is JSON")
    }

    /// Everything that was sent, for a search in it.
    pub(crate) fn text(&self) -> String {
        format!("{} {} {:?} {}", self.method, self.target, self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// One thing that the server does on a connection. It closes it after the last step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends nothing for this time.
    Pause(Duration),
    /// Ends the connection with a reset instead of a close.
    Reset,
}

type Script = dyn Fn(usize, &Seen) -> Vec<Step> + Send + Sync;

/// A server that ends with the value.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    is_over: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// A server that does what `script` returns for a request. Requests are numbered from 0 in the order of their arrival.
    pub(crate) fn start(script: impl Fn(usize, &Seen) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (seen, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (script, number): (Arc<Script>, _) = (Arc::new(script), Arc::new(AtomicUsize::new(0)));
        let thread = {
            let (seen, is_over) = (Arc::clone(&seen), Arc::clone(&is_over));
            thread::spawn(move || {
                for stream in listener.incoming() {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let (Ok(stream), seen) = (stream, Arc::clone(&seen)) else { continue };
                    let (script, number) = (Arc::clone(&script), Arc::clone(&number));
                    thread::spawn(move || serve(stream, &seen, &number, &*script));
                }
            })
        };
        Self { address, seen, is_over, listener: Some(thread) }
    }

    /// A server that answers the n-th request with the n-th steps, and all further ones with the last.
    pub(crate) fn sequence(answers: Vec<Vec<Step>>) -> Self {
        Self::start(move |number, _| answers[number.min(answers.len() - 1)].clone())
    }

    /// A server that answers all requests with the same steps.
    pub(crate) fn always(answer: Vec<Step>) -> Self {
        Self::sequence(vec![answer])
    }

    /// The address of a path, as in `http://127.0.0.1:4711/v1`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The host with its port.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The requests that have been read so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics with the lock").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        drop(TcpStream::connect(self.address));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
    }
}

/// One connection, which ends as soon as the client ends it.
fn serve(stream: TcpStream, seen: &Mutex<Vec<Seen>>, number: &AtomicUsize, script: &Script) -> Option<()> {
    let mut reader = BufReader::with_capacity(1, stream.try_clone().ok()?);
    let request = read_head(&mut reader)?;
    let length: usize =
        request.header("content-length").map_or(0, |length| length.parse().expect("a length is a number"));
    let mut request = request;
    // The last byte stays in the socket: closing a socket with bytes that were not read resets the connection.
    request.body = vec![0; length];
    if let Some((last, start)) = request.body.split_last_mut() {
        reader.read_exact(start).ok()?;
        stream.peek(std::slice::from_mut(last)).ok().filter(|bytes| *bytes == 1)?;
    }
    seen.lock().expect("no test panics with the lock").push(request.clone());
    let steps = script(number.fetch_add(1, Ordering::SeqCst), &request);
    if length > 0 && !steps.iter().any(|step| matches!(step, Step::Reset)) {
        reader.read_exact(&mut [0]).ok()?;
    }
    let mut stream = stream;
    for step in steps {
        match step {
            Step::Send(bytes) => stream.write_all(&bytes).ok()?,
            Step::Pause(time) => thread::sleep(time),
            Step::Reset => return None,
        }
    }
    Some(())
}

/// The request without its body.
fn read_head(reader: &mut impl BufRead) -> Option<Seen> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let mut seen = Seen { method: words.next()?, target: words.next()?, headers: Vec::new(), body: Vec::new() };
    loop {
        match line()?.split_once(':') {
            Some((name, value)) => seen.headers.push((name.to_owned(), value.trim().to_owned())),
            None => return Some(seen),
        }
    }
}

/// The bytes of an answer with a length.
pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head =
        format!("HTTP/1.1 {status} Scripted\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// An answer with a length.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Send(response(status, headers, body.as_ref()))]
}

/// An answer of status 200 with JSON.
pub(crate) fn json(value: &Value) -> Vec<Step> {
    answer(200, &[("Content-Type", "application/json")], value.to_string())
}

/// An answer in chunks, one step each; without the last chunk, which ends the body, it is truncated.
pub(crate) fn chunked(chunks: &[&[u8]], is_complete: bool) -> Vec<Step> {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".to_vec();
    let of_chunk = |chunk: &&[u8]| Step::Send([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    let end = is_complete.then(|| Step::Send(b"0\r\n\r\n".to_vec()));
    [Step::Send(head)].into_iter().chain(chunks.iter().map(of_chunk)).chain(end).collect()
}
