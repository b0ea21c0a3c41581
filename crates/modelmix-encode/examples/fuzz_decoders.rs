//! Feeds mutated image files to the decoders: `fuzz_decoders FORMAT SECONDS [SEED]`, with FORMAT one of png, jpg, webp,
//! gif, bmp. The files are those of the tests.
//!
//! Prints the number of executions, how many files were still decoded, the panics (which `decode` turns into problems),
//! the slowest execution and the largest amount of memory that one took. A file that caused a panic or was slow is
//! written to the system's folder of temporary files.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use modelmix_encode::decode::{Limits, decode};

/// Files that take longer are kept. The small images that are decoded here take milliseconds.
const SLOW: Duration = Duration::from_millis(500);

/// Counts the bytes that are in use, and their maximum.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static PANICS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A small generator of random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// A seed with a few changes.
fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut file = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(file.len());
        match random.below(9) {
            0 => file.truncate(at),
            1..=3 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next() as u8),
            4 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            5 => {
                let value = [0_u8, 1, 0x7f, 0x80, 0xff][random.below(5)];
                let count = 1 + random.below(4);
                file.iter_mut().skip(at).take(count).for_each(|byte| *byte = value);
            }
            6 => {
                let count = random.below(24);
                file.iter_mut().skip(at).take(count).for_each(|byte| *byte = random.next() as u8);
            }
            7 => {
                let end = (at + random.below(64)).min(file.len());
                let part = file[at..end].to_vec();
                let to = random.below(file.len());
                file.splice(to..to, part);
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let end = (at + random.below(64)).min(file.len());
                file.splice(at..end, other[from..].iter().copied().take(random.below(64)));
            }
        }
    }
    // Without this nearly all mutations of a PNG stop at its checksums.
    if file.starts_with(b"\x89PNG") && random.below(8) > 0 {
        mend_checksums(&mut file);
    }
    file
}

fn mend_checksums(file: &mut [u8]) {
    let mut at = 8;
    while let Some(length) = file.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied()) {
        let end = at + 8 + u32::from_be_bytes(length) as usize;
        if file.len() < end + 4 {
            break;
        }
        let sum = crc32fast::hash(&file[at + 4..end]);
        file[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
}

fn seeds(format: &str) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let archive = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/images.zip"))?;
    let mut archive = zip::ZipArchive::new(Cursor::new(archive))?;
    let mut seeds = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        if entry.name()?.starts_with(&format!("{format}/")) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            seeds.push(bytes);
        }
    }
    Ok(seeds)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: fuzz_decoders png|jpg|webp|gif|bmp SECONDS [SEED]";
    let [format, seconds, rest @ ..] = arguments.as_slice() else { return Err(usage.into()) };
    let mut random = Random(rest.first().map_or(Ok(1), |seed| seed.parse::<u64>())?.max(1));
    let seeds = seeds(format)?;
    if seeds.is_empty() {
        return Err(usage.into());
    }
    std::panic::set_hook(Box::new(|info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{info}");
    }));
    // Small enough that most time is spent in parsing, not in filling large images.
    let limits = Limits { pixels: 1 << 20 };
    let least = Duration::from_secs_f64(seconds.parse()?);
    let (start, mut executions, mut decoded) = (Instant::now(), 0_u64, 0_u64);
    let (mut slowest, mut largest) = (Duration::ZERO, 0);
    while start.elapsed() < least {
        let file = mutated(&mut random, &seeds);
        let panics = PANICS.load(Ordering::Relaxed);
        let before = USED.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let timed = || {
            let begun = Instant::now();
            let is_image = decode(&file, &limits).is_ok();
            (begun.elapsed(), is_image)
        };
        let (mut elapsed, is_image) = timed();
        decoded += u64::from(is_image);
        // Again, because the processor may have been taken away meanwhile.
        for _ in 0..5 {
            if elapsed > slowest {
                elapsed = elapsed.min(timed().0);
            }
        }
        slowest = slowest.max(elapsed);
        largest = largest.max(MOST.load(Ordering::Relaxed) - before);
        executions += 1;
        let panicked = PANICS.load(Ordering::Relaxed) > panics;
        if panicked || elapsed > SLOW {
            let what = if panicked { "panic" } else { "slow" };
            let path = std::env::temp_dir().join(format!("{what}-{format}-{executions}"));
            std::fs::write(&path, &file)?;
            eprintln!("written to {}", path.display());
        }
    }
    println!(
        "{format}: {executions} executions, {decoded} decoded, {} panics, slowest {:.0} ms, most memory {:.1} MiB",
        PANICS.load(Ordering::Relaxed),
        slowest.as_secs_f64() * 1e3,
        largest as f64 / f64::from(1 << 20)
    );
    Ok(())
}
