//! Scores: checks of texts, and commands.

use std::path::Path;

use modelmix_live::arm::Content;
use modelmix_live::problem::EvaluationProblem;
use modelmix_live::score::{ScoreSettings, Scorer};

use crate::command::worker;

fn read(text: &str) -> Result<ScoreSettings, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn open(text: &str, folder: &Path) -> Result<Scorer, String> {
    Scorer::open(&read(text)?, folder, &|_| None)
}

fn scored(scorer: &Scorer, text: &str) -> f64 {
    scorer.score(&Content::Text(text.into()), None).unwrap()
}

#[test]
fn texts_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schema.json"), r#"{"type": "array", "items": {"type": "integer"}}"#).unwrap();
    let cases: [(&str, &[&str], &[&str]); 7] = [
        ("regex = '^[A-Z].*\\.$'", &["A story."], &["a story.", "A story", ""]),
        ("regex = '(\\w)\\1'", &["little"], &["later"]),
        ("min_length = 2\nmax_length = 3", &["äö", "abc"], &["ä", "abcd", ""]),
        ("max_length = 2\nunit = 'words'", &["", "one  two\n"], &["one two three"]),
        ("min_length = 3\nunit = 'words'", &["one two three"], &["one two"]),
        ("json_schema = 'schema.json'", &["[1, 2]", " [] "], &["[1, 2.5]", "{}", "[1", ""]),
        ("[json_schema]\ntype = 'object'\nrequired = ['name']", &[r#"{"name": 1}"#], &[r#"{"title": 1}"#, "name"]),
    ];
    for (settings, met, unmet) in cases {
        let scorer = open(settings, folder.path()).unwrap();
        assert_eq!(scorer_range(settings), Some((0.0, 1.0)));
        met.iter().for_each(|text| assert_eq!(scored(&scorer, text), 1.0, "{settings}: {text}"));
        unmet.iter().for_each(|text| assert_eq!(scored(&scorer, text), 0.0, "{settings}: {text}"));
        let bytes = Content::File(met[0].as_bytes().to_vec());
        assert_eq!(scorer.score(&bytes, None), Ok(1.0), "a file that is a text");
        let image = scorer.score(&Content::File(vec![0x89, 0xff]), None);
        assert!(matches!(image, Err(EvaluationProblem::Sample(_))), "{image:?}");
        let row = scorer.score(&Content::Features(vec![1.0]), None);
        assert!(matches!(row, Err(EvaluationProblem::Evaluator(_))), "{row:?}");
        let settings = read(settings).unwrap();
        let again: ScoreSettings = serde_json::from_value(serde_json::to_value(&settings).unwrap()).unwrap();
        assert_eq!(again, settings);
    }
}

fn scorer_range(settings: &str) -> Option<(f64, f64)> {
    read(settings).unwrap().range()
}

#[test]
fn settings_of_scores_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("broken.json"), "{").unwrap();
    for (settings, part) in [
        ("", "exactly one of command, regex"),
        ("regex = 'a'\nmin_length = 1", "exactly one of"),
        ("regex = '('", "not a regular expression"),
        ("min_length = 5\nmax_length = 2", "min_length = 5 is more than max_length = 2"),
        ("max_length = -1", "invalid value"),
        ("max_length = 1\nunit = 'tokens'", "unknown variant `tokens`"),
        ("regex = 'a'\nflags = 'i'", "unknown field `flags`"),
        ("json_schema = 'gone.json'", "gone.json"),
        ("json_schema = 'broken.json'", "is not JSON"),
        ("json_schema = {type = 'number', minimum = 'x'}", "not a JSON Schema"),
        ("json_schema = {'$ref' = 'https://example.org/schema.json'}", "not a JSON Schema"),
        ("command = ['x']\nrange = [1, 0]", "range = [1, 0] is empty"),
        ("command = ['./gone']", "does not exist"),
        ("command = ['x']\nranges = [0, 1]", "ranges"),
    ] {
        let problem = open(settings, folder.path()).unwrap_err();
        assert!(problem.contains(part), "{settings}: {problem}");
    }
}

#[test]
fn a_command_scores_samples() {
    let (folder, settings) = worker(
        r#"
say(modelmix=1)
for request in requests():
    score = request["score"]
    assert set(request) - {"received"} == {"id", "score"}, request
    if score.get("text") == "high": say(id=request["id"], value=7)
    elif score.get("text") == "bad": say(id=request["id"], error="no such language")
    elif score.get("text") == "crash": os._exit(1)
    elif score.get("text") == "again" and not os.path.exists("tried"):
        open("tried", "w").close()
        os._exit(1)
    elif score.get("text") == "silent": say(id=request["id"])
    else: say(id=request["id"], value=len(score.get("text", score.get("base64", ""))) / 10 + (score["prompt"] == "p"))
"#,
    );
    let command = settings.worker.command;
    let scorer = open(&format!("command = {command:?}\nrange = [0, 2]"), folder.path()).unwrap();
    assert_eq!(scored(&scorer, "abc"), 0.3);
    assert_eq!(scorer.score(&Content::Text("abc".into()), Some("p")), Ok(1.3));
    assert_eq!(scorer.score(&Content::File(vec![1, 2, 3]), None), Ok(0.4), "AQID");
    assert_eq!(scored(&scorer, "again"), 0.5, "the process crashed once");
    let problem = |text: &str| scorer.score(&Content::Text(text.into()), None).unwrap_err();
    assert!(matches!(problem("bad"), EvaluationProblem::Sample(message) if message.contains("no such language")));
    assert!(
        matches!(problem("high"), EvaluationProblem::Evaluator(message) if message.contains("7 is not in the range"))
    );
    assert!(matches!(problem("silent"), EvaluationProblem::Evaluator(message) if message.contains("neither a value")));
    // A sample that ends the process again and again does not end the run.
    assert!(matches!(problem("crash"), EvaluationProblem::Sample(message) if message.contains("exited with code 1")));
    assert_eq!(scored(&scorer, "abc"), 0.3);
    assert_eq!(scorer_range(&format!("command = {command:?}\nrange = [0, 2]")), Some((0.0, 2.0)));
    assert_eq!(scorer_range(&format!("command = {command:?}")), None);
}
