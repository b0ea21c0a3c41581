//! Prompts in a seeded order that is the same for every arm, so that arms are compared on the same prompts.

use std::path::Path;

use modelmix::internals::random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::problem::{Problem, Result};

/// The stream of the run's seed that orders prompts; sessions use stream 0.
const STREAM: u64 = 0x7072_6f6d_7074;

/// The prompts of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PromptSettings {
    /// A file with one prompt per line, a `.jsonl` file with strings or objects with the key `prompt`; empty lines are skipped.
    File(String),
    /// The prompts themselves.
    List(Vec<String>),
}

/// The prompts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts {
    texts: Vec<String>,
    seed: u64,
}

impl Prompts {
    /// Reads prompts.
    ///
    /// # Errors
    /// A file that cannot be read, or no prompts.
    pub fn open(settings: &PromptSettings, base: &Path, seed: u64) -> Result<Self> {
        let texts = match settings {
            PromptSettings::List(texts) => texts.clone(),
            PromptSettings::File(file) => {
                let path = base.join(file);
                let text =
                    std::fs::read_to_string(&path).map_err(|source| Problem::File { path: path.clone(), source })?;
                let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
                let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
                let read = |(number, line): (usize, &str)| {
                    if !is_json {
                        return Ok(line.trim().to_owned());
                    }
                    let value: Option<serde_json::Value> = serde_json::from_str(line).ok();
                    let prompt =
                        value.as_ref().and_then(|value| value.as_str().or_else(|| value.get("prompt")?.as_str()));
                    prompt.map(str::to_owned).ok_or_else(|| {
                        Problem::Config(format!(
                            "{}, line {}: this is not a prompt; write a string, or an object with the key prompt",
                            path.display(),
                            number + 1
                        ))
                    })
                };
                lines.map(read).collect::<Result<Vec<_>>>()?
            }
        };
        if texts.iter().all(|text| text.trim().is_empty()) {
            return Err(Problem::Config(
                "prompts: there are no prompts; give at least one, or leave the key out".into(),
            ));
        }
        Ok(Self { texts, seed })
    }

    /// The number of prompts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none, which [`Prompts::open`] refuses.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The prompt with this number.
    pub fn text(&self, number: u64) -> Option<&str> {
        self.texts.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// The number of the prompt of an arm's pull, counted from 0 per arm. Every arm gets all prompts in one order, and then in
    /// another.
    pub fn number(&self, pull_of_arm: u64) -> u64 {
        let len = self.texts.len() as u64;
        let mut random = Random::stream(self.seed, STREAM.wrapping_add(pull_of_arm / len));
        let order = random.sample(self.texts.len(), self.texts.len());
        order[(pull_of_arm % len) as usize] as u64
    }

    /// The SHA-256 of all prompts.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for text in &self.texts {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        hex(&hasher.finalize())
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(texts: &[&str], seed: u64) -> Prompts {
        let list = PromptSettings::List(texts.iter().map(|text| text.to_string()).collect());
        Prompts::open(&list, Path::new("."), seed).expect("they are prompts")
    }

    #[test]
    fn every_epoch_has_every_prompt_once_in_another_order() {
        let texts: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let prompts = prompts(&texts.iter().map(String::as_str).collect::<Vec<_>>(), 3);
        let epoch = |epoch: u64| (0..20).map(|at| prompts.number(20 * epoch + at)).collect::<Vec<_>>();
        let mut sorted = epoch(0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        // Two random orders are equal with a chance of 1/20!.
        assert_ne!(epoch(0), epoch(1));
        assert!(prompts.text(epoch(0)[0]).is_some());
    }

    #[test]
    fn files_are_read_by_line() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "one\n\n two \r\n").expect("written");
        std::fs::write(folder.path().join("a.jsonl"), "\"one\"\n{\"prompt\": \"two\\nlines\", \"id\": 1}\n")
            .expect("written");
        std::fs::write(folder.path().join("b.jsonl"), "\"one\"\n{\"text\": \"two\"}\n").expect("written");
        let open = |name: &str| Prompts::open(&PromptSettings::File(name.into()), folder.path(), 0);
        assert_eq!(open("a.txt").map(|prompts| prompts.texts).ok(), Some(vec!["one".to_string(), "two".into()]));
        assert_eq!(
            open("a.jsonl").map(|prompts| prompts.texts).ok(),
            Some(vec!["one".to_string(), "two\nlines".into()])
        );
        let error = open("b.jsonl").expect_err("no key prompt").to_string();
        assert!(error.contains("b.jsonl, line 2"), "{error}");
        assert!(open("c.txt").is_err());
    }

    #[test]
    fn digests_depend_on_every_text() {
        assert_eq!(prompts(&["ab", "c"], 0).digest(), prompts(&["ab", "c"], 1).digest());
        assert_ne!(prompts(&["ab", "c"], 0).digest(), prompts(&["a", "bc"], 0).digest());
    }
}
