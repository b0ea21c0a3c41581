//! From an image to the input tensor of an encoder, as data: the steps of other tools, in their order and with their
//! arithmetic, so that tensors are theirs bit for bit. Which tool takes which steps is in [`mod@presets`].

mod apply;
mod crop;
pub mod presets;
mod tool;

use serde::{Deserialize, Serialize};

pub use crop::Rounding;
pub use tool::Tool;

use crate::problem::Problem;
use crate::resize::{MAX_SIDE, Method, PassOrder};

/// The largest tensor of one image, in values: 1 GiB of floats.
pub const MAX_VALUES: usize = 1 << 28;

/// The largest image after a resize that keeps the aspect ratio, in pixels: 8192 × 8192. Only images that are hundreds of
/// times as long as wide become larger.
const MAX_RESIZED_PIXELS: usize = 1 << 26;

/// How an image becomes the input tensor of an encoder.
///
/// # Examples
/// ```
/// use modelmix_encode::preprocess::{Preprocessing, Tool, presets};
///
/// let preprocessing = presets::inception(Tool::TorchFidelity)?;
/// assert_eq!(preprocessing.shape()?, [3, 299, 299]);
/// let json = serde_json::to_string(&preprocessing)?;
/// assert_eq!(serde_json::from_str::<Preprocessing>(&json)?, preprocessing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocessing {
    /// The channels of the tensor.
    pub channels: Channels,
    /// What is done with the pixels, in this order. Pixels are whole numbers in 0..=255 at first.
    pub steps: Vec<Step>,
}

/// The channels of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    /// Red, green and blue.
    Rgb,
    /// The brightness, as Pillow's `convert("L")` computes it.
    Grey,
}

impl Channels {
    /// The number of channels.
    pub fn count(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Grey => 1,
        }
    }
}

/// A step of the preprocessing. Arithmetic is in single precision and rounded after each step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Crop the central square with the length of the shorter edge.
    CropSquare,
    /// Resize.
    Resize {
        /// The size after it.
        size: Size,
        /// Whose arithmetic it follows.
        method: Method,
    },
    /// Crop the centre. An image that is too small is padded with zeros.
    CropCentre {
        /// The height after it.
        height: usize,
        /// The width after it.
        width: usize,
        /// Where the crop starts if its distances to the edges are not whole numbers.
        rounding: Rounding,
    },
    /// Limit values to a range.
    Clip {
        /// The least value.
        low: f32,
        /// The greatest value.
        high: f32,
    },
    /// Add a number.
    Add(f32),
    /// Multiply by a number.
    Multiply(f32),
    /// Multiply by a number in double precision, then round to single precision, as NumPy does in image processors of
    /// `transformers`.
    MultiplyDouble(f64),
    /// Divide by a number.
    Divide(f32),
    /// Subtract the mean of each channel, then divide by its standard deviation.
    Normalise {
        /// One mean per channel.
        mean: Vec<f32>,
        /// One standard deviation per channel.
        std: Vec<f32>,
    },
}

/// The size of a resized image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Size {
    /// This size, whatever the aspect ratio.
    Exact {
        /// The height.
        height: usize,
        /// The width.
        width: usize,
    },
    /// The shorter edge gets this length; the longer one keeps the aspect ratio, rounded down.
    ShortEdge(usize),
}

impl Size {
    /// A square.
    pub const fn square(side: usize) -> Self {
        Self::Exact { height: side, width: side }
    }

    /// Height and width after resizing an image of this height and width.
    fn of(self, height: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Exact { height, width } => (height, width),
            Self::ShortEdge(edge) => {
                // int(edge * long / short) in Python: the quotient of integers, rounded to a double, then down.
                let long = |long: usize, short: usize| ((edge as f64 * long as f64) / short.max(1) as f64) as usize;
                if width <= height { (long(height, width), edge) } else { (edge, long(width, height)) }
            }
        }
    }
}

/// The size of an image between two steps, as far as it is known without an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Depends on the image.
    Free,
    /// This height and width.
    Fixed(usize, usize),
}

impl Preprocessing {
    /// Refuses preprocessing that cannot run: sizes of 0, zero divisors, or an 8-bit resize of floats.
    ///
    /// # Errors
    /// On the first step that cannot run.
    pub fn check(&self) -> Result<(), Problem> {
        let mut floats = false;
        for (index, step) in self.steps.iter().enumerate() {
            let number = index + 1;
            self.check_step(step, floats)
                .map_err(|problem| Problem::new(format!("step {number} of the preprocessing: {problem}")))?;
            floats |= !step.keeps_bytes();
        }
        Ok(())
    }

