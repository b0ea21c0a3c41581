//! Data in parts: `accumulate`, and `solve` of parts and of files of sums. The answer has the same bits for every way to split the work.

use std::fs;

use serde_json::Value;

use super::world::{World, npy, values};

const COLUMNS: usize = 6;
const FEATURES: &str = "--objective mmd --method features --random-features 128 --sampled-rows 64";

/// Three arms and a reference, each a folder of three files of different lengths.
fn world() -> World {
    let world = World::new();
    for (seed, (name, centre)) in
        [("left", -0.7), ("middle", 0.1), ("right", 0.8), ("real", 0.0)].into_iter().enumerate()
    {
        fs::create_dir(world.path(name)).unwrap();
        for part in 0..3 {
            let rows = 50 + 30 * part;
            let values = values(rows * COLUMNS, (10 * seed + part) as u64, centre);
            world.write(&format!("{name}/{part}.npy"), npy(rows, COLUMNS, &values));
        }
    }
    world
}

fn without_provenance(mut document: Value) -> Value {
    document.as_object_mut().unwrap().remove("provenance");
    document
}

#[test]
fn tasks_and_one_run_give_the_same_bits() {
    let world = world();
    let whole = world.result(&format!("solve left middle right --reference real {FEATURES} --threads 1 --json"));
    let threads = world.result(&format!("solve left middle right --reference real {FEATURES} --threads 4 --json"));
    assert_eq!(whole, threads);
    world.answer(&format!("accumulate left middle right --reference real {FEATURES} --out whole.acc"));
    assert_eq!(without_provenance(world.json("solve whole.acc --json")), whole);
    // One task per file, and every task with the reference; the last ones merged beforehand.
    let files: Vec<(&str, usize)> =
        ["left", "middle", "right"].into_iter().flat_map(|arm| (0..3).map(move |part| (arm, part))).collect();
    for (arm, part) in &files {
        let run = format!("accumulate {arm}={arm}/{part}.npy --reference real --survey --sampled-rows 64");
        world.answer(&format!("{run} --out survey-{arm}-{part}.acc"));
    }
    let named =
        |prefix: &str| files.iter().rev().map(|(arm, part)| format!("{prefix}-{arm}-{part}.acc ")).collect::<String>();
    let settings = "--objective mmd --method features --random-features 128";
    let plan = world.run(&format!("accumulate {}{settings} --out plan.acc", named("survey")));
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    assert!(plan.stderr.contains("128 random Fourier features"), "{}", plan.stderr);
    for (arm, part) in &files {
        let run = format!("accumulate {arm}={arm}/{part}.npy --reference real --plan plan.acc");
        world.answer(&format!("{run} --out part-{arm}-{part}.acc"));
    }
    world.answer("accumulate part-left-0.acc part-left-1.acc part-left-2.acc --out left.acc");
    let rest = named("part").replace("part-left-2.acc part-left-1.acc part-left-0.acc ", "");
    let mut parts = without_provenance(world.json(&format!("solve {rest}left.acc --json")));
    let mut expected = whole;
    // A plan of merged surveys has arms by name.
    for document in [&mut parts, &mut expected] {
        let arms = document["arms"].as_array_mut().unwrap();
        arms.sort_by_key(|arm| arm["name"].as_str().unwrap().to_string());
    }
    assert_eq!(parts["arms"], expected["arms"]);
    assert_eq!(parts["mixture"], expected["mixture"]);
    assert_eq!(parts["approximation"]["random_features"], 128);
}

/// The same options for every task: each sums its share, and pairs of blocks are exact.
#[test]
fn tasks_share_the_work() {
    let world = world();
    for (method, tasks) in [("features --random-features 64", 5), ("pairs", 4)] {
        let settings = format!("--objective 'mmd + 0.01*rke' --method {method} --sampled-rows 64");
        let whole = world.result(&format!("solve left middle right --reference real {settings} --json"));
        let run = |task: usize| {
            format!("accumulate left middle right --reference real --sampled-rows 64 --task {task}/{tasks}")
        };
        for task in 1..=tasks {
            world.answer(&format!("{} --survey --out survey-{task}.acc", run(task)));
        }
        let named = |prefix: &str| (1..=tasks).map(|task| format!("{prefix}-{task}.acc ")).collect::<String>();
        let settings = format!("--objective 'mmd + 0.01*rke' --method {method}");
        world.answer(&format!("accumulate {}{settings} --out plan.acc", named("survey")));
        for task in 1..=tasks {
            world.answer(&format!("{} --plan plan.acc --out part-{task}.acc", run(task)));
        }
        let parts = without_provenance(world.json(&format!("solve {}--json", named("part"))));
        assert_eq!(parts, whole, "{method}");
        let missing = world.run(format!("solve {}", named("part").replace("part-2.acc ", "")).trim_end());
        let (code, message) = if method == "pairs" { (2, "missing") } else { (0, "fewer than the") };
        assert_eq!(missing.code, code, "{}", missing.stderr);
        assert!(missing.stderr.contains(message), "{}", missing.stderr);
    }
}

