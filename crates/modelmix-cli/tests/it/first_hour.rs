//! Problems that new users found: wrong sentences, numbers without a unit, and options that disagreed.

use super::world::{World, npy, values};

/// 60 arms, of which three differ: RKE of points on a line, 57 arms being the same point.
fn sixty(world: &World) -> String {
    let arms: Vec<String> = (0..60)
        .map(|arm| {
            let centre = if arm % 20 == 7 { 40.0 * arm as f32 } else { 40.0 * 7.0 };
            let spread = if arm % 20 == 7 { 1.0 } else { 0.01 };
            let rows: Vec<f32> = values(60, 100 + arm, 0.0)
                .iter()
                .enumerate()
                .map(|(at, value)| if at % 6 == 0 { centre + spread * value } else { spread * value })
                .collect();
            world.write(&format!("m{arm:02}.npy"), npy(10, 6, &rows));
            format!("m{arm:02}.npy")
        })
        .collect();
    arms.join(" ")
}

#[test]
fn arms_without_weight_are_folded_and_the_others_sorted() {
    let world = World::new();
    let arms = sixty(&world);
    let text = world.answer(&format!("solve {arms} -o rke -b 2 --no-intervals"));
    let document = world.json(&format!("solve {arms} -o rke -b 2 --no-intervals --json"));
    assert_eq!(document["arms"].as_array().unwrap().len(), 60);
    let weights: Vec<f64> =
        document["arms"].as_array().unwrap().iter().map(|arm| arm["weight"].as_f64().unwrap()).collect();
    let used = weights.iter().filter(|weight| **weight > 1e-9).count();
    assert!((2..=10).contains(&used), "{used} of 60 arms have weight");
    let table: Vec<&str> = text.lines().skip(2).collect();
    let end = table.iter().position(|line| line.contains("mixture")).unwrap();
    // A heading, the arms in use, possibly the best single one, and one line for all others.
    assert!(end <= used + 3, "{text}");
    let folded: usize = table[end - 1].trim().split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(table[end - 1].trim(), format!("and {folded} arms with weight 0"), "{text}");
    assert_eq!(folded + end - 2, 60, "{text}");
    let shown: Vec<f64> = table[1..end - 1].iter().map(|line| percent(line)).collect();
    assert!(shown.is_sorted_by(|a, b| a >= b), "{text}");
    let tenths: i64 = shown.iter().map(|share| (10.0 * share).round() as i64).sum();
    assert_eq!(tenths, 1000, "{text}");
    let all = world.answer(&format!("solve {arms} -o rke -b 2 --no-intervals --all-arms"));
    assert_eq!(
        all.lines()
            .filter(|line| line.trim_start().starts_with('m') && line.contains('%') && !line.contains("Mix"))
            .count(),
        60
    );
    // The page has every arm, most of them in collapsed rows.
    world.answer(&format!("solve {arms} -o rke -b 2 --no-intervals --html r.html"));
    let page = std::fs::read_to_string(world.path("r.html")).unwrap();
    assert!(page.contains(&format!("<summary>{folded} arms with weight 0</summary>")));
    assert!(
        (0..60).all(|arm| page.contains(&format!("/arms/{arm}/weight").replace('/', "&#x2f;"))),
        "an arm is missing"
    );
}

/// The first percentage of a line; 0 for "<0.1%".
fn percent(line: &str) -> f64 {
    let word = line.split_whitespace().find(|word| word.ends_with('%')).unwrap();
    word.trim_end_matches('%').parse().unwrap_or(0.0)
}

