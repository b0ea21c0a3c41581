//! Pools, the input of metrics: one set of samples, or several with weights.

use crate::arms::RecordedArms;
use crate::compute::{Engine, Resident, Set};
use crate::error::{Error, Result};
use crate::features::{Features, Rows};
use crate::random::Random;

/// Values this close to a whole number count as one.
const WHOLE_NUMBER_TOLERANCE: f64 = 1e-9;

/// Whether a weight is valid.
fn is_share(weight: f64) -> bool {
    weight.is_finite() && weight >= 0.0
}

/// A set of samples, or a weighted mixture of several: sample a of set i has the weight αᵢ/nᵢ.
///
/// ```
/// use modelmix::Features;
/// use modelmix::metrics::Pool;
/// let (left, right) = (Features::from_rows([[0.0], [1.0]])?, Features::from_rows([[4.0], [5.0]])?);
/// let mixture = Pool::mixture([(&left, 0.25), (&right, 0.75)])?;
/// assert_eq!(mixture.row_weights(), [0.125, 0.125, 0.375, 0.375]);
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool<'a> {
    parts: Vec<Part<'a>>,
}

/// A set of a pool and its share.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The samples.
    pub rows: Rows<'a>,
    /// The same samples, resident on an engine; in host memory otherwise.
    pub set: Set<'a>,
    /// Its share α; all shares sum to 1.
    pub share: f64,
    pub(super) features: &'a Features,
}

impl<'a> Pool<'a> {
    /// Creates a pool of one set.
    ///
    /// # Panics
    /// If the rows are on a device and cannot be copied to the host; [`Pool::mixture`] returns this as an error.
    pub fn of(features: &'a Features) -> Self {
        Self { parts: vec![Part { rows: features.view(), set: features.into(), share: 1.0, features }] }
    }

    /// Creates a pool of several sets with shares, which are scaled to sum to 1. Sets with share 0 are left out.
    ///
    /// # Errors
    /// If no share is positive, if one is negative or not finite, if widths differ, or if rows on a device cannot be copied
    /// to the host.
    pub fn mixture(sets: impl IntoIterator<Item = (&'a Features, f64)>) -> Result<Self> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut first = None;
        for (index, (features, share)) in sets.into_iter().enumerate() {
            if !is_share(share) {
                return Err(Error::setting(&format!("the weight of set {index}"), share, "zero or a positive number"));
            }
            let first: &Features = first.get_or_insert(features);
            features.check_comparable(&format!("set {index}"), first, "the first set")?;
            if share > 0.0 {
                parts.push(Part { rows: features.host()?, set: features.into(), share, features });
            }
        }
        if parts.is_empty() {
            return Err(Error::missing("a mixture", "at least one set with a positive weight"));
        }
        // Scaled by the largest first, so that no sum overflows; shares that underflow are zero.
        let largest = parts.iter().fold(0.0f64, |largest, part| largest.max(part.share));
        parts.iter_mut().for_each(|part| part.share /= largest);
        let total: f64 = parts.iter().map(|part| part.share).sum();
        parts.iter_mut().for_each(|part| part.share /= total);
        parts.retain(|part| part.share > 0.0);
        Ok(Self { parts })
    }

    /// Creates a pool of recorded arms with their weights.
    ///
    /// # Errors
    /// As [`Pool::mixture`], and if the number of weights is not that of the arms.
    pub fn arms(arms: &'a RecordedArms, weights: &[f64]) -> Result<Self> {
        if weights.len() != arms.len() {
            return Err(Error::missing(
                "a mixture",
                format!("one weight per arm, zero for those left out: {} given for {} arms", weights.len(), arms.len()),
            ));
        }
        if let Some((arm, weight)) = arms.iter().zip(weights).find(|(_, weight)| !is_share(**weight)) {
            return Err(Error::setting(&format!("the weight of {}", arm.name), weight, "zero or a positive number"));
        }
        if weights.iter().all(|weight| *weight == 0.0) {
            return Err(Error::missing("a mixture", "an arm with a positive weight, but all weights are 0; give one"));
        }
        Self::mixture(arms.iter().map(|arm| &arm.features).zip(weights.iter().copied()))
    }

    /// Its sets, all with a positive share.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The width of the features.
    pub fn width(&self) -> usize {
        self.parts[0].rows.width()
    }

    /// The number of samples.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.rows.len()).sum()
    }

