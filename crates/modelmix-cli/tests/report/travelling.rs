//! Parts of a report for reuse: weights to copy, tables to download, provenance, and expected values.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use modelmix::experiment::{Check, Measured};
use modelmix_cli::report::{Report, Section};
use serde_json::{Value, json};

use super::{HOSTILE, names, page, synthetic, text};

/// The files that are embedded in a page: names and contents.
fn downloads(html: &str) -> Vec<(String, String)> {
    let part = |part: &str| {
        let (name, rest) = part.split_once('"').expect("a name");
        let rest = rest.split_once("base64,").expect("an address").1;
        let bytes = STANDARD.decode(rest.split('"').next().expect("its end").replace("&#x2f;", "/")).expect("base64");
        (name.to_string(), String::from_utf8(bytes).expect("text"))
    };
    html.split("<a download=\"").skip(1).map(part).collect()
}

/// Texts to copy, as a reader sees them.
fn copies(html: &str) -> Vec<String> {
    let code = |part: &str| text(&format!("<body>{}", part.split("</code>").next().expect("its end")));
    html.split("<code>").skip(1).filter(|part| part.contains("</pre>")).map(code).collect()
}

#[test]
fn weights_can_be_copied() {
    let solve = synthetic::solve(&names(3));
    let expected: Vec<(String, f64)> = solve.arms.iter().map(|arm| (arm.name.clone(), arm.weight)).collect();
    let html = page(Section { name: "Three".into(), solve: Some(solve), ..Section::default() });
    let copies = copies(&html);
    let (python, json, shell) = (&copies[0], &copies[1], &copies[2]);
    let read: Value = serde_json::from_str(json).expect("it is JSON");
    for (name, weight) in &expected {
        assert_eq!(read[name].as_f64(), Some(*weight));
    }
    assert_eq!(python, &format!("weights = {json}"));
    assert!(shell.starts_with("modelmix score 'my arms.npz' --reference real.npy --weights arm0=0.5104"), "{shell}");
    // Without scripts the buttons are hidden, but the texts are visible.
    assert_eq!(html.matches("<button type=\"button\" hidden>").count(), html.matches("class=\"copy\"").count());
}

#[test]
fn hostile_names_are_copied_as_they_are() {
    let arms = HOSTILE.map(String::from);
    let html = page(Section { name: "Odd".into(), solve: Some(synthetic::solve(&arms)), ..Section::default() });
    let json = copies(&html).into_iter().nth(1).expect("the JSON");
    let read: Value = serde_json::from_str(&json).expect("it is JSON");
    for name in &arms {
        assert!(read[name].is_number(), "{name} is not among {json}");
    }
    assert!(!json.contains('\u{202e}') && !json.contains('\u{7}'), "what cannot be seen is escaped");
}

#[test]
fn every_table_can_be_downloaded() {
    let section = synthetic::section("Four", &names(4), &["adaptive", "cab(sensitivity=0.03)"]);
    let document = section.solve.clone().expect("it was given");
    let html = page(section);
    let files = downloads(&html);
    assert_eq!(files.len(), html.matches("<table").count());
    let mut distinct: Vec<&String> = files.iter().map(|(name, _)| name).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), files.len(), "no two files have the same name");
    let (_, arms) = files.iter().find(|(name, _)| name == "four-table-1.csv").expect("the arms");
    let lines: Vec<&str> = arms.lines().collect();
    assert_eq!(lines[0], "Arm,Weight,95% interval low,95% interval high,MMD² ×100,Loss,Adds,Samples");
    for (line, arm) in lines[1..].iter().zip(&document.arms) {
        let fields: Vec<&str> = line.split(',').collect();
        let numbers: Vec<f64> = fields[1..].iter().map(|field| field.parse().expect("a number")).collect();
        let [low, high] = arm.interval.expect("it has one");
        let expected = [arm.weight, low, high, arm.score, arm.loss, arm.adds.expect("it has"), arm.samples as f64];
        assert_eq!((fields[0], &numbers[..]), (arm.name.as_str(), &expected[..]));
    }
    let subsets = files.iter().find(|(_, text)| text.starts_with("Arms,")).expect("the best few arms");
    assert!(subsets.1.lines().next().expect("a header").contains("Mixture arm0,"), "{}", subsets.1);
    // A cell with an error has two columns.
    let scores = files.iter().find(|(_, text)| text.contains("RKE error")).expect("the scores");
    // Commas within quotes do not separate fields.
    let fields = |line: &str| line.split('"').step_by(2).map(|outside| outside.matches(',').count()).sum::<usize>();
    let mut widths: Vec<usize> = scores.1.lines().map(fields).collect();
    widths.dedup();
    assert!(widths.len() == 1 && widths[0] > 2, "{}", scores.1);
}

