//! Whole runs: budgets, order, failures, interruption and resumption, with arms in this process.

mod arms;
mod hostile;
mod kills;

use std::path::Path;
use std::time::Duration;

use modelmix::compute::Engine;
use modelmix_live::arm::{Failure, FailureKind};
use modelmix_live::config::{Config, Plan};
use modelmix_live::manners::{Backoff, Delivery, Limit};
use modelmix_live::runner::{Controls, End, Note, Observer, RunSettings, Unobserved, View, run};
use modelmix_live::status::{self, State};
use modelmix_live::store::history::PullState;
use modelmix_live::store::{Reader, Store};

use arms::{Clusters, Scripted};

/// Three arms of features with the objective RKE; arms are replaced by those of the tests.
pub(super) const CONFIG: &str = r#"
objective = "rke"
bandwidth = 1.0
max_in_flight = 8
budget = { pulls = 60 }
[[arm]]
name = "left"
kind = "command"
command = ["none"]
[[arm]]
name = "middle"
kind = "command"
command = ["none"]
[[arm]]
name = "right"
kind = "command"
command = ["none"]
"#;

pub(super) fn plan(text: &str) -> Plan {
    let config = Config::parse(text, "test.toml").expect("a valid configuration");
    let mut plan = Plan::new(config, Path::new("."), &Engine::default(), &|_| None).expect("a valid plan");
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.arm = Box::new(Clusters::new(at));
    }
    plan
}

pub(super) fn settings() -> RunSettings {
    let mut settings = RunSettings::default();
    settings.backoff = Backoff { base: Duration::from_millis(1), longest: Duration::from_millis(4) };
    settings.breaker_pause = Duration::from_millis(20);
    settings
}

fn start(plan: &Plan, folder: &Path) -> End {
    let store = Store::create(folder, &plan.description()).expect("a new run");
    run(plan, store, &settings(), &Controls::default(), &mut Unobserved).expect("the run ends")
}

fn go_on(plan: &Plan, folder: &Path) -> End {
    let store = Store::open(folder).expect("a stored run");
    run(plan, store, &settings(), &Controls::default(), &mut Unobserved).expect("the run ends")
}

#[test]
fn a_run_spends_its_pulls_and_finds_the_mixture() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(CONFIG);
    assert_eq!(start(&plan, folder.path()), End::Budget(Limit::Pulls));
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    assert_eq!((status.state, status.pulls, status.samples, status.in_flight), (State::Ended, 60, 60, 0));
    let mixture = status.mixture.expect("every arm has samples");
    // Three equal clusters far from each other: the optimum is a third each, up to the samples' noise.
    assert!(mixture.weights().iter().all(|weight| (weight - 1.0 / 3.0).abs() < 0.1), "{:?}", mixture.weights());
    assert!(status.arms.iter().all(|arm| arm.interval.is_some() && arm.counts.failures.is_empty()));
    assert_eq!(status.report.samples, 60);
}

/// What a stored run did: arm, seed, features of every pull.
fn done(folder: &Path) -> Vec<(usize, u64, String)> {
    let history = Reader::open(folder).and_then(|reader| reader.history()).expect("a history");
    let pulls: Vec<(usize, u64)> = history.pulls.iter().map(|pull| (pull.arm, pull.seed)).collect();
    let told = history.events.iter().filter(|event| matches!(event, modelmix::Event::Told(_)));
    pulls.into_iter().zip(told).map(|((arm, seed), event)| (arm, seed, format!("{event:?}"))).collect()
}

