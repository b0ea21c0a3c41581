//! Pictures and texts of samples.

use std::path::Path;

use modelmix::load::{Pictures, pictures, texts};
use zip::CompressionMethod;

use super::hostile::{archive, npy};
use super::{fixture, folder, refused, source};

/// A source as typed, relative to `folder`.
fn typed(folder: &Path, text: &str) -> modelmix::load::ArmSource {
    let (name, rest) = text.split_once('=').map_or((None, text), |(name, rest)| (Some(name), rest));
    let path = folder.join(rest).display().to_string();
    source(&name.map_or(path.clone(), |name| format!("{name}={path}")))
}

/// The pictures that the script writes, of 2 × 4 pixels.
fn pixels(count: usize, channels: usize) -> Pictures {
    let (height, width) = (2, 4);
    let value = |at: usize| {
        let (pixel, c) = (at / channels, at % channels);
        let (n, h, w) = (pixel / width / height, pixel / width % height, pixel % width);
        ((n * 97 + h * 31 + w * 7 + c * 50) % 256) as u8
    };
    let pixels = (0..count * height * width * channels).map(value).collect();
    Pictures::Raw { count, height, width, channels, pixels }
}

#[test]
fn pictures_of_every_shape() {
    let all = pictures(&[source(&fixture("pixels.npz").display().to_string())], 10).unwrap();
    let named = |name: &str, channels| (name.to_string(), pixels(3, channels));
    assert_eq!(all, [named("grey", 1), named("one", 1), named("last", 3), named("first", 3)]);
    let npz = fixture("pixels.npz").display().to_string();
    let npy = fixture("pixels.npy").display().to_string();
    let some = pictures(&[source(&format!("flow={npz}:first")), source(&npy), source(&format!("x={npy}"))], 2).unwrap();
    assert_eq!(some.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["flow", "pixels", "x"]);
    assert!(some.iter().all(|(_, read)| *read == pixels(2, 3)), "{some:?}");
    assert_eq!(some[0].1.len(), 2);
}

#[test]
fn arrays_that_are_no_pictures() {
    let read = |name: &str| pictures(&[source(&fixture(name).display().to_string())], 10);
    refused(read("uint8.npy"), &["uint8.npy", "shape (5, 3)", "[n, height, width]"]);
    refused(read("three_dimensions.npy"), &["'<f4'", "not 8-bit pixels", "astype(numpy.uint8)"]);
    refused(read("stored.npz"), &["stored.npz:zebra", "astype(numpy.uint8)"]);
    refused(read("object.npy"), &["object.npy", "'|O'"]);
    refused(read("empty.npz"), &["no arrays"]);
    refused(read("f32.safetensors"), &["not known", "folder"]);
    refused(read("missing.npy"), &["cannot read"]);
    let npz = fixture("pixels.npz").display().to_string();
    refused(pictures(&[source(&format!("x={npz}"))], 1), &["4 arrays", "x cannot name them all"]);
    refused(pictures(&[source(&format!("{npz}:bee"))], 1), &["\"bee\"", "pick one of grey, one, last, first"]);
    refused(pictures(&[source(&format!("{}:a", fixture("pixels.npy").display()))], 1), &["leave out the name"]);
    refused(pictures(&[source(&npz), source(&format!("{npz}:one"))], 1), &["arm one", "two arms have this name"]);
}

#[test]
fn forged_arrays_of_pictures() {
    let folder = folder("pixels");
    let header =
        |shape: &str, fortran: &str| format!("{{'descr': '|u1', 'fortran_order': {fortran}, 'shape': {shape}}}\n");
    let read = |content: &[u8]| {
        std::fs::write(folder.join("a.npy"), content).unwrap();
        let zipped = archive("a.npy", content, CompressionMethod::Deflated);
        std::fs::write(folder.join("a.npz"), zipped).unwrap();
        let array = pictures(&[typed(&folder, "a.npy")], 9);
        assert_eq!(array.is_ok(), pictures(&[typed(&folder, "a.npz")], 9).is_ok());
        array
    };
    read(&npy(&header("(2, 3, 4)", "False"), &[0; 24])).unwrap();
    for (shape, words) in [
        ("(18446744073709551615, 2, 2)", "but 24 bytes follow"),
        ("(4611686018427387904, 2, 2)", "but 24 bytes follow"),
        ("(1000000000, 1000, 1000)", "but 24 bytes follow"),
        ("(1, 18446744073709551615, 2)", "cannot be shown"),
        ("(1, 2, 4294967296)", "cannot be shown"),
        ("(0, 3, 4)", "cannot be shown"),
        ("(2, 0, 4)", "cannot be shown"),
        ("(2, 3, 5)", "but 24 bytes follow"),
        ("(1, 3, 4)", "but 24 bytes follow"),
        ("(2, 2, 3, 2)", "not that of pictures"),
        ("()", "not that of pictures"),
    ] {
        refused(read(&npy(&header(shape, "False"), &[0; 24])), &["a.npy", words]);
    }
    refused(read(&npy(&header("(2, 3, 4)", "True"), &[0; 24])), &["Fortran", "ascontiguousarray"]);
    let whole = npy(&header("(2, 3, 4)", "False"), &[0; 24]);
    for length in 0..whole.len() {
        refused(read(&whole[..length]), &["a.npy"]);
    }
}

