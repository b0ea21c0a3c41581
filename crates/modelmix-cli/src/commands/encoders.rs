//! `modelmix encoders`: lists encoders, shows one, downloads weights.

use std::cell::RefCell;

use modelmix_encode::encoders::{ENCODERS, Family, Kind, NamedEncoder, Source};
use modelmix_encode::weights::{Environment, Location, Origin, PullOptions, locate, pull};
use serde::Serialize;

use crate::args::{EncodersAction, EncodersArgs};
use crate::error::{Failure, Result};
use crate::terminal::{Cell, Table, Terminal, bold, count, count_cell, dim};

pub(crate) fn run(args: &EncodersArgs) -> Result<()> {
    let environment = Environment::of_process();
    match &args.action {
        None => list(&Terminal::new(&args.common), &environment),
        Some(EncodersAction::List { common }) => list(&Terminal::new(common), &environment),
        Some(EncodersAction::Show { name, common }) => show(&Terminal::new(common), named(name)?, &environment),
        Some(EncodersAction::Pull { name, common }) => download(&Terminal::new(common), named(name)?, &environment),
    }
}

fn named(name: &str) -> Result<&'static NamedEncoder> {
    if name.to_ascii_lowercase().ends_with(".onnx") {
        return Err(Failure::input(format!(
            "{name} is a file, but encoders show and pull take the name of an encoder; use the file with --encoder {name}"
        )));
    }
    NamedEncoder::named(name).map_err(|problem| Failure::input(problem.to_string()))
}

/// An encoder as `--json` prints it.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    takes: &'static str,
    width: usize,
    presets: Vec<&'static str>,
    /// The path of its weights; absent if they are not on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<String>,
    /// How to get the weights; absent if they are on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    how_to_get: Option<String>,
}

impl Listed {
    fn of(encoder: &NamedEncoder, environment: &Environment) -> Self {
        let (weights, how_to_get) = match locate(encoder, None, environment) {
            Location::Found(found) => (Some(found.model.display().to_string()), None),
            Location::Missing(missing) => (None, Some(missing.how_to_get)),
        };
        Self {
            name: encoder.name,
            takes: takes(encoder),
            width: encoder.presets.first().map_or(0, |preset| preset.width),
            presets: encoder.presets.iter().map(|preset| preset.tool).collect(),
            weights,
            how_to_get,
        }
    }
}

fn takes(encoder: &NamedEncoder) -> &'static str {
    match encoder.kind {
        Kind::Image { .. } => "images",
        Kind::Text { .. } => "texts",
    }
}

/// Lists every encoder, and whether its weights are here.
fn list(terminal: &Terminal, environment: &Environment) -> Result<()> {
    let listed: Vec<Listed> = ENCODERS.iter().map(|encoder| Listed::of(encoder, environment)).collect();
    terminal.document(&serde_json::json!({
        "command": "encoders", "version": modelmix::VERSION, "encoders": listed
    }))?;
    let here = listed.iter().filter(|encoder| encoder.weights.is_some()).count();
    terminal.say(bold(&format!(
        "{} encoders; the weights of {} are on this machine.",
        count(listed.len()),
        count(here)
    )));
    terminal.say("");
    let mut table = Table::new("Encoders", ["encoder", "takes", "features", "presets", "weights"]);
    for encoder in &listed {
        let weights = if encoder.weights.is_some() { "here".into() } else { dim("missing") };
        let presets = encoder.presets.join(", ");
        table.row(vec![
            Cell::from(encoder.name),
            Cell::from(encoder.takes),
            count_cell(encoder.width),
            Cell::from(&presets),
            weights.into(),
        ]);
    }
    terminal.table(table);
    terminal.say("");
    terminal.say(dim(
        "The first preset is the default. modelmix encoders pull NAME downloads weights; modelmix encoders show NAME says where they are looked for.",
    ));
    terminal.print_after(Ok(()))
}

