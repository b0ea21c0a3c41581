//! Chats over HTTP: what becomes of every kind of answer.
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use modelmix_live::arm::http::ChatSettings;
use modelmix_live::arm::http::chat::{self, ChatArm};
use modelmix_live::arm::{Arm, Charge, Content, Failure, FailureKind, Reply, Request};
use serde_json::{Value, json};

use crate::server::{Server, Step, answer, chunked, json as answer_json, response};

/// A key that must not appear anywhere but at the server.
pub(crate) const CANARY: &str = "sk-canary/7f3a+b9";

/// An environment with the canary as `CANARY`.
pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "CANARY" => Some(CANARY.to_owned()),
        "EMPTY" => Some(" ".to_owned()),
        "LINES" => Some("sk-canary-1\nsk-canary-2".to_owned()),
        _ => None,
    }
}

/// A request with a prompt.
pub(crate) fn request(count: usize) -> Request {
    let prompt = Some("a \"red\" hat".to_owned());
    Request { pull: 3, attempt: 1, key: "run-3".to_owned(), prompt, seed: (1 << 40) + 77, count }
}

/// A time limit of connecting that a test can wait for.
pub(crate) const SHORT: &str = r#"timeouts = { connect = "250ms" }"#;

/// Settings of a server; `more` are lines of TOML.
pub(crate) fn settings(server: &Server, more: &str) -> ChatSettings {
    let url = server.url("/v1");
    toml::from_str(&format!("base_url = \"{url}\"\nmodel = \"small\"\n{more}")).unwrap()
}

pub(crate) fn open(server: &Server, more: &str) -> ChatArm {
    chat::open(&settings(server, more), &environment).unwrap()
}

/// Prices of which a token of the request costs a millionth and one of the answer four.
pub(crate) const PRICES: &str =
    "price_per_million_input_tokens = 1\nprice_per_million_output_tokens = 4.0\nmax_tokens = 100\nkey = \"env:CANARY\"";

/// What became of one request to a server that does these steps.
fn call(steps: Vec<Step>, more: &str) -> Result<Reply, Failure> {
    let server = Server::always(steps);
    open(&server, more).call(&request(1))
}

fn failure(steps: Vec<Step>, more: &str) -> Failure {
    call(steps, more).unwrap_err()
}

/// An answer with these choices and a usage of 10 and 5 tokens, which costs 30 millionths.
pub(crate) fn choices(choices: Value) -> Value {
    json!({"id": "x", "model": "small", "choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
}

pub(crate) fn text(text: &str) -> Value {
    json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}})
}

/// The cost of `choices`: 10 × 1 / 10⁶ + 5 × 4 / 10⁶.
const COST: f64 = 30e-6;

fn is_cost(charge: Charge) -> bool {
    matches!(charge, Charge::Known(cost) if (cost - COST).abs() < 1e-15)
}

#[test]
fn a_chat_sends_its_settings_and_reads_text_and_cost() {
    let server = Server::always(answer_json(&choices(json!([text("one"), text("two")]))));
    let arm = open(
        &server,
        &format!(
            "{PRICES}\nsystem = \"You sell hats.\"\nuser = \"Describe {{prompt}}.\"\nidempotency = true\n\
             headers = {{ x-api-key = \"env:CANARY\", x-title = \"mix\" }}\nparameters = {{ temperature = 0.5 }}"
        ),
    );
    let reply = arm.call(&request(2)).unwrap();
    let texts: Vec<_> = reply.samples.into_iter().map(|sample| sample.content).collect();
    assert_eq!(texts, [Content::Text("one".into()), Content::Text("two".into())]);
    assert!((reply.cost - COST).abs() < 1e-15);

    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.header("host"), Some(server.host().as_str()));
    assert_eq!(seen.header("authorization"), Some("Bearer sk-canary/7f3a+b9"));
    assert_eq!(seen.header("x-api-key"), Some(CANARY));
    assert_eq!(seen.header("x-title"), Some("mix"));
    assert_eq!(seen.header("idempotency-key"), Some("run-3"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("user-agent"), Some(concat!("modelmix/", env!("CARGO_PKG_VERSION"))));
    let expected = json!({
        "model": "small",
        "messages": [
            {"role": "system", "content": "You sell hats."},
            {"role": "user", "content": "Describe a \"red\" hat."},
        ],
        "temperature": 0.5, "max_tokens": 100, "n": 2, "seed": 77,
    });
    assert_eq!(seen.json(), expected);
    assert_eq!(arm.record(&request(2)).unwrap(), expected);
    // By hand: (bytes + 256) × 1 / 10⁶ + 2 × 100 × 4 / 10⁶.
    let reserve = (seen.body.len() as f64 + 256.0) * 1e-6 + 800e-6;
    assert!((arm.reserve(&request(2)) - reserve).abs() < 1e-12);
}

