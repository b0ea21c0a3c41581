//! Requests of encoders and scores: they cost nothing and can be repeated.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use modelmix_encode::Image;
use serde_json::json;

use super::protocol::{Body, ReplyLine};
use super::workers::Workers;
use super::{CallProblem, REASON_CHARACTERS, shortened};
use crate::arm::Content;
use crate::problem::EvaluationProblem;

/// The number of attempts to evaluate a sample: fewer than the starts after which a command is given up, so that a sample that ends
/// the process does not end the run.
const MOST_ATTEMPTS: u32 = 2;

/// The sample as a part of a request.
///
/// # Errors
/// If pixels cannot be written as PNG.
pub(crate) fn sample_body(content: &Content) -> Result<Body, EvaluationProblem> {
    let (key, value) = match content {
        Content::Text(text) => ("text", json!(text)),
        Content::File(bytes) => ("base64", json!(STANDARD.encode(bytes))),
        Content::Pixels(image) => {
            let bytes = png(image).map_err(|error| {
                EvaluationProblem::Sample(format!("the image cannot be written as PNG ({error}); use smaller images"))
            })?;
            ("base64", json!(STANDARD.encode(bytes)))
        }
        Content::Features(features) => ("features", json!(features)),
    };
    Ok(Body::from_iter([(key.to_owned(), value)]))
}

/// Pixels as a PNG file.
fn png(image: &Image) -> Result<Vec<u8>, png::EncodingError> {
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side(image.width()), side(image.height()));
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image.pixels())?;
    writer.finish()?;
    Ok(bytes)
}

/// Sends a request and takes the value of the reply.
pub(crate) fn evaluate<T>(
    workers: &Workers,
    body: &Body,
    take: impl Fn(ReplyLine) -> Result<T, String>,
) -> Result<T, EvaluationProblem> {
    let launch = workers.launch();
    let described = |problem: &str| launch.redact(&format!("{} {problem}", launch.describe()));
    let mut attempt = 1;
    loop {
        let is_last = attempt == MOST_ATTEMPTS;
        attempt += 1;
        match workers.call(|_| body.clone(), |_, line| ReplyLine::parse(line)) {
            // A process that ends at every attempt may do so because of the sample.
            Err(CallProblem::Broken(message) | CallProblem::Timeout(message)) if is_last => {
                return Err(EvaluationProblem::Sample(message));
            }
            Err(problem) if is_last || !problem.is_temporary() => {
                return Err(EvaluationProblem::Evaluator(problem.message().to_owned()));
            }
            Ok(Ok(ReplyLine { error: Some(_), retry: true, .. })) if !is_last => {}
            Err(_) => {}
            Ok(Ok(ReplyLine { error: Some(error), retry, .. })) => {
                let message =
                    format!("{} failed: {}", launch.describe(), shortened(&launch.redact(&error), REASON_CHARACTERS));
                let problem = if retry { EvaluationProblem::Evaluator } else { EvaluationProblem::Sample };
                return Err(problem(message));
            }
            Ok(reply) => {
                return reply
                    .and_then(&take)
                    .map_err(|problem| EvaluationProblem::Evaluator(described(&format!("answered, but {problem}"))));
            }
        }
    }
}
