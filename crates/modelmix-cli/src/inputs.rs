//! Converts arguments to inputs of the library: arms, a reference, an objective with its inputs, galleries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelmix::compute::Engine;
use modelmix::document::InputRole;
use modelmix::load::{self, ArmSource};
use modelmix::{Features, Inputs, Loss, Objective, RecordedArm, RecordedArms};

use crate::args::{ArmsArgs, Common, ObjectiveArgs};
use crate::encoding::{self, ArmSamples, Encoding};
use crate::error::{Failure, Result};
use crate::provenance::Sources;
use crate::terminal::Terminal;
use crate::values::ArmNumber;

/// Recorded samples and the reference.
pub(crate) struct Recorded {
    pub(crate) arms: RecordedArms,
    pub(crate) reference: Option<Arc<Features>>,
    /// The images or texts of arms that were encoded here, by arm.
    pub(crate) samples: BTreeMap<String, ArmSamples>,
    /// The checksum of each path that was encoded here.
    digests: BTreeMap<PathBuf, String>,
}

impl Recorded {
    /// Features that were recorded before.
    pub(crate) fn of(arms: RecordedArms, reference: Option<Arc<Features>>) -> Self {
        Self { arms, reference, samples: BTreeMap::new(), digests: BTreeMap::new() }
    }

    /// Reads features, and encodes images and texts.
    pub(crate) fn load(args: &ArmsArgs, common: &Common, terminal: &Terminal) -> Result<Self> {
        Self::load_with_preset(args, None, common, terminal)
    }

    /// [`Recorded::load`] with the preprocessing of a tool, if the encoder has one of that name and no other is given.
    pub(crate) fn load_with_preset(
        args: &ArmsArgs,
        preset: Option<&str>,
        common: &Common,
        terminal: &Terminal,
    ) -> Result<Self> {
        let sources = args.arms.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
        let reference: Option<ArmSource> = args.reference.as_deref().map(str::parse).transpose()?;
        let all = || sources.iter().chain(&reference);
        let samples = all().find_map(|source| Some((source, encoding::needs_encoder(source, &args.encoder)?)));
        let encoding = match (samples, &args.encoder.encoder) {
            (None, None) => None,
            (Some(_), Some(_)) => Some(Encoding::open(&args.encoder, preset, common, terminal)?),
            (Some((source, kind)), None) => {
                return Err(Failure::input(format!(
                    "{} has {}, which need an encoder; give --encoder NAME (modelmix encoders lists them)",
                    source.path.display(),
                    kind.name()
                )));
            }
            (None, Some(_)) => {
                let remedy = "leave out --encoder, or give folders of images or files of texts";
                return Err(Failure::input(format!(
                    "every input has features already, so there is nothing to encode; {remedy}"
                )));
            }
        };
        let (mut arms, mut samples, mut digests) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for source in &sources {
            match encoding.as_ref().filter(|_| encoding::needs_encoder(source, &args.encoder).is_some()) {
                None => arms.extend(load::arms(std::slice::from_ref(source))?.iter().cloned()),
                Some(encoding) => {
                    for arm in encoding.encode(source)? {
                        digests.insert(arm.samples.path.clone(), arm.samples.sha256.clone());
                        arms.push(RecordedArm::new(&arm.name, arm.features));
                        samples.insert(arm.name, arm.samples);
                    }
                }
            }
        }
        let arms = RecordedArms::new(arms)?;
        let mut features = None;
        if let Some(source) = &reference {
            let name = format!("the reference {}", args.reference.as_deref().unwrap_or_default());
            let read = match encoding.as_ref().filter(|_| encoding::needs_encoder(source, &args.encoder).is_some()) {
                None => load::features(&source.path, source.key.as_deref())?,
                Some(encoding) => {
                    let arm = encoding.encode_one(source)?;
                    digests.insert(arm.samples.path, arm.samples.sha256);
                    arm.features
                }
            };
            arms.check_reference(&read, &name)?;
            features = Some(Arc::new(read));
        }
        Ok(Self { arms, reference: features, samples, digests })
    }

    /// Number of samples of all arms.
    pub(crate) fn samples(&self) -> usize {
        self.arms.iter().map(|arm| arm.features.len()).sum()
    }
}

/// The files and folders that a command reads, as given on the command line.
pub(crate) fn sources(
    arms: &ArmsArgs,
    objective: &ObjectiveArgs,
    common: &Common,
    recorded: &Recorded,
) -> Result<Sources> {
    let mut sources = Sources::new(recorded.arms.encoding().cloned(), recorded.digests.clone());
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
