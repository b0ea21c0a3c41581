//! Sample-size planning: the samples needed for confidence intervals of a given width, from recorded arms as a pilot.
//! [`SamplePlan`] is the document that `modelmix plan --json` prints. The intervals themselves are in `certainty`.

use serde::{Deserialize, Serialize};

use super::program::Program;
use crate::arms::RecordedArms;
use crate::certainty::{Certainty, Gap, certainty};
use crate::compute::Stop;
use crate::error::{Error, Result};
use crate::influence::Influences;
use crate::kernel::Kernel;
use crate::loss::Loss;
use crate::numbers::{brief, count};
use crate::provenance::Provenance;
use crate::settings::setters;
use crate::simplex::{self, Bounds};

/// The minimum of samples per arm in a plan, and the size below which a pilot is small: intervals need about as many.
const MIN_SAMPLES: usize = 50;
/// Samples per arm that represent unlimited samples.
const UNLIMITED_SAMPLES: usize = 100_000_000;
/// The search ends once the number of samples is known within this factor.
const PRECISION: f64 = 1.005;
/// A p-value above this shows no significant gain.
const SIGNIFICANT: f64 = 0.05;
/// A plan with more than this multiple of the pilot's samples gets a warning.
const FAR: f64 = 100.0;

/// The goals of a plan. At least one width is required.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PlanSettings {
    /// The wanted half-width of the 95% interval of the gain: a share of the gain, or a difference in loss.
    pub gain_error: Option<Gap>,
    /// The wanted half-width of the widest 95% interval of a weight.
    pub weight_error: Option<f64>,
    /// The cost per sample of each arm; equal costs if `None`.
    pub costs: Option<Vec<f64>>,
}

setters! {
    PlanSettings {
        /// Sets the wanted half-width of the 95% interval of the gain.
        gain_error: impl Into<Option<Gap>>,
        /// Sets the wanted half-width of the widest 95% interval of a weight.
        weight_error: impl Into<Option<f64>>,
        /// Sets the cost per sample of each arm.
        costs: impl Into<Option<Vec<f64>>>,
    }
}

/// The number of samples per arm needed for confidence intervals of a given width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SamplePlan {
    /// The version of modelmix that computed it.
    pub version: String,
    /// The objective as written, with the bandwidth given.
    pub objective: String,
    /// The kernels with their bandwidths, one per term that has one.
    pub kernels: Vec<Kernel>,
    /// The unbiased gain in the pilot: the loss of the best single arm minus that of the best mixture.
    pub gain: f64,
    /// Its 95% confidence interval.
    pub gain_interval: [f64; 2],
    /// The p-value of the hypothesis that some single model is as good as any mixture.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub p_value: f64,
    /// The wanted half-width of the gain's interval, as a loss.
    pub gain_error: Option<f64>,
    /// The same as a share of the gain, if it was given as a share.
    pub gain_error_share: Option<f64>,
    /// The wanted half-width of the widest interval of a weight.
    pub weight_error: Option<f64>,
    /// The half-widths of the pilot's intervals.
    pub pilot: HalfWidths,
    /// Whether the pilot's intervals are already narrow enough.
    pub is_enough: bool,
    /// The half-widths that remain with unlimited samples, because the reference is a sample too.
    pub limit: HalfWidths,
    /// The plan with an equal number of samples per arm; `None` if the wanted widths cannot be reached.
    pub equal: Option<Allocation>,
    /// The plan with the cheapest addition to the pilot: more samples of the arms that the gain depends on (Neyman allocation),
    /// fewer of expensive ones; `None` if it is not cheaper, or without a wanted error of the gain.
    pub optimal: Option<Allocation>,
    /// Cautions about the plan.
    pub notes: Vec<String>,
    /// Provenance of the plan; absent unless the caller filled it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// Half-widths of 95% intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HalfWidths {
    /// Of the gain.
    pub gain: f64,
    /// Of the least certain weight.
    pub weight: f64,
}

/// Samples per arm, and the expected half-widths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Allocation {
    /// The arms in the order given.
    pub arms: Vec<PlannedArm>,
    /// Samples of all arms together.
    pub samples: usize,
    /// Samples to record in addition to the pilot.
    pub more: usize,
    /// The cost of the samples to record, if costs were given.
    pub cost: Option<f64>,
    /// The expected half-widths.
    pub expected: HalfWidths,
}

/// One arm of an [`Allocation`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlannedArm {
    /// Its name.
    pub name: String,
    /// Samples in the pilot.
    pub pilot: usize,
    /// Samples planned, including the pilot's.
    pub samples: usize,
    /// Samples still to be recorded.
    pub more: usize,
}

