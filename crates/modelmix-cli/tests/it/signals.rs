//! Closed pipes, full disks and interrupts: no partial file is left, and no unexpected output.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::world::{Run, World, words};

const SOLVE: &str = "solve made/a.npy made/b.npy";
/// A command that takes minutes unless it is interrupted.
const LONG_SIMULATION: &str =
    "simulate fashion/specialists.npz -b 20 --rounds 400000 --seeds 64 --html report.html --svg figures";

#[test]
fn a_closed_pipe_ends_the_command_in_silence() {
    for line in [SOLVE, "solve made/a.npy made/b.npy --json", "completions bash", "solve --help", "--help"] {
        let world = World::new();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::from(world.command(&words(line)).stdout(writer).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
        assert!(world.left_behind().is_empty(), "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for line in [SOLVE, "solve made/a.npy made/b.npy --json", "completions bash", "solve --help"] {
        let world = World::new();
        let run = Run::from(world.command(&words(line)).stdout(full()).output().unwrap());
        assert_eq!(run.code, 2, "{line}");
        assert_eq!(
            run.stderr, "modelmix: cannot write standard output: No space left on device (os error 28)\n",
            "{line}"
        );
    }
    let world = World::new();
    let run = world.run("solve made/a.npy made/b.npy --html /dev/full");
    assert_eq!(run.code, 2);
    assert_eq!(run.stderr, "modelmix: cannot write /dev/full: No space left on device (os error 28)\n");
}

/// Limits the file size to one block, so that writing the report fails midway.
#[test]
#[cfg(target_os = "linux")]
fn what_does_not_fit_on_the_disk_is_not_left_in_part() {
    for output in ["--html report.html", "--svg figures", "--png figures"] {
        let world = World::new();
        let script = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" {SOLVE} {output}");
        let mut command = Command::new("sh");
        world.set_up(&mut command);
        let run = Run::from(command.args(["-c", &script, env!("CARGO_BIN_EXE_modelmix")]).output().unwrap());
        assert_eq!(run.code, 2, "{output}: {}", run.stderr);
        assert!(run.stderr.starts_with("modelmix: cannot write "), "{output}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1);
        let mut left = world.left_behind();
        if let Ok(figures) = std::fs::read_dir(world.path("figures")) {
            left.retain(|name| name != "figures");
            left.extend(figures.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
        }
        assert!(left.is_empty(), "{output}: {left:?}");
    }
}

/// Interrupts a command when `ready` returns true.
fn interrupted(world: &World, line: &str, ready: impl Fn() -> bool) -> Run {
    let child = world.command(&words(line)).stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(20));
        if ready() {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    Run::from(child.wait_with_output().unwrap())
}

#[test]
fn an_interrupt_leaves_nothing() {
    let world = World::new();
    let run = interrupted(&world, LONG_SIMULATION, || true);
    assert_eq!(run.code, 130, "{}", run.stderr);
    assert_eq!(run.stderr, "modelmix: interrupted; no unfinished file is left\n");
    assert_eq!(run.stdout, "");
    assert_eq!(world.left_behind(), Vec::<String>::new());
}

/// The demo unpacks its data into a temporary folder.
#[test]
fn an_interrupted_demo_takes_its_data_away() {
    let world = World::new();
    let run = interrupted(&world, "demo --quiet --json", || !world.left_behind().is_empty());
    assert_eq!(run.code, 130, "{}", run.stderr);
    assert_eq!(world.left_behind(), Vec::<String>::new());
}

#[test]
fn a_report_that_is_there_is_kept_when_the_command_fails() {
    let world = World::new();
    world.write("report.html", "yesterday's");
    assert_eq!(world.run("solve made/nan.npy made/b.npy --html report.html").code, 2);
    assert_eq!(std::fs::read_to_string(world.path("report.html")).unwrap(), "yesterday's");
    world.answer("solve made/a.npy made/b.npy --html report.html --quiet");
    assert!(std::fs::read_to_string(world.path("report.html")).unwrap().contains("<html"));
}

#[test]
fn colours_are_for_terminals() {
    let coloured = |name: &str, value: &str| {
        let world = World::new();
        let mut command = world.command(&words(SOLVE));
        let run = Run::from(command.env_remove("NO_COLOR").env(name, value).output().unwrap());
        run.stdout.contains('\u{1b}')
    };
    assert!(!coloured("TERM", "xterm-256color"), "a pipe has no colours");
    assert!(coloured("CLICOLOR_FORCE", "1"), "unless they are asked for");
}
