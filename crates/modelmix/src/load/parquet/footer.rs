//! The footer of a Parquet file: its columns, and the position of each in every row group.
//! Sizes are checked against the file here; `page` reads the pages.

use super::thrift::{Compact, Damage, Kind};
use crate::load::payload::Element;

/// The maximum nesting depth of groups of columns.
const MAX_NESTING: usize = 32;

/// The contents of a file.
pub(super) struct Footer {
    /// The leaves of the schema, in the order of the file.
    pub(super) leaves: Vec<Leaf>,
    pub(super) groups: Vec<Group>,
}

/// One primitive column.
pub(super) struct Leaf {
    /// The top-level column that it belongs to.
    pub(super) column: String,
    /// Its index among the top-level columns.
    pub(super) top: usize,
    /// The type of its values, or the name of the type if they are not floats.
    pub(super) element: Result<Element, &'static str>,
    /// The type of its values if they are floats or integers; the name of the type if they are not.
    pub(super) number: Result<Element, &'static str>,
    physical: u64,
    /// The definition level of a value that is not null.
    pub(super) defined: u32,
    /// The number of lists in which it is nested.
    pub(super) repeated: u32,
    /// The definition level from which its innermost list has an element.
    pub(super) listed: u32,
    /// Whether it is a top-level column, not part of a group.
    pub(super) bare: bool,
}

impl Leaf {
    /// Whether it is a column of texts, one per row. Old writers do not mark texts, so bytes count too.
    pub(super) fn is_text(&self) -> bool {
        self.physical == 6 && self.bare && self.repeated == 0
    }
}

/// A row group.
pub(super) struct Group {
    pub(super) rows: u64,
    /// One chunk per leaf.
    pub(super) chunks: Vec<Chunk>,
}

/// The position of a leaf's values in a row group.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) start: u64,
    pub(super) length: u64,
    /// The number of values, including nulls.
    pub(super) values: u64,
    pub(super) codec: u64,
    physical: u64,
}

/// A node of the schema as stored, in depth-first order.
#[derive(Default)]
struct Node {
    name: String,
    physical: Option<u64>,
    length: u64,
    repetition: u64,
    children: u64,
    half: bool,
    decimal: bool,
    unsigned: bool,
    /// Whether its integers are dates or times.
    temporal: bool,
}

/// Reads the footer of a file whose pages end at `end`.
pub(super) fn footer(bytes: &[u8], end: u64) -> Result<Footer, Damage> {
    let (mut nodes, mut groups, mut encrypted) = (Vec::new(), Vec::new(), false);
    Compact::new(bytes).fields(|reader, id, kind| match id {
        2 => reader.list(kind, |reader, kind| {
            nodes.push(node(reader, kind)?);
            Ok(())
        }),
        4 => reader.list(kind, |reader, kind| {
            groups.push(group(reader, kind)?);
            Ok(())
        }),
        8 => {
            encrypted = true;
            reader.skip(kind)
        }
        _ => reader.skip(kind),
    })?;
    if encrypted {
        return Err("it is encrypted");
    }
    let leaves = leaves(&nodes)?;
    for chunk in groups.iter().flat_map(|group: &Group| &group.chunks) {
        if chunk.start < 4 || chunk.start.checked_add(chunk.length).is_none_or(|behind| behind > end) {
            return Err("a column lies outside the file");
        }
    }
    for group in &groups {
        if group.chunks.len() != leaves.len() {
            return Err("a row group does not have every column");
        }
        if group.chunks.iter().zip(&leaves).any(|(chunk, leaf)| chunk.physical != leaf.physical) {
            return Err("a row group and the schema disagree on a type");
        }
    }
    Ok(Footer { leaves, groups })
}

fn node(reader: &mut Compact<'_>, kind: Kind) -> Result<Node, Damage> {
    let mut node = Node::default();
    reader.structure(kind, |reader, id, kind| {
        match id {
            1 => node.physical = Some(reader.natural(kind)?),
            2 => node.length = reader.natural(kind)?,
            3 => node.repetition = reader.natural(kind)?,
            4 => node.name = reader.text(kind)?.to_string(),
            5 => node.children = reader.natural(kind)?,
            6 => match reader.natural(kind)? {
                5 => node.decimal = true,
                6..=10 => node.temporal = true,
                11..=14 => node.unsigned = true,
                _ => {}
            },
            // The logical type is a union, of which DATE, TIME and TIMESTAMP are the sixth to eighth, INTEGER is the tenth and
            // FLOAT16 the fifteenth.
            10 => reader.structure(kind, |reader, id, kind| {
                node.half |= id == 15;
                node.temporal |= matches!(id, 6..=8);
                if id != 10 {
                    return reader.skip(kind);
                }
                reader.structure(kind, |reader, id, kind| match id {
                    2 => {
                        node.unsigned = !reader.truth(kind)?;
                        Ok(())
                    }
                    _ => reader.skip(kind),
                })
            })?,
            _ => reader.skip(kind)?,
        }
        Ok(())
    })?;
    Ok(node)
}

