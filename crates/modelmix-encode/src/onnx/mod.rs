//! ONNX models built in memory: a graph of nodes and weights, written as protobuf bytes that every ONNX runtime reads.
//! Only what the networks of this crate need is here. Models that others wrote are read by external.rs, which finds the data files
//! that a model names, and changed by cubic.rs, which replaces an operator that a runtime lacks.

pub(crate) mod cubic;
pub(crate) mod external;
mod protobuf;

use self::protobuf::Message;

/// The version of ONNX's operators that models declare. Every operator used here has its present meaning since 13.
const OPSET: u64 = 13;

/// The version of the file format that came with that version of the operators.
const IR_VERSION: u64 = 7;

/// The code of 32-bit floats in ONNX.
const FLOAT: u64 = 1;

/// The code of 64-bit integers in ONNX.
const INT64: u64 = 7;

/// A value of a graph: an input, weights, or the output of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(String);

/// A dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension<'a> {
    /// A size that the model fixes.
    Fixed(usize),
    /// A size that differs from run to run, with a name.
    Free(&'a str),
}

/// The value of an attribute of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attribute<'a> {
    /// One integer.
    Integer(i64),
    /// A list of integers.
    Integers(&'a [i64]),
}

/// A graph under construction. Values are of 32-bit floats unless a method says otherwise.
///
/// # Examples
/// ```
/// use modelmix_encode::onnx::{Attribute, Dimension, Graph};
///
/// let mut graph = Graph::new("example");
/// let x = graph.input("x", &[Dimension::Free("n"), Dimension::Fixed(2)]);
/// let w = graph.weights("w", &[2, 1], &[0.5, 0.5]);
/// let mean = graph.node("MatMul", &[&x, &w], &[]);
/// let flat = graph.node("Flatten", &[&mean], &[("axis", Attribute::Integer(0))]);
/// let bytes = graph.into_model("flat", &flat, &[Dimension::Fixed(1), Dimension::Free("n")]);
/// assert!(!bytes.is_empty());
/// ```
#[derive(Debug)]
pub struct Graph {
    message: Message,
    /// How the names of the outputs of its nodes begin.
    prefix: String,
    values: usize,
}

impl Graph {
    /// An empty graph with this name.
    pub fn new(name: &str) -> Self {
        let mut message = Message::default();
        message.text(2, name);
        Self { message, prefix: String::new(), values: 0 }
    }

    /// A part of another graph, which has no other values whose names begin like this.
    fn fragment(prefix: &str) -> Self {
        Self { message: Message::default(), prefix: prefix.to_owned(), values: 0 }
    }

    /// The fields of the other graph, which has this value as the output of a node with this name.
    fn into_fragment(mut self, name: &str, output: &Value) -> Vec<u8> {
        self.rename(name, output);
        self.message.into_bytes()
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, shape: &[Dimension<'_>]) -> Value {
        self.message.message(11, &value_info(name, shape));
        Value(name.to_owned())
    }

    /// Adds weights: a constant tensor with its elements in row-major order.
    pub fn weights(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, shape, FLOAT, &bytes)
    }

    /// Adds a constant list of integers, as operators take for sizes.
    pub fn integers(&mut self, name: &str, values: &[i64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, &[values.len()], INT64, &bytes)
    }

    /// Adds constant floats under a name of their own.
    fn constant(&mut self, shape: &[usize], values: &[f32]) -> Value {
        let name = self.next_name();
        self.weights(&name, shape, values)
    }

    /// Adds a constant integer under a name of its own.
    fn constant_integer(&mut self, value: i64) -> Value {
        let name = self.next_name();
        self.tensor(&name, &[], INT64, &value.to_le_bytes())
    }

    /// Adds a constant list of integers under a name of its own.
    fn constant_integers(&mut self, values: &[i64]) -> Value {
        let name = self.next_name();
        self.integers(&name, values)
    }

    fn next_name(&mut self) -> String {
        self.values += 1;
        format!("{}value_{}", self.prefix, self.values)
    }

    fn tensor(&mut self, name: &str, shape: &[usize], element: u64, bytes: &[u8]) -> Value {
        let mut tensor = Message::default();
        for &size in shape {
            tensor.number(1, size as u64);
        }
        tensor.number(2, element);
        tensor.text(8, name);
        tensor.bytes(9, bytes);
        self.message.message(5, &tensor);
        Value(name.to_owned())
    }

    /// Adds a node with one output: an operator applied to values.
    pub fn node(&mut self, operator: &str, inputs: &[&Value], attributes: &[(&str, Attribute<'_>)]) -> Value {
        let [value] = self.node_with_outputs(operator, inputs, attributes);
        value
    }

    /// Adds a node with several outputs.
    pub fn node_with_outputs<const OUTPUTS: usize>(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: &[(&str, Attribute<'_>)],
    ) -> [Value; OUTPUTS] {
        let mut node = Message::default();
        for input in inputs {
            node.text(1, &input.0);
        }
        let outputs = std::array::from_fn(|_| Value(self.next_name()));
        for output in &outputs {
            node.text(2, &output.0);
        }
        node.text(3, &format!("{}{operator}_{}", self.prefix, self.values));
        node.text(4, operator);
        for (name, value) in attributes {
            let mut attribute = Message::default();
            attribute.text(1, name);
            match value {
                Attribute::Integer(integer) => {
                    attribute.number(3, *integer as u64);
                    attribute.number(20, 2);
                }
                Attribute::Integers(integers) => {
                    for integer in *integers {
                        attribute.number(8, *integer as u64);
                    }
                    attribute.number(20, 7);
                }
            }
            node.message(5, &attribute);
        }
        self.message.message(1, &node);
        outputs
    }

    /// Adds a node that passes a value on under this name.
    fn rename(&mut self, name: &str, value: &Value) {
        let mut node = Message::default();
        node.text(1, &value.0);
        node.text(2, name);
        node.text(3, &format!("{}output", self.prefix));
        node.text(4, "Identity");
        self.message.message(1, &node);
    }

    /// The model whose only output is this value, under a name of its own, as the bytes of an `.onnx` file.
    pub fn into_model(mut self, name: &str, output: &Value, shape: &[Dimension<'_>]) -> Vec<u8> {
        self.rename(name, output);
        self.message.message(12, &value_info(name, shape));

        let mut opset = Message::default();
        opset.text(1, "");
        opset.number(2, OPSET);
        let mut model = Message::default();
        model.number(1, IR_VERSION);
        model.text(2, "modelmix");
        model.text(3, env!("CARGO_PKG_VERSION"));
        model.message(8, &opset);
        model.message(7, &self.message);
        model.into_bytes()
    }
}

fn value_info(name: &str, shape: &[Dimension<'_>]) -> Message {
    let mut dimensions = Message::default();
    for size in shape {
        let mut dimension = Message::default();
        match size {
            Dimension::Fixed(size) => dimension.number(1, *size as u64),
            Dimension::Free(name) => dimension.text(2, name),
        }
        dimensions.message(1, &dimension);
    }
    let mut tensor = Message::default();
    tensor.number(1, FLOAT);
    tensor.message(2, &dimensions);
    let mut kind = Message::default();
    kind.message(1, &tensor);
    let mut info = Message::default();
    info.text(1, name);
    info.message(2, &kind);
    info
}
