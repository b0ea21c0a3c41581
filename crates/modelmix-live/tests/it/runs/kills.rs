//! Runs that are killed: at every crash point, and at random moments. A server on loopback counts what it charges, and what the
//! resumed run says about its costs must agree.
//!
//! The run is a child process: this test program itself, which executes [`child`]. `MODELMIX_KILLS=500` sets the number of random
//! kills; by default there are few, for time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use modelmix::Event;
use modelmix::compute::Engine;
use modelmix::internals::random::Random;
use modelmix_live::config::{Config, Plan};
use modelmix_live::runner::{Controls, RunSettings, Unobserved, run};
use modelmix_live::status;
use modelmix_live::store::history::PullState;
use modelmix_live::store::{Reader, Store};
use serde_json::json;

use super::super::server::{Seen, Server, Step};

const FOLDER: &str = "MODELMIX_LIVE_TEST_FOLDER";
const SERVER: &str = "MODELMIX_LIVE_TEST_SERVER";
const PULLS: &str = "MODELMIX_LIVE_TEST_PULLS";
const CRASH_AT: &str = "MODELMIX_LIVE_CRASH_AT";

/// What the server charges per answered request: 10 tokens at 100 and 20 at 200 per million.
const CHARGE: f64 = 0.005;

/// Executes the run of [`FOLDER`] in a process of its own; does nothing as a test.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let variable = |name: &str| std::env::var(name).expect("the parent sets it");
    let plan = plan(&variable(SERVER), variable(PULLS).parse().expect("a number"));
    let store = match folder.join("run.db").exists() {
        true => Store::open(folder),
        false => Store::create(folder, &plan.description()),
    };
    let store = store.expect("the folder of a run");
    run(&plan, store, &RunSettings::default(), &Controls::default(), &mut Unobserved).expect("the run ends");
}

/// Two arms that are paid, one of them with idempotency keys, and a free one; texts become features by the server, too.
fn plan(server: &str, pulls: u64) -> Plan {
    let arm = |name: &str, more: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nkind = \"openai-chat\"\nbase_url = \"{server}/v1\"\nmodel = \"{name}\"\n\
             user = \"a story\"\nmax_tokens = 20\nset_aside_after = 0\n{more}\n"
        )
    };
    let price = "price_per_million_input_tokens = 100\nprice_per_million_output_tokens = 200";
    let text = format!(
        "objective = \"rke\"\nbandwidth = 1.0\nmax_in_flight = 3\nbudget = {{ pulls = {pulls} }}\n\
         [encoder.embeddings]\nbase_url = \"{server}/v1\"\nmodel = \"e\"\n{}{}{}",
        arm("once", price),
        arm("keyed", &format!("{price}\nidempotency = true\ndelivery = \"idempotent\"")),
        arm("free", "")
    );
    let config = Config::parse(&text, "test.toml").expect("a valid configuration");
    Plan::new(config, Path::new("."), &Engine::default(), &|_| None).expect("a valid plan")
}

/// What the server has charged, and for which requests.
#[derive(Default)]
struct Charged {
    /// Seeds of requests of the arm that is never asked twice.
    once: Vec<u64>,
    keys: BTreeSet<String>,
}

impl Charged {
    fn total(&self) -> f64 {
        CHARGE * (self.once.len() + self.keys.len()) as f64
    }
}

fn server(charged: Arc<Mutex<Charged>>) -> Server {
    Server::start(move |number, seen| {
        let answer = match seen.target.as_str() {
            "/v1/embeddings" => {
                let texts = seen.json()["input"].as_array().cloned().unwrap_or_default();
                let rows = texts.iter().enumerate().map(|(index, text)| {
                    let sum: u32 = text.as_str().unwrap_or_default().bytes().map(u32::from).sum();
                    json!({"index": index, "embedding": [f64::from(sum % 7), f64::from(sum % 11), 1.0]})
                });
                json!({"data": rows.collect::<Vec<_>>(), "model": "e", "object": "list"})
            }
            _ => chat(&charged, seen),
        };
        // Answers take up to 3 ms, so that kills come between the request and the answer.
        vec![Step::Pause(Duration::from_millis(number as u64 * 7 % 4)), Step::Send(http(&answer.to_string()))]
    })
}

fn chat(charged: &Mutex<Charged>, seen: &Seen) -> serde_json::Value {
    let body = seen.json();
    let (model, seed) = (body["model"].as_str().unwrap_or_default(), body["seed"].as_u64().unwrap_or_default());
    let mut charged = charged.lock().expect("no panics");
    match model {
        "once" => charged.once.push(seed),
        "keyed" => {
            let key = seen.header("idempotency-key").expect("the arm sends keys");
            charged.keys.insert(key.to_owned());
        }
        _ => {}
    }
    json!({
        "id": "x", "object": "chat.completion", "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": format!("{model} {seed}")}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
    })
}

fn http(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn start(folder: &Path, server: &Server, pulls: u64, crash_at: Option<u64>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "runs::kills::child", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder).env(SERVER, server.url("")).env(PULLS, pulls.to_string());
    if let Some(at) = crash_at {
        command.env(CRASH_AT, at.to_string());
    }
    command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("a child process")
}

