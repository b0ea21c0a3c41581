//! `--config`: options of a file mean the same as on the command line, and command-line flags override them.

use super::world::World;

const FILE: &str = "\
arms = ['x=made/a.npy', 'made/b.npy']
reference = 'made/reference.npy'
objective = 'mmd - 0.2*cost'
bandwidth = 2
floor = { x = 0.1 }
json = true

[costs]
x = 1
b = 2.5
";
const TYPED: &str =
    "solve x=made/a.npy made/b.npy --reference made/reference.npy --bandwidth 2 --costs x=1,b=2.5 --json";

fn world() -> World {
    let world = World::new();
    world.write("options.toml", FILE);
    world
}

#[test]
fn a_file_means_what_its_options_mean() {
    let world = world();
    let typed = world.result(&format!("{TYPED} --objective 'mmd - 0.2*cost' --floor x=0.1"));
    assert_eq!(world.result("solve --config options.toml"), typed);
    assert_eq!(world.result("solve --config=options.toml"), typed);
}

#[test]
fn what_is_typed_wins() {
    let world = world();
    let typed = world.result(&format!("{TYPED} --objective mmd --floor x=0.3"));
    assert_eq!(world.result("solve --objective mmd --config options.toml --floor x=0.3"), typed);
    assert_eq!(world.result("solve --config options.toml -ommd --floor=x=0.3"), typed);
    let arms = world.result("solve --config options.toml x=made/b.npy b=made/a.npy --floor x=0 --objective rke");
    let expected = TYPED.replace("x=made/a.npy made/b.npy", "x=made/b.npy b=made/a.npy");
    assert_eq!(arms, world.result(&format!("{expected} --objective rke --floor x=0")));
}

#[test]
fn every_command_takes_one() {
    let world = World::new();
    world.write(
        "score.toml",
        "arms = ['made/a.npy', 'made/b.npy']\nmetrics = ['rke', 'vendi']\nno_mixture = true\njson = true\n",
    );
    let typed = world.result("score made/a.npy made/b.npy --metrics rke,vendi --no-mixture --json");
    assert_eq!(world.result("score --config score.toml"), typed);
    let simulate = "arms = 'made/a.npy'\npolicy = ['cab(sensitivity=0.1, beta=3)', 'uniform']\nrounds = 5\nseeds = 2\nin-flight = 2\n";
    world.write("simulate.toml", simulate);
    let typed =
        "simulate made/a.npy --policy 'cab(sensitivity=0.1, beta=3),uniform' --rounds 5 --seeds 2 --in-flight 2";
    assert_eq!(world.answer("simulate --config simulate.toml"), world.answer(typed));
    world.write("engine.toml", "engine = 'cpu'\ngpu-memory = '2GB'\n");
    let (automatic, chosen) = ("solve made/a.npy made/b.npy", "solve made/a.npy made/b.npy --config engine.toml");
    assert_eq!(world.answer(chosen), world.answer(automatic), "little work is done by the processor in any case");
    world.write("false.toml", "quiet = false\njson = false\n");
    assert!(world.answer("solve made/a.npy made/b.npy --config false.toml").starts_with("Mix "));
}

/// A value that begins with a minus sign is a value, not a flag, and does not hide other options of the file.
#[test]
fn values_may_begin_with_a_minus() {
    let world = World::new();
    world.write(
        "minus.toml",
        "arms = ['made/a.npy', 'made/b.npy']\nreference = 'made/reference.npy'\nscores = 'made/scores.json'\n\
         objective = '-wit + mmd'\nfront = '-wit'\njson = true\n",
    );
    let typed =
        "solve made/a.npy made/b.npy --reference made/reference.npy --scores made/scores.json --front=-wit --json";
    let typed = world.result(&format!("{typed} --objective '-wit + mmd'"));
    assert_eq!(world.result("solve --config minus.toml"), typed);
    // The same option on the command line overrides only that of the file.
    let rke = world.result("solve --config minus.toml --objective '-wit + rke'");
    assert_eq!((&rke["objective"], &rke["front"]["objective"]), (&"-wit + rke".into(), &typed["front"]["objective"]));
}

