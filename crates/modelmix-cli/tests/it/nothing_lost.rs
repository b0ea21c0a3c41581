//! Files are in place before anything is printed: a closed pipe loses nothing, and write errors are reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::world::{Run, World, words};

const PAIR: &str = "made/a.npy made/b.npy";
const NO_FILES: [&str; 0] = [];

/// Every command that writes files, and the files that it must write.
fn commands(world: &World) -> Vec<(String, Vec<&'static str>)> {
    world.write("solve.json", world.answer(&format!("solve {PAIR} --json")));
    world.write("right.toml", experiment(world, "bag"));
    let figures = "--html out/r.html --svg out/figures --png out/figures";
    let report = vec!["r.html", "figures/solve-weights.svg", "figures/solve-weights.png"];
    let commands = [
        (format!("solve {PAIR} {figures}"), report.clone()),
        (format!("solve {PAIR} {figures} --json"), report.clone()),
        (format!("score {PAIR} --html out/r.html"), vec!["r.html"]),
        (format!("simulate {PAIR} --rounds 20 --seeds 1 --html out/r.html"), vec!["r.html"]),
        (format!("curate {PAIR} -n 5 --out out/m.csv --html out/r.html"), vec!["m.csv", "m.csv.json", "r.html"]),
        ("reproduce right.toml --html out/r.html".into(), vec!["r.html"]),
        (format!("report solve.json {figures}"), report.clone()),
        (format!("report solve.json {figures} --json"), report),
        ("man --folder out/man".into(), vec!["man/modelmix.1", "man/modelmix-solve.1", "man/modelmix-man.1"]),
    ];
    let quiet = |line: &str| if line.starts_with("man") { "" } else { " --quiet" };
    commands.into_iter().map(|(line, files)| (format!("{line}{}", quiet(&line)), files)).collect()
}

/// An experiment on real generators with an expected best single arm; the true one is `bag`.
fn experiment(world: &World, best: &str) -> String {
    let data = world.path("fashion").canonicalize().unwrap();
    format!(
        "name = \"one\"\nabout = \"One.\"\nfeatures = '{}'\narms = [\"categories.npz\"]\nobjective = \"rke\"\n\
         bandwidth = 20\nsamples = 50\n[expected]\n\"best single\" = \"{best}\"\n",
        data.display()
    )
}

/// The empty folder `out`.
fn empty_folder(world: &World) -> PathBuf {
    let out = world.path("out");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir(&out).unwrap();
    out
}

/// All files in a folder and its subfolders.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

/// Runs a command whose reader has closed the pipe before it starts.
fn closed(world: &World, line: &str) -> Run {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Run::from(world.command(&words(line)).stdout(writer).output().unwrap())
}

/// The reader has closed the pipe before the command starts.
#[test]
fn a_closed_pipe_loses_no_file() {
    let world = World::new();
    for (line, expected) in commands(&world) {
        let out = empty_folder(&world);
        let run = closed(&world, &line);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
        for name in expected {
            let length = fs::metadata(out.join(name)).map_or(0, |file| file.len());
            assert!(length > 0, "{line}: {name} is missing");
        }
    }
}

