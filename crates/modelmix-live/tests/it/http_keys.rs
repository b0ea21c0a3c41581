//! Keys and settings of arms over HTTP: where keys go, and which settings are refused.
#![allow(clippy::unwrap_used)]

use modelmix_live::arm::Arm;
use modelmix_live::arm::http::{ChatSettings, chat};
use serde_json::json;

use crate::http::{CANARY, PRICES, SHORT, choices, environment, open, request, settings};
use crate::server::{Server, Step, answer, json as answer_json};

#[test]
fn keys_appear_nowhere_but_at_the_server() {
    let escaped = CANARY.replace('/', "%2F").replace('+', "%2B");
    let echo = json!({"error": {"message": format!("the key {CANARY} ({escaped}) is wrong")}}).to_string();
    let location = format!("http://127.0.0.1:9/?key={CANARY}");
    let answers = [
        answer(401, &[], &echo),
        answer(500, &[], format!("no JSON {CANARY}")),
        answer(302, &[("Location", &location)], ""),
        answer(200, &[], &echo),
        answer(200, &[], format!("{}{CANARY}", " ".repeat(60))),
        answer_json(&choices(json!([{"message": {"refusal": format!("I refuse {CANARY}")}}]))),
        answer_json(&choices(json!([{"message": {}, "finish_reason": CANARY}]))),
        // Where an excerpt is cut.
        answer(500, &[], format!("{}{CANARY}", "x".repeat(295))),
        vec![Step::Send(format!("{CANARY}\r\n\r\n").into_bytes())],
    ];
    for steps in answers {
        let server = Server::always(steps);
        let more = format!("{PRICES}\nheaders = {{ x-api-key = \"env:CANARY\" }}");
        let arm = open(&server, &more);
        let failure = arm.call(&request(1)).unwrap_err();
        let settings = settings(&server, &more);
        let printed = [
            format!("{failure:?}"),
            format!("{arm:?}"),
            format!("{settings:?}"),
            serde_json::to_string(&settings).unwrap(),
            toml::to_string(&settings).unwrap(),
            arm.record(&request(1)).unwrap().to_string(),
            format!("{:?}", arm.secrets()),
        ];
        for text in printed {
            assert!(!text.contains("canary"), "{text}");
            assert!(!text.contains("xxsk-"), "{text}");
        }
        assert!(server.seen()[0].text().contains(CANARY), "the control: the key is sent");
        assert!(serde_json::to_string(&settings).unwrap().contains("env:CANARY"));
    }
}

#[test]
fn keys_in_the_file_are_refused_without_printing_them() {
    let server = Server::always(vec![]);
    for line in [
        "key = \"sk-canary\"",
        "headers = { Authorization = \"Bearer sk-canary\" }",
        "headers = { X-Api-Key = \"sk-canary\" }",
    ] {
        let settings = settings(&server, line);
        let problem = chat::open(&settings, &environment).unwrap_err();
        assert!(problem.contains("write \"env:NAME\""), "{problem}");
        let printed = format!("{problem} {settings:?} {}", serde_json::to_string(&settings).unwrap());
        assert!(!printed.contains("canary"), "{printed}");
    }
    for (line, expected) in [
        ("key = \"env:MISSING\"", "\"MISSING\", which `key` names, is not set; export it"),
        ("key = \"env:EMPTY\"", "is empty"),
        ("key = \"env:LINES\"", "without line breaks"),
        ("headers = { x-goog = \"env:MISSING\" }", "`headers.x-goog` names, is not set"),
        ("key = \"env:CANARY\"\nheaders = { authorization = \"env:CANARY\" }", "both `key` and `headers`"),
        ("headers = { host = \"other\" }", "leave it out"),
        ("headers = { \"a b\" = \"c\" }", "not the name of a header"),
    ] {
        let problem = chat::open(&settings(&server, line), &environment).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("canary"), "{problem}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let server = Server::always(vec![]);
    for (line, expected) in [
        ("parameters = { model = \"other\" }", "set `model`"),
        ("parameters = { messages = [] }", "set `system` and `user`"),
        ("parameters = { prompt = \"a\" }", "set `user`"),
        ("parameters = { n = 4 }", "the run sets"),
        ("parameters = { stream = true }", "read whole"),
        ("parameters = { seed = 4 }", "`send_seed`"),
        ("parameters = { max_tokens = 4 }", "set `max_tokens`"),
        ("parameters = { max_completion_tokens = 4 }\nmax_tokens = 4", "leave one of them out"),
        ("parameters = { max_completion_tokens = -4 }", "is -4; set it to a positive integer"),
        ("max_tokens = 0", "is 0"),
        ("price_per_million_output_tokens = 1.0", "set `max_tokens`"),
        ("price_per_million_input_tokens = -1.0", "is -1;"),
        ("price_per_million_input_tokens = nan", "is NaN;"),
        ("max_cost_per_request = 1.0", "no price"),
        ("user = \" \"", "`user` is empty"),
        ("timeouts = { total = \"3d\" }", "d; set it to at most 1d"),
        ("idempotency = true\nidempotency_header = \"a b\"", "not the name of a header"),
    ] {
        let problem = chat::open(&settings(&server, line), &environment).unwrap_err();
        assert!(problem.contains(expected), "{line}: {problem}");
    }
    let newer = "parameters = { max_completion_tokens = 9 }\nprice_per_million_output_tokens = 1.0";
    let arm = open(&server, newer);
    assert!(arm.reserve(&request(2)) >= 18e-6);
    assert_eq!(arm.record(&request(1)).unwrap()["max_completion_tokens"], 9);
    assert!(arm.record(&request(1)).unwrap().get("max_tokens").is_none());
    let unknown =
        toml::from_str::<ChatSettings>("base_url = \"http://h\"\nmodel = \"m\"\ntemperature = 1").unwrap_err();
    assert!(unknown.message().contains("temperature"), "{unknown}");
}

#[test]
fn settings_come_back_as_they_were() {
    let server = Server::always(vec![]);
    let settings = settings(&server, &format!("{PRICES}\n{SHORT}\nparameters = {{ stop = [\"a\"] }}"));
    let again: ChatSettings = serde_json::from_value(serde_json::to_value(&settings).unwrap()).unwrap();
    assert_eq!(again, settings);
    let schema = serde_json::to_value(schemars::schema_for!(ChatSettings)).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let undescribed: Vec<_> = schema["properties"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, field)| field.get("description").is_none())
        .collect();
    assert!(undescribed.is_empty(), "{undescribed:?}");
    let is_paid = |more| self::settings(&server, more).is_paid();
    assert!(is_paid("key = \"env:A\"") && is_paid("headers = { x-api-key = \"env:A\" }"));
    assert!(
        is_paid("price_per_million_input_tokens = 1") && !is_paid("price_per_million_input_tokens = 0") && !is_paid("")
    );
}
