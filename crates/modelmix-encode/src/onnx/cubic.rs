//! Cubic `Resize` nodes as products of matrices, for a runtime that has no cubic filter.
//!
//! A resize is linear in the image: `y = H x Wᵀ` for each channel, with a row of `H` or `W` per row or column of the output that has
//! the four weights of the filter. Sizes may be known only when the model runs, so the matrices are computed by nodes, too.

use super::protobuf::{Field, Fields, Message};
use super::{Attribute, FLOAT, Graph, INT64, Value};

/// Graphs within graphs that are looked into; exports have two or three.
const DEEPEST_GRAPH: usize = 16;

/// Why a cubic `Resize` has no such form here, as the end of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsupported(pub(crate) String);

/// The model without cubic `Resize` nodes, or `None` if it has none.
///
/// # Errors
/// If a node has an attribute that exports of networks do not use, as antialiasing.
pub(crate) fn without_cubic_resizes(model: &[u8]) -> Result<Option<Vec<u8>>, Unsupported> {
    // ModelProto.graph = 7, ModelProto.functions = 25, FunctionProto.node = 7, GraphProto.node = 1.
    let functions = Fields::of(model).all(25).flat_map(|function| Fields::of(function).all(7));
    if functions.into_iter().any(|node| has_cubic_resize(node, DEEPEST_GRAPH)) {
        return Err(Unsupported("within a function".to_owned()));
    }
    let mut nodes = Fields::of(model).all(7).flat_map(|graph| Fields::of(graph).all(1));
    if !nodes.any(|node| has_cubic_resize(node, DEEPEST_GRAPH)) {
        return Ok(None);
    }
    replaced(model, &[7], |graph| without_in_graph(graph, DEEPEST_GRAPH)).map(|model| Some(model.into_bytes()))
}

/// A message with its fields of these numbers replaced; the others are copied.
fn replaced(
    message: &[u8],
    numbers: &[u64],
    mut replacement: impl FnMut(&[u8]) -> Result<Message, Unsupported>,
) -> Result<Message, Unsupported> {
    let mut result = Message::default();
    for (number, value, encoded) in Fields::of(message).encoded() {
        match value {
            Field::Bytes(bytes) if numbers.contains(&number) => {
                result.message(number as u32, &replacement(bytes)?);
            }
            _ => result.append(encoded),
        }
    }
    Ok(result)
}

fn without_in_graph(graph: &[u8], deepest: usize) -> Result<Message, Unsupported> {
    let mut result = Message::default();
    for (number, value, encoded) in Fields::of(graph).encoded() {
        match value {
            Field::Bytes(node) if number == 1 && is_cubic_resize(node) => result.append(&products(node)?),
            // NodeProto.attribute = 5, AttributeProto.g = 6, AttributeProto.graphs = 11.
            Field::Bytes(node) if number == 1 && has_cubic_resize(node, deepest) => {
                let node = replaced(node, &[5], |attribute| {
                    replaced(attribute, &[6, 11], |graph| without_in_graph(graph, deepest - 1))
                })?;
                result.message(1, &node);
            }
            _ => result.append(encoded),
        }
    }
    Ok(result)
}

/// Whether a node is a cubic `Resize`, or a graph within it has one.
fn has_cubic_resize(node: &[u8], deepest: usize) -> bool {
    let within = |graph: &[u8]| Fields::of(graph).all(1).any(|node| has_cubic_resize(node, deepest - 1));
    is_cubic_resize(node)
        || (deepest > 0
            && Fields::of(node)
                .all(5)
                .any(|attribute| Fields::of(attribute).all(6).chain(Fields::of(attribute).all(11)).any(within)))
}

fn is_cubic_resize(node: &[u8]) -> bool {
    // NodeProto.op_type = 4.
    Fields::of(node).all(4).any(|name| name == b"Resize") && text_attribute(node, b"mode") == Some(b"cubic")
}

/// The attribute of a node with this name.
fn attribute<'a>(node: &'a [u8], name: &[u8]) -> Option<Fields<'a>> {
    // AttributeProto.name = 1.
    Fields::of(node).all(5).map(Fields::of).find(|attribute| attribute.all(1).any(|this| this == name))
}

fn text_attribute<'a>(node: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // AttributeProto.s = 4.
    attribute(node, name)?.all(4).next()
}

/// How the place in the input of a row or column of the output is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coordinates {
    HalfPixel,
    /// As `HalfPixel`, but an output of one pixel is taken from the first pixel.
    TorchHalfPixel,
    AlignCorners,
    Asymmetric,
}

