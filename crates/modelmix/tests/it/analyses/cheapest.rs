//! The cheapest mixture within a limit: in closed form for two arms, and against the dual problem of every set of arms.

use modelmix::compute::Stop;
use modelmix::policy::Random;
use modelmix::simplex::{self, Bounds, Prices};
use modelmix::{Error, Quadratic};

use super::{FAMILIES, problem};

/// The lowest price of mixtures of some arms within the limit, by duality: no multiplier λ ≥ 0 makes the minimum of
/// pᵀα + λ(αᵀKα + fᵀα − limit) larger, and by convexity the best one makes it equal. `None` if no mixture is within
/// the limit.
fn least_price(problem: &Quadratic, set: &[usize], prices: &[f64], limit: f64) -> Option<f64> {
    let all = Bounds::simplex(set.len());
    let form = |multiplier: f64, prices: &dyn Fn(usize) -> f64| {
        let entries = set.iter().flat_map(|&i| set.iter().map(move |&j| multiplier * problem.at(i, j)));
        let linear = set.iter().map(|&arm| prices(arm) + multiplier * problem.linear()[arm]);
        Quadratic::new(entries.collect(), linear.collect()).unwrap()
    };
    if simplex::minimize(&form(1.0, &|_| 0.0), &all).unwrap().value > limit {
        return None;
    }
    let dual = |multiplier: f64| {
        let least = simplex::minimize(&form(multiplier, &|arm| prices[arm]), &all).unwrap();
        least.value - multiplier * limit
    };
    // The dual is concave in λ: ternary search on its logarithm.
    let (mut low, mut high) = (1e-6f64.ln(), 1e6f64.ln());
    for _ in 0..120 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if dual(left.exp()) < dual(right.exp()) { low = left } else { high = right }
    }
    Some(dual(0.0).max(dual((0.5 * (low + high)).exp())))
}

/// The minimum of fees and prices over all sets of arms.
fn exhaustive(problem: &Quadratic, prices: &Prices, limit: f64) -> f64 {
    let arms = problem.arms();
    let mut best = f64::INFINITY;
    for mask in 1u32..1 << arms {
        let set: Vec<usize> = (0..arms).filter(|arm| mask >> arm & 1 == 1).collect();
        let fee: f64 = set.iter().map(|&arm| prices.fees[arm]).sum();
        if let Some(cost) = least_price(problem, &set, &prices.costs, limit) {
            best = best.min(fee + cost);
        }
    }
    best
}