#[test]
fn provenance_is_part_of_the_page() {
    let html = page(Section { name: "One".into(), solve: Some(synthetic::solve(&names(2))), ..Section::default() });
    let text = text(&html);
    for shown in [
        "Provenance",
        "modelmix solve 'my arms.npz' --reference real.npy --bandwidth 20 --json",
        "2024-02-29T12:34:56Z",
        "cpu, single precision (AVX2, 8 threads)",
        "1,234,567",
        "20 (given)",
        "38.2 (median distance between 500 samples, seed 0)",
    ] {
        assert!(text.contains(shown), "{shown} is not in the page");
    }
    assert!(text.contains(&"a".repeat(64)) && text.contains(&"f".repeat(64)), "checksums are shown in full");
    let mut older = synthetic::solve(&names(2));
    older.provenance = None;
    let html = page(Section { name: "One".into(), solve: Some(older), ..Section::default() });
    assert!(!html.contains("<h3>Provenance"));
}

/// Documents of different commands with the same provenance share a block.
#[test]
fn each_provenance_is_shown_once() {
    let mut section = Section { solve: Some(synthetic::solve(&names(2))), ..Section::default() };
    let mut score = synthetic::score(&names(2));
    score.provenance = section.solve.as_ref().and_then(|solve| solve.provenance.clone());
    section.score = Some(score);
    assert_eq!(page(section.clone()).matches("<h3>Provenance").count(), 1);
    section.score.as_mut().and_then(|score| score.provenance.as_mut()).expect("it was given").seed = Some(3);
    let html = page(section);
    assert!(html.contains("<h3>Provenance of solve") && html.contains("<h3>Provenance of score"));
}

#[test]
fn expectations_stand_beside_what_was_measured() {
    let check = |measured: f64, passed: bool| -> Check {
        serde_json::from_value(json!({
            "what": "gain", "expected": {"at_least": 0.01}, "against": null, "measured": measured, "passed": passed,
        }))
        .expect("it is a check")
    };
    let checks = vec![check(0.0176, true), check(0.0012, false)];
    assert_eq!(checks[1].measured, Measured::Number(0.0012));
    let section =
        Section { name: "Odd".into(), checks, solve: Some(synthetic::solve(&names(2))), ..Section::default() };
    let html = page(section);
    let text = text(&html);
    for shown in
        ["1 of 2 met", "1 of 2 not as expected", "at least 0.01", "0.0176", "✓ as expected", "✗ not as expected"]
    {
        assert!(text.contains(shown), "{shown} is not in the page");
    }
    let table = text.find("✗ not as expected").expect("the table");
    assert!(table < text.find("Figure 1.").expect("a figure"), "what failed comes first");
}

#[test]
fn a_gallery_of_a_set_says_what_it_leaves_out() {
    let arms = names(4);
    let mut section = synthetic::curated("Chosen", &arms);
    let set = section.curate.clone().expect("it was given");
    // Two texts of each arm but the last.
    section.gallery = Some(synthetic::texts(&arms[..3], 2));
    let text = text(&page(section));
    let expected = format!(
        "6 of the {} chosen samples are shown; {} are left out. No samples to show for arm3.",
        set.count,
        set.count - 6
    );
    assert!(text.contains(&expected), "{expected} is not in the page");
    let mut whole = synthetic::curated("Chosen", &arms);
    whole.gallery = Some(synthetic::texts(&arms, 40));
    assert!(!super::text(&page(whole)).contains("left out"));
}

#[test]
fn a_row_of_a_gallery_says_how_many_it_shows() {
    let mut section = synthetic::curated("Chosen", &names(3));
    section.gallery = Some(synthetic::images(&names(3), 4));
    let text = text(&page(section));
    assert!(text.contains("(4 of 11 shown)") && text.contains("(4 of 18 shown)") && !text.contains("(4 of 4 shown)"));
}

/// No script other than the page's own can run.
#[test]
fn the_page_allows_its_own_script_alone() {
    let html = Report { title: "Safe".into(), ..Report::default() }.html().expect("there is nothing to refuse");
    let policy = html.split("Content-Security-Policy\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
    assert!(
        policy
            .expect("a policy")
            .starts_with("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-")
    );
    assert!(!policy.expect("a policy").contains("script-src 'unsafe"));
}
