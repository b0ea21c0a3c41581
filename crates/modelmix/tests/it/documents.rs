//! Results as JSON: every kind round-trips, under the name of its command.

use modelmix::document::Document;
use modelmix::metrics::ScoreSettings;
use modelmix::mixture::{Analyses, Bandwidths, Budget, solve_with_analyses};
use modelmix::policy::Random;
use modelmix::simplex::Bounds;
use modelmix::{
    Curation, Features, Gap, Inputs, Loss, Objective, RecordedArm, RecordedArms, Selection, Simulation, Until, curate,
    score, simulate, solve,
};
use serde_json::Value;

fn arms() -> RecordedArms {
    let mut random = Random::seeded(3);
    let mut arm = |name: &str, centre: f64| {
        let rows = (0..30).map(|_| [0; 3].map(|_| (centre + random.normal()) as f32));
        RecordedArm::new(name, Features::from_rows(rows).unwrap())
    };
    RecordedArms::new(vec![arm("left", 0.0), arm("middle", 1.0), arm("right", 2.0)]).unwrap()
}

fn loss(objective: &str) -> Loss {
    let arms = arms();
    let reference = arms[1].features.clone();
    Objective::parse(objective).unwrap().prepare(Inputs::new().arms(&arms).reference(reference)).unwrap()
}

fn there_and_back(document: Document, command: &str) -> Value {
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document, "{command}");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["command"], &value["version"]), (&command.into(), &modelmix::VERSION.into()));
    value
}

#[test]
fn documents_come_back_as_they_were() {
    let arms = arms();
    let fees = arms.names().into_iter().map(|name| (name, 2.0));
    let budget = Budget::by_arm(&arms.names(), fees, None, None, "5%".parse().unwrap()).unwrap();
    let analyses = Analyses::default()
        .subsets(true)
        .budget(budget)
        .front(loss("mmd(bandwidth=1)"))
        .bandwidths(Bandwidths::Auto)
        .without_intervals(false);
    let asked = solve_with_analyses(&arms, &loss("rke(bandwidth=2)"), &Bounds::simplex(3), &analyses).unwrap();
    let value = there_and_back(Document::Solve(asked.clone()), "solve");
    assert_eq!(value["quadratic"][1][2], asked.form.at(1, 2));
    assert_eq!(value["quadratic"].as_array().unwrap().len(), 3);
    for answer in ["subsets", "cheapest", "front", "sensitivity"] {
        assert!(!value[answer].is_null(), "{answer}");
    }
    let plain = there_and_back(Document::Solve(solve(&arms, &loss("fid")).unwrap()), "solve");
    assert!(plain.get("subsets").is_none() && plain["p_value"].is_null() && plain["kernel"].is_null());

    let settings = ScoreSettings::default().order(f64::INFINITY);
    let scores = score(&arms, Some(&arms[0].features), &settings, Some(&[1.0, 1.0, 2.0])).unwrap();
    let value = there_and_back(Document::Score(scores), "score");
    assert_eq!(value["settings"]["vendi"]["order"], "inf");
    let bare = score(&arms, None, &ScoreSettings::default().without_reference(), None).unwrap();
    let value = there_and_back(Document::Score(bare), "score");
    assert!(value["mixture"].is_null() && value["settings"].get("kid").is_none());

    let simulation = Simulation::default().rounds(40).seeds(2).checkpoints(4);
    let plain = simulate(&arms, &loss("rke(bandwidth=2)"), &simulation).unwrap();
    let value = there_and_back(Document::Simulate(plain), "simulate");
    assert!(value.get("note").is_none() && value["policies"]["adaptive"].get("kept_loss").is_none());
    let until = Some(Until::new(Gap::Share(0.05)));
    let selective = simulation.clone().select(Selection::BetterHalf).until(until);
    let kept = simulate(&arms, &loss("rke(bandwidth=2)"), &selective).unwrap();
    let value = there_and_back(Document::Simulate(kept), "simulate");
    assert_eq!(value["order"][0], "adaptive");
    assert_eq!(value["policies"]["adaptive"]["kept_loss"]["mean"].as_array().unwrap().len(), 4);

    let set = curate(&arms, &loss("rke(bandwidth=2)"), &Curation::default().count(6)).unwrap();
    let value = there_and_back(Document::Curate(set), "curate");
    assert_eq!(value["rows"].as_array().unwrap().len(), 6);
}

/// An invalid form is rejected when it is read.
#[test]
fn a_form_that_does_not_fit_is_refused() {
    let best = solve(&arms(), &loss("rke(bandwidth=2)")).unwrap();
    let spoiled = |spoil: fn(&mut Value)| {
        let mut value = serde_json::to_value(Document::Solve(best.clone())).unwrap();
        spoil(&mut value);
        serde_json::from_value::<Document>(value).unwrap_err().to_string()
    };
    let ragged = spoiled(|value| drop(value["quadratic"][1].as_array_mut().unwrap().pop()));
    assert!(ragged.contains("K has a row of 2 entries and f has 3"), "{ragged}");
    let short = spoiled(|value| drop(value["quadratic"].as_array_mut().unwrap().pop()));
    assert!(short.contains("K has 6 entries and f has 3"), "{short}");
    let uneven = spoiled(|value| value["quadratic"][0][1] = 7.0.into());
    assert!(uneven.contains("K is not symmetric"), "{uneven}");
}