#[test]
fn a_term_against_its_direction_is_warned_of() {
    let world = World::new();
    let line = "solve made/a.npy made/b.npy -r made/reference.npy -b 2 -o 'rke + 0.1*precision'";
    let warning = "the objective \"rke(bandwidth=2) + 0.1*precision\" minimises precision, but higher precision is better; write \"rke(bandwidth=2) - 0.1*precision\"";
    let run = world.run(&format!("{line} --html r.html"));
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains(&format!("modelmix: warning: {warning}\n")), "{}", run.stderr);
    let page = std::fs::read_to_string(world.path("r.html")).unwrap();
    assert!(page.contains("<p class=\"warning\">") && page.contains("minimises precision"));
    let run = world.run(&format!("{line} --json"));
    assert!(run.stderr.contains(warning));
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["warnings"], serde_json::json!([warning]));
    assert_eq!(world.run(&format!("{line} --quiet")).stderr, "");
    for fine in [line.replace("+ 0.1", "- 0.1"), "solve made/a.npy made/b.npy -o rke".into()] {
        let run = world.run(&fine);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{fine}");
        assert!(world.json(&format!("{fine} --json")).get("warnings").is_none());
    }
    let run = world.run("simulate made/a.npy made/b.npy -o 'rke - cost' --costs a=1,b=2 -b 2 --rounds 5 --seeds 2");
    assert!(run.stderr.contains("maximises cost, but lower cost is better"), "{}", run.stderr);
}

/// One run and one subset have no standard deviation; one arm has no mixture.
#[test]
fn a_spread_that_cannot_be_had_is_not_printed() {
    let world = World::new();
    let one = world.answer("simulate made/a.npy made/b.npy -b 2 --rounds 20 --seeds 1");
    assert!(!one.contains('±') && one.contains("1 seed;"), "{one}");
    assert!(world.answer("simulate made/a.npy made/b.npy -b 2 --rounds 20 --seeds 2").contains('±'));
    let score = "score made/a.npy -r made/reference.npy --metrics kid";
    for alone in ["--subsets 1 --subset-size 10", "--subsets 1"] {
        let text = world.answer(&format!("{score} {alone}"));
        assert!(!text.lines().nth(1).unwrap().contains('±'), "{text}");
        assert!(world.json(&format!("{score} {alone} --json"))["arms"][0]["scores"].get("kid_std").is_none());
    }
    // Subsets of 20 of 20 samples and of 20 of 20 reference samples are all the same.
    let text = world.answer("score made/a.npy -r made/b.npy --metrics kid");
    assert!(!text.lines().nth(1).unwrap().contains('±'), "{text}");
    let text = world.answer(&format!("{score} --subset-size 10"));
    assert!(text.lines().nth(1).unwrap().contains('±'), "{text}");
    let only = world.answer("simulate made/a.npy -b 2 --rounds 20 --seeds 2");
    assert!(only.starts_with("a is the only arm, so there is no mixture to find.\n"), "{only}");
}

#[test]
fn numbers_are_short_and_none_is_null() {
    let world = World::new();
    let text = world.answer("solve made/a.npy made/b.npy -o rke");
    let bandwidth = text.split("bandwidth ").nth(1).unwrap().split([';', ' ']).next().unwrap();
    assert!(bandwidth.len() <= 7, "{bandwidth}");
    let document = world.json("solve made/a.npy made/b.npy -o rke --json");
    let full = document["kernel"]["bandwidth"].as_f64().unwrap();
    assert!((bandwidth.parse::<f64>().unwrap() / full - 1.0).abs() < 1e-5, "{bandwidth} for {full}");
    world.answer("score made/a.npy made/b.npy -r made/reference.npy --metrics kid --html r.html");
    let page = std::fs::read_to_string(world.path("r.html")).unwrap();
    let text = page.split("<script").next().unwrap();
    assert!(text.contains("size automatic") && !text.contains("null"));
}

