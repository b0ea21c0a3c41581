//! What the values of a pickle mean: the classes and functions that may be named, storages, tensors, and their names.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::pickle::{Id, Machine, Pickle, Value};
use crate::problem::Problem;

/// The most dimensions of a tensor. PyTorch itself allows 64, but weights have at most five.
const MOST_DIMENSIONS: usize = 16;

/// The most tensors of a file: ten times as many as the largest published models have.
const MOST_TENSORS: usize = 100_000;

/// The longest name of a tensor, in bytes.
const LONGEST_NAME: usize = 1_000;

/// How deeply modules may be nested.
const DEEPEST: usize = 100;

/// The most values that are visited in search of tensors. One value may be reached by many paths, so this is not the
/// number of values.
const MOST_VISITS: usize = 4_000_000;

/// The type of the elements of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
}

impl Element {
    fn named(class: &str) -> Option<Self> {
        Some(match class {
            "DoubleStorage" => Self::F64,
            "FloatStorage" => Self::F32,
            "HalfStorage" => Self::F16,
            "BFloat16Storage" => Self::Bf16,
            "LongStorage" => Self::I64,
            "IntStorage" => Self::I32,
            "ShortStorage" => Self::I16,
            "CharStorage" => Self::I8,
            "ByteStorage" => Self::U8,
            "BoolStorage" => Self::Bool,
            _ => return None,
        })
    }

    /// The bytes of one element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }
}

/// A run of elements that tensors are views of. `start` and `count` are a part of what the file stores under `key`.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) key: Rc<str>,
    pub(super) element: Element,
    pub(super) start: usize,
    pub(super) count: usize,
}

/// A tensor as a view of a storage. Every index of it is below `storage.count`.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) storage: Storage,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