fn group(reader: &mut Compact<'_>, kind: Kind) -> Result<Group, Damage> {
    let mut group = Group { rows: 0, chunks: Vec::new() };
    reader.structure(kind, |reader, id, kind| match id {
        1 => reader.list(kind, |reader, kind| {
            group.chunks.push(chunk(reader, kind)?);
            Ok(())
        }),
        3 => {
            group.rows = reader.natural(kind)?;
            Ok(())
        }
        _ => reader.skip(kind),
    })?;
    Ok(group)
}

fn chunk(reader: &mut Compact<'_>, kind: Kind) -> Result<Chunk, Damage> {
    let (mut chunk, mut dictionary) = (Chunk::default(), 0);
    reader.structure(kind, |reader, id, kind| match id {
        1 => Err("its columns are in other files"),
        3 => reader.structure(kind, |reader, id, kind| {
            match id {
                1 => chunk.physical = reader.natural(kind)?,
                4 => chunk.codec = reader.natural(kind)?,
                5 => chunk.values = reader.natural(kind)?,
                7 => chunk.length = reader.natural(kind)?,
                9 => chunk.start = reader.natural(kind)?,
                11 => dictionary = reader.natural(kind)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        }),
        8 | 9 => Err("it is encrypted"),
        _ => reader.skip(kind),
    })?;
    // Writers store 0 if there is no dictionary, or if there is nothing else.
    if dictionary > 0 && (chunk.start == 0 || dictionary < chunk.start) {
        chunk.start = dictionary;
    }
    Ok(chunk)
}

/// Walks the tree that the nodes describe.
fn leaves(nodes: &[Node]) -> Result<Vec<Leaf>, Damage> {
    /// A group whose children are being read, with the levels inside of it.
    #[derive(Clone, Copy)]
    struct Open {
        left: u64,
        defined: u32,
        repeated: u32,
        listed: u32,
    }

    let (root, rest) = nodes.split_first().ok_or("it has no schema")?;
    let mut open = vec![Open { left: root.children, defined: 0, repeated: 0, listed: 0 }];
    let mut leaves = Vec::new();
    let (mut column, mut top) = ("", 0);
    for node in rest {
        while open.last().is_some_and(|group| group.left == 0) {
            open.pop();
        }
        let depth = open.len();
        let group = open.last_mut().ok_or("its schema has nodes that belong to no group")?;
        group.left -= 1;
        if depth > MAX_NESTING {
            return Err("its schema nests too deeply");
        }
        if depth == 1 {
            (column, top) = (&node.name, top + 1);
        }
        let mut inside = Open { left: node.children, ..*group };
        inside.defined += u32::from(node.repetition != 0);
        if node.repetition == 2 {
            inside.repeated += 1;
            inside.listed = inside.defined;
        }
        match node.physical {
            Some(physical) if node.children == 0 => leaves.push(Leaf {
                column: column.to_string(),
                top: top - 1,
                element: element(node, physical),
                number: number(node, physical),
                physical,
                defined: inside.defined,
                repeated: inside.repeated,
                listed: inside.listed,
                bare: depth == 1,
            }),
            _ => open.push(inside),
        }
    }
    if open.iter().any(|group| group.left > 0) {
        return Err("its schema lacks nodes");
    }
    Ok(leaves)
}

/// The element type of a leaf, or what it is instead.
fn element(node: &Node, physical: u64) -> Result<Element, &'static str> {
    match physical {
        0 => Err("truth values"),
        1 | 2 if node.decimal => Err("decimals"),
        1 | 2 => Err("integers"),
        3 => Err("times"),
        4 => Ok(Element::F32),
        5 => Ok(Element::F64),
        6 => Err("text or bytes"),
        7 if node.half && node.length == 2 => Ok(Element::F16),
        _ => Err("bytes"),
    }
}

/// The element type of a leaf of floats or integers, or what it is instead.
fn number(node: &Node, physical: u64) -> Result<Element, &'static str> {
    match physical {
        1 | 2 if node.temporal => Err("dates or times"),
        1 | 2 if !node.decimal => Ok(Element::Integer { bytes: 4 * physical as usize, signed: !node.unsigned }),
        _ => element(node, physical),
    }
}