fn compare(rounds: usize, most: usize, seed: u64) {
    let mut random = Random::seeded(seed);
    for round in 0..rounds {
        let family = FAMILIES[round % FAMILIES.len()];
        let arms = 2 + random.below(most - 1);
        let problem = problem(family, arms, &mut random);
        let best = simplex::minimize(&problem, &Bounds::simplex(arms)).unwrap();
        let single = (0..arms).map(|arm| problem.single(arm)).fold(f64::INFINITY, f64::min);
        let share = [0.01, 0.05, 0.2, 0.6][random.below(4)];
        let limit = best.value + share * (single - best.value).max(0.01);
        let free = random.below(3);
        let prices = Prices {
            fees: (0..arms).map(|_| if free == 0 { 0.0 } else { random.unit() }).collect(),
            costs: (0..arms).map(|_| if free == 1 { 0.3 } else { 2.0 * random.unit() }).collect(),
        };
        let found = simplex::cheapest(&problem, &Bounds::simplex(arms), &prices, limit, &Stop::new()).unwrap().unwrap();
        let what = format!("{family}, {arms} arms, round {round}");
        assert!(found.value <= limit + 1e-12, "{what}: {} above {limit}", found.value);
        assert!((found.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(found.total, prices.fee(&found.weights) + prices.cost(&found.weights));
        assert!(found.gap < 1e-9, "{what}: gap {}", found.gap);
        let truth = exhaustive(&problem, &prices, limit);
        assert!((found.total - truth).abs() < 1e-8, "{what}: {} is not {truth}", found.total);
    }
}

#[test]
fn cheapest_of_all_sets() {
    compare(120, 5, 21);
}

#[test]
#[ignore = "takes minutes"]
fn cheapest_of_all_sets_of_many_problems() {
    compare(1000, 7, 22);
}

/// Two arms with αᵀKα = a² + (1 − a)²: as much of the cheap one as the limit allows, a = ½ + √((limit − ½)/2).
#[test]
fn two_arms_in_closed_form() {
    let form = Quadratic::new(vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 2]).unwrap();
    let prices = Prices { fees: vec![3.0, 5.0], costs: vec![1.0, 4.0] };
    for above in [0.0, 1e-9, 1e-3, 0.1, 0.4999] {
        let found = simplex::cheapest(&form, &Bounds::simplex(2), &prices, 0.5 + above, &Stop::new()).unwrap().unwrap();
        let share = 0.5 + (above / 2.0f64).sqrt();
        assert!((found.weights[0] - share).abs() < 1e-9, "{above}: {} is not {share}", found.weights[0]);
        assert!(found.gap < 1e-7, "{}", found.gap);
    }
    // At the limit of one arm alone, only its fee is paid.
    let found = simplex::cheapest(&form, &Bounds::simplex(2), &prices, 1.0, &Stop::new()).unwrap().unwrap();
    assert_eq!((found.weights, found.total), (vec![1.0, 0.0], 4.0));
    // The other arm costs nothing per sample: half of it is as good, and its fee decides.
    let prices = Prices { fees: vec![3.0, 5.0], costs: vec![1.0, 0.0] };
    let found = simplex::cheapest(&form, &Bounds::simplex(2), &prices, 1.0, &Stop::new()).unwrap().unwrap();
    assert_eq!((found.weights, found.total), (vec![1.0, 0.0], 4.0));
    assert!(simplex::cheapest(&form, &Bounds::simplex(2), &prices, 0.49, &Stop::new()).unwrap().is_none());
}

/// At equal price, the loss decides.
#[test]
fn of_the_same_price_the_best() {
    let mut random = Random::seeded(24);
    for round in 0..60 {
        let problem = problem(["apart", "near duplicates", "dominated"][round % 3], 5, &mut random);
        let best = simplex::minimize(&problem, &Bounds::simplex(5)).unwrap();
        // All samples cost the same; the fee is for an arm that every mixture within the limit needs.
        let most = (0..5).max_by(|&a, &b| best.weights[a].total_cmp(&best.weights[b])).unwrap();
        let mut without = vec![true; 5];
        without[most] = false;
        let others = simplex::minimize(&problem, &Bounds::simplex(5).only(&without).unwrap()).unwrap();
        let limit = best.value + 0.9 * (others.value - best.value);
        let mut fees = vec![0.0; 5];
        fees[most] = 1.0 + random.unit();
        let prices = Prices { fees, costs: vec![3.0; 5] };
        let found = simplex::cheapest(&problem, &Bounds::simplex(5), &prices, limit, &Stop::new()).unwrap().unwrap();
        assert!((found.value - best.value).abs() < 1e-13, "round {round}: {} {}", found.value, best.value);
        assert!((found.total - 3.0 - prices.fees[most]).abs() < 1e-9 && found.gap < 1e-9);
    }
}

#[test]
fn floors_and_caps_hold() {
    let mut random = Random::seeded(23);
    for round in 0..40 {
        let problem = problem(FAMILIES[round % FAMILIES.len()], 5, &mut random);
        let bounds = Bounds::new(vec![0.0, 0.05, 0.0, 0.0, 0.0], vec![0.5, 1.0, 0.3, 1.0, 0.9]).unwrap();
        let best = simplex::minimize(&problem, &bounds).unwrap();
        let limit = best.value + 0.02;
        let prices =
            Prices { fees: (0..5).map(|_| random.unit()).collect(), costs: (0..5).map(|_| random.unit()).collect() };
        let found = simplex::cheapest(&problem, &bounds, &prices, limit, &Stop::new()).unwrap().unwrap();
        assert!(found.value <= limit + 1e-12 && found.gap < 1e-9);
        let fits = |arm: usize| bounds.floors()[arm] <= found.weights[arm] && found.weights[arm] <= bounds.caps()[arm];
        assert!((0..5).all(fits), "{:?}", found.weights);
        // No mixture of a grid that is within the limit costs less.
        for _ in 0..2000 {
            let draw: Vec<f64> = (0..5).map(|_| if random.unit() < 0.4 { 0.0 } else { random.unit() }).collect();
            let total: f64 = draw.iter().sum();
            let weights: Vec<f64> = draw.iter().map(|weight| weight / total).collect();
            let inside = total > 0.0
                && (0..5).all(|arm| bounds.floors()[arm] <= weights[arm] && weights[arm] <= bounds.caps()[arm]);
            if inside && problem.value(&weights) <= limit {
                assert!(prices.fee(&weights) + prices.cost(&weights) >= found.total - 1e-9);
            }
        }
    }
}

#[test]
fn bad_prices_are_refused() {
    let form = Quadratic::new(vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 2]).unwrap();
    let refuse = |fees: Vec<f64>, costs: Vec<f64>| {
        simplex::cheapest(&form, &Bounds::simplex(2), &Prices { fees, costs }, 1.0, &Stop::new()).unwrap_err()
    };
    assert!(matches!(refuse(vec![1.0, -1.0], vec![0.0; 2]), Error::Setting { .. }));
    assert!(matches!(refuse(vec![1.0], vec![0.0; 2]), Error::Setting { .. }));
    assert!(matches!(refuse(vec![1.0; 2], vec![f64::NAN; 2]), Error::Setting { .. }));
}
