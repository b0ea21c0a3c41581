//! `modelmix curate`: document, manifest, report and error messages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::world::World;

const LINE: &str =
    "curate fashion/specialists.npz --reference fashion/reference.npy --objective mmd --bandwidth 20 --count 40";

/// Invariants of a set: the requested number of distinct rows, shares that match the counts, and the note.
fn checked(document: &Value, count: usize) {
    let rows = document["rows"].as_array().unwrap();
    let distinct: BTreeSet<String> = rows.iter().map(Value::to_string).collect();
    assert_eq!((rows.len(), distinct.len()), (count, count));
    for arm in document["arms"].as_array().unwrap() {
        let chosen = rows.iter().filter(|row| row["arm"] == arm["name"]).count();
        assert_eq!(arm["chosen"], chosen);
    }
    assert!(document["note"].as_str().unwrap().contains("no longer an i.i.d. mixture"));
    assert!(document["set"]["loss"].as_f64() < document["random"]["loss"][0].as_f64());
}

#[test]
fn a_set_is_the_same_everywhere() {
    let world = World::new();
    let document = world.json(&format!("{LINE} --json --out ids.json"));
    checked(&document, 40);
    assert_eq!(document["command"], "curate");
    let manifest: Value = serde_json::from_str(&fs::read_to_string(world.path("ids.json")).unwrap()).unwrap();
    assert_eq!(manifest["rows"], document["rows"]);
    assert_eq!(manifest["note"], document["note"]);
    assert_eq!(manifest["files"][0], "fashion/specialists.npz");
    assert_eq!(
        (&manifest["loss"]["set"], &manifest["reference"]),
        (&document["set"]["loss"], &"fashion/reference.npy".into())
    );
    // the result does not depend on the number of threads, also as CSV
    world.answer(&format!("{LINE} --threads 3 --out ids.csv --quiet"));
    let text = fs::read_to_string(world.path("ids.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("arm,row"));
    let rows: Vec<String> = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{},{}", row["arm"].as_str().unwrap(), row["row"]))
        .collect();
    assert_eq!(lines.collect::<Vec<_>>(), rows);
    // the description next to it equals that of a JSON manifest
    let beside: Value = serde_json::from_str(&fs::read_to_string(world.path("ids.csv.json")).unwrap()).unwrap();
    let mut about = manifest.clone();
    about.as_object_mut().unwrap().remove("rows");
    // except for the command and the threads
    let mut rest = beside.clone();
    let provenances = [&mut rest, &mut about].map(|one| one.as_object_mut().unwrap().remove("provenance").unwrap());
    assert_eq!(provenances[0]["inputs"], provenances[1]["inputs"]);
    assert_eq!(rest, about);
    assert_eq!(beside["count"], 40);
    assert_eq!(world.left_behind().len(), 3);
}

/// A folder of images has file names, which the manifest contains; the gallery shows the chosen images.
#[test]
fn images_have_names_and_are_shown() {
    let world = World::new();
    // an image of one pixel, followed by a number that distinguishes it from the others
    let pixel = b"\x89PNG\r\n\x1a\n".to_vec();
    fs::create_dir(world.path("a")).unwrap();
    for row in 0..20 {
        let bytes: Vec<u8> = pixel.iter().copied().chain(format!("picture {row}").into_bytes()).collect();
        world.write(&format!("a/x{row:02},y.png"), bytes);
    }
    let line = "curate made/a.npy made/b.npy -n 9 --images a --out ids.csv --html report.html --json";
    let document = world.json(line);
    checked(&document, 9);
    let text = fs::read_to_string(world.path("ids.csv")).unwrap();
    let rows = || document["rows"].as_array().unwrap().iter();
    let line = |row: &Value| match row["arm"].as_str().unwrap() {
        "a" => format!("a,{0},\"x{0:02},y.png\"", row["row"].as_u64().unwrap()),
        arm => format!("{arm},{},", row["row"]),
    };
    let expected: Vec<String> = rows().map(line).collect();
    let found: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(found, expected);
    let page = fs::read_to_string(world.path("report.html")).unwrap();
    assert!(page.contains("no longer an i.i.d. mixture") && page.contains("The first chosen samples"));
    let shown = |row: u64| {
        let bytes: Vec<u8> = pixel.iter().copied().chain(format!("picture {row}").into_bytes()).collect();
        page.contains(&base64(&bytes))
    };
    let chosen: BTreeSet<u64> =
        rows().filter(|row| row["arm"] == "a").map(|row| row["row"].as_u64().unwrap()).collect();
    assert!(!chosen.is_empty() && chosen.len() < 20);
    assert!((0..20).all(|row| shown(row) == chosen.contains(&row)));
    // only names, without a report
    world.answer("curate made/a.npy made/b.npy -n 9 --images a --out again.csv --quiet");
    assert_eq!(fs::read_to_string(world.path("again.csv")).unwrap(), text);
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u32| char::from(LETTERS[(bits & 63) as usize]);
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - part.len()));
        let letters: String = (0..4).map(|at| letter(bits >> (18 - 6 * at))).collect();
        text += &letters[..=part.len()];
        text += &"=".repeat(3 - part.len());
    }
    text
}

