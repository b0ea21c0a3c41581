//! The threads of a run: each calls an arm, stores the samples, and computes their features and scores.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::flight::{Job, Report};
use crate::arm::{Content, Failure, FailureKind, Reply, Request, Sample};
use crate::config::Plan;
use crate::problem::EvaluationProblem;
use crate::problem::{Problem, Result};
use crate::score::Scorer;
use crate::store::change::{EncodedSample, PayloadRef, ReceivedSample};
use crate::store::crash::{self, CrashPoint};
use crate::store::payloads::Payloads;

/// What all threads share.
pub(super) struct Workers<'a> {
    pub(super) plan: &'a Plan,
    pub(super) payloads: Payloads,
    pub(super) jobs: &'a Mutex<Receiver<Job>>,
    pub(super) encoders: Permits,
}

/// A number of permits, so that not more threads than cores compute features.
pub(super) struct Permits {
    free: Mutex<usize>,
    returned: Condvar,
}

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), returned: Condvar::new() }
    }

    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        drop(free);
        let result = work();
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.returned.notify_one();
        result
    }
}

impl Workers<'_> {
    /// Works until there are no more jobs.
    pub(super) fn work(&self, reports: &Sender<Report>) {
        loop {
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            // If the coordinator has ended, so does the thread.
            let send = |report| reports.send(report).is_ok();
            let is_heard = match job {
                Job::Call { arm, request } => self.call(arm, &request, &send),
                Job::Encode { pull, prompt, samples } => {
                    let contents = samples.iter().map(|sample| self.content(sample)).collect::<Result<Vec<_>>>();
                    match contents {
                        Ok(contents) => send(self.encode(pull, prompt.as_deref(), &samples, &contents)),
                        Err(problem) => send(Report::Broken(problem)),
                    }
                }
            };
            if !is_heard {
                return;
            }
        }
    }

    fn call(&self, arm: usize, request: &Request, send: &dyn Fn(Report) -> bool) -> bool {
        let pull = request.pull;
        crash::pass(CrashPoint::Send);
        let called = catch_unwind(AssertUnwindSafe(|| self.plan.arms[arm].arm.call(request)));
        crash::pass(CrashPoint::Receive);
        let called = called.unwrap_or_else(|_| {
            let message = "the arm panicked; this is a bug, please report it";
            Err(Failure::permanent(FailureKind::Broken, message).in_doubt())
        });
        let reply = match called.and_then(|reply| checked(reply, request)) {
            Ok(reply) => reply,
            Err(failure) => return send(Report::Failed { pull, failure }),
        };
        let stored = reply.samples.iter().map(|sample| self.stored(sample)).collect::<Result<Vec<_>>>();
        let stored = match stored {
            Ok(stored) => stored,
            Err(problem) => return send(Report::Broken(problem)),
        };
        if !send(Report::Received { pull, samples: stored.clone(), cost: reply.cost }) {
            return false;
        }
        let contents: Vec<Content> = reply.samples.into_iter().map(|sample| sample.content).collect();
        send(self.encode(pull, request.prompt.as_deref(), &stored, &contents))
    }

    /// Writes a sample to the store.
    fn stored(&self, sample: &Sample) -> Result<ReceivedSample> {
        let (payload, features) = match &sample.content {
            Content::Features(features) => (None, Some(features.clone())),
            Content::Text(text) => (Some(self.payloads.write(text.as_bytes(), "txt")?), None),
            Content::File(bytes) => (Some(self.payloads.write(bytes, extension(bytes))?), None),
            Content::Pixels(image) => (Some(self.payloads.write(&png(image)?, "png")?), None),
        };
        Ok(ReceivedSample { payload, features: sample.features.clone().or(features) })
    }

    /// Reads a sample from the store.
    fn content(&self, sample: &ReceivedSample) -> Result<Content> {
        let read = |payload: &PayloadRef| {
            let bytes = self.payloads.read(payload)?;
            Ok(match payload.extension.as_str() {
                "txt" => Content::Text(String::from_utf8_lossy(&bytes).into_owned()),
                _ => Content::File(bytes),
            })
        };
        match (&sample.payload, &sample.features) {
            (Some(payload), _) => read(payload),
            (None, features) => Ok(Content::Features(features.clone().unwrap_or_default())),
        }
    }

    fn encode(&self, pull: u64, prompt: Option<&str>, stored: &[ReceivedSample], contents: &[Content]) -> Report {
        let (mut samples, mut rejected) = (Vec::new(), Vec::new());
        for (ordinal, (stored, content)) in stored.iter().zip(contents).enumerate() {
            match self.evaluate_again(stored.features.as_deref(), content, prompt) {
                Ok((features, scores)) => samples.push(EncodedSample { ordinal, features, scores }),
                Err(EvaluationProblem::Sample(reason)) => rejected.push((ordinal, reason)),
                // The samples are stored and paid for: a resumed run evaluates them.
                Err(EvaluationProblem::Evaluator(problem)) => {
                    return Report::Broken(Problem::Open { what: "samples cannot be evaluated".into(), problem });
                }
            }
        }
        Report::Encoded { pull, samples, rejected }
    }

    /// Evaluates a sample, a few times if the encoder or a score fails.
    fn evaluate_again(
        &self,
        given: Option<&[f32]>,
        content: &Content,
        prompt: Option<&str>,
    ) -> Result<Evaluated, EvaluationProblem> {
        let work = || evaluate(self.plan, given, content, prompt);
        // What takes a moment needs no permit.
        let is_light = matches!(content, Content::Features(_)) && self.plan.scorers.is_empty();
        let mut pauses = EVALUATION_PAUSES.iter();
        loop {
            match if is_light { work() } else { self.encoders.with(work) } {
                Err(EvaluationProblem::Evaluator(problem)) => match pauses.next() {
                    Some(&pause) => std::thread::sleep(pause),
                    None => return Err(EvaluationProblem::Evaluator(problem)),
                },
                evaluated => return evaluated,
            }
        }
    }
}

