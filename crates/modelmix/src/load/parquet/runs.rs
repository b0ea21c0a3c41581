//! Small numbers of a fixed number of bits in runs: repeated, or packed side by side (RLE/bit-packing hybrid). Levels and
//! indices into dictionaries are stored this way. They are decoded one by one or in bulk.

use super::thrift::Damage;

const TOO_SHORT: Damage = "a page has fewer levels or indices than it claims";

/// The number of packed values decoded at once, on the stack.
const BLOCK_VALUES: usize = 256;

/// A position in runs that are part of the bytes of a page, which every method takes.
pub(super) struct Runs {
    /// Where the next run begins, and where the last one ends.
    at: usize,
    end: usize,
    /// The number of bits per value, at most 32.
    width: u32,
    run: Run,
}

/// The run at the current position.
#[derive(Clone, Copy)]
enum Run {
    Repeated {
        left: u64,
        value: u32,
    },
    /// The next bit counts from the first byte.
    Packed {
        left: u64,
        at: usize,
        end: usize,
        bit: usize,
    },
}

/// Several values in order.
pub(super) enum Piece<'a> {
    Repeated { count: usize, value: u32 },
    Packed(&'a [u32]),
}

impl Runs {
    /// The runs in `bytes[at..end]`.
    pub(super) fn new(at: usize, end: usize, width: u32) -> Result<Self, Damage> {
        let run = Run::Repeated { left: 0, value: 0 };
        if width > 32 { Err("a page packs its values too widely") } else { Ok(Self { at, end, width, run }) }
    }

    /// The next value.
    #[inline]
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<u32, Damage> {
        if self.width == 0 {
            return Ok(0);
        }
        loop {
            match &mut self.run {
                Run::Repeated { left: 0, .. } | Run::Packed { left: 0, .. } => self.run = self.begin(bytes)?,
                Run::Repeated { left, value } => {
                    *left -= 1;
                    return Ok(*value);
                }
                Run::Packed { left, at, end, bit } => {
                    let mut value = [0];
                    unpack(&bytes[*at..*end], *bit, self.width, &mut value)?;
                    *left -= 1;
                    *bit += self.width as usize;
                    return Ok(value[0]);
                }
            }
        }
    }

    /// Passes the next `count` values to `each`, in order.
    pub(super) fn visit(
        &mut self,
        bytes: &[u8],
        count: usize,
        mut each: impl FnMut(Piece<'_>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        if self.width == 0 {
            return if count > 0 { each(Piece::Repeated { count, value: 0 }) } else { Ok(()) };
        }
        let mut block = [0; BLOCK_VALUES];
        let mut wanted = count;
        while wanted > 0 {
            match &mut self.run {
                Run::Repeated { left: 0, .. } | Run::Packed { left: 0, .. } => self.run = self.begin(bytes)?,
                Run::Repeated { left, value } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(wanted);
                    *left -= count as u64;
                    wanted -= count;
                    each(Piece::Repeated { count, value: *value })?;
                }
                Run::Packed { left, at, end, bit } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(wanted).min(BLOCK_VALUES);
                    unpack(&bytes[*at..*end], *bit, self.width, &mut block[..count])?;
                    *left -= count as u64;
                    *bit += count * self.width as usize;
                    wanted -= count;
                    each(Piece::Packed(&block[..count]))?;
                }
            }
        }
        Ok(())
    }

    /// Consumes `count` values; returns the position and the value of the first that is not `expected`.
    pub(super) fn first_other(
        &mut self,
        bytes: &[u8],
        count: usize,
        expected: u32,
    ) -> Result<Option<(usize, u32)>, Damage> {
        let (mut at, mut other) = (0, None);
        self.visit(bytes, count, |piece| {
            match piece {
                Piece::Repeated { count, value } => {
                    if value != expected && other.is_none() {
                        other = Some((at, value));
                    }
                    at += count;
                }
                Piece::Packed(values) => {
                    if other.is_none() {
                        let place = values.iter().position(|value| *value != expected);
                        other = place.map(|place| (at + place, values[place]));
                    }
                    at += values.len();
                }
            }
            Ok(())
        })?;
        Ok(other)
    }

    /// Consumes `count` values and appends the positions of those that are 0.
    pub(super) fn zeros(&mut self, bytes: &[u8], count: usize, zeros: &mut Vec<usize>) -> Result<(), Damage> {
        let mut at = 0;
        self.visit(bytes, count, |piece| {
            match piece {
                Piece::Repeated { count, value } => {
                    if value == 0 {
                        zeros.extend(at..at + count);
                    }
                    at += count;
                }
                Piece::Packed(values) => {
                    zeros.extend((at..).zip(values).filter(|(_, value)| **value == 0).map(|(at, _)| at));
                    at += values.len();
                }
            }
            Ok(())
        })
    }

    /// The next run.
    fn begin(&mut self, bytes: &[u8]) -> Result<Run, Damage> {
        let mut rest = bytes.get(self.at..self.end).ok_or(TOO_SHORT)?;
        let mut head = 0_u64;
        for shift in (0..35).step_by(7) {
            let (&byte, behind) = rest.split_first().ok_or(TOO_SHORT)?;
            rest = behind;
            head |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        if head & 1 == 0 {
            let (stored, behind) = rest.split_at_checked(self.width.div_ceil(8) as usize).ok_or(TOO_SHORT)?;
            self.at = self.end - behind.len();
            let mut value = [0; 4];
            value[..stored.len()].copy_from_slice(stored);
            return Ok(Run::Repeated { left: head >> 1, value: u32::from_le_bytes(value) });
        }
        // Eight values per group; the last group may be truncated if its values are not needed.
        let groups = head >> 1;
        let length = rest.len().min((groups * u64::from(self.width)) as usize);
        let at = self.end - rest.len();
        self.at = at + length;
        Ok(Run::Packed { left: groups * 8, at, end: at + length, bit: 0 })
    }
}