#[test]
fn pictures_of_a_folder() {
    let folder = folder("folder");
    let images = folder.join("flow.v2");
    std::fs::create_dir_all(&images).unwrap();
    for (name, bytes) in [
        ("b.JPG", b"\xff\xd8\xff\xe0...".as_slice()),
        ("a.png", b"\x89PNG\r\n\x1a\n..."),
        ("d.gif", b"GIF89a..."),
        ("c.webp", b"RIFF\0\0\0\0WEBPVP8 "),
        ("e.jpeg", b"\x89PNG\r\n\x1a\nby another name"),
        ("notes.txt", b"no picture"),
    ] {
        std::fs::write(images.join(name), bytes).unwrap();
    }
    let read = |most| pictures(&[typed(&folder, "x=flow.v2")], most);
    let mimes = |most| match &read(most).unwrap()[..] {
        [(name, Pictures::Encoded(files))] if name == "x" => files.iter().map(|file| file.mime).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(mimes(9), ["image/png", "image/jpeg", "image/webp", "image/gif", "image/png"]);
    assert_eq!(mimes(2), ["image/png", "image/jpeg"]);
    assert_eq!(pictures(&[typed(&folder, "flow.v2")], 1).unwrap()[0].0, "flow.v2");

    std::fs::write(images.join("f.png"), b"<svg onload=...>").unwrap();
    refused(read(9), &["f.png", "is not a PNG"]);
    std::fs::File::create(images.join("f.png")).unwrap().set_len(20 << 20).unwrap();
    refused(read(9), &["f.png", "20971520 bytes", "scale the picture down"]);
    std::fs::create_dir_all(folder.join("none")).unwrap();
    refused(pictures(&[typed(&folder, "none")], 9), &["none", "holds no .png"]);
}

#[test]
fn texts_of_every_kind() {
    let folder = folder("texts");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let read =
        |sources: &[&str], most| texts(&sources.iter().map(|text| typed(&folder, text)).collect::<Vec<_>>(), most);
    let arm = |name: &str, texts: &[&str]| (name.to_string(), texts.iter().map(|text| text.to_string()).collect());
    write("all.json", r#"{"zebra": ["a", "b\n<c>"], "ant": [{"text": "d", "id": 1}], "9": ["e"]}"#);
    write("list.json", r#"["a", "b"]"#);
    write("lines.jsonl", "\"a\"\n\n{\"id\": 3, \"text\": \"b\"}\n");
    write("plain.txt", "\u{feff}a\r\n\nb\n");
    let all = [arm("zebra", &["a", "b\n<c>"]), arm("ant", &["d"]), arm("9", &["e"])];
    assert_eq!(read(&["all.json"], 9).unwrap(), all);
    assert_eq!(read(&["all.json"], 1).unwrap()[0], arm("zebra", &["a"]));
    assert_eq!(read(&["all.json:ant", "x=all.json:9"], 9).unwrap(), [arm("ant", &["d"]), arm("x", &["e"])]);
    let singles = [arm("list", &["a", "b"]), arm("lines", &["a", "b"]), arm("x", &["a", "", "b"])];
    assert_eq!(read(&["list.json", "lines.jsonl", "x=plain.txt"], 9).unwrap(), singles);

    refused(read(&["x=all.json"], 9), &["3 arrays", "x cannot name them all"]);
    refused(read(&["all.json:bee"], 9), &["\"bee\"", "pick one of zebra, ant, 9"]);
    refused(read(&["list.json:a"], 9), &["leave out the name"]);
    refused(read(&["list.json", "list.json"], 9), &["arm list", "two arms have this name"]);
    refused(read(&["missing.txt"], 9), &["cannot read", "missing.txt"]);
    refused(read(&["."], 9), &["directory", ".json, .jsonl or .txt"]);
    for (name, text, words) in [
        ("a.json", "{", "object of lists of texts"),
        ("a.json", "3", "object of lists of texts"),
        ("a.json", "{\"a\": \"b\"}", "object of lists of texts"),
        ("a.json", "{\"a\": [1]}", "object of lists of texts"),
        ("a.json", "[\"a\"] x", "object of lists of texts"),
        ("a.json", "{}", "no arrays"),
        ("a.json", "{\"a\": []}", "arm a: there are no texts"),
        ("a.json", "{\"a\": [\"b\"], \"a\": [\"c\"]}", "two arms have this name"),
        ("a.json", "{\"\\u001b\": [\"b\"]}", "printable"),
        ("a.jsonl", "\"a\"\nb\n", "line 2 is neither"),
        ("a.txt", "", "there are no texts"),
        ("a.csv", "a", "not known"),
    ] {
        write(name, text);
        refused(read(&[name], 9), &[words]);
    }
    write("deep.json", &"[".repeat(100_000));
    refused(read(&["deep.json"], 9), &["deep.json", "object of lists of texts"]);
    std::fs::write(folder.join("a.txt"), b"a\nb\xff\n").unwrap();
    refused(read(&["a.txt"], 9), &["line 2 is not UTF-8"]);
}
