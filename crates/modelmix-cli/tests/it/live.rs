//! Live runs on the command line: real ONNX generators, interruption, export, reports, damage and secrets.

use std::fs;
use std::time::{Duration, Instant};

use super::world::{Run, World, words};

const CONFIG: &str = r#"
title = "Live generators"
objective = "mmd"
bandwidth = 20
reference = "fashion/reference.npy"
ordered = true
[budget]
pulls = 40
[encoder]
name = "fashion/models/encoder.onnx"
[[arm]]
name = "tops"
kind = "onnx"
model = "fashion/models/tops_gan.onnx"
[[arm]]
name = "shoes"
kind = "onnx"
model = "fashion/models/shoes_gan.onnx"
"#;

fn world() -> World {
    let world = World::new();
    world.write("run.toml", CONFIG);
    world
}

#[test]
fn a_run_is_executed_shown_resumed_and_exported() {
    let world = world();
    let text = world.answer("run run.toml --dir run --html report.html");
    assert!(text.contains("The run ended because its budget of pulls is spent: 40 pulls, 40 samples"), "{text}");
    assert!(text.contains("tops") && text.contains("95% interval"), "{text}");
    let page = fs::read_to_string(world.path("report.html")).unwrap();
    // What was generated, and what was asked.
    assert!(page.contains("<title>Live generators") && page.matches("data:image").count() >= 20);
    assert!(page.contains("What the run asked of each arm"));
    let status = world.json("status run --json");
    assert_eq!((status["command"].as_str(), status["pulls"].as_u64()), (Some("status"), Some(40)));
    assert_eq!(status["state"], "ended");
    // The same run again is the same run, and a larger budget goes on.
    let again = world.json("run run.toml --dir run --resume --json");
    assert_eq!(again["report"], status["report"]);
    let more = world.json("resume run --pulls 44 --json");
    assert_eq!(more["samples"], 44);
    let refused = world.run("run run.toml --dir run");
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains("has a run already"), "{}", refused.stderr);

    world.answer("export run --out pool");
    let manifest = fs::read_to_string(world.path("pool/manifest.csv")).unwrap();
    assert_eq!(manifest.lines().count(), 45);
    assert!(manifest.starts_with("arm,row,file,pull,prompt,seed,cost,sha256\n"), "{manifest}");
    let file = manifest.lines().nth(1).and_then(|line| line.split(',').nth(2)).unwrap();
    assert!(fs::read(world.path(&format!("pool/{file}"))).unwrap().starts_with(b"\x89PNG"));
    // The features that were exported give the mixture of the run.
    let solved = world.json("solve pool/features.npz --reference fashion/reference.npy -o mmd -b 20 --json");
    let live = world.json("status run --json");
    for (arm, offline) in live["arms"].as_array().unwrap().iter().zip(solved["arms"].as_array().unwrap()) {
        assert_eq!(arm["name"], offline["name"]);
        assert!((arm["weight"].as_f64().unwrap() - offline["weight"].as_f64().unwrap()).abs() < 1e-9);
    }
    world.answer("export run --out set --what mixture --count 10 --link");
    let drawn = fs::read_to_string(world.path("set/manifest.csv")).unwrap();
    assert_eq!(drawn.lines().count(), 11);
    let too_many = world.run("export run --out other --what mixture --count 1000");
    assert_eq!(too_many.code, 2);
    assert!(too_many.stderr.contains("ask for at most"), "{}", too_many.stderr);
    assert!(!world.path("other").exists());
}

#[test]
fn damage_is_named_and_nothing_is_repaired() {
    let world = world();
    world.answer("run run.toml --dir run --quiet");
    assert_eq!(world.run("status run").code, 0);
    let payload = find(&world.path("run/payloads"), "png");
    let mut bytes = fs::read(&payload).unwrap();
    bytes[40] ^= 1;
    fs::write(&payload, &bytes).unwrap();
    let flipped = world.run("status run");
    assert_eq!(flipped.code, 1);
    let name = payload.file_name().unwrap().to_string_lossy().into_owned();
    assert!(flipped.stdout.contains(&name), "{}", flipped.stdout);
    assert_eq!(fs::read(&payload).unwrap(), bytes);
    assert_eq!(world.run("status run --no-check").code, 0);
    fs::remove_file(&payload).unwrap();
    let missing = world.run("status run");
    assert!(missing.code == 1 && missing.stdout.contains(&name), "{}", missing.stdout);
}

/// Some file with this extension.
fn find(folder: &std::path::Path, extension: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                return path;
            }
        }
    }
    panic!("there is no .{extension} file");
}

