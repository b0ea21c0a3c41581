//! Process groups: a worker and all that it starts end together.

use std::process::{Child, Command};

/// Gives the process a group of its own. Ctrl-C in a terminal then reaches only this program, which ends its workers itself.
pub(super) fn separate(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Ends the process and its group. A process that has ended is ignored; others of its group are ended nevertheless.
pub(super) fn kill(child: &mut Child) {
    #[cfg(unix)]
    signal(child.id());
    let _ = child.kill();
}

/// Sends SIGKILL to a group. The shell's own command does it, since the standard library has no function for it. The group keeps
/// its number while a process of it is left, so that no other group can have it.
#[cfg(unix)]
fn signal(group: u32) {
    let argument = format!("-{group}");
    let quiet = std::process::Stdio::null;
    let kill = Command::new("/bin/sh")
        .args(["-c", "kill -s KILL -- \"$1\"", "sh", &argument])
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .status();
    // Without a shell, or if the group is empty, there is nothing more to end.
    drop(kill);
}
