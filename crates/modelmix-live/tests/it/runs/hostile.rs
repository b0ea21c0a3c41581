//! A run against a server that misbehaves in every way: it ends within its budget, and its books agree with the server's.
//!
//! `MODELMIX_HOSTILE_PULLS=10000` sets the number of pulls; by default there are few, for time.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use modelmix::compute::Engine;
use modelmix_live::config::{Config, Plan};
use modelmix_live::runner::{Controls, End, Unobserved, run};
use modelmix_live::status;
use modelmix_live::store::{Store, audit};
use serde_json::{Value, json};

use super::super::server::{Seen, Server, Step};
use super::settings;

/// What the server charges per request that it works on: 10 tokens at 100 and 20 at 200 per million.
const CHARGE: f64 = 0.005;
/// The money of a run, per pull: less than all pulls with all their attempts could cost.
const MONEY_PER_PULL: f64 = 0.009;

fn chat(text: &str) -> Value {
    json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
    })
}

fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// What the server does with its n-th request, and whether it charges it.
fn behaviour(number: u64, seen: &Seen) -> (Vec<Step>, bool) {
    let text = format!("{} {}", seen.json()["model"], seen.json()["seed"]);
    let good = chat(&text).to_string().into_bytes();
    let whole = |status: &str, body: &[u8]| vec![Step::Send(http(status, "", body))];
    match number % 16 {
        0 => (vec![Step::Reset], false),
        1 => (vec![Step::Reset], true),
        // A drip that ends by the time limit.
        2 => {
            let mut steps = vec![Step::Send(http("200 OK", "", &good)[..40].to_vec())];
            steps.extend((0..20).flat_map(|_| [Step::Pause(Duration::from_millis(20)), Step::Send(b" ".to_vec())]));
            (steps, true)
        }
        3 => (vec![Step::Send(http("429 Too Many Requests", "Retry-After: 0\r\n", b"{}"))], false),
        4 => (whole("500 Internal Server Error", b"oops"), false),
        // Truncated, by its own length and by the connection.
        5 => (whole("200 OK", &good[..good.len() / 2]), true),
        6 => (vec![Step::Send(http("200 OK", "", &good)[..good.len()].to_vec())], true),
        7 => (whole("200 OK", &[b'x'; 100_000]), true),
        // An answer to another question, more answers than asked, none, and a refusal.
        8 => (whole("200 OK", b"{\"object\": \"list\", \"data\": []}"), true),
        9 => {
            let mut several = chat(&text);
            several["choices"] = json!([several["choices"][0], several["choices"][0]]);
            (whole("200 OK", several.to_string().as_bytes()), true)
        }
        10 => (whole("200 OK", chat("").to_string().as_bytes()), true),
        11 => {
            let mut refusal = chat("");
            refusal["choices"][0]["finish_reason"] = "content_filter".into();
            (whole("200 OK", refusal.to_string().as_bytes()), true)
        }
        12 => (whole("400 Bad Request", b"{\"error\": {\"message\": \"no\"}}"), false),
        _ => (whole("200 OK", &good), true),
    }
}

fn embeddings(seen: &Seen) -> Vec<Step> {
    let texts = seen.json()["input"].as_array().cloned().unwrap_or_default();
    let rows = texts.iter().enumerate().map(|(index, text)| {
        let sum: u32 = text.as_str().unwrap_or_default().bytes().map(u32::from).sum();
        json!({"index": index, "embedding": [f64::from(sum % 7), f64::from(sum % 11), 1.0]})
    });
    let body = json!({"data": rows.collect::<Vec<_>>(), "model": "e", "object": "list"});
    vec![Step::Send(http("200 OK", "", body.to_string().as_bytes()))]
}

fn plan(server: &str, pulls: u64) -> Plan {
    let arm = |name: &str, more: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nkind = \"openai-chat\"\nbase_url = \"{server}/v1\"\nmodel = \"{name}\"\n\
             user = \"a story\"\nmax_tokens = 20\nset_aside_after = 0\nretries = 3\nmax_reply_bytes = \"64kB\"\n\
             price_per_million_input_tokens = 100\nprice_per_million_output_tokens = 200\n\
             timeouts = {{ connect = \"1s\", first_byte = \"150ms\", total = \"200ms\" }}\n{more}\n"
        )
    };
    let text = format!(
        "objective = \"rke\"\nbandwidth = 1.0\nmax_in_flight = 16\n[budget]\npulls = {pulls}\nmoney = {}\n\
         [encoder.embeddings]\nbase_url = \"{server}/v1\"\nmodel = \"e\"\n{}{}",
        MONEY_PER_PULL * pulls as f64,
        arm("once", ""),
        arm("again", "delivery = \"pure\"")
    );
    let config = Config::parse(&text, "test.toml").expect("a valid configuration");
    Plan::new(config, Path::new("."), &Engine::default(), &|_| None).expect("a valid plan")
}

#[test]
fn a_server_that_misbehaves_is_survived_and_the_books_agree() {
    let pulls: u64 = std::env::var("MODELMIX_HOSTILE_PULLS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let (number, charged) = (AtomicU64::new(0), Arc::new(Mutex::new(0.0)));
    let bill = Arc::clone(&charged);
    let server = Server::start(move |_, seen| {
        if seen.target == "/v1/embeddings" {
            return embeddings(seen);
        }
        let (steps, is_charged) = behaviour(number.fetch_add(1, Ordering::Relaxed), seen);
        if is_charged {
            *bill.lock().expect("no panics") += CHARGE;
        }
        steps
    });
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(&server.url(""), pulls);
    let store = Store::create(folder.path(), &plan.description()).expect("a new run");
    let mut settings = settings();
    settings.breaker_pause = Duration::from_millis(5);
    let end = run(&plan, store, &settings, &Controls::default(), &mut Unobserved).expect("the run ends");
    assert!(matches!(end, End::Budget(_)), "{end:?}");
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    let (confirmed, doubt, billed) = (status.cost.confirmed, status.cost.in_doubt, *charged.lock().expect("no panics"));
    assert!(confirmed <= billed + 1e-9 && billed <= confirmed + doubt + 1e-9, "{confirmed} {billed} {doubt}");
    assert!(confirmed + doubt <= MONEY_PER_PULL * pulls as f64 + 1e-9, "the budget is exceeded");
    assert!(status.samples > 0 && status.in_flight == 0 && status.cost.reserved == 0.0);
    assert!(audit::audit(folder.path()).is_sound());
    // Every kind of failure that the script has was seen.
    let kinds: std::collections::BTreeSet<_> = status.arms.iter().flat_map(|arm| arm.counts.failures.keys()).collect();
    assert!(kinds.len() >= 5, "{kinds:?}");
    let requests: u64 = status.arms.iter().map(|arm| arm.counts.requests).sum();
    eprintln!(
        "{requests} requests, {} samples, {confirmed} confirmed, {billed} billed, {doubt} in doubt",
        status.samples
    );
}
