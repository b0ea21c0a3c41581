//! Runs the commands of README.md and `docs/` with a shell in a copy of the clone's root. A `text` block after a command is its
//! output, or a part of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::snapshots::{DIGITS_TOLERANCE, agree};
use super::world::{Run, World};

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
struct Block {
    language: String,
    text: String,
}

/// Commands, and the output that the page shows for them.
#[derive(Debug, PartialEq)]
struct Example {
    commands: String,
    output: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => open = Some(Block { language: language.into(), text: String::new() }),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a block has no end");
    blocks
}

/// The examples that run `modelmix`. Commands of other programs (`cargo`, `pip`, `make`) are skipped.
fn examples(page: &str) -> Vec<Example> {
    let mut blocks = blocks(page).into_iter().peekable();
    let mut examples = Vec::new();
    while let Some(block) = blocks.next() {
        if block.language == "sh" && block.text.starts_with("modelmix ") {
            let output = blocks.next_if(|next| next.language == "text").map(|next| next.text);
            examples.push(Example { commands: block.text, output });
        }
    }
    examples
}

/// Whether the lines of `shown` are consecutive lines of `printed`, with numbers that differ in their last digit at most.
fn shows(printed: &str, shown: &str) -> bool {
    let (printed, shown): (Vec<_>, Vec<_>) = (printed.lines().collect(), shown.lines().collect());
    printed.windows(shown.len()).any(|lines| agree(&lines.join("\n"), &shown.join("\n"), DIGITS_TOLERANCE))
}

/// Runs commands in a shell at the root of the clone.
fn type_in(world: &World, commands: &str) -> Run {
    let binaries = Path::new(env!("CARGO_BIN_EXE_modelmix")).parent().unwrap();
    let mut shell = Command::new("sh");
    world.set_up(&mut shell);
    let path = std::env::join_paths(
        [binaries.to_path_buf()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    shell.env("PATH", path.unwrap()).arg("-euc").arg(commands);
    Run::from(shell.output().unwrap())
}

fn check_page(page: &Path) -> usize {
    let world = World::new();
    for name in ["data", "experiments"] {
        std::os::unix::fs::symlink(root().join(name), world.path(name)).unwrap();
    }
    let examples = examples(&fs::read_to_string(page).unwrap());
    for Example { commands, output } in &examples {
        let run = type_in(&world, commands);
        assert_eq!(run.code, 0, "{}: {commands}{}", page.display(), run.stderr);
        if let Some(output) = output {
            let place = page.display();
            assert!(shows(&run.stdout, output), "{place}: {commands}prints\n\n{}\nnot\n\n{output}", run.stdout);
        }
    }
    examples.len()
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    assert!(check_page(&root().join("README.md")) >= 2);
}

#[test]
fn the_commands_of_the_pages_print_what_they_show() {
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(pages.map(|page| check_page(&page)).sum::<usize>() >= 5);
}

#[test]
fn examples_are_read_from_a_page() {
    let page = "a\n```sh\nmodelmix x \\\n  --y\n```\n\n```text\nz\n```\n```sh\ncargo b\n```\n```text\nq\n```\n```sh\nmodelmix v\n```\n";
    let example =
        |commands: &str, output: Option<&str>| Example { commands: commands.into(), output: output.map(Into::into) };
    assert_eq!(examples(page), [example("modelmix x \\\n  --y\n", Some("z\n")), example("modelmix v\n", None)]);
    assert!(shows("a\nloss 0.147\nb\n", "loss 0.147\nb\n"));
    assert!(
        !shows("a\nloss 0.147\nb\n", "a\nb\n") && !shows("a\n", "a\nb\n") && !shows("loss 0.147\n", "loss 0.157\n")
    );
}
