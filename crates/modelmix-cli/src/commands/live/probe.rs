//! `modelmix probe`: one request per arm, to see that keys, models, encoders and prices are right before a run.

use std::time::Instant;

use modelmix_live::arm::Content;
use modelmix_live::config::{Config, Plan};
use modelmix_live::runner::{Probe, probe};
use serde_json::json;

use crate::args::ProbeArgs;
use crate::error::{Failure, Result};
use crate::terminal::{Table, Terminal, bold, brief_cell};
use modelmix_live::status::duration;

/// The longest text of a sample that is shown.
const SHOWN: usize = 60;

pub(crate) fn run(args: &ProbeArgs) -> Result<()> {
    let terminal = Terminal::new(&args.common);
    let config = Config::read(&args.run)?;
    let names: Vec<String> = config.arms.iter().map(|arm| arm.name.clone()).collect();
    if let Some(unknown) = args.arms.iter().find(|name| !names.contains(name)) {
        return Err(Failure::input(format!("--arms names {unknown}, but the arms are {}", names.join(", "))));
    }
    let base = args.run.parent().unwrap_or(std::path::Path::new("."));
    let plan = Plan::new(config, base, terminal.engine(), &|name| std::env::var(name).ok())?;
    let mut table =
        Table::new("One request per arm", vec!["arm", "answer", "time", "features", "cost", "reserved"]).left(1);
    let (mut documents, mut failed) = (Vec::new(), 0);
    for (arm, name) in names.iter().enumerate() {
        if !args.arms.is_empty() && !args.arms.contains(name) {
            continue;
        }
        let started = Instant::now();
        let Probe { reserved, cost, width, answer, .. } = probe(&plan, arm);
        let seconds = started.elapsed().as_secs_f64();
        let text = match &answer {
            Ok(content) => shown(content),
            Err(message) => {
                failed += 1;
                message.clone()
            }
        };
        documents.push(json!({
            "arm": name, "ok": answer.is_ok(), "answer": text, "seconds": seconds, "features": width, "cost": cost, "reserved": reserved,
        }));
        let width = width.map_or_else(String::new, |width| width.to_string());
        let mut row = vec![name.as_str().into(), text.into(), duration(seconds).into(), width.into()];
        row.extend([cost.map_or_else(Default::default, brief_cell), brief_cell(reserved)]);
        table.row(row);
    }
    terminal.document(&json!({"command": "probe", "arms": documents}))?;
    terminal.say(bold(&match failed {
        0 => "Every arm answers.".to_string(),
        failed => format!("{failed} of {} arms gave no usable sample.", documents.len()),
    }));
    terminal.say("");
    terminal.table(table);
    terminal.print_after(if failed == 0 { Ok(()) } else { Err(Failure::Check) })
}

/// A sample in a few words.
fn shown(content: &Content) -> String {
    match content {
        Content::Text(text) => {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match line.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("\"{}…\"", &line[..end]),
                None => format!("\"{line}\""),
            }
        }
        Content::File(bytes) => {
            let kind = modelmix_encode::decode::mime(bytes).unwrap_or("file");
            format!("{kind} of {}", crate::terminal::brief_size(bytes.len() as u64))
        }
        Content::Pixels(image) => format!("image of {} × {}", image.width(), image.height()),
        Content::Features(_) => "features".into(),
    }
}