    /// The weight of each sample, set by set; they sum to 1.
    pub fn row_weights(&self) -> Vec<f64> {
        let weights = |part: &Part<'_>| vec![part.share / part.rows.len() as f64; part.rows.len()];
        self.parts.iter().flat_map(weights).collect()
    }

    /// The effective sample size 1/Σw² (Kish). It is the number of samples if all have the same weight.
    pub fn effective_len(&self) -> f64 {
        1.0 / self.parts.iter().map(|part| part.share.powi(2) / part.rows.len() as f64).sum::<f64>()
    }

    /// Makes all sets resident on an engine.
    pub(super) fn hold(&self, engine: &Engine) -> Result<Vec<Box<dyn Resident>>> {
        self.parts.iter().map(|part| engine.hold(part.features)).collect()
    }

    /// The same pool, whose sets are the resident ones that [`Pool::hold`] made.
    pub(super) fn held<'b>(&self, sets: &'b [Box<dyn Resident>]) -> Pool<'b>
    where
        'a: 'b,
    {
        let parts = self.parts.iter().zip(sets);
        Pool { parts: parts.map(|(part, set)| Part { set: Set::Resident(&**set), ..*part }).collect() }
    }

    /// All samples as one array; copied only if there are several sets.
    pub(crate) fn rows(&self) -> Pooled<'a> {
        match &self.parts[..] {
            [part] => Pooled::Borrowed(part.rows, part.set),
            parts => {
                let values = parts.iter().flat_map(|part| part.rows.iter().flatten().copied()).collect();
                Pooled::Owned(self.width(), values)
            }
        }
    }

    /// Draws samples from the mixture, as for publication: each set contributes its share of `count` (remainders at
    /// random), drawn without replacement.
    ///
    /// # Errors
    /// If a set has fewer samples than its share of `count`.
    pub fn draw(&self, count: usize, seed: u64) -> Result<Features> {
        let mut random = Random::seeded(seed);
        let counts = self.apportion(count, &mut random);
        let mut values = Vec::with_capacity(count * self.width());
        for (part, &count) in self.parts.iter().zip(&counts) {
            if count > part.rows.len() {
                return Err(Error::setting(
                    "the number of samples drawn",
                    counts.iter().sum::<usize>(),
                    format!(
                        "at most {}: a set with {} samples would have to contribute {count}; draw fewer or record more",
                        self.largest_draw(),
                        part.rows.len()
                    ),
                ));
            }
            for row in random.sample(part.rows.len(), count) {
                values.extend_from_slice(part.rows.row(row));
            }
        }
        Features::new(self.width(), values)
    }

    /// The largest number of samples that [`Pool::draw`] can always draw.
    pub fn largest_draw(&self) -> usize {
        // A share that is not a whole number is at most rounded up, which is still within the set.
        let most = |part: &Part<'_>| (part.rows.len() as f64 / part.share + WHOLE_NUMBER_TOLERANCE).floor() as usize;
        self.parts.iter().map(most).min().unwrap_or(0).min(self.len())
    }

    /// Whole numbers near share · count that sum to `count`: the floor of each, and the rest at random with the
    /// remainders as probabilities (systematic sampling, so each is the floor or one more).
    pub(crate) fn apportion(&self, count: usize, random: &mut Random) -> Vec<usize> {
        let mut line = 0.0;
        let start = random.unit();
        let mut given = 0;
        let last = self.parts.len() - 1;
        self.parts
            .iter()
            .enumerate()
            .map(|(index, part)| {
                line += part.share * count as f64;
                // Rounding errors must not cause a draw if the value is a whole number.
                let line = if (line - line.round()).abs() < WHOLE_NUMBER_TOLERANCE { line.round() } else { line };
                let until = if index == last { count } else { ((line + start).floor() as usize).min(count) };
                let number = until.saturating_sub(given);
                given = until.max(given);
                number
            })
            .collect()
    }
}

/// The samples of a pool as one array.
pub(crate) enum Pooled<'a> {
    Borrowed(Rows<'a>, Set<'a>),
    Owned(usize, Vec<f32>),
}

impl Pooled<'_> {
    pub(crate) fn view(&self) -> Rows<'_> {
        match self {
            Pooled::Borrowed(rows, _) => *rows,
            Pooled::Owned(width, values) => Rows::new(*width, values),
        }
    }

    /// The samples as input of an engine.
    pub(crate) fn set(&self) -> Set<'_> {
        match self {
            Pooled::Borrowed(_, set) => *set,
            Pooled::Owned(..) => self.view().into(),
        }
    }
}
