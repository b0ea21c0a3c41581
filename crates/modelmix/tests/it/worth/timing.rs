//! How long the searches take: figures to report, not to hold anyone to.

use std::time::Instant;

use modelmix::Quadratic;
use modelmix::random::Random;
use modelmix::simplex::{self, Bounds, Prices};

use super::problem;
use crate::simplex::normal;

#[test]
#[ignore = "prints figures"]
fn how_long_searches_take() {
    let mut random = Random::seeded(61);
    for (family, arms) in
        [("apart", 12), ("apart", 20), ("near duplicates", 20), ("apart", 64), ("near duplicates", 64)]
    {
        let form = problem(family, arms, &mut random).form;
        let bounds = Bounds::simplex(arms);
        let start = Instant::now();
        let eliminated = simplex::eliminate(&form, &bounds).unwrap();
        let (eliminated_in, start) = (start.elapsed(), Instant::now());
        let found = simplex::subsets(&form, &bounds).unwrap();
        let found_in = start.elapsed();
        let proved = found.iter().filter(|subset| subset.proved).count();
        let worse = found
            .iter()
            .filter(|subset| {
                let value = eliminated[subset.size].as_ref().map_or(f64::INFINITY, |one| one.value);
                value > subset.solution.value + 1e-11
            })
            .count();
        println!(
            "best k of {arms} ({family}): {found_in:.2?}, of it elimination {eliminated_in:.2?}; {proved} of {} proved, elimination worse in {worse}",
            found.len()
        );
        let prices = Prices {
            fees: (0..arms).map(|_| 10.0 * random.unit()).collect(),
            costs: (0..arms).map(|_| 30.0 * random.unit()).collect(),
        };
        let best = simplex::minimize(&form, &bounds).unwrap();
        let single = (0..arms).map(|arm| form.single(arm)).fold(f64::INFINITY, f64::min);
        let start = Instant::now();
        let limit = best.value + 0.05 * (single - best.value);
        let cheapest = simplex::cheapest(&form, &bounds, &prices, limit).unwrap().unwrap();
        println!(
            "cheapest of {arms} ({family}): {:.2?}; gap {:.1e} of {:.1}",
            start.elapsed(),
            cheapest.gap,
            cheapest.total
        );
    }
    for arms in [5, 20] {
        let first = problem("apart", arms, &mut random).form;
        let linear = (0..arms).map(|_| normal(&mut random)).collect();
        let second = Quadratic::new(vec![0.0; arms * arms], linear).unwrap();
        let bent = problem("apart", arms, &mut random).form;
        for (what, second) in [("linear", &second), ("quadratic", &bent)] {
            let start = Instant::now();
            let path = simplex::path(&first, second, &Bounds::simplex(arms)).unwrap();
            println!("front of {arms} against a {what} one: {:.2?}, {} points", start.elapsed(), path.len());
        }
    }
}