impl Coordinates {
    fn of(node: &[u8]) -> Result<Self, Unsupported> {
        match text_attribute(node, b"coordinate_transformation_mode") {
            None | Some(b"half_pixel") => Ok(Self::HalfPixel),
            Some(b"pytorch_half_pixel") => Ok(Self::TorchHalfPixel),
            Some(b"align_corners") => Ok(Self::AlignCorners),
            Some(b"asymmetric") => Ok(Self::Asymmetric),
            Some(other) => Err(Unsupported(format!("with the coordinates {}", String::from_utf8_lossy(other)))),
        }
    }
}

/// The nodes in place of a cubic `Resize`, as fields of a graph.
fn products(node: &[u8]) -> Result<Vec<u8>, Unsupported> {
    // AttributeProto.f = 2, AttributeProto.i = 3.
    let number = |name: &str| {
        attribute(node, name.as_bytes())?.find_map(|(field, value)| match value {
            Field::Number(number) if field == 3 => Some(number),
            _ => None,
        })
    };
    for name in ["antialias", "exclude_outside"] {
        if number(name).is_some_and(|value| value != 0) {
            return Err(Unsupported(format!("with {name}")));
        }
    }
    if attribute(node, b"axes").is_some() {
        return Err(Unsupported("with axes".to_owned()));
    }
    if text_attribute(node, b"keep_aspect_ratio_policy").is_some_and(|policy| policy != b"stretch") {
        return Err(Unsupported("with keep_aspect_ratio_policy".to_owned()));
    }
    let coefficient = attribute(node, b"cubic_coeff_a").and_then(|attribute| attribute.all(2).next()?.try_into().ok());
    let coefficient = coefficient.map_or(-0.75, f32::from_le_bytes);

    // NodeProto.input = 1: image, region of interest, scales and sizes; those that are not given are absent or have no name.
    let names: Vec<_> = Fields::of(node).all(1).map(String::from_utf8_lossy).collect();
    let input = |place: usize| names.get(place).filter(|name| !name.is_empty()).map(|name| Value(name.to_string()));
    let output = Fields::of(node).all(2).next().map(String::from_utf8_lossy);
    let (Some(image), Some(output)) = (input(0), output) else {
        return Err(Unsupported("without an image".to_owned()));
    };
    let target = match (input(3), input(2)) {
        (Some(sizes), _) => Target::Sizes(sizes),
        (None, Some(scales)) => Target::Scales(scales),
        (None, None) => return Err(Unsupported("without sizes".to_owned())),
    };
    let coordinates = Coordinates::of(node)?;
    let mut nodes = Nodes { graph: Graph::fragment(&format!("{output}/cubic/")), coefficient, coordinates };
    let shape = nodes.graph.node("Shape", &[&image], &[]);
    let [rows, columns] = [-2, -1].map(|axis| nodes.matrix(axis, &shape, &target));
    let columns = nodes.graph.node("Transpose", &[&columns], &[]);
    let resized = nodes.graph.node("MatMul", &[&image, &columns], &[]);
    let resized = nodes.graph.node("MatMul", &[&rows, &resized], &[]);
    // Fails if another size than that of rows and columns is to change.
    let target = nodes.target_shape(&shape, target);
    let resized = nodes.graph.node("Reshape", &[&resized, &target], &[]);
    Ok(nodes.graph.into_fragment(&output, &resized))
}

/// What says how large the output is.
enum Target {
    Sizes(Value),
    Scales(Value),
}

struct Nodes {
    graph: Graph,
    coefficient: f32,
    coordinates: Coordinates,
}

impl Nodes {
    fn float(&mut self, value: f32) -> Value {
        self.graph.constant(&[], &[value])
    }

    fn apply(&mut self, operator: &str, inputs: &[&Value]) -> Value {
        self.graph.node(operator, inputs, &[])
    }

    /// An operator with a number on its right.
    fn with(&mut self, operator: &str, left: &Value, right: f32) -> Value {
        let right = self.float(right);
        self.apply(operator, &[left, &right])
    }

    fn cast(&mut self, value: &Value, element: u64) -> Value {
        self.graph.node("Cast", &[value], &[("to", Attribute::Integer(element as i64))])
    }

    /// The shape of the output.
    fn target_shape(&mut self, shape: &Value, target: Target) -> Value {
        match target {
            Target::Sizes(sizes) => sizes,
            Target::Scales(scales) => {
                let shape = self.cast(shape, FLOAT);
                let shape = self.apply("Mul", &[&shape, &scales]);
                let shape = self.apply("Floor", &[&shape]);
                self.cast(&shape, INT64)
            }
        }
    }

    /// The floats 0, 1, … below a number.
    fn below(&mut self, limit: &Value) -> Value {
        let [zero, one] = [0.0, 1.0].map(|value| self.float(value));
        self.apply("Range", &[&zero, limit, &one])
    }

