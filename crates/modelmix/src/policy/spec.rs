//! Policies as text, `cab(beta=4, sensitivity=0.1)`, and their conversion to algorithms with all constants set.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::fixed::FixedName;
use super::{Adaptive, AnyPolicy, Cab, Fixed, Greedy, Halving, Ogd, Sparse, Vanilla, Widths, is_size};
use crate::confidence::Sensitivity;
use crate::error::{Error, Result};
use crate::loss::Ranges;
use crate::text::{Call, Reader, nearest};

/// The constants of the paper's ε: given, or from the ranges of the objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WidthSpec {
    /// β > 1; the proof of Theorem 2 needs 4.
    pub beta: f64,
    /// Δ_L.
    pub sensitivity: Option<f64>,
    /// Δκ; if only Δ_L is given, it is scaled proportionally.
    pub kappa: Option<f64>,
}

impl Default for WidthSpec {
    fn default() -> Self {
        Self { beta: 4.0, sensitivity: None, kappa: None }
    }
}

impl WidthSpec {
    /// Tuned widths: the default constants with this Δ_L.
    pub fn tuned(sensitivity: f64) -> Self {
        Self { sensitivity: Some(sensitivity), ..Self::default() }
    }

    fn resolve(&self, ranges: &Result<Ranges>) -> Result<Widths> {
        if self.beta.is_nan() || self.beta <= 1.0 {
            return Err(Error::setting(
                "beta",
                self.beta,
                "more than 1 (4 for the proven bound); for narrower widths give a smaller sensitivity",
            ));
        }
        constant("beta", self.beta)?;
        let known = ranges.as_ref().map(|ranges| Sensitivity::from(*ranges));
        let (loss, kappa) = match (self.sensitivity, self.kappa, known) {
            (Some(loss), Some(kappa), _) => (loss, kappa),
            (Some(loss), None, Ok(known)) if known.loss > 0.0 => (loss, known.kappa * loss / known.loss),
            // Without a linear term Δ_L = 2Δκ, and with one Δκ is smaller: it is at most half of Δ_L.
            (Some(loss), None, _) => (loss, loss / 2.0),
            (None, kappa, Ok(known)) => (known.loss, kappa.unwrap_or(known.kappa)),
            (None, _, Err(Error::Missing { what, needs, .. })) => return Err(Error::missing(what, needs)),
            (None, _, Err(error)) => return Err(Error::missing("the width of this policy", error.to_string())),
        };
        Ok(Widths {
            beta: self.beta,
            sensitivity: Sensitivity { loss: constant("sensitivity", loss)?, kappa: constant("kappa", kappa)? },
        })
    }
}

/// Checks that a constant is neither negative nor so large that widths overflow.
fn constant(what: &str, value: f64) -> Result<f64> {
    if is_size(value) { Ok(value) } else { Err(Error::setting(what, value, "zero or a positive number up to 1e50")) }
}

/// A policy and its settings, as written in text.
///
/// ```
/// use modelmix::PolicySpec;
/// let spec: PolicySpec = "sparse(keep=2, sensitivity=0.1)".parse()?;
/// assert_eq!(spec.to_string(), "sparse(sensitivity=0.1, keep=2)");
/// # Ok::<(), modelmix::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum PolicySpec {
    /// [`Adaptive`], the default, which has no constants.
    #[default]
    Adaptive,
    /// [`Cab`].
    Cab(WidthSpec),
    /// [`Ogd`].
    Ogd(WidthSpec),
    /// [`Vanilla`].
    Vanilla(WidthSpec),
    /// [`Sparse`] with a fee per round and arm.
    SparseFee(WidthSpec, f64),
    /// [`Sparse`] down to a number of arms; the fee grows by a step per round, Δ_L/200 by default.
    SparseKeep(WidthSpec, usize, Option<f64>),
    /// [`Greedy`].
    Greedy,
    /// [`Halving`] with a budget; the default is the session's number of rounds.
    Halving(Option<usize>),
    /// [`Fixed`] with equal shares.
    Uniform,
    /// [`Fixed`] with any weights, tracked or drawn at random.
    Fixed(Vec<f64>, bool),
    /// [`Fixed`] with the optimal weights of the recorded arms, which only a simulation knows.
    MixtureOracle,
    /// [`Fixed`] on the best single recorded arm, which only a simulation knows.
    OneArmOracle,
}

