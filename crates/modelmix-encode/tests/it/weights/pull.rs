//! Downloads: resumed, checked, retried, redirected, and what is said if they fail.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use modelmix_encode::encoders::{NamedEncoder, Role, Source, WeightsFile};
use modelmix_encode::weights::{Environment, Location, Origin, Progress, PullOptions, Pulled, digest, locate, pull};
use tempfile::TempDir;

use super::server::{Reply, Request, Server};
use super::{MODEL, ONE_FILE, encoder, environment};

/// A file whose bytes are all different from their neighbours'.
fn content() -> Vec<u8> {
    (0..300_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// What `sha256sum` prints for [`content`].
const CONTENT_SHA256: &str = "10e5ea249ba15cf9da0925b29f6caca069e088f63eec3521e5560c1a0394058a";

fn options() -> PullOptions {
    let mut options = PullOptions::default();
    (options.backoff, options.timeout) = (Duration::from_millis(5), Duration::from_secs(10));
    options
}

/// A cache, and an environment with this server as the hub.
struct Setting {
    folder: TempDir,
    environment: Environment,
}

impl Setting {
    fn new(server: &Server) -> Self {
        Self::with(server, &[])
    }

    fn with(server: &Server, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut variables = vec![("MODELMIX_CACHE", folder.path()), ("HF_ENDPOINT", Path::new(server.address()))];
        variables.extend(more.iter().map(|(name, value)| (*name, Path::new(value))));
        let environment = environment(&variables);
        Self { environment, folder }
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("hub/owner/name/onnx/model.onnx")
    }

    /// The names of the files next to the model.
    fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.model().parent().unwrap()).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn pull(&self, encoder: &NamedEncoder) -> Result<Vec<Pulled>, String> {
        self.pull_with(encoder, &options())
    }

    fn pull_with(&self, encoder: &NamedEncoder, options: &PullOptions) -> Result<Vec<Pulled>, String> {
        pull(encoder, &self.environment, options, &|_| true).map_err(|problem| problem.to_string())
    }
}

const DONE: [&str; 3] = ["model.onnx", "model.onnx.lock", "model.onnx.sha256"];

#[test]
fn the_content_has_the_stated_digest() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), content()).unwrap();
    assert_eq!(digest::sha256(&folder.path().join("a")).unwrap(), CONTENT_SHA256);
    // From FIPS 180-4.
    std::fs::write(folder.path().join("a"), "abc").unwrap();
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest::sha256(&folder.path().join("a")).unwrap(), abc);
}

/// Some exporters write a data file per large tensor; all are downloaded, from the commit of the model.
#[test]
fn data_files_that_a_model_names_are_downloaded() {
    let fixture = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models");
        std::fs::read(folder.join(name)).unwrap()
    };
    let (model, data) = (fixture("external.onnx"), fixture("external.onnx_data"));
    let commit = "0123456789012345678901234567890123456789";
    let (served, expected) = (data.clone(), format!("/owner/name/resolve/{commit}/onnx/external.onnx_data"));
    let server = Server::start(move |_, request| match request.path.as_str() {
        path if path.ends_with("/model.onnx") => Reply::file(request, &model, "tag").with("X-Repo-Commit", commit),
        path if path == expected => Reply::file(request, &served, "other"),
        _ => Reply::status(404),
    });
    let setting = Setting::new(&server);
    let pulled = setting.pull(&encoder(ONE_FILE)).unwrap();
    assert_eq!(pulled.len(), 2);
    assert_eq!(std::fs::read(setting.model().with_file_name("external.onnx_data")).unwrap(), data);
}

