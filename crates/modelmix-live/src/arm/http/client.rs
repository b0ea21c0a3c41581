//! The client of all kinds: it sends one request with the key to the server of the settings alone, reads the answer within its
//! limits, and says what became of it. It follows no redirects and sends nothing twice.
//!
//! A connection is used for one request: a server may close an idle one just as the next request leaves on it, and then it
//! is unknown whether that request is charged.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use ureq::http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use ureq::http::{HeaderName, Method, Request, Response, Uri};
use ureq::{Agent, Body, SendBody, Timeout};

use super::keys::{HeaderLines, Headers, KeyReference, header_value};
use super::settings::Timeouts;
use super::{Environment, address};
use crate::arm::{Failure, FailureKind};
use crate::secret::{Secret, redact};

mod download;
mod status;

pub(super) use status::message;

/// Characters of a server's message that are repeated.
const EXCERPT: usize = 300;

/// The settings that the client is opened with.
pub(super) struct Options<'a> {
    pub(super) key: Option<&'a KeyReference>,
    pub(super) headers: &'a Headers,
    pub(super) timeouts: &'a Timeouts,
    pub(super) max_reply_bytes: u64,
    /// The header with the idempotency key, if it is sent.
    pub(super) idempotency: Option<&'a str>,
}

/// A client for one server.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    server: Uri,
    headers: HeaderLines,
    idempotency: Option<HeaderName>,
    secrets: Vec<Secret>,
    connect: Duration,
    max_reply_bytes: u64,
    is_interrupted: AtomicBool,
}

