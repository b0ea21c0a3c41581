//! `modelmix completions`: for shells, and man pages.

use clap::CommandFactory;
use clap_complete::{Shell as Complete, generate};

use crate::args::{Cli, CompletionsArgs, Shell};
use crate::error::{Failure, Result};
use crate::files;
use crate::terminal::write_out;

pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let shell = match args.shell {
        Shell::Bash => Complete::Bash,
        Shell::Elvish => Complete::Elvish,
        Shell::Fish => Complete::Fish,
        Shell::Powershell => Complete::PowerShell,
        Shell::Zsh => Complete::Zsh,
        Shell::Man => return man(args),
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "modelmix", &mut script);
    write_out(String::from_utf8_lossy(&script).trim_end())
}

/// One page a command, and one for all.
fn man(args: &CompletionsArgs) -> Result<()> {
    files::check_folder(&args.folder)?;
    files::make_folder(&args.folder)?;
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
        files::write(&path, &page)?;
    }
    Ok(())
}
