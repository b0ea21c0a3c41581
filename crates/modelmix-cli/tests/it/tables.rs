//! `--latex`, `--markdown` and `--csv`: the printed tables, for other documents.

use serde_json::Value;

use super::world::World;

const SOLVE: &str = "solve fashion/specialists.npz --reference fashion/reference.npy --objective rke --bandwidth 20";

/// Commands that print tables.
fn lines() -> Vec<String> {
    let pair = "made/a.npy made/b.npy --reference made/reference.npy";
    vec![
        format!(
            "solve {pair} --subsets --bandwidths 1,2 --front precision --fees a=3,b=0 --costs a=1,b=2 --samples 10"
        ),
        format!("solve {pair} --objective fid"),
        format!("score {pair} --subset-size 10"),
        format!("simulate {pair} --rounds 30 --seeds 2 --until 5% --select better-half --policy uniform,greedy"),
        format!("curate {pair} --count 5"),
    ]
}

/// Parses CSV text by the rules of RFC 4180.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match (quoted, letter) {
            (true, '"') if letters.peek() == Some(&'"') => field.push(letters.next().unwrap()),
            (_, '"') => quoted = !quoted,
            (false, ',') => row.push(std::mem::take(&mut field)),
            (false, '\n') => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            (_, letter) => field.push(letter),
        }
    }
    assert!(row.is_empty() && field.is_empty() && !quoted, "the last line ends");
    rows
}

#[test]
fn csv_has_all_digits_of_the_document() {
    let world = World::new();
    let document: Value = world.json(&format!("{SOLVE} --json"));
    let rows = rows(&world.answer(&format!("{SOLVE} --csv")));
    assert_eq!(rows[0], ["arm", "weight", "95% interval low", "95% interval high", "RKE", "adds", "samples"]);
    let number = |row: &[String], column: usize| -> Value { serde_json::from_str(&row[column]).unwrap() };
    let mut arms: Vec<&Value> = document["arms"].as_array().unwrap().iter().collect();
    arms.sort_by(|a, b| b["weight"].as_f64().unwrap().total_cmp(&a["weight"].as_f64().unwrap()));
    for (row, arm) in rows[1..].iter().zip(arms) {
        assert_eq!(row[0], arm["name"].as_str().unwrap());
        assert_eq!(number(row, 1), arm["weight"]);
        assert_eq!(number(row, 2), arm["interval"][0]);
        assert_eq!(number(row, 3), arm["interval"][1]);
        assert_eq!(number(row, 4), arm["score"]);
        assert_eq!(number(row, 5), arm["adds"]);
        assert_eq!(number(row, 6), arm["samples"]);
    }
    let last = rows.last().unwrap();
    assert_eq!(
        (last[0].as_str(), last[1].as_str(), number(last, 4)),
        ("mixture", "", document["mixture"]["score"].clone())
    );
}

/// A terminal shows some points of a front; a CSV file has all of them.
#[test]
fn csv_has_all_points_of_a_front() {
    let world = World::new();
    let line = "solve fashion/quality.npz -r fashion/reference.npy -o rke -b 20 --front precision --no-intervals";
    let document = world.json(&format!("{line} --json"));
    let csv = world.answer(&format!("{line} --csv"));
    let front = rows(csv.split("\n\n").last().unwrap());
    let points = document["front"]["points"].as_array().unwrap();
    assert!(points.len() > 12 && front.len() == points.len() + 1, "{} rows of {}", front.len(), points.len());
    for (row, point) in front[1..].iter().zip(points) {
        assert_eq!(row[2].parse::<f64>().unwrap(), point["second_score"].as_f64().unwrap());
    }
}

/// Names with all characters that are special in LaTeX, Markdown or CSV.
#[test]
fn awkward_names_are_escaped() {
    let world = World::new();
    let name = r#"50%_off & {x^2} $~#a|b, "c" <d>"#;
    let run = |flag: &str| {
        let first = format!("{name}=made/a.npy");
        let run =
            world.run_words(&["solve", &first, "other=made/b.npy", "--objective", "rke", "--cap", "other=0.4", flag]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    };
    assert_eq!(rows(&run("--csv"))[1][0], name);
    let latex = run("--latex");
    let row = latex.lines().nth(4).unwrap();
    let expected = r#"50\%\_off \& \{x\textasciicircum{}2\} \$\textasciitilde{}\#a$|$b, "c" $<$d$>$ & "#;
    assert!(row.starts_with(expected), "{row}");
    let markdown = run("--markdown");
    let row = markdown.lines().nth(2).unwrap();
    assert!(row.starts_with(r#"| 50%\_off & \{x^2\} $\~\#a\|b, "c" \<d\> | "#), "{row}");
}

#[test]
fn every_command_prints_whole_tables() {
    let world = World::new();
    for line in lines() {
        let latex = world.answer(&format!("{line} --latex"));
        let tables = latex.matches("\\begin{tabular}").count();
        assert!(tables >= 1 && latex.matches("\\end{tabular}").count() == tables, "{latex}");
        let mut columns = 0;
        for text in latex.lines() {
            if let Some(sides) = text.strip_prefix("\\begin{tabular}{") {
                columns = sides.len() - 1;
            }
            if text.ends_with(" \\\\") {
                assert_eq!(text.replace("\\&", "").matches('&').count(), columns - 1, "{text}");
            }
            assert!(text.starts_with('%') || text.is_ascii(), "{text}");
        }
        let markdown = world.answer(&format!("{line} --markdown"));
        assert_eq!(markdown.lines().filter(|line| line.starts_with("| :--")).count(), tables, "{markdown}");
        let csv = world.answer(&format!("{line} --csv"));
        let parts: Vec<&str> = csv.split("\n\n").collect();
        assert_eq!(parts.len(), tables, "{csv}");
        for part in parts {
            let rows = rows(&format!("{}\n", part.trim_end()));
            assert!(rows.len() > 1 && rows.iter().all(|row| row.len() == rows[0].len()), "{part}");
        }
        for text in [latex, markdown, csv] {
            assert!(!text.contains('█') && !text.contains("objective "), "tables alone: {text}");
        }
    }
}

#[test]
fn one_format_at_a_time() {
    let world = World::new();
    for flags in ["--latex --csv", "--json --markdown", "--markdown --csv", "--json --csv"] {
        let run = world.run(&format!("{SOLVE} {flags}"));
        assert_eq!((run.code, run.stdout.as_str()), (2, ""));
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
}

#[test]
fn names_do_not_control_the_terminal() {
    let world = World::new();
    let text = world.answer("solve \u{1b}[31mred=made/a.npy \u{202e}b=made/b.npy --bandwidth 10");
    assert!(text.contains("[31mred") && !text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
}
