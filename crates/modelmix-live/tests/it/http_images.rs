//! Images over HTTP: base64 and links, what they cost, and where the client fetches them.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use modelmix_live::arm::http::ImagesSettings;
use modelmix_live::arm::http::images::{self, ImagesArm};
use modelmix_live::arm::{Arm, Charge, Content, FailureKind};
use serde_json::{Value, json};

use crate::http::{CANARY, SHORT, environment, request};
use crate::server::{Server, Step, answer, json as answer_json};

/// A PNG image of one pixel.
fn png() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 1, 1);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[128]).unwrap();
    bytes
}

const PRICED: &str = "price_per_image = 0.04\nkey = \"env:CANARY\"";

fn settings(url: &str, more: &str) -> ImagesSettings {
    toml::from_str(&format!("base_url = \"{url}\"\nmodel = \"painter\"\n{more}")).unwrap()
}

fn open(server: &Server, more: &str) -> ImagesArm {
    images::open(&settings(&server.url("/v1"), more), &environment).unwrap()
}

fn data(items: Value) -> Vec<Step> {
    answer_json(&json!({"created": 1, "data": items}))
}

fn base64(bytes: &[u8]) -> Value {
    json!({"b64_json": BASE64_STANDARD.encode(bytes)})
}

#[test]
fn images_as_base64_are_files_with_their_price() {
    let unpadded = json!({"b64_json": BASE64_STANDARD_NO_PAD.encode(png()), "url": null, "revised_prompt": "x"});
    let server = Server::always(data(json!([base64(&png()), unpadded])));
    let arm =
        open(&server, &format!("{PRICED}\nprompt = \"A photo of {{prompt}}\"\nparameters = {{ size = \"64x64\" }}"));
    let reply = arm.call(&request(2)).unwrap();
    assert_eq!(reply.samples.len(), 2);
    assert!(reply.samples.iter().all(|sample| sample.content == Content::File(png())));
    // By hand: 2 × 0.04.
    assert_eq!((reply.cost, arm.reserve(&request(2))), (0.08, 0.08));
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/v1/images/generations"));
    let expected = json!({"model": "painter", "prompt": "A photo of a \"red\" hat", "size": "64x64", "n": 2});
    assert_eq!(seen.json(), expected);
    assert_eq!(arm.record(&request(2)).unwrap(), expected);
    assert_eq!(open(&server, "send_seed = true").record(&request(1)).unwrap()["seed"], 77);
    assert_eq!(open(&server, &format!("{PRICED}\nmax_cost_per_request = 1")).reserve(&request(9)), 1.0);
}

#[test]
fn linked_images_are_fetched_without_the_key() {
    let files = Server::start(|number, seen| match (seen.target.as_str(), number) {
        ("/a.png", _) => answer(302, &[("Location", "/b.png")], ""),
        // A file server that fails once: the image is paid, so that it is fetched again.
        ("/b.png", 0..=1) => answer(503, &[], ""),
        _ => answer(200, &[], png()),
    });
    let server = Server::always(data(json!([{"url": files.url("/a.png")}])));
    let arm = open(&server, &format!("{PRICED}\nheaders = {{ x-api-key = \"env:CANARY\" }}"));
    let reply = arm.call(&request(1)).unwrap();
    assert_eq!((reply.samples[0].content.clone(), reply.cost), (Content::File(png()), 0.04));
    assert!(server.seen()[0].text().contains(CANARY), "the control");
    assert_eq!(files.seen().len(), 4);
    for seen in files.seen() {
        assert_eq!(seen.method, "GET");
        assert!(!seen.text().contains("canary"), "{}", seen.text());
    }
    assert_eq!(server.seen().len(), 1, "the request is not repeated");
}