const NAMES: [&str; 11] = [
    "adaptive",
    "cab",
    "ogd",
    "sparse",
    "greedy",
    "vanilla",
    "halving",
    "uniform",
    "fixed",
    "mixture-oracle",
    "one-arm-oracle",
];

impl PolicySpec {
    /// The names of all policies.
    pub const NAMES: [&str; 11] = NAMES;

    /// Its name in text.
    pub fn name(&self) -> &'static str {
        match self {
            PolicySpec::Adaptive => "adaptive",
            PolicySpec::Cab(_) => "cab",
            PolicySpec::Ogd(_) => "ogd",
            PolicySpec::Vanilla(_) => "vanilla",
            PolicySpec::SparseFee(..) | PolicySpec::SparseKeep(..) => "sparse",
            PolicySpec::Greedy => "greedy",
            PolicySpec::Halving(_) => "halving",
            PolicySpec::Uniform => "uniform",
            PolicySpec::Fixed(..) => "fixed",
            PolicySpec::MixtureOracle => "mixture-oracle",
            PolicySpec::OneArmOracle => "one-arm-oracle",
        }
    }

    /// Creates the algorithm for `arms` arms. `ranges` is called only by policies that need it. `budget` is the total
    /// number of samples, if known; `oracle` the optimal weights and the best arm, if known.
    pub(crate) fn build(
        &self,
        arms: usize,
        ranges: &Result<Ranges>,
        budget: Option<usize>,
        oracle: Option<(&[f64], usize)>,
    ) -> Result<AnyPolicy> {
        let oracle = || {
            oracle.ok_or_else(|| {
                Error::missing(self.name(), "recorded arms; it uses the optimum, so it runs in simulations only")
            })
        };
        Ok(match self {
            PolicySpec::Adaptive => AnyPolicy::Adaptive(Adaptive::default()),
            PolicySpec::Cab(width) => AnyPolicy::Cab(Cab::new(width.resolve(ranges)?)),
            PolicySpec::Ogd(width) => AnyPolicy::Ogd(Ogd::new(width.resolve(ranges)?)),
            PolicySpec::Vanilla(width) => AnyPolicy::Vanilla(Vanilla::new(width.resolve(ranges)?)),
            PolicySpec::SparseFee(width, fee) => {
                let fee = constant("fee", *fee)?;
                AnyPolicy::Sparse(Sparse::with_fee(arms, width.resolve(ranges)?, fee))
            }
            PolicySpec::SparseKeep(width, keep, step) => {
                let width = width.resolve(ranges)?;
                if *keep == 0 || *keep > arms {
                    return Err(Error::setting("keep", keep, format!("between 1 and the number of arms, {arms}")));
                }
                let step = step.unwrap_or(width.sensitivity.loss / 200.0);
                if step <= 0.0 {
                    return Err(Error::setting("step", step, "a positive number, or the fee never grows"));
                }
                let step = constant("step", step)?;
                AnyPolicy::Sparse(Sparse::with_arms(arms, width, *keep, step))
            }
            PolicySpec::Greedy => AnyPolicy::Greedy(Greedy::default()),
            PolicySpec::Halving(rounds) => {
                let budget = rounds.or(budget).ok_or_else(|| {
                    Error::missing("halving", "the number of samples that will be taken, as in halving(rounds=1000)")
                })?;
                AnyPolicy::Halving(Halving::new(arms, budget))
            }
            PolicySpec::Uniform => AnyPolicy::Fixed(Fixed::uniform(arms)),
            PolicySpec::Fixed(weights, tracked) => {
                if weights.len() != arms {
                    return Err(Error::setting("weights", weights.len(), format!("as many as there are arms, {arms}")));
                }
                AnyPolicy::Fixed(Fixed::new(weights, *tracked)?)
            }
            PolicySpec::MixtureOracle => AnyPolicy::Fixed(Fixed::named(FixedName::MixtureOracle, oracle()?.0, false)?),
            PolicySpec::OneArmOracle => {
                let mut weights = vec![0.0; arms];
                weights[oracle()?.1] = 1.0;
                AnyPolicy::Fixed(Fixed::named(FixedName::OneArmOracle, &weights, false)?)
            }
        })
    }

    /// Parses `name` or `name(key=value, …)`.
    ///
    /// # Errors
    /// What was expected, and at which character.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader::new(text);
        let mut call = reader.call("a policy")?;
        if !reader.is_done() {
            return Err(reader.error(reader.at(), "unexpected text after the policy"));
        }
        let width = |call: &mut Call<'_>| -> Result<WidthSpec> {
            Ok(WidthSpec {
                beta: call.number(&reader, "beta")?.unwrap_or(WidthSpec::default().beta),
                sensitivity: call.number(&reader, "sensitivity")?,
                kappa: call.number(&reader, "kappa")?,
            })
        };
        let (spec, known): (PolicySpec, &[&str]) = match call.name {
            "adaptive" => (PolicySpec::Adaptive, &[]),
            "cab" => (PolicySpec::Cab(width(&mut call)?), &["beta", "sensitivity", "kappa"]),
            "ogd" => (PolicySpec::Ogd(width(&mut call)?), &["beta", "sensitivity", "kappa"]),
            "vanilla" => (PolicySpec::Vanilla(width(&mut call)?), &["beta", "sensitivity", "kappa"]),
            "sparse" => {
                let width = width(&mut call)?;
                let (fee, keep, step) =
                    (call.number(&reader, "fee")?, call.count(&reader, "keep")?, call.number(&reader, "step")?);
                let spec = match (fee, keep) {
                    (Some(fee), None) if step.is_none() => PolicySpec::SparseFee(width, fee),
                    (None, Some(keep)) => PolicySpec::SparseKeep(width, keep, step),
                    _ => return Err(reader.error(call.at, "sparse needs either fee=…, the fee per arm and round, or keep=…, the number of arms to end with (then step=…, how fast the fee grows, is optional)")),
                };
                (spec, &["beta", "sensitivity", "kappa", "fee", "keep", "step"])
            }
            "greedy" => (PolicySpec::Greedy, &[]),
            "halving" => (PolicySpec::Halving(call.count(&reader, "rounds")?), &["rounds"]),
            "uniform" => (PolicySpec::Uniform, &[]),
            "fixed" => {
                let Some((list, at)) = call.argument("weights") else {
                    return Err(reader.error(call.at, "fixed needs its weights, as in fixed(weights=0.5 0.3 0.2)"));
                };
                let weights = list.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
                let weights = weights.map_err(|_| reader.error(at, "weights must be numbers separated by spaces"))?;
                let tracked = match call.argument("tracked") {
                    None | Some(("false", _)) => false,
                    Some(("true", _)) => true,
                    Some((value, at)) => {
                        return Err(reader.error(at, format!("tracked must be true or false, not \"{value}\"")));
                    }
                };
                (PolicySpec::Fixed(weights, tracked), &["weights", "tracked"])
            }
            "mixture-oracle" => (PolicySpec::MixtureOracle, &[]),
            "one-arm-oracle" => (PolicySpec::OneArmOracle, &[]),
            name => {
                let hint = nearest(name, &NAMES).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                return Err(
                    reader.error(call.at, format!("there is no policy {name}{hint}; there are {}", NAMES.join(", ")))
                );
            }
        };
        call.finish(&reader, known)?;
        Ok(spec)
    }
}

