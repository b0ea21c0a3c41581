//! Provenance of documents: every command states its files, settings and engine.

use std::process::Command;

use serde_json::{Value, json};

use super::world::World;

const PAIR: &str = "made/a.npy 'second=made/b.npy' --reference made/reference.npy";

/// Size and checksum of a file, computed by other programs.
fn by_coreutils(world: &World, path: &str) -> (u64, String) {
    let output = Command::new("sha256sum").arg(world.path(path)).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (std::fs::metadata(world.path(path)).unwrap().len(), text.split(' ').next().unwrap().into())
}

#[test]
fn every_document_says_where_it_comes_from() {
    let world = World::new();
    let lines = [
        format!("solve {PAIR} --objective 'rke - 0.2*precision' --seed 7 --json --threads 1"),
        format!("score {PAIR} --metrics rke,mmd --seed 7 --json --threads 1"),
        format!("simulate {PAIR} --rounds 5 --seeds 1 --objective rke --seed 7 --json --threads 1"),
        format!("curate {PAIR} --count 5 --objective rke --seed 7 --json --threads 1"),
    ];
    for line in lines {
        let document = world.json(&line);
        let provenance = &document["provenance"];
        assert_eq!(
            provenance["command"],
            format!("modelmix {}", line.replace("'second=made/b.npy'", "second=made/b.npy"))
        );
        assert_eq!(provenance["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(provenance["seed"], 7);
        assert_eq!(provenance["date"], "2024-02-29T12:34:56Z");
        let engine = provenance["engine"].as_str().unwrap();
        // MMD² of the score table is summed in double precision.
        let precision = if line.starts_with("score") { "single and double precision" } else { "single precision" };
        assert!(engine.starts_with(&format!("cpu, {precision} (")) && engine.ends_with(", 1 thread)"), "{engine}");
        let inputs = [
            ("arms", "made/a.npy", "made/a.npy"),
            ("arms", "made/b.npy", "second=made/b.npy"),
            ("reference", "made/reference.npy", "made/reference.npy"),
        ];
        let expected: Vec<Value> = inputs
            .into_iter()
            .map(|(role, path, argument)| {
                let (bytes, sha256) = by_coreutils(&world, path);
                json!({"role": role, "path": path, "arguments": [argument], "bytes": bytes, "sha256": sha256})
            })
            .collect();
        assert_eq!(provenance["inputs"], json!(expected), "{line}");
        // The reference has 30 rows, and the median rule uses all of them.
        let bandwidth = &provenance["bandwidths"][0];
        assert_eq!(
            (&bandwidth["rule"], &bandwidth["samples"], &bandwidth["seed"]),
            (&json!("median"), &json!(30), &json!(7))
        );
        assert!(bandwidth["of"].as_str().unwrap().starts_with("rke") && bandwidth["bandwidth"].as_f64().unwrap() > 0.0);
    }
}

/// The command in a document prints the same document if it is run again.
#[test]
fn a_document_can_be_made_again() {
    let world = World::new();
    let line = "solve made/a.npy 'odd name=made/b.npy' --objective 'rke + 0.01*cost' --costs 'odd name=2,a=3' --json";
    let text = world.answer(line);
    let document: Value = serde_json::from_str(&text).unwrap();
    let command = document["provenance"]["command"].as_str().unwrap();
    let mut shell = Command::new("sh");
    world.set_up(&mut shell);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_modelmix")).parent().unwrap().to_path_buf();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let again = shell.args(["-c", command]).env("PATH", path).output().unwrap();
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
}

#[test]
fn given_bandwidths_and_options_of_files_are_told() {
    let world = World::new();
    world.write("options.toml", "bandwidth = 2\nobjective = \"rke\"\n");
    let document = world.json("solve made/a.npy made/b.npy --config options.toml --json");
    let provenance = &document["provenance"];
    assert_eq!(provenance["bandwidths"], json!([{"of": "rke", "bandwidth": 2.0, "rule": "given"}]));
    assert_eq!(provenance["inputs"][2]["role"], "config");
    let document = world
        .json("solve fashion/specialists.npz:flow fashion/specialists.npz:vae --objective 'rke(bandwidth=20)' --json");
    let inputs = document["provenance"]["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 1, "a file of many arms is one input");
    assert_eq!(inputs[0]["arguments"], json!(["fashion/specialists.npz:flow", "fashion/specialists.npz:vae"]));
}

#[test]
fn experiments_have_provenance() {
    let world = World::new();
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/fashion/categories-rke.toml");
    let document = world.json(&format!("reproduce {} --json", file.display()));
    let (whole, solve) = (&document["provenance"], &document["experiments"][0]["solve"]["provenance"]);
    assert_eq!(whole["command"], format!("modelmix reproduce {} --json", file.display()));
    assert_eq!((&whole["date"], &solve["date"]), (&json!("2024-02-29T12:34:56Z"), &json!("2024-02-29T12:34:56Z")));
    let roles: Vec<&str> =
        solve["inputs"].as_array().unwrap().iter().map(|input| input["role"].as_str().unwrap()).collect();
    assert!(roles.contains(&"experiment") && roles.contains(&"arms"), "{roles:?}");
    assert!(solve["inputs"].as_array().unwrap().iter().all(|input| input["sha256"].as_str().unwrap().len() == 64));
    assert_eq!(solve["bandwidths"][0]["rule"], "given");
}

/// A report of an experiment has a table of expected and measured values, especially if a check fails.
#[test]
fn a_report_of_experiments_shows_what_failed() {
    let world = World::new();
    let experiment = "name = \"odd\"\nabout = \"Is it so?\"\nfeatures = 'fashion'\narms = [\"categories.npz\"]\nobjective = \"rke\"\n\
                      bandwidth = 20\nsamples = 50\n[expected]\n\"best single\" = \"coat\"\n\"gain\" = { at_least = 0 }\n";
    world.write("odd.toml", experiment);
    let run = world.run("reproduce odd.toml --html odd.html --quiet");
    assert_eq!(run.code, 1, "{}", run.stderr);
    let page = std::fs::read_to_string(world.path("odd.html")).unwrap();
    for shown in [
        "Expected",
        "Measured",
        "coat",
        "✗ not as expected",
        "✓ as expected",
        "1 of 2 expectations met",
        "<h3>Provenance",
    ] {
        assert!(page.contains(shown), "{shown} is not in the page");
    }
    let table = world.run("reproduce odd.toml --html odd.html --csv");
    assert_eq!(table.code, 1);
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert_eq!(lines[..2], ["quantity,expected,measured,result", "best single,coat,bag,not as expected"]);
    assert!(lines[2].starts_with("gain,at least 0,0.") && lines[2].ends_with(",as expected"), "{}", lines[2]);
}

#[test]
fn a_date_that_is_none_is_refused() {
    let world = World::new();
    for wrong in ["yesterday", "-1", "253402300800", ""] {
        let mut command = world.command(&["solve", "made/a.npy", "made/b.npy", "--json"]);
        let output = command.env("SOURCE_DATE_EPOCH", wrong).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("SOURCE_DATE_EPOCH is \"{wrong}\"")), "{stderr}");
    }
}

/// Documents of different data form separate sections, those of the same data one section.
#[test]
fn documents_of_different_data_stand_apart() {
    let world = World::new();
    let write = |name: &str, line: &str| world.write(name, world.answer(line));
    write("one.json", "solve made/a.npy made/b.npy --json");
    write("one-scores.json", "score made/a.npy made/b.npy --json");
    // The same names and sizes, but other samples.
    write("two-scores.json", "score a=fashion/specialists.npz:vae b=fashion/specialists.npz:flow --metrics rke --json");
    write("three.json", "simulate made/a.npy --rounds 3 --seeds 1 --json");
    let names = |documents: &str| {
        assert_eq!(world.answer(&format!("report {documents} --html r.html --quiet")), "");
        let page = std::fs::read_to_string(world.path("r.html")).unwrap();
        let heads = page.split("<h2 id=\"").skip(1).map(|part| part.split('"').next().unwrap().to_string());
        heads.collect::<Vec<_>>()
    };
    assert_eq!(names("one.json one-scores.json"), ["one"]);
    assert_eq!(names("one.json two-scores.json"), ["one", "two-scores"]);
    assert_eq!(names("one.json three.json"), ["one", "three"]);
    assert_eq!(names("one.json three.json one-scores.json"), ["one", "three"]);
}

/// Reports accept documents of earlier versions, which have no provenance.
#[test]
fn documents_without_provenance_are_read() {
    let world = World::new();
    let mut document: Value = world.json("solve made/a.npy made/b.npy --json");
    document.as_object_mut().unwrap().remove("provenance");
    world.write("older.json", document.to_string());
    world.answer("report older.json --html r.html --quiet");
    let page = std::fs::read_to_string(world.path("r.html")).unwrap();
    assert!(!page.contains("<h3>Provenance") && page.contains("Use these weights"));
}