#[test]
fn files_of_one_commit_are_put_into_the_cache() {
    const TOKENIZER: WeightsFile = WeightsFile { path: "tokenizer.json", role: Role::Settings, sha256: None };
    const ABSENT: WeightsFile = WeightsFile { path: "modules.json", role: Role::Settings, sha256: None };
    const SOURCES: &[Source] =
        &[Source::Hub { repository: "owner/name", revision: "main", files: &[MODEL, ABSENT, TOKENIZER] }];
    let commit = "0123456789012345678901234567890123456789";
    let server = Server::start(move |_, request| match request.path.rsplit('/').next().unwrap() {
        "model.onnx" => {
            let reply = Reply::file(request, &content(), "tag").with("X-Repo-Commit", commit);
            reply.with("X-Linked-ETag", &format!("\"{CONTENT_SHA256}\""))
        }
        "tokenizer.json" => Reply::file(request, b"{}", "other"),
        _ => Reply::status(404),
    });
    let setting = Setting::new(&server);
    let encoder = encoder(SOURCES);
    let pulled = setting.pull(&encoder).unwrap();
    let root = setting.folder.path().join("hub/owner/name");
    assert_eq!(
        pulled[0],
        Pulled { path: root.join("onnx/model.onnx"), sha256: CONTENT_SHA256.into(), confirmed: true, fresh: true }
    );
    assert_eq!((pulled.len(), &pulled[1].path, pulled[1].confirmed), (2, &root.join("tokenizer.json"), false));
    assert_eq!(std::fs::read(setting.model()).unwrap(), content());
    assert_eq!(setting.files(), DONE);
    let record = std::fs::read_to_string(root.join("onnx/model.onnx.sha256")).unwrap();
    assert_eq!(record, format!("{CONTENT_SHA256}  model.onnx\n"));
    let paths = ["main/onnx/model.onnx", &format!("{commit}/modules.json"), &format!("{commit}/tokenizer.json")];
    assert_eq!(server.paths(), paths.map(|path| format!("/owner/name/resolve/{path}")));
    for request in server.requests() {
        assert_eq!(request.header("range"), None);
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert!(request.header("user-agent").unwrap().starts_with("modelmix/"));
    }
    match locate(&encoder, None, &setting.environment) {
        Location::Found(found) => assert_eq!((found.model, found.origin), (setting.model(), Origin::Cache)),
        Location::Missing(missing) => panic!("{missing:?}"),
    }

    // What is there and intact is not requested again, but what was damaged is.
    let again = setting.pull(&encoder).unwrap();
    assert!(again.iter().all(|file| !file.fresh));
    assert_eq!(server.paths().len(), 4, "only the absent file is looked for again");
    std::fs::write(setting.model(), "damaged").unwrap();
    assert!(setting.pull(&encoder).unwrap()[0].fresh);
    assert_eq!(std::fs::read(setting.model()).unwrap(), content());
}

/// The starts of the ranges that were asked for.
fn ranges(server: &Server) -> Vec<Option<String>> {
    server.requests().iter().map(|request| request.header("range").map(str::to_string)).collect()
}

#[test]
fn interrupted_downloads_are_resumed() {
    let cuts = [70_000, 1, 100_000];
    let server = Server::start(move |earlier, request| {
        let reply = Reply::file(request, &content(), "tag").with("X-Linked-ETag", &format!("\"{CONTENT_SHA256}\""));
        cuts.get(earlier).map_or(reply.clone(), |&cut| reply.cut_after(cut))
    });
    let setting = Setting::new(&server);
    let seen = AtomicUsize::new(0);
    let progress = |progress: &Progress<'_>| {
        assert_eq!(progress.file, "owner/name/onnx/model.onnx");
        assert!(progress.total.is_none_or(|total| total == 300_000) && progress.done <= 300_000);
        seen.fetch_max(progress.done as usize, Ordering::SeqCst);
        true
    };
    let pulled = pull(&encoder(ONE_FILE), &setting.environment, &options(), &progress).unwrap();
    assert_eq!(pulled[0].sha256, CONTENT_SHA256);
    assert_eq!(std::fs::read(setting.model()).unwrap(), content());
    assert_eq!(seen.into_inner(), 300_000);
    let expected = [None, Some("bytes=70000-"), Some("bytes=70001-"), Some("bytes=170001-")];
    assert_eq!(ranges(&server), expected.map(|range| range.map(str::to_string)));
    assert!(server.requests()[1..].iter().all(|request| request.header("if-range") == Some("\"tag\"")));
    assert_eq!(setting.files(), DONE);
}