impl View {
    /// The number of elements.
    pub(super) fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What a class or function that may be named is here.
enum Known {
    /// Rebuilds a tensor from storage, offset, size and stride.
    Tensor,
    /// Returns its first argument: a parameter is its tensor, a typed list is a list.
    First,
    /// Calls its first argument with its third: tensors with attributes.
    Indirect,
    /// A dict.
    Dict,
    /// A list or tuple given as the only argument.
    List,
    /// A class of TorchScript: an object with a state.
    Module,
    /// A value that no tensor needs: a type, a device.
    Ignored,
}

fn known(module: &str, name: &str) -> Option<Known> {
    Some(match (module, name) {
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Known::Tensor,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Known::First,
        ("torch._tensor", "_rebuild_from_type_v2") => Known::Indirect,
        ("torch.jit._pickle", "restore_type_tag") => Known::First,
        ("torch.jit._pickle", "build_intlist" | "build_tensorlist" | "build_doublelist" | "build_boollist") => {
            Known::First
        }
        ("collections", "OrderedDict") => Known::Dict,
        ("torch", "Size") | ("builtins" | "__builtin__", "set") => Known::List,
        ("torch", "device" | "Tensor") | ("torch.nn.parameter", "Parameter" | "Buffer") => Known::Ignored,
        ("torch", name) if Element::named(name).is_some() || is_type(name) => Known::Ignored,
        ("torch.serialization", "_get_layout") => Known::Ignored,
        (module, _) if module == "__torch__" || module.starts_with("__torch__.") => Known::Module,
        _ => return None,
    })
}

/// Whether a name is one of torch's element types or layouts: a constant.
fn is_type(name: &str) -> bool {
    let number = name.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    matches!(name, "bool" | "strided" | "preserve_format" | "contiguous_format" | "channels_last")
        || (!number.is_empty()
            && number.len() < name.len()
            && number.bytes().all(|digit| digit.is_ascii_digit())
            && ["float", "int", "uint", "bfloat", "complex"]
                .iter()
                .any(|kind| *kind == &name[..name.len() - number.len()]))
}

/// Refuses a class or function that is not known.
pub(super) fn check_global(module: &str, name: &str) -> Result<(), Problem> {
    if known(module, name).is_some() {
        return Ok(());
    }
    let (module, name) = (shown(module), shown(name));
    Err(Problem::new(format!(
        "the pickle names {module}.{name}, which is not loaded since pickles can run code; if you trust its source, load the file in Python and save only the weights: torch.save(model.state_dict(), \"weights.pth\")"
    )))
}

/// A name from a file as it may be shown: short and printable.
fn shown(name: &str) -> String {
    name.chars().take(80).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn wrong(what: &str) -> Problem {
    Problem::new(format!(
        "the pickle has {what}, so the file is damaged or of a newer PyTorch; save it again with torch.save"
    ))
}

fn items<'m>(machine: &'m Machine<'_>, id: Id) -> Result<&'m [Id], Problem> {
    match machine.get(id) {
        Value::Tuple(items) | Value::List(items) => Ok(items),
        _ => Err(wrong("arguments that are no tuple")),
    }
}

fn size(machine: &Machine<'_>, id: Option<&Id>, what: &str) -> Result<usize, Problem> {
    match id.map(|id| machine.get(*id)) {
        Some(Value::Integer(number)) => {
            usize::try_from(*number).map_err(|_| wrong(&format!("a tensor whose {what} is {number}")))
        }
        _ => Err(wrong(&format!("a tensor without {what}"))),
    }
}

/// What a call gives: a new value, or one that exists already.
pub(super) enum Outcome {
    New(Value),
    Existing(Id),
}

/// The value of a call or of a new object. The time of a call does not depend on the size of its arguments, except for
/// dicts that are made of pairs, which `Machine::spend` bounds.
pub(super) fn call(machine: &Machine<'_>, callable: Id, arguments: Id, new: bool) -> Result<Outcome, Problem> {
    let Value::Global(module, name) = machine.get(callable) else {
        return Err(wrong("a call of a value that is no function"));
    };
    let arguments = items(machine, arguments)?;
    let value = match known(module, name) {
        Some(Known::Tensor) if !new => rebuild(machine, arguments)?,
        Some(Known::First) if !new => {
            let first = arguments.first().ok_or_else(|| wrong("a call without arguments"))?;
            return Ok(Outcome::Existing(*first));
        }
        Some(Known::Indirect) if !new => {
            let (Some(&function), Some(&inner)) = (arguments.first(), arguments.get(2)) else {
                return Err(wrong("a tensor of a class without arguments"));
            };
            match machine.get(function) {
                Value::Global(module, name) if matches!(known(module, name), Some(Known::Tensor)) => {
                    rebuild(machine, items(machine, inner)?)?
                }
                _ => return Err(wrong("a tensor that no known function makes")),
            }
        }
        Some(Known::Dict) => match arguments.first().map(|id| machine.get(*id)) {
            // Python 2 wrote an OrderedDict as a call with a list of pairs.
            Some(Value::List(pairs)) => Value::Dict(dict(machine, pairs)?),
            _ => Value::Dict(Vec::new()),
        },
        Some(Known::List) => match arguments.first() {
            Some(list) => return Ok(Outcome::Existing(*list)),
            None => Value::List(Vec::new()),
        },
        Some(Known::Module) => Value::Object(None),
        Some(_) => Value::None,
        None => return Err(wrong("a call of an unknown function")),
    };
    Ok(Outcome::New(value))
}

fn dict(machine: &Machine<'_>, pairs: &[Id]) -> Result<Vec<(Id, Id)>, Problem> {
    machine.spend(pairs.len())?;
    let pair = |id: &Id| match machine.get(*id) {
        Value::Tuple(pair) | Value::List(pair) if pair.len() == 2 => Ok((pair[0], pair[1])),
        _ => Err(wrong("a dict of values that are no pairs")),
    };
    pairs.iter().map(pair).collect()
}

/// The storage that a persistent id names: `("storage", class, key, location, count[, part])`.
pub(super) fn persistent(machine: &Machine<'_>, id: Id) -> Result<Value, Problem> {
    let parts = items(machine, id)?;
    let get = |index: usize| parts.get(index).map(|id| machine.get(*id));
    let (Some(Value::Text(kind)), Some(Value::Global(module, class)), Some(Value::Text(key))) =
        (get(0), get(1), get(2))
    else {
        return Err(wrong("a storage without class or key"));
    };
    let element = Element::named(class).filter(|_| &**kind == "storage" && &**module == "torch");
    let Some(element) = element else {
        return Err(wrong(&format!("a storage of class {}", shown(class))));
    };
    let count = size(machine, parts.get(4), "size")?;
    let mut storage = Storage { key: Rc::clone(key), element, start: 0, count };
    // The format before PyTorch 1.6 can name a part of a storage: (key, offset, count).
    if let Some(Value::Tuple(part)) = get(5) {
        storage.start = size(machine, part.get(1), "offset")?;
        storage.count = size(machine, part.get(2), "size")?;
        if storage.start.checked_add(storage.count).is_none_or(|end| end > count) {
            return Err(wrong("a part of a storage that is larger than the storage"));
        }
    }
    Ok(Value::Storage(storage))
}

/// A tensor from `(storage, offset, size, stride, …)`.
fn rebuild(machine: &Machine<'_>, arguments: &[Id]) -> Result<Value, Problem> {
    let Some(Value::Storage(storage)) = arguments.first().map(|id| machine.get(*id)) else {
        return Err(wrong("a tensor without storage"));
    };
    let offset = size(machine, arguments.get(1), "offset")?;
    let sizes = |index: usize, what: &str| -> Result<Vec<usize>, Problem> {
        let list = arguments.get(index).ok_or_else(|| wrong(&format!("a tensor without {what}")))?;
        let list = items(machine, *list)?;
        if list.len() > MOST_DIMENSIONS {
            return Err(wrong(&format!("a tensor of {} dimensions", list.len())));
        }
        list.iter().map(|id| size(machine, Some(id), what)).collect()
    };
    let (shape, strides) = (sizes(2, "size")?, sizes(3, "stride")?);
    let view = View { storage: storage.clone(), offset, shape, strides };
    check(&view)?;
    Ok(Value::Tensor(view))
}

/// Every element of the view lies in its storage.
fn check(view: &View) -> Result<(), Problem> {
    let View { storage, offset, shape, strides } = view;
    if shape.len() != strides.len() {
        return Err(wrong("a tensor with more sizes than strides"));
    }
    let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    let last = shape.iter().zip(strides).try_fold(*offset, |last, (&size, &stride)| {
        size.saturating_sub(1).checked_mul(stride).and_then(|step| last.checked_add(step))
    });
    match (count, last) {
        (Some(0), _) => Ok(()),
        (Some(_), Some(last)) if last < storage.count => Ok(()),
        _ => Err(wrong(&format!("a tensor of shape {shape:?} that is larger than its storage of {}", storage.count))),
    }
}

/// The tensors below a value, by dotted path: keys of dicts, names of attributes, positions in lists.
pub(super) fn collect(pickle: &Pickle, prefix: &str, found: &mut BTreeMap<String, View>) -> Result<(), Problem> {
    let mut visits = 0;
    walk(pickle, pickle.root, prefix, 0, &mut visits, found)
}

fn walk(
    pickle: &Pickle,
    id: Id,
    name: &str,
    depth: usize,
    visits: &mut usize,
    found: &mut BTreeMap<String, View>,
) -> Result<(), Problem> {
    *visits += 1;
    if depth > DEEPEST || *visits > MOST_VISITS || name.len() > LONGEST_NAME || found.len() > MOST_TENSORS {
        return Err(Problem::new(
            "the pickle has values that contain themselves, or that are too many or nested too deeply for a model; save the model's state_dict alone",
        ));
    }
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match pickle.get(id) {
        Value::Tensor(view) => {
            let name = if name.is_empty() { "tensor" } else { name };
            if found.insert(name.to_owned(), view.clone()).is_some() {
                return Err(Problem::new(format!(
                    "two tensors are named {}; save the model's state_dict alone",
                    shown(name)
                )));
            }
        }
        Value::Object(Some(state)) => walk(pickle, *state, name, depth + 1, visits, found)?,
        Value::Dict(dict) => {
            for (key, value) in dict {
                let key = match pickle.get(*key) {
                    Value::Text(key) => key.to_string(),
                    Value::Integer(key) => key.to_string(),
                    _ => continue,
                };
                walk(pickle, *value, &below(&key), depth + 1, visits, found)?;
            }
        }
        Value::List(list) | Value::Tuple(list) => {
            for (index, value) in list.iter().enumerate() {
                walk(pickle, *value, &below(&index.to_string()), depth + 1, visits, found)?;
            }
        }
        _ => {}
    }
    Ok(())
}
