//! NumPy's legacy generator, for presets that draw the same subsets as other tools.

use std::collections::HashMap;

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
    /// The shuffle is not carried out: its swaps are followed backwards from the places that are asked for, so that of all places only
    /// a bit is held, and few swaps concern any of them.
    ///
    /// # Panics
    /// If `count` exceeds `len`.
    pub fn choice(&mut self, len: usize, count: usize) -> Vec<usize> {
        assert!(count <= len, "{count} of {len}");
        let partners = self.partners(len);
        // Place → element of the result, after the swaps that are not yet followed.
        let mut wanted: HashMap<usize, usize> = (0..count).map(|place| (place, place)).collect();
        let mut is_wanted = vec![0_u64; len.div_ceil(64)];
        for place in 0..count {
            flip(&mut is_wanted, place);
        }
        let mut swap = |last: usize, partner: usize| {
            let moved = (wanted.remove(&last), wanted.remove(&partner));
            wanted.extend(moved.0.map(|element| (partner, element)));
            wanted.extend(moved.1.map(|element| (last, element)));
        };
        // The first swaps to be followed are among wanted places.
        let among = count.saturating_sub(1).min(partners.len());
        for (last, &partner) in (1..=among).zip(partners.iter().rev()) {
            if partner != last {
                swap(last, partner);
            }
        }
        // In the others the last place is not wanted yet.
        for (last, &partner) in (among + 1..len).zip(partners.iter().rev().skip(among)) {
            if is_wanted[partner / 64] >> (partner % 64) & 1 == 1 && partner != last {
                swap(last, partner);
                flip(&mut is_wanted, last);
                flip(&mut is_wanted, partner);
            }
        }
        let mut chosen = vec![0; count];
        for (place, element) in wanted {
            chosen[element] = place;
        }
        chosen
    }

    /// The partners with which a shuffle of 0..len swaps the place len − 1, the place before it, and so on: uniform integers up to the
    /// place itself, which are bits under the smallest mask that covers it, with rejection.
    fn partners(&mut self, len: usize) -> Vec<usize> {
        let mut most = len.saturating_sub(1);
        let mut partners = vec![0; most];
        let mut drawn = 0;
        while most > 0 {
            let mask = usize::MAX >> most.leading_zeros();
            let is_long = u32::try_from(mask).is_err();
            // Without a branch, since a processor cannot foresee which bits are rejected.
            while most > mask / 2 {
                let high = if is_long { self.0.next_u32() as usize } else { 0 };
                let bits = (high.wrapping_shl(32) | self.0.next_u32() as usize) & mask;
                partners[drawn] = bits;
                let accepted = usize::from(bits <= most);
                drawn += accepted;
                most -= accepted;
            }
        }
        partners
    }
}

fn flip(bits: &mut [u64], place: usize) {
    bits[place / 64] ^= 1 << (place % 64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shuffle itself, as NumPy carries it out.
    fn shuffled(random: &mut NumPyRandom, len: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        for last in (1..len).rev() {
            let mask = u32::MAX >> (last as u32).leading_zeros();
            let other = std::iter::repeat_with(|| (random.0.next_u32() & mask) as usize).find(|&bits| bits <= last);
            all.swap(last, other.expect("half of the bits or more are accepted"));
        }
        all
    }

    #[test]
    fn choice_is_the_beginning_of_a_shuffle() {
        for len in [0_usize, 1, 2, 3, 63, 64, 65, 1000, 10_007] {
            for count in [0, 1, 2, len / 3, len.saturating_sub(1), len].into_iter().filter(|&count| count <= len) {
                let (mut random, mut same) = (NumPyRandom::seeded(len as u32), NumPyRandom::seeded(len as u32));
                assert_eq!(random.choice(len, count), shuffled(&mut same, len)[..count], "{count} of {len}");
                assert_eq!(random.choice(100, 3), shuffled(&mut same, 100)[..3], "after {count} of {len}");
            }
        }
    }
}
