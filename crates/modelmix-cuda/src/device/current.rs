//! The context of a thread. Threads of callers may use another device, or another library that expects its own to be current, so
//! what was current before comes back.

use std::marker::PhantomData;

use cudarc::driver::{DriverError, result, sys};

/// A context is current on this thread until this is dropped.
pub(crate) struct Current {
    /// What comes back, which may be no context; `None` if the context was current already.
    previous: Option<sys::CUcontext>,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

// SAFETY: a shared reference gives access to nothing; only the owner, who cannot be sent, drops it.
unsafe impl Sync for Current {}

impl Current {
    /// Makes a context current, which must be alive.
    pub(super) fn new(context: sys::CUcontext) -> Result<Self, DriverError> {
        let previous = result::ctx::get_current()?.unwrap_or(std::ptr::null_mut());
        if previous == context {
            return Ok(Self { previous: None, thread: PhantomData });
        }
        // SAFETY: the caller promises a context that is alive.
        unsafe { result::ctx::set_current(context) }?;
        Ok(Self { previous: Some(previous), thread: PhantomData })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // SAFETY: it was current before. A context that its owner destroyed in between is an error, which is ignored.
            let _ = unsafe { result::ctx::set_current(previous) };
        }
    }
}
