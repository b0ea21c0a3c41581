//! Files that an answer links to: they are fetched without the key, from public hosts or from the server itself.

use std::thread;
use std::time::Duration;

use ureq::http::header::CONNECTION;
use ureq::http::{Method, Request, Uri};

use super::Client;
use crate::arm::http::address;
use crate::arm::http::content::decode;
use crate::arm::{Failure, FailureKind};

/// Pauses between attempts. A sample is paid once it is linked, and fetching it costs nothing, so that it is tried again here.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// Redirects that are followed; hosts of files use one or two.
const MOST_REDIRECTS: usize = 5;

impl Client {
    /// Fetches a file. The failure says nothing about what the sample cost.
    pub(in crate::arm::http) fn download(&self, link: &str) -> Result<Vec<u8>, Failure> {
        if link.starts_with("data:") {
            return decode(link).map_err(|problem| self.unusable(&format!("the answer has {problem}")));
        }
        let mut result = self.download_once(link);
        for pause in PAUSES {
            if !result.as_ref().is_err_and(|failure| failure.is_temporary) {
                break;
            }
            thread::sleep(pause);
            result = self.download_once(link);
        }
        result
    }

    fn download_once(&self, link: &str) -> Result<Vec<u8>, Failure> {
        let mut uri = self.checked(link)?;
        for _ in 0..=MOST_REDIRECTS {
            let request = Request::builder().method(Method::GET).uri(&uri).header(CONNECTION, "close").body(());
            let request =
                request.map_err(|error| self.unusable(&format!("the answer links to no address ({error})")))?;
            let mut response = self.agent.run(request).map_err(|error| self.of_download(&uri, &error))?;
            if response.status().is_redirection() {
                let to = response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default();
                let to = if to.starts_with('/') && !to.starts_with("//") {
                    address::origin(&uri) + to
                } else {
                    to.to_owned()
                };
                uri = self.checked(&to)?;
                continue;
            }
            if !response.status().is_success() {
                let failure = self.of_status(&uri, &mut response);
                let problem = format!("the file that the answer links to cannot be fetched: {}", failure.message);
                return Err(Failure { message: self.clean(&problem), ..failure });
            }
            return self.read(&uri, &mut response);
        }
        Err(self.unusable(&format!("the answer links to an address that redirects more than {MOST_REDIRECTS} times")))
    }

    /// The address of a link, if it may be fetched.
    fn checked(&self, link: &str) -> Result<Uri, Failure> {
        let uri: Option<Uri> = link.parse().ok();
        let is_web = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        let uri = uri.filter(is_web).ok_or_else(|| {
            self.unusable(&format!("the answer links to {:?}, which is no address of the web", self.excerpt(link)))
        })?;
        address::check_public(&uri, &self.server, self.connect).map_err(|problem| self.unusable(&problem))?;
        Ok(uri)
    }

    /// A download without an answer: the request for the sample was sent, whatever became of this one.
    fn of_download(&self, uri: &Uri, error: &ureq::Error) -> Failure {
        let failure = self.of_transport(uri, error, true);
        let kind = if failure.kind == FailureKind::NotSent { FailureKind::Broken } else { failure.kind };
        Failure { kind, ..failure }
    }

    fn unusable(&self, problem: &str) -> Failure {
        self.failure(FailureKind::Invalid, problem)
    }
}
