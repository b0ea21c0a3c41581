//! Decodes the images whose paths standard input lists, and prints width, height and the SHA-256 of the pixels of each,
//! or `refused` and why.

use std::io::{self, BufRead, Write};

use modelmix_encode::decode::{Limits, decode};
use sha2::{Digest, Sha256};

fn main() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for path in io::stdin().lock().lines() {
        match decode(&std::fs::read(path?)?, &Limits::default()) {
            Ok(image) => {
                let digest: String = Sha256::digest(image.pixels()).iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(out, "{} {} {digest}", image.width(), image.height())?;
            }
            Err(problem) => writeln!(out, "refused {problem}")?,
        }
    }
    out.flush()
}
