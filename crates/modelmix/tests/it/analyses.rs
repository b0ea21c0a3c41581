//! Analyses: the best subsets of arms, the cheapest mixture within a loss limit, Pareto fronts, and other bandwidths.

mod cheapest;
mod front;
mod sensitivity;
mod solved;
mod subsets;

use modelmix::Quadratic;
use modelmix::policy::Random;

use super::simplex::normal;

/// Typical families of arms.
const FAMILIES: [&str; 6] = ["apart", "near duplicates", "duplicates", "dominated", "flat", "nested"];

/// K = AAᵀ + common and f: the rows of A are the arms' means in some feature space.
fn problem(family: &str, arms: usize, random: &mut Random) -> Quadratic {
    let rank = if family == "flat" { 2 } else { arms + 1 };
    let mut points: Vec<Vec<f64>> =
        (0..arms).map(|_| (0..rank).map(|_| normal(random) / (rank as f64).sqrt()).collect()).collect();
    let tilt = [0.0, 0.1, -0.1, 0.5][random.below(4)];
    let mut linear: Vec<f64> = (0..arms).map(|_| tilt * normal(random)).collect();
    for arm in arms.div_ceil(2)..arms {
        let other = random.below(arms.div_ceil(2));
        match family {
            "near duplicates" => {
                points[arm] = points[other].iter().map(|x| x + 0.02 * normal(random)).collect();
                linear[arm] = linear[other] + 0.001 * normal(random);
            }
            "duplicates" => (points[arm], linear[arm]) = (points[other].clone(), linear[other]),
            "dominated" => linear[arm] += 1.0,
            // Each is a mixture of two others and somewhat worse, so small subsets need them and large ones do not.
            "nested" => {
                let third = random.below(arms.div_ceil(2));
                points[arm] = points[other].iter().zip(&points[third]).map(|(x, y)| 0.5 * (x + y)).collect();
                linear[arm] = 0.5 * (linear[other] + linear[third]) + 0.05 * random.unit();
            }
            _ => {}
        }
    }
    let common = 0.4 * random.unit();
    let product = |i: usize, j: usize| common + points[i].iter().zip(&points[j]).map(|(a, b)| a * b).sum::<f64>();
    let quadratic = (0..arms * arms).map(|at| product(at / arms, at % arms)).collect();
    Quadratic::new(quadratic, linear).unwrap()
}

/// K and f of all shipped scenarios, from NumPy.
fn fashion() -> Vec<(String, Quadratic)> {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../golden/fashion.json")).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let case = |case: &serde_json::Value| {
        let quadratic = case["K"].as_array().unwrap().iter().flat_map(numbers).collect();
        let form = Quadratic::new(quadratic, numbers(&case["f"])).unwrap();
        (format!("{} {}", case["scenario"], case["objective"]), form)
    };
    golden["cases"].as_array().unwrap().iter().map(case).collect()
}
