//! Instruction sets: detects those of the processor, and compiles the same code for each.

#[cfg(target_arch = "x86_64")]
use super::micro::{Avx2, Avx512};
use super::micro::{Micro, Portable};

/// The instruction sets for which there are micro-kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instructions {
    /// The baseline of the target: SSE2 on x86-64, NEON on 64-bit ARM.
    Portable,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 with F, BW, DQ and VL.
    Avx512,
}

impl Instructions {
    /// The instruction sets of this processor, the best one last.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Instructions::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            sets.push(Instructions::Avx2);
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                sets.push(Instructions::Avx512);
            }
        }
        sets
    }

    /// Runs a job with these instructions. The processor must have them; engines are created only with such.
    pub(super) fn run<J: Job>(self, job: J) -> J::Output {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn with_avx2<J: Job>(job: J) -> J::Output {
            // SAFETY: this function enables the instructions.
            unsafe { job.run::<Avx2>() }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        fn with_avx512<J: Job>(job: J) -> J::Output {
            // SAFETY: this function enables the instructions.
            unsafe { job.run::<Avx512>() }
        }
        match self {
            // SAFETY: the portable code needs no additional instructions.
            Instructions::Portable => unsafe { job.run::<Portable>() },
            // SAFETY: `available` has detected them, and engines are created only with those.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { with_avx2(job) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { with_avx512(job) },
            #[cfg(not(target_arch = "x86_64"))]
            Instructions::Avx2 | Instructions::Avx512 => unreachable!("not available here"),
        }
    }
}

/// Code that is compiled for each instruction set. All functions in its inner loops must be `inline(always)`.
pub(super) trait Job {
    type Output;

    /// # Safety
    /// Must be inlined into a function that has the instructions of `M` enabled.
    unsafe fn run<M: Micro>(self) -> Self::Output;
}
