//! Shards of files: the same bits for any number of threads, with lost, retried and doubled parts, and after an interruption.

use modelmix::accumulate::{Accumulator, Method, PlanSettings, Role, SurveySettings, threads_within};
use modelmix::load::{Shard, ShardColumns, shards};
use modelmix::policy::Random;
use modelmix::{Error, Objective};
use proptest::prelude::*;

/// The fixtures of pyarrow: 300 rows of three arms in row groups of 128, and a file whose last row group has other values.
fn fixture(name: &str) -> Vec<Shard> {
    let path = format!("{}/tests/fixtures/load/{name}.parquet", env!("CARGO_MANIFEST_DIR"));
    let columns = ShardColumns::new().features("embedding").arm("model").scores(["reward"]);
    shards(&[path.parse().expect("a source")], &columns).expect("shards")
}

fn all_shards() -> Vec<Shard> {
    let files = ["shard_plain", "shard_dictionary", "shard_version2"];
    files.into_iter().flat_map(fixture).collect()
}

fn survey() -> Accumulator {
    Accumulator::survey(&SurveySettings::default().sample(40).scores(vec!["reward".into()]))
}

fn planned() -> Accumulator {
    let mut survey = survey();
    survey.add_shards(&all_shards(), Role::Arms, 2, |_, _| Ok(())).expect("whole files");
    let objective = Objective::parse("rke(bandwidth=9) - 0.001*reward + 0.01*vendi").expect("an objective");
    let settings = PlanSettings::default().method(Method::Features).features(32);
    let plan = survey.plan(&objective, &settings).expect("a plan").plan;
    Accumulator::new(&plan, None).expect("an accumulator")
}

fn whole(empty: &Accumulator, threads: usize) -> Accumulator {
    let mut sums = empty.empty();
    sums.add_shards(&all_shards(), Role::Arms, threads, |_, _| Ok(())).expect("whole files");
    sums
}

