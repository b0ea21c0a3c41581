//! NumPy's legacy generator, for presets that draw the same subsets as other tools.

use rand_mt::Mt;

/// `numpy.random.RandomState` of a seed, with the one method that other tools use.
#[derive(Clone, Debug)]
pub struct NumPyRandom(Mt);

impl NumPyRandom {
    /// `RandomState(seed)`.
    pub fn seeded(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// `choice(len, count, replace=False)`: the first elements of a shuffle of 0..len, which NumPy keeps for
    /// reproducibility.
    ///
    /// # Panics
    /// If `count` exceeds `len`.
    pub fn choice(&mut self, len: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        for last in (1..len).rev() {
            let other = self.at_most(last as u64) as usize;
            all.swap(last, other);
        }
        all[..count].to_vec()
    }

    /// Draws a uniform integer in 0..=`most`: bits under the smallest mask that covers it, with rejection.
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