/// Runs with the bytes that contain them.
pub(super) struct Hybrid<'a> {
    bytes: &'a [u8],
    runs: Runs,
}

impl<'a> Hybrid<'a> {
    pub(super) fn new(bytes: &'a [u8], runs: Runs) -> Self {
        Self { bytes, runs }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<u32, Damage> {
        self.runs.next(self.bytes)
    }
}

/// Decodes values of `width` bits from 1 to 32, the first of which begins at a bit of `packed`, least significant bit first.
#[inline]
fn unpack(packed: &[u8], bit: usize, width: u32, values: &mut [u32]) -> Result<(), Damage> {
    /// A value and the bits before it in its first byte take at most 39 bits, so they are part of a window.
    const WINDOW: usize = 8;
    let width = width as usize;
    let (first, shift) = (bit / 8, bit % 8);
    let needed = (shift + values.len() * width).div_ceil(8);
    let there = packed.get(first..).unwrap_or_default();
    if there.len() < needed {
        return Err(TOO_SHORT);
    }
    // The last values of a run need a window that extends beyond it.
    let extended;
    let there = if there.len() < needed + WINDOW {
        let mut copy = [0; BLOCK_VALUES * 4 + 2 * WINDOW];
        copy[..needed].copy_from_slice(&there[..needed]);
        extended = copy;
        &extended[..needed + WINDOW]
    } else {
        &there[..needed + WINDOW]
    };
    let mask = (1_u64 << width) - 1;
    let mut bit = shift;
    for value in values {
        let window = there[bit / 8..].first_chunk().ok_or(TOO_SHORT)?;
        *value = (u64::from_le_bytes(*window) >> (bit % 8) & mask) as u32;
        bit += width;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs by the definition: bit `b` of value `v` is bit `v * width + b` of the bytes.
    fn packed(values: &[u32], width: usize) -> Vec<u8> {
        let mut bytes = vec![0; (values.len() * width).div_ceil(8)];
        for (at, value) in values.iter().enumerate() {
            for bit in 0..width {
                let to = at * width + bit;
                bytes[to / 8] |= ((value >> bit & 1) as u8) << (to % 8);
            }
        }
        bytes
    }

    #[test]
    fn every_width_is_decoded_in_bulk_and_one_by_one() {
        for width in 1..=32_u32 {
            let mask = ((1_u64 << width) - 1) as u32;
            let values: Vec<u32> = (0..800_u32).map(|at| at.wrapping_mul(2_654_435_761) >> 3 & mask).collect();
            // Two bytes of something else, a run of 100 groups, and a run of 50 times 1.
            let mut bytes = vec![9, 9, (100 << 1 | 1) as u8, 1];
            bytes.extend(packed(&values, width as usize));
            bytes.push(50 << 1);
            bytes.extend(&1_u32.to_le_bytes()[..width.div_ceil(8) as usize]);
            let expected: Vec<u32> = values.into_iter().chain([1; 50]).collect();
            let runs = || Runs::new(2, bytes.len(), width).expect("a width of at most 32");
            let mut one_by_one = Hybrid::new(&bytes, runs());
            let found: Vec<u32> = (0..850).map(|_| one_by_one.next().expect("a value")).collect();
            assert_eq!(found, expected, "{width}");
            assert!(one_by_one.next().is_err());
            for step in [1, 7, 300, 850] {
                let (mut runs, mut found) = (runs(), Vec::new());
                while found.len() < 850 {
                    let count = step.min(850 - found.len());
                    let visited = runs.visit(&bytes, count, |piece| {
                        match piece {
                            Piece::Repeated { count, value } => found.extend(std::iter::repeat_n(value, count)),
                            Piece::Packed(values) => found.extend(values),
                        }
                        Ok(())
                    });
                    visited.expect("values");
                }
                assert_eq!(found, expected, "{width} {step}");
                assert!(runs.visit(&bytes, 1, |_| Ok(())).is_err());
            }
            let mut zeros = Vec::new();
            runs().zeros(&bytes, 850, &mut zeros).expect("values");
            assert_eq!(zeros, (0..850).filter(|&at| expected[at] == 0).collect::<Vec<_>>());
            let other = expected.iter().position(|&value| value != expected[0]).map(|at| (at, expected[at]));
            assert_eq!(runs().first_other(&bytes, 850, expected[0]).expect("values"), other);
            assert!(runs().visit(&bytes[..bytes.len() - 60], 801, |_| Ok(())).is_err());
        }
    }
}
