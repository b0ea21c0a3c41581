//! `report --compare`: the comparison of two runs in the terminal, as a document and as a page.

use serde_json::{Value, json};

use super::world::World;

fn write(world: &World, name: &str, line: &str) {
    world.write(name, world.answer(line));
}

/// Runs on the first and on the last rows of the same models' samples: independent draws.
fn halves(world: &World) {
    for (name, shift) in [("old", 0u64), ("new", 50)] {
        for (arm, centre) in [("left", 0.0), ("right", 1.5)] {
            let values = super::world::values(40 * 6, 11 + shift + centre as u64, centre);
            world.write(&format!("{name}-{arm}.npy"), super::world::npy(40, 6, &values));
        }
        let line = format!("solve left={name}-left.npy right={name}-right.npy --objective rke --bandwidth 2 --json");
        write(world, &format!("{name}.json"), &line);
    }
}

#[test]
fn two_runs_stand_side_by_side() {
    let world = World::new();
    halves(&world);
    let text = world.answer("report old.json new.json --compare --html both.html --quiet");
    for shown in [
        "old",
        "new",
        "left",
        "right",
        "95% interval",
        "within noise",
        "Results",
        "mixture, loss",
        "MOVER",
        "Input files",
    ] {
        assert!(text.contains(shown), "{shown} is not in\n{text}");
    }
    let document: Value = world.json("report old.json new.json --compare --json");
    assert_eq!(
        (&document["command"], &document["of"], &document["overlap"]),
        (&"compare".into(), &"solve".into(), &"none".into())
    );
    let (old, new): (Value, Value) = (
        serde_json::from_str(&std::fs::read_to_string(world.path("old.json")).unwrap()).unwrap(),
        serde_json::from_str(&std::fs::read_to_string(world.path("new.json")).unwrap()).unwrap(),
    );
    for (index, weight) in document["weights"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            (&weight["first"], &weight["second"]),
            (&old["arms"][index]["weight"], &new["arms"][index]["weight"])
        );
        assert_eq!(weight["beyond_noise"], false);
    }
    let page = std::fs::read_to_string(world.path("both.html")).unwrap();
    assert!(
        page.contains("id=\"comparison-of-two-runs\"") && page.contains("id=\"old\"") && page.contains("id=\"new\"")
    );
    let csv = world.answer("report old.json new.json --compare --csv");
    assert!(csv.starts_with("arm,old,new,difference,95% interval low,95% interval high,noise\nleft,"), "{csv}");
}

/// The same samples with another objective: weights are compared, and no test is made.
#[test]
fn runs_on_the_same_samples_say_so() {
    let world = World::new();
    let data = "fashion/specialists.npz --reference fashion/reference.npy --no-intervals --json";
    write(&world, "a.json", &format!("solve {data} --objective rke --bandwidth 20"));
    write(&world, "b.json", &format!("solve {data} --objective rke --bandwidth 40"));
    let text = world.answer("report a.json b.json --compare");
    for shown in ["The objectives differ", "the same samples", "No test is made", "differences were not tested"] {
        assert!(text.contains(shown), "{shown} is not in\n{text}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let world = World::new();
    write(&world, "solve.json", "solve made/a.npy made/b.npy --json");
    write(&world, "score.json", "score made/a.npy made/b.npy --json");
    write(&world, "others.json", "solve c=made/a.npy d=made/b.npy --json");
    for (documents, sentence) in [
        ("solve.json score.json", "a document of solve cannot be compared with one of score"),
        ("solve.json others.json", "they have no arm in common: a, b and c, d"),
        ("solve.json", "--compare needs two documents, not 1"),
        ("solve.json solve.json solve.json", "--compare needs two documents, not 3"),
    ] {
        let run = world.run(&format!("report {documents} --compare"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{documents}");
        assert!(run.stderr.contains(sentence), "{}", run.stderr);
    }
    let document: Value = serde_json::from_str(&std::fs::read_to_string(world.path("solve.json")).unwrap()).unwrap();
    for (change, sentence) in [
        (("/arms/0/name", json!("flux")), "which is not an arm"),
        (("/arms/0/name", document["arms"][1]["name"].clone()), "two arms have the same name"),
        (("/arms/0/samples", json!(u64::MAX)), "counts of a report must be at most"),
        (("/arms/0/weight", json!(7.5)), "a share must be between 0 and 1"),
        (("/arms/0/interval", json!([0.9, 0.1])), "a lower end above its upper end"),
    ] {
        let (place, value) = change;
        let mut changed = document.clone();
        *changed.pointer_mut(place).unwrap() = value;
        if place == "/arms/0/name" {
            changed["best_single"]["name"] = document["arms"][0]["name"].clone();
        }
        world.write("changed.json", changed.to_string());
        for options in ["solve.json changed.json --compare", "changed.json --html changed.html"] {
            let run = world.run(&format!("report {options}"));
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{place}: {}", run.stderr);
            assert!(run.stderr.contains(sentence), "{place}: {}", run.stderr);
        }
    }
    let run = world.run("report solve.json --csv");
    assert!(run.code == 2 && run.stderr.contains("--compare"), "{}", run.stderr);
}
