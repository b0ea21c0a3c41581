//! Other features: reports from stored documents, figures, completions, man pages, and a data set of realistic size.

use std::fs;

use serde_json::Value;

use super::world::{World, npy, values};

/// The documents in a report.
fn documents(page: &str) -> Value {
    let start = page.find("id=\"documents\"").expect("a report has its documents");
    let start = start + page[start..].find('>').unwrap() + 1;
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn a_report_has_the_numbers_of_its_documents() {
    let world = World::new();
    let pair = "made/a.npy made/b.npy --reference made/reference.npy";
    let lines = [
        ("solve", format!("solve {pair} --json")),
        ("score", format!("score {pair} --json --subset-size 10")),
        ("simulate", format!("simulate {pair} --rounds 20 --seeds 2 --json")),
        ("curate", format!("curate {pair} --count 10 --json")),
    ];
    let mut printed = Vec::new();
    for (command, line) in &lines {
        let text = world.answer(line);
        let mut document: Value = serde_json::from_str(&text).unwrap();
        // In a report, a document is stored under the name of its command.
        document.as_object_mut().unwrap().remove("command");
        printed.push((*command, document));
        world.write(&format!("{command}.json"), text);
    }
    let line = "report solve.json score.json simulate.json curate.json --html report.html --svg figures --png figures --texts made/texts.json --title '<Mine>' --quiet";
    assert_eq!(world.answer(line), "");
    let page = fs::read_to_string(world.path("report.html")).unwrap();
    let kept = documents(&page);
    for (command, document) in &printed {
        assert_eq!(&kept["sections"][0][command], document, "{command}");
    }
    assert!(page.contains("&lt;Mine&gt;") && !page.contains("<Mine>"), "the title is text");
    assert!(page.contains("&lt;b&gt;one") && !page.contains("<b>one"), "samples are texts");
    for (kind, start) in [("svg", &b"<svg"[..]), ("png", &b"\x89PNG"[..])] {
        let names = fs::read_dir(world.path("figures")).unwrap().map(|entry| entry.unwrap().path());
        let figures: Vec<_> = names.filter(|path| path.extension().is_some_and(|found| found == kind)).collect();
        assert!(figures.len() >= 4, "{figures:?}");
        assert!(figures.iter().all(|path| fs::read(path).unwrap().windows(start.len()).any(|bytes| bytes == start)));
    }
}

/// A page is the same, written directly or from a stored document.
#[test]
fn a_report_can_be_written_at_once() {
    let world = World::new();
    let json = world.answer("solve made/a.npy made/b.npy --json --html now.html --title T");
    world.write("solve.json", json);
    world.answer("report solve.json --html then.html --title T --quiet");
    let page = |name: &str| fs::read_to_string(world.path(name)).unwrap();
    assert_eq!(page("now.html"), page("then.html"));
}

#[test]
fn documents_may_come_through_a_pipe() {
    let world = World::new();
    let document = world.answer("solve made/a.npy made/b.npy --json");
    world.write("document.json", document);
    let file = fs::File::open(world.path("document.json")).unwrap();
    let status = world.command(&["report", "-", "--html", "r.html"]).stdin(file).status().unwrap();
    assert!(status.success() && world.path("r.html").exists());
}

#[test]
fn completions_know_every_command() {
    let world = World::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = world.answer(&format!("completions {shell}"));
        for word in [
            "solve",
            "score",
            "simulate",
            "curate",
            "plan",
            "reproduce",
            "report",
            "demo",
            "bandwidth",
            "no-replacement",
            "man",
        ] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
}

/// Completions list the values of options with a closed set.
#[test]
fn completions_know_the_values_of_options() {
    let world = World::new();
    for shell in ["bash", "fish", "zsh"] {
        let script = world.answer(&format!("completions {shell}"));
        for word in ["fid_infinity", "torch-fidelity", "better-half", "shares", "free", "one-arm-oracle"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        // Positional arguments have their values in all scripts but fish's.
        assert!(shell == "fish" || script.contains("powershell"), "{shell} does not know powershell");
    }
}

/// If a warm start needs more samples than are recorded, samples repeat, and a note states it.
#[test]
fn known_samples_that_come_again_are_remarked_on() {
    let world = World::new();
    let simulate = |known: usize| {
        let run = world.run(&format!("simulate made/a.npy made/b.npy --rounds 3 --seeds 1 --known {known}"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr
    };
    assert!(simulate(21).contains("Arm a: the warm start needs 21 samples, and 20 are recorded"));
    assert_eq!(simulate(20), "");
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let world = World::new();
    let written = world.answer("man --folder pages/man1");
    for page in [
        "modelmix",
        "modelmix-solve",
        "modelmix-score",
        "modelmix-simulate",
        "modelmix-curate",
        "modelmix-plan",
        "modelmix-reproduce",
        "modelmix-run",
        "modelmix-resume",
        "modelmix-status",
        "modelmix-export",
        "modelmix-probe",
        "modelmix-report",
        "modelmix-schema",
        "modelmix-man",
    ] {
        let text = fs::read_to_string(world.path(&format!("pages/man1/{page}.1"))).unwrap();
        assert!(written.lines().any(|line| line == format!("pages/man1/{page}.1")), "{written}");
        assert!(text.contains(&format!(".TH {page}")) && text.contains(".SH SYNOPSIS"), "{page}");
    }
}

#[test]
fn the_version_is_told() {
    assert_eq!(World::new().answer("--version"), format!("modelmix {}\n", env!("CARGO_PKG_VERSION")));
}

/// 5 × 2,000 samples of width 64: arms on both sides of the centre, which no arm reaches alone.
#[test]
fn a_set_of_the_usual_size_is_solved() {
    let world = World::new();
    for arm in 0..5 {
        let centre = 0.2 * (arm as f32 - 2.0);
        world.write(&format!("arm{arm}.npy"), npy(2000, 64, &values(128_000, 10 + arm, centre)));
    }
    let document = world.json("solve arm0.npy arm1.npy arm2.npy arm3.npy arm4.npy --objective rke --json");
    let weights: Vec<f64> =
        document["arms"].as_array().unwrap().iter().map(|arm| arm["weight"].as_f64().unwrap()).collect();
    // RKE rewards diversity: the outermost arms, by symmetry half each.
    assert!(weights[0] > 0.4 && weights[4] > 0.4, "{weights:?}");
    assert!(document["gain"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_demo_has_a_document() {
    let world = World::new();
    let document = world.json("demo --json --html report.html");
    for scenario in document["scenarios"].as_array().unwrap() {
        for result in ["solve", "score", "simulate"] {
            let provenance = &scenario[result]["provenance"];
            assert!(provenance["command"].as_str().unwrap().starts_with("modelmix demo --json"), "{provenance}");
            let inputs = provenance["inputs"].as_array().unwrap();
            assert!(inputs.iter().all(|input| input["path"].as_str().unwrap().ends_with("(built in)")), "{inputs:?}");
            assert!(inputs.len() == 2 && inputs.iter().all(|input| input["sha256"].as_str().unwrap().len() == 64));
        }
    }
    let names: Vec<_> = document["scenarios"].as_array().unwrap().iter().map(|scenario| &scenario["name"]).collect();
    assert_eq!(names, ["specialists", "truncated"]);
    assert_eq!(world.left_behind(), ["report.html"]);
}

/// With several terms the table has one column per term and one for the loss; with one term it does not.
#[test]
fn sums_of_terms_have_a_column_each() {
    let world = World::new();
    let header = |objective: &str| {
        let said = world.answer(&format!(
            "solve made/a.npy made/b.npy --bandwidth 1 --objective '{objective}' --scores made/scores.json"
        ));
        said.lines().find(|line| line.trim_start().starts_with("arm")).unwrap().to_string()
    };
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert!(words(&header("rke + 0.1*wit")).join(" ").contains("RKE wit loss adds"), "{}", header("rke + 0.1*wit"));
    assert!(words(&header("rke")).join(" ").contains("interval RKE adds"), "{}", header("rke"));
    let twice = header("rke + rke(bandwidth=2)");
    assert!(twice.contains("rke(bandwidth=2)") && twice.contains("loss"), "{twice}");
}
