//! A run while it is executed: a live table on a terminal, log lines elsewhere.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use console::Term;
use modelmix::internals::numbers::{brief, percents};
use modelmix_live::config::Plan;
use modelmix_live::runner::{Controls, Note, Observer, View};
use modelmix_live::status::{collected, mixture};

use crate::terminal::{Table, Terminal, bar, brief_cell, count, count_cell, dim, interval};
use modelmix_cli::tables;
use modelmix_live::status::duration;

/// How often the table is drawn.
const FRAME: Duration = Duration::from_millis(250);
/// How often a line of progress is logged.
const LOG: Duration = Duration::from_secs(10);
/// Intervals are computed again after this many times as long as they took.
const REST: u32 = 20;

/// Draws or logs.
pub(super) struct Screen<'a> {
    plan: &'a Plan,
    names: Vec<&'a str>,
    terminal: &'a Terminal,
    controls: Arc<Controls>,
    term: Option<Term>,
    drawn_lines: usize,
    drawn: Option<Instant>,
    started: Instant,
    /// Intervals of the weights and the distance to the optimum, and when to compute them again.
    intervals: Vec<Option<[f64; 2]>>,
    distance: Option<f64>,
    computed: Option<(Instant, Duration)>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(plan: &'a Plan, terminal: &'a Terminal, is_terminal: bool, controls: Arc<Controls>) -> Self {
        let is_drawn = is_terminal && terminal.shows_progress();
        Self {
            plan,
            names: plan.arms.iter().map(|arm| arm.settings.name.as_str()).collect(),
            terminal,
            controls,
            term: is_drawn.then(Term::stderr),
            drawn_lines: 0,
            drawn: None,
            started: Instant::now(),
            intervals: Vec::new(),
            distance: None,
            computed: None,
        }
    }

    /// Removes the table.
    pub(super) fn close(&mut self) {
        if let Some(term) = &self.term {
            let _ = term.clear_last_lines(std::mem::take(&mut self.drawn_lines));
        }
    }

    fn log(&mut self, line: &str) {
        self.close();
        self.terminal.remark(line);
    }

    fn update_intervals(&mut self, view: &View<'_>) {
        let is_due = self.computed.is_none_or(|(at, took)| at.elapsed() > (REST * took).max(Duration::from_secs(1)));
        if !is_due || view.session.statistics().rows() == 0 {
            return;
        }
        let start = Instant::now();
        self.distance = view.session.bounds().ok().and_then(|bounds| bounds.weights);
        // Scores are not in the session, so objectives with scores have intervals in the report only.
        if self.plan.scorers.is_empty()
            && let Some(rows) = view.session.samples()
        {
            let arms = view.session.statistics().arm_of();
            let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
            let told = rows.values().chunks_exact(rows.width()).zip(arms);
            let samples = told.map(|(row, &arm)| (arm, row.to_vec(), Default::default()));
            let engine = self.terminal.engine();
            let solved = collected(&names, samples).ok().flatten();
            let solved = solved.and_then(|arms| mixture(&self.plan.basis, &arms, view.session, engine).ok().flatten());
            self.intervals =
                solved.map_or_else(Vec::new, |mixture| mixture.arms.iter().map(|arm| arm.interval).collect());
        }
        self.computed = Some((Instant::now(), start.elapsed()));
    }

    /// The parts of a line of progress.
    fn line(&self, view: &View<'_>) -> String {
        let answered: u64 = view.arms.iter().map(|arm| arm.answered).sum();
        let mut parts = vec![format!("{} answered", count(answered as usize))];
        if let Some(pulls) = self.plan.budget.pulls {
            parts[0] += &format!(" of {} pulls", count(pulls as usize));
        }
        parts.push(format!("{} in flight", count(view.in_flight)));
        let spent = view.ledger.confirmed + view.ledger.in_doubt;
        if spent + view.ledger.reserved > 0.0 || self.plan.budget.money.is_some() {
            let of = self.plan.budget.money.map_or_else(String::new, |money| format!(" of {}", brief(money)));
            let doubt = if view.ledger.in_doubt > 0.0 {
                format!(" ({} in doubt)", brief(view.ledger.in_doubt))
            } else {
                String::new()
            };
            parts.push(format!("cost {}{of}{doubt}", brief(spent)));
        }
        if let Some(distance) = self.distance {
            parts.push(format!("within {} of the optimum", brief(distance)));
        }
        parts.push(duration(view.ledger.time.as_secs_f64()));
        if self.controls.is_draining() {
            parts.push("ending: waiting for pulls in flight, Ctrl-C stops at once".into());
        }
        parts.join(", ")
    }

    fn draw(&mut self, view: &View<'_>) {
        let Ok(report) = view.session.report() else { return };
        let has_cost = view.ledger.committed() > 0.0;
        let mut header = vec!["arm", "weight", "", "95% interval", "samples", "in flight", "requests", "failed"];
        if has_cost {
            header.push("cost");
        }
        let mut table = Table::new("The arms", header).bars(2);
        let weights = percents(&report.weights());
        for (at, (arm, counts)) in report.arms.iter().zip(&view.arms).enumerate() {
            let failed: u64 = counts.failures.values().sum();
            let name = match counts.set_aside {
                Some(_) => format!("{} (set aside)", arm.name),
                None => arm.name.clone(),
            };
            let mut row = vec![name.into(), weights[at].clone().into(), bar(arm.weight, 20).into()];
            row.push(interval(self.intervals.get(at).copied().flatten()));
            row.extend([
                count_cell(arm.samples),
                count_cell(arm.pending),
                count_cell(counts.requests as usize),
                count_cell(failed as usize),
            ]);
            if has_cost {
                row.push(brief_cell(counts.cost + counts.in_doubt));
            }
            table.row(row);
        }
        let text = format!("{}\n{}", tables::text(&table), dim(&self.line(view)));
        let Some(term) = &self.term else { return };
        let width = usize::from(term.size().1).max(20);
        let lines: Vec<String> =
            text.lines().map(|line| console::truncate_str(line, width - 1, "…").into_owned()).collect();
        let mut frame = Vec::new();
        for line in &lines {
            let _ = writeln!(frame, "{line}");
        }
        let _ = term.clear_last_lines(self.drawn_lines);
        let _ = std::io::stderr().write_all(&frame);
        self.drawn_lines = lines.len();
    }
}

