//! One request to a hub, with its redirects: the token goes to the hub's host alone.

use std::time::Duration;

use ureq::http::header::{AUTHORIZATION, ETAG, IF_RANGE, LOCATION, RANGE, RETRY_AFTER};
use ureq::http::{HeaderMap, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use super::environment::Environment;
use super::pull::PullOptions;

/// The number of redirects that are followed; hubs use two or three.
const MAX_REDIRECTS: usize = 10;

/// A client for one hub.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// A successful answer: its body, and what the hub says about the file.
pub(super) struct Answer {
    pub(super) response: Response<Body>,
    /// The identity of the content: the digest that the hub links to, or the entity tag of the first or last answer.
    pub(super) identity: Option<String>,
    /// The entity tag of the host that sends the bytes.
    pub(super) etag: Option<String>,
    /// The size of the whole file.
    pub(super) size: Option<u64>,
    /// The commit of the repository.
    pub(super) commit: Option<String>,
}

/// Why there is no answer.
pub(super) enum Failure {
    /// It may succeed if it is tried again, after this time if the server says so.
    Retry(String, Option<Duration>),
    /// The file does not exist.
    NotFound(String),
    /// The range that was asked for does not exist.
    OutOfRange,
    /// It cannot succeed.
    Final(String),
}

impl Client {
    pub(super) fn new(environment: &Environment, options: &PullOptions) -> Self {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .accept_encoding("identity")
            .user_agent(concat!("modelmix/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(options.timeout))
            .timeout_connect(Some(options.timeout))
            .timeout_recv_response(Some(options.timeout))
            .timeout_per_read(Some(options.timeout));
        if !environment.with_proxies {
            config = config.proxy(None);
        }
        Self { agent: config.build().into(), endpoint: environment.endpoint(), token: environment.token() }
    }

    /// Asks for a file, from byte `start` on. `etag` is that of the bytes that are there already.
    pub(super) fn get(&self, url: &str, start: u64, etag: Option<&str>) -> Result<Answer, Failure> {
        let mut url = url.to_string();
        let (mut linked, mut commit, mut first_etag, mut size) = (None, None, None, None);
        for _ in 0..=MAX_REDIRECTS {
            let uri: Uri = url.parse().map_err(|_| Failure::Final(format!("{url:?} is not an address")))?;
            let mut request = self.agent.get(&uri);
            if start > 0 {
                request = request.header(RANGE, format!("bytes={start}-"));
                if let Some(etag) = etag.filter(|etag| etag.starts_with('"')) {
                    request = request.header(IF_RANGE, etag);
                }
            }
            if let Some(token) = self.token.as_ref().filter(|_| self.is_endpoint(&uri)) {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let host = uri.host().unwrap_or_default().to_string();
            let response = request.call().map_err(|error| of_transport(&host, &error))?;
            let headers = response.headers();
            linked = linked.or_else(|| text(headers, "x-linked-etag").map(|tag| unquoted(&tag)));
            size = size.or_else(|| text(headers, "x-linked-size")?.parse().ok());
            commit = commit.or_else(|| text(headers, "x-repo-commit"));
            let etag = text(headers, ETAG.as_str());
            first_etag = first_etag.or_else(|| etag.clone());
            if response.status().is_redirection() {
                let Some(to) = text(headers, LOCATION.as_str()) else {
                    return Err(Failure::Final(format!("{host} redirects to nowhere; try again later")));
                };
                url = redirected(&uri, &to).ok_or_else(|| {
                    Failure::Final(format!("{host} redirects to an address that is not secure; use another endpoint"))
                })?;
                continue;
            }
            if !matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
                return Err(self.of_status(&host, &response));
            }
            let identity = linked.or_else(|| first_etag.map(|tag| unquoted(&tag)));
            return Ok(Answer { response, identity, etag, size, commit });
        }
        Err(Failure::Final(format!("{url} redirects more than {MAX_REDIRECTS} times; use another endpoint")))
    }

    /// Whether an address belongs to the hub, so that it may see the token.
    fn is_endpoint(&self, uri: &Uri) -> bool {
        let Ok(endpoint) = self.endpoint.parse::<Uri>() else { return false };
        let parts = |uri: &Uri| {
            let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
            let port = uri.port_u16().unwrap_or(if scheme == "http" { 80 } else { 443 });
            (scheme, uri.host().unwrap_or_default().to_ascii_lowercase(), port)
        };
        parts(&endpoint) == parts(uri)
    }

    fn of_status(&self, host: &str, response: &Response<Body>) -> Failure {
        let status = response.status();
        let code = status.as_u16();
        match code {
            401 | 403 => Failure::Final(match self.token {
                Some(_) => format!(
                    "{host} denies access ({code}); accept the model's conditions on its page, or check the token in HF_TOKEN"
                ),
                None => format!("{host} denies access ({code}); set HF_TOKEN to a token of an account with access"),
            }),
            404 | 410 => Failure::NotFound(format!("{host} does not have the file ({code}); give the path of a copy")),
            416 => Failure::OutOfRange,
            408 | 425 | 429 | 500..=599 => {
                let after = text(response.headers(), RETRY_AFTER.as_str()).and_then(|after| after.parse().ok());
                let problem = format!("{host} does not answer the request ({status}); try again later");
                Failure::Retry(problem, after.map(Duration::from_secs))
            }
            _ => Failure::Final(format!("{host} answers {status}; check the endpoint in HF_ENDPOINT")),
        }
    }
}

/// An error before there is an answer.
fn of_transport(host: &str, error: &ureq::Error) -> Failure {
    match error {
        ureq::Error::HostNotFound => Failure::Final(format!(
            "the host {host} cannot be found; check the network, or set HF_ENDPOINT to a mirror, or give the path of a copy"
        )),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Failure::Final(format!(
            "there is no connection to {host} (it is refused); check the network, or set HF_ENDPOINT to a mirror, or give the path of a copy"
        )),
        ureq::Error::Io(_) | ureq::Error::Timeout(_) | ureq::Error::ConnectionFailed | ureq::Error::BodyStalled => {
            let problem = format!(
                "there is no connection to {host} ({error}); check the network, or set HF_ENDPOINT to a mirror, or give the path of a copy"
            );
            Failure::Retry(problem, None)
        }
        other => {
            Failure::Final(format!("the request to {host} failed ({other}); check HF_ENDPOINT, HF_TOKEN and proxies"))
        }
    }
}

/// The address that a redirect leads to; `None` if it is less secure than `from`, or no address.
fn redirected(from: &Uri, to: &str) -> Option<String> {
    let scheme = from.scheme_str()?;
    let authority = from.authority()?;
    let address = if to.contains("://") {
        to.to_string()
    } else if let Some(rest) = to.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if to.starts_with('/') {
        format!("{scheme}://{authority}{to}")
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{to}")
    };
    let parsed: Uri = address.parse().ok()?;
    match (scheme, parsed.scheme_str()?) {
        ("http", "http") | (_, "https") => Some(address),
        _ => None,
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|value| value.trim().to_string())
}

/// An entity tag without its quotes and its mark of weakness.
fn unquoted(tag: &str) -> String {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"').to_string()
}
