//! Options from a TOML file: they become words of the command line, before those that were typed, so that there is one
//! meaning of each and what was typed wins.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgAction, CommandFactory};

use crate::args::Cli;
use crate::error::{Failure, Result};

/// The words typed, with those of the file that `--config` names put in before them.
pub(crate) fn expand(words: Vec<OsString>) -> Result<Vec<OsString>> {
    let Some((file, command)) = named(&words) else { return Ok(words) };
    let options = read(Path::new(&file), &command, &words)?;
    // Behind the program and the command.
    let mut expanded = words;
    expanded.splice(2..2, options);
    Ok(expanded)
}

/// The file and the command, where both are there; what is wrong otherwise is said by the parser.
fn named(words: &[OsString]) -> Option<(OsString, clap::Command)> {
    let name = words.get(1)?.to_str()?;
    let command = Cli::command().get_subcommands().find(|command| command.get_name() == name)?.clone();
    let mut words = words[2..].iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--config" {
            return words.next().map(|file| (file.clone(), command));
        }
        if let Some(file) = text.strip_prefix("--config=") {
            return Some((file.into(), command));
        }
    }
    None
}

fn read(path: &Path, command: &clap::Command, typed: &[OsString]) -> Result<Vec<OsString>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
        Failure::input(format!(
            "{}: line {line}: {}; write key = value, as TOML has it",
            path.display(),
            error.message()
        ))
    })?;
    let known: Vec<String> = command
        .get_arguments()
        .map(|argument| argument.get_long().unwrap_or(argument.get_id().as_str()).to_string())
        .filter(|name| !["config", "help", "version"].contains(&name.as_str()))
        .collect();
    let mut words = Vec::new();
    for (key, value) in table {
        let option = key.replace('_', "-");
        let Some(argument) = command.get_arguments().find(|argument| {
            known.contains(&option) && argument.get_long().unwrap_or(argument.get_id().as_str()) == option
        }) else {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = modelmix::nearest_word(&option, &known)
                .map_or(format!("; there are {}", known.join(", ")), |near| format!(" (did you mean {near}?)"));
            return Err(Failure::input(format!(
                "{}: unknown key \"{key}\" for {}{hint}",
                path.display(),
                command.get_name()
            )));
        };
        // An option that was typed is not taken from the file, nor arms where arms were typed.
        if is_typed(argument, typed, command) {
            continue;
        }
        words.extend(option_words(path, &key, argument, &value)?);
    }
    Ok(words)
}

fn is_typed(argument: &clap::Arg, typed: &[OsString], command: &clap::Command) -> bool {
    if argument.is_positional() {
        // Whatever the parser takes as positional when the file says nothing.
        let parsed = command.clone().ignore_errors(true).try_get_matches_from(&typed[1..]);
        return parsed
            .is_ok_and(|matches| matches.get_raw(argument.get_id().as_str()).is_some_and(|raw| raw.len() > 0));
    }
    typed.iter().any(|word| {
        let word = word.to_string_lossy();
        let long = argument.get_long().is_some_and(|long| {
            word.strip_prefix("--").is_some_and(|rest| rest == long || rest.starts_with(&format!("{long}=")))
        });
        long || argument
            .get_short()
            .is_some_and(|short| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(short)))
    })
}

/// An option and its value as they would be typed.
fn option_words(path: &Path, key: &str, argument: &clap::Arg, value: &toml::Value) -> Result<Vec<OsString>> {
    let refuse = |must: &str| Failure::input(format!("{}: {key} is {value}, but it must be {must}", path.display()));
    let scalar = |value: &toml::Value| match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        _ => Err(refuse("a number, a text or a list of them")),
    };
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return match value {
            toml::Value::Boolean(true) => Ok(vec![format!("--{}", key.replace('_', "-")).into()]),
            toml::Value::Boolean(false) => Ok(Vec::new()),
            _ => Err(refuse("true or false")),
        };
    }
    let values = match value {
        toml::Value::Array(values) => values.iter().map(scalar).collect::<Result<Vec<String>>>()?,
        // Tables read well for what is given by arm: [costs] flux = 3
        toml::Value::Table(table) => table
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", scalar(value)?)))
            .collect::<Result<Vec<String>>>()?,
        value => vec![scalar(value)?],
    };
    if argument.is_positional() {
        return Ok(values.into_iter().map(OsString::from).collect());
    }
    let long = key.replace('_', "-");
    Ok(values.into_iter().map(|value| OsString::from(format!("--{long}={value}"))).collect())
}
