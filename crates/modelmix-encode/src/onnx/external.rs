//! What must be known of a model before a runtime reads it: whether it is one, the data files that it names, and whether it
//! resizes with a cubic filter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::protobuf::Fields;
use crate::problem::Problem;

/// The content of a model's file.
///
/// # Errors
/// If it is not a regular file, or cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let name = || path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let unread =
        |error: std::io::Error| Problem::new(format!("{} cannot be read ({error}); get the model again", name()));
    if !std::fs::metadata(path).map_err(unread)?.is_file() {
        return Err(Problem::new(format!("{} is not a file; get the model again", name())));
    }
    std::fs::read(path).map_err(unread)
}

/// The data files of the model at `path`. They are found beside the path as given: in the Hugging Face cache that is a link,
/// and the file that it points to has other neighbours.
///
/// # Errors
/// If a data file is not a regular file beside the model.
pub(crate) fn data_files_beside(path: &Path, model: &[u8]) -> Result<Vec<PathBuf>, Problem> {
    let beside = |name: String| {
        let file = Path::new(&name);
        if file.components().count() != 1 || file.file_name().is_none() {
            let remedy = "export the model again";
            return Err(Problem::new(format!("it names the data file {name}, which is not beside it; {remedy}")));
        }
        let file = path.with_file_name(file);
        if file.is_file() {
            return Ok(file);
        }
        Err(Problem::new(format!("its data file {name} is not beside it; put it there, or get the model again")))
    };
    data_files(model).into_iter().map(beside).collect()
}

/// Graphs within graphs that are looked into; exports have two or three.
const DEEPEST_GRAPH: usize = 16;

/// Whether bytes are a model: whole fields, and a graph among them.
///
/// rten 0.27 reads other bytes without end, if a length in them is negative.
pub(crate) fn is_model(bytes: &[u8]) -> bool {
    let fields = Fields::of(bytes);
    fields.are_whole() && fields.all(7).next().is_some()
}

/// The names of the data files of a model, as written in it. A model that is damaged has none.
pub(crate) fn data_files(model: &[u8]) -> BTreeSet<String> {
    // ModelProto.graph = 7, GraphProto.initializer = 5, GraphProto.node = 1, NodeProto.attribute = 5,
    // AttributeProto.t = 5, TensorProto.external_data = 13, StringStringEntryProto.key = 1, .value = 2.
    let graphs = Fields::of(model).all(7);
    let mut files = BTreeSet::new();
    for graph in graphs {
        let constants = Fields::of(graph)
            .all(1)
            .flat_map(|node| Fields::of(node).all(5))
            .flat_map(|attribute| Fields::of(attribute).all(5));
        for tensor in Fields::of(graph).all(5).chain(constants) {
            for entry in Fields::of(tensor).all(13) {
                let text = |field| Fields::of(entry).all(field).next().and_then(|text| std::str::from_utf8(text).ok());
                if let (Some("location"), Some(file)) = (text(1), text(2)) {
                    files.insert(file.to_owned());
                }
            }
        }
    }
    files
}

/// Whether a model has a `Resize` with a cubic filter.
pub(crate) fn has_cubic_resize(model: &[u8]) -> bool {
    // ModelProto.graph = 7, ModelProto.functions = 25, FunctionProto.node = 7, GraphProto.node = 1.
    let functions = Fields::of(model).all(25).flat_map(|function| Fields::of(function).all(7));
    let nodes = Fields::of(model).all(7).flat_map(|graph| Fields::of(graph).all(1));
    functions.chain(nodes).any(|node| is_cubic_resize(node, DEEPEST_GRAPH))
}

fn is_cubic_resize(node: &[u8], deepest: usize) -> bool {
    // NodeProto.op_type = 4, NodeProto.attribute = 5, AttributeProto.name = 1, .s = 4, .g = 6, .graphs = 11.
    let is_resize = Fields::of(node).all(4).any(|name| name == b"Resize");
    Fields::of(node).all(5).any(|attribute| {
        let has = |field: u64, text: &[u8]| Fields::of(attribute).all(field).any(|value| value == text);
        let mut inner = Fields::of(attribute).all(6).chain(Fields::of(attribute).all(11));
        (is_resize && has(1, b"mode") && has(4, b"cubic"))
            || (deepest > 0
                && inner.any(|graph| Fields::of(graph).all(1).any(|node| is_cubic_resize(node, deepest - 1))))
    })
}