/// Values have the types of their options.
#[test]
fn values_are_typed() {
    let world = World::new();
    world.write(
        "typed.toml",
        "arms = ['made/a.npy', 'made/b.npy']\nbandwidths = [1, 2.5]\nsubsets = true\nwithin = 'loss=0.01'\njson = true\n[fees]\na = 3\nb = 0\n",
    );
    let typed = "solve made/a.npy made/b.npy --bandwidths 1,2.5 --subsets --within loss=0.01 --fees a=3,b=0 --json";
    assert_eq!(world.result("solve --config typed.toml"), world.result(typed));
    world.write("until.toml", "until = '5%'\nconfidence = 0.9\ncertify = 'shares'\nselect = 'better-half'\n");
    let simulate = "simulate made/a.npy made/b.npy --rounds 5 --seeds 2 --json";
    let typed = world.result(&format!("{simulate} --until 5% --confidence 90% --certify shares --select better-half"));
    assert_eq!(world.result(&format!("{simulate} --config until.toml")), typed);
    let all = world.result(&format!("{simulate} --config until.toml --select all"));
    assert!(all.get("select").is_none() && all["until"]["confidence"] == 0.9);
}

/// A command-line flag overrides options of the file that conflict with it; flags of the file can be turned off.
#[test]
fn typed_options_override_those_that_exclude_them() {
    let world = World::new();
    let score = "score made/a.npy made/b.npy --metrics rke --json";
    world.write("none.toml", "no-mixture = true\n");
    world.write("weights.toml", "weights = { a = 1 }\n");
    let (with, without) =
        (world.result(&format!("{score} --weights a=1")), world.result(&format!("{score} --no-mixture")));
    assert_eq!(world.result(&format!("{score} --config none.toml --weights a=1")), with);
    assert_eq!(world.result(&format!("{score} --config weights.toml --no-mixture")), without);
    assert_eq!(world.result(&format!("{score} --config weights.toml --no-mixture=false")), with);
    assert_eq!(world.result(&format!("{score} --config none.toml --no-mixture=false")), world.result(score));
    // A flag that is off excludes nothing.
    world.write("off.toml", "no-mixture = false\nweights = { a = 1 }\n");
    assert_eq!(world.result(&format!("{score} --config off.toml")), with);
    world.write("subsets.toml", "subsets = true\n");
    let solve = "solve made/a.npy made/b.npy --no-intervals --json";
    let (plain, subsets) = (world.result(solve), world.result(&format!("{solve} --subsets=true")));
    assert_ne!(plain, subsets);
    assert_eq!(world.result(&format!("{solve} --config subsets.toml")), subsets);
    assert_eq!(world.result(&format!("{solve} --config subsets.toml --subsets=false")), plain);
}

/// A required option may be on the command line or in the file.
#[test]
fn companions_may_come_from_either_side() {
    let world = World::new();
    world.write("until.toml", "until = '5%'\n");
    world.write("confidence.toml", "confidence = '90%'\n");
    let simulate = "simulate made/a.npy made/b.npy --rounds 5 --seeds 2 --json";
    let typed = world.result(&format!("{simulate} --until 5% --confidence 90%"));
    assert_eq!(world.result(&format!("{simulate} --config until.toml --confidence 90%")), typed);
    assert_eq!(world.result(&format!("{simulate} --config confidence.toml --until 5%")), typed);
}

