//! Long work can be stopped, gives nothing then, and leaves nothing behind that a later call would notice. Where a stop comes
//! from a timer, the work would take far longer than the timer: it is the missing answer that tells, not the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use modelmix::compute::{Backend, Cpu, Double, Reference, stoppable};
use modelmix::metrics::{Neighbourhoods, Pool, prdc};
use modelmix::random::Random;
use modelmix::simplex::{Bounds, Local, minimize_smooth};
use modelmix::{
    Features, Inputs, Kernel, Objective, Quadratic, RecordedArm, RecordedArms, Simulation, simulate, simulate_watched,
    solve,
};

fn never() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// Sets a stop from another thread, a little later.
fn soon() -> Arc<AtomicBool> {
    let stop = never();
    let other = Arc::clone(&stop);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.store(true, Ordering::Relaxed);
    });
    stop
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
        let stop = never();
        let (seen, other) = (Arc::new(AtomicU64::new(0)), Arc::clone(&stop));
        let count = Arc::clone(&seen);
        let watched = Cpu::with_threads(threads).watched(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            other.store(true, Ordering::SeqCst);
        });
        let loss = objective.prepare(Inputs::new().arms(&arms).backend(watched)).unwrap();
        assert!(stoppable(&stop, || solve(&arms, &loss).unwrap()).is_none());
        let pieces = seen.load(Ordering::SeqCst);
        assert!((1..=threads as u64).contains(&pieces), "{pieces} pieces with {threads} threads");
        // The same again, on threads and buffers that were stopped, is what it is where nothing ever was.
        let again = stoppable(&never(), || solve(&arms, &loss).unwrap());
        assert!(seen.load(Ordering::SeqCst) > 20 + pieces, "there were few pieces to stop");
        let plain = objective.prepare(Inputs::new().arms(&arms).backend(Cpu::with_threads(threads))).unwrap();
        let fresh = std::thread::scope(|scope| scope.spawn(|| solve(&arms, &plain).unwrap()).join().unwrap());
        assert_eq!(again, Some(fresh));
    }
}

#[test]
fn a_search_ends_between_its_steps() {
    // Σα ln α + fᵀα, which takes several steps.
    let form = Quadratic::new(vec![0.0; 9], vec![0.0, 2.0, 5.0]).unwrap();
    let (stop, calls) = (never(), AtomicUsize::new(0));
    let entropy = |stop_at: usize| {
        let (stop, calls) = (&stop, &calls);
        move |weights: &[f64]| {
            if calls.fetch_add(1, Ordering::SeqCst) + 1 == stop_at {
                stop.store(true, Ordering::SeqCst);
            }
            Local {
                value: weights.iter().map(|a| a * a.ln()).sum(),
                gradient: weights.iter().map(|a| a.ln() + 1.0).collect(),
                curvature: (0..9).map(|at| if at % 4 == 0 { 1.0 / weights[at / 4] } else { 0.0 }).collect(),
                scale: 1.0,
            }
        }
    };
    let run = |stop_at: usize| minimize_smooth(&form, &Bounds::simplex(3), &[1.0 / 3.0; 3], &entropy(stop_at)).unwrap();
    let whole = run(usize::MAX);
    assert!(calls.swap(0, Ordering::SeqCst) > 3);
    assert!(stoppable(&stop, || run(2)).is_none());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(stoppable(&never(), || run(usize::MAX)), Some(whole));
}

#[test]
fn a_simulation_ends_between_its_runs_and_between_rounds() {
    let arms = arms(50, 4);
    let loss = Objective::rke().with_bandwidth(0.5).prepare(Inputs::new().arms(&arms)).unwrap();
    let short = Simulation { rounds: 60, seeds: 20, threads: Some(2), ..Simulation::default() };
    let whole = simulate(&arms, &loss, &short).unwrap();

    let (stop, runs) = (never(), AtomicUsize::new(0));
    let done = || {
        runs.fetch_add(1, Ordering::SeqCst);
        stop.store(true, Ordering::SeqCst);
    };
    assert!(stoppable(&stop, || simulate_watched(&arms, &loss, &short, &done).unwrap()).is_none());
    assert!(runs.load(Ordering::SeqCst) <= 2, "{runs:?} runs ended after the stop");

    // A run of so many rounds, each of which looks back at all before it, would take hours.
    for (threads, memory) in [(1, 0), (2, 1 << 30)] {
        let long = Simulation { rounds: 3_000_000, seeds: 2, threads: Some(threads), memory, ..Simulation::default() };
        assert!(stoppable(&soon(), || simulate(&arms, &loss, &long).unwrap()).is_none());
    }
    assert_eq!(stoppable(&never(), || simulate(&arms, &loss, &short).unwrap()), Some(whole));
}

#[test]
fn neighbours_end_within_the_share_of_a_thread() {
    let neighbourhoods = Neighbourhoods::default();
    let (small, large) = (features(600, 16, 1), features(60_000, 512, 2));
    let of = |features: &Features, threads: usize| {
        prdc(&Pool::of(features), features, &neighbourhoods, &Double::with_threads(threads)).unwrap()
    };
    for threads in [1, 2] {
        let before = of(&small, threads);
        // 1.8 billion pairs of 512 numbers each: many seconds.
        assert!(stoppable(&soon(), || of(&large, threads)).is_none());
        assert_eq!(stoppable(&never(), || of(&small, threads)), Some(before));
    }
}

#[test]
fn plain_loops_look_at_every_row() {
    let (x, kernel) = (features(60_000, 16, 3), Kernel::Gaussian { bandwidth: 1.0 });
    assert!(stoppable(&soon(), || Reference.kernel_sums(&kernel, x.view(), x.view())).is_none());
    assert!(stoppable(&soon(), || Reference.neighbours(x.view(), 3)).is_none());
    // Where squares leave single precision the engine falls back on them.
    let far = Features::from_rows((0..60_000).map(|row| [1e18 * row as f32, 0.0])).unwrap();
    assert!(stoppable(&soon(), || Cpu::new().kernel_sums(&kernel, far.view(), far.view())).is_none());
}

#[test]
fn what_has_been_stopped_does_not_begin() {
    let stop = never();
    stop.store(true, Ordering::SeqCst);
    assert_eq!(stoppable(&stop, || panic!("it began")), None::<()>);
}
