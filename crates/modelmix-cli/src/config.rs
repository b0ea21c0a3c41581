//! Options from a TOML file. Each key is an option of the command, and its value is inserted into the command line, so it has the
//! same meaning, conflicts and requirements as the option. Command-line flags override the file.
//! Paths are relative to the file.

use std::any::TypeId;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory};
use modelmix::mixture::Bandwidths;
use toml::de::{DeTable, DeValue};

use crate::args::Cli;
use crate::error::{Failure, Result};
use crate::values::{ArmNumber, BadValue};

/// The command line, including the options of a file.
pub(crate) struct Configured {
    pub(crate) command: clap::Command,
    pub(crate) words: Vec<OsString>,
    file: Option<PathBuf>,
    /// Options of the file that the command line does not override.
    given: Vec<Given>,
}

/// An option in the file.
struct Given {
    argument: Arg,
    /// The option's name without dashes.
    name: String,
    values: Vec<String>,
}

impl Given {
    /// The option as words of the command line; none for a flag that is off.
    fn words(&self) -> Vec<OsString> {
        let option = |value: &String| format!("--{}={value}", self.name).into();
        match self.argument.get_action() {
            ArgAction::SetTrue => vec![format!("--{}", self.name).into()],
            _ => self.values.iter().map(option).collect(),
        }
    }
}

/// The command line with the options of the `--config` file inserted; the parser reports unknown commands and options.
///
/// # Errors
/// A file that cannot be read, unknown keys, invalid values, options of the file that exclude each other.
pub(crate) fn configure(words: Vec<OsString>) -> Result<Configured> {
    let mut command = Cli::command();
    command.build();
    let name = words.iter().skip(1).find_map(|word| command.find_subcommand(word).map(clap::Command::get_name));
    let Some(subcommand) = name.and_then(|name| command.find_subcommand(name)).cloned() else {
        return Ok(Configured { command, words, file: None, given: Vec::new() });
    };
    let (words, off) = switched(&subcommand, words)?;
    let parsed = command.clone().ignore_errors(true).try_get_matches_from(&words).ok();
    let matches = parsed.as_ref().and_then(|matches| matches.subcommand()).map(|(_, matches)| matches);
    let file = matches.and_then(|matches| matches.try_get_one::<PathBuf>("config").ok().flatten()).cloned();
    let (Some(matches), Some(file)) = (matches, file) else {
        return Ok(Configured { command, words, file: None, given: Vec::new() });
    };
    let is_typed = |argument: &Arg| {
        let id = argument.get_id().as_str();
        off.iter().any(|other| other == id) || matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let excludes = |one: &Arg, other: &Arg| {
        let declared = |one: &Arg, other: &Arg| {
            subcommand.get_arg_conflicts_with(one).iter().any(|found| found.get_id() == other.get_id())
        };
        declared(one, other) || declared(other, one)
    };
    let typed: Vec<&Arg> = subcommand.get_arguments().filter(|argument| is_typed(argument)).collect();
    let is_on = |argument: &Arg| !off.iter().any(|id| argument.get_id() == id.as_str());
    let mut given = read(&file, &subcommand)?;
    given.retain(|one| {
        !typed
            .iter()
            .any(|typed| typed.get_id() == one.argument.get_id() || is_on(typed) && excludes(typed, &one.argument))
    });
    for (index, one) in given.iter().enumerate() {
        if let Some(other) = given[..index].iter().find(|other| excludes(&one.argument, &other.argument)) {
            let (file, one, other) = (file.display(), &one.name, &other.name);
            return Err(Failure::input(format!("{file}: {one} cannot be used with {other}; remove one of them")));
        }
    }
    let words = together(&subcommand, &words, given.iter());
    Ok(Configured { command, words, file: Some(file), given })
}

/// The words without values of flags, and the flags that are off: `--json=false` overrides a file, and the parser does not
/// accept values of flags.
fn switched(command: &clap::Command, words: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>)> {
    let (mut kept, mut off) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    for word in words.by_ref() {
        let is_last = word == "--";
        let text = word.to_str().and_then(|word| word.strip_prefix("--")).and_then(|word| word.split_once('='));
        let flag = text.and_then(|(name, value)| {
            let is_flag =
                |flag: &&Arg| flag.get_long() == Some(name) && matches!(flag.get_action(), ArgAction::SetTrue);
            Some((command.get_arguments().find(is_flag)?, name, value))
        });
        match flag {
            None => kept.push(word),
            Some((_, name, "true")) => kept.push(format!("--{name}").into()),
            Some((flag, _, "false")) => off.push(flag.get_id().to_string()),
            Some((_, name, value)) => {
                return Err(Failure::input(format!("--{name} is \"{value}\", but it must be true or false")));
            }
        }
        if is_last {
            break;
        }
    }
    kept.extend(words);
    Ok((kept, off))
}

/// Merges command-line words and options of the file: options follow the command, positional arguments are last.
fn together<'a>(command: &clap::Command, typed: &[OsString], given: impl Iterator<Item = &'a Given>) -> Vec<OsString> {
    let start = typed.iter().position(|word| word == command.get_name()).map_or(typed.len(), |at| at + 1);
    let (mut words, mut last) = (typed[..start].to_vec(), Vec::new());
    for one in given {
        match one.argument.is_positional() {
            true => last.extend(one.values.iter().map(OsString::from)),
            false => words.extend(one.words()),
        }
    }
    words.extend_from_slice(&typed[start..]);
    if !last.is_empty() && !typed.iter().any(|word| word == "--") {
        words.push("--".into());
    }
    words.extend(last);
    words
}

