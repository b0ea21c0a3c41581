//! Sessions on an engine with its own memory, which can fail: the rows on the host are authoritative.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use modelmix::compute::Engine;
use modelmix::policy::Random;
use modelmix::session::Retention;
use modelmix::{Error, Features, Inputs, Objective, Session, SessionSettings};

use super::{NAMES, state};
use crate::faulty::Faulty;
use crate::worlds::clusters;

fn session(backend: Faulty, settings: &SessionSettings) -> Session {
    let inputs = Inputs::new().engine(Engine::new(backend));
    let loss = Objective::rke().with_bandwidth(1.5).prepare(inputs).unwrap();
    Session::new(NAMES, loss, settings).unwrap()
}

/// A device that is lost at any of its calls costs only time: the session continues with the rows on the host, mirrors
/// them again, and is the same to the last bit.
#[test]
fn a_lost_device_loses_no_answer() {
    for retention in [Retention::All, Retention::Window(24)] {
        let settings = SessionSettings::default().batch(2).retention(retention);
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let flaky = Faulty::new(move || match count.fetch_add(1, Ordering::SeqCst) {
            at if at % 7 == 6 => Err(Error::Device { device: "a device".into(), problem: "it was unplugged".into() }),
            _ => Ok(()),
        });
        let mut flaky = session(flaky.device(), &settings);
        let mut sound = session(Faulty::new(|| Ok(())), &settings);
        let (mut random, mut failures) = (Random::seeded(3), 0);
        for _ in 0..60 {
            let (pull, same) = (flaky.ask().unwrap(), sound.ask().unwrap());
            assert_eq!(pull, same);
            let samples = clusters(pull.index, 2, &mut random);
            // Computations that do not involve held rows have no fallback, so they may fail; then nothing has changed.
            while let Err(error) = flaky.tell(pull.id, &samples) {
                assert!(matches!(error, Error::Device { .. }), "{error}");
                failures += 1;
            }
            sound.tell(same.id, &samples).unwrap();
            assert_eq!(state(&flaky), state(&sound));
        }
        assert!(calls.load(Ordering::SeqCst) / 7 > failures, "no call against rows held has failed");
    }
}

/// If there is not enough memory for the first samples, the session is unchanged: it can be stored, and accepts rows of
/// any width.
#[test]
fn no_room_for_the_first_samples_leaves_nothing_behind() {
    let full = Faulty::new(|| Ok(())).device();
    let is_full = Arc::clone(&full.is_full);
    let mut session = session(full, &SessionSettings::default());
    let (pull, before) = (session.ask().unwrap(), state(&session));
    is_full.store(true, Ordering::SeqCst);
    let refused = session.tell(pull.id, &Features::new(3, vec![0.5; 3]).unwrap()).unwrap_err();
    assert!(matches!(refused, Error::Memory { .. }), "{refused}");
    let pull = session.in_flight()[0].id;
    assert_eq!(state(&session), before);
    is_full.store(false, Ordering::SeqCst);
    session.tell(pull, &Features::new(2, vec![0.5; 2]).unwrap()).unwrap();
    assert_eq!(session.samples().unwrap().width(), 2);
}