#[test]
fn another_run_resumes_too() {
    let server = Server::start(|earlier, request| {
        let reply = Reply::file(request, &content(), "tag");
        if earlier == 0 { reply.cut_after(123_456) } else { reply }
    });
    let setting = Setting::new(&server);
    let mut once = options();
    once.retries = 0;
    let problem = setting.pull_with(&encoder(ONE_FILE), &once).unwrap_err();
    assert!(
        problem.contains("broke off after 123456 of 300000 bytes") && problem.contains("again to resume"),
        "{problem}"
    );
    assert_eq!(setting.files(), ["model.onnx.lock", "model.onnx.part", "model.onnx.part.json"]);
    let pulled = setting.pull(&encoder(ONE_FILE)).unwrap();
    assert_eq!((pulled[0].sha256.as_str(), pulled[0].confirmed), (CONTENT_SHA256, false));
    assert_eq!(ranges(&server)[1].as_deref(), Some("bytes=123456-"));
}

/// Servers on which a download cannot be resumed: the file is then downloaded from the start.
#[test]
fn what_cannot_be_resumed_is_restarted() {
    type Answer = fn(&Request) -> Reply;
    let changed: Answer = |request| Reply::file(request, &content(), "new");
    let without_ranges: Answer = |_| Reply::body(&content()).with("ETag", "\"tag\"");
    let ignores_if_range: Answer = |request| match request.header("range") {
        Some(_) => Reply::range(&content(), 50_000).with("ETag", "\"new\""),
        None => Reply::file(request, &content(), "new"),
    };
    let wrong_range: Answer = |request| match request.header("range") {
        Some(_) => Reply::range(&content(), 10).with("ETag", "\"tag\""),
        None => Reply::file(request, &content(), "tag"),
    };
    let out_of_range: Answer = |request| match request.header("range") {
        Some(_) => Reply::status(416),
        None => Reply::file(request, &content(), "tag"),
    };
    for (requests, answer) in
        [(2, changed), (2, without_ranges), (3, ignores_if_range), (3, wrong_range), (3, out_of_range)]
    {
        let server = Server::start(move |earlier, request| match earlier {
            0 => Reply::file(request, &[7; 100_000], "tag").cut_after(50_000),
            _ => answer(request),
        });
        let setting = Setting::new(&server);
        setting.pull(&encoder(ONE_FILE)).unwrap();
        assert!(std::fs::read(setting.model()).unwrap() == content(), "{requests} requests");
        assert_eq!(server.paths().len(), requests);
        assert_eq!(setting.files(), DONE);
    }
}

#[test]
fn servers_that_contradict_themselves_are_given_up() {
    let server = Server::start(|_, _| Reply::range(&content(), 10).with("ETag", "\"tag\""));
    let problem = Setting::new(&server).pull(&encoder(ONE_FILE)).unwrap_err();
    assert!(problem.contains("contradicts itself about its size and ranges"), "{problem}");
    assert_eq!(server.paths().len(), 4);
}

/// Bytes that come again and again are no progress.
#[test]
fn a_server_that_always_breaks_off_is_given_up() {
    let server = Server::start(|_, _| Reply::body(&content()).cut_after(100_000));
    let setting = Setting::new(&server);
    let waited = AtomicUsize::new(0);
    let progress = |progress: &Progress<'_>| {
        waited
            .fetch_add(progress.problem.is_some_and(|problem| problem.contains("broke off")).into(), Ordering::SeqCst);
        true
    };
    let problem = pull(&encoder(ONE_FILE), &setting.environment, &options(), &progress).unwrap_err().to_string();
    assert!(problem.contains("broke off after 100000 of 300000 bytes"), "{problem}");
    assert_eq!(server.paths().len(), 6);
    assert!(waited.into_inner() >= 5);
}

