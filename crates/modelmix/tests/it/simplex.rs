//! The simplex solver against exhaustive enumeration of supports, and against the duality gap, computed here from its
//! definition: a feasible point without a gap is optimal, however it was found.

use modelmix::policy::Random;
use modelmix::simplex::{self, Bounds, Solution, Solver};
use modelmix::{Error, Quadratic};

pub(crate) fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos()
}

/// The families of problems that occur for mixtures, and some that should not.
const FAMILIES: [&str; 8] =
    ["full rank", "low rank", "duplicated arms", "dominated arms", "nearly equal arms", "no curvature", "huge", "tiny"];

/// K = AᵀA + common, f: `rank` points in feature space per arm, with an offset like that of kernel means.
fn problem(family: &str, arms: usize, random: &mut Random) -> Quadratic {
    let rank = match family {
        "low rank" => 1 + random.below(3),
        "no curvature" => 0,
        _ => arms + 2,
    };
    let spread = if family == "nearly equal arms" { 1e-5 } else { 1.0 / (rank.max(1) as f64).sqrt() };
    let mut points: Vec<Vec<f64>> = (0..arms).map(|_| (0..rank).map(|_| spread * normal(random)).collect()).collect();
    let mut linear: Vec<f64> = (0..arms).map(|_| 0.3 * normal(random) * spread.max(1e-9)).collect();
    match family {
        "duplicated arms" => {
            for arm in arms.div_ceil(2)..arms {
                let original = random.below(arms.div_ceil(2));
                points[arm] = points[original].clone();
                linear[arm] = linear[original];
            }
        }
        "dominated arms" => linear.iter_mut().skip(1).step_by(2).for_each(|f| *f += 5.0),
        "full rank" if random.below(2) == 0 => linear.fill(0.0),
        _ => {}
    }
    let scale = match family {
        "huge" => 1e120,
        "tiny" => 1e-120,
        _ => 1.0,
    };
    let common = if random.below(2) == 0 { 0.4 } else { 0.0 };
    let quadratic = (0..arms * arms)
        .map(|at| scale * (common + points[at / arms].iter().zip(&points[at % arms]).map(|(a, b)| a * b).sum::<f64>()))
        .collect();
    Quadratic::new(quadratic, linear.into_iter().map(|f| scale * f).collect()).unwrap()
}

fn size(form: &Quadratic) -> f64 {
    form.quadratic().iter().chain(form.linear()).fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()))
}

/// Checks that a solution is feasible to the last bits, and its gap.
fn check(form: &Quadratic, solution: &Solution, what: &str) {
    let sum: f64 = solution.weights.iter().sum();
    assert!((sum - 1.0).abs() < 1e-14, "{what}: weights add up to {sum}");
    assert!(solution.weights.iter().all(|weight| (0.0..=1.0).contains(weight)), "{what}: {:?}", solution.weights);
    assert!(
        solution.gap <= 1e-12 * size(form),
        "{what}: gap {} of {} in {} iterations",
        solution.gap,
        size(form),
        solution.iterations
    );
    assert_eq!(solution.value, form.value(&solution.weights));
    // The duality gap, recomputed from the definition.
    let arms = form.arms();
    let gap = gap(form, &solution.weights, &vec![0.0; arms], &vec![1.0; arms]);
    assert!(gap <= 2e-12 * size(form), "{what}: gap by definition {gap}");
}

/// Gaussian elimination with partial pivoting; `None` if the matrix is singular.
pub(crate) fn solve_dense(mut a: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = a.len();
    let scale = a.iter().flatten().fold(0.0f64, |most, value| most.max(value.abs()));
    for column in 0..n {
        let pivot = (column..n).max_by(|&x, &y| a[x][column].abs().total_cmp(&a[y][column].abs()))?;
        a.swap(column, pivot);
        if a[column][column].abs() < 1e-11 * scale {
            return None;
        }
        let pivot = a[column].clone();
        for row in (0..n).filter(|&row| row != column) {
            let factor = a[row][column] / pivot[column];
            a[row].iter_mut().zip(&pivot).for_each(|(value, above)| *value -= factor * above);
        }
    }
    Some((0..n).map(|row| a[row][n] / a[row][row]).collect())
}

/// The minimum over all supports: on each, the equations 2Kα + f = μ, Σα = 1.
fn exhaustive(form: &Quadratic) -> f64 {
    let arms = form.arms();
    let unit = size(form);
    let mut best = f64::INFINITY;
    for mask in 1u32..1 << arms {
        let support: Vec<usize> = (0..arms).filter(|arm| mask >> arm & 1 == 1).collect();
        let n = support.len();
        let mut system = vec![vec![0.0; n + 2]; n + 1];
        for (row, &i) in support.iter().enumerate() {
            for (column, &j) in support.iter().enumerate() {
                system[row][column] = 2.0 * form.at(i, j) / unit;
            }
            system[row][n] = -1.0;
            system[row][n + 1] = -form.linear()[i] / unit;
            system[n][row] = 1.0;
        }
        system[n][n + 1] = 1.0;
        let Some(solved) = solve_dense(system) else { continue };
        if solved[..n].iter().all(|&weight| weight >= 0.0) {
            let mut weights = vec![0.0; arms];
            for (&arm, &weight) in support.iter().zip(&solved) {
                weights[arm] = weight;
            }
            best = best.min(form.value(&weights));
        }
    }
    best
}

