//! A reader of pickles that runs nothing: opcodes build plain values, and the few known constructors of tensors and
//! containers are evaluated here. What values mean is left to `objects`; what files contain, to `archive` and `legacy`.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use super::objects::{self, Outcome, Storage, View};
use crate::problem::Problem;

/// The most values that a pickle may build. A state dict takes about 30 values per tensor, so this is 100,000 tensors;
/// it bounds memory at about 200 MB.
const MOST_VALUES: usize = 4_000_000;

/// Which value of a pickle: an index into its arena. Values refer to each other by it, so that loops are harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u32);

/// A value of a pickle.
#[derive(Clone, Debug)]
pub(super) enum Value {
    None,
    Bool(bool),
    Integer(i64),
    /// A number whose value no reader of tensors needs: a float, or an integer of more than 64 bits.
    Number,
    Text(Rc<str>),
    Bytes,
    /// A list or a set.
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or a function, by module and name. It is never imported.
    Global(Rc<str>, Rc<str>),
    Storage(Storage),
    Tensor(View),
    /// An object of a TorchScript class, with the state that was given to it.
    Object(Option<Id>),
}

/// The values of one pickle, and how many bytes it took.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    pub(super) root: Id,
    pub(super) length: usize,
}

impl Pickle {
    /// The value with this id.
    pub(super) fn get(&self, id: Id) -> &Value {
        self.values.get(id.0 as usize).unwrap_or(&Value::None)
    }

    /// Every storage that the pickle names.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.values.iter().filter_map(|value| match value {
            Value::Storage(storage) => Some(storage),
            _ => None,
        })
    }

    /// Reads the pickle at the start of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut machine = Machine::new(bytes);
        let root = machine.run()?;
        Ok(Self { values: machine.values, root, length: machine.at })
    }
}

fn broken(what: &str) -> Problem {
    Problem::new(format!("the pickle {what}, so the file is damaged or is no PyTorch file; download it again"))
}

fn too_many() -> Problem {
    Problem::new(format!(
        "the pickle has more than {MOST_VALUES} values, which no file of weights has; save the model's state_dict alone"
    ))
}

/// The state of the pickle machine: a stack of values, marks in it, and the memo.
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Items that calls have copied so far.
    copied: Cell<usize>,
}

