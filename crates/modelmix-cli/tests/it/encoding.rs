//! Images and texts as inputs: `encode`, folders in other commands, galleries, copies of chosen files, error messages.

use std::fs;
use std::path::Path;

use serde_json::Value;
use sha2::Digest;

use super::world::World;

const ENCODER: &str = "--encoder fashion/models/encoder.onnx";

/// Grey images of 28 × 28 pixels with a square at a place that depends on `seed`.
fn write_images(folder: &Path, count: usize, seed: usize) {
    fs::create_dir_all(folder).unwrap();
    for index in 0..count {
        let at = (index * 7 + seed * 5) % 18;
        let inside = |i: usize| (at..at + 9).contains(&i);
        let pixel = |i: usize| if inside(i / 28) && inside(i % 28 + seed) { 40 + (index * 11 % 200) as u8 } else { 3 };
        let pixels: Vec<u8> = (0..28 * 28).map(pixel).collect();
        let file = fs::File::create(folder.join(format!("{index}.png"))).unwrap();
        let mut writer = png::Encoder::new(file, 28, 28);
        writer.set_color(png::ColorType::Grayscale);
        writer.write_header().unwrap().write_image_data(&pixels).unwrap();
    }
}

fn world() -> World {
    let world = World::new();
    for (seed, name) in ["left", "right", "real"].into_iter().enumerate() {
        write_images(&world.path(&format!("out/{name}")), 30, seed);
    }
    world
}