#[test]
fn ordered_runs_do_not_depend_on_timing() {
    let text = format!("ordered = true\n{CONFIG}");
    let runs: Vec<_> = [0, 3]
        .into_iter()
        .map(|delay| {
            let folder = tempfile::tempdir().expect("a folder");
            let mut plan = plan(&text);
            for (at, arm) in plan.arms.iter_mut().enumerate() {
                // Arms differ in speed, and answers overtake each other.
                arm.arm = Box::new(Clusters::new(at).slow(Duration::from_millis(delay * (3 - at as u64))));
            }
            start(&plan, folder.path());
            done(folder.path())
        })
        .collect();
    assert_eq!(runs[0].len(), 60);
    assert!(runs[0] == runs[1]);
    // Without the order, the session learns in another order.
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.arm = Box::new(Clusters::new(at).slow(Duration::from_millis(3 * (3 - at as u64))));
    }
    start(&plan, folder.path());
    assert!(done(folder.path()) != runs[0], "the control does not fail");
}

#[test]
fn money_is_never_exceeded() {
    for (delivery, seed) in [(Delivery::AtMostOnce, 1), (Delivery::Pure, 2), (Delivery::Idempotent, 3)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut plan = plan(CONFIG);
        plan.budget = modelmix_live::manners::Budget { money: Some(2.0), pulls: None, time: None };
        let bills: Vec<_> = plan
            .arms
            .iter_mut()
            .enumerate()
            .map(|(at, arm)| {
                let model = Scripted::failing(at, seed);
                let bill = model.bill();
                (arm.arm, arm.delivery) = (Box::new(model), delivery);
                bill
            })
            .collect();
        assert_eq!(start(&plan, folder.path()), End::Budget(Limit::Money));
        let status = status::read(folder.path(), &Engine::default()).expect("a status");
        let billed: f64 = bills.iter().map(|bill| bill.total()).sum();
        let (confirmed, doubt) = (status.cost.confirmed, status.cost.in_doubt);
        assert!(confirmed <= billed + 1e-9 && billed <= confirmed + doubt + 1e-9, "{confirmed} {billed} {doubt}");
        assert!(confirmed + doubt <= 2.0 + 1e-9, "{delivery:?}: {confirmed} + {doubt}");
        assert!(confirmed + doubt > 1.5, "{delivery:?}: little was spent");
        assert_eq!(status.cost.reserved, 0.0);
    }
}

#[test]
fn in_doubt_means_never_sent_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        let broken = Failure::permanent(FailureKind::Broken, "reset").temporary().in_doubt();
        arm.arm = Box::new(Scripted::always(at, move |request| match request.pull % 5 {
            0 => Some(broken.clone()),
            _ => None,
        }));
        arm.delivery = Delivery::AtMostOnce;
        arm.settings.set_aside_after = 0;
    }
    start(&plan, folder.path());
    let history = Reader::open(folder.path()).and_then(|reader| reader.history()).expect("a history");
    assert!(history.pulls.iter().all(|pull| pull.attempts.len() <= 1));
    let lost = history.pulls.iter().filter(|pull| pull.state == PullState::Abandoned && !pull.attempts.is_empty());
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    assert_eq!(lost.count(), status.doubts.len());
    assert!(!status.doubts.is_empty());
    // Of 60 pulls, a fifth are missing, which a bounded kernel bounds.
    let bias = status.bias.expect("samples are missing");
    assert!(bias.share > 0.0 && bias.loss.is_some_and(|loss| loss > 0.0 && loss < 1.0), "{bias:?}");
}

#[test]
fn temporary_failures_are_retried_and_permanent_ones_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.settings.set_aside_after = 0;
        arm.arm = Box::new(Scripted::always(at, |request| match (request.pull % 4, request.attempt) {
            (0, 1 | 2) => {
                Some(Failure { status: Some(503), ..Failure::permanent(FailureKind::Error, "busy").temporary() })
            }
            (1, _) => Some(Failure { status: Some(400), ..Failure::permanent(FailureKind::Error, "bad request") }),
            _ => None,
        }));
    }
    start(&plan, folder.path());
    let history = Reader::open(folder.path()).and_then(|reader| reader.history()).expect("a history");
    for pull in history.pulls.iter().filter(|pull| !pull.attempts.is_empty()) {
        let expected = match pull.pull % 4 {
            0 => (3, PullState::Told),
            1 => (1, PullState::Abandoned),
            _ => (1, PullState::Told),
        };
        assert_eq!((pull.attempts.len(), pull.state), expected, "pull {}", pull.pull);
    }
}

