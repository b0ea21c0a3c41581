//! Images per second of decoding and resizing, without a network.
//!
//! Usage: `prepare FOLDER STEP THREADS SECONDS`. STEP is `decode`, or `resize`, which decodes and then resizes to 299 × 299 by
//! Pillow's bicubic filter. Threads take turns over the images of the folder until the time is over.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use modelmix_encode::Problem;
use modelmix_encode::decode::Limits;
use modelmix_encode::resize::{Filter, Method, PassOrder, Workspace, resize};
use modelmix_encode::samples::ImageSamples;

const SIDE: usize = 299;
const METHOD: Method = Method::Pillow { filter: Filter::Bicubic, passes: PassOrder::Pillow13 };

/// As in the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, step, threads, seconds] = arguments.as_slice() else {
        return Err("usage: prepare FOLDER decode|resize THREADS SECONDS".into());
    };
    let samples = ImageSamples::open(Path::new(folder), None)?;
    let (_, samples) = samples.first().ok_or("the folder has no images")?;
    let (threads, time) = (threads.parse::<usize>()?, Duration::from_secs_f64(seconds.parse()?));
    let (resizes, taken, start) = (step == "resize", AtomicUsize::new(0), Instant::now());
    let work = || -> Result<usize, Problem> {
        let (mut workspace, mut done) = (Workspace::default(), 0);
        while start.elapsed() < time {
            let index = taken.fetch_add(1, Ordering::Relaxed) % samples.len();
            let image = samples.raw(index)?.image(&Limits::default())?;
            if resizes {
                black_box(resize(&image, SIDE, SIDE, METHOD, &mut workspace)?);
            }
            black_box(image);
            done += 1;
        }
        Ok(done)
    };
    let counts: Result<Vec<usize>, Box<dyn Error>> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = running.into_iter().map(|thread| Ok(thread.join().map_err(|_| "a thread panicked")??));
        joined.collect()
    });
    println!("{:.2}", counts?.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64());
    Ok(())
}