    fn check_step(&self, step: &Step, floats: bool) -> Result<(), Problem> {
        let side = |side: usize| {
            let valid = (1..=MAX_SIDE).contains(&side);
            valid.then_some(()).ok_or_else(|| Problem::new(format!("a side of {side} pixels; choose 1 to {MAX_SIDE}")))
        };
        let number = |value: f64| {
            value.is_finite().then_some(()).ok_or_else(|| Problem::new(format!("{value} is not a finite number")))
        };
        let divisor = |value: f32| {
            number(value.into())?;
            (value != 0.0).then_some(()).ok_or_else(|| Problem::new("division by 0; use a divisor other than 0"))
        };
        match step {
            Step::CropSquare => Ok(()),
            Step::Resize { method, .. } if floats && method.is_8bit() => {
                Err(Problem::new("an 8-bit resize cannot follow arithmetic on the values; resize first"))
            }
            Step::Resize { size: Size::ShortEdge(edge), .. } => side(*edge),
            Step::Resize { size: Size::Exact { height, width }, .. } | Step::CropCentre { height, width, .. } => {
                side(*height)?;
                side(*width)
            }
            Step::Clip { low, high } if low <= high => number(low.abs().max(high.abs()).into()),
            Step::Clip { low, high } => Err(Problem::new(format!("no value is in {low}..={high}; swap the limits"))),
            Step::Add(value) | Step::Multiply(value) => number((*value).into()),
            Step::MultiplyDouble(value) => number(*value),
            Step::Divide(value) => divisor(*value),
            Step::Normalise { mean, std } => {
                let channels = self.channels.count();
                if mean.len() != channels || std.len() != channels {
                    let (means, stds) = (mean.len(), std.len());
                    return Err(Problem::new(format!(
                        "{means} means and {stds} standard deviations for {channels} channels; give one per channel"
                    )));
                }
                mean.iter().try_for_each(|&value| number(value.into()))?;
                std.iter().try_for_each(|&value| divisor(value))
            }
        }
    }

    /// Channels, height and width of the tensor.
    ///
    /// # Errors
    /// If they depend on the image, or the preprocessing cannot run.
    pub fn shape(&self) -> Result<[usize; 3], Problem> {
        self.check()?;
        match self.steps.iter().fold(Known::Free, |size, step| step.known(size)) {
            Known::Fixed(height, width) => self.limited(height, width),
            Known::Free => Err(Problem::new(
                "the size of the tensor depends on the image; resize to an exact size or crop the centre",
            )),
        }
    }

    /// Channels, height and width of the tensor of an image of this width and height.
    ///
    /// # Errors
    /// If the tensor has no values or more than [`MAX_VALUES`], or the preprocessing cannot run.
    pub fn shape_of(&self, width: usize, height: usize) -> Result<[usize; 3], Problem> {
        self.check()?;
        let mut size = Known::Fixed(height, width);
        for step in &self.steps {
            size = step.known(size);
            if let (Step::Resize { size: Size::ShortEdge(_), .. }, Known::Fixed(rows, columns)) = (step, size)
                && rows.saturating_mul(columns) > MAX_RESIZED_PIXELS
            {
                return Err(Problem::new(format!(
                    "the image is {width} × {height} pixels, too thin for the preprocessing, which resizes it to {columns} × {rows}; crop it"
                )));
            }
        }
        match size {
            Known::Fixed(height, width) => self.limited(height, width),
            Known::Free => Err(Problem::new("the image has no size; remove it")),
        }
    }

    fn limited(&self, height: usize, width: usize) -> Result<[usize; 3], Problem> {
        let channels = self.channels.count();
        let values = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(channels));
        match values {
            Some(1..=MAX_VALUES) => Ok([channels, height, width]),
            _ => Err(Problem::new(format!(
                "a tensor of {width} × {height} pixels has not 1 to {MAX_VALUES} values; resize to another size or crop the centre"
            ))),
        }
    }

    /// Whether it resizes by a method of Pillow, in which the order of passes matters.
    pub fn has_pass_order(&self) -> bool {
        let has = |step: &Step| {
            matches!(step, Step::Resize { method: Method::Pillow { .. } | Method::PillowFloat { .. }, .. })
        };
        self.steps.iter().any(has)
    }

    /// The same preprocessing with another order of Pillow's passes, to equal another version of Pillow.
    #[must_use]
    pub fn with_pass_order(mut self, order: PassOrder) -> Self {
        for step in &mut self.steps {
            if let Step::Resize { method: Method::Pillow { passes, .. } | Method::PillowFloat { passes, .. }, .. } =
                step
            {
                *passes = order;
            }
        }
        self
    }
}

impl Step {
    /// Whether 8-bit values are 8-bit values after the step.
    fn keeps_bytes(&self) -> bool {
        match self {
            Self::CropSquare | Self::CropCentre { .. } => true,
            Self::Resize { method, .. } => method.is_8bit(),
            _ => false,
        }
    }

    /// The size after the step.
    fn known(&self, before: Known) -> Known {
        match (self, before) {
            (Self::Resize { size: Size::Exact { height, width }, .. } | Self::CropCentre { height, width, .. }, _) => {
                Known::Fixed(*height, *width)
            }
            (Self::Resize { size: size @ Size::ShortEdge(_), .. }, Known::Fixed(height, width)) => {
                let (height, width) = size.of(height, width);
                Known::Fixed(height, width)
            }
            (Self::Resize { .. }, Known::Free) => Known::Free,
            (Self::CropSquare, Known::Fixed(height, width)) => {
                let side = height.min(width);
                Known::Fixed(side, side)
            }
            (_, before) => before,
        }
    }
}
