//! Snapshots: a session as data, and restoring the session from it.

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;

use super::state::State;
use super::{Session, Source};
use crate::error::{Error, Result};
use crate::loss::{Loss, SessionLoss};
use crate::policy::{AnyPolicy, Policy};

/// The format version that this release writes and reads. Version 1 is that of modelmix 0.1.
const FORMAT_VERSION: u32 = 2;

/// A session as data: serialise it in any format, and [`Session::restore`] it with the same loss. Applying later events to the
/// restored session gives the same state, bit for bit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot<P = AnyPolicy> {
    version: Version,
    /// The fingerprint of the loss; `None` if the caller gives values.
    fingerprint: Option<u64>,
    state: State<P>,
}

/// The version comes first, so that a snapshot of another version is refused for its version and not for its changed fields.
#[derive(Clone, Copy, Debug, Serialize)]
struct Version(u32);

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            FORMAT_VERSION => Ok(Self(FORMAT_VERSION)),
            1 => Err(de::Error::custom(
                "it was written by modelmix 0.1, whose sessions this release cannot continue; finish it with 0.1, or start a new session with its samples as known ones",
            )),
            other => Err(de::Error::custom(format!(
                "it has version {other}, but this release reads version {FORMAT_VERSION}; use the release that wrote it"
            ))),
        }
    }
}

impl<P> Snapshot<P> {
    /// The names of the arms.
    pub fn arms(&self) -> &[String] {
        &self.state.names
    }
}

impl<P: DeserializeOwned> Snapshot<P> {
    /// Parses a snapshot that was stored as JSON.
    ///
    /// # Errors
    /// A snapshot of another version, or a damaged one.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            let said = error.to_string();
            let place = format!("line {}, column {}", error.line(), error.column());
            let problem = match (said.split_once(" at line "), error.classify()) {
                // The message of `Version`.
                (Some((problem, _)), Category::Data) if problem.starts_with("it ") => problem.into(),
                (_, Category::Eof) => format!("it ends too early, at {place}; start from an earlier one"),
                (_, Category::Syntax | Category::Io) => {
                    format!(
                        "it is damaged or not a snapshot: it is not JSON from {place} on; start from an earlier one"
                    )
                }
                (_, Category::Data) => {
                    format!("it is damaged or not a snapshot: unexpected content at {place}; start from an earlier one")
                }
            };
            Error::Snapshot { problem }
        })
    }
}

impl<P: Serialize> Snapshot<P> {
    /// The snapshot as JSON.
    ///
    /// # Errors
    /// A policy that cannot be stored as JSON.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::Snapshot { problem: error.to_string() })
    }
}

impl<P: Clone> Session<P> {
    /// The whole session, except its loss, as data.
    pub fn snapshot(&self) -> Snapshot<P> {
        Snapshot { version: Version(FORMAT_VERSION), fingerprint: self.fingerprint(), state: self.state.clone() }
    }
}

impl<P: Policy> Session<P> {
    /// Restores a session, bit for bit: every later choice is the one that the original session would have made. `loss` is the
    /// one that the session was started with, or `None` for a session on values. For a session that chooses its bandwidth see
    /// [`Session::restore_with`].
    ///
    /// # Errors
    /// Another loss, or a damaged snapshot.
    pub fn restore(snapshot: Snapshot<P>, loss: Option<Loss>) -> Result<Self> {
        Self::restore_from(snapshot, loss.map(SessionLoss::from))
    }

    /// Restores a session whose loss may have no bandwidth yet. If the session has chosen its bandwidth, the one in the
    /// snapshot is used.
    ///
    /// # Errors
    /// As [`Session::restore`].
    pub fn restore_with(snapshot: Snapshot<P>, loss: impl Into<SessionLoss>) -> Result<Self> {
        Self::restore_from(snapshot, Some(loss.into()))
    }

    fn restore_from(snapshot: Snapshot<P>, loss: Option<SessionLoss>) -> Result<Self> {
        let Snapshot { fingerprint, state, .. } = snapshot;
        let source = loss.map_or(Source::Values, |loss| Source::Features(Box::new(loss)));
        let mut session = Self::of(source, state);
        if fingerprint != session.fingerprint() {
            let problem = "it belongs to another objective, kernel or reference; prepare the same loss";
            return Err(Error::Snapshot { problem: problem.into() });
        }
        session.state.check(session.source.session_loss())?;
        if let (Some(chosen), Source::Features(loss)) = (session.chosen_bandwidth(), &session.source) {
            session.source = Source::Features(Box::new(loss.with_bandwidth(chosen.bandwidth)?));
        }
        Ok(session)
    }
}
