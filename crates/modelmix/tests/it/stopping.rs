//! Long computations can be stopped, return an error, and have no effect on later calls. If a stop comes from a timer,
//! the computation would take far longer than the timer: the test checks for the missing result, not the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use modelmix::compute::{Backend, Cpu, Double, Engine, Reference, Stop};
use modelmix::curate::{Curation, curate_within};
use modelmix::internals::certainty::certainty;
use modelmix::internals::influence::Influences;
use modelmix::metrics::{Neighbourhoods, Pool, prdc};
use modelmix::policy::Random;
use modelmix::session::{Cap, Retention};
use modelmix::simplex::{self, Bounds, Local, Prices, minimize_smooth};
use modelmix::{
    Error, Features, Inputs, Kernel, Objective, Quadratic, RecordedArm, RecordedArms, Session, SessionSettings,
    Simulation, simulate, simulate_watched, solve,
};

use crate::faulty::Faulty;

/// Sets a stop token from another thread, a little later.
fn soon() -> Stop {
    let stop = Stop::new();
    let other = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.set();
    });
    stop
}

fn stopped<T: std::fmt::Debug>(result: modelmix::Result<T>) -> bool {
    matches!(result, Err(Error::Stopped))
}

fn stopped_by(backend: impl Backend + 'static, stop: &Stop) -> Engine {
    Engine::new(backend).stopped_by(stop.clone())
}

fn features(rows: usize, width: usize, seed: u64) -> Features {
    let mut random = Random::seeded(seed);
    Features::new(width, (0..rows * width).map(|_| random.unit() as f32).collect()).unwrap()
}

fn arms(samples: usize, width: usize) -> RecordedArms {
    let arm = |seed: u64| RecordedArm::new(format!("arm {seed}"), features(samples, width, seed));
    RecordedArms::new((0..3).map(arm).collect()).unwrap()
}

#[test]
fn a_solve_ends_with_the_pieces_that_are_under_way() {
    let arms = arms(6000, 8);
    let objective = Objective::rke().with_bandwidth(0.5);
    for threads in [1, 2] {
        let stop = Stop::new();
        let (seen, other) = (Arc::new(AtomicU64::new(0)), stop.clone());
        let count = Arc::clone(&seen);
        let engine = stopped_by(Cpu::with_threads(threads), &stop).observed_by(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            other.set();
        });
        let loss = objective.prepare(Inputs::new().arms(&arms).engine(engine.clone())).unwrap();
        assert!(stopped(solve(&arms, &loss)));
        let pieces = seen.load(Ordering::SeqCst);
        assert!((1..=threads as u64).contains(&pieces), "{pieces} pieces with {threads} threads");
        // The same again, on threads and buffers that were stopped, gives the result of an undisturbed run.
        let again = objective.prepare(Inputs::new().arms(&arms).engine(engine.unstoppable())).unwrap();
        let again = solve(&arms, &again).unwrap();
        assert!(seen.load(Ordering::SeqCst) > 20 + pieces, "there were few pieces to stop");
        let plain = objective.prepare(Inputs::new().arms(&arms).engine(Cpu::with_threads(threads))).unwrap();
        let fresh = std::thread::scope(|scope| scope.spawn(|| solve(&arms, &plain).unwrap()).join().unwrap());
        assert_eq!(again, fresh);
    }
}

#[test]
fn a_search_ends_between_its_steps() {
    // Σα ln α + fᵀα, which takes several steps.
    let form = Quadratic::new(vec![0.0; 9], vec![0.0, 2.0, 5.0]).unwrap();
    let run = |stop_at: usize| {
        let (stop, calls) = (Stop::new(), AtomicUsize::new(0));
        let entropy = |weights: &[f64]| {
            if calls.fetch_add(1, Ordering::SeqCst) + 1 == stop_at {
                stop.set();
            }
            stop.check()?;
            Ok(Local {
                value: weights.iter().map(|a| a * a.ln()).sum(),
                gradient: weights.iter().map(|a| a.ln() + 1.0).collect(),
                curvature: (0..9).map(|at| if at % 4 == 0 { 1.0 / weights[at / 4] } else { 0.0 }).collect(),
                scale: 1.0,
            })
        };
        (minimize_smooth(&form, &Bounds::simplex(3), &[1.0 / 3.0; 3], &entropy), calls.into_inner())
    };
    assert!(run(usize::MAX).1 > 3 && run(usize::MAX).0.is_ok());
    let (result, calls) = run(2);
    assert!(stopped(result));
    assert_eq!(calls, 2);
}