/// A report from the stored document equals one written directly, including galleries of texts and images.
#[test]
fn a_report_can_be_written_later() {
    let world = World::new();
    let gallery = "--texts made/texts.json --title T";
    let json = world.answer(&format!("curate made/a.npy made/b.npy -n 30 --json --html now.html {gallery}"));
    world.write("curate.json", json);
    world.answer(&format!("report curate.json --html then.html {gallery} --quiet --svg figures"));
    let page = |name: &str| fs::read_to_string(world.path(name)).unwrap();
    assert_eq!(page("now.html"), page("then.html"));
    assert!(fs::read_dir(world.path("figures")).unwrap().count() == 1);
    let shown = json_rows(&page("now.html"));
    assert_eq!(shown.values().sum::<usize>(), 30);
}

fn json_rows(page: &str) -> BTreeMap<String, usize> {
    let start = page.find("id=\"documents\"").unwrap();
    let start = start + page[start..].find('>').unwrap() + 1;
    let end = start + page[start..].find("</script>").unwrap();
    let documents: Value = serde_json::from_str(&page[start..end]).unwrap();
    let mut counts = BTreeMap::new();
    for row in documents["sections"][0]["curate"]["rows"].as_array().unwrap() {
        *counts.entry(row["arm"].as_str().unwrap().to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn what_does_not_fit_is_refused() {
    let world = World::new();
    for (line, words) in [
        ("curate made/a.npy made/b.npy -n 41", vec!["count is 41", "at most 40"]),
        ("curate made/a.npy made/b.npy -n 1", vec!["count is 1", "at least 2"]),
        ("curate made/a.npy made/b.npy -n 5 --out ids.txt", vec!["ids.txt", ".json or .csv"]),
        ("curate made/a.npy made/b.npy -n 5 --out nowhere/ids.csv", vec!["there is no folder nowhere"]),
        ("curate made/a.npy made/b.npy -n 5 --out ./m.csv --html m.csv.json", vec!["two files", "m.csv.json"]),
        ("curate made/a.npy made/b.npy -n 5 --out m.json --html ./m.json", vec!["two files", "m.json"]),
        ("curate made/a.npy made/b.npy -n 5 --proportions fre", vec!["fre", "did you mean free?"]),
        ("curate made/a.npy made/b.npy -n 5 --floor a=0.5,b=0.5", vec!["at least 6", "not 5"]),
        ("curate made/a.npy made/b.npy -n 5 --pool 7", vec!["pool is 7", "at least 10"]),
        ("curate made/a.npy made/b.npy -n 5 -o fid -r made/reference.npy", vec!["fid", "offline only"]),
        (
            "curate made/a.npy made/b.npy -n 5 --texts made/texts-unknown.json --html r.html",
            vec!["texts are given for c, which is not an arm"],
        ),
        ("curate made/a.npy made/b.npy -n 5 --texts made/texts.json --out ids.csv", vec!["--html"]),
        ("curate made/a.npy made/b.npy", vec!["--count"]),
    ] {
        let run = world.run(line);
        assert_eq!(run.code, 2, "{line}: {}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{line}: {}", run.stderr);
        assert_eq!(world.left_behind(), Vec::<String>::new(), "{line}");
    }
}
