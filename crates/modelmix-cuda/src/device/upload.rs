//! Large arrays to the device and back. Arrays to the device are copied by several threads into pinned pieces, from which
//! the device reads at full speed; pageable memory alone is several times slower. Results come back through pinned memory.

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::{DriverError, result, sys};
use modelmix::{Error, Result};

use super::{Buffer, Current, Device, Gate, Plain, Queue};

/// The number of bytes of a piece: 2 MB were fastest on an H200.
const PIECE: usize = 2 << 20;
/// Each thread fills one piece while the other is being sent.
const PIECES_PER_THREAD: usize = 2;
/// More threads were not faster there.
const MAX_LANES: usize = 8;
/// Smaller arrays are copied by one call: waking threads takes longer.
pub(super) const MIN_BYTES: usize = 4 << 20;

/// The least number of values for each of the threads that take results: waking a thread takes as long as adding these.
const MIN_SHARE: usize = 8 << 10;

/// The maximum number of results that come back through pinned memory, which is kept: 64 MB.
const MAX_PINNED_RESULTS: usize = 8 << 20;

/// Results of the device: in pinned memory until they are dropped, or in an array of their own.
pub(crate) enum Results<'a> {
    Pinned(MutexGuard<'a, Option<Pinned<f64>>>, usize),
    Own(Vec<f64>),
}

impl Deref for Results<'_> {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        match self {
            Results::Own(values) => values,
            Results::Pinned(pinned, len) => pinned.as_ref().map_or(&[], |pinned| &pinned.values()[..*len]),
        }
    }
}

impl DerefMut for Results<'_> {
    fn deref_mut(&mut self) -> &mut [f64] {
        match self {
            Results::Own(values) => values,
            Results::Pinned(pinned, len) => pinned.as_mut().map_or(&mut [], |pinned| &mut pinned.values_mut()[..*len]),
        }
    }
}

/// A point in the order of work.
pub(crate) struct Mark(sys::CUevent);

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the event is destroyed once; the driver keeps what still waits for it. Errors of a lost device are ignored.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

/// Values that functions of the device write to the host.
pub(crate) struct Totals<'a> {
    pinned: MutexGuard<'a, Option<Pinned<f64>>>,
    len: usize,
}

impl Totals<'_> {
    /// The address for functions of the device.
    pub(crate) fn at(&self) -> u64 {
        self.pinned.as_ref().map_or(0, Pinned::address)
    }

    /// The values, after [`Queue::wait`].
    pub(crate) fn values(&self) -> &[f64] {
        self.pinned.as_ref().map_or(&[], |pinned| &pinned.values()[..self.len])
    }
}

/// An event at the end of a copy.
struct Arrived(sys::CUevent);

// SAFETY: handles of the driver may be used by any thread whose current context is theirs.
unsafe impl Send for Arrived {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Arrived {}

impl Arrived {
    fn wait(&self, device: &Device) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.0) }.map_err(|error| device.failed(error))
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        // SAFETY: the event is destroyed once, after the copy, so that the memory can be used again. Errors of a lost
        // device are ignored.
        unsafe {
            let _ = result::event::synchronize(self.0);
            let _ = result::event::destroy(self.0);
        }
    }
}

/// Values on their way back, which later work does not delay.
pub(crate) struct Coming<'a> {
    device: &'a Device,
    len: usize,
    /// Dropped before the guard, because it waits for the copy: nothing else may use the memory before.
    arrived: Arrived,
    pinned: MutexGuard<'a, Option<Pinned<f32>>>,
}

impl Coming<'_> {
    /// Waits for the values.
    pub(crate) fn get(&self) -> Result<&[f32]> {
        self.arrived.wait(self.device)?;
        Ok(self.pinned.as_ref().map_or(&[], |pinned| &pinned.values()[..self.len]))
    }
}

/// Pinned memory and a stream for every thread. It is kept between uploads: pinning takes longer than copying.
pub(crate) struct Staging {
    lanes: Vec<Lane>,
}

struct Lane {
    pinned: Pinned<u8>,
    stream: sys::CUstream,
    sent: [sys::CUevent; PIECES_PER_THREAD],
}

// SAFETY: handles of the driver may be used by any thread; a lane is used by one thread at a time.
unsafe impl Send for Lane {}

/// Pinned host memory, which the device reads and writes without a copy by the driver.
pub(crate) struct Pinned<T> {
    at: *mut T,
    len: usize,
    context: sys::CUcontext,
    stream: sys::CUstream,
}

// SAFETY: it owns its memory, and its context may be made current on any thread.
unsafe impl<T: Plain> Send for Pinned<T> {}