/// The duality gap by its definition: the largest decrease of the tangent at a point over the bounded simplex. The
/// minimum of a linear function there has all floors, and then as much as caps allow of the smallest slopes.
fn gap(form: &Quadratic, weights: &[f64], floors: &[f64], caps: &[f64]) -> f64 {
    let gradient = form.gradient(weights);
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| gradient[a].total_cmp(&gradient[b]));
    let mut left = 1.0 - floors.iter().sum::<f64>();
    let mut lowest: f64 = gradient.iter().zip(floors).map(|(slope, floor)| slope * floor).sum();
    for arm in order {
        let more = left.min(caps[arm] - floors[arm]);
        lowest += more * gradient[arm];
        left -= more;
    }
    gradient.iter().zip(weights).map(|(slope, weight)| slope * weight).sum::<f64>() - lowest
}

#[test]
fn ten_thousand_problems_against_exhaustive_supports_and_the_gap() {
    let mut random = Random::seeded(20250211);
    let (mut enumerated, mut large) = (0, 0);
    for round in 0..10_400 {
        let family = FAMILIES[round % FAMILIES.len()];
        let arms = if round % 13 == 0 { 9 + random.below(56) } else { 1 + random.below(8) };
        let form = problem(family, arms, &mut random);
        let what = format!("{family}, {arms} arms, round {round}");
        let solution =
            simplex::minimize(&form, &Bounds::simplex(arms)).unwrap_or_else(|error| panic!("{what}: {error}"));
        check(&form, &solution, &what);
        if arms <= 8 {
            enumerated += 1;
            let best = exhaustive(&form);
            assert!(solution.value <= best + 1e-12 * size(&form), "{what}: {} above {best}", solution.value);
            // A support with nearly singular equations is solved less accurately here than by the solver.
            assert!(solution.value >= best - 1e-9 * size(&form), "{what}: {} below {best}", solution.value);
        } else {
            large += 1;
        }
    }
    assert!(enumerated > 9_000 && large >= 800, "{enumerated} {large}");
}

#[test]
fn many_arms() {
    let mut random = Random::seeded(5);
    for (family, arms) in [
        ("full rank", 512),
        ("low rank", 512),
        ("duplicated arms", 300),
        ("dominated arms", 512),
        ("no curvature", 512),
    ] {
        let form = problem(family, arms, &mut random);
        check(&form, &simplex::minimize(&form, &Bounds::simplex(arms)).unwrap(), family);
    }
    // A large support: arms that hardly overlap.
    let mut quadratic = vec![0.01; 512 * 512];
    (0..512).for_each(|arm| quadratic[arm * 513] = 1.0 + 0.001 * arm as f64);
    let form = Quadratic::new(quadratic, vec![0.0; 512]).unwrap();
    let solution = simplex::minimize(&form, &Bounds::simplex(512)).unwrap();
    check(&form, &solution, "large support");
    assert!(solution.weights.iter().all(|&weight| weight > 0.0));
}

#[test]
fn floors_and_caps_leave_no_gap() {
    let mut random = Random::seeded(99);
    for round in 0..600 {
        let family = FAMILIES[round % FAMILIES.len()];
        let arms = 2 + random.below(14);
        let form = problem(family, arms, &mut random);
        let floors: Vec<f64> =
            (0..arms).map(|_| if random.below(3) == 0 { 0.5 * random.unit() / arms as f64 } else { 0.0 }).collect();
        let mut caps: Vec<f64> = floors
            .iter()
            .map(|floor| if random.below(2) == 0 { 1.0 } else { (floor + random.unit()).min(1.0) })
            .collect();
        while caps.iter().sum::<f64>() < 1.0 {
            caps.iter_mut().for_each(|cap| *cap = (1.3 * *cap + 0.01).min(1.0));
        }
        let what = format!("{family}, {arms} arms, round {round}");
        let bounds = Bounds::new(floors.clone(), caps.clone()).unwrap();
        let solution = simplex::minimize(&form, &bounds).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!((solution.weights.iter().sum::<f64>() - 1.0).abs() < 1e-14, "{what}");
        for (weight, (floor, cap)) in solution.weights.iter().zip(floors.iter().zip(&caps)) {
            assert!(floor <= weight && weight <= cap, "{what}: {weight} not in {floor}..{cap}");
        }
        assert!(solution.gap <= 1e-12 * size(&form), "{what}: gap {}", solution.gap);
        let gap = gap(&form, &solution.weights, &floors, &caps);
        assert!(gap <= 2e-12 * size(&form), "{what}: gap by definition {gap}");
        // Control: another feasible point has a gap, which is at least the difference of the values.
        let even: Vec<f64> = floors.iter().zip(&caps).map(|(floor, cap)| (cap - floor).max(0.0)).collect();
        let left = (1.0 - floors.iter().sum::<f64>()) / even.iter().sum::<f64>();
        let other: Vec<f64> = floors.iter().zip(&even).map(|(floor, room)| floor + left * room).collect();
        let (worse, gap) = (form.value(&other) - solution.value, self::gap(&form, &other, &floors, &caps));
        assert!(gap >= worse - 1e-12 * size(&form), "{what}: {gap} is less than {worse}");
    }
}