#[test]
fn a_chat_without_options_sends_the_least() {
    let server = Server::always(chunked(&[br#"{"choices": [{"message": {"con"#, br#"tent": "hi"}}]}"#], true));
    let arm = open(&server, "send_seed = false");
    let reply = arm.call(&request(1)).unwrap();
    assert_eq!((reply.samples[0].content.clone(), reply.cost), (Content::Text("hi".into()), 0.0));
    let seen = &server.seen()[0];
    assert_eq!(seen.json(), json!({"model": "small", "messages": [{"role": "user", "content": "a \"red\" hat"}]}));
    assert_eq!((seen.header("authorization"), seen.header("idempotency-key")), (None, None));
    assert_eq!(arm.reserve(&request(1)), 0.0);

    let missing = Request { prompt: None, ..request(1) };
    let failure = arm.call(&missing).unwrap_err();
    assert_eq!((failure.kind, failure.charge), (FailureKind::NotSent, Charge::Known(0.0)));
    assert!(arm.uses_prompt() && failure.message.contains("set `user`"), "{failure:?}");
    let fixed = open(&server, "user = \"Tell a story.\"");
    assert!(!fixed.uses_prompt() && fixed.call(&missing).is_ok());
    assert_eq!(server.seen().len(), 2, "the request without a prompt is not sent");
}

#[test]
fn requests_that_do_not_leave_cost_nothing() {
    let free_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // No TLS server: the handshake ends before anything is sent.
    let plain = Server::always(vec![]);
    let urls = [
        format!("http://{free_port}/v1"),
        "http://host.invalid/v1".to_owned(),
        plain.url("/v1").replace("http:", "https:"),
    ];
    for url in urls {
        let text = format!("base_url = \"{url}\"\nmodel = \"small\"\n{PRICES}\n{SHORT}");
        let arm = chat::open(&toml::from_str(&text).unwrap(), &environment).unwrap();
        let failure = arm.call(&request(1)).unwrap_err();
        assert_eq!((failure.kind, failure.charge), (FailureKind::NotSent, Charge::Known(0.0)), "{url}: {failure:?}");
        assert!(failure.is_temporary && failure.message.contains("no connection to"), "{failure:?}");
    }
    assert!(plain.seen().is_empty());
}

#[test]
fn broken_connections_leave_the_cost_in_doubt() {
    let good = answer_json(&choices(json!([text("one")])));
    let Step::Send(bytes) = &good[0] else { unreachable!() };
    let head = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{{\"choices\"").into_bytes();
    let cases: [(&str, Vec<Step>); 8] = [
        ("a reset before the answer", vec![Step::Reset]),
        ("a close before the answer", vec![]),
        ("a reset within the headers", vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-".to_vec()), Step::Reset]),
        ("a close within the headers", vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-".to_vec())]),
        ("no HTTP", vec![Step::Send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec())]),
        ("a truncated body", vec![Step::Send(bytes[..bytes.len() - 5].to_vec())]),
        ("a body shorter than its length", vec![Step::Send(head(4000))]),
        ("a truncated body in chunks", chunked(&[br#"{"choices": []}"#], false)),
    ];
    for (what, steps) in cases {
        let failure = failure(steps, PRICES);
        assert_eq!((failure.kind, failure.charge), (FailureKind::Broken, Charge::Doubt), "{what}: {failure:?}");
        assert!(failure.is_temporary && failure.message.contains("ended before"), "{what}: {failure:?}");
    }
    assert!(call(good, PRICES).is_ok(), "the control");
}

#[test]
fn a_connection_that_ends_at_once_costs_nothing_or_is_in_doubt() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = thread::spawn(move || drop(listener.accept().unwrap()));
    let settings = toml::from_str(&format!("base_url = \"{url}\"\nmodel = \"small\"\n{PRICES}")).unwrap();
    let failure = chat::open(&settings, &environment).unwrap().call(&request(1)).unwrap_err();
    server.join().unwrap();
    // Whether the body was on its way before the close depends on the time.
    let expected = [(FailureKind::NotSent, Charge::Known(0.0)), (FailureKind::Broken, Charge::Doubt)];
    assert!(expected.contains(&(failure.kind, failure.charge)) && failure.is_temporary, "{failure:?}");
}

#[test]
fn late_answers_leave_the_cost_in_doubt_and_end_by_the_total() {
    let drip = |byte: u8| [Step::Send(vec![byte]), Step::Pause(Duration::from_millis(40))];
    let head = Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec());
    // One limit is short, so that a slow machine cannot reach another one first.
    let cases: [(&str, Vec<Step>, &str); 3] = [
        ("silence", vec![Step::Pause(Duration::from_millis(400))], "first_byte"),
        ("a slow body", [head].into_iter().chain((0..100).flat_map(|_| drip(b' '))).collect(), "total"),
        (
            "slow headers",
            [Step::Send(b"HTTP/1.1 200 OK\r\nX: ".to_vec())]
                .into_iter()
                .chain((0..100).flat_map(|_| drip(b'a')))
                .collect(),
            "first_byte",
        ),
    ];
    for (what, steps, fix) in cases {
        let start = Instant::now();
        let failure = failure(steps, &format!("{PRICES}\ntimeouts = {{ {fix} = \"250ms\" }}"));
        assert!(start.elapsed() < Duration::from_secs(2), "{what}");
        assert_eq!((failure.kind, failure.charge), (FailureKind::Timeout, Charge::Doubt), "{what}: {failure:?}");
        assert!(
            failure.is_temporary && failure.message.contains(&format!("raise `timeouts.{fix}`")),
            "{what}: {failure:?}"
        );
    }
}

#[test]
fn error_statuses_cost_nothing_and_say_whether_to_try_again() {
    let body = json!({"error": {"message": "over\u{7} the\nlimit", "code": "x"}}).to_string();
    type Case<'a> = (u16, &'a [(&'a str, &'a str)], bool, Option<u64>);
    let cases: [Case<'_>; 12] = [
        (429, &[("Retry-After", "7")], true, Some(7)),
        // The date is 90 seconds after that of the server's clock.
        (
            429,
            &[("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", "Sun, 06 Nov 1994 08:51:07 GMT")],
            true,
            Some(90),
        ),
        (429, &[("Retry-After", "Sun, 06 Nov 1994 08:51:07 GMT")], true, Some(0)),
        (429, &[("Retry-After", "999999")], true, Some(3600)),
        (429, &[("Retry-After", "soon")], true, None),
        (503, &[("Retry-After", "2")], true, Some(2)),
        (500, &[], true, None),
        (408, &[], true, None),
        (400, &[("Retry-After", "7")], false, None),
        (401, &[], false, None),
        (404, &[], false, None),
        (422, &[], false, None),
    ];
    for (status, headers, is_temporary, retry_after) in cases {
        let failure = failure(answer(status, headers, &body), PRICES);
        assert_eq!((failure.kind, failure.charge), (FailureKind::Error, Charge::Known(0.0)), "{status}");
        assert_eq!((failure.status, failure.is_temporary), (Some(status), is_temporary), "{status}");
        assert_eq!(failure.retry_after, retry_after.map(Duration::from_secs), "{status} {headers:?}");
        assert!(failure.message.contains("over thelimit"), "{failure:?}");
    }
    let long = failure(answer(500, &[], format!(r#"{{"error": {{"message": "{}"}}}}"#, "é".repeat(5000))), "");
    assert_eq!(long.message.matches('é').count(), 300);
    let other = failure(answer(502, &[], "<html>bad gateway</html>"), "");
    assert!(other.message.contains("bad gateway") && other.is_temporary, "{other:?}");
    // A body that never ends does not hide the status.
    let truncated = failure(vec![Step::Send(b"HTTP/1.1 503 Busy\r\nContent-Length: 50\r\n\r\n".to_vec())], "");
    assert_eq!((truncated.status, truncated.charge), (Some(503), Charge::Known(0.0)));
}

#[test]
fn refusals_are_told_from_errors() {
    let of_azure = json!({"error": {"code": "content_filter", "message": "The prompt triggered the filter"}});
    let withheld = json!([{"finish_reason": "content_filter", "message": {"content": "par"}}]);
    let refused = json!([{"finish_reason": "stop", "message": {"content": null, "refusal": "I cannot."}}]);
    let cases = [
        (answer(400, &[], of_azure.to_string()), false),
        (answer_json(&choices(withheld)), true),
        (answer_json(&choices(refused.clone())), true),
    ];
    for (steps, has_cost) in cases {
        let failure = failure(steps, PRICES);
        assert_eq!((failure.kind, failure.is_temporary), (FailureKind::Refusal, false), "{failure:?}");
        assert!(if has_cost { is_cost(failure.charge) } else { failure.charge == Charge::Known(0.0) }, "{failure:?}");
    }
    // A refusal among samples takes nothing from them.
    let server = Server::always(answer_json(&choices(json!([refused[0], text("yes")]))));
    let reply = open(&server, PRICES).call(&request(2)).unwrap();
    assert_eq!((reply.samples.len(), is_cost(Charge::Known(reply.cost))), (1, true));
}

#[test]
fn empty_answers_have_their_cost() {
    let null = json!([{"finish_reason": "length", "message": {"content": null}}]);
    for list in [json!([]), json!([text("")]), json!([text(" \n")]), null] {
        let failure = failure(answer_json(&choices(list.clone())), PRICES);
        assert_eq!((failure.kind, failure.is_temporary), (FailureKind::Empty, false), "{list}: {failure:?}");
        assert!(is_cost(failure.charge), "{list}: {failure:?}");
    }
}

#[test]
fn answers_of_the_wrong_form_are_invalid() {
    let doubt = [
        answer(200, &[], r#"{"choices": [{"message": {"content": "tru"#),
        answer(200, &[], "<html>hello</html>"),
        answer(200, &[], ""),
        answer(204, &[], ""),
        answer(200, &[], [0xff, 0xfe, 0x00]),
        answer(200, &[], "[".repeat(100_000)),
        answer_json(&json!([])),
        answer_json(&json!({"error": {"message": "the model is loading"}})),
        answer_json(&json!({"choices": {"message": {}}})),
        answer_json(&json!({"choices": [text("one"), text("two")]})),
    ];
    for steps in doubt {
        let paid = failure(steps.clone(), PRICES);
        assert_eq!((paid.kind, paid.charge), (FailureKind::Invalid, Charge::Doubt), "{paid:?}");
        let free = failure(steps, "");
        assert_eq!((free.kind, free.charge), (FailureKind::Invalid, Charge::Known(0.0)), "{free:?}");
        assert!(!free.is_temporary && free.message.len() < 700, "{free:?}");
    }
    let known = [json!([text("one"), text("two")]), json!(["text"]), json!([{"message": {"content": 7}}]), json!(null)];
    for list in known {
        let failure = failure(answer_json(&choices(list.clone())), PRICES);
        assert!(failure.kind == FailureKind::Invalid && is_cost(failure.charge), "{list}: {failure:?}");
    }
}

#[test]
fn fewer_samples_than_asked_are_taken_and_more_are_not() {
    let server = Server::start(|number, _| answer_json(&choices(vec![text("one"); number + 1].into())));
    let arm = open(&server, PRICES);
    assert_eq!(arm.call(&request(2)).unwrap().samples.len(), 1);
    assert_eq!(arm.call(&request(2)).unwrap().samples.len(), 2);
    let failure = arm.call(&request(2)).unwrap_err();
    assert!(failure.kind == FailureKind::Invalid && failure.message.contains("3 choices instead of 2"), "{failure:?}");
    assert!(is_cost(failure.charge));
}

#[test]
fn an_answer_without_usage_costs_what_was_reserved() {
    let server = Server::always(answer_json(&json!({"choices": [text("one")]})));
    let arm = open(&server, &format!("{PRICES}\nmax_cost_per_request = 0.25"));
    assert_eq!((arm.reserve(&request(1)), arm.call(&request(1)).unwrap().cost), (0.25, 0.25));
}

#[test]
fn huge_answers_are_not_read() {
    let endless = || {
        [Step::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())].into_iter().chain(vec![Step::Send(vec![b' '; 1 << 16]); 64])
    };
    let declared = vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec())];
    for steps in [endless().collect(), declared] {
        let failure = failure(steps, &format!("{PRICES}\nmax_reply_bytes = \"100kB\""));
        assert_eq!((failure.kind, failure.charge), (FailureKind::Invalid, Charge::Doubt), "{failure:?}");
        assert!(failure.message.contains("larger than 100000 bytes; raise `max_reply_bytes`"), "{failure:?}");
    }
}

#[test]
fn redirects_are_not_followed() {
    let other = Server::always(answer_json(&choices(json!([text("stolen")]))));
    for status in [301, 302, 307, 308] {
        let failure = failure(answer(status, &[("Location", &other.url("/v1"))], ""), PRICES);
        assert_eq!((failure.kind, failure.status), (FailureKind::Error, Some(status)));
        assert_eq!((failure.charge, failure.is_temporary), (Charge::Known(0.0), false));
        assert!(failure.message.contains("redirects") && failure.message.contains(&other.host()), "{failure:?}");
    }
    assert!(other.seen().is_empty(), "the key stays with the server of the settings");
}

#[test]
fn an_interruption_ends_requests_in_progress() {
    let head = Step::Send(b"HTTP/1.1 200 OK\r\n\r\n{\"choices\": [{\"message\": {\"content\": \"a\"}}]}".to_vec());
    let pause = Step::Pause(Duration::from_millis(1500));
    // Nothing says where the second answer ends.
    for steps in [vec![pause.clone()], vec![head, pause]] {
        let server = Server::always(steps);
        let arm = open(&server, PRICES);
        let start = Instant::now();
        let failure = thread::scope(|scope| {
            let call = scope.spawn(|| arm.call(&request(1)).unwrap_err());
            while server.seen().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(30));
            arm.interrupt();
            call.join().unwrap()
        });
        assert!(start.elapsed() < Duration::from_millis(1200));
        assert_eq!((failure.kind, failure.charge), (FailureKind::Broken, Charge::Doubt), "{failure:?}");
        assert!(failure.message.contains("interrupted"), "{failure:?}");
        let later = arm.call(&request(1)).unwrap_err();
        assert_eq!((later.kind, later.charge), (FailureKind::NotSent, Charge::Known(0.0)), "{later:?}");
    }
}

#[test]
fn one_client_serves_many_threads() {
    let server = Server::start(|_, seen| {
        let content = seen.json()["messages"][0]["content"].as_str().unwrap().to_owned();
        vec![
            Step::Pause(Duration::from_millis(20)),
            Step::Send(response(200, &[], choices(json!([text(&content)])).to_string().as_bytes())),
        ]
    });
    let arm = open(&server, PRICES);
    thread::scope(|scope| {
        for number in 0..32 {
            let arm = &arm;
            scope.spawn(move || {
                let prompt = format!("prompt {number}");
                let reply = arm.call(&Request { prompt: Some(prompt.clone()), ..request(1) }).unwrap();
                assert_eq!(reply.samples[0].content, Content::Text(prompt));
            });
        }
    });
    assert_eq!(server.seen().len(), 32);
}
