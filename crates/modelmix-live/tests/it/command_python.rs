//! `python/modelmix/worker.py`: Python functions as arms, encoders and scores, through the command arm.

use std::path::{Path, PathBuf};

use modelmix_encode::decode::{Limits, decode};
use modelmix_live::arm::command::{CommandSettings, WorkerSettings};
use modelmix_live::arm::{Arm, Content, FailureKind, Request};
use modelmix_live::encoder::{EncoderSettings, EvaluationProblem, LiveEncoder};
use modelmix_live::score::{CommandScoreSettings, ScoreSettings, Scorer};
use tempfile::TempDir;

use crate::command::{open, request, text};

/// Functions of a user. They print, as functions of users do.
const FUNCTIONS: &str = r#"
import array, json, os, sys
from pathlib import Path
from modelmix.worker import Fatal, Refused

print("loading the model")

def generate(prompt, seed, count=1):
    print("generating", prompt)
    os.write(1, b"from C\n")
    assert sys.stdin.read() == ""
    if prompt == "crash": raise RuntimeError("CUDA out of memory")
    if prompt == "refuse": raise Refused("a weapon")
    if prompt == "fatal": raise Fatal("no such size")
    if prompt == "exit": sys.exit(5)
    if prompt == "none": return None
    if prompt == "nan": return array.array("f", [float("nan")])
    if prompt == "many": return ["one"] * 9
    if prompt == "object": return {"text": object()}
    if prompt == "bytes": return b"\x00\xff"
    if prompt == "path":
        Path("named").write_bytes(b"named")
        return Path("named")
    if prompt == "grey": return memoryview(bytes(range(6))).cast("B", (2, 3))
    if prompt == "colours": return memoryview(bytes(range(36))).cast("B", (2, 2, 3, 3))
    if prompt == "features": return [array.array("f", [0.5, -1]), array.array("d", [0.25]), [1, 2.5]]
    if prompt == "both": return {"samples": [{"text": "x", "features": array.array("f", [2])}], "cost": 0.125}
    return [f"{prompt} {seed} {sample}" for sample in range(count)]

def plain():
    return "the same"

def embed(sample):
    if sample == "bad": raise Fatal("not a sentence")
    return array.array("f", [len(sample), isinstance(sample, bytes)])

def rate(sample, prompt):
    return len(sample) + 100 * len(prompt or "")
"#;

fn shim() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/modelmix/worker.py").canonicalize().unwrap()
}

/// A folder with the functions, and the command that runs them.
fn functions(arguments: &[&str]) -> (TempDir, WorkerSettings) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("functions.py"), FUNCTIONS).unwrap();
    // Modules of the package have names of other packages; those of the user come first.
    std::fs::write(folder.path().join("session.py"), "value = 1").unwrap();
    let command = ["python3".to_owned(), shim().to_string_lossy().into_owned()];
    (folder, WorkerSettings::new(command.into_iter().chain(arguments.iter().map(|one| (*one).to_owned()))))
}

fn arm(arguments: &[&str]) -> (TempDir, modelmix_live::arm::command::CommandArm) {
    let (folder, worker) = functions(arguments);
    let mut settings = CommandSettings::new(["unused"]);
    settings.worker = worker;
    let arm = open(&settings, folder.path());
    (folder, arm)
}

fn asked(prompt: &str) -> Request {
    Request { prompt: Some(prompt.into()), count: 3, ..request(0) }
}

#[test]
fn a_function_generates() {
    let (_folder, arm) = arm(&["functions:generate", "--max-batch", "3"]);
    let contents = |prompt: &str| -> Vec<Content> {
        arm.call(&asked(prompt)).unwrap().samples.into_iter().map(|sample| sample.content).collect()
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| Content::Text((*text).into())).collect::<Vec<_>>();
    assert_eq!(contents("a dög"), texts(&["a dög 7 0", "a dög 7 1", "a dög 7 2"]));
    assert_eq!(contents("bytes"), [Content::File(vec![0, 255])]);
    assert_eq!(contents("path"), [Content::File(b"named".to_vec())]);
    let expected = [vec![0.5, -1.0], vec![0.25], vec![1.0, 2.5]].map(Content::Features);
    assert_eq!(contents("features"), expected);
    let pixels = |content: &Content| {
        let Content::File(bytes) = content else { panic!("{content:?}") };
        let image = decode(bytes, &Limits::default()).unwrap();
        (image.width(), image.height(), image.pixels().to_vec())
    };
    let grey: Vec<u8> = (0..6).flat_map(|value| [value; 3]).collect();
    assert_eq!(contents("grey").iter().map(pixels).collect::<Vec<_>>(), [(3, 2, grey)]);
    let colours = contents("colours");
    let expected = [(3, 2, (0..18).collect()), (3, 2, (18..36).collect())];
    assert_eq!(colours.iter().map(pixels).collect::<Vec<_>>(), expected);
    let both = arm.call(&asked("both")).unwrap();
    assert_eq!((text(&both), both.cost, both.samples[0].features.as_deref()), ("x", 0.125, Some(&[2.0][..])));
}

