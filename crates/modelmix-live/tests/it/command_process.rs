//! Processes of commands: their start, their end, what they start, and what their messages must not show.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use modelmix_live::arm::command::{self, CommandSettings};
use modelmix_live::arm::{Arm, Charge, FailureKind, Request};
use modelmix_live::units::{Size, Span};

use crate::command::{open, request, text, worker};

const MILLISECONDS: fn(u64) -> Span = |milliseconds| Span(Duration::from_millis(milliseconds));

#[test]
fn a_worker_that_crashes_is_started_again() {
    let (folder, mut settings) = worker(
        r#"
say(modelmix=1)
for request in requests():
    if request["prompt"] == "crash":
        print("loading\nRuntimeError: CUDA out of memory", file=sys.stderr, flush=True)
        os._exit(3)
    say(id=request["id"], samples=[{"text": str(os.getpid())}])
"#,
    );
    settings.price_per_sample = 0.5;
    let arm = open(&settings, folder.path());
    let crash = Request { prompt: Some("crash".into()), ..request(1) };
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(text(&arm.call(&request(0)).unwrap()).to_owned());
        let failure = arm.call(&crash).unwrap_err();
        assert_eq!((failure.kind, failure.is_temporary, failure.charge), (FailureKind::Broken, true, Charge::Doubt));
        let expected = "python3 worker.py exited with code 3; its stderr ends with \
                        \"loading / RuntimeError: CUDA out of memory\"";
        assert_eq!(failure.message, expected);
    }
    processes.dedup();
    assert_eq!(processes.len(), 4, "{processes:?}");
}

