//! The best k arms against all sets of k arms, each solved by its linear equations.

use modelmix::Quadratic;
use modelmix::compute::Stop;
use modelmix::policy::Random;
use modelmix::simplex::{self, Bounds};

use super::{FAMILIES, fashion, problem};
use crate::simplex::solve_dense;

/// The minimum with at most k arms, for k = 1, 2, …: the best mixture of a set is the solution of 2Kα + f = μ, Σα = 1
/// on those of its arms that have weight.
fn exhaustive(form: &Quadratic) -> Vec<f64> {
    let arms = form.arms();
    let mut best = vec![f64::INFINITY; arms + 1];
    for mask in 1u32..1 << arms {
        let set: Vec<usize> = (0..arms).filter(|arm| mask >> arm & 1 == 1).collect();
        let n = set.len();
        let mut system = vec![vec![0.0; n + 2]; n + 1];
        for (row, &i) in set.iter().enumerate() {
            for (column, &j) in set.iter().enumerate() {
                system[row][column] = 2.0 * form.at(i, j);
            }
            system[row][n] = -1.0;
            system[row][n + 1] = -form.linear()[i];
            system[n][row] = 1.0;
        }
        system[n][n + 1] = 1.0;
        let Some(solved) = solve_dense(system) else { continue };
        if solved[..n].iter().all(|&weight| weight >= 0.0) {
            let mut weights = vec![0.0; arms];
            set.iter().zip(&solved).for_each(|(&arm, &weight)| weights[arm] = weight);
            best[n] = best[n].min(form.value(&weights));
        }
    }
    for size in 1..=arms {
        best[size] = best[size].min(best[size - 1]);
    }
    best
}

struct Tally {
    sizes: usize,
    missed: usize,
    worst: f64,
}

impl Tally {
    /// How many searches by elimination missed the best arms, and by how much.
    fn compare(&mut self, what: &str, form: &Quadratic) {
        let bounds = Bounds::simplex(form.arms());
        let truth = exhaustive(form);
        let found = simplex::subsets(form, &bounds, &Stop::new()).unwrap();
        assert!(found.iter().all(|subset| subset.proved), "{what}");
        for size in 1..=form.arms() {
            // Beyond the last size, more arms do not help.
            let subset = &found[(size - 1).min(found.len() - 1)];
            let value = subset.solution.value;
            assert!((value - truth[size]).abs() < 1e-11, "{what}, {size} arms: {value} is not {}", truth[size]);
            let used = subset.solution.weights.iter().filter(|&&weight| weight > 0.0).count();
            assert!(used <= size && subset.size <= size, "{what}: {used} arms of {size}");
        }
        for (size, found) in simplex::eliminate(form, &bounds, &Stop::new()).unwrap().into_iter().enumerate().skip(1) {
            let off = found.unwrap().value - truth[size];
            assert!(off > -1e-11, "{what}: {off}");
            self.sizes += 1;
            self.missed += usize::from(off > 1e-11);
            self.worst = self.worst.max(off);
        }
    }
}

#[test]
fn proved_sets_are_the_best_of_all_and_elimination_is_near() {
    let mut random = Random::seeded(11);
    let mut tally = Tally { sizes: 0, missed: 0, worst: 0.0 };
    for round in 0..300 {
        let (family, arms) = (FAMILIES[round % FAMILIES.len()], [2, 3, 5, 8, 9][random.below(5)]);
        let form = problem(family, arms, &mut random);
        tally.compare(&format!("{family}, {arms} arms, round {round}"), &form);
    }
    for round in 0..12 {
        let form = problem(FAMILIES[round % FAMILIES.len()], 12, &mut random);
        tally.compare(&format!("12 arms, round {round}"), &form);
    }
    for (name, form) in fashion() {
        tally.compare(&name, &form);
    }
    println!("elimination missed {} of {} sizes, by at most {:.1e}", tally.missed, tally.sizes, tally.worst);
    // Not guaranteed, but observed: elimination would be a poor start if it missed often.
    assert!(tally.missed * 100 <= tally.sizes, "{} of {}", tally.missed, tally.sizes);
}

/// Many problems of up to twelve arms; takes minutes.
#[test]
#[ignore = "takes minutes"]
fn all_sets_of_many_problems() {
    let mut random = Random::seeded(12);
    let mut tally = Tally { sizes: 0, missed: 0, worst: 0.0 };
    for round in 0..3000 {
        let (family, arms) = (FAMILIES[round % FAMILIES.len()], 2 + random.below(11));
        let form = problem(family, arms, &mut random);
        tally.compare(&format!("{family}, {arms} arms, round {round}"), &form);
    }
    println!("elimination missed {} of {} sizes, by at most {:.1e}", tally.missed, tally.sizes, tally.worst);
}

