//! Output for users, stored as text in `snapshots/`. `UPDATE_SNAPSHOTS=1 cargo test -p modelmix-cli` updates it.
//!
//! Numbers may differ in the last digits, since sums in single precision depend on the machine's instructions;
//! runs of policies may differ more, since a last digit can change a decision.

use std::path::Path;

use super::world::World;

/// Text split into words and numbers, so that numbers are compared as numbers.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Number(f64),
}

/// Several spaces count as one, since a number may have one digit less.
fn pieces(text: &str) -> Vec<Piece> {
    let letters: Vec<char> = text.chars().collect();
    let (mut pieces, mut at) = (Vec::new(), 0);
    let mut words = String::new();
    while at < letters.len() {
        // A round that was not reached is in the place of a number.
        if letters[at] == '–' && words.ends_with(' ') {
            pieces.push(Piece::Text(std::mem::take(&mut words)));
            pieces.push(Piece::Number(f64::NAN));
            at += 1;
            continue;
        }
        let starts = letters[at].is_ascii_digit() && (at == 0 || !letters[at - 1].is_alphanumeric());
        if !starts {
            if letters[at] != ' ' || !words.ends_with(' ') {
                words.push(letters[at]);
            }
            at += 1;
            continue;
        }
        let mut end = at + 1;
        while end < letters.len()
            && (letters[end].is_ascii_digit()
                || ".,e".contains(letters[end])
                    && letters.get(end + 1).is_some_and(|next| next.is_ascii_digit() || *next == '-')
                || letters[end] == '-' && letters[end - 1] == 'e')
        {
            end += 1;
        }
        let number: String = letters[at..end].iter().filter(|letter| **letter != ',').collect();
        match number.parse() {
            Ok(number) => {
                pieces.push(Piece::Text(std::mem::take(&mut words)));
                pieces.push(Piece::Number(number));
            }
            Err(_) => words.extend(&letters[at..end]),
        }
        at = end;
    }
    pieces.push(Piece::Text(words));
    pieces
}

/// Whether texts are equal except for numbers that differ by less than the relative `tolerance`.
pub(super) fn agree(a: &str, b: &str, tolerance: f64) -> bool {
    let (a, b) = (pieces(a), pieces(b));
    let same = |a: &Piece, b: &Piece| match (a, b) {
        (Piece::Number(a), Piece::Number(b)) if a.is_nan() && b.is_nan() => true,
        (Piece::Number(a), Piece::Number(b)) => {
            let never = tolerance == RUNS_TOLERANCE && (a.is_nan() || b.is_nan());
            never || (a - b).abs() <= tolerance * a.abs().max(b.abs()) + GAP_TOLERANCE
        }
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b))
}

fn check(name: &str, text: &str, tolerance: f64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        agree(&kept, text, tolerance),
        "{name} is not what it was; UPDATE_SNAPSHOTS=1 takes it as it is now.\n\n{kept}\n─── now ───\n{text}"
    );
}

const EXACT_TOLERANCE: f64 = 0.0;
/// Duality gaps in single precision.
const GAP_TOLERANCE: f64 = 1e-7;
/// Three digits are shown.
pub(super) const DIGITS_TOLERANCE: f64 = 0.015;
const RUNS_TOLERANCE: f64 = 0.5;

#[test]
fn help() {
    let world = World::new();
    check("help", &world.answer("--help"), EXACT_TOLERANCE);
    for command in
        ["demo", "solve", "score", "simulate", "curate", "plan", "reproduce", "report", "schema", "completions", "man"]
    {
        check(&format!("help-{command}"), &world.answer(&format!("{command} --help")), EXACT_TOLERANCE);
    }
}

#[test]
fn plan() {
    let world = World::new();
    let plan = "plan fashion/categories.npz --objective rke --bandwidth 20";
    check("plan", &world.answer(&format!("{plan} --gain-error 5% --costs sneaker=1,bag=4,coat=1")), DIGITS_TOLERANCE);
    check("plan-enough", &world.answer(&format!("{plan} --weight-error 0.1")), DIGITS_TOLERANCE);
    let limited = "plan fashion/specialists.npz --reference fashion/reference.npy --objective mmd --bandwidth 20";
    check("plan-limited", &world.answer(&format!("{limited} --gain-error 5%")), DIGITS_TOLERANCE);
}

