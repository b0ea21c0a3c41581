//! Images per second of FID's Inception, or of any model with one input of floats, in each runtime.
//!
//! Usage: `model_speed MODEL [IMAGES [RUNTIME THREADS BATCH]]`. MODEL is an .onnx file, or the .pt or .pth file of Inception's
//! weights. Every combination of runtime, threads and batch size, or only the given one, runs IMAGES images (32 by default) three
//! times; the best is printed, with the processor time that it took, which other programs on the machine affect less.
//! `model_speed MODEL --write FILE.onnx` only writes the network.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use modelmix_encode::inception;
use modelmix_encode::runtime::{Input, Model, ModelSource, Options, Runtime, Values};
use modelmix_encode::torch_file;

/// As in the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [model, "--write", file] => match source(Path::new(model))? {
            ModelSource::Bytes(bytes) => std::fs::write(file, bytes)?,
            ModelSource::Path(path) => std::fs::copy(path, file).map(drop)?,
        },
        [model, images, runtime, threads, batch] => {
            let runtime =
                Runtime::ALL.into_iter().find(|known| known.to_string() == *runtime).ok_or("no such runtime")?;
            let options = Options { threads: threads.parse()?, ..Options::default() };
            print(
                &Model::open(&source(Path::new(model))?, runtime, &options)?,
                images.parse()?,
                &options,
                batch.parse()?,
            )?;
        }
        [model] => all(&source(Path::new(model))?, 32)?,
        [model, images] => all(&source(Path::new(model))?, images.parse()?)?,
        _ => {
            return Err(
                "usage: model_speed MODEL [IMAGES [RUNTIME THREADS BATCH]], or model_speed MODEL --write FILE".into()
            );
        }
    }
    Ok(())
}

/// The network of a file, or of Inception's weights.
fn source(model: &Path) -> Result<ModelSource, Box<dyn Error>> {
    if model.extension().is_some_and(|extension| extension == "onnx") {
        return Ok(ModelSource::Path(model.to_owned()));
    }
    Ok(ModelSource::Bytes(inception::onnx(&torch_file::tensors(model)?)?))
}

fn all(source: &ModelSource, images: usize) -> Result<(), Box<dyn Error>> {
    println!("{:<24} {:>7} {:>5} {:>9} {:>15}", "runtime", "threads", "batch", "images/s", "processor s/image");
    for runtime in Runtime::ALL {
        for threads in [1, 2] {
            let options = Options { threads, ..Options::default() };
            let model = match Model::open(source, runtime, &options) {
                Ok(model) => model,
                Err(problem) => {
                    println!("{runtime}: {problem}");
                    break;
                }
            };
            for batch in [1, 4, 16] {
                print(&model, images, &options, batch)?;
            }
        }
    }
    Ok(())
}

fn print(model: &Model, images: usize, options: &Options, batch: usize) -> Result<(), Box<dyn Error>> {
    let (seconds, processor) = measure(model, images, batch)?;
    let (speed, processor) = (images as f64 / seconds, processor / images as f64);
    println!("{:<24} {:>7} {batch:>5} {speed:>9.2} {processor:>15.4}", model.describe(), options.threads);
    Ok(())
}

/// The least wall-clock time of three runs over all images, and the least processor time.
fn measure(model: &Model, images: usize, batch: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let input = model.inputs().first().ok_or("the model has no input")?;
    let sample =
        input.shape.iter().skip(1).copied().collect::<Option<Vec<usize>>>().ok_or("its input has free sizes")?;
    let size: usize = sample.iter().product();
    let values: Vec<f32> = (0..size * batch).map(|index| ((index * 31) % 255) as f32 / 127.5 - 1.0).collect();
    let (mut wall, mut processor) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        let (start, used) = (Instant::now(), processor_seconds());
        for first in (0..images).step_by(batch) {
            let count = batch.min(images - first);
            let shape: Vec<usize> = std::iter::once(count).chain(sample.iter().copied()).collect();
            let values = Values::Floats(&values[..count * size]);
            model.run(&[Input { name: &input.name, shape: &shape, values }])?;
        }
        wall = wall.min(start.elapsed().as_secs_f64());
        processor = processor.min(processor_seconds() - used);
    }
    Ok((wall, processor))
}

/// The processor time of this process so far, on Linux: user and system time in hundredths of a second.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