/// Two tasks that name the same file differently: its shards have two names, so its rows count twice, which is said.
#[test]
fn rows_that_count_twice_are_told() {
    let world = world();
    world.answer("accumulate left middle --survey --sampled-rows 64 --out survey.acc");
    let settings = "--objective 'rke(bandwidth=2)' --method features --random-features 64";
    world.answer(&format!("accumulate survey.acc {settings} --out plan.acc"));
    world.answer("accumulate left middle --plan plan.acc --out part-1.acc");
    world.answer("accumulate left=./left --plan plan.acc --out part-2.acc");
    let once = world.run("solve part-1.acc");
    assert!(once.code == 0 && !once.stderr.contains("warning"), "{}", once.stderr);
    let twice = world.run("solve part-1.acc part-2.acc --json");
    assert_eq!(twice.code, 0);
    let warning = "the sums have 720 rows, more than the 480 that their plan was made from";
    assert!(twice.stderr.contains(warning), "{}", twice.stderr);
    let document: Value = serde_json::from_str(&twice.stdout).unwrap();
    assert!(document["warnings"][0].as_str().unwrap().contains(warning), "{}", document["warnings"]);
}

/// Few rows are solved exactly, with the answer of rows that are read whole.
#[test]
fn few_rows_are_exact() {
    let world = world();
    for arm in ["left", "middle", "right", "real"] {
        let mut all = Vec::new();
        for part in 0..3 {
            let bytes = fs::read(world.path(&format!("{arm}/{part}.npy"))).unwrap();
            let start = bytes.len() - (50 + 30 * part) * COLUMNS * 4;
            all.extend(bytes[start..].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        world.write(&format!("{arm}.npy"), npy(240, COLUMNS, &all));
    }
    let parts = world.run("solve left middle right --reference real --bandwidth 2 --memory 1GB --json");
    let parts: Value = serde_json::from_str(&parts.stdout).unwrap();
    let whole = world.json("solve left.npy middle.npy right.npy --reference real.npy --bandwidth 2 --json");
    assert!(parts.get("approximation").is_none());
    for (part, whole) in parts["arms"].as_array().unwrap().iter().zip(whole["arms"].as_array().unwrap()) {
        assert_eq!(part["name"], whole["name"]);
        let difference = part["weight"].as_f64().unwrap() - whole["weight"].as_f64().unwrap();
        assert!(difference.abs() < 1e-6, "{difference}");
    }
}

/// Precision needs all of the reference, also if it is a folder, and also to solve a sample from a file.
#[test]
fn precision_reads_the_whole_reference() {
    let world = world();
    let whole: Vec<f32> = (0..3).flat_map(|part| values((50 + 30 * part) * COLUMNS, 30 + part as u64, 0.0)).collect();
    world.write("real.npy", npy(240, COLUMNS, &whole));
    let objective = "--objective 'rke(bandwidth=2) - precision'";
    for method in ["features --random-features 64", "sample", "pairs"] {
        let run = format!("left middle {objective} --method {method} --sampled-rows 64");
        let folder = without_provenance(world.json(&format!("solve {run} --reference real --json")));
        assert_eq!(without_provenance(world.json(&format!("solve {run} --reference real.npy --json"))), folder);
        world.answer(&format!("accumulate {run} --reference real --out sums.acc"));
        assert_eq!(without_provenance(world.json("solve sums.acc --reference real --json")), folder);
        let alone = world.run("solve sums.acc");
        let needs = alone.code == 2 && alone.stderr.contains("--reference");
        assert_eq!(needs, method == "sample", "{method}: {}", alone.stderr);
    }
}

#[test]
fn columns_name_arms_and_scores() {
    let world = World::new();
    let run = "solve load/shard_plain.parquet --arm-column model --score-columns reward --features-column embedding --objective";
    let document = world.json(&format!("{run} 'rke - 0.1*reward' --json"));
    let rows: u64 = document["arms"].as_array().unwrap().iter().map(|arm| arm["samples"].as_u64().unwrap()).sum();
    assert!(rows > 100 && document["arms"].as_array().unwrap().len() > 1, "{rows}");
    assert_eq!(document["arms"][0]["terms"][1]["term"], "reward");
}

/// A run that fails keeps what it has summed, and goes on from there.
#[test]
fn an_interrupted_run_goes_on() {
    let world = world();
    let run = format!("accumulate left middle right --reference real {FEATURES} --threads 1");
    world.answer(&format!("{run} --out expected.acc"));
    let whole = fs::read(world.path("right/2.npy")).unwrap();
    let mut spoiled = whole.clone();
    let at = spoiled.len() - 8;
    spoiled[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    world.write("right/2.npy", &spoiled);
    let failed = world.run(&format!("{run} --out sums.acc"));
    assert_eq!(failed.code, 2);
    assert!(failed.stderr.contains("right/2.npy") && failed.stderr.contains("row 109"), "{}", failed.stderr);
    assert!(world.path("sums.acc.partial").exists() && !world.path("sums.acc").exists());
    world.write("right/2.npy", &whole);
    let resumed = world.run(&format!("{run} --out sums.acc"));
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stderr.contains("Going on from sums.acc.partial: 850 rows are done."), "{}", resumed.stderr);
    assert_eq!(fs::read(world.path("sums.acc")).unwrap(), fs::read(world.path("expected.acc")).unwrap());
    assert!(!world.path("sums.acc.partial").exists());
    // The second pass alone. A command with other settings does not go on from its sums.
    world.answer("accumulate left middle right --reference real --survey --sampled-rows 64 --out survey.acc");
    world.answer(&format!("accumulate survey.acc {} --out plan.acc", FEATURES.replace(" --sampled-rows 64", "")));
    let second = "accumulate left middle right --reference real --plan plan.acc --threads 1 --out second.acc";
    world.write("right/2.npy", &spoiled);
    assert_eq!(world.run(second).code, 2);
    let other = world.run(&format!("{second} --task 1/1 --sampled-rows 32"));
    assert_eq!(other.code, 2);
    assert!(
        other.stderr.contains("second.acc.partial") && other.stderr.contains("remove the file"),
        "{}",
        other.stderr
    );
    // A file whose rows are summed must not change.
    let first = fs::read(world.path("left/0.npy")).unwrap();
    world.write("left/0.npy", &first);
    let changed = world.run(second);
    assert_eq!(changed.code, 2);
    assert!(changed.stderr.contains("left/0.npy has changed since it was summed"), "{}", changed.stderr);
    fs::remove_file(world.path("second.acc.partial")).unwrap();
    assert_eq!(world.run(second).code, 2);
    world.write("right/2.npy", &whole);
    let resumed = world.run(second);
    assert!(resumed.stderr.contains("Going on from second.acc.partial: 850 rows are done."), "{}", resumed.stderr);
    // The same for solve.
    world.write("right/2.npy", &spoiled);
    let solve = format!("solve left middle right --reference real {FEATURES} --threads 1 --checkpoint half.acc");
    assert_eq!(world.run(&solve).code, 2);
    world.write("right/2.npy", &whole);
    let resumed = world.run(&solve);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(resumed.stderr.contains("Going on from half.acc"), "{}", resumed.stderr);
    assert!(!world.path("half.acc").exists());
}

#[test]
fn refusals_name_the_file_and_the_fix() {
    let world = world();
    world.answer(&format!("accumulate left --reference real {FEATURES} --out left.acc"));
    world.answer("accumulate left --reference real --survey --out survey.acc --sampled-rows 8");
    let mut damaged = fs::read(world.path("left.acc")).unwrap();
    damaged[200] ^= 1;
    world.write("damaged.acc", &damaged);
    for (line, parts) in [
        ("solve left.acc left.acc", ["left/0.npy, rows 0 to 49", "already included"]),
        ("solve left.acc survey.acc", ["survey.acc", "make them with one plan"]),
        ("solve damaged.acc", ["damaged.acc", "checksum"]),
        ("solve left.acc --objective rke", ["mmd(bandwidth=", "leave out --objective"]),
        ("solve left.acc left.npy", ["left.acc", "one kind"]),
        ("solve survey.acc --objective mmd", ["second pass", "accumulate survey-*.acc"]),
        ("solve left middle --method features --checkpoint r.html --html r.html", ["r.html", "two files"]),
        ("accumulate survey.acc --random-features 64 --out x.acc", ["--objective", "leave out --random-features"]),
        ("accumulate left.acc --sampled-rows 64 --out x.acc", ["merged", "leave out --sampled-rows"]),
        ("accumulate left.acc --seed 7 --out x.acc", ["merged", "leave out --seed"]),
        ("accumulate survey.acc --objective mmd --seed 7 --out x.acc", ["merged", "leave out --seed"]),
        ("accumulate left --plan left.acc --seed 7 --out x.acc", ["the plan", "leave out --seed"]),
        ("solve survey.acc --objective mmd --method sample --seed 7", ["surveys", "leave out --seed"]),
        ("solve left middle --objective rke --method pairs --random-features 64", ["random features is 64", "pairs"]),
        ("solve left --reference real --objective kid --random-features 64", ["random features is 64", "left out"]),
        ("accumulate left --plan left.acc --method sample --out x.acc", ["the plan", "leave out --method"]),
        ("solve left.acc --reference real", ["include what they need of the reference", "leave out --reference"]),
        ("solve left.acc --seed 3", ["mmd(bandwidth=", "leave out --seed"]),
        ("solve left other=./left --memory 1GB", ["./left/0.npy", "the same file"]),
        ("solve left --memory 1MB", ["the memory is 1,000,000 bytes", "at least"]),
        ("solve left --memory lots", ["--memory", "8GB"]),
        ("solve left middle --memory 1GB --subsets", ["--subsets", "read in parts"]),
        ("solve left middle --memory 1GB --scores made/scores.json", ["--scores", "--score-columns"]),
        ("solve load/shard_nan.parquet other=load/shard_nan.parquet --memory 1GB", ["shard_nan.parquet", "row group"]),
        ("solve load/shard_widths.parquet --memory 1GB", ["shard_widths.parquet", "columns"]),
        ("solve left made/wide.npy --memory 1GB", ["made/wide.npy", "7"]),
        ("accumulate left --plan survey.acc --out x.acc", ["survey.acc", "make one"]),
        ("accumulate left.acc --objective rke --out x.acc", ["left.acc", "leave out --objective"]),
        ("accumulate left --out left/0.npy", ["--out is left/0.npy", "sums.acc"]),
        ("accumulate left.acc --out left.acc", ["left.acc", "the command reads this file"]),
        ("accumulate left --objective mmd --out x.acc", ["mmd", "--reference"]),
        ("accumulate left --objective rke --task 1/2 --out x.acc", ["--task", "--survey"]),
        ("accumulate left --survey --task 3/2 --out x.acc", ["--task", "3/16"]),
        (
            "accumulate left --objective 'rke(kernel=laplacian)' --method features --out x.acc",
            ["no sums that merge", "laplacian"],
        ),
    ] {
        let run = world.run(line);
        assert_eq!(run.code, 2, "modelmix {line}: {} {}", run.stdout, run.stderr);
        assert_eq!(run.stdout, "", "{line}");
        let message = run.stderr.lines().last().unwrap_or_default();
        assert!(parts.iter().all(|part| message.contains(part)), "modelmix {line}: {message}");
        assert!(!world.path("x.acc").exists(), "{line}");
    }
}

#[test]
fn the_document_of_sums_has_its_schema() {
    let world = world();
    let document = world.json(&format!("accumulate left middle --reference real {FEATURES} --out sums.acc --json"));
    assert_eq!((&document["command"], &document["method"]), (&"accumulate".into(), &"features".into()));
    assert_eq!((&document["arms"]["left"], &document["reference"]), (&240.into(), &240.into()));
    assert_eq!((&document["shards"], &document["width"]), (&9.into(), &COLUMNS.into()));
    assert_eq!(document["bytes"].as_u64().unwrap(), fs::metadata(world.path("sums.acc")).unwrap().len());
}