#[test]
fn any_number_of_threads_has_the_same_bits() {
    for empty in [survey(), planned()] {
        let one = whole(&empty, 1);
        assert_eq!((one.counts().values().sum::<u64>(), one.shards().len()), (900, 9));
        for threads in [2, 3, 16] {
            assert_eq!(whole(&empty, threads).to_bytes(), one.to_bytes(), "{threads} threads");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every shard is summed once or several times, as by workers that are retried; some results arrive twice, and a merge that
    /// is refused changes nothing. Parts go over the wire as bytes, and merge in a random tree.
    #[test]
    fn retried_and_doubled_shards_change_nothing(seed in 0u64..10_000) {
        let mut random = Random::seeded(seed);
        let empty = planned();
        let expected = whole(&empty, 2);
        let mut parts: Vec<Accumulator> = Vec::new();
        for shard in all_shards() {
            for attempt in 0..1 + random.below(3) {
                let mut part = empty.empty();
                part.add_shards(std::slice::from_ref(&shard), Role::Arms, 1 + attempt, |_, _| Ok(())).expect("whole files");
                parts.push(Accumulator::from_bytes(&part.to_bytes(), None).expect("whole bytes"));
            }
        }
        let mut dropped = 0;
        while parts.len() > 1 {
            let other = parts.swap_remove(random.below(parts.len()));
            let at = random.below(parts.len());
            let before = parts[at].to_bytes();
            if parts[at].merge(&other).is_err() {
                // One of the two has all shards of the other, or they overlap; only parts of one shard are doubled here, so
                // what is not in this one is added shard by shard.
                prop_assert_eq!(parts[at].to_bytes(), before);
                let missing: Vec<Shard> = all_shards()
                    .into_iter()
                    .filter(|shard| other.shards().contains_key(shard.name()) && !parts[at].shards().contains_key(shard.name()))
                    .collect();
                parts[at].add_shards(&missing, Role::Arms, 1, |_, _| Ok(())).expect("whole files");
                dropped += 1;
            }
        }
        prop_assert_eq!(parts[0].to_bytes(), expected.to_bytes(), "{} were dropped", dropped);
    }
}

/// An accumulator that was stored in the middle goes on from there, and the shards that it has are not read again.
#[test]
fn interrupted_work_goes_on() {
    let empty = planned();
    let shards = all_shards();
    for stop_after in 1..shards.len() {
        let (mut stored, mut done) = (Vec::new(), 0);
        let stopped = empty.empty().add_shards(&shards, Role::Arms, 1, |sums, rows| {
            assert!(rows > 0);
            done += 1;
            stored = sums.to_bytes();
            if done == stop_after { Err(Error::Stopped) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(Error::Stopped)));
        let mut resumed = empty.like_from_bytes(&stored).expect("whole bytes");
        let mut left = 0;
        resumed
            .add_shards(&shards, Role::Arms, 2, |_, _| {
                left += 1;
                Ok(())
            })
            .expect("whole files");
        assert_eq!(left, shards.len() - stop_after);
        assert_eq!(resumed.to_bytes(), whole(&empty, 1).to_bytes());
    }
}

/// Tasks may each add the whole reference: it counts once. A part of it is not taken for the whole.
#[test]
fn a_reference_counts_once() {
    let (arms, reference) = (fixture("shard_plain"), fixture("shard_version2"));
    let empty = survey();
    let add = |sums: &mut Accumulator, shards: &[Shard], role| {
        sums.add_shards(shards, role, 1, |_, _| Ok(())).expect("whole files");
    };
    let mut once = empty.empty();
    add(&mut once, &arms, Role::Arms);
    add(&mut once, &reference, Role::Reference);
    let mut merged = empty.empty();
    for shard in &arms {
        let mut task = empty.empty();
        add(&mut task, std::slice::from_ref(shard), Role::Arms);
        add(&mut task, &reference, Role::Reference);
        merged.merge(&task).expect("the same reference");
    }
    assert_eq!((merged.reference_count(), merged.to_bytes()), (300, once.to_bytes()));
    // Parts of it, in any order.
    for (first, second) in [(&reference[..], &reference[..1]), (&reference[1..], &reference[..])] {
        let (mut one, mut other) = (empty.empty(), empty.empty());
        add(&mut one, first, Role::Reference);
        add(&mut other, second, Role::Reference);
        one.merge(&other).expect("one has all of the other");
        assert_eq!(one.reference_count(), 300);
    }
    let (mut one, mut other) = (empty.empty(), empty.empty());
    add(&mut one, &reference[..2], Role::Reference);
    add(&mut other, &reference[1..], Role::Reference);
    let before = one.to_bytes();
    assert!(one.merge(&other).is_err_and(|error| error.to_string().contains("row group 1")));
    assert_eq!(one.to_bytes(), before);
}

#[test]
fn a_broken_shard_is_named_and_adds_nothing() {
    let columns = ShardColumns::new();
    for (name, parts) in [("shard_nan", ["row group", "NaN"]), ("shard_widths", ["row group 1", "columns"])] {
        let path = format!("{}/tests/fixtures/load/{name}.parquet", env!("CARGO_MANIFEST_DIR"));
        let shards = shards(&[path.parse().expect("a source")], &columns).expect("shards");
        let mut survey = Accumulator::survey(&SurveySettings::default());
        let error = survey.add_shards(&shards, Role::Arms, 1, |_, _| Ok(())).expect_err("a broken row").to_string();
        assert!(parts.iter().all(|part| error.contains(part)) && error.contains(name), "{error}");
        let rows: u64 = survey.shards().values().sum();
        assert_eq!(survey.counts().values().sum::<u64>(), rows, "no row of the broken shard");
    }
    let plain = fixture("shard_plain");
    let twice: Vec<Shard> = plain.iter().chain(&plain).cloned().collect();
    assert!(survey().add_shards(&twice, Role::Arms, 2, |_, _| Ok(())).is_err());
}

#[test]
fn threads_fit_into_the_budget() {
    // One accumulator is shared beside 30 MiB, and every thread has one with 160 MiB to work in.
    let each = (100 << 20) + (160 << 20);
    assert_eq!(threads_within((130 << 20) + 3 * each, 100 << 20, 30 << 20, 8).expect("enough"), 3);
    assert_eq!(threads_within(u64::MAX, 100 << 20, 0, 8).expect("plenty"), 8);
    let refusal = threads_within((130 << 20) + each - 1, 100 << 20, 30 << 20, 8).expect_err("too little").to_string();
    assert!(refusal.contains("the memory is") && refusal.contains("GB"), "{refusal}");
}
