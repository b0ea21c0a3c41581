//! The wire format of protocol buffers, as far as ONNX uses it: messages of numbers and runs of bytes.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Adds a field with a number. Negative integers are passed as their two's complement.
    pub(super) fn number(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(number);
    }

    /// Adds a field with a run of bytes.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a field with a text.
    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Adds a field with a message.
    pub(super) fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// Adds fields that are encoded already.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// Its bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Seven bits per byte, the lowest first; the high bit says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

/// The fields of a message that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    /// The fields in these bytes.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether the fields end where the bytes end, so that none is damaged or cut.
    pub(super) fn are_whole(mut self) -> bool {
        while !self.0.is_empty() {
            if self.next().is_none() {
                return false;
            }
        }
        true
    }

    /// The runs of bytes in the fields with this number: texts or messages.
    pub(super) fn all(self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.filter_map(move |(number, value)| match value {
            Field::Bytes(bytes) if number == field => Some(bytes),
            _ => None,
        })
    }

    /// The fields, each with its encoded form.
    pub(super) fn encoded(mut self) -> impl Iterator<Item = (u64, Field<'a>, &'a [u8])> {
        std::iter::from_fn(move || {
            let before = self.0;
            let (number, value) = self.next()?;
            Some((number, value, &before[..before.len() - self.0.len()]))
        })
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Ends at the first field that is damaged.
impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.take(8)?),
            2 => {
                let count = self.varint()?;
                Field::Bytes(self.take(count)?)
            }
            5 => Field::Bytes(self.take(4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}
