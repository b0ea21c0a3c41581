//! A small HTTP server on loopback that answers as a test says, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request: its path, and its headers with names in lower case.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The number of bytes of the body after which the connection is closed.
    cut: Option<usize>,
}

impl Reply {
    pub(super) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(super) fn body(bytes: &[u8]) -> Self {
        Self { status: 200, body: bytes.to_vec(), ..Self::default() }
    }

    /// The whole file, or the range that is asked for if its entity tag still holds.
    pub(super) fn file(request: &Request, bytes: &[u8], etag: &str) -> Self {
        let quoted = format!("\"{etag}\"");
        let range =
            request.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let holds = request.header("if-range").is_none_or(|tag| tag == quoted);
        let reply = match range {
            Some(start) if holds && start < bytes.len() => Self::range(bytes, start),
            Some(start) if holds && start >= bytes.len() => Self::status(416),
            _ => Self::body(bytes),
        };
        reply.with("ETag", &quoted)
    }

    /// The bytes from `start` on, as a partial answer.
    pub(super) fn range(bytes: &[u8], start: usize) -> Self {
        let range = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
        Self { status: 206, body: bytes[start..].to_vec(), ..Self::default() }.with("Content-Range", &range)
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn cut_after(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut head =
            format!("HTTP/1.1 {} Status\r\nConnection: close\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        stream.write_all(&self.body[..self.cut.unwrap_or(self.body.len())])?;
        stream.flush()
    }
}

/// A server, until it is dropped.
pub(super) struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server; `answer` is given the number of earlier requests and the request.
    pub(super) fn start(answer: impl Fn(usize, &Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (requests, stopping) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, stop) = (Arc::clone(&requests), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let mut stream = stream.unwrap();
                let Some(request) = read(&stream) else { continue };
                let earlier = {
                    let mut log = log.lock().unwrap();
                    log.push(request.clone());
                    log.len() - 1
                };
                // The client may close the connection first.
                let _ = answer(earlier, &request).send(&mut stream);
            }
        });
        Self { address, requests, stopping, thread: Some(thread) }
    }

    /// The address, without a slash at the end.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The paths of the requests so far.
    pub(super) fn paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.path).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_string();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_string());
    }
    Some(Request { path, headers })
}
