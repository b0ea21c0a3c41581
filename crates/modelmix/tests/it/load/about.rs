//! What files say about themselves: the encoder that made the features, and the ids of the samples.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use modelmix::load::{arms, features, ids};
use modelmix::{Error, Inputs, Objective};
use zip::write::SimpleFileOptions;

use super::hostile::npy;
use super::{Folder, folder, refused, source};

/// Three rows of two columns, as an array of NumPy.
fn rows() -> Vec<u8> {
    let values: Vec<u8> = (0..6u8).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", &values)
}

fn npz(folder: &Folder, name: &str, members: &[(&str, Vec<u8>)]) -> PathBuf {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (member, bytes) in members {
        writer.start_file(*member, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, writer.finish().unwrap().into_inner()).unwrap();
    path
}

fn about(encoder: &str, preset: &str, fingerprint: &str) -> (&'static str, Vec<u8>) {
    let text = format!(
        r#"{{"encoding": {{"encoder": "{encoder}", "preset": "{preset}", "fingerprint": "{fingerprint}"}}, "later": 1}}"#
    );
    ("modelmix.json", text.into_bytes())
}

/// The description stands between the arrays, so that indices of arrays and of members differ.
#[test]
fn an_archive_states_its_encoder_and_ids() {
    let folder = folder("about-npz");
    let ids_of = ("modelmix-ids.json", br#"{"flow": ["a/1.png", "a/2.png", "b.png"]}"#.to_vec());
    let path = npz(&folder, "a.npz", &[ids_of, about("dinov2-vitl14", "dgm-eval", "12ab34cd56"), ("flow.npy", rows())]);
    let read = features(&path, None).unwrap();
    let encoding = read.encoding().unwrap();
    assert_eq!((encoding.encoder.as_str(), encoding.preset.as_deref()), ("dinov2-vitl14", Some("dgm-eval")));
    assert_eq!(read.row(2), [4.0, 5.0]);
    assert_eq!(read.select([2]).unwrap().encoding(), read.encoding());
    let found = arms(&[source(&path.display().to_string())]).unwrap();
    assert_eq!(found.names(), ["flow"]);
    assert_eq!(found.encoding(), Some(encoding));
    assert_eq!(ids(&path).unwrap().unwrap()["flow"], ["a/1.png", "a/2.png", "b.png"]);

    let plain = npz(&folder, "plain.npz", &[("flow.npy", rows())]);
    assert_eq!(features(&plain, None).unwrap().encoding(), None);
    assert_eq!(ids(&plain).unwrap(), None);
}

#[test]
fn tensors_state_their_encoder_and_ids() {
    let folder = folder("about-safetensors");
    let header = concat!(
        r#"{"__metadata__":{"modelmix":"{\"encoding\":{\"encoder\":\"clip-vit-b32\",\"fingerprint\":\"99\"}}"},"#,
        r#""flow":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},"#,
        r#""modelmix-ids.json":{"dtype":"U8","shape":[22],"data_offsets":[24,46]}}"#
    );
    let values: Vec<u8> = (0..6u8).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    let listed = br#"{"flow":["0","1","2"]}"#;
    assert_eq!(listed.len(), 22);
    let bytes = [(header.len() as u64).to_le_bytes().as_slice(), header.as_bytes(), &values, listed].concat();
    let path = folder.join("a.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let read = features(&path, None).unwrap();
    assert_eq!(read.encoding().unwrap().encoder, "clip-vit-b32");
    assert_eq!(ids(&path).unwrap().unwrap()["flow"], ["0", "1", "2"]);
}

#[test]
fn sets_of_different_encoders_are_refused() {
    let folder = folder("about-different");
    let file = |name: &str, (encoder, preset, fingerprint): (&str, &str, &str)| {
        npz(&folder, name, &[("x.npy", rows()), about(encoder, preset, fingerprint)]).display().to_string()
    };
    let one = file("one.npz", ("clip-vit-b32", "clean-fid", "1111111199"));
    let same = file("same.npz", ("clip-vit-b32", "clean-fid", "1111111199"));
    let other = file("other.npz", ("clip-vit-b32", "dgm-eval", "2222222299"));
    let plain = npz(&folder, "plain.npz", &[("x.npy", rows())]).display().to_string();
    let load = |paths: &[&String]| {
        let name = |(at, path): (usize, &&String)| source(&format!("arm{at}={path}"));
        arms(&paths.iter().enumerate().map(name).collect::<Vec<_>>())
    };
    let found = load(&[&plain, &one, &same]).unwrap();
    refused(
        load(&[&plain, &one, &other]),
        &["arm arm2", "clip-vit-b32 with the preprocessing of dgm-eval (22222222)", "arm arm1", "clean-fid (11111111)"],
    );
    let reference = std::sync::Arc::new(features(&other, None).unwrap());
    let prepared =
        Objective::mmd().with_bandwidth(1.0).prepare(Inputs::new().arms(&found).reference(reference.clone()));
    assert!(matches!(prepared, Err(Error::Encoding { .. })), "{prepared:?}");
    let pool = modelmix::metrics::Pool::of(&found[1].features);
    let engine = modelmix::compute::Engine::default();
    let scored = modelmix::metrics::fid(&pool, &reference, &engine);
    assert!(matches!(scored, Err(Error::Encoding { .. })), "{scored:?}");
}

#[test]
fn a_description_that_is_none_is_refused() {
    let folder = folder("about-invalid");
    let path = npz(&folder, "a.npz", &[("x.npy", rows()), ("modelmix.json", b"{\"encoding\": 3}".to_vec())]);
    refused(features(&path, None), &["a.npz", "modelmix.json", "write the file again"]);
    let path = npz(&folder, "b.npz", &[("x.npy", rows()), ("modelmix-ids.json", b"[1, 2]".to_vec())]);
    refused(ids(&path), &["b.npz", "modelmix-ids.json", "lists of ids"]);
    let long = vec![b' '; (1 << 20) + 1];
    let path = npz(&folder, "c.npz", &[("x.npy", rows()), ("modelmix.json", long)]);
    refused(features(&path, None), &["c.npz", "1048577 bytes", "1048576"]);
}
