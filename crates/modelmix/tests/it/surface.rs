//! The public API, name by name: a change of the API is a change of this listing. It compiles only if every name is
//! public, and the test fails if a public module declares a name that is not listed.

use std::collections::BTreeSet;

macro_rules! surface {
    ($($($segment:ident)::+ { $($name:ident,)+ })+) => {
        $(
            #[allow(unused_imports, reason = "importing a name shows that it is public")]
            const _: () = {
                use $($segment)::+::{$($name),+};
            };
        )+
        /// The names of each public module, by its path.
        const LISTING: &[(&str, &[&str])] = &[$((concat!($(stringify!($segment), "::"),+), &[$(stringify!($name)),+])),+];
    };
}

surface! {
    modelmix {
        Accumulator, Certified, Curated, Curation, Encoding, Error, Event, Experiment, Features, Gap, Input, Inputs, Kernel, KernelSpec,
        Loss, Mixture, Objective, Policy, PolicySpec, Pull, Quadratic, Ranges, RecordedArm, RecordedArms, Result,
        Retention, Rows, SamplePlan, Scores, Selection, Session, SessionLoss, SessionSettings, Simulation, SimulationReport, Statistics, Until,
        Values, Verdict,
        VERSION,
        accumulate, compute, curate, document, experiment, load, metrics, mixture, objective, plan, policy, score, session, simplex,
        simulate, simulate_watched, solve,
    }
    modelmix::accumulate {
        Accumulator, Block, Method, Plan, PlanSettings, Planned, Role, SurveySettings,
        DEFAULT_FEATURES, DEFAULT_SAMPLE, EXACT_ROWS,
        needs_whole_reference, threads_within,
    }
    modelmix::compute {
        Accuracy, Backend, Balls, Cpu, Double, Eigen, Engine, EngineChoice, Factor, HalfRows, HostRows, HostSet, Instructions,
        Matrix, Neighbour, Overlaps, PairSums, Precision, Reference, Resident, Run, Set, SingleRows, Stop, Storage, Subsets,
        available_threads, negligible,
    }
    modelmix::curate {
        Curated, CuratedArm, CuratedMixture, CuratedRow, CuratedSet, Curation, Proportions, RandomDraws, Tried,
        CURATION_NOTE,
        curate, curate_within,
    }
    modelmix::document {
        BandwidthRule, Document, InputFile, InputRole, Provenance, UsedBandwidth,
    }
    modelmix::experiment {
        Check, Experiment, Measured, Outcome, Percent, Plan, Quantity, Requirement, Stage, Subject,
        check_names,
    }
    modelmix::load {
        ArmSource, Encoded, Pictures, Shard, ShardBatch, ShardColumns,
        arm_ids, arms, arrays, chosen_pictures, features, ids, is_there, picture_names, pictures, shards, text, texts,
    }
    modelmix::metrics {
        ErrorBy, Estimate, Extrapolation, FidReference, Frechet, KidSettings, Metric, Mmd, Moments, Neighbourhoods,
        NumPyRandom, Part, Pool, Prdc, Preset, ReferenceBalls, Rke, ScoreDefinitions, ScoreSettings, ScoreTable,
        ScoredArm, ScoredMixture, Scorer, Scores, VendiDefinition,
        CMMD_BANDWIDTH, LARGEST_MATRIX, DEFAULT_NEIGHBOURS,
        by_name, cmmd, fid, fid_estimate, fid_infinity, kid, kid_kernel, mmd, more_is_better, prdc, rke, score,
        score_watched, vendi, vendi_estimate,
    }
    modelmix::mixture {
        Allowance, Approximation, Bandwidths, Budget, CheapestDocument, FrontDocument, FrontPoint, Headline, Intervals, Mixture,
        MixtureArm, MixtureScore, Analyses, SensitivityDocument, SensitivityPoint, SingleArm, SolveSettings,
        SubsetDocument, TermForm, TermValue, AnalysisResults, Allocation, HalfWidths, PlanSettings, PlannedArm, SamplePlan,
        forms, pairs, plan, solve, solve_with_analyses, solve_with, solve_within, statistics, front_objective,
    }
    modelmix::objective {
        Bandwidth, Geometry, Measure, Objective, ScoreMeaning, Term,
        MEDIAN_ROWS, LARGEST_ORDER, DEFAULT_NEIGHBOURS,
        median_distance,
    }
    modelmix::policy {
        Adaptive, AnyPolicy, Cab, Choice, Evidence, Fixed, Greedy, Halving, Ogd, Policy, PolicySpec, Random,
        Sensitivity, Sparse, Vanilla, WidthSpec, Widths,
    }
    modelmix::session {
        Answer, Asked, Cap, ChosenBandwidth, Decisions, Entry, Event, FeatureError, Header, JournalReader, JournalWriter, Known,
        KnownAs, StopCheck, Pull, Retention, SampleValues, Scores, Selection, Session, SessionArm, SessionReport,
        SessionSettings, Snapshot, Storage, SuboptimalityBounds, Told, Values,
        SELECTION_NOTE,
    }
    modelmix::simplex {
        CheapestMixture, Bounds, Local, Prices, Solution, Solver, Subset, Waypoint,
        cheapest, eliminate, minimize, minimize_smooth, path, subsets,
    }
    modelmix::simulate {
        KeptReport, Optimum, PolicyReport, Reached, SimulatedFeatures, SimulatedSingle, Simulation, SimulationReport,
        Spread, Stopped,
        simulate, simulate_watched,
    }
}

