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

/// Formats a share in whole percent, or with a decimal if it would otherwise round to 0% or 100%.
pub(crate) fn share(share: f64) -> String {
    if share >= 1.0 {
        "100%".into()
    } else if share > 0.9995 {
        ">99.9%".into()
    } else if (0.01..=0.99).contains(&share) || share <= 0.0 {
        format!("{:.0}%", 100.0 * share)
    } else if share < 0.0005 {
        "<0.1%".into()
    } else {
        format!("{:.1}%", 100.0 * share)
    }
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
    use super::{brief, brief_pair, count, share};

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
    fn a_share_is_never_rounded_to_nothing_or_to_all() {
        let shares = [0.0, 1e-9, 0.0049, 0.0051, 0.01, 0.374, 0.99, 0.997, 0.99999, 1.0].map(share);
        assert_eq!(shares, ["0%", "<0.1%", "0.5%", "0.5%", "1%", "37%", "99%", "99.7%", ">99.9%", "100%"]);
    }
}