#[test]
fn a_support_is_a_problem_of_its_own() {
    let mut random = Random::seeded(4);
    for _ in 0..200 {
        let form = problem("full rank", 6, &mut random);
        let support = [1, 2, 5];
        let solution = simplex::minimize(&form, &Bounds::support(6, &support)).unwrap();
        let quadratic = support.iter().flat_map(|&i| support.map(|j| form.at(i, j))).collect();
        let small = Quadratic::new(quadratic, support.map(|i| form.linear()[i]).to_vec()).unwrap();
        let alone = simplex::minimize(&small, &Bounds::simplex(3)).unwrap();
        assert!((solution.value - alone.value).abs() < 1e-14);
        assert!([0, 3, 4].iter().all(|&arm| solution.weights[arm] == 0.0));
    }
}

#[test]
fn a_warm_start_changes_the_way_and_not_the_answer() {
    let mut random = Random::seeded(8);
    let mut work = (0, 0);
    for family in FAMILIES {
        let mut solver = Solver::default();
        let mut form = problem(family, 12, &mut random);
        for _ in 0..100 {
            // A form that drifts slightly, like that of a session from one round to the next.
            let drift: Vec<f64> = form.linear().iter().map(|f| f + 1e-3 * size(&form) * normal(&mut random)).collect();
            form = Quadratic::new(form.quadratic().to_vec(), drift).unwrap();
            let warm = solver.solve(&form, &Bounds::simplex(12)).unwrap();
            let cold = simplex::minimize(&form, &Bounds::simplex(12)).unwrap();
            check(&form, &warm, family);
            assert!((warm.value - cold.value).abs() <= 2e-12 * size(&form), "{family}");
            work = (work.0 + warm.iterations, work.1 + cold.iterations);
        }
    }
    assert!(2 * work.0 < work.1, "warm {}, cold {} iterations", work.0, work.1);
}

#[test]
fn a_restored_solver_gives_the_same_bits() {
    let mut random = Random::seeded(12);
    let mut solver = Solver::default();
    solver.solve(&problem("full rank", 9, &mut random), &Bounds::simplex(9)).unwrap();
    let mut restored: Solver = serde_json::from_str(&serde_json::to_string(&solver).unwrap()).unwrap();
    let next = problem("full rank", 9, &mut random);
    assert_eq!(solver.solve(&next, &Bounds::simplex(9)).unwrap(), restored.solve(&next, &Bounds::simplex(9)).unwrap());
}

#[test]
fn what_cannot_be_solved_is_refused() {
    let sentence = |result: Result<Solution, Error>| result.unwrap_err().to_string();
    let indefinite = Quadratic::new(vec![0.0, 1.0, 1.0, 0.0], vec![0.0, 0.0]).unwrap();
    assert!(sentence(simplex::minimize(&indefinite, &Bounds::simplex(2))).contains("positive semidefinite"));
    let form = Quadratic::new(vec![1.0, 0.0, 0.0, 1.0], vec![0.0, 0.0]).unwrap();
    assert!(sentence(simplex::minimize(&form, &Bounds::simplex(3))).contains("3 arms"));
    assert!(sentence(simplex::minimize(&form, &Bounds::support(2, &[]))).contains("no weights"));
    assert!(Bounds::new(vec![0.6, 0.6], vec![1.0, 1.0]).is_err());
    assert!(Bounds::new(vec![0.5, 0.0], vec![0.4, 1.0]).is_err());
    assert!(Bounds::new(vec![0.0], vec![f64::NAN]).is_err());
    assert!(Quadratic::new(vec![1.0, f64::NAN, f64::NAN, 1.0], vec![0.0; 2]).is_err());
    assert!(Quadratic::new(vec![1.0, 0.5, 0.1, 1.0], vec![0.0; 2]).is_err());
    assert!(Quadratic::new(vec![], vec![]).is_err());
}

/// A start inside, with indistinguishable arms: any mixture is optimal, but the result must be a mixture.
#[test]
fn arms_that_are_all_the_same_from_a_start_inside() {
    for arms in [2, 3, 7] {
        for (k, f) in [(0.7, 0.1), (0.7, 0.0), (0.0, 0.3), (0.0, 0.0), (1e-120, 1e-120)] {
            let form = Quadratic::new(vec![k; arms * arms], vec![f; arms]).unwrap();
            let mut solver = Solver::default();
            solver.start_from(&vec![1.0 / arms as f64; arms]);
            let found = solver.solve(&form, &Bounds::simplex(arms)).unwrap();
            check(&form, &found, &format!("{arms} arms, K {k}, f {f}"));
        }
    }
}
