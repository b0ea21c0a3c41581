//! The extension `modelmix._modelmix`: what Python calls. One file a concept; each turns Python's values into the library's,
//! calls it, and hands the document back. Names, defaults and pictures are the package's, in `python/modelmix`.

mod arrays;
mod curate;
mod documents;
mod errors;
mod journal;
mod load;
mod objective;
mod policy;
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
    use super::arrays::{Memory, copied_bytes};
    #[pymodule_export]
    use super::curate::curate;
    #[pymodule_export]
    use super::documents::{brief, nearest};
    #[pymodule_export]
    use super::journal::Journal;
    #[pymodule_export]
    use super::load::{load, load_array, source_path};
    #[pymodule_export]
    use super::objective::{objective, objective_text};
    #[pymodule_export]
    use super::policy::policy;
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
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
