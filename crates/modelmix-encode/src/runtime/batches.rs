//! Models that fix their batch size: samples are passed in groups of that size, and the last group is filled up.

use super::{Input, Output, Session, TensorInfo, Values};
use crate::problem::Problem;

/// An input of one run.
enum Group<'a> {
    /// The whole input: it has no rows per sample.
    Whole(Input<'a>),
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

/// The outputs of as many runs as the samples need, joined.
pub(super) fn run(
    session: &dyn Session,
    infos: &[TensorInfo],
    inputs: &[Input<'_>],
    outputs: &[&str],
    batch: usize,
) -> Result<Vec<Output>, Problem> {
    let fixed = |input: &Input<'_>| {
        let info = infos.iter().find(|info| info.name == input.name);
        info.and_then(|info| info.shape.first().copied().flatten())
    };
    let samples =
        inputs.iter().find(|input| fixed(input) == Some(batch)).and_then(|input| input.shape.first().copied());
    let Some(samples) = samples else { return session.run(inputs, outputs) };
    // An input without a sample dimension, such as a scale, is the same in every run.
    let per_sample =
        |input: &Input<'_>| input.shape.first() == Some(&samples) && fixed(input).is_none_or(|size| size == batch);
    for input in inputs {
        if let Some(size) = fixed(input).filter(|&size| !per_sample(input) && input.shape.first() != Some(&size)) {
            return Err(Problem::new(format!(
                "the model's input {} has {size} rows and another input {batch}, so samples cannot be grouped; export the model with a free batch size",
                input.name
            )));
        }
    }
    if samples == batch {
        return session.run(inputs, outputs);
    }
    let mut joined: Vec<Output> = Vec::new();
    for start in (0..samples).step_by(batch) {
        let here = batch.min(samples - start);
        let groups: Vec<Group<'_>> = inputs
            .iter()
            .map(|input| match (per_sample(input), input.values) {
                (false, _) => Group::Whole(*input),
                (true, Values::Floats(values)) => Group::Floats(group(values, samples, start, here, batch)),
                (true, Values::Integers(values)) => Group::Integers(group(values, samples, start, here, batch)),
            })
            .collect();
        let shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|input| std::iter::once(batch).chain(input.shape.iter().skip(1).copied()).collect())
            .collect();
        let parts: Vec<Input<'_>> = inputs
            .iter()
            .zip(&groups)
            .zip(&shapes)
            .map(|((input, group), shape)| match group {
                Group::Whole(whole) => *whole,
                Group::Floats(values) => Input { name: input.name, shape, values: Values::Floats(values) },
                Group::Integers(values) => Input { name: input.name, shape, values: Values::Integers(values) },
            })
            .collect();
        join(&mut joined, session.run(&parts, outputs)?, here, batch)?;
    }
    Ok(joined)
}

/// The samples from `start`, `here` of them, followed by copies of the last up to `batch`.
fn group<T: Copy>(values: &[T], samples: usize, start: usize, here: usize, batch: usize) -> Vec<T> {
    let width = values.len() / samples;
    let sample = |index: usize| values.get(index * width..(index + 1) * width).unwrap_or_default();
    (0..batch).flat_map(|place| sample(start + place.min(here - 1)).iter().copied()).collect()
}

/// Appends the first `here` samples of every output.
fn join(joined: &mut Vec<Output>, parts: Vec<Output>, here: usize, batch: usize) -> Result<(), Problem> {
    let first = joined.is_empty();
    for (index, mut part) in parts.into_iter().enumerate() {
        if part.shape.first() != Some(&batch) {
            return Err(Problem::new(format!(
                "the model's output {} has shape {:?} for {batch} samples, so its rows cannot be told apart; export the model with a free batch size",
                part.name, part.shape
            )));
        }
        part.values.truncate(part.values.len() / batch * here);
        part.shape[0] = here;
        match joined.get_mut(index).filter(|_| !first) {
            None => joined.push(part),
            Some(whole) if whole.shape[1..] == part.shape[1..] => {
                whole.shape[0] += here;
                whole.values.append(&mut part.values);
            }
            Some(whole) => {
                return Err(Problem::new(format!(
                    "the model's output {} has shape {:?} in one run and {:?} in another; run fewer samples at a time",
                    part.name, whole.shape, part.shape
                )));
            }
        }
    }
    Ok(())
}
