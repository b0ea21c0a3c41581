//! Seeded random numbers: a generator that is reproducible on every platform, and the draws that this crate needs.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// A ChaCha8 generator. Its draws are defined here bit by bit, so that a seed gives the same run in every release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Place", into = "Place")]
pub struct Random(ChaCha8Rng);

/// The state of a generator as data: its key, its stream, and the number of 32-bit words drawn.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// As hexadecimal digits.
    key: String,
    stream: u64,
    position: u64,
}

impl From<Random> for Place {
    fn from(random: Random) -> Self {
        let key = random.0.get_seed().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { key, stream: random.0.get_stream(), position: random.position() }
    }
}

impl TryFrom<Place> for Random {
    type Error = &'static str;

    fn try_from(place: Place) -> Result<Self, Self::Error> {
        let mut key = [0; 32];
        let digits = place.key.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err("the key of a generator has 64 hexadecimal digits");
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
            *byte = 16 * digit(pair[0]) + digit(pair[1]);
        }
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(place.stream);
        let mut random = Self(generator);
        random.seek(place.position);
        Ok(random)
    }
}

impl Random {
    /// Creates the generator of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Creates one of many independent generators of the same seed.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// The number of words drawn from the stream. No run draws 2⁶⁴.
    pub(crate) fn position(&self) -> u64 {
        self.0.get_word_pos() as u64
    }

    /// Moves to the position after this number of words.
    pub(crate) fn seek(&mut self, position: u64) {
        self.0.set_word_pos(u128::from(position));
    }

    /// Draws a uniform number in [0, 1), a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws a standard normal number from two uniform numbers (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Draws a uniform integer in 0..`bound` without bias (Lemire's multiplication with rejection). A bound of 1
    /// consumes no random numbers.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a draw needs at least one possibility");
        if bound == 1 {
            return 0;
        }
        let bound = bound as u64;
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }

    /// Draws an index with probabilities proportional to `weights`. If only one is positive, no random number is
    /// consumed.
    ///
    /// # Panics
    /// If no weight is positive.
    pub fn pick(&mut self, weights: &[f64]) -> usize {
        let positive: Vec<usize> = (0..weights.len()).filter(|&index| weights[index] > 0.0).collect();
        let (&last, others) = positive.split_last().expect("a draw needs a positive weight");
        if others.is_empty() {
            return last;
        }
        let total: f64 = positive.iter().map(|&index| weights[index]).sum();
        let mut left = self.unit() * total;
        for &index in others {
            left -= weights[index];
            if left < 0.0 {
                return index;
            }
        }
        last
    }

    /// The index among `choices` with the smallest value. Ties are broken at random with equal probability; without a
    /// tie, no random number is consumed.
    ///
    /// # Panics
    /// If there are no choices.
    pub fn smallest(&mut self, choices: &[usize], value: impl Fn(usize) -> f64) -> usize {
        let mut best = f64::INFINITY;
        let mut tied = Vec::new();
        for &choice in choices {
            let value = value(choice);
            if value < best || tied.is_empty() {
                best = value;
                tied.clear();
                tied.push(choice);
            } else if value == best {
                tied.push(choice);
            }
        }
        tied[self.below(tied.len())]
    }

    /// Draws `count` distinct indices of 0..`len`, in random order (all of them if `count` ≥ `len`).
    pub fn sample(&mut self, len: usize, count: usize) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..len).collect();
        let count = count.min(len);
        for position in 0..count {
            let other = position + self.below(len - position);
            indices.swap(position, other);
        }
        indices.truncate(count);
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn draws_are_uniform() {
        let mut random = Random::seeded(7);
        let mut counts = [0usize; 5];
        for _ in 0..50_000 {
            counts[random.below(5)] += 1;
        }
        // chi-square with 4 degrees of freedom: 18.47 is the 0.1% point
        let chi: f64 = counts.iter().map(|&count| (count as f64 - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 18.47, "{counts:?}");
    }

    #[test]
    fn a_generator_is_its_key_stream_and_position() {
        let mut random = Random::stream(9, 3);
        for draws in 0..70 {
            let mut sought = Random::stream(9, 3);
            sought.seek(random.position());
            assert_eq!(sought, random, "after {draws} draws");
            let text = serde_json::to_string(&random).expect("it serialises");
            assert_eq!(serde_json::from_str::<Random>(&text).expect("it comes back"), random, "{text}");
            random.unit();
        }
        for text in [r#"{"key":"00","stream":0,"position":0}"#, r#"{"key":"","stream":0,"position":0,"x":1}"#] {
            assert!(serde_json::from_str::<Random>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn picks_follow_weights() {
        let mut random = Random::seeded(3);
        let mut counts = [0usize; 3];
        for _ in 0..40_000 {
            counts[random.pick(&[1.0, 0.0, 3.0])] += 1;
        }
        assert_eq!(counts[1], 0);
        // binomial(40000, 1/4): four standard deviations are 346
        assert!(counts[0].abs_diff(10_000) < 350, "{counts:?}");
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let mut random = Random::seeded(11);
        let values: Vec<f64> = (0..40_000).map(|_| random.normal()).collect();
        let moment = |power: i32| values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64;
        // four standard errors of the mean, the variance and the fourth moment: √(1, 2, 96)/200
        assert!(moment(1).abs() < 0.02 && (moment(2) - 1.0).abs() < 0.0283 && (moment(4) - 3.0).abs() < 0.196);
    }

    #[test]
    fn certain_outcomes_draw_nothing() {
        let mut random = Random::seeded(1);
        let before = random.clone();
        random.pick(&[0.0, 1.0]);
        random.below(1);
        random.smallest(&[0, 1, 2], |index| index as f64);
        assert_eq!(random, before);
    }
}
