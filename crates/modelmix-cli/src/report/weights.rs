//! The weights of a mixture as text to copy: Python, JSON, and a command that scores the mixture.

use modelmix::Mixture;
use modelmix::document::{InputRole, Provenance};

use super::names::is_unseen;
use super::page::{Block, CopiesBlock, Copy};
use crate::words::{shell_word, shell_words};

/// The options that decide what features samples have.
const ENCODER_OPTIONS: [&str; 6] =
    ["--encoder", "--encoder-weights", "--preprocessing", "--runtime", "--device", "--on-error"];

pub(super) fn block(document: &Mixture) -> Block {
    let weights: Vec<(&str, f64)> = document.arms.iter().map(|arm| (arm.name.as_str(), arm.weight)).collect();
    let object = object(&weights);
    let mut copies = vec![Copy::new("Python", format!("weights = {object}")), Copy::new("JSON", object)];
    copies.extend(command(&weights, document.provenance.as_ref()).map(|line| Copy::new("Shell", line)));
    Block::Copies(CopiesBlock { copies })
}

/// Weights by arm, valid as JSON and as Python. Invisible characters are escaped, since a reader could not check them.
fn object(weights: &[(&str, f64)]) -> String {
    let entry = |(name, weight): &(&str, f64)| {
        let quoted = serde_json::to_string(name).unwrap_or_default();
        let mut key = String::new();
        for letter in quoted.chars() {
            match is_unseen(letter) {
                true => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| key += &format!("\\u{unit:04x}")),
                false => key.push(letter),
            }
        }
        format!("{key}: {}", crate::tables::exact(*weight))
    };
    format!("{{{}}}", weights.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// The command that scores the mixture; `None` if the name of an arm cannot be written in an option.
fn command(weights: &[(&str, f64)], provenance: Option<&Provenance>) -> Option<String> {
    if weights.iter().any(|(name, _)| name.contains([',', '='])) {
        return None;
    }
    let arguments = |role: InputRole| -> Vec<String> {
        let inputs = provenance.map_or(&[][..], |provenance| &provenance.inputs);
        let own = inputs.iter().filter(|input| input.role == role && input.path.is_some());
        own.flat_map(|input| &input.arguments).map(|argument| shell_word(argument)).collect()
    };
    let mut arms = arguments(InputRole::Arms);
    if arms.is_empty() {
        arms.push("ARMS".into());
    }
    let mut words = vec!["modelmix".into(), "score".into()];
    words.append(&mut arms);
    for reference in arguments(InputRole::Reference).into_iter().take(1) {
        words.extend(["--reference".into(), reference]);
    }
    words.append(&mut encoder(provenance)?);
    let used = weights.iter().filter(|(_, weight)| *weight > 0.0);
    let pairs: Vec<String> = used.map(|(name, weight)| format!("{name}={weight}")).collect();
    words.extend(["--weights".into(), shell_word(&pairs.join(","))]);
    Some(words.join(" "))
}

/// The options of the encoder, as in the command that made the document. `None` if folders were encoded by another program than
/// the command line, and the encoder is a file, whose place is not known.
fn encoder(provenance: Option<&Provenance>) -> Option<Vec<String>> {
    let Some(provenance) = provenance else { return Some(Vec::new()) };
    if let Some(command) = &provenance.command {
        let words = shell_words(command);
        let mut copied = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let value = words.get(at + 1).filter(|_| ENCODER_OPTIONS.contains(word));
            if let Some(value) = value {
                copied.extend([(*word).to_string(), (*value).to_string()]);
            } else if word.split_once('=').is_some_and(|(option, _)| ENCODER_OPTIONS.contains(&option)) {
                copied.push((*word).to_string());
            }
        }
        return Some(copied);
    }
    // The samples of a folder have a checksum, but no size.
    let was_encoded = provenance.inputs.iter().any(|input| input.bytes.is_none() && input.sha256.is_some());
    let Some(encoding) = provenance.encoding.as_ref().filter(|_| was_encoded) else { return Some(Vec::new()) };
    if encoding.encoder.ends_with(".onnx") {
        return None;
    }
    let mut words = vec!["--encoder".into(), shell_word(&encoding.encoder)];
    if let Some(preset) = &encoding.preset {
        words.extend(["--preprocessing".into(), shell_word(preset)]);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::{command, object};
    use modelmix::document::{InputFile, InputRole, Provenance};

    #[test]
    fn weights_are_python_and_json() {
        let weights = [("flow", 0.25), ("say \"a\"\n\u{202e}", 1e-7), ("模型", 0.0)];
        let text = object(&weights);
        assert_eq!(text, r#"{"flow": 0.25, "say \"a\"\n\u202e": 1e-07, "模型": 0.0}"#);
        let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        for (name, weight) in weights {
            assert_eq!(read[name].as_f64(), Some(weight));
        }
    }

    #[test]
    fn the_command_has_the_files_of_the_run() {
        let weights = [("a", 0.25), ("b c", 0.75), ("never", 0.0)];
        assert_eq!(command(&weights, None).as_deref(), Some("modelmix score ARMS --weights 'a=0.25,b c=0.75'"));
        let mut provenance = Provenance::new();
        let mut input = InputFile::new(InputRole::Arms, "my arms.npz");
        input.arguments = vec!["a=my arms.npz:x".into(), "b c=my arms.npz:y".into()];
        let mut reference = InputFile::new(InputRole::Reference, "real.npy");
        reference.arguments = vec!["real.npy".into()];
        provenance.inputs = vec![reference, input];
        assert_eq!(
            command(&weights, Some(&provenance)).as_deref(),
            Some(
                "modelmix score 'a=my arms.npz:x' 'b c=my arms.npz:y' --reference real.npy --weights 'a=0.25,b c=0.75'"
            )
        );
        assert_eq!(command(&[("a,b", 1.0)], None), None);
    }

    #[test]
    fn the_command_names_the_encoder() {
        let mut provenance = Provenance::new();
        let mut input = InputFile::new(InputRole::Arms, "out/a");
        input.arguments = vec!["out/a".into()];
        input.sha256 = Some("12".into());
        provenance.inputs = vec![input];
        let mut encoding = modelmix::Encoding::new("dinov2-vitl14", "99");
        encoding.preset = Some("dgm-eval".into());
        provenance.encoding = Some(encoding);
        assert_eq!(
            command(&[("a", 1.0)], Some(&provenance)).as_deref(),
            Some("modelmix score out/a --encoder dinov2-vitl14 --preprocessing dgm-eval --weights a=1")
        );
        // Features that were encoded before need no encoder.
        provenance.inputs[0].bytes = Some(7);
        assert_eq!(command(&[("a", 1.0)], Some(&provenance)).as_deref(), Some("modelmix score out/a --weights a=1"));
        provenance.inputs[0].bytes = None;
        provenance.encoding = Some(modelmix::Encoding::new("own.onnx", "99"));
        assert_eq!(command(&[("a", 1.0)], Some(&provenance)), None);
        // A command line has all options.
        let line = "modelmix solve out/a --encoder 'my own.onnx' --objective rke --preprocessing=clip-vit-b32/clean-fid --json";
        provenance.command = Some(line.into());
        assert_eq!(
            command(&[("a", 1.0)], Some(&provenance)).as_deref(),
            Some("modelmix score out/a --encoder 'my own.onnx' --preprocessing=clip-vit-b32/clean-fid --weights a=1")
        );
        provenance.command = Some("modelmix solve out/a.npz".into());
        assert_eq!(command(&[("a", 1.0)], Some(&provenance)).as_deref(), Some("modelmix score out/a --weights a=1"));
    }
}