/// What a worker must not write: the call in flight fails with the reason.
#[test]
fn lines_that_are_no_replies_end_a_worker() {
    let cases = [
        (
            "print('Traceback: oh no', flush=True)",
            "wrote \"Traceback: oh no\", which is not a reply in JSON with an id",
        ),
        ("say(samples=[])", "missing field `id`"),
        ("say(id=77, samples=[])", "answered the request 77, which was not sent"),
        ("say(id=0, samples=[])", "answered the request 0, which was not sent"),
        ("sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "not a reply in JSON"),
        ("say(id=1, samples=[{'text': 'x' * 5000}])", "a line of more than 2048 bytes"),
        ("os.close(1)", "closed its stdout without exiting"),
        ("print('{\"id\": 1, \"samp', end='', flush=True); os._exit(0)", "exited with code 0"),
        ("os.kill(os.getpid(), 9)", "was killed (signal: 9"),
    ];
    for (line, part) in cases {
        let (folder, mut settings) =
            worker(&format!("say(modelmix=1)\nsys.stdin.readline()\n{line}\nsys.stdin.readline()"));
        settings.worker.max_line_size = Size(2048);
        let failure = open(&settings, folder.path()).call(&request(0)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Broken, "{line}: {failure:?}");
        assert!(failure.message.contains(part), "{line}: {failure:?}");
        assert_eq!(failure.charge, Charge::Known(0.0), "the arm has no price");
    }
    // A control: a last line without its end counts if it is whole.
    let (folder, settings) =
        worker("say(modelmix=1)\nsys.stdin.readline()\nprint('{\"id\": 1, \"samples\": [{\"text\": \"x\"}]}', end='')");
    assert_eq!(text(&open(&settings, folder.path()).call(&request(0)).unwrap()), "x");
}

#[test]
fn a_second_answer_fails_the_other_requests_in_flight() {
    let (folder, settings) = worker(
        r#"
say(modelmix=1, max_in_flight=2)
first, second = sys.stdin.readline(), sys.stdin.readline()
answer = dict(id=1, samples=[{"text": "x"}])
say(**answer)
say(**answer)
time.sleep(100)
"#,
    );
    let arm = open(&settings, folder.path());
    let outcomes: Vec<_> = thread::scope(|scope| {
        let calls: Vec<_> = (0..2)
            .map(|pull| {
                scope.spawn({
                    let arm = &arm;
                    move || arm.call(&request(pull))
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let failures: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(failures.len(), 1, "{outcomes:?}");
    assert_eq!(failures[0].kind, FailureKind::Broken);
    assert!(failures[0].message.contains("answered the request 1 twice"), "{failures:?}");
}

#[test]
fn a_command_that_never_answers_is_given_up() {
    let script = "open('starts', 'a').write('x')\nprint('no GPU', file=sys.stderr)\nsys.exit(2)";
    let (folder, settings) = worker(script);
    let arm = open(&settings, folder.path());
    let starts = || std::fs::read_to_string(folder.path().join("starts")).unwrap().len();
    for start in 1..=5 {
        let failure = arm.call(&request(0)).unwrap_err();
        assert_eq!((failure.kind, failure.charge), (FailureKind::NotSent, Charge::Known(0.0)));
        assert_eq!((failure.is_temporary, starts()), (start < 3, start.min(3)), "{failure:?}");
        assert!(failure.message.contains("exited with code 2") && failure.message.contains("no GPU"), "{failure:?}");
    }

    let gone = open(&CommandSettings::new(["modelmix-no-such-program"]), folder.path());
    let failure = gone.call(&request(0)).unwrap_err();
    assert_eq!((failure.kind, failure.is_temporary), (FailureKind::NotSent, false));
    assert!(failure.message.contains("there is no such program"), "{failure:?}");
    let text = open(&CommandSettings::new(["./worker.py"]), folder.path()).call(&request(0)).unwrap_err();
    assert!(!text.is_temporary && text.message.contains("chmod +x"), "{text:?}");
}

#[test]
fn hellos_are_checked() {
    for (hello, part) in [
        ("print('Loading the model', flush=True)", "wrote \"Loading the model\" first"),
        ("say(modelmix=2)", "speaks version 2"),
        ("say(modelmix=1, max_batch=0)", "max_batch"),
        ("say(ready=True)", "missing field `modelmix`"),
        ("time.sleep(100)", "ms; raise start_timeout"),
    ] {
        let (folder, mut settings) = worker(&format!("{hello}\nsys.stdin.read()"));
        if hello.contains("sleep") {
            settings.worker.start_timeout = MILLISECONDS(300);
        }
        let failure = open(&settings, folder.path()).call(&request(0)).unwrap_err();
        assert_eq!((failure.kind, failure.is_temporary), (FailureKind::NotSent, true), "{hello}");
        assert!(failure.message.contains(part), "{hello}: {failure:?}");
    }
    // A slow start is waited for.
    let (folder, settings) = worker(
        "time.sleep(0.5)\nsay(modelmix=1)\nfor request in requests(): say(id=request['id'], samples=[{'text': 'x'}])",
    );
    assert_eq!(text(&open(&settings, folder.path()).call(&request(0)).unwrap()), "x");
}

#[test]
fn another_model_after_a_restart_is_refused() {
    let script = r#"
say(modelmix=1, fingerprint=open("model").read())
for request in requests(): say(id=request["id"], samples=[{"text": "x"}]); break
"#;
    let (folder, settings) = worker(script);
    std::fs::write(folder.path().join("model"), "one").unwrap();
    let arm = open(&settings, folder.path());
    arm.call(&request(0)).unwrap();
    std::fs::write(folder.path().join("model"), "two").unwrap();
    // Its end may be noticed before or after the next request is sent.
    let expected = "the fingerprint \"two\", but the fingerprint \"one\" before";
    let failures: Vec<_> = (0..3).map(|_| arm.call(&request(1)).unwrap_err()).collect();
    assert!(failures.iter().any(|failure| failure.message.contains(expected)), "{failures:?}");
    assert!(failures[1..].iter().all(|failure| failure.kind == FailureKind::NotSent), "{failures:?}");
}

#[test]
fn a_reply_that_takes_too_long_ends_the_worker() {
    let (folder, mut settings) = worker(
        r#"
say(modelmix=1)
for request in requests():
    if request["prompt"]: time.sleep(100)
    say(id=request["id"], samples=[{"text": str(os.getpid())}])
"#,
    );
    settings.worker.reply_timeout = MILLISECONDS(2000);
    settings.price_per_sample = 1.0;
    let arm = open(&settings, folder.path());
    let process = text(&arm.call(&request(0)).unwrap()).to_owned();
    let failure = arm.call(&Request { prompt: Some("slow".into()), ..request(1) }).unwrap_err();
    assert_eq!((failure.kind, failure.is_temporary, failure.charge), (FailureKind::Timeout, true, Charge::Doubt));
    assert!(failure.message.contains("no reply within 2"), "{failure:?}");
    assert!(has_ended(&process));
    assert_ne!(text(&arm.call(&request(2)).unwrap()), process);
}

/// Two processes at the same time: each answers only after the other has its request.
#[test]
fn workers_run_at_the_same_time() {
    let (folder, mut settings) = worker(
        r#"
say(modelmix=1)
for request in requests():
    mine, other = (request["key"], {"key-0": "key-1", "key-1": "key-0"}[request["key"]])
    open(mine, "w").close()
    while not os.path.exists(other): time.sleep(0.01)
    say(id=request["id"], samples=[{"text": str(os.getpid())}])
"#,
    );
    settings.worker.workers = 2;
    settings.worker.reply_timeout = MILLISECONDS(20_000);
    let arm = open(&settings, folder.path());
    let processes: Vec<String> = thread::scope(|scope| {
        let calls: Vec<_> = (0..2)
            .map(|pull| {
                scope.spawn({
                    let arm = &arm;
                    move || arm.call(&request(pull))
                })
            })
            .collect();
        calls.into_iter().map(|call| text(&call.join().unwrap().unwrap()).to_owned()).collect()
    });
    assert_ne!(processes[0], processes[1]);
}

/// A worker with a child: it writes the identifiers of both.
const WITH_CHILD: &str = r#"
import subprocess
say(modelmix=1)
child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
for request in requests():
    if request["prompt"]: time.sleep(1000)
    say(id=request["id"], samples=[{"text": f"{os.getpid()} {child.pid}"}])
"#;

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_ends_the_group_of_a_worker() {
    let (folder, settings) = worker(WITH_CHILD);
    let arm = Arc::new(open(&settings, folder.path()));
    let processes = text(&arm.call(&request(0)).unwrap()).to_owned();
    assert!(processes.split(' ').all(|process| !has_ended(process)), "the control");
    let waiting = thread::spawn({
        let arm = Arc::clone(&arm);
        move || arm.call(&Request { prompt: Some("slow".into()), ..request(1) })
    });
    thread::sleep(Duration::from_millis(100));
    arm.interrupt();
    let failure = waiting.join().unwrap().unwrap_err();
    assert!(matches!(failure.kind, FailureKind::Broken | FailureKind::NotSent), "{failure:?}");
    assert!(failure.message.contains("interrupt"), "{failure:?}");
    assert!(processes.split(' ').all(has_ended_soon), "{processes}");
    assert_eq!(arm.call(&request(2)).unwrap_err().kind, FailureKind::NotSent);
}

#[cfg(target_os = "linux")]
#[test]
fn an_arm_that_is_dropped_ends_its_workers() {
    // One exits when stdin is closed, and says so.
    let (folder, settings) = worker(&format!("{WITH_CHILD}\nopen('bye', 'w').close()"));
    let arm = open(&settings, folder.path());
    let processes = text(&arm.call(&request(0)).unwrap()).to_owned();
    drop(arm);
    assert!(folder.path().join("bye").exists());
    assert!(processes.split(' ').all(has_ended_soon), "{processes}");
    // The other does not.
    let (folder, settings) = worker(&format!("{WITH_CHILD}\ntime.sleep(1000)"));
    let arm = open(&settings, folder.path());
    let processes = text(&arm.call(&request(0)).unwrap()).to_owned();
    drop(arm);
    assert!(processes.split(' ').all(has_ended_soon), "{processes}");
}

#[test]
fn secrets_are_in_no_message() {
    const CANARY: &str = "canary-5e1f-\"quoted\"-canary";
    let script = r#"
say(modelmix=1)
secret = os.environ["API_KEY"]
assert secret.startswith("canary-5e1f"), secret
for request in requests():
    print("the key is", secret, file=sys.stderr, flush=True)
    if request["prompt"] == "error": say(id=request["id"], error="wrong key " + secret)
    if request["prompt"] == "refused": say(id=request["id"], refused=True, error=secret)
    if request["prompt"] == "file": say(id=request["id"], samples=[{"file": secret}])
    if request["prompt"] == "type": say(id=request["id"], samples=secret)
    if request["prompt"] == "garbage": print("x" * 100 + secret, flush=True)
    if request["prompt"] == "exit": sys.exit(secret)
    if request["prompt"] == "text": say(id=request["id"], samples=[{"text": secret}])
"#;
    let (folder, mut settings) = worker(script);
    settings.worker.environment.insert("API_KEY".into(), "env:THE_KEY".into());
    let environment = |name: &str| (name == "THE_KEY").then(|| CANARY.to_owned());
    let arm = command::open(&settings, folder.path(), &environment).unwrap();
    // The control: the worker has the secret.
    let asked = |prompt: &str| Request { prompt: Some(prompt.into()), ..request(0) };
    assert_eq!(text(&arm.call(&asked("text")).unwrap()), CANARY);
    for prompt in ["error", "refused", "file", "type", "garbage", "exit"] {
        let failure = arm.call(&asked(prompt)).unwrap_err();
        assert!(!failure.message.contains("5e1f"), "{prompt}: {failure:?}");
        assert!(failure.message.contains("[redacted]"), "{prompt}: {failure:?}");
    }
    assert!(!format!("{arm:?}").contains("5e1f"));
}

/// A child that keeps stdout open does not hide the end of its worker.
#[test]
fn a_crash_with_children_is_noticed() {
    let (folder, settings) = worker(&WITH_CHILD.replace("time.sleep(1000)", "os._exit(9)"));
    let arm = open(&settings, folder.path());
    let processes = text(&arm.call(&request(0)).unwrap()).to_owned();
    let failure = arm.call(&Request { prompt: Some("crash".into()), ..request(1) }).unwrap_err();
    assert!(failure.kind == FailureKind::Broken && failure.message.contains("exited with code 9"), "{failure:?}");
    assert!(processes.split(' ').all(has_ended_soon), "{processes}");
}

#[test]
fn many_lines_on_stderr_and_large_requests_block_nothing() {
    let (folder, settings) = worker(
        r#"
say(modelmix=1)
print("x" * 1000000, file=sys.stderr, flush=True)
for request in requests():
    for _ in range(3000): print("a warning " * 10, file=sys.stderr)
    say(id=request["id"], samples=[{"text": request["prompt"]}])
"#,
    );
    let arm = open(&settings, folder.path());
    let prompt = "ü".repeat(1_000_000);
    let reply = arm.call(&Request { prompt: Some(prompt.clone()), ..request(0) }).unwrap();
    assert_eq!(text(&reply), prompt);
}

/// Whether a process has ended, or only its entry is left, which its parent has not removed.
fn has_ended(process: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// The kernel ends processes a moment after the signal.
fn has_ended_soon(process: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !has_ended(process) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    has_ended(process)
}
