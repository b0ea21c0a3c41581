//! `modelmix completions`: prints a script that completes commands, options and their values in a shell.

use clap::CommandFactory;
use clap_complete::generate;

use crate::args::{Cli, CompletionsArgs};
use crate::error::Result;
use crate::terminal::write_out;

pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "modelmix", &mut script);
    write_out(&format!("{}\n", String::from_utf8_lossy(&script).trim_end()))
}
