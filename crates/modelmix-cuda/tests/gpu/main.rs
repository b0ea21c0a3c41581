//! The engine on a GPU: small tests of every part first, then the conformance suite of engines, then accuracy on data that
//! is hard for half precision. Without a GPU, every test prints the reason and passes.
//!
//! It runs as a prebuilt program too: `cargo test --package modelmix-cuda --test gpu --no-run` prints its path, and
//! `gpu-… --test-threads=1 --nocapture` runs it on a host without Rust.

#![allow(clippy::unwrap_used)]

// The suite has a shorter form for engines that are slow.
#[allow(dead_code)]
#[path = "../../../modelmix/tests/conformance/mod.rs"]
mod conformance;

mod accuracy;
mod dense;
mod parts;

use std::sync::OnceLock;

use modelmix::compute::Engine;
use modelmix_cuda::{Cuda, Options, Precision, Tier};

/// The default engine of the first GPU; `None`, with one line that says why, if there is none.
fn cuda() -> Option<&'static Cuda> {
    static CUDA: OnceLock<Option<Cuda>> = OnceLock::new();
    CUDA.get_or_init(|| match Cuda::open(None, Options::default()) {
        Ok(cuda) => Some(cuda),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    })
    .as_ref()
}

/// An engine with other options on the same GPU.
fn with(options: Options) -> Cuda {
    Cuda::open(None, options).unwrap()
}

/// Every tier of the device, with every precision that computes fused sums of few rows.
fn tiers() -> Vec<Cuda> {
    let Some(cuda) = cuda() else { return Vec::new() };
    let mut tiers = vec![Tier::Mma];
    if cuda.tier() == Tier::Wgmma {
        tiers.push(Tier::Wgmma);
    }
    tiers.into_iter().map(|tier| with(Options::default().tier(tier).precision(Precision::CheckedForAll))).collect()
}

#[test]
fn t6_engine_conforms() {
    if let Some(cuda) = cuda() {
        conformance::conforms(&[Engine::new(cuda.clone()), Engine::new(cuda.with_precision(Precision::Double))]);
    }
}

#[test]
fn t7_fused_kernels_conform() {
    let engines: Vec<Engine> = tiers().into_iter().map(Engine::new).collect();
    if !engines.is_empty() {
        conformance::conforms(&engines);
    }
}

#[test]
fn t7_bits_do_not_depend_on_the_grid() {
    for cuda in tiers() {
        let small = Options::default().tier(cuda.tier()).precision(Precision::CheckedForAll).blocks(6);
        conformance::same_bits(&[Engine::new(cuda.clone()), Engine::new(with(small)), Engine::new(cuda)]);
    }
}

#[test]
fn t7_bits_are_the_same_in_every_engine() {
    if let Some(cuda) = cuda() {
        conformance::same_bits(&[Engine::new(cuda.clone()), Engine::new(with(Options::default()))]);
    }
}