#[test]
fn a_simulation_ends_between_its_runs_and_between_rounds() {
    let arms = arms(50, 4);
    let loss = |stop: &Stop| {
        let inputs = Inputs::new().arms(&arms).engine(stopped_by(Cpu::new(), stop));
        Objective::rke().with_bandwidth(0.5).prepare(inputs).unwrap()
    };
    let short = Simulation::default().rounds(60).seeds(20).threads(2);
    let (stop, runs) = (Stop::new(), AtomicUsize::new(0));
    let done = || {
        runs.fetch_add(1, Ordering::SeqCst);
        stop.set();
    };
    assert!(stopped(simulate_watched(&arms, &loss(&stop), &short, &done)));
    assert!(runs.load(Ordering::SeqCst) <= 2, "{runs:?} runs ended after the stop");

    // A run of this many rounds, each of which uses all before it, would take hours.
    for (threads, memory) in [(1, 0), (2, 1 << 30)] {
        let long = Simulation::default().rounds(3_000_000).seeds(2).threads(threads).memory(memory);
        assert!(stopped(simulate(&arms, &loss(&soon()), &long)));
    }
    let whole = simulate(&arms, &loss(&Stop::new()), &short).unwrap();
    assert_eq!(simulate(&arms, &loss(&Stop::new()), &short).unwrap(), whole);
}

#[test]
fn a_curation_ends_between_its_steps() {
    let (arms, stop, steps) = (arms(60, 4), Stop::new(), AtomicUsize::new(0));
    let prepare = |stop: &Stop| {
        let inputs = Inputs::new().arms(&arms).engine(stopped_by(Cpu::with_threads(1), stop));
        Objective::rke().with_bandwidth(0.5).prepare(inputs).unwrap()
    };
    let settings = Curation::default().count(40);
    let bounds = Bounds::simplex(3);
    // During herding, and during exchanges.
    for at in [7, 55] {
        let (stop, steps) = (Stop::new(), AtomicUsize::new(0));
        let done = || {
            if steps.fetch_add(1, Ordering::SeqCst) + 1 == at {
                stop.set();
            }
        };
        assert!(stopped(curate_within(&arms, &prepare(&stop), &bounds, &settings, &done)));
        assert_eq!(steps.into_inner(), at);
    }
    let done = || {
        steps.fetch_add(1, Ordering::SeqCst);
    };
    assert!(curate_within(&arms, &prepare(&stop), &bounds, &settings, &done).is_ok());
    assert!(steps.into_inner() > 60, "there were few steps to stop at");
}

#[test]
fn searches_and_draws_check_the_token_they_are_given() {
    let arms = arms(20, 3);
    let loss = Objective::rke().with_bandwidth(0.5).prepare(Inputs::new().arms(&arms)).unwrap();
    let statistics = modelmix::mixture::statistics(&arms, &loss).unwrap();
    let (form, bounds, weights) = (statistics.biased(), Bounds::simplex(3), [1.0 / 3.0; 3]);
    let influences = Influences::new(&statistics).unwrap();
    let prices = Prices { fees: vec![1.0; 3], costs: vec![1.0, 2.0, 3.0] };
    let run = |stop: &Stop| {
        [
            certainty(&influences, &bounds, &weights, stop).map(drop),
            simplex::subsets(&form, &bounds, stop).map(drop),
            simplex::eliminate(&form, &bounds, stop).map(drop),
            simplex::cheapest(&form, &bounds, &prices, 10.0, stop).map(drop),
        ]
    };
    assert!(run(&Stop::new()).iter().all(Result::is_ok));
    let stop = Stop::new();
    stop.set();
    assert!(run(&stop).into_iter().all(stopped));
}