/// Control of the test above: greedy elimination without exchanges does miss.
#[test]
fn taking_away_alone_misses() {
    // The middle arm is the best alone; the others cover more together, so it is removed first.
    let form = Quadratic::new(vec![1.0, 0.0, 0.6, 0.0, 1.0, 0.6, 0.6, 0.6, 0.8], vec![0.0; 3]).unwrap();
    let found = simplex::subsets(&form, &Bounds::simplex(3), &Stop::new()).unwrap();
    assert_eq!(found[0].solution.weights, [0.0, 0.0, 1.0]);
    assert!(found[1].solution.weights.iter().zip([0.5, 0.5, 0.0]).all(|(a, b)| (a - b).abs() < 1e-14));
}

#[test]
fn bounds_hold_and_sizes_that_they_rule_out_are_left_out() {
    let mut random = Random::seeded(13);
    for round in 0..60 {
        let form = problem(FAMILIES[round % FAMILIES.len()], 6, &mut random);
        let mut floors = vec![0.0; 6];
        floors[round % 6] = 0.1;
        let bounds = Bounds::new(floors.clone(), vec![0.4; 6]).unwrap();
        let found = simplex::subsets(&form, &bounds, &Stop::new()).unwrap();
        // Two caps of 0.4 do not sum to 1.
        assert!(found[0].size >= 3, "{}", found[0].size);
        for subset in &found {
            let weights = &subset.solution.weights;
            assert!(weights.iter().zip(&floors).all(|(weight, floor)| floor <= weight && *weight <= 0.4));
            assert!(weights.iter().filter(|&&weight| weight > 0.0).count() <= subset.size);
            // All sets of that size, by the solver.
            let mut best = f64::INFINITY;
            for mask in (0u32..64).filter(|mask| mask.count_ones() as usize == subset.size) {
                let allowed: Vec<bool> = (0..6).map(|arm| mask >> arm & 1 == 1).collect();
                if let Some(bounds) = bounds.only(&allowed) {
                    best = best.min(simplex::minimize(&form, &bounds).unwrap().value);
                }
            }
            assert!((subset.solution.value - best).abs() < 1e-12, "{} {best}", subset.solution.value);
        }
    }
}

/// Searches with hundreds of arms end: this took minutes before the work was limited, and takes seconds now.
#[test]
fn hundreds_of_arms_end() {
    let mut random = Random::seeded(15);
    // Nearly orthogonal arms: the best mixture uses all of them, so every size is searched.
    let arms = 250;
    let linear: Vec<f64> = (0..arms).map(|_| 1e-4 * random.unit()).collect();
    let entry = |at: usize| if at / arms == at % arms { 1.0 } else { 0.01 };
    let form = Quadratic::new((0..arms * arms).map(entry).collect(), linear).unwrap();
    let started = std::time::Instant::now();
    let found = simplex::subsets(&form, &Bounds::simplex(arms), &Stop::new()).unwrap();
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    assert_eq!(found.len(), arms);
    assert!(found.windows(2).all(|pair| pair[0].solution.value >= pair[1].solution.value - 1e-13));
    assert!(found[0].proved && found.iter().any(|subset| !subset.proved));
    let single = (0..arms).map(|arm| form.single(arm)).fold(f64::INFINITY, f64::min);
    assert_eq!(found[0].solution.value, single);
}

#[test]
fn many_arms_say_what_is_proved() {
    let mut random = Random::seeded(14);
    let form = problem("near duplicates", 40, &mut random);
    let found = simplex::subsets(&form, &Bounds::simplex(40), &Stop::new()).unwrap();
    assert!(found[0].proved && found.last().unwrap().proved);
    assert!(found.windows(2).all(|pair| pair[0].solution.value >= pair[1].solution.value - 1e-13));
    let whole = simplex::minimize(&form, &Bounds::simplex(40)).unwrap();
    assert!((found.last().unwrap().solution.value - whole.value).abs() < 1e-13);
    let single = (0..40).map(|arm| form.single(arm)).fold(f64::INFINITY, f64::min);
    assert!((found[0].solution.value - single).abs() < 1e-13);
}
