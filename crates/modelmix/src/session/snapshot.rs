//! Snapshots: a session as data, and the session that such data brings back.

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;

use super::state::State;
use super::{Session, Source};
use crate::error::{Error, Result};
use crate::loss::{Loss, SessionLoss};
use crate::policy::{AnyPolicy, Policy};

/// The form that this release writes and reads. Version 1 is that of modelmix 0.1.
const FORMAT_VERSION: u32 = 2;

/// A session as data: serialise it as you like, and [`Session::restore`] it with the same loss. Events that happened after it
/// bring it to where the session went on, to the last bit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot<P = AnyPolicy> {
    version: Version,
    /// Of the loss; `None` if the caller gives values.
    fingerprint: Option<u64>,
    state: State<P>,
}

/// It comes first, so that a snapshot of another form is refused by its version and not by what has become of its parts.
#[derive(Clone, Copy, Debug, Serialize)]
struct Version(u32);

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            FORMAT_VERSION => Ok(Self(FORMAT_VERSION)),
            1 => Err(de::Error::custom(
                "it was written by modelmix 0.1, whose sessions this release cannot go on with; finish it with 0.1, or start anew with its samples as known ones",
            )),
            other => Err(de::Error::custom(format!(
                "it has version {other} and this release reads {FORMAT_VERSION}; use the release that wrote it"
            ))),
        }
    }
}

impl<P> Snapshot<P> {
    /// The arms' names.
    pub fn arms(&self) -> &[String] {
        &self.state.names
    }
}

impl<P: DeserializeOwned> Snapshot<P> {
    /// Reads a snapshot that was stored as JSON.
    ///
    /// # Errors
    /// A snapshot of another version, or one that is damaged.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            let said = error.to_string();
            let place = format!("line {}, column {}", error.line(), error.column());
            let problem = match (said.split_once(" at line "), error.classify()) {
                // What `Version` says.
                (Some((problem, _)), Category::Data) if problem.starts_with("it ") => problem.into(),
                (_, Category::Eof) => format!("it ends too early, at {place}; start from an earlier one"),
                (_, Category::Syntax | Category::Io) => {
                    format!(
                        "it is damaged or no snapshot, since it is not JSON from {place} on; start from an earlier one"
                    )
                }
                (_, Category::Data) => {
                    format!(
                        "it is damaged or no snapshot, since {place} does not belong there; start from an earlier one"
                    )
                }
            };
            Error::Snapshot { problem }
        })
    }
}

impl<P: Serialize> Snapshot<P> {
    /// As JSON.
    ///
    /// # Errors
    /// A policy that cannot be stored so.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::Snapshot { problem: error.to_string() })
    }
}

impl<P: Clone> Session<P> {
    /// All of the session but its loss, as data.
    pub fn snapshot(&self) -> Snapshot<P> {
        Snapshot { version: Version(FORMAT_VERSION), fingerprint: self.fingerprint(), state: self.state.clone() }
    }
}

impl<P: Policy> Session<P> {
    /// The session as it was, to the last bit: every later choice is the one that it would have made. `loss` is the one
    /// that it was started with, or `None` for a session on values. For one that chooses its bandwidth see
    /// [`Session::restore_with`].
    ///
    /// # Errors
    /// Another loss, or a snapshot that is damaged.
    pub fn restore(snapshot: Snapshot<P>, loss: Option<Loss>) -> Result<Self> {
        Self::restore_from(snapshot, loss.map(SessionLoss::from))
    }

    /// The same for a loss whose bandwidth may be open. If the session has chosen its bandwidth, it is that of the snapshot.
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
            let problem = "it belongs to another objective, kernel or reference; prepare the loss as it was";
            return Err(Error::Snapshot { problem: problem.into() });
        }
        session.state.check(session.source.session_loss())?;
        if let (Some(chosen), Source::Features(loss)) = (session.chosen_bandwidth(), &session.source) {
            session.source = Source::Features(Box::new(loss.with_bandwidth(chosen.bandwidth)?));
        }
        Ok(session)
    }
}
