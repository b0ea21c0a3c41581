//! The environment of commands: a temporary folder with links to `fashion/` (the data of the repository), `load/` (files of the
//! library's tests) and `made/` (files made here), so that messages contain the same paths on every machine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The result of a command.
pub(super) struct Run {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A folder in which commands run.
pub(super) struct World {
    folder: TempDir,
}

const LINKS: [&str; 4] = ["fashion", "load", "made", "tmp"];

impl World {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, folder.path().join(name)).unwrap();
        link(&root.join("data/fashion"), "fashion");
        link(&root.join("crates/modelmix/tests/fixtures/load"), "load");
        link(made(), "made");
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    /// The command `modelmix` in this folder, with 100 columns and without colours.
    pub(super) fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modelmix"));
        self.set_up(&mut command);
        command.args(words);
        command
    }

    /// The environment variables of a command, independent of the tester's.
    pub(super) fn set_up(&self, command: &mut Command) {
        command.current_dir(self.folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("TMPDIR", self.path("tmp")).env("NO_COLOR", "1").env("COLUMNS", "100");
        // 2024-02-29T12:34:56Z
        command.env("SOURCE_DATE_EPOCH", "1709210096");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    pub(super) fn run_words<S: AsRef<OsStr>>(&self, words: &[S]) -> Run {
        Run::from(self.command(words).output().unwrap())
    }

    /// Runs `modelmix` with these arguments; single quotes group words.
    pub(super) fn run(&self, line: &str) -> Run {
        self.run_words(&words(line))
    }

    /// The output of a command that must succeed.
    pub(super) fn answer(&self, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code, 0, "modelmix {line}: {}", run.stderr);
        run.stdout
    }

    /// The document of a command that must succeed.
    pub(super) fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.answer(line)).unwrap()
    }

    /// The document of a command that must succeed, without its provenance.
    pub(super) fn result(&self, line: &str) -> serde_json::Value {
        let mut document = self.json(line);
        assert!(document.as_object_mut().unwrap().remove("provenance").is_some(), "modelmix {line}");
        document
    }

    /// Files and folders other than the given ones, including temporary ones.
    pub(super) fn left_behind(&self) -> Vec<String> {
        let names = |folder: PathBuf| -> Vec<String> {
            fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect()
        };
        let mut here = names(self.folder.path().into());
        here.retain(|name| !LINKS.contains(&name.as_str()));
        here.extend(names(self.path("tmp")).into_iter().map(|name| format!("tmp/{name}")));
        here
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(super) fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// An array in NumPy's format.
pub(super) fn npy(rows: usize, columns: usize, values: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Values around `centre`, spread evenly over a width of 2.
pub(super) fn values(count: usize, seed: u64, centre: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        centre + (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Valid and invalid input files, made once.
fn made() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        write("a.npy", &npy(20, 6, &values(120, 1, 0.0)));
        write("b.npy", &npy(20, 6, &values(120, 2, 1.0)));
        write("reference.npy", &npy(30, 6, &values(180, 3, 0.5)));
        write("wide.npy", &npy(20, 7, &values(140, 4, 0.0)));
        write("one.npy", &npy(1, 6, &values(6, 5, 0.0)));
        let whole = npy(20, 6, &values(120, 6, 0.0));
        write("truncated.npy", &whole[..whole.len() - 10]);
        write("cut.npy", &whole[..20]);
        write("forged.npy", &npy(4_000_000_000, 1_000_000, &[1.0]));
        write("zeros.npy", &npy(20, 6, &[0.0; 120]));
        let mut spoiled = values(120, 7, 0.0);
        spoiled[13 * 6 + 4] = f32::NAN;
        write("nan.npy", &npy(20, 6, &spoiled));
        spoiled[13 * 6 + 4] = f32::INFINITY;
        write("infinite.npy", &npy(20, 6, &spoiled));
        write("notes.txt", b"no features\n");
        write("model.pt", b"PK\x03\x04 archive of a tensor");
        write("empty.npy", b"");
        write("lies.npz", b"not a zip");
        write("words.csv", b"x,y\n1,2\n3,four\n");
        write("ragged.csv", b"1,2\n3,4,5\n");
        write("empty.csv", b"");
        write("lies.parquet", b"PAR1 but not for long PAR1");
        write("scores-not.json", b"{\"wit\": ");
        write("scores-list.json", b"[1, 2]");
        write("scores-unknown.json", b"{\"wit\": {\"c\": [1]}}");
        write("scores-short.json", b"{\"wit\": {\"a\": [1, 2], \"b\": [1, 2]}}");
        write("scores-half.json", format!("{{\"wit\": {{\"a\": {:?}}}}}", [1.0; 20]).as_bytes());
        let both = format!("{{\"wit\": {{\"a\": {:?}, \"b\": {:?}}}}}", [0.5; 20], [2.0; 20]);
        write("scores.json", both.as_bytes());
        write("texts.json", b"{\"a\": [\"<b>one</b>\", \"two\"], \"b\": [\"three\"]}");
        write("texts-unknown.json", b"{\"c\": [\"one\"]}");
        write("texts-not.json", b"{\"a\": [1");
        write("line.toml", b"bandwidth = 2\n\nobjective = = 'rke'\n");
        write("start.toml", b"bandwidth = 2\n= 3\n");
        write("unknown.toml", b"bandwith = 2\n");
        write("unknown-key.toml", b"zzzzzz = 2\n");
        write("type.toml", b"bandwidth = true\n");
        write("flag.toml", b"quiet = 'very'\n");
        write("number.toml", b"bandwidth = 'wide'\n");
        write("rounds.toml", b"rounds = 2.5\n");
        write("list.toml", b"objective = ['rke', 'mmd']\n");
        write("term.toml", b"objective = 'rke +'\n");
        write("metric.toml", b"metrics = ['rke', 'rkee']\n");
        write("twice.toml", b"no_replacement = true\nno-replacement = true\n");
        write("other.json", b"{\"hello\": 1}");
        write("unfinished.json", b"{\"command\": \"solve\", \"version\": \"0.2.0\"}");
        folder
    })
    .path()
}