/// Networks that ask for a login answer every request with a page of their own.
#[test]
fn what_cannot_be_weights_is_not_stored() {
    let page = b"\n<!doctype html><title>Please log in</title>";
    for (body, what) in [(page.as_slice(), "a web page"), (b"", "nothing"), (b" \n", "nothing")] {
        let server = Server::start(move |earlier, request| match earlier {
            0 => Reply::body(body),
            _ => Reply::file(request, &content(), "tag"),
        });
        let setting = Setting::new(&server);
        let problem = setting.pull(&encoder(ONE_FILE)).unwrap_err();
        let expected = format!("the server sent {what} instead of owner/name/onnx/model.onnx; check the endpoint");
        assert!(problem.starts_with(&expected), "{problem}");
        assert_eq!(setting.files(), ["model.onnx.lock"]);
        // What an earlier version has stored is downloaded again.
        std::fs::write(setting.model(), body).unwrap();
        assert_eq!(setting.pull(&encoder(ONE_FILE)).unwrap()[0].sha256, CONTENT_SHA256);
    }
    // Weights may begin like a tag.
    let server = Server::start(|_, _| Reply::body(b"<\x12\x80\x3f"));
    assert!(Setting::new(&server).pull(&encoder(ONE_FILE)).is_ok());
}

#[test]
fn a_resumed_file_with_a_wrong_digest_is_downloaded_whole_once() {
    // The entity tag is that of the right file, but the first bytes are not.
    let server = Server::start(|earlier, request| {
        let bytes = if earlier == 0 { vec![7; 300_000] } else { content() };
        let reply = Reply::file(request, &bytes, "tag").with("X-Linked-ETag", CONTENT_SHA256);
        if earlier == 0 { reply.cut_after(1000) } else { reply }
    });
    let setting = Setting::new(&server);
    assert!(setting.pull(&encoder(ONE_FILE)).unwrap()[0].confirmed);
    assert_eq!(ranges(&server), [None, Some("bytes=1000-".to_string()), None]);
}

#[test]
fn wrong_digests_are_refused() {
    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
    const CHECKED: WeightsFile = WeightsFile { path: "onnx/model.onnx", role: Role::Model, sha256: Some(ZEROS) };
    const SOURCES: &[Source] = &[Source::Hub { repository: "owner/name", revision: "main", files: &[CHECKED] }];
    let of_table = Server::start(|_, request| Reply::file(request, &content(), "tag"));
    let of_hub = Server::start(|_, request| Reply::file(request, &content(), "tag").with("X-Linked-ETag", ZEROS));
    let of_etag = Server::start(|_, request| Reply::file(request, &content(), ZEROS));
    for (server, sources) in [(of_table, SOURCES), (of_hub, ONE_FILE), (of_etag, ONE_FILE)] {
        let setting = Setting::new(&server);
        let problem = setting.pull(&encoder(sources)).unwrap_err();
        let expected =
            format!("the SHA-256 of owner/name/onnx/model.onnx is {CONTENT_SHA256}, but {ZEROS} is published");
        assert!(problem.contains(&expected), "{problem}");
        assert_eq!(setting.files(), ["model.onnx.lock"], "nothing is left of the wrong file");
        assert_eq!(server.paths().len(), 1);
    }
}

#[test]
fn the_first_digest_is_trusted_and_kept() {
    let server = Server::start(|earlier, request| match earlier {
        0 | 2 => Reply::file(request, &content(), "tag"),
        _ => Reply::file(request, b"something else", "other"),
    });
    let setting = Setting::new(&server);
    let encoder = encoder(ONE_FILE);
    assert!(!setting.pull(&encoder).unwrap()[0].confirmed);
    assert_eq!(digest::verify(&setting.model()).unwrap(), CONTENT_SHA256);
    std::fs::remove_file(setting.model()).unwrap();
    let problem = setting.pull(&encoder).unwrap_err();
    assert!(problem.contains(&format!("but {CONTENT_SHA256} is recorded by an earlier download")), "{problem}");
    assert!(problem.contains("model.onnx.sha256 if the file was published anew"), "{problem}");
    assert_eq!(setting.files(), ["model.onnx.lock", "model.onnx.sha256"]);
    setting.pull(&encoder).unwrap();
    std::fs::write(setting.model(), "changed").unwrap();
    let problem = digest::verify(&setting.model()).unwrap_err().to_string();
    assert!(problem.contains("model.onnx has changed") && problem.contains(CONTENT_SHA256), "{problem}");
    std::fs::remove_file(setting.model().with_file_name("model.onnx.sha256")).unwrap();
    assert!(digest::verify(&setting.model()).is_ok());
}

