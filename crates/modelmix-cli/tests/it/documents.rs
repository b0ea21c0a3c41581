//! What `--json` prints: the schemas that are checked in describe it, and its numbers are those of NumPy and of the tools that
//! people use (`crates/modelmix/tests/golden`).

use std::path::Path;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use super::world::World;

const SOLVE: &str =
    "solve fashion/specialists.npz --reference fashion/reference.npy --objective kid --bandwidth 20 --json";
const SCORE: &str = "score fashion/specialists.npz --reference fashion/reference.npy --bandwidth 20 --json";

fn read(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn schema(command: &str) -> Value {
    read(&format!("schema/{command}.schema.json"))
}

/// What the schema has against a document; nothing where it is valid.
fn objection(document: &Value) -> Option<String> {
    let schema = schema(document["command"].as_str().unwrap());
    let address = schema["$id"].as_str().unwrap().to_string();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    for command in ["solve", "score", "simulate", "curate", "reproduce"] {
        let schema = self::schema(command);
        compiler.add_resource(schema["$id"].clone().as_str().unwrap(), schema).unwrap();
    }
    let index = compiler.compile(&address, &mut schemas).unwrap();
    schemas.validate(document, index).err().map(|error| format!("{error:#}"))
}

fn valid(document: &Value) {
    assert_eq!(objection(document), None);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
fn close(found: &Value, expected: &Value, tolerance: f64) {
    let (found, expected) = (number(found), number(expected));
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1e-3), "{found} is not {expected}");
}

fn arm<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == name).unwrap()
}

/// Experiments print the documents of the other commands within theirs; features that are not there are skipped.
#[test]
fn reproduce_has_all_documents() {
    let world = World::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let (fashion, paper) = (here.join("fashion/categories-rke.toml"), here.join("paper/sofa-rke.toml"));
    let document = world.json(&format!("reproduce {} {} --json", fashion.display(), paper.display()));
    valid(&document);
    assert_eq!((&document["passed"], &document["experiments"][0]["passed"]), (&json!(true), &json!(true)));
    assert_eq!(document["experiments"][0]["solve"]["command"], "solve");
    assert!(document["experiments"][1]["skipped"].is_string());
    let mut spoiled = document;
    spoiled["experiments"][0]["simulate"]["policies"]["adaptive"]["rounds"] = json!("many");
    assert!(objection(&spoiled).is_some());
}

#[test]
fn solve_has_the_numbers_of_numpy() {
    let document = World::new().json(SOLVE);
    valid(&document);
    let golden = read("../modelmix/tests/golden/fashion.json");
    let case = &golden["cases"][0];
    assert_eq!((&case["scenario"], &case["objective"]), (&json!("specialists"), &json!("kid")));
    assert_eq!(document["kernel"], json!({"name": "gaussian", "bandwidth": 20.0}));
    close(&document["mixture"]["loss"], &case["loss"], 1e-5);
    close(&document["gain"], &case["gain"], 1e-5);
    close(&document["constant"], &case["constant"], 1e-6);
    for (index, arm) in document["arms"].as_array().unwrap().iter().enumerate() {
        assert_eq!(arm["name"], case["arms"][index]);
        assert!((number(&arm["weight"]) - number(&case["weights"][index])).abs() < 1e-5);
        close(&arm["loss"], &case["single_losses"][index], 1e-5);
        close(&document["linear"][index], &case["f"][index], 1e-6);
        for other in 0..5 {
            close(&document["quadratic"][index][other], &case["K"][index][other], 1e-6);
        }
    }
    assert_eq!(document["best_single"]["name"], "flow");
    assert!(number(&document["mixture"]["gap"]) < 1e-10);
}

