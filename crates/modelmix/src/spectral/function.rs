//! Functions of eigenvalues: the h of tr h(M), with what Newton's method needs of it.

/// A convex function h on eigenvalues λ ≥ 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    /// −2√λ, of Fréchet distances.
    Root,
    /// (λ^q − λ)/(q − 1), and λ ln λ for q = 1: on matrices of trace 1 the negative Tsallis entropy of order q, which is
    /// convex for every q > 0 and falls as the Vendi score rises.
    Tsallis(f64),
}

impl Function {
    /// Orders near 1 are taken as λ·(λ^(q−1) − 1)/(q − 1), which has no difference of nearly equal numbers; others as
    /// λ^q/(q − 1) with a constant apart, which would swamp the powers of high orders.
    fn is_near_one(order: f64) -> bool {
        (order - 1.0).abs() < 0.5
    }

    /// What tr h is short of.
    pub(crate) fn constant(self) -> f64 {
        match self {
            Function::Tsallis(order) if !Self::is_near_one(order) => -1.0 / (order - 1.0),
            _ => 0.0,
        }
    }

    /// (λ^(q−1) − 1)/(q − 1), the logarithm for q = 1.
    fn logarithm(order: f64, x: f64) -> f64 {
        let power = order - 1.0;
        if power == 0.0 { x.ln() } else { (power * x.ln()).exp_m1() / power }
    }

    pub(crate) fn value(self, x: f64) -> f64 {
        match self {
            _ if x <= 0.0 => 0.0,
            Function::Root => -2.0 * x.sqrt(),
            Function::Tsallis(order) if Self::is_near_one(order) => x * Self::logarithm(order, x),
            Function::Tsallis(order) => x.powf(order) / (order - 1.0),
        }
    }

    /// h′.
    pub(crate) fn slope(self, x: f64) -> f64 {
        match self {
            Function::Root => -1.0 / x.sqrt(),
            Function::Tsallis(order) if Self::is_near_one(order) => x.powf(order - 1.0) + Self::logarithm(order, x),
            Function::Tsallis(order) => order * x.powf(order - 1.0) / (order - 1.0),
        }
    }

    /// h″.
    pub(crate) fn curvature(self, x: f64) -> f64 {
        match self {
            Function::Root => 0.5 / (x * x.sqrt()),
            Function::Tsallis(order) => order * x.powf(order - 2.0),
        }
    }

    /// Whether h′ is infinite at 0.
    pub(crate) fn has_infinite_slope_at_zero(self) -> bool {
        match self {
            Function::Root => true,
            Function::Tsallis(order) => order <= 1.0,
        }
    }

    /// The Vendi number exp(H_q) = (tr ρ^q)^(1/(1−q)) of tr h(ρ), or exp(−Σλ ln λ) for q = 1. Nothing for other functions.
    pub(crate) fn vendi(self, trace: f64) -> Option<f64> {
        match self {
            Function::Root => None,
            Function::Tsallis(1.0) => Some((-trace).exp()),
            Function::Tsallis(order) if Self::is_near_one(order) => {
                Some((((order - 1.0) * trace).ln_1p() / (1.0 - order)).exp())
            }
            Function::Tsallis(order) => Some(((order - 1.0) * trace).powf(1.0 / (1.0 - order))),
        }
    }
}