/// What is committed: the events, and the outcome of every pull that has ended.
fn committed(folder: &Path) -> (Vec<Event>, BTreeMap<u64, PullState>) {
    let history = match Reader::open(folder).and_then(|reader| reader.history()) {
        Ok(history) => history,
        Err(problem) => {
            eprintln!("{problem}");
            return Default::default();
        }
    };
    let ended = history.pulls.iter().filter(|pull| matches!(pull.state, PullState::Told | PullState::Abandoned));
    let ended = ended.map(|pull| (pull.pull, pull.state)).collect();
    (history.events, ended)
}

/// Checks that nothing committed was lost since `before`.
fn check_kept(folder: &Path, before: &(Vec<Event>, BTreeMap<u64, PullState>)) {
    let (events, ended) = committed(folder);
    assert!(events.starts_with(&before.0), "{} committed events became {}", before.0.len(), events.len());
    assert!(before.1.iter().all(|(pull, state)| ended.get(pull) == Some(state)));
}

/// Checks a run that has ended against the server's books.
fn check_books(folder: &Path, charged: &Mutex<Charged>, pulls: u64) {
    let status = status::read(folder, &Engine::default()).expect("a status");
    let charged = charged.lock().expect("no panics");
    let (confirmed, doubt, billed) = (status.cost.confirmed, status.cost.in_doubt, charged.total());
    assert!(
        confirmed <= billed + 1e-9 && billed <= confirmed + doubt + 1e-9,
        "confirmed {confirmed}, billed {billed}, in doubt {doubt}"
    );
    let distinct: BTreeSet<u64> = charged.once.iter().copied().collect();
    assert_eq!(distinct.len(), charged.once.len(), "a request in doubt was sent again");
    // Requests in doubt are few: those in flight when the process was killed.
    assert_eq!(status.pulls, pulls);
    let history = Reader::open(folder).and_then(|reader| reader.history()).expect("a history");
    let told: BTreeSet<u64> = history
        .events
        .iter()
        .filter_map(|event| if let Event::Told(told) = event { Some(told.pull) } else { None })
        .collect();
    assert_eq!(told.len(), status.samples, "a sample was counted twice");
    let lost = history.pulls.iter().filter(|pull| pull.state == PullState::Abandoned).count();
    assert_eq!(told.len() + lost, history.pulls.len());
    // Every sample that was told has its file, with its content.
    let payloads = Reader::open(folder).expect("a run").payloads();
    for sample in history.pulls.iter().flat_map(|pull| &pull.samples) {
        payloads.read(sample.payload.as_ref().expect("texts have files")).expect("an intact file");
    }
}

#[test]
fn a_crash_at_every_point_loses_and_repeats_nothing() {
    const RUN_PULLS: u64 = 4;
    let mut points = 0;
    for crash_at in 1.. {
        let charged = Arc::new(Mutex::new(Charged::default()));
        let server = server(Arc::clone(&charged));
        let folder = tempfile::tempdir().expect("a folder");
        let crashed = start(folder.path(), &server, RUN_PULLS, Some(crash_at)).wait().expect("the child ends");
        let before = committed(folder.path());
        if !crashed.success() {
            let resumed = start(folder.path(), &server, RUN_PULLS, None).wait().expect("the child ends");
            assert!(resumed.success(), "the run does not go on after crash point {crash_at}");
        }
        check_kept(folder.path(), &before);
        check_books(folder.path(), &charged, RUN_PULLS);
        if crashed.success() {
            points = crash_at - 1;
            break;
        }
    }
    // Per pull at least: two commits around each of asking, receiving and telling, a request, an answer and a file.
    assert!(points >= 8 * RUN_PULLS, "only {points} crash points were passed");
}

#[test]
fn kills_at_random_moments_lose_and_repeat_nothing() {
    let kills: u64 = std::env::var("MODELMIX_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let pulls = 4 * kills;
    let charged = Arc::new(Mutex::new(Charged::default()));
    let server = server(Arc::clone(&charged));
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::seeded(7);
    let (mut done, mut ended) = (0, 0);
    while done < kills {
        let before = committed(folder.path());
        // A run that has ended gets more pulls.
        let mut child = start(folder.path(), &server, pulls + 20 * ended, None);
        std::thread::sleep(Duration::from_micros(random.below(80_000) as u64));
        if child.try_wait().expect("a child").is_some() {
            ended += 1;
            continue;
        }
        child.kill().expect("a child can be killed");
        child.wait().expect("a killed child ends");
        done += 1;
        check_kept(folder.path(), &before);
    }
    let last = pulls + 20 * ended;
    let before = committed(folder.path());
    assert!(start(folder.path(), &server, last, None).wait().expect("the child ends").success());
    check_kept(folder.path(), &before);
    check_books(folder.path(), &charged, last);
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    let crashes: u64 = status.arms.iter().map(|arm| arm.counts.requests).sum();
    eprintln!("{kills} kills, {crashes} requests, {} in doubt", status.doubts.len());
}