#[test]
fn exceptions_say_whether_to_try_again() {
    let (_folder, arm) = arm(&["functions.py:generate", "--max-batch", "3"]);
    for (prompt, kind, is_temporary, part) in [
        ("crash", FailureKind::Error, true, "RuntimeError: CUDA out of memory"),
        ("refuse", FailureKind::Refusal, false, "a weapon"),
        ("fatal", FailureKind::Error, false, "no such size"),
        ("none", FailureKind::Error, false, "NoneType"),
        ("nan", FailureKind::Error, false, "not finite"),
        ("many", FailureKind::Error, false, "9 samples, but 3"),
        ("object", FailureKind::Error, true, "not JSON serializable"),
        ("exit", FailureKind::Broken, true, "exited with code 5"),
    ] {
        let failure = arm.call(&asked(prompt)).unwrap_err();
        assert_eq!((failure.kind, failure.is_temporary), (kind, is_temporary), "{prompt}: {failure:?}");
        assert!(failure.message.contains(part), "{prompt}: {failure:?}");
    }
    assert_eq!(arm.call(&asked("again")).unwrap().samples.len(), 3);
}

#[test]
fn functions_get_the_arguments_that_they_have() {
    let (_folder, arm) = arm(&["functions:plain"]);
    assert_eq!(text(&arm.call(&asked("x")).unwrap()), "the same");
    for (arguments, part) in [
        (&["functions:gone"][..], "functions has no gone"),
        (&["functions:embed"], "needs the argument sample"),
        (&["functions:plain", "--max-batch", "2"], "has no argument count"),
        (&["gone:f"], "ModuleNotFoundError"),
        (&["functions"], "names no function"),
        (&[], "name a function"),
    ] {
        let (_folder, arm) = self::arm(arguments);
        let failure = arm.call(&asked("x")).unwrap_err();
        assert!(failure.kind == FailureKind::NotSent && failure.message.contains(part), "{arguments:?}: {failure:?}");
    }
}

#[test]
fn functions_encode_and_score() {
    let (folder, worker) = functions(&["--encoder", "functions:embed"]);
    let opened = || LiveEncoder::open(&EncoderSettings::Command(worker.clone()), folder.path(), &|_| None).unwrap();
    let encoder = opened();
    assert_eq!(encoder.encode(&Content::Text("four".into())).unwrap(), [4.0, 0.0]);
    assert_eq!(encoder.encode(&Content::File(vec![1, 2])).unwrap(), [2.0, 1.0]);
    let image = modelmix_encode::Image::new(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap();
    assert!(encoder.encode(&Content::Pixels(image)).unwrap()[0] > 60.0, "a PNG file");
    let bad = encoder.encode(&Content::Text("bad".into())).unwrap_err();
    assert!(matches!(bad, EvaluationProblem::Sample(message) if message.contains("not a sentence")));
    // The functions are part of the fingerprint.
    assert_eq!(opened().fingerprint(), encoder.fingerprint());
    std::fs::write(folder.path().join("functions.py"), format!("{FUNCTIONS}\n# another version")).unwrap();
    assert_ne!(opened().fingerprint(), encoder.fingerprint());

    let (folder, worker) = functions(&["--score", "functions:rate"]);
    let settings = ScoreSettings::Command(CommandScoreSettings { worker, range: None });
    let scorer = Scorer::open(&settings, folder.path(), &|_| None).unwrap();
    assert_eq!(scorer.score(&Content::Text("abc".into()), Some("p")), Ok(103.0));
    assert_eq!(scorer.score(&Content::File(vec![0; 5]), None), Ok(5.0));
}
