//! Properties of the whole repository that no compiler checks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest number of lines of a source file; a longer file usually contains two ideas.
const MOST_LINES: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// All files below a folder with one of these extensions, except build outputs.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                found.extend(files(&path, extensions));
            }
        } else if extensions.iter().any(|extension| name.ends_with(&format!(".{extension}"))) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn no_source_file_is_too_long() {
    let root = root();
    let too_long: Vec<String> = files(&root, &["rs", "py", "mjs"])
        .into_iter()
        .filter_map(|path| {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            (lines > MOST_LINES).then(|| format!("{name} has {lines} lines"))
        })
        .collect();
    assert!(too_long.is_empty(), "over {MOST_LINES} lines: {too_long:#?}");
}

/// Returns the modules of a crate in the order of ARCHITECTURE.md: the entries with the smallest indentation below its folder.
fn stated_order(architecture: &str, folder: &str) -> Vec<String> {
    let names_of = |line: &str| -> Vec<String> {
        let names = line.split_whitespace().map_while(|word| word.strip_suffix(".rs").or(word.strip_suffix('/')));
        names.map(str::to_string).collect()
    };
    let mut lines = architecture.lines().skip_while(|line| !line.starts_with(folder));
    lines.next().unwrap_or_else(|| panic!("ARCHITECTURE.md has no entry {folder}"));
    lines
        .take_while(|line| line.starts_with(' '))
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .flat_map(names_of)
        .collect()
}

/// Returns the first path segment after every `crate::` of a source file, without comments and unit tests.
fn modules_used(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut used = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        if let Some(group) = rest.strip_prefix('{') {
            // Only the first segments of the paths of the group: `a::{b, c}` inside it names `a`.
            let mut depth = 0;
            let mut head = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => drop(used.insert(std::mem::take(&mut head))),
                    c if depth == 0 && (is_word(c) || c == ':') => head.push(c),
                    _ => {}
                }
            }
            used.insert(head);
        } else {
            used.insert(rest.chars().take_while(|&c| is_word(c)).collect());
        }
    }
    used.into_iter().map(|path| path.split("::").next().unwrap().to_string()).filter(|name| !name.is_empty()).collect()
}

/// Returns the problems of the modules of a crate: not listed, listed but missing, or using a module that is listed below them.
fn disorder(order: &[String], sources: &[(PathBuf, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    let place = |module: &str| order.iter().position(|name| name == module);
    let mut there = BTreeSet::new();
    for (path, source) in sources {
        let first = path.components().next().unwrap().as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_string();
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(own) = place(&module) else {
            problems.push(format!("{} is not in ARCHITECTURE.md's list", path.display()));
            continue;
        };
        for used in modules_used(source) {
            match place(&used) {
                Some(other) if other > own => {
                    problems.push(format!("{} uses {used}, which is listed below it", path.display()));
                }
                Some(_) => {}
                // A re-exported name hides the module that defines it.
                None if used.starts_with(char::is_uppercase) || used.starts_with(char::is_lowercase) => {
                    problems.push(format!("{} uses crate::{used}, which is not a listed module", path.display()));
                }
                None => {}
            }
        }
        there.insert(module);
    }
    problems.extend(
        order
            .iter()
            .filter(|name| !there.contains(*name) && *name != "lib" && *name != "main")
            .map(|name| format!("{name} is listed but missing")),
    );
    problems
}

fn sources_of(folder: &Path) -> Vec<(PathBuf, String)> {
    let read = |path: PathBuf| (path.strip_prefix(folder).unwrap().to_path_buf(), fs::read_to_string(&path).unwrap());
    files(folder, &["rs"]).into_iter().map(read).collect()
}

#[test]
fn modules_use_only_modules_listed_above_them() {
    let root = root();
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    for folder in [
        "crates/modelmix/src/",
        "crates/modelmix-encode/src/",
        "crates/modelmix-live/src/",
        "crates/modelmix-cuda/src/",
        "crates/modelmix-cli/src/",
    ] {
        let order = stated_order(&architecture, folder);
        assert!(order.len() > 5, "{folder}: {order:?}");
        let problems = disorder(&order, &sources_of(&root.join(folder)));
        assert!(problems.is_empty(), "{folder}: {problems:#?}");
    }
}

/// The check finds the problems that it is for.
#[test]
fn disorder_is_found() {
    let order: Vec<String> = stated_order(
        "text\ncrates/x/src/  the crate\n  a.rs  first\n  b/  then\n    c.rs  inside\nend",
        "crates/x/src/",
    );
    assert_eq!(order, ["a", "b"]);
    let problems = |path: &str, source: &str| {
        disorder(
            &order,
            &[("a.rs".into(), String::new()), ("b/mod.rs".into(), String::new()), (path.into(), source.into())],
        )
    };
    assert!(problems("b/c.rs", "use crate::a::Thing;\n").is_empty());
    assert!(problems("a.rs", "// use crate::b::Thing;\n").is_empty());
    for upward in [
        "use crate::b::Thing;",
        "use crate::{b::{Thing, Other}};",
        "fn f() -> crate::b::Thing {}",
        "use crate::{\n    b,\n};",
    ] {
        assert_eq!(problems("a.rs", upward), ["a.rs uses b, which is listed below it"], "{upward}");
    }
    assert_eq!(problems("b/c.rs", "use crate::Thing;"), ["b/c.rs uses crate::Thing, which is not a listed module"]);
    assert_eq!(problems("d.rs", ""), ["d.rs is not in ARCHITECTURE.md's list"]);
}

/// Crates are published from their own folders, so each has copies of some files.
#[test]
fn packaged_copies_are_the_originals() {
    let root = root();
    let mut copies: Vec<(PathBuf, PathBuf)> = Vec::new();
    for folder in [
        "crates/modelmix",
        "crates/modelmix-cli",
        "crates/modelmix-cuda",
        "crates/modelmix-encode",
        "crates/modelmix-live",
        "python",
    ] {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            copies.push((root.join(folder).join(licence), root.join(licence)));
        }
    }
    let demo = root.join("crates/modelmix-cli/demo");
    for copy in files(&demo, &["npz", "npy", "onnx", "toml"]) {
        let place = copy.strip_prefix(&demo).unwrap();
        let folder =
            if place.starts_with("images") || copy.extension().is_some_and(|kind| kind == "npz" || kind == "npy") {
                root.join("data/fashion")
            } else {
                root.join("data/fashion/models")
            };
        let original = folder.join(place);
        copies.push((copy, original));
    }
    assert!(copies.len() > 8, "the demo's data was not found");
    for (copy, original) in copies {
        assert!(
            fs::read(&copy).unwrap_or_default() == fs::read(&original).unwrap(),
            "{} is not a copy of {}; copy it again",
            copy.display(),
            original.display()
        );
    }
}
