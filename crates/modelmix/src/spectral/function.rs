//! Functions of eigenvalues: h of tr h(M), and its derivatives for Newton's method.

/// A convex function h on eigenvalues λ ≥ 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    /// −2√λ, for Fréchet distances.
    Root,
    /// (λ^q − λ)/(q − 1), and λ ln λ for q = 1. On matrices of trace 1 its trace is the negative Tsallis entropy of
    /// order q, which is convex for every q > 0 and decreases as the Vendi score increases.
    Tsallis(f64),
}

impl Function {
    /// Orders near 1 are computed as λ·(λ^(q−1) − 1)/(q − 1), which avoids a difference of nearly equal numbers. Others
    /// are computed as λ^q/(q − 1) with a separate constant, which would otherwise dominate the powers of high orders.
    fn is_near_one(order: f64) -> bool {
        (order - 1.0).abs() < 0.5
    }

    /// The constant to add to tr h.
    pub(crate) fn constant(self) -> f64 {
        match self {
            Function::Tsallis(order) if !Self::is_near_one(order) => -1.0 / (order - 1.0),
            _ => 0.0,
        }
    }

    /// (λ^(q−1) − 1)/(q − 1), or the logarithm if q = 1.
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

    /// The Vendi score exp(H_q) = (tr ρ^q)^(1/(1−q)) from tr h(ρ), or exp(−Σλ ln λ) for q = 1. `None` for other
    /// functions.
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