#[test]
fn neighbours_end_within_the_share_of_a_thread() {
    let neighbourhoods = Neighbourhoods::default();
    let (small, large) = (features(600, 16, 1), features(60_000, 512, 2));
    let of = |features: &Features, threads: usize, stop: &Stop| {
        let engine = stopped_by(Double::with_threads(threads), stop);
        prdc(&Pool::of(features), features, &neighbourhoods, &engine)
    };
    for threads in [1, 2] {
        let before = of(&small, threads, &Stop::new()).unwrap();
        // 1.8 billion pairs of 512 numbers each: many seconds.
        assert!(stopped(of(&large, threads, &soon())));
        assert_eq!(of(&small, threads, &Stop::new()).unwrap(), before);
    }
}

#[test]
fn plain_loops_check_at_every_row() {
    let (x, kernel) = (features(60_000, 16, 3), Kernel::Gaussian { bandwidth: 1.0 });
    assert!(stopped(stopped_by(Reference, &soon()).kernel_sums(&kernel, &x, &x)));
    assert!(stopped(stopped_by(Reference, &soon()).neighbours(&x, 3)));
    // If squares overflow single precision, the engine falls back on them.
    let far = Features::from_rows((0..60_000).map(|row| [1e18 * row as f32, 0.0])).unwrap();
    assert!(stopped(stopped_by(Cpu::new(), &soon()).kernel_sums(&kernel, &far, &far)));
}

/// A session that is stopped anywhere in a `tell` has accepted the whole answer or none of it: statistics, samples,
/// alarm.
#[test]
fn a_session_takes_an_answer_whole_or_not_at_all() {
    let settings = [
        SessionSettings::default().batch(3).alarm(0.01),
        SessionSettings::default()
            .batch(3)
            .retention(Retention::Capped(Cap::default().hold(40).error(0.1)))
            .alarm(0.01),
        SessionSettings::default().batch(3).retention(Retention::Window(40)),
    ];
    let sample = |round: u64| features(3, 4, 100 + round);
    let snapshot = |session: &Session| serde_json::to_string(&session.snapshot()).unwrap();
    for (which, settings) in settings.iter().enumerate() {
        // Every call of the engine is a point to stop at, until there are no more.
        let mut places = 0;
        for place in 0.. {
            let (stop, counter) = (Stop::new(), Arc::new(AtomicUsize::new(usize::MAX)));
            let (token, left) = (stop.clone(), Arc::clone(&counter));
            let backend = Faulty::new(move || {
                if left.fetch_sub(1, Ordering::SeqCst) == 0 {
                    token.set();
                }
                Ok(())
            });
            let inputs = Inputs::new().width(4).engine(stopped_by(backend, &stop));
            let loss = Objective::rke().with_bandwidth(0.5).prepare(inputs).unwrap();
            let mut session = Session::new(["a", "b"], loss, settings).unwrap();
            for round in 0..30 {
                let pull = session.ask().unwrap();
                session.tell(pull.id, &sample(round)).unwrap();
            }
            let pull = session.ask().unwrap();
            let before = snapshot(&session);
            let mut whole = session.clone();
            whole.tell(pull.id, &sample(30)).unwrap();
            counter.store(place, Ordering::SeqCst);
            let result = session.tell(pull.id, &sample(30));
            let reached = counter.load(Ordering::SeqCst) > place;
            match result {
                Ok(()) => assert_eq!(snapshot(&session), snapshot(&whole), "settings {which}, place {place}"),
                Err(Error::Stopped) => assert_eq!(snapshot(&session), before, "settings {which}, place {place}"),
                Err(error) => panic!("{error}"),
            }
            if !reached {
                break;
            }
            places += 1;
        }
        assert!(places >= 2, "settings {which}: {places} places to stop at");
    }
}
