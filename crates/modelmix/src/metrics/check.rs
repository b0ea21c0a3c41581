//! Input checks of metrics, each with its error message.

use super::{Part, Pool};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::kernel::Kernel;

/// Checks that widths and encoders are equal.
pub(super) fn width(pool: &Pool<'_>, reference: &Features) -> Result<()> {
    let check = |part: &Part<'_>| reference.check_comparable("the reference", part.features, "the set of samples");
    pool.parts().iter().try_for_each(check)
}

/// Checks that the kernel is defined on all rows.
pub(super) fn kernel(pool: &Pool<'_>, reference: Option<&Features>, kernel: &Kernel) -> Result<()> {
    pool.parts().iter().try_for_each(|part| kernel.check(part.rows).map_err(|error| error.of("the samples")))?;
    reference.map_or(Ok(()), |reference| kernel.check(reference.host()?).map_err(|error| error.of("the reference")))
}

/// Checks that there are at least `least` rows.
pub(super) fn rows(what: &str, metric: &str, rows: Rows<'_>, least: usize) -> Result<()> {
    if rows.len() >= least {
        return Ok(());
    }
    let found = if rows.len() == 1 { "there is 1 row".into() } else { format!("there are {} rows", rows.len()) };
    Err(Error::Array {
        origin: what.into(),
        problem: format!("{found}, but {metric} needs at least {least}; record more samples"),
    })
}