/// Remembers which arms were set aside.
#[derive(Default)]
struct Notes(Vec<Note>);

impl Observer for Notes {
    fn progress(&mut self, _view: &View<'_>) {}
    fn note(&mut self, note: Note) {
        self.0.push(note);
    }
}

#[test]
fn an_arm_that_fails_for_good_is_set_aside_and_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    plan.arms[1].arm = Box::new(Scripted::always(1, |_| {
        Some(Failure { status: Some(401), ..Failure::permanent(FailureKind::Error, "no such key") })
    }));
    let store = Store::create(folder.path(), &plan.description()).expect("a new run");
    let mut notes = Notes::default();
    let end = run(&plan, store, &settings(), &Controls::default(), &mut notes).expect("the run ends");
    assert_eq!(end, End::Budget(Limit::Pulls));
    assert!(
        notes
            .0
            .iter()
            .any(|note| matches!(note, Note::SetAside { arm: 1, message } if message.contains("no such key")))
    );
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    // Pulls in flight at that moment fail, too.
    assert!((5..=5 + 8).contains(&status.arms[1].counts.requests), "{}", status.arms[1].counts.requests);
    assert!(status.arms[1].counts.set_aside.is_some());
    assert!(status.arms[0].samples + status.arms[2].samples >= 60 - 13);
    assert!(status.remarks().iter().any(|line| line.contains("middle is set aside")));
    // It stays aside.
    let mut again = plan_with_pulls(70);
    again.arms[1].arm = Box::new(Scripted::always(1, |_| panic!("a request to an arm that is set aside")));
    go_on(&again, folder.path());
    let later = status::read(folder.path(), &Engine::default()).expect("a status");
    assert_eq!((later.pulls, later.arms[1].counts.requests), (70, status.arms[1].counts.requests));
}

fn plan_with_pulls(pulls: u64) -> Plan {
    plan(&CONFIG.replace("pulls = 60", &format!("pulls = {pulls}")))
}

#[test]
fn a_run_without_arms_left_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.arm = Box::new(Scripted::always(at, |_| Some(Failure::permanent(FailureKind::NotSent, "no such host"))));
    }
    assert_eq!(start(&plan, folder.path()), End::NoArms);
    // Refusals are answers: an arm that only refuses is not set aside.
    let folder = tempfile::tempdir().expect("a folder");
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.arm = Box::new(Scripted::always(at, |_| Some(Failure::permanent(FailureKind::Refusal, "I cannot"))));
    }
    assert_eq!(start(&plan, folder.path()), End::Budget(Limit::Pulls));
}

#[test]
fn a_server_that_is_down_is_left_alone_until_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    let started = std::time::Instant::now();
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.settings.set_aside_after = 0;
        // All are down at the same time, so the run has to wait.
        arm.arm = Box::new(Scripted::always(at, move |_| {
            (started.elapsed() < Duration::from_millis(60))
                .then(|| Failure::permanent(FailureKind::NotSent, "connection refused").temporary())
        }));
    }
    assert_eq!(start(&plan, folder.path()), End::Budget(Limit::Pulls));
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    assert!(status.samples > 40, "{}", status.samples);
    // Without the circuit, eight pulls at a time would fail every millisecond.
    let failed: u64 = status.arms.iter().flat_map(|arm| arm.counts.failures.values()).sum();
    assert!(failed < 150, "{failed} requests to servers that are down");
}

/// Interrupts the run after some samples.
struct Interrupts<'a>(&'a Controls, usize);