impl<T: Plain> Pinned<T> {
    /// Allocates memory of zeros. The device must be current.
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: the allocation is owned by the result, which frees it. It is cached memory: write-combined memory
        // is very slow to read.
        let at = unsafe { result::malloc_host(bytes, 0) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Error::Memory {
                what: "pinned memory for copies".into(),
                place: "host memory".into(),
                needed: bytes as u64,
                free: None,
            },
            error => device.failed(error),
        })?;
        // SAFETY: the allocation has this number of bytes.
        unsafe { std::ptr::write_bytes(at.cast::<u8>(), 0, bytes) };
        Ok(Self { at: at.cast(), len, context: device.context, stream: device.stream })
    }

    pub(crate) fn values(&self) -> &[T] {
        // SAFETY: the memory is initialised and owned; copies of the device end before values are read.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    /// The address for functions of the device: pinned memory has one address on the host and on all devices.
    pub(crate) fn address(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // Errors of a lost device are ignored.
        if let Ok(_current) = Current::new(self.context) {
            // SAFETY: freed once, before the device destroys its stream and releases its context, and after the work that may use
            // the memory.
            unsafe {
                let _ = result::stream::synchronize(self.stream);
                let _ = result::free_host(self.at.cast::<c_void>());
            }
        }
    }
}

impl Staging {
    fn new(device: &Device, threads: usize) -> Result<Self> {
        let lane = |_| {
            let failed = |error| device.failed(error);
            let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
            Ok(Lane {
                pinned: Pinned::new(device, PIECES_PER_THREAD * PIECE)?,
                stream: result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed)?,
                sent: [event().map_err(failed)?, event().map_err(failed)?],
            })
        };
        Ok(Self { lanes: (0..threads).map(lane).collect::<Result<_>>()? })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // SAFETY: nothing uses the stream and the events after its work; the pinned memory is freed afterwards.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            let _ = result::stream::destroy(self.stream);
            for event in self.sent {
                let _ = result::event::destroy(event);
            }
        }
    }
}

impl Lane {
    /// Sends pieces to their addresses, and waits until they have arrived.
    fn send<'a>(&mut self, device: &Device, pieces: impl Iterator<Item = &'a (u64, &'a [u8])>) -> Result<()> {
        let _current = device.bind()?;
        let failed = |error| device.failed(error);
        let (stream, sent) = (self.stream, self.sent);
        let pinned = self.pinned.values_mut();
        for (turn, &(to, piece)) in pieces.enumerate() {
            let slot = turn % PIECES_PER_THREAD;
            // SAFETY: the event is alive. An event that was never recorded counts as done.
            unsafe { result::event::synchronize(sent[slot]) }.map_err(failed)?;
            let place = &mut pinned[slot * PIECE..][..piece.len()];
            place.copy_from_slice(piece);
            // SAFETY: the destination has room for all bytes, and the pinned piece is not changed until its event.
            unsafe {
                result::memcpy_htod_async(to, place, stream).map_err(failed)?;
                result::event::record(sent[slot], stream).map_err(failed)?;
            }
        }
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(stream) }.map_err(failed)
    }
}

/// Kept memory for at least `len` values.
fn room<'a, T: Plain>(device: &Device, kept: &'a mut Option<Pinned<T>>, len: usize) -> Result<&'a mut Pinned<T>> {
    let old = kept.take().filter(|pinned| pinned.len >= len);
    Ok(kept.insert(match old {
        Some(pinned) => pinned,
        None => Pinned::new(device, len)?,
    }))
}

impl<'a> Queue<'a> {
    /// Marks the end of the work submitted so far.
    pub(crate) fn mark(&self) -> Result<Mark> {
        let failed = |error| self.device.failed(error);
        let mark = Mark(result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed)?);
        // SAFETY: event and stream are alive.
        unsafe { result::event::record(mark.0, self.device.stream) }.map_err(failed)?;
        Ok(mark)
    }

    /// All values of a buffer as they are at a mark; later work, which must not change them, runs on. Only one such result
    /// may exist at a time: the next call waits until it is dropped.
    pub(crate) fn results(&self, buffer: &Buffer<f64>, mark: &Mark) -> Result<Results<'a>> {
        let len = buffer.len;
        let device: &'a Device = self.device;
        let failed = |error| device.failed(error);
        // SAFETY: stream and event are alive.
        unsafe { result::stream::wait_event(device.copies, mark.0, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .map_err(failed)?;
        let copy = |to: &mut [f64]| {
            // SAFETY: the buffer has as many values, and the copy ends before they are read.
            unsafe {
                result::memcpy_dtoh_async(to, buffer.at, device.copies).map_err(failed)?;
                result::stream::synchronize(device.copies).map_err(failed)
            }
        };
        if len > MAX_PINNED_RESULTS {
            let mut values = vec![0.0; len];
            copy(&mut values)?;
            return Ok(Results::Own(values));
        }
        let mut results = device.results.lock().unwrap_or_else(PoisonError::into_inner);
        copy(&mut room(device, &mut results, len)?.values_mut()[..len])?;
        Ok(Results::Pinned(results, len))
    }

    /// Memory of the host that functions write to. Only one such memory may exist at a time.
    pub(crate) fn totals(&self, len: usize) -> Result<Totals<'a>> {
        let device: &'a Device = self.device;
        let mut pinned = device.totals.lock().unwrap_or_else(PoisonError::into_inner);
        room(device, &mut pinned, len)?;
        Ok(Totals { pinned, len })
    }

    /// Submits a copy of all values of a buffer. Only one such copy may exist at a time.
    pub(crate) fn coming(&self, buffer: &Buffer<f32>) -> Result<Coming<'a>> {
        let (device, len): (&'a Device, usize) = (self.device, buffer.len);
        let mut pinned = device.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| device.failed(error);
        let arrived = Arrived(result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed)?);
        let place = room(device, &mut pinned, len).map(std::ptr::from_mut);
        let coming = Coming { device, len, arrived, pinned };
        // SAFETY: the place is in the guarded memory, which does not move, and values are read after the event.
        unsafe {
            self.fetch(buffer, &mut *place?, len)?;
            result::event::record(coming.arrived.0, device.stream).map_err(failed)?;
        }
        Ok(coming)
    }
}

