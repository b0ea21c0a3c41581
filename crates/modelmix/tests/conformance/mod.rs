//! The conformance suite of compute engines. `conforms` compares engines with plain loops in double precision, within
//! the accuracy that each states, for every kernel and shape, on data that breaks shortcuts, with borrowed and resident
//! sets. `same_bits` checks that several engines give the same bits, such as one engine on different numbers of
//! threads.
//!
//! A crate with its own engine includes this file in a test by its path: `#[path =
//! "…/modelmix/tests/conformance/mod.rs"] mod conformance;`. It uses only the public API of `modelmix` and its
//! dependency `half`.

pub(crate) mod data;
mod moments;
mod neighbours;
mod residence;
mod stops;
mod sums;

use modelmix::compute::Engine;

/// The allowed error of a sum of values that underflow in single precision.
const UNDERFLOW: f64 = 1e-34;

/// All requirements; the true values are computed once for all engines.
pub(crate) fn conforms(engines: &[Engine]) {
    sums::conform(engines);
    sums::among_conform(engines);
    sums::entries_conform(engines);
    sums::extreme_scales_conform(engines);
    for engine in engines {
        assert!(!engine.describe().is_empty());
        let accuracy = engine.accuracy();
        assert!(accuracy.entry > 0.0 && accuracy.row_sum >= accuracy.entry, "{accuracy:?}");
        sums::empty_sides_conform(engine);
        neighbours::conform(engine);
        neighbours::copies_conform(engine);
        moments::conform(engine);
        residence::conform(engine);
        stops::conform(engine);
    }
}

/// The same for an engine that is too slow for the full suite.
pub(crate) fn conforms_on_little(engine: &Engine) {
    sums::little_conforms(engine);
    sums::empty_sides_conform(engine);
    neighbours::copies_conform(engine);
    moments::conform(engine);
    residence::conform(engine);
    stops::conform(engine);
}

/// All engines compute the same bits.
pub(crate) fn same_bits(engines: &[Engine]) {
    sums::same_bits(engines);
    neighbours::same_bits(engines);
    moments::same_bits(engines);
}

/// Checks that values are within `tolerance` of the truth, relative to its magnitude.
fn check(engine: &Engine, what: &str, tolerance: f64, found: &[f64], truth: &[f64], magnitudes: &[f64]) {
    assert_eq!((found.len(), truth.len()), (magnitudes.len(), magnitudes.len()), "{what}");
    for (index, ((found, truth), magnitude)) in found.iter().zip(truth).zip(magnitudes).enumerate() {
        assert!(
            (found - truth).abs() <= tolerance * magnitude + UNDERFLOW,
            "{}: {what}: {index} is {found:e}, expected {truth:e}: off by {:e} of {magnitude:e}",
            engine.describe(),
            (found - truth).abs() / magnitude
        );
    }
}
