// Types and the kernel's value, shared by the fused kernels. It stands before each file that NVRTC compiles; no includes.
//
// FORM: how a feature x = hi + lo is stored, for x·y = hi·lo + lo·hi + hi·hi.
//       0: hi and lo in f16.  1: hi in f16; hi and lo in e4m3 too, for the two small products ("mixed").
// MAP:  0: Gaussian.  1: (γ x·y + c)^DEGREE.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifndef FORM
#define FORM 1
#endif
#ifndef MAP
#define MAP 0
#endif
#ifndef DEGREE
#define DEGREE 3
#endif

// Chosen on the device from the extent of the data, so that the host does not wait for it.
struct Scale {
    double unit;   // centred features are multiplied by it
    float factor;  // an accumulated product is multiplied by it
    float spare;
};

// The kernel's value of a pair, from the accumulated product and the terms of its row and its column.
static __device__ __forceinline__ float value(float product, float row, float column, float factor) {
#if MAP == 0
    float k;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(k) : "f"(fmaf(factor, product, row) + column));
    return k;
#else
    float v = fmaf(factor, product, row + column), k = 1.0f;
#pragma unroll
    for (int e = DEGREE; e; e >>= 1) {
        if (e & 1) k *= v;
        if (e > 1) v *= v;
    }
    return k;
#endif
}
