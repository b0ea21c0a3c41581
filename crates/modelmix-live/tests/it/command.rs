//! Commands as arms: what requests say, and what becomes of each reply.

use std::path::Path;
use std::thread;
use std::time::Duration;

use modelmix_live::arm::command::{self, CommandArm, CommandSettings, WorkerSettings};
use modelmix_live::arm::{Arm, Charge, Content, FailureKind, Reply, Request};
use modelmix_live::units::Span;
use tempfile::TempDir;

/// What every worker here begins with.
const PRELUDE: &str = r#"
import json, os, sys, time
def say(**line): print(json.dumps(line), flush=True)
def requests():
    for line in sys.stdin: yield json.loads(line)
"#;

/// Writes a worker in Python, and returns its folder and settings.
pub(crate) fn worker(script: &str) -> (TempDir, CommandSettings) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("worker.py"), format!("{PRELUDE}{script}")).unwrap();
    let mut settings = CommandSettings::new(["python3", "worker.py"]);
    settings.worker.reply_timeout = Span(Duration::from_secs(60));
    (folder, settings)
}

pub(crate) fn open(settings: &CommandSettings, folder: &Path) -> CommandArm {
    command::open(settings, folder, &|_| None).unwrap()
}

pub(crate) fn request(pull: u64) -> Request {
    Request { pull, attempt: 1, key: format!("key-{pull}"), prompt: None, seed: 7, count: 1 }
}

/// The text of a reply with one sample.
pub(crate) fn text(reply: &Reply) -> &str {
    match reply.samples.as_slice() {
        [sample] => match &sample.content {
            Content::Text(text) => text,
            other => panic!("{other:?} is no text"),
        },
        other => panic!("{other:?} is not one sample"),
    }
}

#[test]
fn a_request_has_prompt_seed_count_and_key() {
    let (folder, settings) = worker(
        r#"
say(modelmix=1, max_batch=3)
for request in requests(): say(id=request["id"], samples=[{"text": json.dumps(request)}])
"#,
    );
    let arm = open(&settings, folder.path());
    let asked =
        Request { prompt: Some("a \"dog\"\nwith ünicode".into()), seed: (1 << 53) - 1, count: 2, ..request(5) };
    let reply = arm.call(&asked).unwrap();
    let seen: serde_json::Value = serde_json::from_str(text(&reply)).unwrap();
    let expected = serde_json::json!({
        "prompt": "a \"dog\"\nwith ünicode", "seed": 9_007_199_254_740_991_u64, "count": 2, "key": "key-5", "id": 1,
    });
    assert_eq!(seen, expected);
    // No more samples than the worker takes, and no prompt in a run without prompts.
    let reply = arm.call(&Request { count: 8, ..request(6) }).unwrap();
    let seen: serde_json::Value = serde_json::from_str(text(&reply)).unwrap();
    assert_eq!((&seen["count"], &seen["prompt"], &seen["id"]), (&3.into(), &serde_json::Value::Null, &2.into()));
}

#[test]
fn replies_come_in_any_order() {
    // It answers only after three requests, the last one first.
    let (folder, settings) = worker(
        r#"
say(modelmix=1, max_in_flight=3)
waiting = []
for request in requests():
    waiting.append(request)
    if len(waiting) == 3:
        while waiting:
            one = waiting.pop()
            say(id=one["id"], samples=[{"text": one["key"]}])
"#,
    );
    let arm = open(&settings, folder.path());
    thread::scope(|scope| {
        let calls: Vec<_> = (0..6)
            .map(|pull| {
                (
                    pull,
                    scope.spawn({
                        let arm = &arm;
                        move || arm.call(&request(pull))
                    }),
                )
            })
            .collect();
        for (pull, call) in calls {
            assert_eq!(text(&call.join().unwrap().unwrap()), format!("key-{pull}"));
        }
    });
}

