//! Tests of the report page: the numbers of the documents, names as given, and no active content.

#[path = "report/comparing.rs"]
mod comparing;
mod synthetic;
#[path = "report/travelling.rs"]
mod travelling;

use modelmix::Quadratic;
use modelmix::simulate::SimulatedFeatures;
use modelmix_cli::report::{Gallery, GalleryRow, Image, Report, Section};
use synthetic::HOSTILE;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("arm{index}")).collect()
}

fn page(section: Section) -> String {
    Report { title: "A report".into(), sections: vec![section], ..Report::default() }
        .html()
        .expect("the documents fit together")
}

/// The text between tags, with entities resolved.
fn text(html: &str) -> String {
    let body = html.split("<script").next().unwrap_or_default().split("<body>").nth(1).unwrap_or_default();
    let mut text = String::new();
    let mut inside = false;
    for c in body.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&apos;", "'"),
        ("&#x2f;", "/"),
        ("&amp;", "&"),
    ];
    entities.iter().fold(text, |text, (entity, sign)| text.replace(entity, sign))
}

/// The exact numbers: value and JSON pointer.
fn numbers(html: &str) -> Vec<(f64, String)> {
    let number = |part: &str| {
        let (value, rest) = part.split_once("\" data-at=\"")?;
        Some((value.parse().ok()?, rest.split('"').next()?.replace("&#x2f;", "/")))
    };
    html.split("<data value=\"").skip(1).map(|part| number(part).expect("a value and a place")).collect()
}

#[test]
fn report_says_the_answer_first() {
    let section = synthetic::section("Three", &names(3), &["adaptive"]);
    let answer = section.solve.as_ref().expect("it was given").headline().answer;
    let text = text(&page(section));
    let (answer, figure) = (text.find(&answer).expect("the answer"), text.find("Figure 1.").expect("a figure"));
    assert!(answer < figure);
}

#[test]
fn report_has_the_numbers_of_its_documents() {
    let arms = names(4);
    let section = synthetic::section("Four", &arms, &["adaptive", "cab(sensitivity=0.03)", "a/b~c"]);
    let documents = serde_json::json!({ "sections": [{ "solve": section.solve, "score": section.score, "simulate": section.simulate }] });
    let html = page(section);
    let found = numbers(&html);
    assert!(found.len() > 200, "{} numbers", found.len());
    for (value, place) in &found {
        assert_eq!(documents.pointer(place).and_then(serde_json::Value::as_f64), Some(*value), "{place}");
    }
    for place in [
        "/sections/0/solve/arms/2/weight",
        "/sections/0/score/mixture/scores/kid_std",
        "/sections/0/simulate/policies/a~1b~0c/loss/mean/99",
    ] {
        assert!(found.iter().any(|(_, other)| other == place), "{place} is not in the page");
    }
    let text = text(&html);
    for shown in ["0.0193± 0.0012".replace("± ", "±\u{202f}"), "1,637".into(), "not reached".into()] {
        assert!(text.contains(&shown), "{shown} is not in the page");
    }
}

#[test]
fn report_of_a_curated_set_has_its_numbers_and_its_warning() {
    let mut section = synthetic::curated("Chosen", &names(4));
    section.gallery = Some(synthetic::texts(&names(4), 2));
    let documents = serde_json::json!({ "sections": [{ "curate": section.curate }] });
    let html = page(section.clone());
    let found = numbers(&html);
    assert!(found.len() > 40, "{} numbers", found.len());
    for (value, place) in &found {
        assert_eq!(documents.pointer(place).and_then(serde_json::Value::as_f64), Some(*value), "{place}");
    }
    let text = text(&html);
    for shown in ["no longer an i.i.d. mixture", "1,000 random rows", "The first chosen samples", "the set"] {
        assert!(text.contains(shown), "{shown} is not in the page");
    }
    section.curate.as_mut().expect("it was given").rows.pop();
    let report = Report { title: String::new(), sections: vec![section], ..Report::default() };
    assert!(report.html().expect_err("a row is missing").to_string().contains("modelmix curate --json"));
}

#[test]
fn report_of_sessions_that_hold_little_says_what_features_did() {
    let mut document = synthetic::simulate(&names(3), &["adaptive", "greedy"]);
    let policy = document.policies.get_mut("adaptive").expect("it is there");
    policy.features = Some(SimulatedFeatures { features: 2500, estimated: 0.81, entry: 0.0012, loss_bias: -0.0003 });
    let section = Section { name: "Held".into(), simulate: Some(document), ..Section::default() };
    let documents = serde_json::json!({ "sections": [{ "simulate": section.simulate }] });
    let found = numbers(&page(section));
    for name in ["features", "estimated", "entry", "loss_bias"] {
        let place = format!("/sections/0/simulate/policies/adaptive/features/{name}");
        let (value, _) = found.iter().find(|(_, other)| *other == place).expect("it is in the page");
        assert_eq!(documents.pointer(&place).and_then(serde_json::Value::as_f64), Some(*value), "{place}");
    }
}