#[test]
fn score_has_the_numbers_of_other_tools() {
    let world = World::new();
    let document = world.json(&format!("{SCORE} --weights flow=1,vae=3"));
    valid(&document);
    let golden = read("../modelmix/tests/golden/metrics.json");
    let of_flow = |table: &str| {
        let whole = |set: &Value| set["arms"] == json!(["flow"]) && set["rows"] == 1500 && set["columns"] == 64;
        let cases = golden[table].as_array().unwrap();
        cases.iter().find(|case| whole(&case["generated"]) || whole(&case["first"])).unwrap().clone()
    };
    let scores = &arm(&document, "flow")["scores"];
    close(&scores["fid"], &of_flow("fid")["clean_fid"], 1e-8);
    close(&scores["rke"], &of_flow("rke")["mode_count"], 1e-8);
    close(&scores["vendi"], &of_flow("vendi")["value"]["1"], 1e-8);
    close(&scores["kid"], &of_flow("kid")["mean"], 1e-5);
    close(&scores["kid_std"], &of_flow("kid")["std"], 1e-5);
    for metric in ["precision", "recall", "density", "coverage"] {
        close(&scores[metric], &of_flow("prdc")["prdc"][metric], 1e-12);
    }
    let weights = json!({"flow": 0.25, "legs_bags_gan": 0.0, "shoes_gan": 0.0, "tops_gan": 0.0, "vae": 0.75});
    assert_eq!(document["mixture"]["weights"], weights);
}

#[test]
fn simulate_agrees_with_solve() {
    let world = World::new();
    let line = SOLVE.replacen("solve", "simulate", 1) + " --rounds 200 --seeds 3 --checkpoints 4 --policy";
    let document = world.json(&format!("{line} adaptive,uniform,one-arm-oracle,mixture-oracle --seed 7"));
    valid(&document);
    let solved = world.json(SOLVE);
    close(&document["optimum"]["loss"], &solved["mixture"]["loss"], 1e-9);
    close(&document["gain"], &solved["gain"], 1e-9);
    assert_eq!((&document["seeds"], &document["seed"]), (&json!(3), &json!(7)));
    assert_eq!(document["order"], json!(["adaptive", "uniform", "one-arm-oracle", "mixture-oracle"]));
    let policies = &document["policies"];
    assert_eq!(policies["adaptive"]["rounds"], json!([50, 100, 150, 200]));
    assert_eq!(policies["one-arm-oracle"]["weights"], json!([0.0, 0.0, 0.0, 0.0, 1.0]));
    let regret = |policy: &str| number(&policies[policy]["regret"]["mean"][3]);
    close(&json!(regret("one-arm-oracle")), &solved["gain"], 1e-9);
    // αᵀKα + fᵀα + constant at even shares, less the optimum.
    let mut even = number(&solved["constant"]) - number(&solved["mixture"]["loss"]);
    for i in 0..5 {
        even += number(&solved["linear"][i]) / 5.0;
        even += (0..5).map(|j| number(&solved["quadratic"][i][j]) / 25.0).sum::<f64>();
    }
    close(&json!(regret("uniform")), &json!(even), 1e-6);
    assert!(regret("mixture-oracle") < regret("uniform") && regret("adaptive") < regret("uniform"));
    assert_eq!(
        world.json(&format!("{line} uniform --threads 1"))["policies"],
        world.json(&format!("{line} uniform --threads 3"))["policies"]
    );
}

/// A warm start: its size is in the document and in a line of the table, and rounds are those that were paid for.
#[test]
fn simulate_with_known_samples_says_so() {
    let world = World::new();
    let line = SOLVE.replacen("solve", "simulate", 1) + " --rounds 60 --seeds 3 --checkpoints 1 --policy adaptive";
    let (cold, warm) = (world.json(&line), world.json(&format!("{line} --known 10")));
    valid(&warm);
    assert_eq!((&warm["known"], cold.get("known")), (&json!(10), None));
    assert_eq!(warm["policies"]["adaptive"]["rounds"], json!([60]));
    let regret = |document: &Value| number(&document["policies"]["adaptive"]["regret"]["mean"][0]);
    assert!(regret(&warm) < regret(&cold), "{} {}", regret(&warm), regret(&cold));
    let said = world.answer(&format!("{line} --known 10").replace(" --json", ""));
    assert!(said.contains("warm start: 10 recorded samples per arm"), "{said}");
}