impl<'a> Machine<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            copied: Cell::new(0),
        }
    }

    /// The value with this id.
    pub(super) fn get(&self, id: Id) -> &Value {
        self.values.get(id.0 as usize).unwrap_or(&Value::None)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| broken("ends in the middle"))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Problem> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned little-endian number of `count` bytes, at most eight.
    fn unsigned(&mut self, count: usize) -> Result<u64, Problem> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn length(&mut self, count: usize) -> Result<usize, Problem> {
        usize::try_from(self.unsigned(count)?).map_err(|_| broken("has a size that is too large"))
    }

    fn line(&mut self) -> Result<&'a str, Problem> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(|| broken("ends in the middle"))?;
        let line = self.take(end + 1)?;
        text(line.get(..end).unwrap_or_default())
    }

    fn push(&mut self, value: Value) -> Result<(), Problem> {
        if self.values.len() >= MOST_VALUES {
            return Err(too_many());
        }
        self.stack.push(Id(self.values.len() as u32));
        self.values.push(value);
        Ok(())
    }

    /// Counts the items that a call copies. The same items can be copied by many calls, so the size of the pickle does
    /// not bound them.
    pub(super) fn spend(&self, items: usize) -> Result<(), Problem> {
        let copied = self.copied.get().saturating_add(items);
        self.copied.set(copied);
        if copied > MOST_VALUES { Err(too_many()) } else { Ok(()) }
    }

    /// The top of the stack, removed. Values below the last mark cannot be reached.
    fn pop(&mut self) -> Result<Id, Problem> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(broken("takes more values than it has"));
        }
        self.stack.pop().ok_or_else(|| broken("takes more values than it has"))
    }

    fn top(&self) -> Result<Id, Problem> {
        self.stack.last().copied().ok_or_else(|| broken("takes more values than it has"))
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>, Problem> {
        let mark = self.marks.pop().ok_or_else(|| broken("closes a group that it never opened"))?;
        if mark > self.stack.len() {
            return Err(broken("takes more values than it has"));
        }
        Ok(self.stack.split_off(mark))
    }

    /// Follows the opcodes up to STOP, and returns the value on top of the stack.
    fn run(&mut self) -> Result<Id, Problem> {
        loop {
            let opcode = self.byte()?;
            match opcode {
                b'.' => return self.pop(),
                // PROTO, FRAME: nothing to do.
                0x80 => {
                    self.take(1)?;
                }
                0x95 => {
                    self.take(8)?;
                }
                b'(' => self.marks.push(self.stack.len()),
                b'0' => {
                    self.pop()?;
                }
                b'1' => {
                    self.pop_to_mark()?;
                }
                b'2' => self.stack.push(self.top()?),
                b'N' => self.push(Value::None)?,
                0x88 => self.push(Value::Bool(true))?,
                0x89 => self.push(Value::Bool(false))?,
                b'I' | b'L' | b'J' | b'K' | b'M' | 0x8a | 0x8b | b'F' | b'G' => self.number(opcode)?,
                b'V' | b'X' | 0x8c | 0x8d | b'T' | b'U' => self.text(opcode)?,
                b'B' | b'C' | 0x8e => {
                    let width = match opcode {
                        b'C' => 1,
                        b'B' => 4,
                        _ => 8,
                    };
                    let length = self.length(width)?;
                    self.take(length)?;
                    self.push(Value::Bytes)?;
                }
                b']' | b'}' | b')' | 0x8f | b'l' | b't' | b'd' | 0x85..=0x87 => self.container(opcode)?,
                b'a' | b'e' | b's' | b'u' | 0x90 => self.extend(opcode)?,
                b'g' | b'h' | b'j' | b'p' | b'q' | b'r' | 0x94 => self.remember(opcode)?,
                b'c' | 0x93 => self.global(opcode)?,
                b'Q' => {
                    let id = self.pop()?;
                    let storage = objects::persistent(self, id)?;
                    self.push(storage)?;
                }
                b'R' | 0x81 => {
                    let arguments = self.pop()?;
                    let callable = self.pop()?;
                    match objects::call(self, callable, arguments, opcode == 0x81)? {
                        Outcome::New(value) => self.push(value)?,
                        Outcome::Existing(id) => self.stack.push(id),
                    }
                }
                b'b' => {
                    let state = self.pop()?;
                    let target = self.top()?;
                    if let Some(Value::Object(slot)) = self.values.get_mut(target.0 as usize) {
                        *slot = Some(state);
                    }
                }
                _ => {
                    return Err(Problem::new(format!(
                        "the pickle has the opcode {opcode:#04x}, which weights do not need; save the model's state_dict alone"
                    )));
                }
            }
        }
    }

    fn number(&mut self, opcode: u8) -> Result<(), Problem> {
        let value = match opcode {
            b'J' => Value::Integer(i64::from(self.unsigned(4)? as u32 as i32)),
            b'K' => Value::Integer(self.unsigned(1)? as i64),
            b'M' => Value::Integer(self.unsigned(2)? as i64),
            0x8a | 0x8b => {
                let length = self.length(if opcode == 0x8a { 1 } else { 4 })?;
                let digits = self.take(length)?;
                if digits.len() <= 8 {
                    // Two's complement, little-endian: the sign is that of the last byte.
                    let fill = if digits.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
                    let mut all = [fill; 8];
                    all[..digits.len()].copy_from_slice(digits);
                    Value::Integer(i64::from_le_bytes(all))
                } else {
                    Value::Number
                }
            }
            b'F' => {
                self.line()?;
                Value::Number
            }
            b'G' => {
                self.take(8)?;
                Value::Number
            }
            // INT and LONG: decimal digits; INT writes booleans as 00 and 01.
            _ => match self.line()? {
                "00" if opcode == b'I' => Value::Bool(false),
                "01" if opcode == b'I' => Value::Bool(true),
                digits => digits.trim_end_matches('L').parse().map_or(Value::Number, Value::Integer),
            },
        };
        self.push(value)
    }

    fn text(&mut self, opcode: u8) -> Result<(), Problem> {
        let text = match opcode {
            b'V' => self.line()?,
            _ => {
                let width = match opcode {
                    0x8c | b'U' => 1,
                    0x8d => 8,
                    _ => 4,
                };
                let length = self.length(width)?;
                text(self.take(length)?)?
            }
        };
        self.push(Value::Text(text.into()))
    }

    fn container(&mut self, opcode: u8) -> Result<(), Problem> {
        let value = match opcode {
            b']' | 0x8f => Value::List(Vec::new()),
            b'}' => Value::Dict(Vec::new()),
            b')' => Value::Tuple(Vec::new()),
            b'l' => Value::List(self.pop_to_mark()?),
            b't' => Value::Tuple(self.pop_to_mark()?),
            b'd' => Value::Dict(pairs(&self.pop_to_mark()?)?),
            _ => {
                let count = usize::from(opcode - 0x84);
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push(self.pop()?);
                }
                items.reverse();
                Value::Tuple(items)
            }
        };
        self.push(value)
    }

    /// Adds items to the list or dict below them.
    fn extend(&mut self, opcode: u8) -> Result<(), Problem> {
        let items = match opcode {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_to_mark()?,
        };
        let target = self.top()?;
        match (self.values.get_mut(target.0 as usize), opcode) {
            (Some(Value::List(list)), b'a' | b'e' | 0x90) => list.extend(items),
            (Some(Value::Dict(dict)), b's' | b'u') => dict.extend(pairs(&items)?),
            _ => return Err(broken("adds items to a value that holds none")),
        }
        Ok(())
    }

    /// Opcodes of the memo: PUT names the top of the stack, GET pushes what has the name.
    fn remember(&mut self, opcode: u8) -> Result<(), Problem> {
        let key = match opcode {
            b'g' | b'p' => self.line()?.parse().map_err(|_| broken("has a memo key that is no number"))?,
            b'h' | b'q' => self.unsigned(1)?,
            b'j' | b'r' => self.unsigned(4)?,
            _ => self.memo.len() as u64,
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            let id = self.memo.get(&key).ok_or_else(|| broken("refers to a value that it never made"))?;
            self.stack.push(*id);
        } else {
            self.memo.insert(key, self.top()?);
        }
        Ok(())
    }

    fn global(&mut self, opcode: u8) -> Result<(), Problem> {
        let (module, name): (Rc<str>, Rc<str>) = if opcode == b'c' {
            (self.line()?.into(), self.line()?.into())
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            match (self.get(module), self.get(name)) {
                (Value::Text(module), Value::Text(name)) => (Rc::clone(module), Rc::clone(name)),
                _ => return Err(broken("names a class by a value that is no text")),
            }
        };
        objects::check_global(&module, &name)?;
        self.push(Value::Global(module, name))
    }
}

fn pairs(items: &[Id]) -> Result<Vec<(Id, Id)>, Problem> {
    let (pairs, rest) = items.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(broken("has a dict with a key that has no value"));
    }
    Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
}

fn text(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|_| broken("has a text that is not UTF-8"))
}
