//! One file per command: arguments → validated inputs → library → output. Commands contain no arithmetic.

mod accumulate;
mod analyses;
mod completions;
mod curate;
mod demo;
mod encode;
mod encoders;
mod live;
mod man;
mod output;
mod plan;
mod report;
mod reproduce;
mod schema;
mod score;
mod simulate;
mod solve;

use crate::args::Command;
use crate::error::Result;

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Solve(args) => solve::run(&args),
        Command::Encode(args) => encode::run(&args),
        Command::Encoders(args) => encoders::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Curate(args) => curate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Accumulate(args) => accumulate::run(&args),
        Command::Run(args) => live::run(&args),
        Command::Resume(args) => live::resume(&args),
        Command::Status(args) => live::status(&args),
        Command::Export(args) => live::export(&args),
        Command::Probe(args) => live::probe(&args),
        Command::Report(args) => report::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
