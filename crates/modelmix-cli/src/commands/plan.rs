//! `modelmix plan`: computes how many samples give confidence intervals of a wanted width.

use modelmix::SamplePlan;
use modelmix::document::Document;
use modelmix::internals::numbers::brief;
use modelmix::mixture::{Allocation, PlanSettings, plan};

use super::solve::prepare;
use crate::args::PlanArgs;
use crate::error::Result;
use crate::inputs::{self, Recorded};
use crate::terminal::{Cell, Format, Table, Terminal, bold, brief_cell, count_cell, dim};

pub(crate) fn run(args: &PlanArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    let mut recorded = Recorded::load(&args.arms, &args.common, &terminal)?;
    recorded.choose_engine(&args.engine, &terminal)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let hashing =
        inputs::sources(&args.arms, &args.objective, &args.common, &recorded)?.hash(terminal.format == Format::Json);
    let loss = prepare(&args.objective, &recorded, &terminal)?;
    let costs = match args.objective.costs.as_slice() {
        [] => None,
        costs => Some(inputs::by_arm("cost", costs, &recorded.arms, None)?),
    };
    let settings = PlanSettings::default().gain_error(args.gain_error).weight_error(args.weight_error).costs(costs);
    let mut document = plan(&recorded.arms, &loss, &settings)?;
    let (engine, seed) = (terminal.engine_text(), args.objective.seed);
    document.provenance = hashing.provenance(engine, seed, loss.bandwidths(&recorded.arms, seed))?;
    terminal.document(&Document::Plan(document.clone()))?;
    print(&terminal, &document);
    terminal.print_after(Ok(()))
}

/// Prints the plan in a sentence, then the arms, the expected widths, and notes.
fn print(terminal: &Terminal, document: &SamplePlan) {
    terminal.say(bold(&document.sentence()));
    let kinds = [("equal", &document.equal), ("optimal", &document.optimal)];
    let kinds: Vec<(&str, &Allocation)> =
        kinds.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?))).collect();
    if let Some((_, first)) = kinds.first() {
        terminal.say("");
        let mut header = vec!["arm".to_string(), "pilot".to_string()];
        kinds.iter().for_each(|(name, _)| header.extend([(*name).to_string(), format!("{name}, more")]));
        let mut table = Table::new("Samples per arm", header);
        for (index, arm) in first.arms.iter().enumerate() {
            let mut row = vec![Cell::from(&arm.name), count_cell(arm.pilot)];
            for (_, one) in &kinds {
                row.extend([count_cell(one.arms[index].samples), count_cell(one.arms[index].more)]);
            }
            table.row(row);
        }
        let mut row = vec![Cell::from("all"), count_cell(first.arms.iter().map(|arm| arm.pilot).sum())];
        kinds.iter().for_each(|(_, one)| row.extend([count_cell(one.samples), count_cell(one.more)]));
        table.strong_row(row);
        let mut line = |name: &str, pilot: Cell, value: &dyn Fn(&Allocation) -> Option<f64>| {
            let mut row = vec![Cell::from(name), pilot];
            kinds
                .iter()
                .for_each(|(_, one)| row.extend([value(one).map_or_else(Cell::default, brief_cell), Cell::default()]));
            table.row(row);
        };
        line("± gain", brief_cell(document.pilot.gain), &|one| Some(one.expected.gain));
        line("± widest weight", brief_cell(document.pilot.weight), &|one| Some(one.expected.weight));
        if first.cost.is_some() {
            line("cost of new samples", Cell::default(), &|one| one.cost);
        }
        terminal.table(table);
    }
    if kinds.is_empty() {
        terminal.say("");
        let mut table = Table::new("Half-widths", ["half-width", "pilot", "wanted", "largest plan"]);
        let (pilot, limit) = (document.pilot, document.limit);
        for (name, pilot, wanted, limit) in [
            ("gain", pilot.gain, document.gain_error, limit.gain),
            ("widest weight", pilot.weight, document.weight_error, limit.weight),
        ] {
            let wanted = wanted.map_or_else(Cell::default, brief_cell);
            table.row(vec![Cell::from(name), brief_cell(pilot), wanted, brief_cell(limit)]);
        }
        terminal.table(table);
    }
    terminal.say("");
    document.notes.iter().for_each(|note| terminal.say(note));
    let [low, high] = document.gain_interval.map(brief);
    let kernels: Vec<String> = document.kernels.iter().map(|kernel| format!("; {kernel}")).collect();
    terminal.say(dim(&format!(
        "objective {}{}; gain of the pilot {} ({low} to {high} with 95% confidence)",
        document.objective,
        kernels.concat(),
        brief(document.gain),
    )));
}