impl Observer for Interrupts<'_> {
    fn progress(&mut self, view: &View<'_>) {
        if view.session.report().is_ok_and(|report| report.samples >= self.1) {
            self.0.interrupt();
        }
    }
    fn note(&mut self, _note: Note) {}
}

#[test]
fn an_interrupted_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan_with_pulls(400);
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.arm = Box::new(Clusters::new(at).slow(Duration::from_millis(4)));
    }
    let (controls, store) =
        (Controls::default(), Store::create(folder.path(), &plan.description()).expect("a new run"));
    let end = run(&plan, store, &settings(), &controls, &mut Interrupts(&controls, 10)).expect("the run ends");
    assert_eq!(end, End::Interrupted);
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    assert_eq!(status.state, State::Interrupted);
    assert!((10..400).contains(&status.samples));
    // What was sent was awaited.
    assert!(status.doubts.is_empty());
    assert_eq!(go_on(&plan, folder.path()), End::Budget(Limit::Pulls));
    let after = status::read(folder.path(), &Engine::default()).expect("a status");
    assert_eq!((after.state, after.pulls, after.samples), (State::Ended, 400, 400));
    // A larger budget goes on from there.
    assert_eq!(go_on(&plan_with_pulls(410), folder.path()), End::Budget(Limit::Pulls));
    assert_eq!(status::read(folder.path(), &Engine::default()).expect("a status").samples, 410);
}

#[test]
fn a_changed_run_is_refused_by_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    start(&plan(CONFIG), folder.path());
    for (from, to, key) in [
        ("bandwidth = 1.0", "bandwidth = 2.0", "bandwidth"),
        (
            "name = \"left\"\nkind = \"command\"\ncommand = [\"none\"]",
            "name = \"left\"\nkind = \"command\"\ncommand = [\"other\"]",
            "arm.left.command",
        ),
        ("objective = \"rke\"", "objective = \"rke\"\nseed = 3", "seed"),
    ] {
        let other = plan(&CONFIG.replacen(from, to, 1));
        let store = Store::open(folder.path()).expect("a stored run");
        let error = run(&other, store, &settings(), &Controls::default(), &mut Unobserved).expect_err("another run");
        assert!(error.to_string().starts_with(key), "{error}");
    }
    let other = plan(&format!("max_in_flight = 2\n{}", CONFIG.replace("max_in_flight = 8\n", "").replace("60", "61")));
    assert_eq!(go_on(&other, folder.path()), End::Budget(Limit::Pulls));
}

#[test]
fn prompts_come_in_the_same_order_for_every_arm() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = CONFIG.replace("budget =", "prompts = [\"a\", \"b\", \"c\", \"d\", \"e\"]\nbudget =");
    start(&plan(&text), folder.path());
    let history = Reader::open(folder.path()).and_then(|reader| reader.history()).expect("a history");
    let order = |arm: usize| -> Vec<u64> {
        history.pulls.iter().filter(|pull| pull.arm == arm).filter_map(|pull| pull.prompt).collect()
    };
    let longest = (0..3).map(order).max_by_key(Vec::len).expect("three arms");
    for arm in 0..3 {
        assert!(longest.starts_with(&order(arm)));
    }
    let mut epoch = longest[..5].to_vec();
    epoch.sort_unstable();
    assert_eq!(epoch, [0, 1, 2, 3, 4]);
}

#[test]
fn samples_that_cannot_be_used_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan(CONFIG);
    plan.arms[2].arm = Box::new(Clusters::new(2).of_width(7));
    plan.arms[2].settings.set_aside_after = 3;
    start(&plan, folder.path());
    let status = status::read(folder.path(), &Engine::default()).expect("a status");
    // Whichever width comes first is the width of the run.
    let rejected: u64 = status.arms.iter().map(|arm| arm.counts.rejected).sum();
    assert!(rejected > 0 && status.arms.iter().any(|arm| arm.counts.set_aside.is_some()));
    assert!(status.samples as u64 + rejected <= 60);
}
