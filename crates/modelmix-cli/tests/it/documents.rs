//! `--json` documents: their numbers are those of NumPy and of common tools (`crates/modelmix/tests/golden`), and the
//! schemas in the repository are those of the types. `python/tests/test_command_documents.py` validates documents against them.

use std::path::Path;

use serde_json::{Value, json};

use super::world::World;

const SOLVE: &str =
    "solve fashion/specialists.npz --reference fashion/reference.npy --objective mmd --bandwidth 20 --json";
const SCORE: &str = "score fashion/specialists.npz --reference fashion/reference.npy --bandwidth 20 --json";

fn read(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn schema(command: &str) -> Value {
    read(&format!("schema/{command}.schema.json"))
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

/// The document of `reproduce` contains those of other commands; experiments with missing features are skipped.
#[test]
fn reproduce_has_all_documents() {
    let world = World::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let (fashion, paper) = (here.join("fashion/categories-rke.toml"), here.join("paper/sofa-rke.toml"));
    let document = world.json(&format!("reproduce {} {} --json", fashion.display(), paper.display()));
    assert_eq!((&document["passed"], &document["experiments"][0]["passed"]), (&json!(true), &json!(true)));
    assert_eq!(document["experiments"][0]["solve"]["command"], "solve");
    assert!(document["experiments"][1]["skipped"].is_string());
}

#[test]
fn solve_has_the_numbers_of_numpy() {
    let document = World::new().json(SOLVE);
    let golden = read("../modelmix/tests/golden/fashion.json");
    let case = &golden["cases"][0];
    assert_eq!((&case["scenario"], &case["objective"]), (&json!("specialists"), &json!("mmd")));
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
    let document = world.json(&format!("{SCORE} --weights flow=0.25,vae=0.75"));
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
    // αᵀKα + fᵀα + constant at equal shares, minus the optimum.
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

/// Intervals are expensive with many arms; without them everything else is the same.
#[test]
fn intervals_may_be_left_out() {
    let world = World::new();
    let (with, mut without) = (world.json(SOLVE), world.json(&format!("{SOLVE} --no-intervals")));
    assert_eq!((&with["intervals"], &without["intervals"]), (&json!("computed"), &json!("left_out")));
    assert!(with["p_value"].is_number() && without["p_value"].is_null() && without["gain_interval"].is_null());
    for field in ["intervals", "p_value", "gain_interval", "provenance"] {
        without[field] = with[field].clone();
    }
    for (index, arm) in without["arms"].as_array_mut().unwrap().iter_mut().enumerate() {
        assert!(arm["interval"].is_null());
        arm["interval"] = with["arms"][index]["interval"].clone();
    }
    assert_eq!(without, with);
}

/// A warm start: its size is in the document and in a note of the table, and it does not count as rounds.
#[test]
fn simulate_with_known_samples_says_so() {
    let world = World::new();
    let line = SOLVE.replacen("solve", "simulate", 1) + " --rounds 60 --seeds 3 --checkpoints 1 --policy adaptive";
    let (cold, warm) = (world.json(&line), world.json(&format!("{line} --known 10")));
    assert_eq!((&warm["known"], cold.get("known")), (&json!(10), None));
    assert_eq!(warm["policies"]["adaptive"]["rounds"], json!([60]));
    let regret = |document: &Value| number(&document["policies"]["adaptive"]["regret"]["mean"][0]);
    assert!(regret(&warm) < regret(&cold), "{} {}", regret(&warm), regret(&cold));
    let said = world.answer(&format!("{line} --known 10").replace(" --json", ""));
    assert!(said.contains("warm start: 10 recorded samples per arm"), "{said}");
}

/// The schemas in the repository equal those generated from the types.
#[test]
fn schemas_are_those_of_the_types() {
    let world = World::new();
    for command in
        ["solve", "score", "simulate", "curate", "plan", "reproduce", "compare", "session", "encode", "status"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{command}.schema.json"));
        let made = world.answer(&format!("schema {command}"));
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, made).unwrap();
            continue;
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == made,
            "schema/{command}.schema.json is not that of the types; UPDATE_SCHEMAS=1 cargo test -p modelmix-cli --test it schemas_are writes it"
        );
    }
}

/// Every field has a description, and no object allows unknown fields.
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
    for command in
        ["solve", "score", "simulate", "curate", "plan", "reproduce", "compare", "session", "encode", "status"]
    {
        let schema = schema(command);
        walk(&schema, &schema, command);
    }
}