impl Observer for Screen<'_> {
    fn progress(&mut self, view: &View<'_>) {
        let every = if self.term.is_some() { FRAME } else { LOG };
        let since = self.drawn.unwrap_or(self.started);
        // A table is drawn at once.
        if (self.drawn.is_some() || self.term.is_none()) && since.elapsed() < every {
            return;
        }
        self.update_intervals(view);
        self.drawn = Some(Instant::now());
        if self.term.is_some() {
            self.draw(view);
        } else {
            let line = self.line(view);
            self.log(&line);
        }
    }

    fn note(&mut self, note: Note) {
        let name = |arm: usize| self.names.get(arm).copied().unwrap_or_default();
        let line = match note {
            Note::Retry { arm, pull, message, after } => {
                format!("{}, pull {pull}: {message}; trying again in {}", name(arm), duration(after.as_secs_f64()))
            }
            Note::Abandoned { arm, pull, message } => {
                format!("{}, pull {pull}: {message}; the pull is lost", name(arm))
            }
            Note::SetAside { arm, message } => format!("{} is set aside: {message}", name(arm)),
            Note::CircuitOpen { arm, pause } => {
                format!("{} does not answer and is left alone for {}", name(arm), duration(pause.as_secs_f64()))
            }
            Note::Message(message) => message,
            _ => return,
        };
        self.log(&line);
    }
}