/// Pipes of a shell whose readers exit after a line, immediately, or midway; repeated, since it is a race.
#[test]
fn readers_that_leave_early_lose_no_file() {
    let world = World::new();
    let mut script = String::from("set -o pipefail\n");
    let program = env!("CARGO_BIN_EXE_modelmix");
    for round in 0..8 {
        for reader in ["true", "head -1", "head -c 100"] {
            let name = format!("{round}-{}", reader.replace(' ', ""));
            script += &format!("'{program}' solve {PAIR} --quiet --html '{name}.html' | {reader} || exit 1\n");
            script += &format!("'{program}' curate {PAIR} -n 5 --quiet --out '{name}.csv' | {reader} || exit 1\n");
            script += &format!("test -s '{name}.html' || exit 2\ntest -s '{name}.csv' || exit 3\n");
        }
    }
    let mut command = Command::new("bash");
    world.set_up(&mut command);
    let run = Run::from(command.args(["-c", &script]).output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

/// The exit codes of a failed check and of bad input are the same if the pipe is closed.
#[test]
fn a_closed_pipe_does_not_hide_a_failure() {
    let world = World::new();
    world.write("wrong.toml", experiment(&world, "coat"));
    let run = closed(&world, "reproduce wrong.toml --html r.html --quiet");
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    assert!(world.path("r.html").exists());
    for line in ["solve", "solve made/a.npy made/none.npy", "solve made/a.npy --bandwith 3"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let code = world.command(&words(line)).stderr(writer).status().unwrap().code();
        assert_eq!(code, Some(2), "{line}");
    }
}

/// If the features of all experiments are missing, `reproduce` fails.
#[test]
fn nothing_that_ran_is_no_success() {
    let world = World::new();
    world.write("one.toml", experiment(&world, "bag"));
    let run = world.run("reproduce one.toml --features nowhere --html r.html");
    assert_eq!(run.code, 2);
    let sentence = "no experiment ran: all features are missing; give their folder with --features FOLDER";
    assert_eq!(run.stderr, format!("modelmix: {sentence}\n"));
    assert!(run.stdout.contains("skipped: features not found at nowhere/categories.npz"), "{}", run.stdout);
    assert_eq!(world.left_behind(), ["one.toml"]);
}

/// Scores have no figures. A request for figures is rejected before the work, since an empty folder would be misleading.
#[test]
fn figures_that_do_not_exist_are_refused() {
    let world = World::new();
    world.write("score.json", world.answer(&format!("score {PAIR} --json")));
    for line in [format!("score {PAIR} --svg figures"), "report score.json --html r.html --png figures".into()] {
        let run = world.run(&line);
        let reason = "there are no figures to write into figures: scores are a table; give --html FILE instead";
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}");
        assert_eq!(run.stderr, format!("modelmix: {reason}\n"));
        assert_eq!(world.left_behind(), ["score.json"], "{line}");
    }
}

/// An output never replaces a file that the command reads.
#[test]
fn inputs_are_not_overwritten() {
    let world = World::new();
    fs::copy(world.path("made/a.npy"), world.path("a.npy")).unwrap();
    fs::copy(world.path("made/b.npy"), world.path("b.npy")).unwrap();
    let before = fs::read(world.path("a.npy")).unwrap();
    world.write("solve.json", world.answer("solve a.npy b.npy --json"));
    for line in [
        "solve a.npy b.npy --html a.npy",
        "solve x=./a.npy b.npy --html a.npy",
        "score a.npy b.npy --metrics rke --html a.npy",
        "simulate a.npy b.npy --rounds 5 --seeds 2 --html a.npy",
        "curate a.npy b.npy --count 5 --html a.npy",
        "report solve.json --html solve.json",
    ] {
        let run = world.run(line);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}: {}", run.stderr);
        assert!(run.stderr.contains("the command reads this file; name another file"), "{line}: {}", run.stderr);
    }
    assert_eq!(fs::read(world.path("a.npy")).unwrap(), before);
    assert!(fs::read_to_string(world.path("solve.json")).unwrap().starts_with('{'));
}

/// The demo computes for a while before it writes, and also ignores a closed pipe.
#[test]
fn the_demo_writes_its_report_into_a_closed_pipe() {
    let world = World::new();
    let run = closed(&world, "demo --quiet");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(world.left_behind(), ["modelmix-demo.html"]);
}

/// Standard output that is full or not open for writing; the files are written nevertheless.
#[test]
#[cfg(target_os = "linux")]
fn standard_output_that_cannot_be_written_is_told() {
    let world = World::new();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let sentence = "modelmix: cannot write standard output: No space left on device (os error 28)\n";
    for (line, expected) in commands(&world) {
        if line.starts_with("report") && !line.contains("--json") {
            continue; // prints nothing
        }
        let out = empty_folder(&world);
        let run = Run::from(world.command(&words(&line)).stdout(full()).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (2, sentence), "{line}");
        assert!(expected.iter().all(|name| out.join(name).exists()), "{line}");
    }
    for line in ["schema solve", "completions zsh", "--version", "help", "man --help"] {
        let run = Run::from(world.command(&words(line)).stdout(full()).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (2, sentence), "{line}");
    }
    let unwritable = fs::File::open("/dev/null").unwrap();
    let run = Run::from(world.command(&words("schema solve")).stdout(unwritable).output().unwrap());
    assert_eq!(run.code, 2);
    assert_eq!(run.stderr, "modelmix: cannot write standard output: Bad file descriptor (os error 9)\n");
}

