//! Pareto fronts: every point is optimal for its λ, none between is missed, and the ends are the optima.

use modelmix::mixture::{Analyses, front_objective};
use modelmix::policy::Random;
use modelmix::simplex::{self, Bounds, Waypoint};
use modelmix::{Inputs, Objective, Quadratic};

use super::solved::{arms, reference};
use super::{FAMILIES, problem};
use crate::simplex::normal;

fn sum(first: &Quadratic, second: &Quadratic, multiplier: f64) -> Quadratic {
    let add = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + multiplier * b).collect();
    Quadratic::new(add(first.quadratic(), second.quadratic()), add(first.linear(), second.linear())).unwrap()
}

fn linear(values: Vec<f64>) -> Quadratic {
    Quadratic::new(vec![0.0; values.len() * values.len()], values).unwrap()
}

/// The minimum of A + λB on straight lines through the points.
fn along(path: &[Waypoint], form: &Quadratic) -> f64 {
    let mut least = form.value(&path[0].weights);
    for pair in path.windows(2) {
        let way: Vec<f64> = pair[1].weights.iter().zip(&pair[0].weights).map(|(b, a)| b - a).collect();
        let slope: f64 = form.gradient(&pair[0].weights).iter().zip(&way).map(|(g, w)| g * w).sum();
        let rows = form.quadratic().chunks(way.len());
        let bend: f64 = rows.zip(&way).map(|(row, w)| w * row.iter().zip(&way).map(|(k, w)| k * w).sum::<f64>()).sum();
        let share = if bend > 0.0 { (-slope / (2.0 * bend)).clamp(0.0, 1.0) } else { 0.0 };
        let at = |share: f64| {
            let weights: Vec<f64> = pair[0].weights.iter().zip(&way).map(|(a, w)| a + share * w).collect();
            form.value(&weights)
        };
        least = least.min(at(share)).min(at(1.0));
    }
    least
}