#[test]
fn redirects_do_not_see_the_token() {
    let elsewhere = Server::start(|_, request| Reply::file(request, &content(), "tag of the store"));
    let store = format!("{}/store?signature=1", elsewhere.address());
    let server = Server::start(move |_, request| match request.path.as_str() {
        "/owner/name/resolve/main/onnx/model.onnx" => {
            let reply = Reply::status(307).with("Location", "/moved/model.onnx");
            reply.with("X-Linked-ETag", &format!("\"{CONTENT_SHA256}\"")).with("X-Linked-Size", "300000")
        }
        _ => Reply::status(302).with("Location", &store),
    });
    let setting = Setting::with(&server, &[("HF_TOKEN", "hf_secret")]);
    assert!(setting.pull(&encoder(ONE_FILE)).unwrap()[0].confirmed);
    assert_eq!(server.paths(), ["/owner/name/resolve/main/onnx/model.onnx", "/moved/model.onnx"]);
    assert!(server.requests().iter().all(|request| request.header("authorization") == Some("Bearer hf_secret")));
    assert_eq!(elsewhere.paths(), ["/store?signature=1"]);
    assert_eq!(elsewhere.requests()[0].header("authorization"), None);
}

#[test]
fn redirects_that_lead_nowhere_are_refused() {
    for (location, reason) in [
        (Some("/again"), "redirects more than 10 times"),
        (Some("ftp://host/file"), "not secure"),
        (Some("file:///etc/passwd"), "not secure"),
        (Some("http://"), "not secure"),
        (None, "redirects to nowhere"),
    ] {
        let server = Server::start(move |_, _| {
            let reply = Reply::status(302);
            location.map_or(reply.clone(), |location| reply.with("Location", location))
        });
        let problem = Setting::new(&server).pull(&encoder(ONE_FILE)).unwrap_err();
        assert!(problem.contains(reason), "{location:?}: {problem}");
        assert!(server.paths().len() <= 11);
    }
}

#[test]
fn busy_servers_are_asked_again() {
    let server = Server::start(|earlier, request| match earlier {
        0 => Reply::status(429).with("Retry-After", "1"),
        1 => Reply::status(503),
        _ => Reply::file(request, &content(), "tag"),
    });
    let begin = Instant::now();
    Setting::new(&server).pull(&encoder(ONE_FILE)).unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1), "the server asked for a second");
    assert_eq!(server.paths().len(), 3);

    let server = Server::start(|_, _| Reply::status(500));
    let mut few = options();
    few.retries = 2;
    let problem = Setting::new(&server).pull_with(&encoder(ONE_FILE), &few).unwrap_err();
    assert!(problem.contains("does not answer the request (500"), "{problem}");
    assert_eq!(server.paths().len(), 3);

    let server = Server::start(|_, _| Reply::status(429).with("Retry-After", "3600"));
    let problem = Setting::new(&server).pull(&encoder(ONE_FILE)).unwrap_err();
    assert!(problem.contains("asks to wait 3600 s"), "{problem}");
    assert_eq!(server.paths().len(), 1);
}

