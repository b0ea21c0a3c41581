//! The extension module `modelmix._modelmix`. There is one file per concept; each converts Python values to library types,
//! calls the library, and returns the document. Names, defaults and plots belong to the package, in `python/modelmix`.

mod accumulate;
mod arrays;
mod curate;
#[cfg(feature = "cuda")]
mod device_arrays;
mod documents;
mod encoder;
mod engine;
mod errors;
mod images;
mod journal;
mod load;
mod objective;
mod plan;
mod policy;
mod prepared;
mod registry;
mod samples;
mod score;
mod session;
mod simulate;
mod solve;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _modelmix {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::accumulate::{Accumulator, Shards};
    #[pymodule_export]
    use super::arrays::{Memory, copied_bytes};
    #[pymodule_export]
    use super::curate::curate;
    #[pymodule_export]
    use super::documents::{brief, listed_arms, named_shares, nearest, percents};
    #[pymodule_export]
    use super::encoder::{Cache, Encoder, encoding_of, with_encoding, write_features};
    #[pymodule_export]
    use super::engine::{engine_name, memory_size};
    #[pymodule_export]
    use super::images::{decode_image, resize_image};
    #[pymodule_export]
    use super::journal::Journal;
    #[pymodule_export]
    use super::load::{load, load_array, source_path};
    #[pymodule_export]
    use super::objective::{objective, objective_text, objective_warnings};
    #[pymodule_export]
    use super::plan::plan;
    #[pymodule_export]
    use super::policy::policy;
    #[pymodule_export]
    use super::registry::{encoder, encoders, located_weights, preprocessing, pull_encoder, sentence_settings};
    #[pymodule_export]
    use super::samples::{Samples, sample_kind};
    #[pymodule_export]
    use super::score::{median_bandwidth, metrics, score};
    #[pymodule_export]
    use super::session::{Session, until};
    #[pymodule_export]
    use super::simulate::simulate;
    #[pymodule_export]
    use super::solve::solve;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("SKIP_HINT", super::samples::SKIP_HINT)?;
        module.add("PIPELINE_REVISION", modelmix_encode::encode::PIPELINE_REVISION)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
