//! Number formatting for messages, tables and reports: few digits, but enough to tell two values apart.

/// Formats a number with three significant digits, without an exponent if that is short.
pub fn brief(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.*}", (2 - size.log10().floor() as i32).max(2) as usize)
    } else {
        format!("{value:.2e}")
    }
}

/// A number with at most six significant digits: 38.1746 for 38.17458624220411, and 20 for 20.
pub(crate) fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Formats two numbers like [`brief`], with more digits if they differ but would look the same.
pub(crate) fn brief_pair(one: f64, other: f64) -> (String, String) {
    let (short, other_short) = (brief(one), brief(other));
    if short != other_short || one == other {
        return (short, other_short);
    }
    // Seventeen significant digits distinguish all doubles.
    let decimals = |digits: usize| {
        let before = one.abs().max(other.abs()).log10().floor() as i32 + 1;
        (digits as i32 - before).max(0) as usize
    };
    let written = |value: f64, digits: usize| match value.abs() < 0.001 {
        true => format!("{value:.*e}", digits - 1),
        false => format!("{value:.*}", decimals(digits)),
    };
    (4..=17)
        .map(|digits| (written(one, digits), written(other, digits)))
        .find(|(one, other)| one != other)
        .unwrap_or((short, other_short))
}

/// Parses an amount of memory in bytes: a number with the unit kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of
/// 1024) or B, as in 8GB; without a unit, bytes.
///
/// # Errors
/// A sentence that names the text.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let refuse = || format!("{text} is no amount of memory; write a number with a unit, as in 8GB or 512MiB");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..end].parse().map_err(|_| refuse())?;
    let factor: f64 = match trimmed[end..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "tb" | "t" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        _ => return Err(refuse()),
    };
    let bytes = number * factor;
    if (1.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(refuse()) }
}

/// Two numbers that stand for a share below a tenth of a percent and for one just below the whole.
const BELOW_A_TENTH: &str = "<0.1%";
const NEARLY_ALL: &str = ">99.9%";
/// A sum of shares that is farther than this from 1 is not a whole, such as shares of a part.
const WHOLE_TOLERANCE: f64 = 1e-6;

/// One share in percent with one decimal; "<0.1%" if it would read as nothing and is not.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { BELOW_A_TENTH.into() } else { format!("{:.1}%", 100.0 * share) }
}

/// Shares of a whole in percent with one decimal, as tables show them. The numbers add up to exactly 100.0 (largest remainders);
/// shares that do not sum to 1 are written one by one.
pub fn percents(shares: &[f64]) -> Vec<String> {
    whole(shares, 1)
}

/// The same for sentences: whole percents, with a decimal only if a share would read as nothing or as everything.
pub fn shares(shares: &[f64]) -> Vec<String> {
    let needs_decimal = |share: &f64| (0.0005..0.01).contains(share) || *share > 0.99 && *share <= 0.9995;
    whole(shares, usize::from(shares.iter().any(needs_decimal)))
}

fn whole(shares: &[f64], decimals: usize) -> Vec<String> {
    let is_whole =
        shares.iter().all(|share| *share >= 0.0) && (shares.iter().sum::<f64>() - 1.0).abs() < WHOLE_TOLERANCE;
    if !is_whole {
        return shares.iter().map(|&share| percent(share)).collect();
    }
    let unit = 10u64.pow(decimals as u32);
    let text = |(&share, units): (&f64, u64)| match units {
        0 if share > 0.0 => BELOW_A_TENTH.into(),
        units if units == 100 * unit && share < 1.0 && shares.iter().filter(|share| **share > 0.0).count() > 1 => {
            NEARLY_ALL.into()
        }
        units if decimals == 0 => format!("{units}%"),
        units => format!("{}.{}%", units / unit, units % unit),
    };
    shares.iter().zip(largest_remainders(shares, 100 * unit)).map(text).collect()
}

/// Whole numbers in proportion to shares of 1 that add up to `total`: each is rounded down, and those with the largest remainders,
/// the first of equal ones, are rounded up.
fn largest_remainders(shares: &[f64], total: u64) -> Vec<u64> {
    // A share such as 0.6 times 1000 may fall short of a whole number by rounding.
    let exact = |share: f64| {
        let units = share * total as f64;
        if (units - units.round()).abs() < 1e-6 { units.round() } else { units }
    };
    let exact: Vec<f64> = shares.iter().map(|&share| exact(share)).collect();
    let mut units: Vec<u64> = exact.iter().map(|units| units.floor() as u64).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let remainder = |index: usize| exact[index] - exact[index].floor();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
    let missing = total.saturating_sub(units.iter().sum()) as usize;
    order.iter().take(missing).for_each(|&index| units[index] += 1);
    units
}