#[test]
fn shares_may_be_percents() {
    let world = World::new();
    let solve = "solve made/a.npy made/b.npy -b 2 --json";
    let typed = world.result(&format!("{solve} --floor a=0.6 --cap b=0.3"));
    assert_eq!(world.result(&format!("{solve} --floor a=60% --cap b=30%")), typed);
    assert!(typed["arms"][0]["weight"].as_f64().unwrap() >= 0.7 - 1e-9);
    world.write("floor.toml", "floor = { a = '60%' }\ncap = { b = 0.3 }\n");
    assert_eq!(world.result(&format!("{solve} --config floor.toml")), typed);
    let score = "score made/a.npy made/b.npy -b 2 --metrics rke --json";
    assert_eq!(
        world.result(&format!("{score} --weights a=25%,b=75%")),
        world.result(&format!("{score} --weights a=0.25,b=0.75"))
    );
    // Rounded to percentages they may sum to 0.99.
    world.answer(&format!("{score} --weights a=0.33,b=0.66"));
}

/// A tolerance has a unit, with the same spellings for `--within` as for `--until`.
#[test]
fn tolerances_have_units() {
    let world = World::new();
    let solve = "solve made/a.npy made/b.npy -b 2 --fees a=1,b=3 --json";
    let share = world.result(&format!("{solve} --within 5%"));
    assert_eq!(world.result(&format!("{solve} --within gain=0.05")), share);
    assert_eq!(world.result(solve), share);
    let gain = share["gain"].as_f64().unwrap();
    let within =
        world.result(&format!("{solve} --within loss={}", 0.05 * gain))["cheapest"]["within"].as_f64().unwrap();
    assert!((within / share["cheapest"]["within"].as_f64().unwrap() - 1.0).abs() < 1e-12);
}

/// Paths in a file of options are relative to the file, in any working directory.
#[test]
fn paths_of_options_are_relative_to_their_file() {
    let world = World::new();
    std::fs::create_dir_all(world.path("deep/er")).unwrap();
    for name in ["a.npy", "b.npy", "reference.npy", "scores.json"] {
        std::fs::copy(world.path("made").join(name), world.path("deep").join(name)).unwrap();
    }
    world.write(
        "deep/er/options.toml",
        "arms = ['../a.npy', 'other=../b.npy']\nreference = '../reference.npy'\nobjective = 'mmd'\nhtml = 'r.html'\n",
    );
    let typed = world.result("solve deep/a.npy other=deep/b.npy --reference deep/reference.npy -o mmd --json");
    assert_eq!(world.result("solve --config deep/er/options.toml --json"), typed);
    assert!(world.path("deep/er/r.html").exists());
    // Paths on the command line are relative to the working directory.
    world.write("deep/er/score.toml", "scores = '../scores.json'\n");
    world.answer("solve made/a.npy made/b.npy -o 'rke - 0.1*wit' -b 2 --config deep/er/score.toml");
}

/// A better score with fewer arms is explained: weights minimise the loss, and the score is shown without its bias.
#[test]
fn a_better_score_of_fewer_arms_is_explained() {
    let world = World::new();
    let note = "weights minimise the loss, a V-statistic; MMD² ×100 is shown as a U-statistic";
    let (mut explained, mut plain) = (0, 0);
    for seed in 0..40u64 {
        for (arm, centre) in [("p", 0.0), ("q", 0.1), ("s", -0.1)] {
            world.write(
                &format!("{arm}.npy"),
                npy(6, 2, &values(12, 10 * seed + arm.len() as u64 + u64::from(arm.as_bytes()[0]), centre)),
            );
        }
        world.write("ref.npy", npy(40, 2, &values(80, 7, 0.0)));
        let line = "solve p.npy q.npy s.npy -r ref.npy -o mmd -b 1 --subsets --no-intervals";
        let document = world.json(&format!("{line} --json"));
        let best = document["mixture"]["score"].as_f64().unwrap();
        let subsets = document["subsets"].as_array().unwrap();
        let is_better = subsets.iter().any(|subset| subset["score"].as_f64().unwrap() < best);
        assert_eq!(world.answer(line).contains(note), is_better, "seed {seed}");
        if is_better { explained += 1 } else { plain += 1 }
    }
    assert!(explained > 0 && plain > 0, "{explained} and {plain}");
}
