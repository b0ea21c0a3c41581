//! Thrift's compact protocol, in which Parquet stores its footer and page headers.
//! Every value takes at least one byte of input, and nothing is allocated here.

/// The maximum nesting depth of structures, because each level takes stack; those of Parquet nest five deep.
const MAX_NESTING: usize = 24;

/// The maximum length of a list: longer than any list of a footer that describes features.
const LONGEST_LIST: u64 = 1 << 16;

/// A description of what is wrong with the bytes.
pub(super) type Damage = &'static str;

/// The type of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    const TRUE: Kind = Kind(1);
    const FALSE: Kind = Kind(2);
    const BINARY: Kind = Kind(8);
    const LIST: Kind = Kind(9);
    const STRUCTURE: Kind = Kind(12);
}

/// The bytes and the read position.
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    depth: usize,
}

impl<'a> Compact<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Damage> {
        let rest = &self.bytes[self.at..];
        let count = usize::try_from(count).ok().filter(|&count| count <= rest.len()).ok_or("it ends too early")?;
        self.at += count;
        Ok(&rest[..count])
    }

    fn byte(&mut self) -> Result<u8, Damage> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned number, with seven bits per byte.
    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    /// Reads the fields of a structure: `field` consumes the value of each, or skips it.
    pub(super) fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, i64, Kind) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        self.deeper()?;
        let mut id = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                break;
            }
            let step = i64::from(head >> 4);
            let next = if step == 0 { self.zigzag()? } else { id + step };
            if next <= id || next > i64::from(i16::MAX) {
                return Err("its fields are out of order");
            }
            id = next;
            field(self, id, Kind(head & 0xf))?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads a structure in a field.
    pub(super) fn structure(
        &mut self,
        kind: Kind,
        field: impl FnMut(&mut Self, i64, Kind) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        if kind != Kind::STRUCTURE {
            return Err("a field is not a structure");
        }
        self.fields(field)
    }

    /// Reads a list: `element` consumes the value of each element, or skips it.
    pub(super) fn list(
        &mut self,
        kind: Kind,
        mut element: impl FnMut(&mut Self, Kind) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        if kind != Kind::LIST {
            return Err("a field is not a list");
        }
        self.deeper()?;
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        if count > LONGEST_LIST {
            return Err("a list is too long");
        }
        for _ in 0..count {
            element(self, Kind(head & 0xf))?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// An integer of 16, 32 or 64 bits.
    pub(super) fn integer(&mut self, kind: Kind) -> Result<i64, Damage> {
        let value = match kind.0 {
            4..=6 => self.zigzag()?,
            _ => return Err("a field is not a number"),
        };
        let fits = match kind.0 {
            4 => i16::try_from(value).is_ok(),
            5 => i32::try_from(value).is_ok(),
            _ => true,
        };
        fits.then_some(value).ok_or("a number is too large")
    }

    /// A non-negative integer.
    pub(super) fn natural(&mut self, kind: Kind) -> Result<u64, Damage> {
        u64::try_from(self.integer(kind)?).map_err(|_| "a size is negative")
    }

    pub(super) fn truth(&mut self, kind: Kind) -> Result<bool, Damage> {
        match kind {
            Kind::TRUE => Ok(true),
            Kind::FALSE => Ok(false),
            _ => Err("a field is not a boolean"),
        }
    }

    pub(super) fn text(&mut self, kind: Kind) -> Result<&'a str, Damage> {
        if kind != Kind::BINARY {
            return Err("a field is not a string");
        }
        let count = self.varint()?;
        str::from_utf8(self.take(count)?).map_err(|_| "a text is not UTF-8")
    }

    /// Skips a field of any type.
    pub(super) fn skip(&mut self, kind: Kind) -> Result<(), Damage> {
        match kind.0 {
            1 | 2 => Ok(()),
            3 => self.take(1).map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.take(8).map(drop),
            8 => {
                let count = self.varint()?;
                self.take(count).map(drop)
            }
            9 | 10 => self.list(Kind::LIST, |this, element| match element.0 {
                1 | 2 => this.take(1).map(drop),
                _ => this.skip(element),
            }),
            12 => self.fields(|this, _, kind| this.skip(kind)),
            13 => self.take(16).map(drop),
            _ => Err("a field's type is not known"),
        }
    }

    fn zigzag(&mut self) -> Result<i64, Damage> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn deeper(&mut self) -> Result<(), Damage> {
        self.depth += 1;
        if self.depth > MAX_NESTING { Err("it nests too deeply") } else { Ok(()) }
    }
}
