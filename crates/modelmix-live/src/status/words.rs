//! The status of a run in sentences.

use modelmix::internals::numbers::{brief, count, percent};

use super::{RunStatus, State};
use crate::arm::FailureKind;

/// Requests in doubt that are named.
const NAMED: usize = 5;

impl RunStatus {
    /// What the run has done, in a sentence.
    pub fn headline(&self) -> String {
        let what = match (self.state, self.end.as_deref()) {
            (State::Running, _) => "The run goes on".to_string(),
            (State::Interrupted, Some("disk full")) => {
                format!("The run ended because the disk is nearly full; modelmix resume {} goes on", self.folder)
            }
            (State::Interrupted, _) => format!("The run was interrupted; modelmix resume {} goes on", self.folder),
            (State::Ended, Some("certified")) => {
                "The run ended because the mixture is near enough to the optimum".into()
            }
            (State::Ended, Some("no arms")) => "The run ended because every arm is set aside".into(),
            (State::Ended, Some(end)) => format!("The run ended because its {end} is spent"),
            (State::Ended, None) => "The run ended".into(),
        };
        let cost = match self.cost.confirmed + self.cost.in_doubt {
            0.0 => String::new(),
            _ => format!(", cost {}", self.money()),
        };
        let (pulls, samples) = (counted(self.pulls, "pull"), counted(self.samples as u64, "sample"));
        format!("{what}: {pulls}, {samples}{cost}, {}.", duration(self.seconds))
    }

    fn money(&self) -> String {
        let doubt = match self.cost.in_doubt {
            0.0 => String::new(),
            doubt => format!(" and {} in doubt", brief(doubt)),
        };
        let budget = self.cost.budget.map_or_else(String::new, |budget| format!(" of {}", brief(budget)));
        format!("{}{doubt}{budget}", brief(self.cost.confirmed))
    }

    /// Arms that are set aside, failures by reason, requests in doubt, possible bias and findings: one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for arm in &self.arms {
            if let Some(reason) = &arm.counts.set_aside {
                lines.push(format!("{} is set aside: {reason}.", arm.name));
            }
            if !arm.counts.failures.is_empty() {
                let kind =
                    |(&kind, &number): (&FailureKind, &u64)| format!("{} {}", count(number as usize), name(kind));
                let kinds: Vec<String> = arm.counts.failures.iter().map(kind).collect();
                lines.push(format!("Failed requests of {}: {}.", arm.name, kinds.join(", ")));
            }
        }
        lines.extend(self.doubtful());
        if let Some(bias) = &self.bias {
            let share = percent(bias.share);
            lines.push(match bias.loss {
                Some(loss) => format!(
                    "{share} of the mixture's samples are missing. If they are not missing at random, its loss is off by up to {}.",
                    brief(loss)
                ),
                None => format!("{share} of the mixture's samples are missing, and they may not be missing at random."),
            });
        }
        lines.extend(self.findings.iter().cloned());
        lines
    }

    fn doubtful(&self) -> Vec<String> {
        if self.doubts.is_empty() {
            return Vec::new();
        }
        let number = self.doubts.len();
        let mut lines = vec![format!(
            "{} may have been charged and {} no answer; {} stays reserved.",
            counted(number as u64, "request"),
            if number == 1 { "has" } else { "have" },
            brief(self.cost.in_doubt)
        )];
        for doubt in self.doubts.iter().take(NAMED) {
            lines.push(format!(
                "In doubt: pull {} of {}, attempt {}: {}.",
                doubt.pull, doubt.arm, doubt.attempt, doubt.message
            ));
        }
        if number > NAMED {
            lines.push(format!("In doubt: {} more.", count(number - NAMED)));
        }
        lines
    }
}

/// A number of things, whose name gets an s unless there is one.
fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number as usize), if number == 1 { "" } else { "s" })
}

/// A time in the unit that suits it.
pub fn duration(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{} s", brief(seconds)),
        ..7200.0 => format!("{} min", brief(seconds / 60.0)),
        _ => format!("{} h", brief(seconds / 3600.0)),
    }
}

/// A kind of failure in a list.
fn name(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::NotSent => "without a connection",
        FailureKind::Error => "errors of the server",
        FailureKind::Refusal => "refusals",
        FailureKind::Empty => "empty answers",
        FailureKind::Invalid => "answers that cannot be used",
        FailureKind::Timeout => "time-outs",
        FailureKind::Broken => "broken connections",
        FailureKind::Crash => "without an answer when the process ended",
    }
}
