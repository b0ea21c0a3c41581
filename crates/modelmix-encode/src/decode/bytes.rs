//! A position in the bytes of a file; every read is checked against their end.

/// The bytes of a file and the position of the next read.
pub(super) struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    /// Starts reading at `at`, which may be after the end.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The position, counted from the start of the file.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next `count` bytes; `None` if fewer are left.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// The next `count` bytes, or all that are left if they are fewer.
    pub(super) fn take_up_to(&mut self, count: usize) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = &rest[..count.min(rest.len())];
        self.at += taken.len();
        taken
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}
