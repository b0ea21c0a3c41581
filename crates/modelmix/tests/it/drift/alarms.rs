//! Drift alarms: the rate of false alarms, and the detection delay.

use super::*;

const DIMENSIONS: usize = 16;

/// A session of one arm with a drift detector; it holds few samples, because only the detector matters.
fn watched(chance: f64, seed: u64) -> Session {
    let loss = Objective::parse("rke(bandwidth=8)").unwrap().prepare(Inputs::new()).unwrap();
    let settings = SessionSettings::default().seed(seed).alarm(chance).retention(Retention::Window(8));
    Session::new(["arm"], loss, &settings).unwrap()
}

/// Tells `samples` samples, N(0, 1) at first, and from `change` on as `moved` makes them. Returns the sample at which
/// the alarm was raised.
fn rings(chance: f64, seed: u64, samples: usize, change: usize, moved: impl Fn(usize, f64) -> f64) -> Option<usize> {
    let mut session = watched(chance, seed);
    let mut random = Random::stream(seed, 5);
    for sample in 0..samples {
        let pull = session.ask().unwrap();
        let value = |column: usize, value: f64| if sample < change { value } else { moved(column, value) };
        let row: Vec<f32> = (0..DIMENSIONS).map(|column| value(column, random.normal()) as f32).collect();
        session.tell(pull.id, &Features::new(DIMENSIONS, row).unwrap()).unwrap();
        // A report is expensive: only one when an alarm may have been raised.
        if sample % 5 == 4
            && let Some(round) = session.report().unwrap().arms[0].changed
        {
            return Some(round as usize);
        }
    }
    None
}

/// Of 1,000 arms that do not change over 400 samples, at most 5% raise an alarm at a false-alarm probability of 5%:
/// Binomial(1000, 0.05) is above 79 with probability 3e-5. The control, a repeated test at 5% of the last 50 samples
/// against those before, raises one for most arms.
#[test]
fn arms_that_do_not_change_seldom_ring() {
    let alarms = (0..1000).filter(|&seed| rings(0.05, seed, 400, usize::MAX, |_, value| value).is_some()).count();
    println!("false alarms: {alarms} of 1000 at 5%");
    assert!(alarms <= 79, "{alarms} of 1000");
    let naive = (0..100u64)
        .filter(|&seed| {
            let mut random = Random::stream(seed, 6);
            let scores: Vec<f64> = (0..400).map(|_| random.normal()).collect();
            (100..400).any(|end| {
                let mean =
                    |range: std::ops::Range<usize>| scores[range.clone()].iter().sum::<f64>() / range.len() as f64;
                let deviation = (1.0 / 50.0 + 1.0 / (end - 50) as f64).sqrt();
                ((mean(end - 50..end) - mean(0..end - 50)) / deviation).abs() > 1.96
            })
        })
        .count();
    assert!(naive > 50, "the control: {naive} of 100");
}

/// The delays between a change after 200 samples and the alarm, over 60 seeds, sorted; the number of samples told if
/// there is no alarm.
fn delays(moved: impl Fn(usize, f64) -> f64 + Copy) -> Vec<usize> {
    let mut delays: Vec<usize> =
        (0..60).map(|seed| rings(0.01, seed, 400, 200, moved).map_or(200, |at| at.saturating_sub(200))).collect();
    delays.sort_unstable();
    delays
}

#[test]
fn arms_that_change_ring_soon() {
    let shifted = |by: f64| delays(move |column, value| if column < DIMENSIONS / 2 { value + by } else { value });
    let (one, two) = (shifted(1.0), shifted(2.0));
    let collapsed = delays(|_, value| 0.5 * value);
    for (name, delays) in [("1 sd in half", &one), ("2 sd in half", &two), ("half the spread", &collapsed)] {
        let missed = delays.iter().filter(|&&delay| delay == 200).count();
        println!("{name}: median {}, nine in ten {}, not within 200: {missed}", delays[30], delays[53]);
    }
    assert!(one[30] <= 45 && one[53] <= 90, "{one:?}");
    assert!(two[30] <= 15 && two[59] <= 30, "{two:?}");
    assert!(collapsed[30] <= 25 && collapsed[53] <= 40, "{collapsed:?}");
}

