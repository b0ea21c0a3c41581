//! Converts arguments to inputs of the library: arms, a reference, an objective with its inputs, galleries.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use modelmix::compute::Engine;
use modelmix::document::InputRole;
use modelmix::load::{self, ArmSource};
use modelmix::{Features, Inputs, Loss, Objective, RecordedArms};

use crate::args::{ArmsArgs, Common, ObjectiveArgs};
use crate::error::{Failure, Result};
use crate::provenance::Sources;
use crate::values::ArmNumber;

/// Recorded samples and the reference.
pub(crate) struct Recorded {
    pub(crate) arms: RecordedArms,
    pub(crate) reference: Option<Arc<Features>>,
}

impl Recorded {
    pub(crate) fn load(args: &ArmsArgs) -> Result<Self> {
        let sources = args.arms.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
        let arms = load::arms(&sources)?;
        let reference = args.reference.as_deref().map(reference).transpose()?.map(Arc::new);
        if let Some(reference) = reference.as_ref().filter(|reference| reference.width() != arms.width()) {
            return Err(modelmix::Error::Width {
                origin: format!("the reference {}", args.reference.as_deref().unwrap_or_default()),
                found: reference.width(),
                other: format!("arm {}", arms[0].name),
                expected: arms.width(),
            }
            .into());
        }
        Ok(Self { arms, reference })
    }

    /// Number of samples of all arms.
    pub(crate) fn samples(&self) -> usize {
        self.arms.iter().map(|arm| arm.features.len()).sum()
    }
}

/// `path[:key]`.
fn reference(text: &str) -> Result<Features> {
    let source: ArmSource = text.parse()?;
    Ok(load::features(&source.path, source.key.as_deref())?)
}

/// The files that a command reads, as given on the command line.
pub(crate) fn sources(arms: &ArmsArgs, objective: &ObjectiveArgs, common: &Common) -> Result<Sources> {
    let mut sources = Sources::default();
    for argument in &arms.arms {
        sources.add(InputRole::Arms, &argument.parse::<ArmSource>()?.path, argument);
    }
    if let Some(argument) = &arms.reference {
        sources.add(InputRole::Reference, &argument.parse::<ArmSource>()?.path, argument);
    }
    let files = [(InputRole::Scores, &objective.scores), (InputRole::Config, &common.config)];
    for (role, file) in files.into_iter().filter_map(|(role, file)| Some((role, file.as_ref()?))) {
        sources.add(role, file, &file.to_string_lossy());
    }
    Ok(sources)
}

/// The objective as given, or the default, with the bandwidth.
pub(crate) fn objective(args: &ObjectiveArgs, has_reference: bool) -> Objective {
    let objective = written(args, has_reference);
    match args.bandwidth {
        None => objective,
        Some(bandwidth) => objective.with_bandwidth(bandwidth),
    }
}

/// The objective as given, or the default.
pub(crate) fn written(args: &ObjectiveArgs, has_reference: bool) -> Objective {
    args.objective.clone().unwrap_or_else(|| Objective::usual(has_reference))
}

/// An objective with a bandwidth that is also used elsewhere, so that it is not an error if no term accepts it.
pub(crate) fn with_shared_bandwidth(objective: Objective, args: &ObjectiveArgs) -> Objective {
    match args.bandwidth {
        Some(bandwidth) if objective.has_kernel_choice() => objective.with_bandwidth(bandwidth),
        _ => objective,
    }
}

/// The objective with its inputs.
pub(crate) fn loss(objective: &Objective, args: &ObjectiveArgs, recorded: &Recorded, engine: &Engine) -> Result<Loss> {
    let mut inputs = Inputs::new().arms(&recorded.arms).seed(args.seed).engine(engine.clone());
    if let Some(reference) = &recorded.reference {
        inputs = inputs.reference(Arc::clone(reference));
    }
    if !args.costs.is_empty() {
        inputs = inputs.costs(by_arm("cost", &args.costs, &recorded.arms, None)?);
    }
    Ok(objective.prepare(inputs)?)
}

/// Numbers by arm, in the order of the arms; the default for arms that are not named is `default`, or an error.
pub(crate) fn by_arm(what: &str, given: &[ArmNumber], arms: &RecordedArms, default: Option<f64>) -> Result<Vec<f64>> {
    let given = given.iter().map(|given| (given.arm.clone(), given.number));
    Ok(modelmix::internals::arms::by_arm(what, &arms.names(), given, default)?)
}

/// Adds a user's scores per sample to the arms.
pub(crate) fn with_scores(arms: RecordedArms, file: &Path) -> Result<RecordedArms> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", file.display())))?;
    let scores: BTreeMap<String, BTreeMap<String, Vec<f64>>> = serde_json::from_str(&text).map_err(|error| {
        Failure::input(format!(
            "{}: {error}; scores are a JSON object {{\"score\": {{\"arm\": [one value per sample]}}}}",
            file.display()
        ))
    })?;
    arms.with_scores(&scores).map_err(|error| Failure::input(format!("{}: {error}", file.display())))
}