/// Features that `encode` writes give the same answer as the folders themselves.
#[test]
fn folders_and_their_features_are_the_same() {
    let world = world();
    let line = format!("encode out/left out/right {ENCODER} --out features.npz --json");
    let document = world.json(&line);
    assert_eq!((&document["command"], &document["width"]), (&"encode".into(), &64.into()));
    assert_eq!(document["sets"][1]["name"], "right");
    assert_eq!(document["sets"][1]["samples"], 30);
    world.answer(&format!("encode real=out/real {ENCODER} --out real.safetensors --quiet"));
    let features = "solve features.npz --reference real.safetensors --bandwidth 10 --json";
    let folders = format!("solve out/left out/right --reference out/real {ENCODER} --bandwidth 10 --json");
    let (features, folders) = (world.json(features), world.json(&folders));
    for field in ["arms", "mixture", "best_single", "gain"] {
        assert_eq!(features[field], folders[field], "{field}");
    }
    let encoding = &folders["provenance"]["encoding"];
    assert_eq!(encoding, &features["provenance"]["encoding"]);
    assert_eq!(encoding["fingerprint"], document["encoding"]["fingerprint"]);
    let inputs = folders["provenance"]["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 3);
    assert!(inputs.iter().all(|input| input["sha256"].as_str().unwrap().len() == 64), "{inputs:?}");
    assert_ne!(inputs[0]["sha256"], inputs[1]["sha256"]);
}

#[test]
fn every_command_takes_folders() {
    let world = world();
    let rest = format!("out/left out/right --reference out/real {ENCODER} --bandwidth 10");
    world.answer(&format!("score {rest} --metrics rke,mmd,fid"));
    world.answer(&format!("simulate {rest} --rounds 20 --seeds 2 --policy adaptive"));
    world.answer(&format!("plan {rest} --weight-error 0.4"));
    let html = format!("solve {rest} --html report.html");
    world.answer(&html);
    let page = fs::read_to_string(world.path("report.html")).unwrap();
    assert!(page.matches("data:image").count() >= 48, "the gallery has 24 images of each arm");
}

/// The second run reads what the first has computed.
#[test]
fn features_are_cached() {
    let world = world();
    let line = format!("encode out/left {ENCODER} --cache cache --json --out");
    let cached = |document: &Value| document["sets"][0]["cached"].as_u64().unwrap();
    assert_eq!(cached(&world.json(&format!("{line} one.npz"))), 0);
    write_images(&world.path("out/left/more"), 4, 5);
    assert_eq!(cached(&world.json(&format!("{line} two.npz"))), 30);
    let none = world.json(&format!("encode out/left {ENCODER} --no-cache --json --out three.npz"));
    assert_eq!(cached(&none), 0);
}

#[test]
fn chosen_files_are_listed_and_copied() {
    let world = world();
    let rest = format!("out/left out/right --reference out/real {ENCODER} --bandwidth 10 --count 6 --quiet");
    world.answer(&format!("curate {rest} --out chosen.csv --copy-to best --html curated.html"));
    let text = fs::read_to_string(world.path("chosen.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("arm,row,file"));
    for line in lines {
        let [arm, row, file] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(file, format!("out/{arm}/{row}.png"));
        let copy = world.path(&format!("best/{arm}/{row}.png"));
        assert_eq!(fs::read(&copy).unwrap(), fs::read(world.path(file)).unwrap());
        assert!(!copy.is_symlink());
    }
    assert!(fs::read_to_string(world.path("curated.html")).unwrap().contains("data:image"));
    world.answer(&format!("curate {rest} --copy-to linked --link"));
    let linked: usize = ["left", "right"]
        .iter()
        .filter_map(|arm| fs::read_dir(world.path(&format!("linked/{arm}"))).ok())
        .map(|files| files.filter(|file| file.as_ref().unwrap().path().is_symlink()).count())
        .sum();
    assert_eq!(linked, 6);
    let refused = world.run(&format!("curate {rest} --copy-to best"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("best") && refused.stderr.contains("not empty"), "{}", refused.stderr);
}

/// Copies that cannot be made are refused before the encoder is opened.
#[test]
fn copies_are_checked_before_the_work() {
    let world = world();
    world.answer(&format!("encode out/left {ENCODER} --out left.npz --quiet"));
    for (arms, rest, words) in [
        ("out/left out/right", "--copy-to out/left/best/of", "it is within out/left, whose samples are read"),
        ("left=left.npz", "--copy-to best --images left=out/left", ""),
        ("left=left.npz", "--copy-to other", "the samples of left.npz are not files, so they cannot be copied"),
        ("fashion/images/specialists.npz", "--copy-to other", "specialists.npz are not files"),
        ("left=left.npz", "--copy-to out/left/best --images left=out/left", "it is within out/left"),
    ] {
        let encoder = if arms.contains("left.npz") { "" } else { " --encoder missing.onnx" };
        let run = world.run(&format!("curate {arms}{encoder} --objective rke --bandwidth 10 --count 3 {rest}"));
        assert_eq!(run.code, if words.is_empty() { 0 } else { 2 }, "{arms} {rest}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    assert_eq!(fs::read_dir(world.path("best/left")).unwrap().count(), 3);
}

/// Features that state ids find their images by id, whatever the order of files; without a folder, ids are in the manifest.
#[test]
fn images_of_features_are_found_by_their_ids() {
    let world = world();
    world.answer(&format!("encode out/left out/right {ENCODER} --out features.npz --quiet"));
    let rest = "features.npz --objective rke --bandwidth 10 --count 8 --quiet";
    world.answer(&format!("curate {rest} --out ids.csv"));
    let folders = "--images left=out/left --images right=out/right";
    world.answer(&format!("curate {rest} {folders} --out files.csv --copy-to best"));
    let lines = |name: &str| -> Vec<Vec<String>> {
        let text = fs::read_to_string(world.path(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect()).collect()
    };
    for (by_id, by_file) in lines("ids.csv").iter().zip(lines("files.csv")) {
        // Row 10 is 10.png, although 10.png comes before 2.png in the order of bytes.
        assert_eq!(by_id[2], format!("{}.png", by_id[1]));
        assert_eq!(by_file[2], format!("out/{}/{}.png", by_id[0], by_id[1]));
        let copy = fs::read(world.path(&format!("best/{}/{}", by_id[0], by_id[2]))).unwrap();
        assert_eq!(copy, fs::read(world.path(&by_file[2])).unwrap());
    }
    assert_eq!(lines("ids.csv").len(), 8);
    // The gallery of a folder shows the same images as the gallery of its features.
    let html = |line: &str| {
        world.answer(line);
        let page = fs::read_to_string(world.path("page.html")).unwrap();
        page.split("data:image/png;base64,").skip(1).map(|rest| rest.split('"').next().unwrap().to_string()).collect()
    };
    let from_features: Vec<String> = html(&format!("solve features.npz --bandwidth 10 {folders} --html page.html"));
    let from_folders: Vec<String> =
        html(&format!("solve out/left out/right {ENCODER} --bandwidth 10 --html page.html"));
    assert_eq!(from_features, from_folders);
    fs::remove_file(world.path("out/left/7.png")).unwrap();
    let refused = world.run(&format!("solve features.npz --bandwidth 10 {folders} --html page.html"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("out/left does not have 7.png, which is a sample of left"), "{}", refused.stderr);
}

/// The checksum of a file is its own, and that of a folder changes with each image.
#[test]
fn inputs_have_checksums_of_their_own() {
    let world = world();
    let checksums = |line: &str| -> Vec<String> {
        let document = world.json(line);
        let inputs = document["provenance"]["inputs"].as_array().unwrap().clone();
        inputs.iter().map(|input| input["sha256"].as_str().unwrap().to_string()).collect()
    };
    let arrays = format!("solve fashion/images/specialists.npz {ENCODER} --bandwidth 10 --json");
    let bytes = fs::read(world.path("fashion/images/specialists.npz")).unwrap();
    let own: String = sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(checksums(&arrays), [own]);
    let folders = format!("solve out/left out/right {ENCODER} --bandwidth 10 --json");
    let before = checksums(&folders);
    fs::copy(world.path("out/left/3.png"), world.path("out/left/5.png")).unwrap();
    let after = checksums(&folders);
    assert!(before[0] != after[0] && before[1] == after[1]);
}

/// What is wrong is said before the first sample is encoded.
#[test]
fn inputs_are_checked_before_the_work() {
    let world = world();
    world.write("out/left/5.png", b"broken");
    for (line, words) in [
        (format!("solve out/left out/right --reference out/gone {ENCODER}"), "out/gone"),
        (format!("solve out/left left=out/right {ENCODER}"), "arm left: two arms have this name"),
        (format!("encode out/left left=out/right {ENCODER} --out x.npz"), "two sets have the name left"),
    ] {
        let refused = world.run(&line);
        assert_eq!(refused.code, 2);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

#[test]
fn broken_images_are_named_and_counted() {
    let world = world();
    world.write("out/left/5.png", b"");
    world.write("out/left/8.png", b"\x89PNG\r\n\x1a\n and no more");
    let line = format!("encode out/left {ENCODER} --out features.npz");
    let refused = world.run(&line);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("out/left/5.png"), "{}", refused.stderr);
    assert!(refused.stderr.contains("(or leave such samples out with --on-error skip)"), "{}", refused.stderr);
    assert!(!world.path("features.npz").exists());
    let skipped = world.run(&format!("{line} --on-error skip --json"));
    assert_eq!(skipped.code, 0, "{}", skipped.stderr);
    assert!(skipped.stderr.contains("2 of 30 samples of left were skipped"), "{}", skipped.stderr);
    let document: Value = serde_json::from_str(&skipped.stdout).unwrap();
    assert_eq!((&document["sets"][0]["samples"], &document["sets"][0]["skipped"]), (&28.into(), &2.into()));
}

/// Each sentence names what is wrong and what to do.
#[test]
fn inputs_that_do_not_fit() {
    let world = world();
    world.write("texts.txt", "one text\nanother\n");
    fs::create_dir(world.path("empty")).unwrap();
    world.answer(&format!("encode out/left {ENCODER} --out left.npz --quiet"));
    let settings = fs::read_to_string(world.path("fashion/models/encoder.encoder.toml")).unwrap();
    fs::copy(world.path("fashion/models/encoder.onnx"), world.path("other.onnx")).unwrap();
    world.write("other.encoder.toml", settings.replace("255.0", "128.0"));
    for (line, words) in [
        ("solve out/left out/right", vec!["out/left", "images", "--encoder"]),
        ("solve texts.txt made/a.npy", vec!["texts.txt", "texts", "--encoder"]),
        ("solve made/a.npy made/b.npy --encoder inception-v3-fid", vec!["features already", "leave out --encoder"]),
        (
            "solve out/left texts.txt --encoder fashion/models/encoder.onnx",
            vec!["texts.txt", "texts", "encodes images"],
        ),
        ("solve empty out/left --encoder fashion/models/encoder.onnx", vec!["empty", "images"]),
        ("solve left.npz out/right --encoder other.onnx", vec!["arm right", "other.onnx", "arm left", "encoder.onnx"]),
        ("encode out/left --encoder dinov2-vitl14 --out x.npz", vec!["dinov2-vitl14", "pull dinov2-vitl14"]),
        ("encode out/left --encoder dinov2-vitl --out x.npz", vec!["dinov2-vitl14"]),
        ("encode out/left --encoder fashion/models/encoder.onnx --out x.csv", vec!["x.csv", ".npz or .safetensors"]),
        ("encode out/left --encoder inception-v3-fid --weights made/model.pt --out x.npz", vec!["model.pt"]),
        ("encode out/left --out x.npz", vec!["--encoder"]),
        ("encode gone --encoder fashion/models/encoder.onnx --out x.npz", vec!["gone"]),
        (
            "encode out/left --encoder fashion/models/encoder.onnx --runtime onnxruntime --device cuda:x --out x.npz",
            vec!["cuda"],
        ),
        ("encoders show dinov2-vitl", vec!["dinov2-vitl14"]),
        ("encoders show other.onnx", vec!["other.onnx is a file", "--encoder other.onnx"]),
        ("solve gone.npy out/gone --encoder fashion/models/encoder.onnx", vec!["gone.npy"]),
    ] {
        let run = world.run(line);
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        let missing: Vec<_> = words.iter().filter(|word| !run.stderr.contains(**word)).collect();
        assert!(missing.is_empty(), "{line}: {missing:?} not in {}", run.stderr);
    }
    assert!(!world.left_behind().iter().any(|name| name.starts_with("x.")), "{:?}", world.left_behind());
}

#[test]
fn encoders_are_listed() {
    let world = World::new();
    let document = world.json("encoders --json");
    let encoders = document["encoders"].as_array().unwrap();
    let names: Vec<&str> = encoders.iter().map(|encoder| encoder["name"].as_str().unwrap()).collect();
    for name in ["inception-v3-fid", "dinov2-vitg14", "clip-vit-l14-336", "roberta-base", "all-minilm-l6-v2", "swav"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(encoders.iter().all(|encoder| encoder["how_to_get"].is_string()), "no weights are here");
    assert!(world.answer("encoders").contains("inception-v3-fid"));
    let shown = world.answer("encoders show clip-vit-b32");
    assert!(shown.contains("clean-fid") && shown.contains("512") && shown.contains("missing"), "{shown}");
}
