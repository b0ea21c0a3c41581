//! Memory and streams of the caller, such as those of an array of another library in the same process.

use std::ffi::c_void;

use cudarc::driver::{result, sys};
use modelmix::Result;

use super::Device;

impl Device {
    /// Makes later work of this device wait for what a stream of the caller has to do now.
    pub(crate) fn wait_for(&self, stream: u64) -> Result<()> {
        let _current = self.bind()?;
        let failed = |error| self.failed(error);
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed)?;
        // SAFETY: the caller promises that the stream is alive; the driver keeps a destroyed event until it is done.
        unsafe {
            let recorded = result::event::record(event, stream as sys::CUstream);
            let waits = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            let waited = recorded.and_then(|()| result::stream::wait_event(self.stream, event, waits));
            let destroyed = result::event::destroy(event);
            waited.and(destroyed).map_err(failed)
        }
    }

    /// The number of the device on which memory lies; `None` if it is not memory of a device.
    pub(crate) fn ordinal_of(&self, address: u64) -> Result<Option<i32>> {
        let _current = self.bind()?;
        let mut ordinal: i32 = -1;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: the attribute is a 32-bit number; an address that the driver does not know is an error.
        let found = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast::<c_void>(), attribute, address) };
        match found.result() {
            Ok(()) => Ok((ordinal >= 0).then_some(ordinal)),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_INVALID_VALUE => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The number of this device.
    pub(crate) fn ordinal(&self) -> i32 {
        self.handle
    }

    /// Waits for all work, and returns memory that the pool keeps for later calls to the operating system, but for `keep` bytes.
    pub(crate) fn trim(&self, keep: usize) -> Result<()> {
        let _current = self.bind()?;
        // SAFETY: stream and pool are alive; memory in use stays.
        unsafe {
            result::stream::synchronize(self.stream).map_err(|error| self.failed(error))?;
            if let Some(memory) = self.memory {
                sys::cuMemPoolTrimTo(memory, keep).result().map_err(|error| self.failed(error))?;
            }
        }
        Ok(())
    }

    /// Whether the device reports an error of earlier work, after which a context cannot be used any more.
    pub(crate) fn is_lost(&self) -> bool {
        let Ok(_current) = self.bind() else { return true };
        // SAFETY: the stream is alive.
        let state = unsafe { sys::cuStreamQuery(self.stream) };
        !matches!(state, sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_NOT_READY)
    }
}