impl Configured {
    /// The message for an error of the parser: for a value with its own message, and for anything from the file. Other errors
    /// have the message of the parser.
    pub(crate) fn refusal(
        &self,
        error: &clap::Error,
        source: Option<&(dyn std::error::Error + 'static)>,
    ) -> Option<Failure> {
        let context = |kind: ContextKind| match error.get(kind) {
            Some(ContextValue::String(option)) => vec![option.clone()],
            Some(ContextValue::Strings(options)) => options.clone(),
            _ => Vec::new(),
        };
        let named = context(ContextKind::InvalidArg);
        let option = self.given.iter().find(|one| named.contains(&one.argument.to_string()));
        let file = option.and(self.file.as_deref());
        if let Some(bad) = source.and_then(|source| source.downcast_ref::<BadValue>()) {
            return Some(Failure::input(bad.sentence(file)));
        }
        if let Some(error) = source.and_then(|source| source.downcast_ref::<modelmix::Error>()) {
            let is_option =
                |what: &str| named.iter().any(|option| option.split(' ').next() == Some(&format!("--{what}")));
            if let modelmix::Error::Setting { what, value, must } = error
                && is_option(what)
            {
                let problem = format!("is {value}, but it must be {must}");
                return Some(Failure::input(BadValue::of(what, problem).sentence(file)));
            }
            let file = file.map_or(String::new(), |file| format!("{}: ", file.display()));
            return Some(Failure::input(format!("{file}{error}")));
        }
        if error.kind() == ErrorKind::MissingRequiredArgument {
            return self.missing(&named);
        }
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        file.map(|file| Failure::input(format!("{}: {first}", file.display())))
    }

    /// The message for an option of the file that requires another one: the option without which no argument is missing.
    fn missing(&self, missing: &[String]) -> Option<Failure> {
        let subcommand = self.words.get(1).and_then(|word| self.command.find_subcommand(word))?;
        let is_needed_by = |one: &&Given| {
            let own = one.words();
            let words = self.words.iter().filter(|word| !own.contains(word));
            let error = self.command.clone().try_get_matches_from(words).err();
            error.is_none_or(|error| error.kind() != ErrorKind::MissingRequiredArgument)
        };
        let one = self.given.iter().find(is_needed_by)?;
        let name = |option: &String| {
            let found = subcommand.get_arguments().find(|argument| argument.to_string() == *option);
            found.and_then(Arg::get_long).map_or(option.clone(), String::from)
        };
        let needed: Vec<String> = missing.iter().map(name).collect();
        let (file, key, needed) = (self.file.as_ref()?.display(), &one.name, needed.join(" and "));
        Some(Failure::input(format!("{file}: {key} needs {needed}; add {needed}, or remove {key}")))
    }

    /// Names a setting that the library rejected as the user wrote it: with dashes on the command line, with the file name if it
    /// is in the file.
    pub(crate) fn named(&self, failure: Failure, matches: &ArgMatches) -> Failure {
        let Failure::Library(modelmix::Error::Setting { what, value, must }) = &failure else { return failure };
        let option = what.replace('_', "-");
        let Some((_, matches)) = matches.subcommand() else { return failure };
        let is_it = |text: &str| {
            text == value || matches!((text.parse::<f64>(), value.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
        };
        let id = option.replace('-', "_");
        let is_typed = matches!(matches.try_contains_id(&id), Ok(true))
            && matches.value_source(&id) == Some(ValueSource::CommandLine);
        let raw = is_typed.then(|| matches.get_raw(&id)).flatten();
        let text = raw.and_then(|mut raw| raw.find_map(|text| text.to_str().filter(|text| is_it(text))));
        let Some(text) = text else { return failure };
        let file = self.file.as_deref().filter(|_| self.given.iter().any(|one| one.name == option));
        Failure::input(BadValue::of(&option, format!("is {text}, but it must be {must}")).sentence(file))
    }
}

/// The options of the file, in its order; flags that are off are skipped.
fn read(path: &Path, command: &clap::Command) -> Result<Vec<Given>> {
    let file = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::input(format!("cannot read {file}: {error}")))?;
    let line = |at: usize| 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
    let table = DeTable::parse(&text).map_err(|error| {
        let (line, problem) = (line(error.span().map_or(0, |span| span.start)), error.message());
        Failure::input(format!("{file}: line {line}: {problem}; write options as key = value, each once"))
    })?;
    let mut entries: Vec<_> = table.into_inner().into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let known: Vec<(&str, &Arg)> = command
        .get_arguments()
        .map(|argument| (argument.get_long().unwrap_or(argument.get_id().as_str()), argument))
        .filter(|(name, _)| !["config", "help", "version"].contains(name))
        .collect();
    let mut given: Vec<Given> = Vec::new();
    for (key, value) in &entries {
        let key = key.get_ref();
        let name = key.replace('_', "-");
        let Some((_, argument)) = known.iter().find(|(known, _)| *known == name) else {
            if matches!(value.get_ref(), DeValue::Table(_)) {
                let remedy = "write options as key = value at the top of the file";
                return Err(Failure::input(format!("{file}: [{key}] is a table; {remedy}")));
            }
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let hint = modelmix::internals::nearest_word(&name, &known)
                .map_or(format!("; the keys are {}", known.join(", ")), |near| format!(" (did you mean {near}?)"));
            return Err(Failure::input(format!("{file}: unknown key \"{key}\" for {}{hint}", command.get_name())));
        };
        let values = texts(argument, value.get_ref()).map_err(|must| {
            Failure::input(format!("{file}: {key} is {}, but it must be {must}", written(&text, value.span())))
        })?;
        let values = values.into_iter().map(|value| beside(path, argument, value)).collect();
        if given.iter().any(|other| other.name == name) {
            return Err(Failure::input(format!("{file}: {name} is given twice; give it once")));
        }
        given.push(Given { argument: (*argument).clone(), name, values });
    }
    given.retain(|one| !matches!(one.argument.get_action(), ArgAction::SetTrue) || one.values == ["true"]);
    Ok(given)
}

/// Arguments that are paths with an optional name or key, and are parsed as text.
const NAMED_PATHS: [&str; 4] = ["arms", "reference", "images", "texts"];

/// Makes a path of the file relative to the file, as in experiments; other values are unchanged.
fn beside(file: &Path, argument: &Arg, value: String) -> String {
    let folder = file.parent().unwrap_or(Path::new(""));
    let is_named = NAMED_PATHS.contains(&argument.get_id().as_str());
    if !is_named && argument.get_value_parser().type_id() != TypeId::of::<PathBuf>() || value == "-" {
        return value;
    }
    let join = |path: &str| folder.join(path).to_string_lossy().into_owned();
    match value.split_once('=').filter(|_| is_named) {
        Some((name, path)) => format!("{name}={}", join(path)),
        None => join(&value),
    }
}

/// A value as written in the file, truncated if it is long.
fn written(text: &str, span: Range<usize>) -> String {
    /// Maximum number of characters.
    const SHOWN: usize = 60;
    let value = text.get(span).unwrap_or_default();
    let short: String = value.chars().take(SHOWN).collect();
    if short.len() < value.len() { format!("{short}…") } else { short }
}

/// The values of an option as text for its parser, or a description of valid values.
fn texts(argument: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    let kind = argument.get_value_parser().type_id();
    let all = |values: &toml::de::DeArray<'_>| -> Result<Vec<String>, &'static str> {
        values.iter().map(|value| scalar(argument, value.get_ref())).collect()
    };
    match value {
        DeValue::Boolean(value) if matches!(argument.get_action(), ArgAction::SetTrue) => Ok(vec![value.to_string()]),
        _ if matches!(argument.get_action(), ArgAction::SetTrue) => Err("true or false"),
        DeValue::Array(values) if values.is_empty() => Err("a list of at least one value; remove the key for none"),
        DeValue::Array(values) if matches!(argument.get_action(), ArgAction::Append) => all(values),
        DeValue::Array(values) if kind == TypeId::of::<Bandwidths>() => Ok(vec![all(values)?.join(",")]),
        // Numbers by arm may be a table: [costs] flux = 3
        DeValue::Table(table) if kind == TypeId::of::<ArmNumber>() && !table.is_empty() => table
            .iter()
            .map(|(arm, value)| match value.get_ref() {
                DeValue::Integer(_) | DeValue::Float(_) => {
                    Ok(format!("{}={}", arm.get_ref(), scalar(argument, value.get_ref())?))
                }
                // A share may be a percentage.
                DeValue::String(text) if text.ends_with('%') => Ok(format!("{}={text}", arm.get_ref())),
                _ => Err("a table of numbers by arm"),
            })
            .collect(),
        value => Ok(vec![scalar(argument, value)?]),
    }
}

/// One value, as on the command line.
fn scalar(argument: &Arg, value: &DeValue<'_>) -> Result<String, &'static str> {
    let kind = argument.get_value_parser().type_id();
    let is = |kinds: &[TypeId]| kinds.iter().any(|id| kind == *id);
    match value {
        DeValue::String(text) if text.is_empty() && is(&[TypeId::of::<PathBuf>()]) => {
            Err("a path that is not empty; remove the key for none")
        }
        DeValue::String(text) => Ok(text.to_string()),
        _ if is(&[TypeId::of::<PathBuf>(), TypeId::of::<String>()]) => Err("a string in quotes"),
        DeValue::Integer(number) => {
            let whole = i128::from_str_radix(number.as_str(), number.radix());
            Ok(whole.map_or(number.to_string(), |whole| whole.to_string()))
        }
        DeValue::Float(number) => Ok(number.to_string()),
        _ if is(&[TypeId::of::<usize>(), TypeId::of::<u64>(), TypeId::of::<u32>()]) => Err("a whole number"),
        _ if is(&[TypeId::of::<f64>()]) => Err("a number"),
        DeValue::Array(_) => Err("one value, not a list"),
        _ => Err("a number, a string or a list of them"),
    }
}
