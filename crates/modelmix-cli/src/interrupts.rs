//! What Ctrl-C does: it ends the program, unless a command has an action of its own.

use std::sync::{Mutex, PoisonError};

/// The action of the command.
static ACTION: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Sets what Ctrl-C does from now on.
pub(crate) fn on_interrupt(action: impl Fn() + Send + 'static) {
    *ACTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(action));
}

/// Ctrl-C ends the program again.
pub(crate) fn reset() {
    *ACTION.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Runs the action, and returns whether there is one.
pub(crate) fn handle() -> bool {
    let action = ACTION.lock().unwrap_or_else(PoisonError::into_inner);
    action.as_ref().map(|action| action()).is_some()
}
