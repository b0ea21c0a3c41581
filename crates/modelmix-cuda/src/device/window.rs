//! An array of which parts are in device memory at a time: its addresses are reserved, and pages of memory are mapped where they
//! are needed. Functions use it as any other array.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{DriverError, sys};
use modelmix::{Error, Result};

use super::{Device, Queue};

/// The least number of bytes of a page; a multiple of what devices ask for, 2 MB.
const PAGE: usize = 4 << 20;

/// Bytes of an array, some of them in memory.
pub(crate) struct Window {
    device: Arc<Device>,
    /// The address of the array.
    pub(crate) at: u64,
    /// The number of bytes of addresses.
    reserved: usize,
    page: usize,
    pages: RefCell<Pages>,
}

#[derive(Default)]
struct Pages {
    free: Vec<u64>,
    mapped: BTreeMap<usize, u64>,
}

/// The pages of some ranges of bytes.
fn pages(ranges: &[Range<usize>], page: usize) -> BTreeSet<usize> {
    let of = |range: &Range<usize>| range.start / page..range.end.div_ceil(page);
    ranges.iter().filter(|range| !range.is_empty()).flat_map(of).collect()
}

/// The number of bytes in memory for two ranges of `longest` bytes.
pub(crate) fn bytes_of_two(longest: usize) -> usize {
    2 * (longest.div_ceil(PAGE) + 1) * PAGE
}

impl Window {
    /// An array of `bytes` bytes, of which at most two ranges of `longest` bytes are in memory at a time.
    pub(crate) fn new(queue: &Queue<'_>, what: &str, bytes: usize, longest: usize) -> Result<Self> {
        let device = queue.device;
        let failed = |error| device.failed(error);
        let property = property(device);
        let mut granularity = 0;
        // SAFETY: both arguments are valid.
        unsafe {
            let flags = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
            sys::cuMemGetAllocationGranularity(&mut granularity, &property, flags).result().map_err(failed)?;
        }
        let page = PAGE.next_multiple_of(granularity.max(1));
        let reserved = bytes.next_multiple_of(page).max(page);
        let mut at = 0;
        // SAFETY: the range is freed when the window is dropped.
        unsafe { sys::cuMemAddressReserve(&mut at, reserved, 0, 0, 0) }.result().map_err(failed)?;
        let window = Self { device: Arc::clone(device), at, reserved, page, pages: RefCell::default() };
        let count = (2 * (longest.div_ceil(page) + 1)).min(reserved / page);
        for _ in 0..count {
            let used = device.used.fetch_add(page as u64, Ordering::Relaxed) + page as u64;
            let memory = |free| {
                let needed = (count * page) as u64;
                Error::Memory { what: what.into(), place: device.name.clone(), needed, free }
            };
            if let Some(budget) = device.budget
                && used > budget
            {
                device.used.fetch_sub(page as u64, Ordering::Relaxed);
                return Err(memory(Some(budget.saturating_sub(used - page as u64))));
            }
            let mut handle = 0;
            // SAFETY: the argument is valid for writing; the memory is released when the window is dropped.
            let created = unsafe { sys::cuMemCreate(&mut handle, page, &property, 0) }.result();
            if let Err(error) = created {
                device.used.fetch_sub(page as u64, Ordering::Relaxed);
                return Err(match error {
                    DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => memory(None),
                    error => device.failed(error),
                });
            }
            window.pages.borrow_mut().free.push(handle);
        }
        Ok(window)
    }

    /// Puts ranges of bytes into memory, in place of others; those that were there before and are asked for again keep their
    /// values. Waits for earlier work if memory moves.
    pub(crate) fn show(&self, queue: &Queue<'_>, ranges: &[Range<usize>]) -> Result<()> {
        let failed = |error| self.device.failed(error);
        let needed = pages(ranges, self.page);
        let mut pages = self.pages.borrow_mut();
        if needed.iter().all(|page| pages.mapped.contains_key(page)) {
            return Ok(());
        }
        queue.wait()?;
        let address = |index: usize| self.at + (index * self.page) as u64;
        let unneeded: Vec<usize> = pages.mapped.keys().copied().filter(|index| !needed.contains(index)).collect();
        for index in unneeded {
            // SAFETY: the page is mapped, and no work uses it.
            unsafe { sys::cuMemUnmap(address(index), self.page) }.result().map_err(failed)?;
            let handle = pages.mapped.remove(&index);
            pages.free.extend(handle);
        }
        let access = sys::CUmemAccessDesc {
            location: property(&self.device).location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        for index in needed {
            if pages.mapped.contains_key(&index) {
                continue;
            }
            let Some(handle) = pages.free.pop() else {
                return Err(self.device.problem("a window has too few pages"));
            };
            // SAFETY: the page is inside the reserved range and not mapped.
            unsafe {
                sys::cuMemMap(address(index), self.page, 0, handle, 0).result().map_err(failed)?;
                pages.mapped.insert(index, handle);
                sys::cuMemSetAccess(address(index), self.page, &access, 1).result().map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Memory of a device.
fn property(device: &Device) -> sys::CUmemAllocationProp {
    // SAFETY: all fields are numbers or an address, for which zero means the default.
    let mut property: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    property.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    property.location.id = device.handle;
    property
}

impl Drop for Window {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut *self.pages.borrow_mut());
        let count = (pages.free.len() + pages.mapped.len()) as u64;
        self.device.used.fetch_sub(count * self.page as u64, Ordering::Relaxed);
        let Ok(_current) = self.device.bind() else { return };
        // SAFETY: no work uses the memory after the stream is synchronized; each page and the range are freed once. Errors of a
        // lost device are ignored.
        unsafe {
            let _ = cudarc::driver::result::stream::synchronize(self.device.stream);
            for index in pages.mapped.keys() {
                let _ = sys::cuMemUnmap(self.at + (index * self.page) as u64, self.page);
            }
            for handle in pages.free.into_iter().chain(pages.mapped.into_values()) {
                let _ = sys::cuMemRelease(handle);
            }
            let _ = sys::cuMemAddressFree(self.at, self.reserved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_ranges() {
        assert_eq!(pages(&[0..10, 25..26], 10).into_iter().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(pages(&[5..15, 15..30], 10).into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(pages(&[7..7, 0..0], 10).is_empty());
        // Two ranges anywhere fit into the pages that are kept.
        for (first, second) in [(0, 3 * PAGE), (PAGE / 2, 5 * PAGE - 1), (1, 2 * PAGE + 1)] {
            let longest = 2 * PAGE - 7;
            let count = pages(&[first..first + longest, second..second + longest], PAGE).len();
            assert!(count * PAGE <= bytes_of_two(longest), "{count}");
        }
    }
}