/// Plans how many samples per arm give confidence intervals of a given width, from recorded arms as a pilot.
///
/// The variance of every estimate is a sum over arms, and each part shrinks with the number of samples of its arm. So the
/// expected intervals of [`solve`](crate::solve) are known for any numbers of samples, and a search finds the smallest numbers.
///
/// ```
/// use modelmix::mixture::{PlanSettings, plan};
/// use modelmix::{Features, Gap, Inputs, Objective, RecordedArm, RecordedArms};
/// let row = |centre: f32, i: u32| [centre + (i * 37 % 100) as f32 / 100.0, (i * 61 % 100) as f32 / 100.0];
/// let arm = |name: &str, centre| Ok::<_, modelmix::Error>(RecordedArm::new(name, Features::from_rows((0..100).map(|i| row(centre, i)))?));
/// let arms = RecordedArms::new(vec![arm("left", 0.0)?, arm("right", 2.0)?])?;
/// let loss = Objective::rke().with_bandwidth(1.0).prepare(Inputs::new().arms(&arms))?;
/// let planned = plan(&arms, &loss, &PlanSettings::default().gain_error(Gap::Share(0.05)))?;
/// assert!(planned.equal.is_some_and(|equal| equal.expected.gain <= 0.05 * planned.gain));
/// # Ok::<(), modelmix::Error>(())
/// ```
///
/// # Errors
/// No wanted width, or one out of range; fewer than two arms, or an arm with fewer than two samples; an objective without
/// intervals; a share of a gain that the pilot does not show; costs that are not positive.
pub fn plan(arms: &RecordedArms, loss: &Loss, settings: &PlanSettings) -> Result<SamplePlan> {
    settings.check(arms)?;
    loss.check_direction()?;
    loss.check_quadratic("a plan")?;
    let program = Program::new(arms, loss, true)?;
    let influences = program.influences(loss.linear_spread())?.ok_or_else(|| {
        Error::missing(
            "a plan",
            "at least two samples of every arm, with values that do not overflow; record a few dozen",
        )
    })?;
    let bounds = Bounds::simplex(arms.len());
    let start = simplex::minimize(program.form(), &bounds)?.weights;
    let forecast = Forecast { influences: &influences, bounds, start, stop: program.engine().stop() };
    let counts: Vec<usize> = arms.iter().map(|arm| arm.features.len()).collect();
    let now = forecast.certainty(&counts)?;
    let (Some(gain), Some(gain_interval), Some(p_value)) = (now.gain_estimate, now.gain, now.p_value) else {
        return Err(Error::missing("a plan", "at least two arms"));
    };
    let gain_error_share = match settings.gain_error {
        Some(Gap::Share(share)) => Some(share),
        _ => None,
    };
    if gain_error_share.is_some() && (p_value > SIGNIFICANT || gain <= 0.0) {
        let needs = format!(
            "a significant gain in the pilot, but some single model may be as good (p = {}); use loss=…, or record more samples first",
            brief(p_value)
        );
        return Err(Error::missing("a share of the gain", needs));
    }
    let wanted = Wanted {
        gain: settings.gain_error.map(|error| match error {
            Gap::Share(share) => share * gain,
            Gap::Loss(loss) => loss,
        }),
        weight: settings.weight_error,
    };
    let (pilot, limit) = (half_widths(&now), forecast.half_widths(&vec![UNLIMITED_SAMPLES; arms.len()])?);
    let even = vec![1.0 / arms.len() as f64; arms.len()];
    let names: Vec<String> = arms.names().iter().map(ToString::to_string).collect();
    let allocate = |shares: &[f64], least: &[usize]| -> Result<Option<Allocation>> {
        let total: usize = counts.iter().sum();
        let found = search(total as f64 * wanted.ratio(&pilot).powi(2), |total| {
            let sizes = sizes(shares, total, least);
            forecast.half_widths(&sizes).map(|expected| (wanted.ratio(&expected), (sizes, expected)))
        })?;
        Ok(found.map(|(sizes, expected)| Allocation::new(&names, &counts, &sizes, expected, settings.costs.as_deref())))
    };
    let equal = if wanted.ratio(&limit) < 1.0 { allocate(&even, &vec![MIN_SAMPLES; arms.len()])? } else { None };
    let mut optimal = match (&equal, wanted.gain) {
        // The pilot's samples are already there, so the cheapest plan adds samples only to some arms (Karush-Kuhn-Tucker
        // conditions).
        (Some(_), Some(_)) => allocate(&forecast.neyman_shares(&now, settings.costs.as_deref()), &counts)?,
        _ => None,
    };
    // Arms that the gain does not depend on keep the pilot's samples, and these may be too few.
    let is_unreached = equal.is_some() && wanted.gain.is_some() && optimal.is_none();
    if let (Some(even), Some(neyman)) = (&equal, &optimal) {
        let price = |allocation: &Allocation| allocation.cost.unwrap_or(allocation.more as f64);
        if price(neyman) >= price(even) {
            optimal = None;
        }
    }
    let mut planned = SamplePlan {
        version: crate::version::VERSION.into(),
        objective: loss.objective().to_string(),
        kernels: loss.kernels(),
        gain,
        gain_interval,
        p_value,
        gain_error: wanted.gain,
        gain_error_share,
        weight_error: wanted.weight,
        is_enough: wanted.ratio(&pilot) <= 1.0,
        pilot,
        limit,
        equal,
        optimal,
        notes: Vec::new(),
        provenance: None,
    };
    planned.notes = planned.cautions(arms, &wanted, loss.reference_len());
    if is_unreached {
        planned.notes.push(
            "There is no optimal allocation: it adds samples only to arms with weight, but the pilot has too few samples of the others."
                .into(),
        );
    }
    Ok(planned)
}

