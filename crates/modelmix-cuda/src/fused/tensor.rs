//! Descriptions of arrays for the bulk tensor copies of Hopper.

use cudarc::driver::sys;
use modelmix::Result;

use crate::device::Device;

/// Rows of `pitch` bytes at an address, read in boxes of 128 bytes of 128 rows with a swizzle of 128 bytes, as
/// `pairs_sm90.cu` expects them.
pub(crate) fn tensor_map(device: &Device, at: u64, pitch: usize, rows: usize) -> Result<sys::CUtensorMap> {
    let mut map = std::mem::MaybeUninit::<sys::CUtensorMap>::uninit();
    let (size, stride) = ([pitch as u64, rows as u64], [pitch as u64]);
    let (window, step) = ([128u32, 128], [1u32, 1]);
    // SAFETY: all arrays have the length of the rank, and the map is written if the call succeeds.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            map.as_mut_ptr(),
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            2,
            at as *mut _,
            size.as_ptr(),
            stride.as_ptr(),
            window.as_ptr(),
            step.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        .result()
        .map_err(|error| device.failed(error))?;
        Ok(map.assume_init())
    }
}