/// Documents of every shape: without quadratic terms, without intervals, without a mixture, with settings of a preset.
#[test]
fn every_kind_of_document_is_valid() {
    let world = World::new();
    let pair = "made/a.npy made/b.npy --json";
    for line in [
        "solve made/a.npy --json".to_string(),
        format!("solve {pair} --objective cost --costs a=1,b=2"),
        format!("solve {pair} --objective vendi"),
        format!("solve {pair} --objective fid --reference made/reference.npy"),
        format!(
            "solve {pair} --objective 'rke(kernel=laplacian) + mmd(kernel=kid) + wit' --reference made/reference.npy --scores made/scores.json"
        ),
        format!("solve {pair} --objective 'mmd(kernel=cosine)' --reference made/reference.npy --floor a=0.9"),
        format!("solve {pair} --subsets --bandwidths auto --front vendi"),
        format!(
            "solve {pair} --subsets --objective 'vendi(kernel=gaussian)' --bandwidths 1,2 --front=-wit --scores made/scores.json"
        ),
        format!("solve {pair} --fees a=3 --within 0.01"),
        format!("solve {pair} --costs a=1,b=2 --samples 10 --front cost"),
        "solve made/a.npy --subsets --bandwidths auto --front 'rke(bandwidth=1)' --fees a=1 --json".to_string(),
        format!("score {pair} --no-mixture --order inf"),
        format!("score {pair} --metrics vendi"),
        format!(
            "score {pair} --reference made/reference.npy --metrics kid,kid_full,mmd,cmmd,recall --subset-size 10 --subsets 3"
        ),
        format!("score {pair} --reference made/reference.npy --preset prdc"),
        format!("score {pair} --reference made/reference.npy --preset torch-fidelity --subset-size 10"),
        format!("simulate {pair} --rounds 7 --seeds 1 --checkpoints 3 --policy 'cab(sensitivity=0.1),halving'"),
        format!("simulate {pair} --rounds 7 --objective cost --costs a=1,b=2 --policy uniform"),
        format!("simulate {pair} --rounds 30 --seeds 2 --hold 10 --feature-error 0.1 --forget half-life=20"),
        format!("simulate {pair} --rounds 9 --seeds 2 --checkpoints 3 --select better-half --policy uniform,greedy"),
        format!("curate {pair} --count 5 --proportions free"),
        format!("curate {pair} --count 5 --objective cost --costs a=1,b=2"),
        format!(
            "curate {pair} --count 7 --pool 20 --objective 'mmd + wit' --reference made/reference.npy --scores made/scores.json"
        ),
    ] {
        let document = world.json(&line);
        if let Some(objection) = objection(&document) {
            panic!("{line}: {objection}");
        }
    }
}

#[test]
fn schemas_refuse_what_they_do_not_know() {
    let document = World::new().json("solve made/a.npy made/b.npy --json");
    let spoiled = |spoil: &dyn Fn(&mut Value)| {
        let mut document = document.clone();
        spoil(&mut document);
        objection(&document).is_some()
    };
    assert!(spoiled(&|document| document["more"] = json!(1)));
    assert!(spoiled(&|document| document["arms"][0]["more"] = json!(1)));
    assert!(spoiled(&|document| document["kernel"]["bandwidth"] = json!(-1)));
    assert!(spoiled(&|document| document["mixture"]["loss"] = Value::Null));
    assert!(spoiled(&|document| drop(document.as_object_mut().unwrap().remove("gain"))));
}

/// Every field is described, and no object lets unknown fields pass.
#[test]
fn schemas_describe_every_field() {
    fn walk(schema: &Value, root: &Value, path: &str) {
        match schema {
            Value::Object(fields) => {
                if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                    assert_eq!(fields.get("additionalProperties"), Some(&json!(false)), "{path}");
                    for (name, property) in properties {
                        let target = property["$ref"].as_str().and_then(|at| root.pointer(&at[1..]));
                        let described = [Some(property), target].into_iter().flatten();
                        assert!(described.map(|schema| &schema["description"]).any(Value::is_string), "{path}/{name}");
                    }
                }
                fields.iter().for_each(|(name, value)| walk(value, root, &format!("{path}/{name}")));
            }
            Value::Array(values) => values.iter().for_each(|value| walk(value, root, path)),
            _ => {}
        }
    }
    for command in ["solve", "score", "simulate", "curate"] {
        let schema = schema(command);
        walk(&schema, &schema, command);
    }
}
