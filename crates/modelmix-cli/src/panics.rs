//! A panic is a bug in modelmix. The program exits with one sentence that states the location, and with a backtrace if
//! `RUST_BACKTRACE` is set.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::panic::{self, PanicHookInfo, UnwindSafe};
use std::sync::{Mutex, PoisonError};

/// The last panic of any thread.
static LAST: Mutex<Option<Panic>> = Mutex::new(None);

/// A caught panic.
pub(crate) struct Panic {
    message: String,
    place: Option<String>,
    trace: Backtrace,
}

impl Panic {
    fn new(info: &PanicHookInfo<'_>) -> Self {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no message").to_string();
        // Captured only if RUST_BACKTRACE or RUST_LIB_BACKTRACE is set.
        Self { message, place: info.location().map(ToString::to_string), trace: Backtrace::capture() }
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_ref().map_or(String::new(), |place| format!(" at {place}"));
        let message = self.message.replace(|letter: char| letter.is_control(), " ");
        write!(
            f,
            "this is a bug in modelmix ({message}{place}); please report it, with the command and its output with RUST_BACKTRACE=1"
        )?;
        match self.trace.status() {
            BacktraceStatus::Captured => write!(f, "\n{}", self.trace),
            _ => Ok(()),
        }
    }
}

/// Runs `work` and returns a panic of any of its threads as an error.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T + UnwindSafe) -> Result<T, Panic> {
    // The unwinding does not carry the location, which only the hook receives.
    panic::set_hook(Box::new(|info| {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Panic::new(info));
    }));
    panic::catch_unwind(work).map_err(|payload| {
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
        last.unwrap_or_else(|| {
            let message = payload.downcast_ref::<&str>().map_or("no message".into(), ToString::to_string);
            Panic { message, place: None, trace: Backtrace::disabled() }
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::catch_panic;
    use crate::error::Failure;

    #[test]
    fn a_panic_says_where_it_happened() {
        let usual = std::panic::take_hook();
        let line = line!() + 1;
        let here = catch_panic(|| assert!(line == 0, "an arm\nwithout samples"));
        let there = catch_panic(|| {
            let thread = std::thread::spawn(move || assert!(line == 0, "in a thread of its own"));
            thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        });
        let fine = catch_panic(|| 3);
        std::panic::set_hook(usual);
        let sentence = here.err().map(|panic| panic.to_string()).unwrap_or_default();
        let place = format!("(an arm without samples at {}:{line}:", file!());
        assert!(sentence.contains("this is a bug in modelmix") && sentence.contains(&place), "{sentence}");
        let sentence = there.err().map(|panic| panic.to_string()).unwrap_or_default();
        assert!(sentence.contains("in a thread of its own at ") && sentence.contains("panics.rs:"), "{sentence}");
        assert!(fine.is_ok_and(|three| three == 3));
    }

    /// Run by the test below in a child process: a bug in a thread, up to the exit code.
    #[test]
    #[ignore = "panics"]
    fn end_by_a_panic() {
        fn work_with_a_bug() -> Result<(), Failure> {
            let thread = std::thread::spawn(|| panic!("a bug"));
            thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        }
        let code = crate::conclude(catch_panic(work_with_a_bug));
        // After the output of the test harness, which is ignored here.
        std::process::exit(if code == std::process::ExitCode::from(3) { 3 } else { 0 });
    }

    #[test]
    fn a_backtrace_follows_if_it_is_asked_for() {
        let child = |backtrace: Option<&str>| {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["panics::tests::end_by_a_panic", "--exact", "--ignored", "--nocapture"]);
            command.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE");
            let output = command.envs(backtrace.map(|value| ("RUST_BACKTRACE", value))).output().unwrap();
            assert_eq!(output.status.code(), Some(3), "{backtrace:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let sentence = format!("modelmix: this is a bug in modelmix (a bug at {}:", file!());
        for off in [None, Some("0")] {
            let told = child(off);
            assert!(told.starts_with(&sentence) && told.lines().count() == 1, "{off:?}: {told}");
        }
        for on in ["1", "full"] {
            let told = child(Some(on));
            assert!(told.starts_with(&sentence), "{on}: {told}");
            // The frames are those of the thread that panicked, including the line with the bug.
            let frames = told.lines().skip(1);
            assert!(frames.clone().count() > 5, "{on}: {told}");
            assert!(frames.clone().any(|frame| frame.contains("end_by_a_panic::work_with_a_bug")), "{on}: {told}");
        }
    }
}
