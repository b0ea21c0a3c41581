//! Embeddings over HTTP: order, width and cost of rows.
#![allow(clippy::unwrap_used)]

use modelmix_live::arm::http::EmbeddingsSettings;
use modelmix_live::arm::http::embeddings::{self, Embeddings};
use modelmix_live::arm::{Charge, FailureKind};
use serde_json::{Value, json};

use crate::http::{CANARY, environment};
use crate::server::{Server, Step, answer, json as answer_json};

fn settings(url: &str, more: &str) -> EmbeddingsSettings {
    toml::from_str(&format!("base_url = \"{url}\"\nmodel = \"mini\"\n{more}")).unwrap()
}

fn open(server: &Server, more: &str) -> Embeddings {
    embeddings::open(&settings(&server.url("/v1"), more), &environment).unwrap()
}

/// Rows of the length of each text and its position, last first, with 10 tokens per text.
fn rows(texts: &[Value]) -> Vec<Step> {
    let row = |(index, text): (usize, &Value)| json!({"object": "embedding", "index": index, "embedding": [text.as_str().unwrap().len(), 0.5]});
    let data: Vec<Value> = texts.iter().enumerate().map(row).rev().collect();
    answer_json(&json!({"data": data, "usage": {"prompt_tokens": 10 * texts.len(), "total_tokens": 10 * texts.len()}}))
}

const PRICED: &str = "price_per_million_input_tokens = 2.0\nkey = \"env:CANARY\"\nbatch = 2";

#[test]
fn texts_become_rows_in_their_order() {
    let server = Server::start(|_, seen| rows(seen.json()["input"].as_array().unwrap()));
    let encoder = open(&server, &format!("{PRICED}\ndimensions = 2"));
    let embedded = encoder.embed(&["a", "bcd", "ef"]).unwrap();
    assert_eq!(embedded.rows, [[1.0, 0.5], [3.0, 0.5], [2.0, 0.5]]);
    // By hand: 30 tokens × 2 / 10⁶.
    assert!((embedded.cost - 60e-6).abs() < 1e-15, "{}", embedded.cost);
    assert!(encoder.reserve(&["a", "bcd", "ef"]) >= embedded.cost);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].target, "/v1/embeddings");
    assert_eq!(seen[0].json(), json!({"model": "mini", "input": ["a", "bcd"], "dimensions": 2}));
    assert_eq!(seen[0].json(), encoder.record(&["a", "bcd"]));
    assert_eq!(seen[0].header("authorization").map(|key| key.contains(CANARY)), Some(true));
    assert!(!format!("{encoder:?}").contains("canary"));
    assert_eq!(encoder.embed(&[]).unwrap().rows.len(), 0);
    assert_eq!(server.seen().len(), 2, "no text, no request");
}

#[test]
fn rows_that_do_not_fit_the_texts_are_refused() {
    let item = |index: Value, row: Value| json!({"index": index, "embedding": row});
    let two = |one: Value, other: Value| json!([one, other]);
    let good = || item(json!(0), json!([1, 2]));
    let cases = [
        (json!([good()]), "1 rows instead of 2"),
        (json!([good(), good(), good()]), "3 rows instead of 2"),
        (two(good(), good()), "twice or out of range"),
        (two(good(), item(json!(2), json!([1, 2]))), "twice or out of range"),
        (two(good(), item(json!("1"), json!([1, 2]))), "twice or out of range"),
        (two(good(), item(json!(1), json!([1]))), "rows of 2 and of 1"),
        (two(good(), item(json!(1), json!([]))), "no list of numbers"),
        (two(good(), item(json!(1), json!("AACAPw=="))), "no list of numbers"),
        (two(good(), item(json!(1), json!([1, null]))), "no finite number"),
        (two(good(), item(json!(1), json!([1, 1e39]))), "no finite number"),
        (json!({}), "no list `data`"),
    ];
    for (data, expected) in cases {
        let server = Server::always(answer_json(&json!({"data": data, "usage": {"prompt_tokens": 7}})));
        let failure = open(&server, PRICED).embed(&["a", "b"]).unwrap_err();
        assert!(failure.kind == FailureKind::Invalid && failure.message.contains(expected), "{failure:?}");
        // By hand: 7 tokens × 2 / 10⁶.
        assert!(matches!(failure.charge, Charge::Known(cost) if (cost - 14e-6).abs() < 1e-15), "{failure:?}");
    }
    let server = Server::always(answer_json(&json!({"data": [good()]})));
    let failure = open(&server, "dimensions = 3").embed(&["a"]).unwrap_err();
    assert!(failure.message.contains("2 features in row 0 instead of 3"), "{failure:?}");
    // Without `index`, the order is that of the texts.
    let server = Server::always(answer_json(&json!({"data": [{"embedding": [1]}, {"embedding": [2]}]})));
    assert_eq!(open(&server, "").embed(&["a", "b"]).unwrap().rows, [[1.0], [2.0]]);
}

#[test]
fn the_cost_of_earlier_requests_is_kept() {
    let first = || rows(&[json!("a"), json!("b")]);
    let server = Server::sequence(vec![first(), answer(500, &[], "")]);
    let failure = open(&server, PRICED).embed(&["a", "b", "c"]).unwrap_err();
    assert_eq!((failure.kind, failure.is_temporary), (FailureKind::Error, true));
    assert!(matches!(failure.charge, Charge::Known(cost) if (cost - 40e-6).abs() < 1e-15), "{failure:?}");
    let server = Server::sequence(vec![first(), vec![Step::Reset]]);
    assert_eq!(open(&server, PRICED).embed(&["a", "b", "c"]).unwrap_err().charge, Charge::Doubt);
}

#[test]
fn the_fingerprint_names_what_decides_the_features() {
    let fingerprint =
        |url: &str, more: &str| embeddings::open(&settings(url, more), &environment).unwrap().fingerprint();
    let plain = fingerprint("http://h/v1", "");
    // printf '["http://h/v1","mini",null,{}]' | sha256sum
    assert_eq!(plain, "ebeb52104a76a03d980b25c64f19a97c3a0b2aa2e36a1e9000d1d7dbb37b5580");
    assert_eq!(fingerprint("http://h/v1/", "batch = 3\nkey = \"env:CANARY\""), plain);
    let others = ["dimensions = 8", "dimensions = 9", "parameters = { task = \"a\" }"]
        .map(|more| fingerprint("http://h/v1", more));
    assert!(others.iter().all(|other| *other != plain) && others[0] != others[1], "{others:?}");
    let (one, other) = ("parameters = { a = 1, b = 2 }", "parameters = { b = 2, a = 1 }");
    assert_eq!(fingerprint("http://h/v1", one), fingerprint("http://h/v1", other));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for (line, expected) in [
        ("batch = 0", "`batch` is 0"),
        ("dimensions = 0", "`dimensions` is 0"),
        ("parameters = { input = [] }", "it is the samples"),
        ("parameters = { encoding_format = \"base64\" }", "read as numbers"),
        ("price_per_million_input_tokens = -1", "is -1;"),
        ("key = \"sk-canary\"", "write \"env:NAME\""),
    ] {
        let problem = embeddings::open(&settings("http://h/v1", line), &environment).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("canary"), "{line}: {problem}");
    }
}
