//! What must be known of a model before a runtime reads it: whether it is one, and the data files that it names.

use std::collections::BTreeSet;

use super::protobuf::Fields;

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