impl Client {
    /// A client for the server of an address.
    pub(super) fn open(server: Uri, options: &Options<'_>, environment: Environment<'_>) -> Result<Self, String> {
        let [connect, first_byte, total] = options.timeouts.check()?;
        let (mut headers, mut secrets) = options.headers.read(environment)?;
        if let Some(key) = options.key {
            let secret = key.read("key", environment)?;
            if headers.iter().any(|(name, _)| *name == AUTHORIZATION) {
                return Err("both `key` and `headers` set Authorization; leave one of them out".to_owned());
            }
            headers.push((AUTHORIZATION, header_value(&format!("Bearer {}", secret.expose()), "key")?));
            secrets.push(secret);
        }
        let idempotency = options.idempotency.map(|name| {
            name.parse()
                .map_err(|_| format!("`idempotency_header` is {name:?}, which is not the name of a header; correct it"))
        });
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0)
            .accept_encoding("identity")
            .user_agent(concat!("modelmix/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_recv_response(Some(first_byte))
            .timeout_global(Some(total));
        if address::is_loopback(&server) {
            config = config.proxy(None);
        }
        Ok(Self {
            agent: config.build().into(),
            server,
            headers,
            idempotency: idempotency.transpose()?,
            secrets,
            connect,
            max_reply_bytes: options.max_reply_bytes,
            is_interrupted: AtomicBool::new(false),
        })
    }

    /// The secrets that requests carry.
    pub(super) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Ends requests in progress, and refuses later ones.
    pub(super) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::SeqCst);
        self.agent.clone().shutdown();
    }

    /// Sends a request and returns the JSON of its answer. `key` is the idempotency key. An answer that is not JSON costs
    /// `cost_of_unreadable`, which is in doubt if it is `None`.
    pub(super) fn send(
        &self,
        method: Method,
        uri: &Uri,
        body: Option<&Value>,
        key: &str,
        cost_of_unreadable: Option<f64>,
    ) -> Result<Value, Failure> {
        // The last defence against a template that leads elsewhere.
        if address::origin(uri) != address::origin(&self.server) {
            let problem = format!("the request would go to another host than {}; correct `url`", self.host());
            return Err(self.failure(FailureKind::NotSent, &problem));
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(uri).header(CONNECTION, "close");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json").header(CONTENT_LENGTH, text.len());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(name) = &self.idempotency {
            request = request.header(name, key);
        }
        let mut source = Source { text: text.as_bytes(), is_read: false };
        let sent = if body.is_some() {
            request.body(SendBody::from_reader(&mut source)).map(|request| self.agent.run(request))
        } else {
            request.body(()).map(|request| self.agent.run(request))
        };
        let sent = sent.map_err(|error| {
            self.failure(FailureKind::NotSent, &format!("the request is not valid ({error}); correct the settings"))
        })?;
        // Without a body there is no telling how far the request came.
        let has_left = source.is_read || body.is_none();
        let mut response = sent.map_err(|error| self.of_transport(uri, &error, has_left))?;
        if !response.status().is_success() {
            return Err(self.of_status(uri, &mut response));
        }
        let bytes = self.read(uri, &mut response)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * EXCERPT)]);
            let start: String = self.excerpt(&start).chars().take(80).collect();
            let problem = format!("{} answers what is not JSON ({error}): {start:?}", self.host());
            super::content::charged(self.failure(FailureKind::Invalid, &problem), cost_of_unreadable)
        })
    }

    /// The body of an answer.
    fn read(&self, uri: &Uri, response: &mut Response<Body>) -> Result<Vec<u8>, Failure> {
        let limit = self.max_reply_bytes;
        let host = uri.host().unwrap_or_default();
        let too_large = || {
            let problem = format!("the answer of {host} is larger than {limit} bytes; raise `max_reply_bytes`");
            self.failure(FailureKind::Invalid, &problem).in_doubt()
        };
        let declared = response.body().content_length();
        if declared.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let is_delimited = declared.is_some() || response.headers().contains_key("transfer-encoding");
        let mut bytes = Vec::new();
        let read = response.body_mut().as_reader().take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| self.of_transport(uri, &ureq::Error::from(error), true))?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        // An interruption looks like the end of an answer that does not say its length.
        if !is_delimited && self.is_interrupted.load(Ordering::SeqCst) {
            return Err(self.of_transport(uri, &io::Error::from(io::ErrorKind::UnexpectedEof).into(), true));
        }
        Ok(bytes)
    }

    /// An error before the answer is complete.
    fn of_transport(&self, uri: &Uri, error: &ureq::Error, has_left: bool) -> Failure {
        let host = uri.authority().map_or("", |authority| authority.as_str());
        if !has_left || is_before_sending(error) {
            let problem =
                format!("there is no connection to {host} ({error}); check the address and that the server runs");
            return self.failure(FailureKind::NotSent, &problem).temporary();
        }
        if self.is_interrupted.load(Ordering::SeqCst) {
            let problem = format!("the request to {host} was interrupted before its answer was complete");
            return self.failure(FailureKind::Broken, &problem).temporary().in_doubt();
        }
        let (kind, problem) = match error {
            ureq::Error::Timeout(Timeout::RecvResponse) => {
                (FailureKind::Timeout, format!("{host} does not answer in time; raise `timeouts.first_byte`"))
            }
            ureq::Error::Timeout(_) => {
                (FailureKind::Timeout, format!("the answer of {host} is not complete in time; raise `timeouts.total`"))
            }
            error => (
                FailureKind::Broken,
                format!("the connection to {host} ended before the answer was complete ({error})"),
            ),
        };
        self.failure(kind, &problem).temporary().in_doubt()
    }

    /// A permanent failure without cost, whose message has no secrets.
    pub(super) fn failure(&self, kind: FailureKind, message: &str) -> Failure {
        Failure::permanent(kind, self.clean(message))
    }

    /// The start of a text that a server sent.
    pub(super) fn excerpt(&self, text: &str) -> String {
        // In this order, since a secret that is cut would not be found.
        self.clean(text).chars().take(EXCERPT).collect::<String>().trim().to_owned()
    }

    /// The host of the server with its port.
    pub(super) fn host(&self) -> &str {
        self.server.authority().map_or("", |authority| authority.as_str())
    }

    /// A text without control characters and secrets.
    fn clean(&self, text: &str) -> String {
        let text: String = text.chars().filter(|character| !character.is_control()).collect();
        redact(&self.secrets, &text)
    }
}

/// Errors that occur only before a request is sent.
fn is_before_sending(error: &ureq::Error) -> bool {
    use ureq::Error::{
        BadUri, ConnectProxyFailed, ConnectionFailed, HostNotFound, Http, InvalidProxyUrl, Io, Timeout as Late, Tls,
        TlsRequired,
    };
    match error {
        Late(Timeout::Resolve | Timeout::Connect) | HostNotFound | ConnectionFailed | ConnectProxyFailed(_) => true,
        Tls(_) | TlsRequired | BadUri(_) | Http(_) | InvalidProxyUrl => true,
        Io(error) => {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, NotConnected};
            matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | NotConnected)
        }
        _ => false,
    }
}

/// The body of a request, which knows whether any of it was asked for. The client asks once the connection stands and the headers
/// are sent; before that, no server can have acted on the request.
struct Source<'a> {
    text: &'a [u8],
    is_read: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_read = true;
        self.text.read(buffer)
    }
}
