//! Part of the page for provenance: the command, and the input files with their checksums.

use modelmix::document::{InputFile, Provenance, UsedBandwidth};

use super::Section;
use super::names::plain;
use super::numbers;
use super::page::{Block, Copy, Fact, ProvenanceBlock};
use super::table::{Cell, Column, Row, Table};

/// One block per distinct provenance. `at` is the section, as a JSON pointer.
pub(super) fn blocks(section: &Section, at: &str) -> Vec<Block> {
    let mut distinct: Vec<(Vec<&str>, &Provenance)> = Vec::new();
    for (command, provenance) in section.provenances() {
        match distinct.iter_mut().find(|(_, other)| *other == provenance) {
            Some((commands, _)) => commands.push(command),
            None => distinct.push((vec![command], provenance)),
        }
    }
    let several = distinct.len() > 1;
    let block = |(commands, provenance): (Vec<&str>, &Provenance)| {
        let name = if several { format!("Provenance of {}", commands.join(", ")) } else { "Provenance".into() };
        Block::Provenance(ProvenanceBlock {
            name,
            command: provenance.command.as_ref().map(|command| Copy::new("Command", plain(command))),
            facts: facts(provenance),
            table: inputs(&provenance.inputs, &format!("{at}/{}/provenance/inputs", commands[0])),
        })
    };
    distinct.into_iter().map(block).collect()
}

fn facts(provenance: &Provenance) -> Vec<Fact> {
    let mut facts = vec![Fact::new("Version", format!("modelmix {}", provenance.version))];
    facts.extend(provenance.date.as_ref().map(|date| Fact::new("Date", date)));
    facts.extend(provenance.engine.as_ref().map(|engine| Fact::new("Engine", engine)));
    facts.extend(provenance.seed.map(|seed| Fact::new("Seed", seed.to_string())));
    if let Some(encoding) = &provenance.encoding {
        facts.push(Fact::new("Encoder", plain(&encoding.to_string())));
        facts.extend(encoding.runtime.as_ref().map(|runtime| Fact::new("Runtime", plain(runtime))));
    }
    let bandwidth = |used: &UsedBandwidth| {
        Fact::new(format!("Bandwidth of {}", used.of), format!("{} ({})", numbers::tick(used.bandwidth), used.how()))
    };
    facts.extend(provenance.bandwidths.iter().map(bandwidth));
    facts
}

fn inputs(inputs: &[InputFile], at: &str) -> Option<Table> {
    let row = |(index, input): (usize, &InputFile)| {
        let name = input.path.clone().unwrap_or_else(|| format!("{} (in memory)", input.arguments.join(", ")));
        let bytes = input.bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let cells = vec![
            Cell::text(input.role.name()),
            bytes.map_or_else(Cell::missing, |bytes| Cell::count(bytes, format!("{at}/{index}/bytes"))),
            input.sha256.as_ref().map_or_else(Cell::missing, |sum| Cell::text(plain(sum))),
        ];
        Row::new(name, cells)
    };
    let columns = vec![Column::meaning("Role", "what it was used for"), Column::new("Bytes"), Column::new("SHA-256")];
    let rows: Vec<Row> = inputs.iter().enumerate().map(row).collect();
    (!rows.is_empty()).then(|| Table::new("Input", columns, rows).with_text())
}