impl Queue<'_> {
    /// [`Queue::write`] for arrays of any size.
    pub(crate) fn send<T: Plain>(&self, buffer: &Buffer<T>, first: usize, values: &[T]) -> Result<()> {
        self.send_all(&[(buffer, first, values)])
    }

    /// [`Queue::send`] of several arrays at once.
    pub(crate) fn send_all<T: Plain>(&self, arrays: &[(&Buffer<T>, usize, &[T])]) -> Result<()> {
        let bytes_len: usize = arrays.iter().map(|(_, _, values)| size_of_val(*values)).sum();
        if bytes_len < MIN_BYTES {
            return arrays.iter().try_for_each(|&(buffer, first, values)| self.write(buffer, first, values));
        }
        // The buffers may still be in use by the stream, or not yet be allocated in its order.
        self.wait()?;
        let mut pieces: Vec<(u64, &[u8])> = Vec::with_capacity(bytes_len / PIECE + arrays.len());
        for (buffer, first, values) in arrays {
            assert!(first + values.len() <= buffer.len, "values are written inside their buffer");
            // SAFETY: plain values without padding, read as bytes.
            let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(*values)) };
            let to = buffer.at + (first * size_of::<T>()) as u64;
            pieces.extend(bytes.chunks(PIECE).enumerate().map(|(index, piece)| (to + (index * PIECE) as u64, piece)));
        }
        let (device, pieces) = (self.device, &pieces[..]);
        let mut staging = device.staging.lock().unwrap_or_else(PoisonError::into_inner);
        if staging.is_none() {
            *staging = Some(Staging::new(device, device.pool().threads().min(MAX_LANES))?);
        }
        let lanes = staging.as_mut().map_or(&mut [][..], |staging| &mut staging.lanes[..]);
        let lanes: Vec<Mutex<&mut Lane>> = lanes.iter_mut().map(Mutex::new).collect();
        // Threads take the next piece whenever they can: some may be held up by other work of the host.
        let (next, result) = (AtomicUsize::new(0), Mutex::new(Ok(())));
        device.pool().help(lanes.len(), &|index| {
            let mut lane = lanes[index].lock().unwrap_or_else(PoisonError::into_inner);
            let own = std::iter::from_fn(|| pieces.get(next.fetch_add(1, Ordering::Relaxed)));
            let sent = lane.send(device, own);
            if sent.is_err() {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = sent;
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all earlier work, and then lets several threads take shares of values that it wrote: `take` gets a share of
    /// `out` and the same of `values`. The threads are woken while the device computes.
    ///
    /// # Safety
    /// `values` must be an array of the length of `out` that the earlier work writes and that nothing else changes.
    pub(crate) unsafe fn take_shares<T: Plain>(
        &self,
        values: *const T,
        out: &mut [f64],
        take: &(dyn Fn(&mut [f64], &[T]) + Sync),
    ) -> Result<()> {
        let len = out.len();
        let threads = (len / MIN_SHARE).clamp(1, self.device.pool().threads());
        let share = len.div_ceil(threads).max(1);
        let shares: Vec<Mutex<&mut [f64]>> = out.chunks_mut(share).map(Mutex::new).collect();
        let (gate, result, values) = (Gate::default(), Mutex::new(Ok(())), values as usize);
        self.device.pool().run(shares.len(), &|index| {
            if index == 0 {
                let waited = self.wait();
                gate.open(waited.is_ok());
                *result.lock().unwrap_or_else(PoisonError::into_inner) = waited;
            }
            if gate.pass() {
                let mut out = shares[index].lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller promises the array, whose values are written when the gate is open.
                let values = unsafe { std::slice::from_raw_parts((values as *const T).add(index * share), out.len()) };
                take(&mut out, values);
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies values back into pinned memory, after all earlier work, without waiting.
    ///
    /// # Safety
    /// The pinned memory must not be used until [`Queue::wait`].
    pub(crate) unsafe fn fetch<T: Plain>(&self, buffer: &Buffer<T>, pinned: &mut Pinned<T>, len: usize) -> Result<()> {
        assert!(len <= buffer.len && len <= pinned.len, "values are copied inside their buffers");
        // SAFETY: both have room for `len` values; the caller waits before it uses them.
        unsafe { result::memcpy_dtoh_async(&mut pinned.values_mut()[..len], buffer.at, self.device.stream) }
            .map_err(|error| self.device.failed(error))
    }
}