impl PlanSettings {
    fn check(&self, arms: &RecordedArms) -> Result<()> {
        if arms.len() < 2 {
            return Err(Error::missing("a plan", "at least two arms"));
        }
        if self.gain_error.is_none() && self.weight_error.is_none() {
            return Err(Error::missing(
                "a plan",
                "a wanted width: an error of the gain, such as 5%, or an error of the weights",
            ));
        }
        if let Some(error @ (Gap::Share(size) | Gap::Loss(size))) = self.gain_error
            && !(size > 0.0 && size.is_finite())
        {
            return Err(Error::setting("the error of the gain", error, "positive, such as 5% or loss=0.001"));
        }
        if let Some(error) = self.weight_error.filter(|error| !(*error > 0.0 && *error < 0.5)) {
            return Err(Error::setting("the error of the weights", error, "above 0 and below 0.5, such as 0.05"));
        }
        let Some(costs) = &self.costs else { return Ok(()) };
        if costs.len() != arms.len() {
            let must = format!("one per arm: there are {} arms", arms.len());
            return Err(Error::setting("the number of costs", costs.len(), must));
        }
        match costs.iter().zip(arms.names()).find(|(cost, _)| !(cost.is_finite() && **cost > 0.0)) {
            Some((cost, name)) => Err(Error::setting(&format!("the cost of arm {name}"), cost, "a positive number")),
            None => Ok(()),
        }
    }
}

/// Wanted half-widths.
struct Wanted {
    gain: Option<f64>,
    weight: Option<f64>,
}

impl Wanted {
    /// The ratio of the expected to the wanted width, the larger of both.
    fn ratio(&self, widths: &HalfWidths) -> f64 {
        let gain = self.gain.map_or(0.0, |wanted| widths.gain / wanted);
        gain.max(self.weight.map_or(0.0, |wanted| widths.weight / wanted))
    }
}

/// The expected intervals for other numbers of samples.
struct Forecast<'a> {
    influences: &'a Influences<'a>,
    bounds: Bounds,
    /// The pilot's weights.
    start: Vec<f64>,
    stop: &'a Stop,
}

impl Forecast<'_> {
    fn certainty(&self, sizes: &[usize]) -> Result<Certainty> {
        certainty(&self.influences.with_sizes(sizes), &self.bounds, &self.start, self.stop)
    }

    fn half_widths(&self, sizes: &[usize]) -> Result<HalfWidths> {
        self.certainty(sizes).map(|certainty| half_widths(&certainty))
    }

    /// The shares of all samples that minimise the gain's variance for a total cost: in proportion to each arm's standard
    /// deviation over the square root of its cost (Neyman 1934).
    fn neyman_shares(&self, now: &Certainty, costs: Option<&[f64]>) -> Vec<f64> {
        let form = self.influences.form();
        let arms = form.arms();
        let best = (0..arms).min_by(|&a, &b| form.single(a).total_cmp(&form.single(b))).unwrap_or(0);
        let (_, variances) = self.influences.variances_by_arm(&now.centre);
        let deviation = |arm: usize| {
            let count = self.influences.sizes()[arm] as f64;
            let cost = costs.map_or(1.0, |costs| costs[arm]);
            (count * variances[best * arms + arm].max(0.0) / cost).sqrt()
        };
        let deviations: Vec<f64> = (0..arms).map(deviation).collect();
        let sum: f64 = deviations.iter().sum();
        if sum > 0.0 { deviations.iter().map(|value| value / sum).collect() } else { vec![1.0 / arms as f64; arms] }
    }
}

fn half_widths(certainty: &Certainty) -> HalfWidths {
    let half = |[low, high]: [f64; 2]| (high - low) / 2.0;
    HalfWidths {
        gain: certainty.gain.map_or(0.0, half),
        weight: certainty.weights.iter().map(|&interval| half(interval)).fold(0.0, f64::max),
    }
}

/// Samples per arm, with a minimum for each.
fn sizes(shares: &[f64], total: f64, least: &[usize]) -> Vec<usize> {
    let size = |(share, &least): (&f64, &usize)| ((share * total).ceil() as usize).max(least.max(MIN_SAMPLES));
    shares.iter().zip(least).map(size).collect()
}