#[test]
fn samples_are_texts_files_base64_and_features() {
    let (folder, settings) = worker(
        r#"
say(modelmix=1, max_batch=9)
named = None
for request in requests():
    if named:
        # It was read before this line was written.
        assert request["received"] == [request["id"] - 1], request
        os.remove(named)
    else:
        assert "received" not in request
    named = "sample.bin"
    with open(named, "wb") as file: file.write(b"\x00\xff")
    say(id=request["id"], samples=[
        {"text": "a text"}, {"file": named}, {"file": os.path.abspath(named)}, {"base64": "AP8="},
        {"features": [1, 0.5]}, {"text": "both", "features": [-2.5]}, {"text": ""}])
"#,
    );
    let arm = open(&settings, folder.path());
    for pull in 0..3 {
        let samples = arm.call(&Request { count: 9, ..request(pull) }).unwrap().samples;
        let file = || Content::File(vec![0, 255]);
        let contents: Vec<Content> = samples.iter().map(|sample| sample.content.clone()).collect();
        let given = |text: &str| Content::Text(text.into());
        let expected =
            [given("a text"), file(), file(), file(), Content::Features(vec![1.0, 0.5]), given("both"), given("")];
        assert_eq!(contents, expected);
        let features: Vec<_> = samples.into_iter().map(|sample| sample.features).collect();
        assert_eq!(features, [None, None, None, None, None, Some(vec![-2.5]), None]);
    }
}

