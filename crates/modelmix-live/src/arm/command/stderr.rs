//! The last lines that a worker writes to stderr, for messages. The rest is discarded, so that no worker waits for a reader.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The number of lines that are stored.
const LINES: usize = 20;
/// The number of lines that messages show.
const SHOWN_LINES: usize = 3;
/// The number of bytes of a line that are stored. Secrets are replaced before lines are shortened further.
const LONGEST_LINE: u64 = 16 << 10;
/// The number of characters that messages show per line.
const SHOWN_CHARACTERS: usize = 200;

/// The last lines of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    has_ended: bool,
}

impl Tail {
    /// Reads the stream to its end.
    pub(super) fn drain(&self, stream: impl Read) {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    // The rest of a long line is discarded: it could start in the middle of a secret.
                    if !line.ends_with(b"\n") {
                        line.push(b'\n');
                        if reader.skip_until(b'\n').is_err() {
                            break;
                        }
                    }
                    if line.trim_ascii().is_empty() {
                        continue;
                    }
                    let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    if state.lines.len() == LINES {
                        state.lines.pop_front();
                    }
                    state.lines.push_back(line);
                }
            }
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
        self.ended.notify_all();
    }

    /// Waits until the stream has ended. Processes that a worker started may keep it open.
    pub(super) fn settle(&self, timeout: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.ended.wait_timeout_while(state, timeout, |state| !state.has_ended));
    }

    /// The last lines as the end of a sentence, without secrets; empty if there are none.
    pub(super) fn describe(&self, redact: impl Fn(&str) -> String) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Joined first, since a secret may have several lines.
        let joined = state.lines.iter().map(|line| String::from_utf8_lossy(line)).collect::<String>();
        drop(state);
        let redacted = redact(&joined);
        let lines: Vec<&str> = redacted.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        if shown.is_empty() {
            return String::new();
        }
        let shown: Vec<String> = shown.iter().map(|line| super::shortened(line, SHOWN_CHARACTERS)).collect();
        format!("; its stderr ends with {:?}", shown.join(" / "))
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;
    use crate::secret::Secret;

    #[test]
    fn the_last_lines_are_shown_without_secrets() {
        let tail = Tail::default();
        let text: String = (0..100).map(|line| format!("line {line}\n\n")).collect();
        tail.drain(text.as_bytes());
        assert_eq!(tail.describe(str::to_owned), "; its stderr ends with \"line 97 / line 98 / line 99\"");
        assert_eq!(Tail::default().describe(str::to_owned), "");

        // A secret that the limit of a line cuts.
        let secret = Secret::new("canary-7f3a-canary");
        let tail = Tail::default();
        let text = format!("{}canary-7f3a-canary is here", "x".repeat((16 << 10) - 5));
        tail.drain(text.as_bytes());
        let shown = tail.describe(|text| secret.redact(text));
        assert!(!shown.contains("7f3a") && shown.chars().count() < 300, "{shown}");
    }
}