/// The smallest total whose `ratio` is at most 1, and its plan; `None` if the number is impractically large.
fn search<T>(guess: f64, mut ratio: impl FnMut(f64) -> Result<(f64, T)>) -> Result<Option<T>> {
    let mut high = guess.clamp(1.0, UNLIMITED_SAMPLES as f64);
    let mut found = loop {
        let (value, with) = ratio(high)?;
        if value <= 1.0 {
            break with;
        }
        if high >= UNLIMITED_SAMPLES as f64 {
            return Ok(None);
        }
        high *= 2.0;
    };
    let mut low = high;
    loop {
        low /= 2.0;
        let (value, with) = ratio(low)?;
        if value > 1.0 {
            break;
        }
        (high, found) = (low, with);
        if low < 1.0 {
            return Ok(Some(found));
        }
    }
    while high / low > PRECISION {
        let middle = (low * high).sqrt();
        let (value, with) = ratio(middle)?;
        if value <= 1.0 {
            (high, found) = (middle, with);
        } else {
            low = middle;
        }
    }
    Ok(Some(found))
}

impl Allocation {
    fn new(names: &[String], counts: &[usize], sizes: &[usize], expected: HalfWidths, costs: Option<&[f64]>) -> Self {
        let arm = |index: usize| PlannedArm {
            name: names[index].clone(),
            pilot: counts[index],
            samples: sizes[index],
            more: sizes[index].saturating_sub(counts[index]),
        };
        let arms: Vec<PlannedArm> = (0..names.len()).map(arm).collect();
        let price = |costs: &[f64]| arms.iter().zip(costs).map(|(arm, cost)| arm.more as f64 * cost).sum();
        Self {
            samples: sizes.iter().sum(),
            more: arms.iter().map(|arm| arm.more).sum(),
            cost: costs.map(price),
            arms,
            expected,
        }
    }
}

impl SamplePlan {
    /// The plan in one sentence.
    pub fn sentence(&self) -> String {
        let goals = [
            self.gain_error.map(|error| match self.gain_error_share {
                Some(share) => format!("the gain within ±{} ({})", brief(error), Gap::Share(share)),
                None => format!("the gain within ±{}", brief(error)),
            }),
            self.weight_error.map(|error| format!("every weight within ±{}", brief(error))),
        ];
        let goal = goals.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        match (&self.equal, self.is_enough) {
            (_, true) => format!("The pilot is enough: its samples give {goal}, with 95% confidence."),
            (Some(equal), false) => {
                let samples = count(equal.arms.first().map_or(0, |arm| arm.samples));
                format!("Record {samples} samples per arm for {goal}, with 95% confidence.")
            }
            (None, false) => {
                let most = count(UNLIMITED_SAMPLES);
                format!("Not even {most} samples per arm give {goal}: ±{} remain.", self.remaining())
            }
        }
    }

    fn remaining(&self) -> String {
        let gain = self.gain_error.filter(|wanted| self.limit.gain >= *wanted).map(|_| brief(self.limit.gain));
        gain.unwrap_or_else(|| brief(self.limit.weight))
    }

    fn cautions(&self, arms: &RecordedArms, wanted: &Wanted, reference_rows: usize) -> Vec<String> {
        let mut notes = Vec::new();
        let small: Vec<String> = arms
            .iter()
            .filter(|arm| arm.features.len() < MIN_SAMPLES)
            .map(|arm| format!("{} has {}", arm.name, arm.features.len()))
            .collect();
        if !small.is_empty() {
            notes.push(format!(
                "The pilot is small ({}): with fewer than {MIN_SAMPLES} samples per arm a plan is rough.",
                small.join(", ")
            ));
        }
        if self.p_value > SIGNIFICANT {
            notes.push(format!(
                "The pilot shows no significant gain over the best single model (p = {}). Near a single model intervals do not shrink \
                 in proportion to 1/√n, so the plan is rough; plan again with more samples.",
                brief(self.p_value)
            ));
        }
        if wanted.ratio(&self.limit) >= 1.0 {
            let rows = count(reference_rows);
            notes.push(match reference_rows {
                0 => "The pilot leaves open which arms have weight, so the plan cannot be extrapolated; record more samples, and plan again.".into(),
                _ => format!("The reference has {rows} rows and is a sample too; record more of them for narrower intervals."),
            });
        }
        let total: usize = arms.iter().map(|arm| arm.features.len()).sum();
        if self.equal.as_ref().is_some_and(|equal| equal.samples as f64 > FAR * total as f64) {
            notes.push(format!(
                "The plan has more than {FAR} times the samples of the pilot; record a tenth of them first, and plan again."
            ));
        }
        notes
    }
}