#[test]
fn report_of_kept_samples_has_their_numbers_and_its_warning() {
    let document = synthetic::selected(&names(3), &["adaptive", "greedy", "a/b~c"]);
    let section = Section { name: "Kept".into(), simulate: Some(document), ..Section::default() };
    let documents = serde_json::json!({ "sections": [{ "simulate": section.simulate }] });
    let html = page(section.clone());
    let found = numbers(&html);
    for (value, place) in &found {
        assert_eq!(documents.pointer(place).and_then(serde_json::Value::as_f64), Some(*value), "{place}");
    }
    for place in ["a~1b~0c/kept_loss/mean/99", "adaptive/kept_samples/mean/99", "adaptive/kept_reached"] {
        assert!(found.iter().any(|(_, other)| other.ends_with(place)), "{place} is not in the page");
    }
    assert!(text(&html).contains("no longer an i.i.d. mixture"));
    let report = Report { title: String::new(), sections: vec![section.clone()], ..Report::default() };
    assert!(report.figures().expect("it fits").iter().any(|figure| figure.name == "kept-kept"));
    let mut spoiled = section;
    let policies = &mut spoiled.simulate.as_mut().expect("it was given").policies;
    policies.get_mut("adaptive").and_then(|policy| policy.kept.as_mut()).expect("it was kept").loss.mean.pop();
    assert!(Report { title: String::new(), sections: vec![spoiled], ..Report::default() }.html().is_err());
}

#[test]
fn report_marks_the_best_values() {
    let html = page(Section { name: "Scores".into(), score: Some(synthetic::score(&names(3))), ..Section::default() });
    let best: Vec<String> = html.split("<td class=\"best\">").skip(1).map(|cell| numbers(cell)[0].1.clone()).collect();
    let expected = [
        "arms/0/scores/vendi",
        "arms/0/scores/precision",
        "arms/0/scores/density",
        "mixture/scores/rke",
        "mixture/scores/kid",
        "mixture/scores/fid",
        "mixture/scores/recall",
        "mixture/scores/coverage",
    ];
    assert_eq!(best, expected.map(|place| format!("/sections/0/score/{place}")));
}