    /// The weights of every pixel along an axis of the input (columns) for every one of the output (rows).
    fn matrix(&mut self, axis: i64, shape: &Value, target: &Target) -> Value {
        let axis = self.graph.constant_integer(axis);
        let size = self.apply("Gather", &[shape, &axis]);
        let size = self.cast(&size, FLOAT);
        let (scale, resized) = match target {
            Target::Sizes(sizes) => {
                let resized = self.apply("Gather", &[sizes, &axis]);
                let resized = self.cast(&resized, FLOAT);
                (self.apply("Div", &[&resized, &size]), resized)
            }
            Target::Scales(scales) => {
                let scale = self.apply("Gather", &[scales, &axis]);
                let resized = self.apply("Mul", &[&size, &scale]);
                let resized = self.apply("Floor", &[&resized]);
                (scale, resized)
            }
        };
        let places = self.places(&size, &resized, &scale);

        // Every place has four neighbours; those beyond an edge are the pixel at the edge.
        let column = self.graph.constant_integers(&[-1, 1]);
        let places = self.apply("Reshape", &[&places, &column]);
        let first = self.apply("Floor", &[&places]);
        let fraction = self.apply("Sub", &[&places, &first]);
        let taps = self.graph.constant(&[4], &[-1.0, 0.0, 1.0, 2.0]);
        let weights = self.weights(&fraction, &taps);
        let neighbours = self.apply("Add", &[&first, &taps]);
        let neighbours = self.with("Max", &neighbours, 0.0);
        let last = self.with("Sub", &size, 1.0);
        let neighbours = self.apply("Min", &[&neighbours, &last]);

        // Weights [n, 1, 4] times whether a neighbour is a pixel [n, 4, pixels].
        let [across, down] = [[-1, 1, 4], [-1, 4, 1]].map(|shape| self.graph.constant_integers(&shape));
        let weights = self.apply("Reshape", &[&weights, &across]);
        let neighbours = self.apply("Reshape", &[&neighbours, &down]);
        let pixels = self.below(&size);
        let hits = self.apply("Equal", &[&neighbours, &pixels]);
        let hits = self.cast(&hits, FLOAT);
        let matrix = self.apply("MatMul", &[&weights, &hits]);
        let flat = self.graph.constant_integers(&[0, -1]);
        self.apply("Reshape", &[&matrix, &flat])
    }

    /// The place in the input of every pixel of the output.
    fn places(&mut self, size: &Value, resized: &Value, scale: &Value) -> Value {
        let pixels = self.below(resized);
        match self.coordinates {
            Coordinates::HalfPixel | Coordinates::TorchHalfPixel => {
                let centres = self.with("Add", &pixels, 0.5);
                let centres = self.apply("Div", &[&centres, scale]);
                let places = self.with("Sub", &centres, 0.5);
                if self.coordinates == Coordinates::HalfPixel {
                    return places;
                }
                let many = self.with("Greater", resized, 1.0);
                let many = self.cast(&many, FLOAT);
                self.apply("Mul", &[&places, &many])
            }
            Coordinates::AlignCorners => {
                let [steps, resized_steps] = [size, resized].map(|size| self.with("Sub", size, 1.0));
                let resized_steps = self.with("Max", &resized_steps, 1.0);
                let places = self.apply("Mul", &[&pixels, &steps]);
                self.apply("Div", &[&places, &resized_steps])
            }
            Coordinates::Asymmetric => self.apply("Div", &[&pixels, scale]),
        }
    }

    /// The weights of the four neighbours: a cubic polynomial of the distance for the two near ones, another for the others.
    fn weights(&mut self, fraction: &Value, taps: &Value) -> Value {
        let a = self.coefficient;
        let distances = self.apply("Sub", &[fraction, taps]);
        let distances = self.apply("Abs", &[&distances]);
        let near = self.polynomial(&distances, [a + 2.0, -(a + 3.0), 0.0, 1.0]);
        let far = self.polynomial(&distances, [a, -5.0 * a, 8.0 * a, -4.0 * a]);
        let is_near = self.graph.constant(&[4], &[0.0, 1.0, 1.0, 0.0]);
        let is_far = self.graph.constant(&[4], &[1.0, 0.0, 0.0, 1.0]);
        let near = self.apply("Mul", &[&near, &is_near]);
        let far = self.apply("Mul", &[&far, &is_far]);
        self.apply("Add", &[&near, &far])
    }

    /// A polynomial with these coefficients, the highest power first.
    fn polynomial(&mut self, argument: &Value, [first, rest @ ..]: [f32; 4]) -> Value {
        let mut value = self.float(first);
        for coefficient in rest {
            value = self.apply("Mul", &[&value, argument]);
            value = self.with("Add", &value, coefficient);
        }
        value
    }
}
