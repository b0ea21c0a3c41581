//! The Kernel Inception Distance over subsets, as other tools define it.

use serde::{Deserialize, Serialize};

use super::estimate::mean_and_variance;
use super::{ErrorBy, Estimate, NumPyRandom, Pool, check};
use crate::compute::{Engine, Subsets};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::kernel::Kernel;
use crate::random::Random;
use crate::settings::setters;

/// The maximum number of rows of one side over all subsets. Their indices then take 1.6 GB, and the standard deviation
/// between subsets is known to more digits than are ever printed.
const MAX_DRAWN_ROWS: usize = 100_000_000;

/// How the subsets of KID are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct KidSettings {
    /// The number of subsets.
    pub subsets: usize,
    /// The number of samples per subset and side; default: 1,000, or all if there are fewer.
    pub size: Option<usize>,
    /// The seed of NumPy's legacy generator. Subsets of the samples and of the reference are drawn in turns, samples
    /// first.
    pub seed: u32,
}

impl Default for KidSettings {
    fn default() -> Self {
        Self { subsets: 100, size: None, seed: 2020 }
    }
}

setters! {
    KidSettings {
        /// Sets the number of subsets.
        subsets: usize,
        /// Sets the number of samples per subset and side; `None` for 1,000, or all if there are fewer.
        size: impl Into<Option<usize>>,
        /// Sets the seed of NumPy's legacy generator.
        seed: u32,
    }
}

/// The kernel of KID for features of this width: (x·y/d + 1)³.
pub fn kid_kernel(width: usize) -> Kernel {
    Kernel::Polynomial { scale: 1.0 / width as f64, offset: 1.0, degree: 3 }
}

/// KID: the mean over subsets of the unbiased MMD², and the standard deviation between subsets (of the population, as
/// tools print it). For all samples at once, use [`mmd`](super::mmd()) with [`kid_kernel`].
///
/// A subset of a mixture contains each set in proportion to its weight; remainders are assigned at random.
///
/// # Errors
/// If subsets are larger than the samples or the reference, or have fewer than two rows, if there are no subsets, or if
/// widths differ.
pub fn kid(
    pool: &Pool<'_>,
    reference: &Features,
    kernel: &Kernel,
    settings: &KidSettings,
    engine: &Engine,
) -> Result<Estimate> {
    check::width(pool, reference)?;
    check::kernel(pool, Some(reference), kernel)?;
    pool.parts().iter().try_for_each(|part| check::rows("the samples", "kid", part.rows, 2))?;
    check::rows("the reference", "kid", reference.host()?, 2)?;
    let drawn = pool.largest_draw();
    let most = drawn.min(reference.len());
    let size = settings.size.unwrap_or(most.min(1000));
    if size < 2 || size > most {
        return Err(Error::setting(
            "subset_size",
            size,
            format!(
                "at least 2 and at most {most}, because {drawn} samples can be drawn and the reference has {}; record more or choose smaller subsets",
                reference.len()
            ),
        ));
    }
    let most = MAX_DRAWN_ROWS / size;
    if !(1..=most).contains(&settings.subsets) {
        let must = format!("at least 1, and at most {most} for subsets of {size} samples");
        return Err(Error::setting("subsets", settings.subsets, must));
    }
    let subsets = draw(pool, reference.len(), size, settings, engine)?;
    let values = unbiased(pool.rows().view(), reference.host()?, &subsets, kernel, engine)?;
    let (value, variance) = mean_and_variance(&values);
    // One subset has no spread, and subsets that are all of the samples and of the reference are the same.
    let is_everything = pool.parts().len() == 1 && size == drawn && size == reference.len();
    let spread = if settings.subsets == 1 || is_everything { f64::NAN } else { variance.sqrt() };
    Ok(Estimate { value, standard_error: spread, by: ErrorBy::Subsets })
}

/// The rows of a subset, on both sides.
struct Subset {
    samples: Vec<usize>,
    reference: Vec<usize>,
}

fn draw(
    pool: &Pool<'_>,
    reference: usize,
    size: usize,
    settings: &KidSettings,
    engine: &Engine,
) -> Result<Vec<Subset>> {
    let mut random = NumPyRandom::seeded(settings.seed);
    // If shares are whole numbers, or if there is only one set, no random numbers are used, so the draws are those of
    // other tools.
    let mut lots = Random::seeded(settings.seed.into());
    let subset = |_| {
        engine.check()?;
        let mut first = 0;
        let mut samples = Vec::with_capacity(size);
        for (part, count) in pool.parts().iter().zip(pool.apportion(size, &mut lots)) {
            samples.extend(random.choice(part.rows.len(), count).into_iter().map(|row| first + row));
            first += part.rows.len();
        }
        Ok(Subset { samples, reference: random.choice(reference, size) })
    };
    (0..settings.subsets).map(subset).collect()
}

/// The unbiased MMD² of each subset.
fn unbiased(x: Rows<'_>, y: Rows<'_>, subsets: &[Subset], kernel: &Kernel, engine: &Engine) -> Result<Vec<f64>> {
    let of_x: Vec<&[usize]> = subsets.iter().map(|subset| &subset.samples[..]).collect();
    let of_y: Vec<&[usize]> = subsets.iter().map(|subset| &subset.reference[..]).collect();
    let within = |rows: Rows<'_>, subsets: &[&[usize]]| -> Result<Vec<f64>> {
        let sums = engine.subset_sums(kernel, Subsets { rows: rows.into(), subsets }, None)?;
        let own = |&row: &usize| kernel.of_self(rows.row(row));
        let without_own = |(sum, subset): (f64, &&[usize])| sum - subset.iter().map(own).sum::<f64>();
        Ok(sums.into_iter().zip(subsets).map(without_own).collect())
    };
    let (x_within, y_within) = (within(x, &of_x)?, within(y, &of_y)?);
    let (x, y) = (Subsets { rows: x.into(), subsets: &of_x }, Subsets { rows: y.into(), subsets: &of_y });
    let between = engine.subset_sums(kernel, x, Some(y))?;
    let size = subsets[0].reference.len() as f64;
    let value = |index: usize| {
        (x_within[index] + y_within[index]) / (size * (size - 1.0)) - 2.0 * between[index] / (size * size)
    };
    Ok((0..subsets.len()).map(value).collect())
}
