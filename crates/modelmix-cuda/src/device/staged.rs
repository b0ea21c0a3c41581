//! Small arrays to the device. They are copied into pinned memory of the engine first, because a copy by the driver may read the
//! caller's memory later than it returns: if that memory is pinned itself, or if the device reads all memory of the host.
//! `upload` has large arrays.

use std::sync::{MutexGuard, PoisonError};

use cudarc::driver::result;
use modelmix::Result;

use super::upload::MIN_BYTES;
use super::{Buffer, Pinned, Plain, Queue};

/// The number of bytes of the memory: room for the largest array that `upload` leaves to this module.
const BYTES: usize = MIN_BYTES;
/// The number of bytes that are copied at once: the device reads one piece while the next is being copied.
const PIECE: usize = 512 << 10;
/// Arrays start at multiples of this number of bytes, a line of the cache.
const LINE: usize = 64;

/// Arrays that the device may not have read yet, one after the other.
#[derive(Default)]
pub(crate) struct Staged {
    pinned: Option<Pinned<u8>>,
    used: usize,
}

impl Queue<'_> {
    fn staged(&self) -> MutexGuard<'_, Staged> {
        self.device.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the memory be used again, after all work is done.
    pub(super) fn clear_staged(&self) {
        self.staged().used = 0;
    }

    /// Copies values to a part of a buffer, in the order of the stream; `values` may change or be freed afterwards.
    pub(crate) fn write<T: Plain>(&self, buffer: &Buffer<T>, first: usize, values: &[T]) -> Result<()> {
        assert!(first + values.len() <= buffer.len, "values are written inside their buffer");
        // SAFETY: plain values without padding, read as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        let (stream, mut to) = (self.device.stream, buffer.at + (first * size_of::<T>()) as u64);
        let failed = |error| self.device.failed(error);
        let mut staged = self.staged();
        for piece in bytes.chunks(PIECE) {
            let Staged { pinned, used } = &mut *staged;
            if *used + piece.len() > BYTES {
                // SAFETY: the stream is alive.
                unsafe { result::stream::synchronize(stream) }.map_err(failed)?;
                *used = 0;
            }
            let pinned = match pinned {
                Some(pinned) => pinned,
                None => pinned.insert(Pinned::new(self.device, BYTES)?),
            };
            let place = &mut pinned.values_mut()[*used..][..piece.len()];
            place.copy_from_slice(piece);
            // SAFETY: the buffer has room for all bytes. The place is used again after the stream is synchronized.
            unsafe { result::memcpy_htod_async(to, place, stream) }.map_err(failed)?;
            *used += piece.len().next_multiple_of(LINE);
            to += piece.len() as u64;
        }
        Ok(())
    }

    /// Copies the first values of pinned memory of the engine to a buffer, in the order of the stream.
    ///
    /// # Safety
    /// The values must not change until [`Queue::wait`].
    pub(crate) unsafe fn write_pinned<T: Plain>(
        &self,
        buffer: &Buffer<T>,
        pinned: &Pinned<T>,
        len: usize,
    ) -> Result<()> {
        assert!(len <= buffer.len, "values are written inside their buffer");
        // SAFETY: both have room for `len` values; the caller waits before it changes them.
        unsafe { result::memcpy_htod_async(buffer.at, &pinned.values()[..len], self.device.stream) }
            .map_err(|error| self.device.failed(error))
    }
}