/// All guarantees of a path; `exact` if it is piecewise linear.
fn check(what: &str, first: &Quadratic, second: &Quadratic, exact: bool) -> Vec<Waypoint> {
    let arms = first.arms();
    let bounds = Bounds::simplex(arms);
    let path = simplex::path(first, second, &bounds).unwrap();
    let (start, end) = (&path[0], &path[path.len() - 1]);
    let least = |form: &Quadratic| simplex::minimize(form, &bounds).unwrap().value;
    assert!((start.values[0] - least(first)).abs() < 1e-9, "{what}: {} {}", start.values[0], least(first));
    assert!((end.values[1] - least(second)).abs() < 1e-9, "{what}: {} {}", end.values[1], least(second));
    for point in &path {
        assert!((point.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{what}");
        assert_eq!(point.values, [first.value(&point.weights), second.value(&point.weights)]);
        if point.multiplier.is_finite() {
            // Optimal for its λ, by the solver from scratch.
            let form = sum(first, second, point.multiplier);
            let off = form.value(&point.weights) - least(&form);
            assert!(off < 1e-8 * (1.0 + point.multiplier), "{what}: {off} at {}", point.multiplier);
        }
    }
    let range = start.values[1] - end.values[1];
    for pair in path.windows(2) {
        assert!(pair[0].multiplier <= pair[1].multiplier, "{what}");
        assert!(pair[0].values[0] < pair[1].values[0] + 1e-12 && pair[0].values[1] > pair[1].values[1], "{what}");
    }
    // The front is convex: the price of B in units of A never decreases.
    for triple in path.windows(3) {
        let slope = |a: &Waypoint, b: &Waypoint| (b.values[0] - a.values[0]) / (a.values[1] - b.values[1]);
        let (before, after) = (slope(&triple[0], &triple[1]), slope(&triple[1], &triple[2]));
        let wide =
            (triple[0].values[1] - triple[1].values[1]).min(triple[1].values[1] - triple[2].values[1]) > 1e-4 * range;
        assert!(!wide || before <= after * (1.0 + 1e-6) + 1e-9, "{what}: {before} {after}");
    }
    // A dense grid of λ, each solved from scratch, finds nothing better than the path.
    let scale = if range > 0.0 { (end.values[0] - start.values[0]).max(1e-9) / range } else { 1.0 };
    for step in 0..=200 {
        let theta = f64::from(step) / 201.0;
        let multiplier = scale * theta / (1.0 - theta);
        let form = sum(first, second, multiplier);
        let off = (along(&path, &form) - least(&form)) / (1.0 + multiplier);
        let allowed = if exact { 1e-9 } else { 2e-3 * (end.values[0] - start.values[0]).max(1e-6) };
        assert!(off < allowed, "{what}: {off} at λ = {multiplier}");
    }
    path
}

#[test]
fn quality_is_linear_and_the_path_is_exact() {
    let mut random = Random::seeded(41);
    let mut points = 0;
    for round in 0..120 {
        let family = FAMILIES[round % FAMILIES.len()];
        let arms = [2, 3, 5, 8, 20][random.below(5)];
        let first = problem(family, arms, &mut random);
        let second = linear((0..arms).map(|_| normal(&mut random)).collect());
        points += check(&format!("{family}, {arms} arms, round {round}"), &first, &second, true).len();
        check(&format!("turned: {family}, {arms} arms, round {round}"), &second, &first, true);
    }
    assert!(points > 1000, "{points}");
}

#[test]
fn two_forms_that_both_bend() {
    let mut random = Random::seeded(42);
    for round in 0..40 {
        let (family, arms) = (FAMILIES[round % FAMILIES.len()], [2, 4, 8][random.below(3)]);
        let first = problem(family, arms, &mut random);
        let second = problem("apart", arms, &mut random);
        check(&format!("{family}, {arms} arms, round {round}"), &first, &second, false);
    }
}

/// Control of the comparison with a grid: the ends alone are not the front.
#[test]
fn the_ends_alone_miss_what_is_between() {
    let diversity = Quadratic::new(vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 2]).unwrap();
    let quality = linear(vec![-1.0, 0.0]);
    let path = check("two arms", &diversity, &quality, true);
    let ends = [path[0].clone(), path[path.len() - 1].clone()];
    let form = sum(&diversity, &quality, 1.0);
    let least = simplex::minimize(&form, &Bounds::simplex(2)).unwrap().value;
    let at_ends = ends.iter().map(|end| form.value(&end.weights)).fold(f64::INFINITY, f64::min);
    assert!(at_ends - least > 0.05);
    // a = ½ + λ/4 up to λ = 2
    for point in &path {
        assert!((point.weights[0] - (0.5 + point.multiplier / 4.0)).abs() < 1e-9, "{point:?}");
    }
    assert!((path[path.len() - 1].multiplier - 2.0).abs() < 1e-8);
}

#[test]
fn ties_are_broken_by_the_other() {
    // The first two arms have the same quality; the more diverse mixture of them is the end.
    let diversity = Quadratic::new(vec![1.0, 0.2, 0.0, 0.2, 1.0, 0.0, 0.0, 0.0, 0.5], vec![0.0; 3]).unwrap();
    let path = check("tied quality", &diversity, &linear(vec![-1.0, -1.0, 0.0]), true);
    let end = &path[path.len() - 1].weights;
    assert!((end[0] - 0.5).abs() < 1e-6 && end[2] == 0.0, "{end:?}");
    // Two arms that are the same for the first objective: the one with the better quality is used from the start.
    let same = Quadratic::new(vec![1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0], vec![0.0; 3]).unwrap();
    let path = check("the same arm twice", &same, &linear(vec![0.0, -1.0, 0.0]), true);
    assert!(path[0].weights[0] < 1e-6 && (path[0].weights[1] - 0.5).abs() < 1e-6, "{:?}", path[0].weights);
    // One mixture is optimal for both: it is the whole front.
    let path = simplex::path(&linear(vec![0.0, 1.0]), &linear(vec![0.0, 2.0]), &Bounds::simplex(2)).unwrap();
    assert_eq!((path.len(), &path[0].weights[..]), (1, &[1.0, 0.0][..]));
}

#[test]
fn bounds_hold_along_the_path() {
    let mut random = Random::seeded(43);
    for round in 0..30 {
        let first = problem(FAMILIES[round % FAMILIES.len()], 5, &mut random);
        let second = linear((0..5).map(|_| normal(&mut random)).collect());
        let bounds = Bounds::new(vec![0.0, 0.1, 0.0, 0.0, 0.0], vec![0.6, 0.5, 0.5, 0.5, 0.5]).unwrap();
        let path = simplex::path(&first, &second, &bounds).unwrap();
        for point in &path {
            let fits = |arm: usize| {
                bounds.floors()[arm] - 1e-12 <= point.weights[arm] && point.weights[arm] <= bounds.caps()[arm] + 1e-12
            };
            assert!((0..5).all(fits), "{:?}", point.weights);
            if point.multiplier.is_finite() {
                let form = sum(&first, &second, point.multiplier);
                let least = simplex::minimize(&form, &bounds).unwrap().value;
                assert!(form.value(&point.weights) - least < 1e-8 * (1.0 + point.multiplier));
            }
        }
    }
}

#[test]
fn fronts_of_recorded_arms() {
    let arms = arms(4, 50, 44);
    let inputs = || Inputs::new().arms(&arms).reference(reference(&arms));
    for (first, second, exact) in [
        ("rke(bandwidth=2)", "precision", true),
        ("rke(bandwidth=2)", "mmd(bandwidth=2)", false),
        ("fid", "-density", false),
        ("vendi", "fid", false),
    ] {
        let loss = Objective::parse(first).unwrap().prepare(inputs()).unwrap();
        let other = front_objective(Objective::parse(second).unwrap()).prepare(inputs()).unwrap();
        let analyses = Analyses::default().front(other.clone());
        let best = modelmix::mixture::solve_with_analyses(&arms, &loss, &Bounds::simplex(4), &analyses).unwrap();
        let front = best.worth.front.clone().unwrap();
        assert_eq!(front.exact, exact, "{first} {second}");
        let (start, end) = (&front.points[0], &front.points[front.points.len() - 1]);
        assert!((start.loss - best.mixture.loss).abs() < 1e-7 * best.mixture.loss.abs().max(1.0), "{first} {second}");
        let other_best = modelmix::solve(&arms, &other).unwrap();
        assert!(
            (end.second_loss - other_best.mixture.loss).abs() < 1e-6 * other_best.mixture.loss.abs().max(1.0),
            "{first} {second}"
        );
        assert!(front.points.windows(2).all(|pair| pair[0].second_loss > pair[1].second_loss), "{first} {second}");
        assert!(front.points.windows(2).all(|pair| pair[0].loss < pair[1].loss + 1e-9), "{first} {second}");
        assert!(front.points.len() >= 2, "{first} {second}");
        // A point between is the solution of the sum.
        let middle = &front.points[front.points.len() / 2];
        let multiplier = middle.multiplier.unwrap();
        let both = Objective::parse(first).unwrap() + multiplier * front_objective(Objective::parse(second).unwrap());
        let both = modelmix::solve(&arms, &both.prepare(inputs()).unwrap()).unwrap();
        let here = middle.loss + multiplier * middle.second_loss;
        assert!(
            (both.mixture.loss - here).abs() < 1e-6 * here.abs().max(1e-3),
            "{first} {second}: {} {here}",
            both.mixture.loss
        );
    }
}

#[test]
fn more_precision_is_better() {
    let text = |text: &str| front_objective(Objective::parse(text).unwrap()).to_string();
    assert_eq!(text("precision"), "-precision");
    assert_eq!(text("-precision"), "-precision");
    assert_eq!(text("density + 2*precision"), "-density - 2*precision");
    assert_eq!(text("cost"), "cost");
    assert_eq!(text("aesthetic"), "aesthetic");
    assert_eq!(text("mmd - precision"), "mmd - precision");
}

/// Rounding differs between processors by about 1e-8 of an entry of K. That must not add or remove points.
#[test]
fn rounding_does_not_change_which_points_there_are() {
    let mut random = Random::seeded(17);
    for arms in [3, 5, 8] {
        for _ in 0..20 {
            let first = problem(FAMILIES[0], arms, &mut random);
            let quality = linear((0..arms).map(|_| -random.unit()).collect());
            let bounds = Bounds::simplex(arms);
            let path = simplex::path(&first, &quality, &bounds).unwrap();
            for _ in 0..5 {
                let mut noisy = first.quadratic().to_vec();
                for i in 0..arms {
                    for j in 0..=i {
                        noisy[i * arms + j] *= 1.0 + 1e-8 * (random.unit() - 0.5);
                        noisy[j * arms + i] = noisy[i * arms + j];
                    }
                }
                let noisy = Quadratic::new(noisy, first.linear().to_vec()).unwrap();
                let other = simplex::path(&noisy, &quality, &bounds).unwrap();
                assert_eq!(path.len(), other.len(), "{arms} arms");
                for (a, b) in path.iter().zip(&other) {
                    assert!(a.weights.iter().zip(&b.weights).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
                }
            }
        }
    }
}
