//! Number formats: as many digits as the error justifies, the same in a whole column, with a typographic minus sign.

pub(super) use modelmix::internals::numbers::count;

/// Text of a missing number.
pub(super) const MISSING_NUMBER: &str = "–";

/// The number format of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    Decimals(usize),
    Scientific,
}

impl Digits {
    /// The format for numbers with these errors: two digits of the lower quartile of the errors. Without errors: three digits of the
    /// median number, and at least one of the smallest.
    pub(super) fn of(values: impl Iterator<Item = f64>, errors: impl Iterator<Item = f64>) -> Self {
        let values = sizes(values);
        let errors = sizes(errors);
        let decimals = |size: f64, digits: i32| digits - 1 - size.log10().floor() as i32;
        let wanted = match (errors.get(errors.len() / 4), values.first(), values.get(values.len() / 2)) {
            (Some(&error), ..) => decimals(error, 2),
            (None, Some(&smallest), Some(&middle)) => {
                decimals(middle, 3).max(decimals(smallest, 1).min(decimals(middle, 5)))
            }
            _ => 0,
        };
        if wanted > 7 { Digits::Scientific } else { Digits::Decimals(wanted.max(0) as usize) }
    }

    pub(super) fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return MISSING_NUMBER.into();
        }
        let text = match self {
            Digits::Decimals(decimals) => format!("{value:.decimals$}"),
            Digits::Scientific => format!("{value:.2e}"),
        };
        signed(text)
    }
}

/// Absolute values of the finite, non-zero numbers, in ascending order.
fn sizes(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sizes: Vec<f64> = values.map(f64::abs).filter(|size| size.is_finite() && *size > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes
}

fn signed(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.into(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
    .replace("e-", "e−")
}

/// A single number.
pub(super) fn brief(value: f64) -> String {
    if value.is_finite() { signed(modelmix::internals::numbers::brief(value)) } else { MISSING_NUMBER.into() }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{}%", signed(format!("{:.1}", 100.0 * share))) } else { MISSING_NUMBER.into() }
}

/// Shares of a whole as percentages with sum 100.
pub(super) fn percents(shares: &[f64]) -> Vec<String> {
    if shares.iter().all(|share| share.is_finite()) {
        modelmix::internals::numbers::percents(shares)
    } else {
        shares.iter().copied().map(percent).collect()
    }
}

/// An axis tick without trailing zeros.
pub(super) fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let text = if value.abs() >= 1e6 || value.abs() < 1e-4 {
        let text = format!("{value:.1e}");
        text.replace(".0e", "e")
    } else {
        let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 7) as usize;
        let text = format!("{value:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    };
    signed(text)
}