#[test]
fn every_failure_has_its_sentence() {
    for (status, token, sentence) in [
        (401, false, "denies access (401); set HF_TOKEN to a token"),
        (403, true, "denies access (403); accept the model's conditions on its page"),
        (404, false, "does not have the file (404); give the path of a copy"),
        (418, false, "answers 418"),
    ] {
        let server = Server::start(move |_, _| Reply::status(status));
        let more: &[(&str, &str)] = if token { &[("HF_TOKEN", "hf_secret")] } else { &[] };
        let problem = Setting::with(&server, more).pull(&encoder(ONE_FILE)).unwrap_err();
        assert!(problem.contains(sentence) && !problem.contains("hf_secret"), "{problem}");
        assert_eq!(server.paths().len(), 1, "{status} is not retried");
    }
    let server = Server::start(|_, _| Reply::status(500));
    let setting = Setting::new(&server);
    drop(server);
    let mut few = options();
    few.retries = 1;
    let problem = setting.pull_with(&encoder(ONE_FILE), &few).unwrap_err();
    assert!(problem.contains("there is no connection to 127.0.0.1"), "{problem}");

    let server = Server::start(|_, request| Reply::file(request, &content(), "tag"));
    let offline = Setting::with(&server, &[("HF_HUB_OFFLINE", "1")]);
    assert!(offline.pull(&encoder(ONE_FILE)).unwrap_err().contains("HF_HUB_OFFLINE is set; unset it"));
    let bad_token = Setting::with(&server, &[("HF_TOKEN", "line\nbreak")]);
    let problem = bad_token.pull(&encoder(ONE_FILE)).unwrap_err();
    assert!(problem.contains("HF_TOKEN") && !problem.contains("break"), "{problem}");
    assert!(Setting::new(&server).pull(&encoder(&[])).unwrap_err().contains("export it with `export it`"));
    let homeless = environment(&[("HF_ENDPOINT", Path::new(server.address()))]);
    let problem = pull(&encoder(ONE_FILE), &homeless, &options(), &|_| true).unwrap_err().to_string();
    assert!(problem.contains("set MODELMIX_CACHE to a folder"));
    let setting = Setting::new(&server);
    std::fs::write(setting.folder.path().join("hub"), "a file, not a folder").unwrap();
    let problem = setting.pull(&encoder(ONE_FILE)).unwrap_err();
    assert!(problem.contains("cannot be written") && problem.contains("MODELMIX_CACHE"), "{problem}");
    assert!(server.paths().is_empty());
}

#[test]
fn the_user_can_stop_and_resume() {
    let server = Server::start(|_, request| Reply::file(request, &content(), "tag"));
    let setting = Setting::new(&server);
    let stop = |progress: &Progress<'_>| progress.done < 100_000;
    let problem = pull(&encoder(ONE_FILE), &setting.environment, &options(), &stop).unwrap_err().to_string();
    assert!(problem.contains("stopped; run it again to resume it"), "{problem}");
    let there = std::fs::metadata(setting.model().with_file_name("model.onnx.part")).unwrap().len();
    assert!((100_000..300_000).contains(&there), "{there}");
    setting.pull(&encoder(ONE_FILE)).unwrap();
    assert_eq!(ranges(&server)[1], Some(format!("bytes={there}-")));
    assert_eq!(std::fs::read(setting.model()).unwrap(), content());
}

#[test]
fn concurrent_pulls_download_once() {
    let server = Server::start(|_, request| {
        std::thread::sleep(Duration::from_millis(100));
        Reply::file(request, &content(), "tag")
    });
    let setting = Arc::new(Setting::new(&server));
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (setting, barrier) = (Arc::clone(&setting), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                setting.pull(&encoder(ONE_FILE)).unwrap().remove(0)
            })
        })
        .collect();
    let pulled: Vec<Pulled> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(pulled.iter().all(|file| file.sha256 == CONTENT_SHA256));
    assert_eq!(pulled.iter().filter(|file| file.fresh).count(), 1);
    assert_eq!(server.paths().len(), 1);
}

#[test]
fn the_next_source_is_tried() {
    let server = Server::start(|_, request| match request.path.as_str() {
        "/files/model.pth" => Reply::file(request, &content(), "tag"),
        _ => Reply::status(404),
    });
    let file = WeightsFile { path: "model.pth", role: Role::Model, sha256: Some(CONTENT_SHA256) };
    let url: &'static str = format!("{}/files/model.pth", server.address()).leak();
    let sources: &'static [Source] = vec![ONE_FILE[0], Source::Address { url, file }].leak();
    let setting = Setting::new(&server);
    let pulled = setting.pull(&encoder(sources)).unwrap();
    assert_eq!(pulled[0].path, setting.folder.path().join("files/model.pth"));
    assert!(pulled[0].confirmed);
    match locate(&encoder(sources), None, &setting.environment) {
        Location::Found(found) => assert_eq!(found.model, pulled[0].path),
        Location::Missing(missing) => panic!("{missing:?}"),
    }
}