#[test]
fn solve() {
    let world = World::new();
    let mmd = "solve fashion/specialists.npz --reference fashion/reference.npy --objective mmd --bandwidth 20";
    check("solve-mmd", &world.answer(mmd), DIGITS_TOLERANCE);
    let costs = "shoes_gan=3,tops_gan=2,legs_bags_gan=1,vae=1,flow=1";
    let bounded =
        format!("{mmd} --objective 'rke - 0.2*precision + 0.01*cost' --costs {costs} --floor vae=0.05 --cap flow=0.3");
    check("solve-bounded", &world.answer(&bounded.replace("--objective mmd ", "")), DIGITS_TOLERANCE);
    check(
        "solve-fid",
        &world.answer(&mmd.replace("--objective mmd --bandwidth 20", "--objective fid")),
        DIGITS_TOLERANCE,
    );
    check("solve-subsets", &world.answer(&format!("{mmd} --subsets")), DIGITS_TOLERANCE);
    let bargain = format!(
        "{mmd} --costs {costs} --samples 100 --fees tops_gan=50,flow=10,shoes_gan=0,legs_bags_gan=0,vae=0 --within 20%"
    );
    check("solve-cheapest", &world.answer(&bargain), DIGITS_TOLERANCE);
    let quality = "solve fashion/quality.npz --reference fashion/reference.npy --objective rke --bandwidth 20";
    check("solve-front", &world.answer(&format!("{quality} --front precision")), DIGITS_TOLERANCE);
    check("solve-bandwidths", &world.answer(&format!("{quality} --bandwidths 10,20,40")), DIGITS_TOLERANCE);
    check("solve-one-arm", &world.answer("solve fashion/specialists.npz:flow --objective rke"), DIGITS_TOLERANCE);
}

#[test]
fn score() {
    let world = World::new();
    let line = "score fashion/specialists.npz --reference fashion/reference.npy --bandwidth 20";
    check("score", &world.answer(line), DIGITS_TOLERANCE);
    let weights = format!("{line} --weights flow=0.25,vae=0.75 --metrics kid,fid --preset torch-fidelity");
    check("score-weights", &world.answer(&weights), DIGITS_TOLERANCE);
    check("score-no-reference", &world.answer("score fashion/truncated.npz --no-mixture"), DIGITS_TOLERANCE);
}

#[test]
fn simulate() {
    let world = World::new();
    let line =
        "simulate fashion/specialists.npz --reference fashion/reference.npy --bandwidth 20 --rounds 300 --seeds 4";
    check("simulate", &world.answer(line), RUNS_TOLERANCE);
    check("simulate-select", &world.answer(&format!("{line} --select better-half")), RUNS_TOLERANCE);
}

/// The chosen rows may depend on a last digit; their loss does not.
#[test]
fn curate() {
    let world = World::new();
    let line =
        "curate fashion/specialists.npz --reference fashion/reference.npy --objective mmd --bandwidth 20 --count 100";
    // A bar is text, and one row may change an eighth of it.
    let text = world.answer(line).replace(|letter: char| ('▁'..='▏').contains(&letter), "");
    check("curate", &text, RUNS_TOLERANCE);
}

/// Remarks are printed on standard error, so that results can be piped.
#[test]
fn demo() {
    let world = World::new();
    let run = world.run("demo");
    assert_eq!(run.code, 0, "{}", run.stderr);
    check("demo", &run.stdout, RUNS_TOLERANCE);
    check("demo-remarks", &run.stderr, EXACT_TOLERANCE);
    assert_eq!(world.left_behind(), ["modelmix-demo.html"]);
}

#[test]
fn report() {
    let world = World::new();
    world.write("solve.json", world.answer("solve made/a.npy made/b.npy --json"));
    let run = world.run("report solve.json --html report.html --svg figures");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    check("report-remarks", &run.stderr, EXACT_TOLERANCE);
    assert_eq!(world.run("report solve.json --html report.html --quiet").stderr, "");
}

#[test]
fn the_comparison_sees_differences() {
    assert!(agree("loss 0.147 of 1,500", "loss  0.148 of 1,500", DIGITS_TOLERANCE));
    assert!(!agree("loss 0.147 of 1,500", "loss 0.157 of 1,500", DIGITS_TOLERANCE));
    assert!(!agree("loss 0.147", "gain 0.147", DIGITS_TOLERANCE));
    assert!(agree("to 95% –", "to 95% 80", RUNS_TOLERANCE) && !agree("to 95% –", "to 95% 80", DIGITS_TOLERANCE));
    assert!(agree("adds –", "adds –", DIGITS_TOLERANCE));
    assert!(agree("within 2e-17", "within 1e-16", DIGITS_TOLERANCE));
    assert!(!agree("center1", "center2", RUNS_TOLERANCE));
    assert!(!agree("37.5%", "37.5", RUNS_TOLERANCE));
}