#[test]
fn an_interrupt_drains_the_run_and_resume_goes_on() {
    let world = world();
    world.write("run.toml", CONFIG.replace("pulls = 40", "pulls = 100000"));
    let child = world.command(&words("run run.toml --dir run --quiet")).spawn().unwrap();
    let started = Instant::now();
    while !world.path("run/run.db").exists()
        || world.run("status run --no-check --json").stdout.contains("\"samples\": 0")
    {
        assert!(started.elapsed() < Duration::from_secs(60), "the run does not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
    let running = world.json("status run --no-check --json");
    assert_eq!(running["state"], "running");
    let second = world.run("resume run");
    assert!(second.code == 2 && second.stderr.contains(&child.id().to_string()), "{}", second.stderr);
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, 130, "{}", run.stderr);
    assert!(run.stdout.contains("The run was interrupted; modelmix resume run goes on"), "{}", run.stdout);
    let samples = world.json("status run --json")["samples"].as_u64().unwrap();
    let more = world.json(&format!("resume run --pulls {} --json", samples + 5));
    assert_eq!(more["samples"].as_u64(), Some(samples + 5));
}

#[test]
fn mistakes_in_the_file_are_named() {
    for (from, to, expected) in [
        ("bandwidth = 20", "bandwith = 20", "unknown field `bandwith`"),
        ("pulls = 40", "", "the run would never end"),
        ("kind = \"onnx\"", "kind = \"onyx\"", "unknown variant `onyx`"),
        ("name = \"shoes\"", "name = \"tops\"", "two arms are named tops"),
        ("fashion/models/tops_gan.onnx", "none.onnx", "arm tops: "),
        ("fashion/models/encoder.onnx", "none.onnx", "none.onnx"),
        ("objective = \"mmd\"", "objective = \"mmd - 0.2*nice\"", "[scores.nice] is missing"),
        ("objective = \"mmd\"", "objective = \"mmd + 0.1*cost\"", "arm tops has no cost"),
        ("fashion/reference.npy", "none.npy", "none.npy"),
    ] {
        let world = world();
        world.write("run.toml", CONFIG.replacen(from, to, 1));
        let run = world.run("run run.toml --dir run");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{to}");
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{to}: {}", run.stderr);
        assert!(!world.path("run").exists(), "{to}");
    }
    let none = World::new().run("status nowhere");
    assert!(none.code == 2 && none.stdout.is_empty() && none.stderr.contains("nowhere"), "{}", none.stderr);
    let negative = world().run("run run.toml --dir run --money -1");
    assert!(negative.code == 2 && negative.stderr.contains("budget.money is -1"), "{}", negative.stderr);
}

#[test]
fn probes_ask_every_arm_once_and_store_nothing() {
    let world = world();
    let text = world.answer("probe run.toml");
    assert!(text.starts_with("Every arm answers.") && text.contains("image of 28 × 28"), "{text}");
    assert_eq!(world.json("probe run.toml --arms shoes --json")["arms"].as_array().map(Vec::len), Some(1));
    world.write(
        "broken.toml",
        format!("{CONFIG}\n[[arm]]\nname = \"down\"\nkind = \"openai-images\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"x\"\nprompt = \"a\"\n"),
    );
    let failed = world.run("probe broken.toml");
    assert!(failed.code == 1 || failed.stderr.contains("prompt"), "{} {}", failed.stdout, failed.stderr);
    assert_eq!(world.left_behind().len(), 2);
}

/// A key is read from the environment, sent to its server, and found in no file, output or command line.
#[test]
fn keys_appear_nowhere() {
    const CANARY: &str = "sk-canary-9f8e7d6c5b4a";
    let world = World::new();
    world.write(
        "run.toml",
        "objective = \"rke\"\nbandwidth = 1\nprompts = [\"a story\"]\nbudget = { pulls = 3, time = \"5s\" }\n[encoder.embeddings]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"e\"\nkey = \"env:CANARY\"\n[[arm]]\nname = \"paid\"\nkind = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nkey = \"env:CANARY\"\nretries = 0\nset_aside_after = 2\n",
    );
    let run = |line: &str| Run::from(world.command(&words(line)).env("CANARY", CANARY).output().unwrap());
    let mut seen = String::new();
    for line in ["run run.toml --dir run", "status run", "status run --json --html page.html", "probe run.toml"] {
        let run = run(line);
        seen += &(run.stdout + &run.stderr);
    }
    assert!(seen.contains("paid is set aside"), "{seen}");
    assert!(!seen.contains(CANARY));
    let literal = world.path("run.toml");
    let mut folders = vec![world.path("run")];
    let mut files = vec![world.path("page.html"), literal.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "{}", file.display());
    }
    // A key in the file itself is refused without repeating it.
    world.write("run.toml", fs::read_to_string(&literal).unwrap().replace("env:CANARY", CANARY));
    let refused = run("run run.toml --dir other");
    assert_eq!(refused.code, 2);
    assert!(!refused.stderr.contains(CANARY) && refused.stderr.contains("env:"), "{}", refused.stderr);
}
