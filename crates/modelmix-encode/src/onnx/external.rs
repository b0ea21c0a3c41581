//! What must be known of a model before a runtime reads it: whether it is one, and the data files that it names.

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
