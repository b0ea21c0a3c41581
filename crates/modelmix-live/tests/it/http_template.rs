//! Arms behind templates of requests: placeholders, paths to samples and costs.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use modelmix_live::arm::http::HttpSettings;
use modelmix_live::arm::http::template::{self, HttpArm};
use modelmix_live::arm::{Arm, Charge, Content, FailureKind, Request};
use serde_json::{Value, json};

use crate::http::{CANARY, environment, request};
use crate::server::{Server, Step, answer, json as answer_json};

fn settings(url: &str, more: &str) -> HttpSettings {
    toml::from_str(&format!("url = \"{url}\"\n{more}")).unwrap()
}

fn open(server: &Server, more: &str) -> HttpArm {
    template::open(&settings(&server.url("/make"), more), &environment).unwrap()
}

#[test]
fn a_template_becomes_a_request_and_a_path_finds_the_samples() {
    let server = Server::always(answer_json(&json!({"out": [{"text": "one"}, {"text": "two"}], "cents": 3.5})));
    let more = "answer = \"out.*.text\"\ncost = \"/cents\"\nmax_cost_per_request = 9\nheaders = { x-api-key = \"env:CANARY\" }\n\
                body = { q = \"<{prompt}>\", seed = \"{seed}\", n = \"{count}\", id = \"{key}\", deep = [{ s = \"s{seed}\" }], on = true }";
    let arm = open(&server, more);
    let reply = arm.call(&request(2)).unwrap();
    let texts: Vec<_> = reply.samples.into_iter().map(|sample| sample.content).collect();
    assert_eq!(texts, [Content::Text("one".into()), Content::Text("two".into())]);
    assert_eq!((reply.cost, arm.reserve(&request(2))), (3.5, 9.0));
    let seen = &server.seen()[0];
    let expected = json!({
        "q": "<a \"red\" hat>", "seed": 77, "n": 2, "id": "run-3", "deep": [{"s": "s77"}], "on": true
    });
    assert_eq!((seen.method.as_str(), seen.json()), ("POST", expected.clone()));
    assert_eq!((seen.header("x-api-key"), seen.header("authorization")), (Some(CANARY), None));
    assert_eq!(arm.record(&request(2)).unwrap(), expected);
    assert!(arm.uses_prompt());
    let printed = format!("{arm:?} {}", serde_json::to_string(&settings("http://h/", more)).unwrap());
    assert!(!printed.contains("canary"), "{printed}");
}

#[test]
fn an_address_may_have_placeholders() {
    let server = Server::always(answer_json(&json!("hello")));
    let url = server.url("/{count}?q={prompt}&s={seed}");
    let arm = template::open(&settings(&url, "method = \"GET\"\nanswer = \"\""), &environment).unwrap();
    let prompt = Some("a/b?c&d=ü {seed}#".to_owned());
    let reply = arm.call(&Request { prompt, ..request(1) }).unwrap();
    assert_eq!(reply.samples[0].content, Content::Text("hello".into()));
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.body.len()), ("GET", 0));
    assert_eq!(seen.target, "/1?q=a%2Fb%3Fc%26d%3D%C3%BC%20%7Bseed%7D%23&s=77");
    let missing = arm.call(&Request { prompt: None, ..request(1) }).unwrap_err();
    assert_eq!((missing.kind, missing.charge), (FailureKind::NotSent, Charge::Known(0.0)));
}

#[test]
fn every_kind_of_answer_is_read() {
    let files = Server::always(answer(200, &[], "RIFF of sound"));
    let cases = [
        ("text", json!("a text"), Content::Text("a text".into())),
        ("base64", json!(BASE64_STANDARD.encode(b"any file")), Content::File(b"any file".to_vec())),
        ("url", json!(files.url("/a.wav")), Content::File(b"RIFF of sound".to_vec())),
        ("features", json!([1, 2.5, -3e-3]), Content::Features(vec![1.0, 2.5, -3e-3])),
    ];
    for (kind, value, expected) in cases {
        let server = Server::always(answer_json(&json!({"data": [value]})));
        let arm = open(&server, &format!("answer = \"data.0\"\nanswer_kind = \"{kind}\"\nmethod = \"PUT\""));
        let reply = arm.call(&request(1)).unwrap();
        assert_eq!((reply.samples.len(), &reply.samples[0].content, reply.cost), (1, &expected, 0.0), "{kind}");
        assert_eq!((server.seen()[0].method.as_str(), server.seen()[0].json()), ("PUT", json!({})));
    }
}