/// A shell script in which `out` is a separate file system, mounted with `options`; `None` if this machine forbids it.
#[cfg(target_os = "linux")]
fn mounted(world: &World, options: &str, line: &str) -> Option<Run> {
    let mount = format!("mount -t tmpfs -o {options} none out");
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        world.set_up(&mut command);
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_modelmix")]);
        command.output()
    };
    if !run(&mount).is_ok_and(|output| output.status.success()) {
        return None;
    }
    // The file system disappears with its contents, so they are listed on standard output.
    let script = format!("{mount} && \"$0\" {line} >/dev/null; code=$?; find out -mindepth 1; exit $code");
    Some(Run::from(run(&script).unwrap()))
}

/// The disk is too full for the last file: no file is left, and no folder that was created for them.
#[test]
#[cfg(target_os = "linux")]
fn a_full_file_system_gets_no_part_of_a_file() {
    let world = World::new();
    for (line, _) in commands(&world) {
        empty_folder(&world);
        let Some(run) = mounted(&world, "size=4k", &line) else { return };
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}: {}", run.stderr);
        let reason = "No space left on device (os error 28)\n";
        assert!(run.stderr.starts_with("modelmix: cannot write out/"), "{line}: {}", run.stderr);
        assert!(run.stderr.ends_with(reason), "{line}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_read_only_file_system_is_told_before_the_work() {
    let world = World::new();
    for (line, _) in commands(&world) {
        empty_folder(&world);
        let Some(run) = mounted(&world, "ro", &line) else { return };
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}: {}", run.stderr);
        assert!(run.stderr.starts_with("modelmix: cannot write out/"), "{line}: {}", run.stderr);
        assert!(run.stderr.ends_with(": Read-only file system (os error 30)\n"), "{line}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{line}");
    }
}

/// A folder without write permission. Root can write anyway, so the test needs another user.
#[test]
fn a_folder_without_permission_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    for (line, _) in commands(&world) {
        let out = empty_folder(&world);
        fs::set_permissions(&out, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(out.join("probe"), "").is_ok() {
            return;
        }
        let run = world.run(&line);
        fs::set_permissions(&out, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}: {}", run.stderr);
        assert!(run.stderr.starts_with("modelmix: cannot write out/"), "{line}: {}", run.stderr);
        assert!(run.stderr.ends_with(": Permission denied (os error 13)\n"), "{line}: {}", run.stderr);
        assert_eq!(files(&out), NO_FILES, "{line}");
    }
}

/// The disk holds some of the files but not all: none is written, and existing files are unchanged.
#[test]
#[cfg(target_os = "linux")]
fn files_come_together_or_not_at_all() {
    let world = World::new();
    let out = empty_folder(&world);
    world.write("out/m.csv", "yesterday's");
    let line = format!("curate {PAIR} -n 5 --quiet --out out/m.csv --html out/r.html --svg out/new/figures");
    // The manifest fits into one or two blocks of 512 bytes, the report does not.
    let script = format!("trap '' XFSZ; ulimit -f 4; exec \"$0\" {line}");
    let mut command = Command::new("sh");
    world.set_up(&mut command);
    let run = Run::from(command.args(["-c", &script, env!("CARGO_BIN_EXE_modelmix")]).output().unwrap());
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert_eq!(run.stderr, "modelmix: cannot write out/r.html: File too large (os error 27)\n");
    assert_eq!(fs::read_to_string(out.join("m.csv")).unwrap(), "yesterday's");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "nothing else is left");
    // The result is printed nevertheless.
    assert!(run.stdout.contains("drawn at random"), "{}", run.stdout);
}

/// A device is written after the files, and a closed pipe is ignored as for standard output.
#[test]
#[cfg(target_os = "linux")]
fn devices_come_behind_the_files() {
    let world = World::new();
    let line = format!("curate {PAIR} -n 5 --quiet --out m.csv --html");
    let run = world.run(&format!("{line} /dev/full"));
    assert_eq!(run.code, 2);
    assert_eq!(run.stderr, "modelmix: cannot write /dev/full: No space left on device (os error 28)\n");
    assert!(world.path("m.csv").exists());
    fs::remove_file(world.path("m.csv")).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = world.command(&words(&format!("{line} /dev/stdout")));
    let run = Run::from(command.stdout(writer).stderr(Stdio::piped()).output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(world.path("m.csv").exists());
}
