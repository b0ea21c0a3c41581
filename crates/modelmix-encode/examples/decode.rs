//! Decodes the images whose paths standard input lists, and prints width, height and the SHA-256 of the pixels of each,
//! or `refused` and why. With `--bench SECONDS`, decodes them again and again on one thread and prints images per second.

use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use modelmix_encode::decode::{Limits, decode};
use sha2::{Digest, Sha256};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match arguments.as_slice() {
        [flag, seconds] if flag == "--bench" => seconds.parse().ok(),
        _ => None,
    };
    let paths: Vec<String> = io::stdin().lock().lines().collect::<io::Result<_>>()?;
    match seconds {
        Some(seconds) => bench(&paths, Duration::from_secs_f64(seconds)),
        None => hashes(&paths),
    }
}

fn hashes(paths: &[String]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for path in paths {
        match decode(&std::fs::read(path)?, &Limits::default()) {
            Ok(image) => {
                let digest: String = Sha256::digest(image.pixels()).iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(out, "{} {} {digest}", image.width(), image.height())?;
            }
            Err(problem) => writeln!(out, "refused {problem}")?,
        }
    }
    out.flush()
}

fn bench(paths: &[String], least: Duration) -> io::Result<()> {
    let files: Vec<Vec<u8>> = paths.iter().map(std::fs::read).collect::<io::Result<_>>()?;
    let (start, mut decoded) = (Instant::now(), 0_u32);
    while start.elapsed() < least {
        for bytes in &files {
            decode(bytes, &Limits::default()).map_err(io::Error::other)?;
            decoded += 1;
        }
    }
    println!("{:.1}", f64::from(decoded) / start.elapsed().as_secs_f64());
    Ok(())
}