/// A 64-bit number, infinity as in the help, and number formats of TOML.
#[test]
fn numbers_are_those_of_the_command_line() {
    let world = World::new();
    world.write("seed.toml", "seed = 18446744073709551615\n");
    let solve = "solve made/a.npy made/b.npy --json";
    let typed = world.result(&format!("{solve} --seed 18446744073709551615"));
    assert_eq!(world.result(&format!("{solve} --config seed.toml")), typed);
    let score = "score made/a.npy made/b.npy --metrics vendi --no-mixture --json";
    let typed = world.result(&format!("{score} --order inf"));
    for order in ["'inf'", "inf", "+inf"] {
        world.write("order.toml", format!("order = {order}\n"));
        assert_eq!(world.result(&format!("{score} --config order.toml")), typed, "{order}");
    }
    world.write("seed.toml", "seed = 0xff\nbandwidth = 1_0.0\n");
    let typed = world.result(&format!("{solve} --seed 255 --bandwidth 10"));
    assert_eq!(world.result(&format!("{solve} --config seed.toml")), typed);
}

#[test]
fn files_are_refused_in_a_sentence_that_names_them() {
    let huge = "9".repeat(60);
    let deep = "[".repeat(200);
    let cases: &[(&str, &str, &[&str])] = &[
        ("score", "no-mixture = true\nweights = { a = 1 }", &["c.toml: ", "weights cannot be used with no-mixture"]),
        ("simulate", "confidence = '90%'", &["c.toml: confidence needs until; add until, or remove confidence"]),
        ("simulate", "certify = 'shares'", &["c.toml: certify needs until"]),
        ("solve", "seed = -1", &["c.toml: seed is -1, but it must be a whole number, 0 or more"]),
        ("solve", &format!("seed = {huge}"), &["c.toml: seed is 999", "a whole number, at most 18446744073709551615"]),
        ("simulate", "known = 18446744073709551616", &["c.toml: known is 18446744073709551616", "at most"]),
        ("simulate", "batch = 99999999999", &["c.toml: batch is 99999999999, but it must be less"]),
        ("solve", "bandwidth = 1e999", &["c.toml: bandwidth is 1e999", "positive number"]),
        ("solve", "seed = 1\nseed = 2", &["c.toml: line 2: duplicate key", "each once"]),
        ("solve", &format!("seed = {deep}"), &["c.toml: line 1: ", "each once"]),
        ("solve", "html = ''", &["c.toml: html is '', but it must be a path that is not empty"]),
        ("curate -n 4", "out = ''", &["c.toml: out is ''"]),
        ("solve", "html = 1", &["c.toml: html is 1, but it must be a string in quotes"]),
        ("solve", "title = 2026", &["c.toml: title is 2026, but it must be a string in quotes"]),
        ("score", "subset-seed = 4294967296", &["c.toml: subset-seed is 4294967296", "at most 4294967295"]),
        ("solve", "threads = 0", &["c.toml: threads is 0, but it must be a whole number, at least 1"]),
        ("simulate", "in-flight = 0", &["c.toml: in-flight is 0", "at least 1"]),
        ("simulate", "hold = 3", &["c.toml: hold is 3", "at least 8"]),
        ("score", "metrics = ['rke', 'rke']", &["metric rke is listed twice"]),
        ("score", "metrics = []", &["c.toml: metrics is [], but it must be a list of at least one value"]),
        ("score", "neighbours = 0", &["c.toml: neighbours is 0", "at least 1"]),
        ("score", "subset-size = 0", &["c.toml: subset-size is 0", "at least 2"]),
        ("score", "subsets = 0", &["c.toml: subsets is 0", "at least 1"]),
        ("solve", "[solve]\nseed = 1", &["c.toml: [solve] is a table", "key = value at the top"]),
        ("solve", "seed = 'one'", &["c.toml: seed is \"one\", but it must be a whole number, 0 or more"]),
    ];
    for (command, file, words) in cases {
        let world = World::new();
        world.write("c.toml", file);
        let run = world.run(&format!("{command} made/a.npy made/b.npy --config c.toml"));
        assert_eq!((run.code, run.stderr.lines().count()), (2, 1), "{file}: {}", run.stderr);
        for word in *words {
            assert!(run.stderr.contains(word), "{file}: {} does not say {word}", run.stderr);
        }
    }
}
