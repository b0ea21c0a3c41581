//! Feeds raw 32-bit floats to a model and writes its first output as such, for comparisons with other programs.
//!
//! Usage: `run_model MODEL RUNTIME THREADS BATCH INPUT OUTPUT`. MODEL is an .onnx file, or the .pt or .pth file of
//! FID's Inception. INPUT is in row-major order; the size of a sample is that of the model's only input.

use std::error::Error;
use std::path::Path;

use modelmix_encode::inception;
use modelmix_encode::runtime::{Input, Model, ModelSource, Options, Runtime, Values};
use modelmix_encode::torch_file;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, runtime, threads, batch, input, output] = arguments.as_slice() else {
        return Err("usage: run_model MODEL RUNTIME THREADS BATCH INPUT OUTPUT".into());
    };
    let source = if Path::new(model).extension().is_some_and(|extension| extension == "onnx") {
        ModelSource::Path(model.into())
    } else {
        ModelSource::Bytes(inception::onnx(&torch_file::tensors(Path::new(model))?)?)
    };
    let runtime: Runtime = runtime.parse()?;
    let options = Options { threads: threads.parse()?, ..Options::default() };
    let model = Model::open(&source, runtime, &options)?;
    let info = model.inputs().first().ok_or("the model has no input")?;
    let sample =
        info.shape.iter().skip(1).copied().collect::<Option<Vec<usize>>>().ok_or("its input has free sizes")?;
    let floats: Vec<f32> = std::fs::read(input)?.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();

    let mut features = Vec::new();
    let size: usize = sample.iter().product();
    for part in floats.chunks(size * batch.parse::<usize>()?) {
        let shape: Vec<usize> = std::iter::once(part.len() / size).chain(sample.iter().copied()).collect();
        let outputs = model.run(&[Input { name: &info.name, shape: &shape, values: Values::Floats(part) }])?;
        let first = outputs.first().ok_or("the model has no output")?;
        features.extend(first.values.iter().flat_map(|value| value.to_le_bytes()));
    }
    std::fs::write(output, features)?;
    println!("{}", model.describe());
    Ok(())
}