/// The source of each public module, which declares its public names.
const SOURCES: &[(&str, &str)] = &[
    ("modelmix", include_str!("../../src/lib.rs")),
    ("modelmix::accumulate", include_str!("../../src/accumulate/mod.rs")),
    ("modelmix::compute", include_str!("../../src/compute/mod.rs")),
    ("modelmix::curate", include_str!("../../src/curate/mod.rs")),
    ("modelmix::document", include_str!("../../src/document.rs")),
    ("modelmix::experiment", include_str!("../../src/experiment/mod.rs")),
    ("modelmix::load", include_str!("../../src/load/mod.rs")),
    ("modelmix::metrics", include_str!("../../src/metrics/mod.rs")),
    ("modelmix::mixture", include_str!("../../src/mixture/mod.rs")),
    ("modelmix::objective", include_str!("../../src/objective/mod.rs")),
    ("modelmix::policy", include_str!("../../src/policy/mod.rs")),
    ("modelmix::session", include_str!("../../src/session/mod.rs")),
    ("modelmix::simplex", include_str!("../../src/simplex/mod.rs")),
    ("modelmix::simulate", include_str!("../../src/simulate/mod.rs")),
];

/// The public names of a source file: `pub` items that are not indented, except those hidden from the documentation.
fn declared(source: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let item = &source[start..];
        let is_hidden = source[..start].ends_with("#[doc(hidden)]\n");
        start += line.len();
        let Some(item) = item.strip_prefix("pub ").filter(|_| !is_hidden) else { continue };
        let (keyword, rest) = item.split_once(' ').unwrap();
        match keyword {
            "use" => {
                let paths = rest.split(';').next().unwrap();
                let paths = paths.split_once('{').map_or(paths, |(_, group)| group.trim_end_matches('}'));
                assert!(!paths.contains('{'), "a nested `pub use` cannot be read here: {paths}");
                for path in paths.split(',').map(str::trim).filter(|path| !path.is_empty()) {
                    let name = path.rsplit("::").next().unwrap();
                    names.insert(name.rsplit(" as ").next().unwrap());
                }
            }
            "mod" | "fn" | "struct" | "enum" | "trait" | "const" | "type" | "static" => {
                names.insert(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
            }
            other => panic!("`pub {other}` cannot be read here"),
        }
    }
    names
}

#[test]
fn every_public_name_is_listed() {
    let modules: BTreeSet<&str> =
        SOURCES[0].1.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let sources: BTreeSet<&str> = SOURCES[1..].iter().map(|(path, _)| path.trim_start_matches("modelmix::")).collect();
    assert_eq!(modules, sources, "the public modules of lib.rs, and those whose sources are compared here");
    assert_eq!(LISTING.len(), SOURCES.len());
    for (path, source) in SOURCES {
        let listed = LISTING.iter().find(|(listed, _)| listed.trim_end_matches("::") == *path);
        let listed: BTreeSet<&str> =
            listed.unwrap_or_else(|| panic!("{path} is not listed")).1.iter().copied().collect();
        let declared = declared(source);
        let missing: Vec<_> = declared.difference(&listed).collect();
        let gone: Vec<_> = listed.difference(&declared).collect();
        assert!(
            missing.is_empty() && gone.is_empty(),
            "{path}: not listed: {missing:?}; listed and not declared: {gone:?}"
        );
    }
}

/// The parser of declarations recognises each way to make a name public.
#[test]
fn declarations_are_read() {
    let source = "mod a;\npub mod b;\npub(crate) use a::X;\npub use a::{Y, Z as W,\n    V};\npub use b::U;\npub use c::*;\n\
        pub fn f<T>() {\n    pub fn inner() {}\n}\npub struct S<'a> {\n    pub field: &'a str,\n}\npub const N: usize = 1;\n\
        #[doc(hidden)]\npub mod internals {\n    pub use a::I;\n}\n";
    let expected = ["*", "N", "S", "U", "V", "W", "Y", "b", "f"];
    assert_eq!(declared(source).into_iter().collect::<Vec<_>>(), expected);
}
