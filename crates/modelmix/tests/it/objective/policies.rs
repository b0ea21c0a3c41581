//! Policies as text: parsing, printing, and errors with their positions.

use modelmix::PolicySpec;
use modelmix::policy::WidthSpec;
use proptest::prelude::*;

use super::{numbers, unread};

fn policies() -> impl Strategy<Value = PolicySpec> {
    let widths = || {
        (prop_oneof![Just(4.0), numbers()], prop::option::of(numbers()), prop::option::of(numbers()))
            .prop_map(|(beta, sensitivity, kappa)| WidthSpec { beta, sensitivity, kappa })
    };
    prop_oneof![
        Just(PolicySpec::Adaptive),
        Just(PolicySpec::Greedy),
        Just(PolicySpec::Uniform),
        Just(PolicySpec::MixtureOracle),
        Just(PolicySpec::OneArmOracle),
        widths().prop_map(PolicySpec::Cab),
        widths().prop_map(PolicySpec::Ogd),
        widths().prop_map(PolicySpec::Vanilla),
        (widths(), numbers()).prop_map(|(width, fee)| PolicySpec::SparseFee(width, fee)),
        (widths(), any::<usize>(), prop::option::of(numbers()))
            .prop_map(|(width, keep, step)| PolicySpec::SparseKeep(width, keep, step)),
        prop::option::of(any::<usize>()).prop_map(PolicySpec::Halving),
        (prop::collection::vec(numbers(), 1..6), any::<bool>())
            .prop_map(|(weights, tracked)| PolicySpec::Fixed(weights, tracked)),
    ]
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn policies_print_what_they_are_read_from(policy in policies()) {
        let text = policy.to_string();
        prop_assert_eq!(&text.parse::<PolicySpec>().unwrap(), &policy, "{}", text);
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(&json, &serde_json::to_string(&text).unwrap(), "a policy is a string");
        prop_assert_eq!(serde_json::from_str::<PolicySpec>(&json).unwrap(), policy);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(cab|sparse|fixed|weights|keep|[-(),=]|[0-9.]{1,3}|é| ){0,12}") {
        if let Ok(policy) = text.parse::<PolicySpec>() {
            prop_assert_eq!(policy.to_string().parse::<PolicySpec>().unwrap(), policy);
        }
    }
}

#[test]
fn policies_are_read_by_name() {
    let tuned = WidthSpec::tuned(0.1);
    let table = [
        ("adaptive", PolicySpec::Adaptive, "adaptive"),
        (" cab ", PolicySpec::Cab(WidthSpec::default()), "cab"),
        ("cab(beta=4)", PolicySpec::Cab(WidthSpec::default()), "cab"),
        (
            "cab(beta=2, sensitivity=0.1)",
            PolicySpec::Cab(WidthSpec { beta: 2.0, ..tuned }),
            "cab(beta=2, sensitivity=0.1)",
        ),
        (
            "ogd(kappa=0.05, sensitivity=0.1)",
            PolicySpec::Ogd(WidthSpec { kappa: Some(0.05), ..tuned }),
            "ogd(sensitivity=0.1, kappa=0.05)",
        ),
        ("vanilla", PolicySpec::Vanilla(WidthSpec::default()), "vanilla"),
        ("sparse(fee=0.06)", PolicySpec::SparseFee(WidthSpec::default(), 0.06), "sparse(fee=0.06)"),
        ("sparse(keep=2)", PolicySpec::SparseKeep(WidthSpec::default(), 2, None), "sparse(keep=2)"),
        (
            "sparse(step=0.001, keep=2, sensitivity=0.1)",
            PolicySpec::SparseKeep(tuned, 2, Some(0.001)),
            "sparse(sensitivity=0.1, keep=2, step=0.001)",
        ),
        ("halving", PolicySpec::Halving(None), "halving"),
        ("halving(rounds=1000)", PolicySpec::Halving(Some(1000)), "halving(rounds=1000)"),
        ("fixed(weights=0.5 0.5)", PolicySpec::Fixed(vec![0.5, 0.5], false), "fixed(weights=0.5 0.5)"),
        ("fixed(tracked=true, weights=1)", PolicySpec::Fixed(vec![1.0], true), "fixed(weights=1, tracked=true)"),
        ("mixture-oracle", PolicySpec::MixtureOracle, "mixture-oracle"),
        ("one-arm-oracle()", PolicySpec::OneArmOracle, "one-arm-oracle"),
    ];
    for (text, expected, printed) in table {
        assert_eq!(text.parse::<PolicySpec>().unwrap(), expected, "{text}");
        assert_eq!(expected.to_string(), printed);
    }
    assert_eq!(PolicySpec::default(), PolicySpec::Adaptive);
}

#[test]
fn bad_policies_are_refused_at_the_character() {
    for (text, place, phrase) in [
        ("", 1, "a policy is expected here"),
        ("cab ogd", 5, "unexpected text after the policy"),
        ("caab", 1, "there is no policy caab"),
        ("adaptve", 1, "(did you mean adaptive?)"),
        ("cab(beta=much)", 5, "beta must be a number, not \"much\""),
        ("cab(beta=inf)", 5, "beta must be a number"),
        ("cab(rounds=3)", 5, "cab has no setting rounds; it has beta, sensitivity, kappa"),
        ("greedy(beta=4)", 8, "greedy takes no settings, but beta was given"),
        ("sparse", 1, "sparse needs either fee=…, the fee per arm and round, or keep=…"),
        ("sparse(fee=1, keep=2)", 1, "sparse needs either"),
        ("sparse(fee=1, step=2)", 1, "sparse needs either"),
        ("sparse(keep=two)", 8, "keep must be a whole number"),
        ("fixed", 1, "fixed needs its weights, as in fixed(weights=0.5 0.3 0.2)"),
        ("fixed(weights=a b)", 7, "weights must be numbers separated by spaces"),
        ("fixed(weights=1, tracked=perhaps)", 18, "tracked must be true or false"),
        ("halving(rounds=1.5)", 9, "rounds must be a whole number"),
        ("halving(rounds=1, rounds=2)", 19, "rounds is given twice"),
    ] {
        let (at, problem) = unread(text, text.parse::<PolicySpec>());
        assert!(problem.contains(phrase), "{text:?}: {problem:?} does not say {phrase:?}");
        assert_eq!(at, place, "{text:?}: {problem}");
    }
}
