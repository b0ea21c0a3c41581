//! `modelmix reproduce`.
use crate::args::ReproduceArgs;
use crate::error::{Failure, Result};
pub(crate) fn run(args: &ReproduceArgs) -> Result<()> {
    let _ = args;
    Err(Failure::input("not yet"))
}