/// Shows one encoder.
fn show(terminal: &Terminal, encoder: &NamedEncoder, environment: &Environment) -> Result<()> {
    let listed = Listed::of(encoder, environment);
    terminal.document(&serde_json::json!({
        "command": "encoders", "version": modelmix::VERSION, "encoders": [listed]
    }))?;
    let input = match encoder.kind {
        Kind::Image { family: Family::Swav, size } => format!("images, with a shorter side of {size} pixels"),
        Kind::Image { size, .. } => format!("images, as {size} × {size} pixels"),
        Kind::Text { prefix: "", max_length } => format!("texts of at most {} tokens", count(max_length)),
        Kind::Text { prefix, max_length } => {
            format!("texts of at most {} tokens, each after \"{prefix}\"", count(max_length))
        }
    };
    terminal.say(bold(&format!("{}: {input}", encoder.name)));
    terminal.say("");
    let mut table = Table::new("Presets", ["preset", "features", "divided by their norm"]);
    for preset in encoder.presets {
        let normalised = if preset.normalise { "yes" } else { "no" };
        table.row(vec![Cell::from(preset.tool), count_cell(preset.width), Cell::from(normalised)]);
    }
    terminal.table(table);
    terminal.say("");
    match locate(encoder, None, environment) {
        Location::Found(found) => {
            let origin = match found.origin {
                Origin::Given => "",
                Origin::Cache => " (in the cache of modelmix)",
                Origin::HuggingFace => " (in the cache of Hugging Face)",
                Origin::TorchHub => " (in the cache of torch.hub)",
            };
            terminal.say(format!("Weights: {}{origin}", found.model.display()));
        }
        Location::Missing(missing) => {
            terminal.say(format!("Weights are missing: {}.", missing.how_to_get));
            terminal.say("They were looked for at:");
            missing.looked.iter().for_each(|path| terminal.say(format!("  {}", path.display())));
        }
    }
    for source in encoder.sources {
        match source {
            Source::Hub { repository, .. } => {
                terminal.say(format!("Published: {}/{repository}", environment.endpoint()))
            }
            Source::Address { url, .. } => terminal.say(format!("Published: {url}")),
        }
    }
    if let Some(remark) = encoder.remark() {
        terminal.say(format!("Note: {remark}."));
    }
    terminal.say(format!("Export: {}", encoder.export));
    terminal.print_after(Ok(()))
}

/// Downloads the weights of an encoder.
fn download(terminal: &Terminal, encoder: &NamedEncoder, environment: &Environment) -> Result<()> {
    let bar = terminal.download(&format!("downloading {}", encoder.name));
    let said = RefCell::new(String::new());
    let pulled = pull(encoder, environment, &PullOptions::default(), &|progress| {
        // It is reported often while the download waits, and said once.
        if let Some(problem) = progress.problem.filter(|problem| *problem != *said.borrow()) {
            bar.suspend(|| terminal.warn(&[format!("{problem}; trying again")]));
            said.replace(problem.to_owned());
        }
        bar.set_message(format!("downloading {}", progress.file));
        bar.set_length(progress.total.unwrap_or(progress.done).max(1));
        bar.set_position(progress.done);
        true
    });
    bar.finish_and_clear();
    let pulled = pulled.map_err(|problem| Failure::input(problem.to_string()))?;
    let files: Vec<serde_json::Value> = pulled
        .iter()
        .map(|file| {
            serde_json::json!({
                "path": file.path.display().to_string(),
                "sha256": file.sha256,
                "confirmed": file.confirmed,
                "fresh": file.fresh,
            })
        })
        .collect();
    terminal.document(&serde_json::json!({
        "command": "encoders", "version": modelmix::VERSION, "encoder": encoder.name, "files": files
    }))?;
    terminal.say(bold(&format!("The weights of {} are on this machine.", encoder.name)));
    terminal.say("");
    let mut table = Table::new("Files", ["file", "SHA-256", "checksum"]);
    for file in &pulled {
        let checked = if file.confirmed { "as published" } else { "recorded" };
        table.row(vec![
            Cell::from(&file.path.display().to_string()),
            Cell::from(&file.sha256.chars().take(16).collect::<String>()),
            Cell::from(checked),
        ]);
    }
    terminal.table(table);
    if let Some(remark) = encoder.remark() {
        terminal.say("");
        terminal.say(dim(&format!("Note: {remark} (modelmix encoders show {}).", encoder.name)));
    }
    terminal.print_after(Ok(()))
}
