//! From words to what the library takes: arms, a reference, an objective with all it needs, galleries.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use modelmix::compute::Cpu;
use modelmix::load::{self, ArmSource};
use modelmix::{Features, Inputs, Loss, Objective, RecordedArm, RecordedArms};

use crate::args::{ArmsArgs, Common, ObjectiveArgs};
use crate::error::{Failure, Result};

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

    /// All samples of the arms.
    pub(crate) fn samples(&self) -> usize {
        self.arms.iter().map(|arm| arm.features.len()).sum()
    }
}

/// `path[:key]`.
fn reference(text: &str) -> Result<Features> {
    let source: ArmSource = text.parse()?;
    Ok(load::features(&source.path, source.key.as_deref())?)
}

/// The objective as it was typed; `kid` where there is a reference to compare with, else `rke`.
pub(crate) fn objective(args: &ObjectiveArgs, has_reference: bool) -> Result<Objective> {
    let text = args.objective.as_deref().unwrap_or(if has_reference { "kid" } else { "rke" });
    let objective = Objective::parse(text)?;
    Ok(match args.bandwidth {
        None => objective,
        Some(bandwidth) => objective.with_bandwidth(bandwidth),
    })
}

/// The objective with all it needs.
pub(crate) fn loss(objective: &Objective, args: &ObjectiveArgs, recorded: &Recorded, common: &Common) -> Result<Loss> {
    let mut inputs = Inputs::new().arms(&recorded.arms).seed(args.seed);
    if let Some(threads) = common.threads {
        inputs = inputs.backend(Cpu::with_threads(threads));
    }
    if let Some(reference) = &recorded.reference {
        inputs = inputs.reference(Arc::clone(reference));
    }
    if !args.costs.is_empty() {
        inputs = inputs.costs(by_arm("cost", &args.costs, &recorded.arms, None)?);
    }
    Ok(objective.prepare(inputs)?)
}

/// Values given as `arm=value`, in the order of the arms; arms that are not named have `default`, or must be named.
pub(crate) fn by_arm(what: &str, given: &[String], arms: &RecordedArms, default: Option<f64>) -> Result<Vec<f64>> {
    let names = arms.names();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut values: BTreeMap<&str, f64> = BTreeMap::new();
    for text in given {
        let (name, value) = text.rsplit_once('=').ok_or_else(|| {
            Failure::input(format!("\"{text}\" is no {what}; write ARM=NUMBER, as in {}=1", known[0]))
        })?;
        let number: f64 = value.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| {
            Failure::input(format!("the {what} of {name} is \"{value}\", but it must be a finite number"))
        })?;
        let Some(&known_name) = known.iter().find(|&&known| known == name) else {
            let hint =
                modelmix::nearest_word(name, &known).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            return Err(Failure::input(format!("there is no arm {name}{hint}; the arms are {}", known.join(", "))));
        };
        if values.insert(known_name, number).is_some() {
            return Err(Failure::input(format!("the {what} of {name} is given twice; give it once")));
        }
    }
    known
        .iter()
        .map(|name| {
            values.get(name).copied().or(default).ok_or_else(|| {
                Failure::input(format!("arm {name} has no {what}; give one for every arm: {}", known.join(", ")))
            })
        })
        .collect()
}

/// The arms with a user's scores per sample.
pub(crate) fn with_scores(arms: RecordedArms, file: &Path) -> Result<RecordedArms> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", file.display())))?;
    let scores: BTreeMap<String, BTreeMap<String, Vec<f64>>> = serde_json::from_str(&text).map_err(|error| {
        Failure::input(format!(
            "{}: {error}; scores are a JSON object {{\"score\": {{\"arm\": [one number a sample]}}}}",
            file.display()
        ))
    })?;
    let names = arms.names();
    for (score, by_arm) in &scores {
        if let Some(stranger) = by_arm.keys().find(|name| !names.contains(name)) {
            return Err(Failure::input(format!(
                "{}: score {score} is given for {stranger}, which is no arm; the arms are {}",
                file.display(),
                names.join(", ")
            )));
        }
        if let Some(missing) = names.iter().find(|name| !by_arm.contains_key(*name)) {
            return Err(Failure::input(format!(
                "{}: score {score} is not given for {missing}; give it for every arm: {}",
                file.display(),
                names.join(", ")
            )));
        }
    }
    let scored = |arm: &RecordedArm| {
        let mut arm = arm.clone();
        for (score, by_arm) in &scores {
            if let Some(values) = by_arm.get(&arm.name) {
                arm = arm.with_score(score.clone(), values.clone());
            }
        }
        arm
    };
    Ok(RecordedArms::new(arms.iter().map(scored).collect())?)
}

/// Texts with commas between them, but not those in parentheses.
pub(crate) fn split_list(texts: &[String]) -> Vec<String> {
    let mut parts = Vec::new();
    for text in texts {
        let (mut depth, mut part) = (0usize, String::new());
        for letter in text.chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    parts.push(std::mem::take(&mut part));
                    continue;
                }
                _ => {}
            }
            part.push(letter);
        }
        parts.push(part);
    }
    parts.into_iter().map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::split_list;

    #[test]
    fn commas_in_parentheses_do_not_split() {
        let given = ["adaptive,cab(sensitivity=0.1, beta=2)".to_string(), " ogd ,,".to_string()];
        assert_eq!(split_list(&given), ["adaptive", "cab(sensitivity=0.1, beta=2)", "ogd"]);
    }
}
