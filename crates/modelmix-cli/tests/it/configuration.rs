//! `--config`: a file of options means what the options mean, and what is typed wins.

use super::world::World;

const FILE: &str = "\
arms = ['x=made/a.npy', 'made/b.npy']
reference = 'made/reference.npy'
objective = 'kid - 0.2*cost'
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
    let typed = world.json(&format!("{TYPED} --objective 'kid - 0.2*cost' --floor x=0.1"));
    assert_eq!(world.json("solve --config options.toml"), typed);
    assert_eq!(world.json("solve --config=options.toml"), typed);
}

#[test]
fn what_is_typed_wins() {
    let world = world();
    let typed = world.json(&format!("{TYPED} --objective kid --floor x=0.3"));
    assert_eq!(world.json("solve --objective kid --config options.toml --floor x=0.3"), typed);
    assert_eq!(world.json("solve --config options.toml -okid --floor=x=0.3"), typed);
    let arms = world.json("solve --config options.toml x=made/b.npy b=made/a.npy --floor x=0 --objective rke");
    let expected = TYPED.replace("x=made/a.npy made/b.npy", "x=made/b.npy b=made/a.npy");
    assert_eq!(arms, world.json(&format!("{expected} --objective rke --floor x=0")));
}

#[test]
fn every_command_takes_one() {
    let world = World::new();
    world.write(
        "score.toml",
        "arms = ['made/a.npy', 'made/b.npy']\nmetrics = ['rke', 'vendi']\nno_mixture = true\njson = true\n",
    );
    let typed = world.json("score made/a.npy made/b.npy --metrics rke,vendi --no-mixture --json");
    assert_eq!(world.json("score --config score.toml"), typed);
    let simulate = "arms = 'made/a.npy'\npolicy = ['cab(sensitivity=0.1, beta=3)', 'uniform']\nrounds = 5\nseeds = 2\nin-flight = 2\n";
    world.write("simulate.toml", simulate);
    let typed =
        "simulate made/a.npy --policy 'cab(sensitivity=0.1, beta=3),uniform' --rounds 5 --seeds 2 --in-flight 2";
    assert_eq!(world.answer("simulate --config simulate.toml"), world.answer(typed));
    world.write("false.toml", "quiet = false\njson = false\n");
    assert!(world.answer("solve made/a.npy made/b.npy --config false.toml").starts_with("Mix "));
}

/// A value that begins with a minus is a value: it is no flag, and it keeps nothing else out of the file.
#[test]
fn values_may_begin_with_a_minus() {
    let world = World::new();
    world.write(
        "minus.toml",
        "arms = ['made/a.npy', 'made/b.npy']\nreference = 'made/reference.npy'\nscores = 'made/scores.json'\n\
         objective = '-wit + kid'\nfront = '-wit'\njson = true\n",
    );
    let typed =
        "solve made/a.npy made/b.npy --reference made/reference.npy --scores made/scores.json --front=-wit --json";
    let typed = world.json(&format!("{typed} --objective '-wit + kid'"));
    assert_eq!(world.json("solve --config minus.toml"), typed);
    // The same option on the command line overrides the file's, and nothing else.
    let rke = world.json("solve --config minus.toml --objective '-wit + rke'");
    assert_eq!((&rke["objective"], &rke["front"]["objective"]), (&"-wit + rke".into(), &typed["front"]["objective"]));
}

/// Values have the types of their options.
#[test]
fn values_are_typed() {
    let world = World::new();
    world.write(
        "typed.toml",
        "arms = ['made/a.npy', 'made/b.npy']\nbandwidths = [1, 2.5]\nsubsets = true\nwithin = 0.01\njson = true\n[fees]\na = 3\n",
    );
    let typed = "solve made/a.npy made/b.npy --bandwidths 1,2.5 --subsets --within 0.01 --fees a=3 --json";
    assert_eq!(world.json("solve --config typed.toml"), world.json(typed));
    world.write("until.toml", "until = '5%'\nconfidence = 0.9\ncertify = 'shares'\nselect = 'better-half'\n");
    let simulate = "simulate made/a.npy made/b.npy --rounds 5 --seeds 2 --json";
    let typed = world.json(&format!("{simulate} --until 5% --confidence 90% --certify shares --select better-half"));
    assert_eq!(world.json(&format!("{simulate} --config until.toml")), typed);
    let all = world.json(&format!("{simulate} --config until.toml --select all"));
    assert!(all.get("select").is_none() && all["until"]["confidence"] == 0.9);
}
