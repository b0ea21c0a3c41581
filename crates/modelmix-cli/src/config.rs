//! Options from a TOML file. Each key is an option of the command, its value is read as the type that the option has, and it
//! becomes the option's default: so it means what it means on the command line, and command-line flags override it.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, CommandFactory};
use modelmix::mixture::Bandwidths;

use crate::args::Cli;
use crate::error::{Failure, Result};
use crate::values::ArmNumber;

/// The whole command line, with the values of a file as defaults.
pub(crate) struct Configured {
    pub(crate) command: clap::Command,
    file: Option<PathBuf>,
    /// The options that the file gives, as the parser writes them.
    given: Vec<String>,
}

impl Configured {
    /// Whether the parser refused a value that the file gave, and which file that is.
    pub(crate) fn source_of(&self, error: &clap::Error) -> Option<&Path> {
        match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) if self.given.contains(option) => self.file.as_deref(),
            _ => None,
        }
    }
}

/// The command line, with the file that `--config` names put in; an unknown command or option is left to the parser.
pub(crate) fn configure(words: &[OsString]) -> Result<Configured> {
    let command = Cli::command();
    let parsed = command.clone().ignore_errors(true).try_get_matches_from(words).ok();
    let named = parsed.as_ref().and_then(|matches| matches.subcommand()).and_then(|(name, matches)| {
        let file = matches.try_get_one::<PathBuf>("config").ok().flatten()?;
        Some((name.to_string(), file.clone()))
    });
    let Some((name, file)) = named else { return Ok(Configured { command, file: None, given: Vec::new() }) };
    let mut given = Vec::new();
    let mut values = match command.find_subcommand(&name) {
        Some(subcommand) => read(&file, subcommand)?,
        None => Vec::new(),
    };
    // Only a command that is built knows how its options are written.
    let mut built = command.clone();
    built.build();
    if let Some(subcommand) = built.find_subcommand(&name) {
        let is_given = |argument: &&Arg| values.iter().any(|(id, _)| argument.get_id() == id.as_str());
        given.extend(subcommand.get_arguments().filter(is_given).map(ToString::to_string));
    }
    let command = command.mut_subcommand(name, |mut subcommand| {
        for (id, values) in values.drain(..) {
            subcommand = subcommand.mut_arg(id, |argument| argument.default_values(values).required(false));
        }
        subcommand
    });
    Ok(Configured { command, file: Some(file), given })
}

/// By the id of the option, what the file gives.
fn read(path: &Path, command: &clap::Command) -> Result<Vec<(String, Vec<String>)>> {
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
    let known: Vec<(&str, &Arg)> = command
        .get_arguments()
        .map(|argument| (argument.get_long().unwrap_or(argument.get_id().as_str()), argument))
        .filter(|(name, _)| !["config", "help", "version"].contains(name))
        .collect();
    let mut given: Vec<(String, Vec<String>)> = Vec::new();
    for (key, value) in table {
        let option = key.replace('_', "-");
        let Some((_, argument)) = known.iter().find(|(name, _)| *name == option) else {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let hint = modelmix::internals::nearest_word(&option, &known)
                .map_or(format!("; there are {}", known.join(", ")), |near| format!(" (did you mean {near}?)"));
            return Err(Failure::input(format!(
                "{}: unknown key \"{key}\" for {}{hint}",
                path.display(),
                command.get_name()
            )));
        };
        let values = texts(argument, &value)
            .map_err(|must| Failure::input(format!("{}: {key} is {value}, but it must be {must}", path.display())))?;
        let id = argument.get_id().to_string();
        if given.iter().any(|(other, _)| *other == id) {
            return Err(Failure::input(format!("{}: {option} is given twice; give it once", path.display())));
        }
        given.push((id, values));
    }
    Ok(given)
}

/// The values that an option is given, as its parser reads them; or what they must be.
fn texts(argument: &Arg, value: &toml::Value) -> Result<Vec<String>, &'static str> {
    let kind = argument.get_value_parser().type_id();
    let scalar = |value: &toml::Value| scalar(argument, value);
    match value {
        toml::Value::Boolean(value) if matches!(argument.get_action(), ArgAction::SetTrue) => {
            Ok(vec![value.to_string()])
        }
        _ if matches!(argument.get_action(), ArgAction::SetTrue) => Err("true or false"),
        toml::Value::Array(values) if matches!(argument.get_action(), ArgAction::Append) => {
            values.iter().map(scalar).collect()
        }
        toml::Value::Array(values) if kind == TypeId::of::<Bandwidths>() => {
            Ok(vec![values.iter().map(scalar).collect::<Result<Vec<_>, _>>()?.join(",")])
        }
        // Tables read well for what is given by arm: [costs] flux = 3
        toml::Value::Table(table) if kind == TypeId::of::<ArmNumber>() => table
            .iter()
            .map(|(arm, value)| {
                let number = value.as_float().or(value.as_integer().map(|whole| whole as f64));
                number.map(|number| format!("{arm}={number}")).ok_or("a table of numbers by arm")
            })
            .collect(),
        value => Ok(vec![scalar(value)?]),
    }
}

/// One value.
fn scalar(argument: &Arg, value: &toml::Value) -> Result<String, &'static str> {
    let kind = argument.get_value_parser().type_id();
    let is_whole = [TypeId::of::<usize>(), TypeId::of::<u64>(), TypeId::of::<u32>()].iter().any(|id| kind == *id);
    match value {
        toml::Value::Integer(number) if !is_whole || *number >= 0 => Ok(number.to_string()),
        toml::Value::Float(number) if !is_whole => Ok(number.to_string()),
        _ if is_whole => Err("a whole number"),
        _ if kind == TypeId::of::<f64>() => Err("a number"),
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Array(_) => Err("one value, not a list"),
        _ => Err("a number, a text or a list of them"),
    }
}