/// Replies that are not samples: the kind, whether another attempt may succeed, the charge, and a part of the message. The arm
/// has a price, and all of them come from one process.
#[test]
fn unusable_replies_are_told_apart() {
    use FailureKind::{Empty, Error, Invalid, Refusal};
    let (free, doubt) = (Charge::Known(0.0), Charge::Doubt);
    let cases = [
        (r#""error": "out of memory", "retry": true"#, Error, true, free, "out of memory"),
        (r#""error": "no such size""#, Error, false, free, "no such size"),
        (r#""error": "late", "retry": true, "cost": 0.25"#, Error, true, Charge::Known(0.25), "late"),
        (
            r#""refused": true, "error": "content filter", "cost": 0.125"#,
            Refusal,
            false,
            Charge::Known(0.125),
            "filter",
        ),
        (r#""refused": true"#, Refusal, false, free, "no reason"),
        (r#""samples": []"#, Empty, true, free, "no samples"),
        (r#""samples": [{"text": "1"}, {"text": "2"}, {"text": "3"}]"#, Invalid, false, doubt, "3 samples, but 2"),
        (
            r#""samples": [{"base64": "?"}], "cost": 0.5"#,
            Invalid,
            false,
            Charge::Known(0.5),
            "sample 0 has wrong base64",
        ),
        (r#""samples": [{"text": "1"}, {"file": "gone.png"}]"#, Invalid, false, doubt, "gone.png"),
        (r#""samples": [{"file": "/dev/zero"}]"#, Invalid, false, doubt, "regular file"),
        (r#""samples": [{"base64": ""}]"#, Invalid, false, doubt, "no bytes"),
        (r#""samples": [{}]"#, Invalid, false, doubt, "none of text"),
        (r#""samples": [{"text": "1", "file": "x"}]"#, Invalid, false, doubt, "more than one"),
        (r#""samples": [{"features": []}]"#, Invalid, false, doubt, "empty"),
        (r#""samples": [{"features": [1, 1e39]}]"#, Invalid, false, doubt, "out of range"),
        (r#""samples": [{"text": 5}]"#, Invalid, false, doubt, "specified"),
        (r#""samples": [{"text": "1"}], "error": "x""#, Invalid, false, doubt, "both"),
        (r#""sample": [{"text": "1"}]"#, Invalid, false, doubt, "neither"),
        (r#""samples": [{"text": "1"}], "cost": -1"#, Invalid, false, doubt, "cost of -1"),
        // The control: this one can be used.
        (r#""samples": [{"text": "1"}]"#, Error, false, free, ""),
    ];
    let (folder, mut settings) = worker(
        r#"
say(modelmix=1, max_batch=2)
for request in requests(): print('{"id": %d, %s}' % (request["id"], request["prompt"]), flush=True)
"#,
    );
    settings.price_per_sample = 0.75;
    let arm = open(&settings, folder.path());
    let (last, cases) = cases.split_last().unwrap();
    for &(reply, kind, is_temporary, charge, part) in cases {
        let failure = arm.call(&Request { prompt: Some(reply.into()), count: 2, ..request(0) }).unwrap_err();
        assert_eq!((failure.kind, failure.is_temporary, failure.charge), (kind, is_temporary, charge), "{failure:?}");
        assert!(failure.message.contains(part) && failure.message.contains("worker.py"), "{failure:?}");
    }
    let reply = arm.call(&Request { prompt: Some(last.0.into()), count: 2, ..request(0) }).unwrap();
    assert_eq!((text(&reply), reply.cost), ("1", 0.75), "the price of one sample, though two were asked for");
}

#[test]
fn costs_are_stated_or_follow_from_the_price() {
    let (folder, mut settings) = worker(
        r#"
say(modelmix=1)
for request in requests(): say(id=request["id"], samples=[{"text": "x"}], cost=0.0625)
"#,
    );
    assert!(!settings.is_paid());
    assert_eq!(open(&settings, folder.path()).reserve(&request(0)), 0.0);
    settings.price_per_sample = 0.5;
    assert_eq!(open(&settings, folder.path()).reserve(&Request { count: 3, ..request(0) }), 1.5);
    settings.max_cost_per_request = Some(2.0);
    let arm = open(&settings, folder.path());
    assert!(settings.is_paid());
    assert_eq!(arm.reserve(&request(0)), 2.0);
    assert_eq!(arm.call(&request(0)).unwrap().cost, 0.0625);
}

#[test]
fn settings_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let read = |text: &str| toml::from_str::<CommandSettings>(text).map_err(|error| error.to_string());
    let problem = |text: &str| command::open(&read(text).unwrap(), folder.path(), &|_| None).unwrap_err();
    for (text, part) in [
        ("command = []", "command is empty"),
        ("command = ['./gone']", "gone does not exist"),
        ("command = ['x']\nfolder = 'gone'", "gone does not exist"),
        ("command = ['x']\nworkers = 0", "workers = 0"),
        ("command = ['x']\nmax_line_size = '5B'", "max_line_size"),
        ("command = ['x']\nprice_per_sample = -1", "price_per_sample = -1"),
        ("command = ['x']\nmax_cost_per_request = nan", "max_cost_per_request = NaN"),
        ("command = ['x']\nenvironment = {KEY = 'env:GONE_KEY'}", "GONE_KEY"),
        ("command = ['x']\nenvironment = {'A=B' = 'x'}", "A=B"),
    ] {
        assert!(problem(text).contains(part), "{text}: {}", problem(text));
    }
    let unknown = read("command = ['x']\nworker = 3").unwrap_err();
    assert!(unknown.contains("worker"), "{unknown}");
    assert!(read("command = ['x']\nreply_timeout = '0s'").is_err() && read("workers = 1").is_err());
    let full = "command = ['x', 'y']\nenvironment = {A = 'b'}\nfolder = '.'\nworkers = 2\nstart_timeout = '1s'\n\
                reply_timeout = '2min'\nmax_line_size = '1MiB'\nprice_per_sample = 0.5\nmax_cost_per_request = 2.0";
    let settings = read(full).unwrap();
    let again: CommandSettings = serde_json::from_value(serde_json::to_value(&settings).unwrap()).unwrap();
    assert_eq!(again, settings);
    assert_eq!(read("command = ['x']").unwrap(), CommandSettings::new(["x"]));
    assert_eq!(settings.worker.workers, 2);
    assert_eq!(WorkerSettings::new(["x"]), CommandSettings::new(["x"]).worker);
}