#[test]
fn report_keeps_hostile_names_text() {
    let arms = HOSTILE.map(String::from);
    let mut section = synthetic::section(HOSTILE[0], &arms, &HOSTILE);
    section.note = Some(HOSTILE[1].into());
    section.gallery = Some(synthetic::texts(&arms, 2));
    let report = Report { title: HOSTILE[1].into(), sections: vec![section], ..Report::default() };
    let html = report.html().expect("the documents fit together");
    assert_eq!(
        html.matches("<script").count(),
        2,
        "the JSON's element and the one that copies texts are the only ones"
    );
    assert_eq!(html.matches("</script").count(), 2);
    assert!(!html.contains("<img"));
    let text = text(&html);
    assert!(!text.contains('\u{202e}') && !text.contains('\u{7}'));
    assert!(text.contains(HOSTILE[0]) && text.contains(HOSTILE[1]) && text.contains("$5$ or {{ 7*7 }}"));
    for figure in report.figures().expect("as above") {
        assert!(!figure.svg.contains("<script") && !figure.svg.contains("<img"), "{}", figure.name);
        assert!(figure.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{}", figure.name);
        assert!(figure.png(1.0).expect("it is well-formed").starts_with(b"\x89PNG"), "{}", figure.name);
    }
}

#[test]
fn report_has_what_was_given_and_no_more() {
    let solved = Section { name: "One".into(), solve: Some(synthetic::solve(&names(1))), ..Section::default() };
    let html = page(solved);
    assert!(html.contains("Figure 1.") && !html.contains("Figure 2.") && !html.contains("Table 2."));
    let simulated = Section { simulate: Some(synthetic::simulate(&names(2), &["adaptive"])), ..Section::default() };
    assert!(text(&page(simulated)).contains("After 1,000 samples adaptive has a loss of 0.00252"));
    let empty = Report { title: "Nothing".into(), sections: Vec::new(), ..Report::default() };
    assert!(empty.html().expect("there is nothing to refuse").contains("<h1>Nothing</h1>"));
}

#[test]
fn report_of_twenty_arms_pools_those_without_a_colour() {
    let html = page(synthetic::section("Twenty", &synthetic::long_names(20), &["adaptive"]));
    assert!(text(&html).contains("the other 12 arms"));
    for number in 1..=20 {
        assert!(html.contains(&format!("guidance-<wbr>{number:02}")), "arm {number}");
    }
}

#[test]
fn report_is_the_same_each_time_and_asks_for_nothing() {
    let mut section = synthetic::section("Same", &names(3), &["adaptive", "uniform"]);
    section.gallery = Some(synthetic::images(&names(3), 4));
    let report = Report { title: "Same".into(), sections: vec![section.clone(), section], ..Report::default() };
    let html = report.html().expect("the documents fit together");
    assert_eq!(html, report.html().expect("as before"));
    assert_eq!(report.figures().expect("as before"), report.figures().expect("as before"));
    let mut ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are used once");
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http:") && !outside.contains("https:") && !outside.contains("url(h"));
}

#[test]
fn report_shows_numbers_that_do_not_exist_as_such() {
    let mut section = synthetic::section("Holes", &names(3), &["adaptive", "uniform"]);
    let solve = section.solve.as_mut().expect("it was given");
    solve.arms[1].score = f64::NAN;
    solve.arms[1].interval = Some([f64::NAN, f64::INFINITY]);
    let simulate = section.simulate.as_mut().expect("it was given");
    simulate.optimum.loss = f64::NAN;
    let policy = simulate.policies.get_mut("adaptive").expect("it ran");
    policy.loss.mean[3] = f64::NAN;
    policy.loss.std[4] = f64::INFINITY;
    policy.shares[2][1] = f64::NAN;
    policy.regret.mean = vec![f64::NAN; policy.regret.mean.len()];
    let score = section.score.as_mut().expect("it was given");
    score.arms[0].scores.insert("fid".into(), f64::NAN);
    score.arms[1].scores.remove("rke");
    let report = Report { title: "Holes".into(), sections: vec![section], ..Report::default() };
    let html = report.html().expect("the documents fit together");
    for word in ["NaN", "inf"] {
        assert!(!html.split("<script").next().expect("there is a page").contains(&format!(">{word}")), "{word}");
        assert!(report.figures().expect("as above").iter().all(|figure| !figure.svg.contains(word)), "{word}");
    }
}

#[test]
fn report_refuses_documents_that_do_not_fit() {
    let refused = |change: fn(&mut Section)| {
        let mut section = synthetic::section("Odd", &names(3), &["adaptive"]);
        change(&mut section);
        let report = Report { title: "Odd".into(), sections: vec![section], ..Report::default() };
        assert!(report.figures().is_err());
        report.html().expect_err("it does not fit").to_string()
    };
    let short = refused(|section| {
        let simulate = section.simulate.as_mut().expect("it was given");
        simulate.policies.get_mut("adaptive").expect("it ran").loss.mean.pop();
    });
    assert_eq!(
        short,
        "section Odd: policy adaptive has 99 losses for 100 rounds; create the document again with `modelmix simulate --json`"
    );
    let small = refused(|section| {
        section.solve.as_mut().expect("it was given").form =
            Quadratic::new(vec![1.0; 4], vec![0.0; 2]).expect("2 arms");
    });
    assert!(small.contains("there are 3 arms, but K and f have 2"), "{small}");
    let unweighed = refused(|section| {
        let worth = &mut section.solve.as_mut().expect("it was given").worth;
        worth.front.as_mut().expect("it was asked").points[2].weights.pop();
    });
    assert!(unweighed.contains("a mixture has 2 weights for 3 arms"), "{unweighed}");
    let unnamed = refused(|section| {
        let worth = &mut section.solve.as_mut().expect("it was given").worth;
        worth.cheapest.as_mut().expect("it was asked").arms.pop();
    });
    assert!(unnamed.contains("a mixture has 1 arms of 3 and 2 weights"), "{unnamed}");
    let empty = refused(|section| {
        section.solve.as_mut().expect("it was given").worth.sensitivity.as_mut().expect("it was asked").points.clear();
    });
    assert!(empty.contains("is empty"), "{empty}");
    let missing = refused(|section| section.simulate.as_mut().expect("it was given").policies.clear());
    assert!(missing.contains("policy adaptive has no results"), "{missing}");
}

#[test]
fn report_mixes_the_gallery_by_the_weights() {
    let row = |name: &str, weight: f64| {
        GalleryRow::new(name, weight, (0..10).map(|number| format!("{name}{number}")).collect())
    };
    let gallery = Gallery::Texts(vec![row("left", 0.7), row("right", 0.3), row("never", 0.0)]);
    let html = page(Section { name: "Texts".into(), gallery: Some(gallery), ..Section::default() });
    let mixture = html.split("<p class=\"name\">mixture").nth(1).expect("a row of the mixture");
    let mixture = mixture.split("</ul>").next().expect("its texts");
    let count = |name: &str| mixture.matches(&format!("<li>{name}")).count();
    assert_eq!((count("left"), count("right"), count("never")), (7, 3, 0));
}

#[test]
fn report_takes_images_of_known_kinds_only() {
    assert!(Image::new(2, 2, 1, &[0; 4]).is_ok());
    assert!(Image::new(2, 2, 3, &[0; 12]).is_ok());
    for (width, height, channels, bytes) in [(2, 2, 1, 3), (0, 2, 1, 0), (2, 2, 4, 16), (u32::MAX, u32::MAX, 3, 3)] {
        assert!(Image::new(width, height, channels, &vec![0; bytes]).is_err(), "{width} × {height} × {channels}");
    }
    assert!(Image::encoded(b"\xff\xd8\xff\xe0 and so on".to_vec()).is_ok());
    assert!(Image::encoded(b"<svg onload=alert(1)>".to_vec()).is_err());
}
