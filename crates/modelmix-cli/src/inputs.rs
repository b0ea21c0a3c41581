//! Converts arguments to inputs of the library: arms, a reference, an objective with its inputs, galleries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modelmix::compute::Engine;
use modelmix::document::InputRole;
use modelmix::load::{self, ArmSource};
use modelmix::{Features, Inputs, Loss, Objective, RecordedArm, RecordedArms};

use crate::args::{ArmsArgs, Common, EngineArgs, ObjectiveArgs};
use crate::encoding::{self, ArmSamples, Encoding, SampleSet};
use crate::error::{Failure, Result};
use crate::provenance::Sources;
use crate::terminal::Terminal;
use crate::values::ArmNumber;

/// Recorded samples and the reference.
pub(crate) struct Recorded {
    pub(crate) arms: RecordedArms,
    pub(crate) reference: Option<Arc<Features>>,
    /// The images or texts of arms that were encoded here, or whose images were found by their ids.
    pub(crate) samples: BTreeMap<String, ArmSamples>,
    /// The ids that files of features state, by arm.
    pub(crate) ids: BTreeMap<String, Vec<String>>,
    /// The checksum of each path that was encoded here.
    digests: BTreeMap<PathBuf, String>,
}

impl Recorded {
    /// Features that were recorded before.
    pub(crate) fn of(arms: RecordedArms, reference: Option<Arc<Features>>) -> Self {
        Self { arms, reference, samples: BTreeMap::new(), ids: BTreeMap::new(), digests: BTreeMap::new() }
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
                // A source that cannot be read has its own error.
                for source in all().filter(|source| !encoding::is_table(&source.path) || !source.path.exists()) {
                    load::arms(std::slice::from_ref(source))?;
                }
                let remedy = "leave out --encoder, or give folders of images or files of texts, with the column of a table, as in prompts.csv:text";
                return Err(Failure::input(format!(
                    "every input has features already, so there is nothing to encode; {remedy}"
                )));
            }
        };
        // Everything is opened and checked before the first sample is encoded, which can take hours.
        let is_encoded = |source: &ArmSource| encoding::needs_encoder(source, &args.encoder).is_some();
        let mut opened: Vec<Opened> = Vec::new();
        for source in &sources {
            match encoding.as_ref().filter(|_| is_encoded(source)) {
                None => opened.extend(load::arms(std::slice::from_ref(source))?.iter().cloned().map(Opened::Features)),
                Some(encoding) => opened.extend(encoding.sets(source)?.into_iter().map(Opened::Samples)),
            }
        }
        check_distinct(&opened)?;
        let opened_reference = match (&reference, &encoding) {
            (Some(source), Some(encoding)) if is_encoded(source) => Some(Opened::Samples(encoding.one_set(source)?)),
            (Some(source), _) => {
                let features = load::features(&source.path, source.key.as_deref())?;
                Some(Opened::Features(RecordedArm::new("", features)))
            }
            (None, _) => None,
        };
        let (mut samples, mut digests) = (BTreeMap::new(), BTreeMap::new());
        let mut encoded = |set: SampleSet| -> Result<(String, Features, ArmSamples)> {
            let Some(encoding) = &encoding else { return Err(Failure::input("there is no encoder; give --encoder")) };
            let arm = encoding.encode(set)?;
            digests.insert(arm.path, arm.sha256);
            Ok((arm.name, arm.features, arm.samples))
        };
        let mut arms = Vec::new();
        for arm in opened {
            arms.push(match arm {
                Opened::Features(arm) => arm,
                Opened::Samples(set) => {
                    let (name, features, of_arm) = encoded(set)?;
                    samples.insert(name.clone(), of_arm);
                    RecordedArm::new(name, features)
                }
            });
        }
        let arms = RecordedArms::new(arms)?;
        let read = match opened_reference {
            None => None,
            Some(Opened::Features(arm)) => Some(arm.features),
            Some(Opened::Samples(set)) => Some(encoded(set)?.1),
        };
        if let Some(read) = &read {
            let name = format!("the reference {}", args.reference.as_deref().unwrap_or_default());
            arms.check_reference(read, &name)?;
        }
        let features = read.map(Arc::new);
        Ok(Self { arms, reference: features, samples, ids: BTreeMap::new(), digests })
    }

    /// Reads the ids that the files of features state.
    pub(crate) fn read_ids(&mut self, args: &ArmsArgs) -> Result<()> {
        let sources = args.arms.iter().map(|text| text.parse()).collect::<modelmix::Result<Vec<ArmSource>>>()?;
        let is_file_of_features = |source: &&ArmSource| encoding::needs_encoder(source, &args.encoder).is_none();
        let sources: Vec<ArmSource> = sources.iter().filter(is_file_of_features).cloned().collect();
        self.ids = load::arm_ids(&sources)?;
        for arm in self.arms.iter() {
            if let Some(ids) = self.ids.get(&arm.name).filter(|ids| ids.len() != arm.features.len()) {
                let (name, ids, rows) = (&arm.name, ids.len(), arm.features.len());
                return Err(Failure::input(format!(
                    "the file of {name} states {ids} ids for {rows} rows; write it again"
                )));
            }
        }
        Ok(())
    }

    /// Finds the images of arms by the ids of their rows, in the folders and archives that are given for a gallery, and returns
    /// the sources that are left, whose images are in the order of the rows.
    pub(crate) fn find_images(&mut self, images: &[String], arms: &ArmsArgs) -> Result<Vec<ArmSource>> {
        let mut left = Vec::new();
        if images.is_empty() {
            return Ok(left);
        }
        self.read_ids(arms)?;
        for text in images {
            let source: ArmSource = text.parse()?;
            let is_folder = source.path.is_dir();
            let named = || source.path.file_name().map(|name| name.to_string_lossy().into_owned());
            let arm = source.name.clone().or_else(named).unwrap_or_default();
            let ids = match self.samples.get(&arm) {
                Some(samples) => Some(samples.ids()),
                None => self.ids.get(&arm).cloned(),
            };
            match ids.filter(|_| is_folder) {
                Some(ids) => {
                    let samples = ArmSamples::by_id(&arm, &source, &ids)?;
                    self.samples.insert(arm, samples);
                }
                None => left.push(source),
            }
        }
        Ok(left)
    }

    /// Chooses the compute engine by the size of the samples.
    pub(crate) fn choose_engine(&self, args: &EngineArgs, terminal: &Terminal) -> Result<()> {
        let reference = self.reference.as_ref().map_or(0, |reference| reference.len());
        terminal.choose_engine(args, self.samples() + reference, self.arms.width())
    }

    /// Number of samples of all arms.
    pub(crate) fn samples(&self) -> usize {
        self.arms.iter().map(|arm| arm.features.len()).sum()
    }
}

/// An arm that is known, or samples that become one.
enum Opened {
    Features(RecordedArm),
    Samples(SampleSet),
}

/// Checks that no two arms have the same name.
fn check_distinct(opened: &[Opened]) -> Result<()> {
    let mut names = BTreeSet::new();
    for arm in opened {
        let name = match arm {
            Opened::Features(arm) => &arm.name,
            Opened::Samples(set) => &set.name,
        };
        if !names.insert(name) {
            return Err(Failure::input(format!(
                "arm {name}: two arms have this name; name one of them, as in other=PATH"
            )));
        }
    }
    Ok(())
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
    with_bandwidth(written(args, has_reference), args.bandwidth)
}

/// An objective with a bandwidth, if one is given.
pub(crate) fn with_bandwidth(objective: Objective, bandwidth: Option<f64>) -> Objective {
    match bandwidth {
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