#[test]
fn an_alarm_that_rang_stays_until_the_arm_is_forgotten() {
    let mut session = watched(0.01, 1);
    let mut random = Random::seeded(4);
    let mut tell = |session: &mut Session, samples: usize, place: f64| {
        for _ in 0..samples {
            let pull = session.ask().unwrap();
            let row: Vec<f32> = (0..DIMENSIONS).map(|_| (place + random.normal()) as f32).collect();
            session.tell(pull.id, &Features::new(DIMENSIONS, row).unwrap()).unwrap();
        }
        session.report().unwrap().arms[0].changed
    };
    assert_eq!(tell(&mut session, 150, 0.0), None);
    let rang = tell(&mut session, 50, 3.0).expect("three deviations everywhere");
    assert!((150..180).contains(&rang), "{rang}");
    assert_eq!(tell(&mut session, 100, 0.0), Some(rang));
    session.forget(0).unwrap();
    assert_eq!(tell(&mut session, 150, 3.0), None, "what it was like before is forgotten");
    assert!(tell(&mut session, 50, 0.0).is_some());
}

/// If the objective has no pairs, the scores themselves are monitored.
#[test]
fn scores_are_watched_where_there_is_no_kernel() {
    let loss = Objective::parse("quality").unwrap().prepare(Inputs::new().score_range("quality", 0.0, 9.0)).unwrap();
    let settings = SessionSettings::default().alarm(0.01);
    let mut session = Session::new(["arm"], loss, &settings).unwrap();
    let mut random = Random::seeded(8);
    for sample in 0..300 {
        let pull = session.ask().unwrap();
        let quality = random.normal() + if sample < 200 { 0.0 } else { 2.0 };
        let scores = [("quality".to_string(), vec![quality])].into();
        session.tell_scored(pull.id, &Features::new(1, vec![0.0]).unwrap(), &scores).unwrap();
    }
    let rang = session.report().unwrap().arms[0].changed.expect("two deviations");
    assert!((200..240).contains(&rang), "{rang}");
}

/// Sessions of one arm whose samples always look alike, but of which fewer are good from the 200th on. Returns the
/// number that raise an alarm.
fn quality_alarms(later: f64, seeds: u64) -> usize {
    let loss = Objective::parse("rke(bandwidth=8) - good").unwrap().prepare(Inputs::new()).unwrap();
    let rings = |seed: u64| {
        let settings = SessionSettings::default().seed(seed).alarm(0.05).retention(Retention::Window(8));
        let mut session = Session::new(["arm"], loss.clone(), &settings).unwrap();
        let mut random = Random::stream(seed, 7);
        for sample in 0..400 {
            let pull = session.ask().unwrap();
            let row: Vec<f32> = (0..DIMENSIONS).map(|_| random.normal() as f32).collect();
            let chance = if sample < 200 { 0.9 } else { later };
            let good = vec![f64::from(u8::from(random.unit() < chance))];
            let scores = [("good".to_string(), good)].into();
            session.tell_scored(pull.id, &Features::new(DIMENSIONS, row).unwrap(), &scores).unwrap();
        }
        session.report().unwrap().arms[0].changed.is_some()
    };
    (0..seeds).filter(|&seed| rings(seed)).count()
}

/// A model whose outputs look the same but become worse is detected by its scores. Of 200 that do not become worse, 10
/// may raise an alarm at 5%; 22 would with a probability of 2e-4.
#[test]
fn scores_are_watched_too() {
    assert!(quality_alarms(0.3, 40) >= 38);
    let alarms = quality_alarms(0.9, 200);
    assert!(alarms <= 22, "{alarms} of 200");
}