impl FromStr for PolicySpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for PolicySpec {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<PolicySpec> for String {
    fn from(spec: PolicySpec) -> Self {
        spec.to_string()
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut settings: Vec<String> = Vec::new();
        let mut set = |key: &str, value: Option<String>| settings.extend(value.map(|value| format!("{key}={value}")));
        if let PolicySpec::Cab(width)
        | PolicySpec::Ogd(width)
        | PolicySpec::Vanilla(width)
        | PolicySpec::SparseFee(width, _)
        | PolicySpec::SparseKeep(width, ..) = self
        {
            set("beta", (width.beta != WidthSpec::default().beta).then(|| width.beta.to_string()));
            set("sensitivity", width.sensitivity.map(|value| value.to_string()));
            set("kappa", width.kappa.map(|value| value.to_string()));
        }
        match self {
            PolicySpec::SparseFee(_, fee) => set("fee", Some(fee.to_string())),
            PolicySpec::SparseKeep(_, keep, step) => {
                set("keep", Some(keep.to_string()));
                set("step", step.map(|step| step.to_string()));
            }
            PolicySpec::Halving(rounds) => set("rounds", rounds.map(|rounds| rounds.to_string())),
            PolicySpec::Fixed(weights, tracked) => {
                set("weights", Some(weights.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")));
                set("tracked", tracked.then(|| "true".into()));
            }
            _ => {}
        }
        write!(f, "{}", self.name())?;
        if settings.is_empty() { Ok(()) } else { write!(f, "({})", settings.join(", ")) }
    }
}