#[test]
fn answers_that_cannot_be_used_say_what_they_cost() {
    let cases: [(&str, Value, FailureKind); 12] = [
        ("text", json!({}), FailureKind::Invalid),
        ("text", json!({"a": 7}), FailureKind::Invalid),
        ("text", json!({"a": null}), FailureKind::Empty),
        ("text", json!({"a": " "}), FailureKind::Empty),
        ("base64", json!({"a": "%"}), FailureKind::Invalid),
        ("url", json!({"a": "nowhere"}), FailureKind::Invalid),
        ("features", json!({"a": []}), FailureKind::Empty),
        ("features", json!({"a": "1, 2"}), FailureKind::Invalid),
        ("features", json!({"a": [1, "2"]}), FailureKind::Invalid),
        ("features", json!({"a": [1, 1e60]}), FailureKind::Invalid),
        ("features", json!({"a": [1, null]}), FailureKind::Invalid),
        ("text", json!([]), FailureKind::Invalid),
    ];
    for (kind, value, expected) in cases {
        let server = Server::always(answer_json(&value));
        let lines = format!("answer = \"a\"\nanswer_kind = \"{kind}\"");
        let priced = open(&server, &format!("{lines}\nprice_per_request = 0.5")).call(&request(1)).unwrap_err();
        assert_eq!((priced.kind, priced.charge), (expected, Charge::Known(0.5)), "{value}: {priced:?}");
        let unsaid = open(&server, &format!("{lines}\ncost = \"c\"\nmax_cost_per_request = 2"));
        let unsaid = unsaid.call(&request(1)).unwrap_err();
        assert_eq!((unsaid.kind, unsaid.charge), (expected, Charge::Doubt), "{value}: {unsaid:?}");
        let free = open(&server, &lines).call(&request(1)).unwrap_err();
        assert_eq!((free.kind, free.charge), (expected, Charge::Known(0.0)), "{value}: {free:?}");
    }
    let many = Server::always(answer_json(&json!({"a": ["one", "two"]})));
    let failure = open(&many, "answer = \"a.*\"\nprice_per_request = 0.5").call(&request(1)).unwrap_err();
    assert_eq!((failure.kind, failure.charge), (FailureKind::Invalid, Charge::Known(0.5)), "{failure:?}");
    assert!(failure.message.contains("2 samples instead of 1"));
    let unreadable = Server::always(answer(200, &[], "{\"a\": "));
    let failure = open(&unreadable, "answer = \"a\"\nprice_per_request = 0.5").call(&request(1)).unwrap_err();
    assert_eq!((failure.kind, failure.charge), (FailureKind::Invalid, Charge::Doubt), "{failure:?}");
}

#[test]
fn a_cost_that_is_not_said_is_the_reserved_one() {
    let lines = "answer = \"a\"\ncost = \"c\"\nmax_cost_per_request = 2";
    for cost in [json!(null), json!("1"), json!(-1), json!([1])] {
        let server = Server::always(answer_json(&json!({"a": "text", "c": cost})));
        assert_eq!(open(&server, lines).call(&request(1)).unwrap().cost, 2.0, "{cost}");
    }
    let server = Server::always(answer_json(&json!({"a": "text", "c": 0.25})));
    assert_eq!(open(&server, lines).call(&request(1)).unwrap().cost, 0.25);
}

#[test]
fn a_get_that_breaks_is_in_doubt() {
    // A request without a body may have been acted on as soon as there was a connection.
    let server = Server::always(vec![Step::Reset]);
    let arm = open(&server, "method = \"GET\"\nanswer = \"a\"\nprice_per_request = 1");
    let failure = arm.call(&request(1)).unwrap_err();
    assert_eq!((failure.kind, failure.charge), (FailureKind::Broken, Charge::Doubt), "{failure:?}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for (url, line, expected) in [
        ("http://{prompt}/a", "answer = \"a\"", "placeholder in its host"),
        ("http://h:{count}?a", "answer = \"a\"", "placeholder in its host"),
        ("{prompt}", "answer = \"a\"", "placeholder in its host"),
        ("ftp://h/", "answer = \"a\"", "not an address"),
        ("http://h/?token=canary", "answer = \"a\"", "has a key in its query"),
        ("http://h/", "answer = \"a..b\"", "empty part"),
        ("http://h/", "answer = \"a\"\nmethod = \"GET\"\nbody = {}", "set `method` to \"POST\""),
        ("http://h/", "answer = \"a\"\ncost = \"c\"", "set `max_cost_per_request`"),
        ("http://h/", "answer = \"a\"\ncost = \"c.*\"\nmax_cost_per_request = 1", "one number"),
        ("http://h/", "answer = \"a\"\ncost = \"c\"\nprice_per_request = 1", "leave one of them out"),
        ("http://h/", "answer = \"a\"\nmax_cost_per_request = 1", "no price"),
        ("http://h/", "answer = \"a\"\nprice_per_request = -1", "is -1;"),
    ] {
        let problem = template::open(&settings(url, line), &environment).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("canary"), "{url} {line}: {problem}");
    }
}
