//! A session is the fold of the committed events: one restored from a store is the one that was interrupted, to the last bit.

use modelmix::session::Answer;
use modelmix::{Event, Features, Inputs, Objective, Session, SessionSettings};
use modelmix_live::store::change::{Change, EncodedSample, ReceivedSample};
use modelmix_live::store::{Reader, Store};

use super::{DESCRIPTION, folder_in_memory};

fn session() -> Session {
    let loss = Objective::parse("rke - 0.2*valid").unwrap().with_bandwidth(3.0).prepare(Inputs::new()).unwrap();
    let mut settings = SessionSettings::default();
    settings.batch = 2;
    Session::new(["left", "right"], loss, &settings).unwrap()
}

#[test]
fn a_session_comes_back_to_the_last_bit() {
    let folder = folder_in_memory();
    let mut store = Store::create(folder.path(), DESCRIPTION).unwrap();
    let mut session = session();
    for pull in 0..60u64 {
        let event = session.decide().and_then(|event| session.perform(event)).unwrap();
        let Event::Asked(asked) = &event else { panic!("{event:?}") };
        let arm = asked.arm;
        store.commit(&[Change::Asked { event, prompt: None, seed: pull, at: 0 }]).unwrap();
        if pull % 7 == 3 {
            session.abandon(pull).unwrap();
            store.commit(&[Change::Abandoned { pull, reason: "refused".into(), at: 0 }]).unwrap();
            continue;
        }
        let row = |sample: u64| vec![arm as f32 * 4.0 + (pull as f32).sin(), (sample + pull) as f32 * 0.37];
        let valid = |sample: u64| ((pull + sample) as f64).cos() / 3.0;
        let features = Features::new(2, [row(0), row(1)].concat()).unwrap();
        let scores = [("valid".to_owned(), vec![valid(0), valid(1)])].into();
        let event = session.perform(Event::told(pull, Answer::scored(&features, &scores))).unwrap();
        let Event::Told(told) = event else { unreachable!("a told event stays one") };
        let samples = [0, 1].map(|_| ReceivedSample { payload: None, features: Some(vec![]) }).to_vec();
        let encoded = |sample: u64| EncodedSample {
            ordinal: sample as usize,
            features: row(sample),
            scores: [("valid".to_owned(), valid(sample))].into(),
        };
        let changes = [
            Change::Sent { pull, attempt: 1, reserved: 0.0, at: 0 },
            Change::Received { pull, attempt: 1, samples, cost: 0.0, at: 0 },
            Change::Told { pull, samples: vec![encoded(0), encoded(1)], decisions: told.decisions, at: 0 },
        ];
        store.commit(&changes).unwrap();
    }
    let history = Reader::open(folder.path()).unwrap().history().unwrap();
    let mut restored = self::session();
    for event in &history.events {
        restored.verify(event).unwrap();
        restored.apply(event).unwrap();
    }
    assert_eq!(restored.snapshot().to_json().unwrap(), session.snapshot().to_json().unwrap());
}