/// The features and scores of a sample.
type Evaluated = (Vec<f32>, BTreeMap<String, f64>);

/// The times between attempts to evaluate a sample.
const EVALUATION_PAUSES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(2), Duration::from_secs(10)];

/// The features and scores of a sample, which may have come with features.
///
/// # Errors
/// If the sample cannot be used, or the encoder or a score fails.
pub(super) fn evaluate(
    plan: &Plan,
    given: Option<&[f32]>,
    content: &Content,
    prompt: Option<&str>,
) -> Result<Evaluated, EvaluationProblem> {
    let features = match (&plan.encoder, given, content) {
        (Some(encoder), given, content) if !encoder.is_arm() || given.is_none() => encoder.encode(content)?,
        (_, Some(given), _) => given.to_vec(),
        (_, None, Content::Features(features)) => features.clone(),
        (_, None, _) => {
            let problem = "the arm gave no features and the run has no encoder; add [encoder] to the configuration";
            return Err(EvaluationProblem::Sample(problem.into()));
        }
    };
    let score = |(name, scorer): (&String, &Scorer)| Ok((name.clone(), scorer.score(content, prompt)?));
    let scores = plan.scorers.iter().map(score).collect::<Result<_, EvaluationProblem>>()?;
    Ok((features, scores))
}

/// A reply with a number of samples that was asked for.
fn checked(reply: Reply, request: &Request) -> Result<Reply, Failure> {
    match reply.samples.len() {
        0 => Err(Failure::permanent(FailureKind::Empty, "the answer has no samples").costing(reply.cost)),
        found if found > request.count => {
            let message = format!("the answer has {found} samples, but {} were asked for", request.count);
            Err(Failure::permanent(FailureKind::Invalid, message).costing(reply.cost))
        }
        _ => Ok(reply),
    }
}

/// The extension of a file, by its first bytes.
fn extension(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, 0xff, ..] => "jpg",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
        [b'G', b'I', b'F', b'8', ..] => "gif",
        [b'B', b'M', ..] => "bmp",
        _ => "bin",
    }
}

/// An image as a PNG file.
fn png(image: &modelmix_encode::Image) -> Result<Vec<u8>> {
    let failed = |error: png::EncodingError| Problem::Config(format!("an image cannot be written as PNG: {error}"));
    let pixels = image.pixels();
    let is_grey = pixels.chunks_exact(3).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]);
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side(image.width()), side(image.height()));
    encoder.set_color(if is_grey { png::ColorType::Grayscale } else { png::ColorType::Rgb });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    if is_grey {
        let grey: Vec<u8> = pixels.iter().copied().step_by(3).collect();
        writer.write_image_data(&grey).map_err(failed)?;
    } else {
        writer.write_image_data(pixels).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(bytes)
}
