//! Instruction sets: compiles the passes once more for AVX2 with fused multiply-adds, and uses that code on processors
//! that have them. Results are the same.

/// Code that is compiled for each instruction set. All functions in its inner loops must be `inline(always)`.
pub(super) trait Job {
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs a job with the best instructions of this processor.
pub(super) fn run<J: Job>(job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2<J: Job>(job: J) -> J::Output {
            job.run()
        }
        // SAFETY: the line above has detected the instructions that the function needs.
        return unsafe { with_avx2(job) };
    }
    job.run()
}