#[test]
fn images_that_cannot_be_used_are_invalid_and_have_their_price() {
    let files = Server::start(|_, seen| match seen.target.as_str() {
        "/missing" => answer(404, &[], format!("no file for {CANARY}")),
        "/html" => answer(200, &[], "<html>"),
        "/loop" => answer(302, &[("Location", "/loop")], ""),
        "/short" => vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec())],
        "/ftp" => answer(302, &[("Location", "ftp://host/a")], ""),
        _ => vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n".to_vec())],
    });
    let link = |path: &str| json!([{"url": files.url(path)}]);
    let cases = [
        (json!([{"b64_json": "%%%"}]), FailureKind::Invalid, "base64"),
        (json!([base64(b"no image")]), FailureKind::Invalid, "no image"),
        (json!([base64(&png()), base64(&png())]), FailureKind::Invalid, "2 images instead of 1"),
        (json!([{"url": "file:///etc/passwd"}]), FailureKind::Invalid, "no address of the web"),
        (json!([{"url": "data:image/png,abc"}]), FailureKind::Invalid, "base64"),
        (link("/missing"), FailureKind::Error, "404"),
        (link("/html"), FailureKind::Invalid, "no image"),
        (link("/loop"), FailureKind::Invalid, "redirects more than"),
        (link("/ftp"), FailureKind::Invalid, "no address of the web"),
        (link("/huge"), FailureKind::Invalid, "larger than"),
        (link("/short"), FailureKind::Broken, "ended before"),
        (json!([]), FailureKind::Empty, "no images"),
        (json!([{}]), FailureKind::Empty, "neither"),
        (json!([{"b64_json": "", "url": null}]), FailureKind::Empty, "neither"),
    ];
    for (items, kind, expected) in cases {
        let count = items.as_array().map_or(0, Vec::len);
        let server = Server::always(data(items));
        let failure = open(&server, &format!("{PRICED}\nmax_reply_bytes = \"10kB\"")).call(&request(1)).unwrap_err();
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert_eq!(failure.charge, Charge::Known(0.04 * count as f64), "{failure:?}");
        assert!(failure.message.contains(expected) && !failure.message.contains("canary"), "{failure:?}");
    }
    // A good image among bad ones is kept.
    let server = Server::always(data(json!([{"b64_json": "%"}, base64(&png())])));
    let reply = open(&server, PRICED).call(&request(2)).unwrap();
    assert_eq!((reply.samples.len(), reply.cost), (1, 0.08));
}

#[test]
fn answers_without_a_list_are_in_doubt() {
    for steps in
        [answer(200, &[], "{\"data\": [{\"b64"), answer_json(&json!({"data": "none"})), answer_json(&json!({}))]
    {
        let server = Server::always(steps);
        let paid = open(&server, PRICED).call(&request(1)).unwrap_err();
        assert_eq!((paid.kind, paid.charge), (FailureKind::Invalid, Charge::Doubt), "{paid:?}");
        let free = open(&server, "").call(&request(1)).unwrap_err();
        assert_eq!((free.kind, free.charge), (FailureKind::Invalid, Charge::Known(0.0)), "{free:?}");
    }
    let refused = json!({"error": {"code": "moderation_blocked", "message": "Your request was rejected"}}).to_string();
    let failure = open(&Server::always(answer(400, &[], refused)), PRICED).call(&request(1)).unwrap_err();
    assert_eq!((failure.kind, failure.charge), (FailureKind::Refusal, Charge::Known(0.0)));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for (line, expected) in [
        ("price_per_image = -0.1", "is -0.1;"),
        ("price_per_image = inf", "is inf;"),
        ("max_cost_per_request = 1.0", "set `price_per_image`"),
        ("parameters = { prompt = \"a\" }", "set `prompt`"),
        ("parameters = { n = 2 }", "the run sets"),
        ("parameters = { seed = 2 }\nsend_seed = true", "`send_seed`"),
        ("prompt = \"\"", "`prompt` is empty"),
        ("key = \"sk-canary\"", "write \"env:NAME\""),
    ] {
        let problem = images::open(&settings("http://127.0.0.1:9/v1", line), &environment).unwrap_err();
        assert!(problem.contains(expected) && !problem.contains("canary"), "{line}: {problem}");
    }
    let problem = |url| images::open(&settings(url, SHORT), &environment).unwrap_err();
    assert!(problem("http://h/v1/images/generations").contains("end it in \"/v1\""));
    assert!(problem("127.0.0.1:9").contains("not an address"));
}
