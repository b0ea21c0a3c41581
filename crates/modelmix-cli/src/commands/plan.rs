//! `modelmix plan`: how many samples confidence intervals of a wanted width take.

use modelmix::SamplePlan;
use modelmix::document::Document;
use modelmix::internals::numbers::brief;
use modelmix::mixture::{Allocation, PlanSettings, plan};

use super::solve::prepare;
use crate::args::PlanArgs;
use crate::error::Result;
use crate::inputs::{self, Recorded};
use crate::terminal::{Columns, Terminal, bold, count, dim};

pub(crate) fn run(args: &PlanArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    let mut recorded = Recorded::load(&args.arms)?;
    if let Some(file) = &args.objective.scores {
        recorded.arms = inputs::with_scores(recorded.arms, file)?;
    }
    let loss = prepare(&args.objective, &recorded, terminal.engine())?;
    let costs = match args.objective.costs.as_slice() {
        [] => None,
        costs => Some(inputs::by_arm("cost", costs, &recorded.arms, None)?),
    };
    let settings = PlanSettings::default().gain_error(args.gain_error).weight_error(args.weight_error).costs(costs);
    let document = plan(&recorded.arms, &loss, &settings)?;
    terminal.document(&Document::Plan(document.clone()))?;
    print(&terminal, &document);
    terminal.print_after(Ok(()))
}

/// The plan in a sentence, then the arms, the widths that are expected, and what to know.
fn print(terminal: &Terminal, document: &SamplePlan) {
    terminal.say(bold(&document.sentence()));
    let kinds = [("equal", &document.equal), ("optimal", &document.optimal)];
    let kinds: Vec<(&str, &Allocation)> =
        kinds.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?))).collect();
    if let Some((_, first)) = kinds.first() {
        terminal.say("");
        let mut header = vec!["arm", "pilot"];
        kinds.iter().for_each(|(name, _)| header.extend([*name, "more"]));
        let mut columns = Columns::new(&header);
        for (index, arm) in first.arms.iter().enumerate() {
            let mut row = vec![arm.name.clone(), count(arm.pilot)];
            kinds.iter().for_each(|(_, one)| row.extend([count(one.arms[index].samples), count(one.arms[index].more)]));
            columns.row(row);
        }
        let pilot = first.arms.iter().map(|arm| arm.pilot).sum();
        let mut row = vec![bold("all"), count(pilot)];
        kinds.iter().for_each(|(_, one)| row.extend([bold(&count(one.samples)), bold(&count(one.more))]));
        columns.row(row);
        let mut line = |name: &str, pilot: String, value: &dyn Fn(&Allocation) -> Option<String>| {
            let mut row = vec![name.to_string(), pilot];
            for (_, one) in &kinds {
                row.extend([value(one).unwrap_or_default(), String::new()]);
            }
            columns.row(row);
        };
        line("± gain", brief(document.pilot.gain), &|one| Some(brief(one.expected.gain)));
        line("± widest weight", brief(document.pilot.weight), &|one| Some(brief(one.expected.weight)));
        if first.cost.is_some() {
            line("cost of new samples", String::new(), &|one| one.cost.map(brief));
        }
        terminal.say(columns.text());
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
