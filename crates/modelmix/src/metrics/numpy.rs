//! NumPy's legacy generator, for presets that draw the very subsets that other tools draw.

use rand_mt::Mt;

/// `numpy.random.RandomState` of a seed, and the one draw that tools use of it.
#[derive(Clone, Debug)]
pub struct NumPyRandom(Mt);

impl NumPyRandom {
    /// `RandomState(seed)`.
    pub fn seeded(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// `choice(len, count, replace=False)`: the first of a shuffle of 0..len, as NumPy has kept it for old seeds' sake.
    ///
    /// # Panics
    /// Where `count` is more than `len`.
    pub fn choice(&mut self, len: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        for last in (1..len).rev() {
            let other = self.at_most(last as u64) as usize;
            all.swap(last, other);
        }
        all[..count].to_vec()
    }

    /// Uniform in 0..=`most`: bits under the smallest mask that holds it, drawn again while they are too large.
    fn at_most(&mut self, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let mask = u64::MAX >> most.leading_zeros();
        loop {
            let bits = if most <= u64::from(u32::MAX) {
                u64::from(self.0.next_u32())
            } else {
                let high = u64::from(self.0.next_u32());
                (high << 32) | u64::from(self.0.next_u32())
            };
            if bits & mask <= most {
                return bits & mask;
            }
        }
    }
}