/// Formats a count with commas between thousands.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{brief, brief_pair, count, parse_bytes, percents, shares};

    #[test]
    fn amounts_of_memory_are_parsed() {
        for (text, bytes) in
            [("8GB", 8_000_000_000), ("1.5 GiB", 1_610_612_736), ("512mb", 512_000_000), ("4096", 4096)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "0", "-1GB", "8 apples", "1e400", "inf", "1..5GB", "99999999TB"] {
            assert!(parse_bytes(text).is_err_and(|problem| problem.contains("8GB")), "{text}");
        }
    }

    #[test]
    fn three_digits_are_shown() {
        let shown = [(0.0, "0.0"), (123.456, "123.5"), (-1.5, "-1.50"), (0.012345, "0.0123"), (0.00012345, "1.23e-4")];
        for (value, text) in shown {
            assert_eq!(brief(value), text);
        }
        assert_eq!([count(0), count(999), count(1000), count(1234567)], ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_pair_that_differs_reads_differently() {
        let pair = |one, other| {
            let (one, other) = brief_pair(one, other);
            [one, other]
        };
        assert_eq!(pair(1.5, 2.5), ["1.50", "2.50"]);
        assert_eq!(pair(12.662, 12.658), ["12.662", "12.658"]);
        assert_eq!(pair(400.04, 400.0), ["400.04", "400.00"]);
        assert_eq!(pair(1.23451e-5, 1.23449e-5), ["1.235e-5", "1.234e-5"]);
        assert_eq!(pair(-0.50001, -0.50002), ["-0.50001", "-0.50002"]);
        assert_eq!(pair(3.0, 3.0), ["3.00", "3.00"]);
        let [one, other] = pair(1.0, 1.0 + f64::EPSILON);
        assert_ne!(one, other);
    }

    #[test]
    fn shares_add_up_to_a_hundred() {
        assert_eq!(shares(&[0.3747, 0.3146, 0.3107]), ["38%", "31%", "31%"]);
        assert_eq!(percents(&[0.3745, 0.3145, 0.3110]), ["37.5%", "31.4%", "31.1%"]);
        assert_eq!(shares(&[1.0 / 3.0; 3]), ["34%", "33%", "33%"]);
        assert_eq!(percents(&[0.6, 0.4, 0.0]), ["60.0%", "40.0%", "0.0%"]);
        // Against sums of the numbers themselves, for shares of every size.
        let mut state = 1u64;
        for count in 1..200usize {
            let draws: Vec<f64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    ((state >> 33) as f64 / f64::from(1u32 << 31)).powi(3)
                })
                .collect();
            let total: f64 = draws.iter().sum();
            let given: Vec<f64> = draws.iter().map(|draw| draw / total).collect();
            let tenths = |text: &String| match text.as_str() {
                "<0.1%" => 0,
                text => (10.0 * text.trim_end_matches('%').parse::<f64>().expect("a number")).round() as i64,
            };
            let written = percents(&given);
            assert_eq!(written.iter().map(tenths).sum::<i64>(), 1000, "{written:?}");
            for (share, text) in given.iter().zip(&written) {
                assert!((1000.0 * share - tenths(text) as f64).abs() <= 1.0, "{share} as {text}");
            }
        }
    }

    #[test]
    fn a_share_is_never_rounded_to_nothing_or_to_all() {
        assert_eq!(shares(&[0.8, 0.2 - 1e-9, 1e-9]), ["80%", "20%", "<0.1%"]);
        assert_eq!(shares(&[0.9951, 0.0049]), ["99.5%", "0.5%"]);
        assert_eq!(shares(&[0.99999, 0.00001]), [">99.9%", "<0.1%"]);
        assert_eq!(percents(&[0.99999, 0.00001]), [">99.9%", "<0.1%"]);
        assert_eq!(shares(&[1.0, 0.0]), ["100%", "0%"]);
        // Parts of a whole are written as they are.
        assert_eq!(percents(&[0.25, 0.0001]), ["25.0%", "<0.1%"]);
    }
}
