//! Sums of double-precision numbers without rounding: the same value in any order of additions.

/// The bits of a limb. Limbs are wider than that, so that carries wait.
const LIMB_BITS: usize = 32;
/// Limbs for all finite numbers, whose bits have weights from 2⁻¹⁰⁷⁴ to 2¹⁰²³, and for 2⁶³ additions.
pub(super) const LIMBS: usize = 68;
/// Each addition changes a limb by less than 2³², so this many fit into 63 bits.
const MAX_UNCARRIED: u32 = 1 << 30;

/// A sum of finite numbers, exact until it is read.
#[derive(Clone, Debug)]
pub(super) struct ExactSum {
    limbs: Box<[i64; LIMBS]>,
    uncarried: u32,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self { limbs: Box::new([0; LIMBS]), uncarried: 0 }
    }
}

impl PartialEq for ExactSum {
    fn eq(&self, other: &Self) -> bool {
        self.carried() == other.carried()
    }
}

impl ExactSum {
    /// Adds a finite number.
    pub(super) fn add(&mut self, value: f64) {
        debug_assert!(value.is_finite(), "checked before");
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as usize;
        let fraction = bits & ((1 << 52) - 1);
        // Numbers below 2⁻¹⁰²² have no leading one and the exponent of the smallest ones that do.
        let (mantissa, position) = if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let shifted = u128::from(mantissa) << (position % LIMB_BITS);
        let sign = if value.is_sign_negative() { -1 } else { 1 };
        for part in 0..3 {
            let digits = (shifted >> (part * LIMB_BITS)) as u32;
            // The highest position is 2045, so three limbs from there exist.
            self.limbs[position / LIMB_BITS + part] += sign * i64::from(digits);
        }
        self.count(1);
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &Self) {
        *self.limbs = self.carried();
        self.limbs.iter_mut().zip(other.carried()).for_each(|(sum, more)| *sum += more);
        self.uncarried = 2;
    }

    fn count(&mut self, additions: u32) {
        self.uncarried += additions;
        if self.uncarried >= MAX_UNCARRIED {
            *self.limbs = self.carried();
            self.uncarried = 1;
        }
    }

    /// The limbs after carries: all but the last are from 0 to 2³² − 1. Equal sums have equal limbs.
    pub(super) fn carried(&self) -> [i64; LIMBS] {
        let mut limbs = *self.limbs;
        let mut carry = 0;
        for limb in &mut limbs[..LIMBS - 1] {
            let value = *limb + carry;
            carry = value >> LIMB_BITS;
            *limb = value & ((1 << LIMB_BITS) - 1);
        }
        limbs[LIMBS - 1] += carry;
        limbs
    }

    pub(super) fn from_carried(limbs: [i64; LIMBS]) -> Self {
        Self { limbs: Box::new(limbs), uncarried: 1 }
    }

    /// The sum, rounded to within two units in the last place.
    pub(super) fn value(&self) -> f64 {
        let limbs = self.carried();
        let is_negative = limbs[LIMBS - 1] < 0;
        let magnitude = if is_negative {
            let mut negated = Self::default();
            negated.limbs.iter_mut().zip(limbs).for_each(|(sum, limb)| *sum = -limb);
            negated.carried()
        } else {
            limbs
        };
        // From the highest limb down; each has 32 bits, so three hold all bits of the result.
        let Some(top) = magnitude.iter().rposition(|&limb| limb != 0) else { return 0.0 };
        let mut sum = 0.0;
        for at in (top.saturating_sub(3)..=top).rev() {
            let scale = (at * LIMB_BITS) as i32 - 1074;
            // In two steps, since 2^scale alone may be below the smallest number.
            sum += magnitude[at] as f64 * power_of_two(scale / 2) * power_of_two(scale - scale / 2);
        }
        if is_negative { -sum } else { sum }
    }
}

/// 2 to a power from −1022 to 1023, exactly. The standard library states no precision for `powi`, and one machine rounded 2⁻⁵⁵.
pub(super) fn power_of_two(exponent: i32) -> f64 {
    debug_assert!((-1022..=1023).contains(&exponent), "a normal number");
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The least power of two that is not below a positive number; 1 for numbers that have none, such as 0.
pub(super) fn next_power_of_two(value: f64) -> f64 {
    if !value.is_normal() || value > power_of_two(1023) {
        return 1.0;
    }
    let power = f64::from_bits(value.to_bits() & !((1 << 52) - 1));
    if power == value { power } else { 2.0 * power }
}

#[cfg(test)]
mod tests {
    use super::{ExactSum, next_power_of_two, power_of_two};
    use crate::random::Random;

    fn sum(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        sum
    }

    #[test]
    fn cancellation_is_exact() {
        assert_eq!(sum(&[1e300, 1.0, -1e300]).value(), 1.0);
        assert_eq!(sum(&[1e-320, -1e-320]).value(), 0.0);
        // What Python's fractions give.
        assert_eq!(sum(&[0.1, 0.2, -0.3]).value(), 2.7755575615628914e-17);
        assert_eq!(sum(&[-1.5, -2.25]).value(), -3.75);
        assert_eq!(sum(&[f64::MIN_POSITIVE / 4.0]).value(), f64::MIN_POSITIVE / 4.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]).value(), f64::MAX);
        assert_eq!(sum(&[]).value(), 0.0);
    }

    #[test]
    fn powers_of_two_have_one_bit() {
        assert_eq!(power_of_two(-1022), f64::MIN_POSITIVE);
        assert_eq!(power_of_two(-55) * (1_u64 << 55) as f64, 1.0);
        assert_eq!(power_of_two(0), 1.0);
        assert_eq!(power_of_two(1023) * (2.0 - f64::EPSILON), f64::MAX);
        let next = [
            (0.75, 1.0),
            (1.0, 1.0),
            (1.0 + f64::EPSILON, 2.0),
            (5e-9, 7.450580596923828e-9),
            (0.0, 1.0),
            (f64::MAX, 1.0),
        ];
        next.iter().for_each(|&(value, power)| assert_eq!(next_power_of_two(value), power));
    }

    #[test]
    fn any_order_and_any_grouping_have_the_same_limbs() {
        let mut random = Random::seeded(1);
        let mut values: Vec<f64> =
            (0..500).map(|_| random.normal() * 10f64.powi(random.below(60) as i32 - 30)).collect();
        let whole = sum(&values);
        for _ in 0..20 {
            let order = random.sample(values.len(), values.len());
            values = order.into_iter().map(|at| values[at]).collect();
            let cut = random.below(values.len());
            let mut parts = sum(&values[..cut]);
            parts.merge(&sum(&values[cut..]));
            assert_eq!(parts.carried(), whole.carried());
        }
        let largest = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        assert!((whole.value() - values.iter().sum::<f64>()).abs() < 1e-12 * largest);
    }
}
