//! `modelmix man`: writes one page per command and one for the program; prints the paths of the files.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::error::{Failure, Result};
use crate::files::{self, Batch};
use crate::terminal::write_out;

pub(crate) fn run(args: &ManArgs) -> Result<()> {
    files::check_folder(&args.folder)?;
    let mut batch = Batch::default();
    batch.add_folder(&args.folder)?;
    let mut whole = Cli::command();
    whole.build();
    let commands = whole.get_subcommands().filter(|command| command.get_name() != "help").cloned();
    let pages = commands.map(|command| (format!("modelmix-{}", command.get_name()), command));
    let pages: Vec<(String, clap::Command)> =
        [("modelmix".to_string(), whole.clone())].into_iter().chain(pages).collect();
    for (name, command) in pages {
        let mut page = Vec::new();
        let path = args.folder.join(format!("{name}.1"));
        clap_mangen::Man::new(command)
            .title(&name)
            .render(&mut page)
            .map_err(|error| Failure::Write(path.clone(), error))?;
        batch.add(&path, &page)?;
    }
    let written: String = batch.commit()?.iter().map(|path| format!("{}\n", path.display())).collect();
    write_out(&written)
}
