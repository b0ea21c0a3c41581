// New rows against rows held, with little delay, and changes of resident rows.

static __device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int s = 16; s; s >>= 1) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}

static __device__ __forceinline__ float widen(u16 v) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v));
    return r;
}
static __device__ __forceinline__ float get(const float* p) { return __ldg(p); }
static __device__ __forceinline__ float get(const u16* p) { return widen(__ldg(p)); }
static __device__ __forceinline__ float4 get4(const float* p) { return __ldg((const float4*)p); }
static __device__ __forceinline__ float4 get4(const u16* p) {
    uint2 v = __ldg((const uint2*)p);
    return make_float4(widen(v.x & 0xffff), widen(v.x >> 16), widen(v.y & 0xffff), widen(v.y >> 16));
}

// out[c][row] = f of new row c and held row; distances from differences, so nothing cancels. One warp per held row, 8 per
// block; at most 4 new rows, in shared memory. Values may be written to the host, so a block writes them at once. Gaussian and Laplacian distances are summed in single precision over at most
// 8 values per lane and from there in double precision; other kernels, and distances that are no floats, in double.
template <class T>
static __device__ __forceinline__ void few(const float* __restrict__ x, int count, const T* __restrict__ held, int rows, int width,
                                           Function f, double* __restrict__ out) {
    extern __shared__ float fresh[];
    __shared__ double values[8];
    for (int i = threadIdx.x; i < count * width; i += 256) fresh[i] = x[i];
    int row = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    bool is_row = row < rows;
    const T* y = held + (i64)(is_row ? row : 0) * width;
    __syncthreads();
    for (int c = 0; c < count; ++c) {
        const float* a = fresh + c * width;
        double sum = 0.0, x2 = 0.0, y2 = 0.0;
        if (f.kind <= LAPLACIAN || f.kind == PLAIN) {
            bool is_exact = f.kind == PLAIN;
            if (!is_exact) {
                if ((width & 3) == 0) {
                    for (int k0 = lane * 4; k0 < width; k0 += 1024) {
                        float s[4] = {0, 0, 0, 0};
#pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            int k = k0 + 128 * j;
                            if (k < width) {
                                float4 p = *(const float4*)(a + k), q = get4(y + k);
                                float d = p.x - q.x, e = p.y - q.y, g = p.z - q.z, h = p.w - q.w;
                                s[0] = fmaf(d, d, s[0]); s[1] = fmaf(e, e, s[1]);
                                s[2] = fmaf(g, g, s[2]); s[3] = fmaf(h, h, s[3]);
                            }
                        }
                        sum += ((double)s[0] + s[1]) + ((double)s[2] + s[3]);
                    }
                } else {
                    for (int k0 = lane; k0 < width; k0 += 256) {
                        float s = 0.0f;
#pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            int k = k0 + 32 * j;
                            if (k < width) { float d = a[k] - get(y + k); s = fmaf(d, d, s); }
                        }
                        sum += s;
                    }
                }
                sum = warp_sum(sum);
                is_exact = !(sum > 1e-28 && sum < 1e37);
            }
            if (is_exact) {
                sum = 0.0;
                for (int k = lane; k < width; k += 32) { double d = (double)a[k] - get(y + k); sum = fma(d, d, sum); }
                sum = warp_sum(sum);
            }
        } else {
            for (int k = lane; k < width; k += 32) {
                double u = a[k], v = get(y + k);
                sum = fma(u, v, sum); x2 = fma(u, u, x2); y2 = fma(v, v, y2);
            }
            sum = warp_sum(sum);
            if (f.kind == COSINE) sum /= sqrt(warp_sum(x2)) * sqrt(warp_sum(y2));
        }
        if (lane == 0) {
            double k = sum;
            if (f.kind == GAUSSIAN) k = exp(-f.a * sum);
            else if (f.kind == LAPLACIAN) k = exp(-f.a * sqrt(sum));
            else if (f.kind == POLYNOMIAL) k = powered(f.a * sum + f.b, f.power);
            else if (f.kind == COSINE) k = powered(fmin(1.0, fmax(-1.0, sum)), f.power);
            values[threadIdx.x >> 5] = k;
        }
        __syncthreads();
        if (threadIdx.x < 8 && blockIdx.x * 8 + threadIdx.x < rows) 
            out[(i64)c * rows + blockIdx.x * 8 + threadIdx.x] = values[threadIdx.x];
        __syncthreads();
    }
}
extern "C" __global__ void __launch_bounds__(256)
    few_single(const float* __restrict__ x, int count, const float* __restrict__ held, int rows, int width, Function f,
               double* __restrict__ out) { few(x, count, held, rows, width, f, out); }
extern "C" __global__ void __launch_bounds__(256)
    few_half(const float* __restrict__ x, int count, const u16* __restrict__ held, int rows, int width, Function f,
             double* __restrict__ out) { few(x, count, held, rows, width, f, out); }


#define MANY_STAGES 3
#define MANY_PITCH 36  // of 32 columns: rows of other banks

static __device__ __noinline__ double in_double(const float* a, const float* b, int width) {
    double sum = 0.0;
    for (int k = 0; k < width; ++k) { double d = (double)a[k] - (double)b[k]; sum = fma(d, d, sum); }
    return sum;
}

// Not inlined: a thread calls it sixteen times.
static __device__ __noinline__ float smooth(const Function& f, double square) {
    return (float)exp(-f.a * (f.kind == LAPLACIAN ? sqrt(square) : square));
}

// out[row][column] = f, Gaussian or Laplacian, of new row and held row: differences in single precision over at most 64
// columns of the features, and from there in double precision; distances that are no floats, all in double. A block computes
// 64 x 32 values with 128 threads; each half of them takes half of the depth, and a thread 8 x 4 values. Values may be written
// to the host, so a warp writes 32 at once. Grid (ceil(columns/32), ceil(rows/64)).
extern "C" __global__ void __launch_bounds__(128)
    many(const float* __restrict__ x, int rows, const float* __restrict__ held, int columns, int width, Function f,
         float* __restrict__ out) {
    __shared__ __align__(16) float tiles[MANY_STAGES][96][MANY_PITCH];
    int thread = threadIdx.x, half = thread >> 6, tx = thread & 7, ty = thread >> 3 & 7;
    int row0 = blockIdx.y * 64, column0 = blockIdx.x * 32, chunks = (width + 31) / 32;
    // Six quarters of rows per thread and chunk: rows thread / 8 + 16 i, of which the first 64 are new.
    int quad = 4 * (thread & 7), lead = thread >> 3;
    const float* from[6];
#pragma unroll
    for (int i = 0; i < 6; ++i) {
        int r = lead + 16 * i;
        from[i] = i < 4 ? x + (i64)min(row0 + r, rows - 1) * width : held + (i64)min(column0 + r - 64, columns - 1) * width;
    }
    bool aligned = (width & 3) == 0;
    auto fetch = [&](int chunk) {
        int k = chunk * 32 + quad;
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            float* to = &tiles[chunk % MANY_STAGES][lead + 16 * i][quad];
            if (aligned) {
                u32 bytes = k < width ? 16 : 0;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
                             "l"(from[i] + (k < width ? k : 0)), "r"(bytes)
                             : "memory");
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) to[j] = k + j < width ? from[i][k + j] : 0.0f;
            }
        }
    };
    float sum[8][4];
    double total[8][4];
#pragma unroll
    for (int i = 0; i < 32; ++i) { sum[i >> 2][i & 3] = 0.0f; total[i >> 2][i & 3] = 0.0; }
#pragma unroll
    for (int s = 0; s < MANY_STAGES - 1; ++s) {
        if (s < chunks) fetch(s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int c = 0; c < chunks; ++c) {
        asm volatile("cp.async.wait_group %0;" ::"n"(MANY_STAGES - 2) : "memory");
        __syncthreads();
        if (c + MANY_STAGES - 1 < chunks) fetch(c + MANY_STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const float(*tile)[MANY_PITCH] = tiles[c % MANY_STAGES];
#pragma unroll
        for (int k = 0; k < 16; k += 4) {
            float4 b[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) b[j] = *(const float4*)&tile[64 + tx + 8 * j][16 * half + k];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float4 a = *(const float4*)&tile[ty + 8 * i][16 * half + k];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float d = a.x - b[j].x, e = a.y - b[j].y, g = a.z - b[j].z, h = a.w - b[j].w;
                    sum[i][j] = fmaf(h, h, fmaf(g, g, fmaf(e, e, fmaf(d, d, sum[i][j]))));
                }
            }
        }
        if ((c & 3) == 3 || c + 1 == chunks) {
#pragma unroll
            for (int i = 0; i < 32; ++i) { total[i >> 2][i & 3] += sum[i >> 2][i & 3]; sum[i >> 2][i & 3] = 0.0f; }
        }
    }
    // The other half's rows 4 to 7 are added here in the first half of threads, and rows 0 to 3 in the second.
    __syncthreads();
    double* swap = (double*)tiles;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) swap[(i * 4 + j) * 128 + thread] = half ? total[i][j] : total[i + 4][j];
    __syncthreads();
    double g[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            double other = swap[(i * 4 + j) * 128 + (thread ^ 64)];
            g[i][j] = half ? other + total[i + 4][j] : total[i][j] + other;
        }
    __syncthreads();
    float(*values)[33] = (float(*)[33])tiles;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int r = ty + 8 * (i + 4 * half), c = tx + 8 * j;
            double square = g[i][j];
            if (!(square > 1e-28 && square < 1e37))
                square = in_double(x + (i64)min(row0 + r, rows - 1) * width, held + (i64)min(column0 + c, columns - 1) * width, width);
            values[r][c] = smooth(f, square);
        }
    __syncthreads();
    int lane = thread & 31;
    for (int r = thread >> 5; r < 64 && row0 + r < rows; r += 4)
        if (column0 + lane < columns) out[(i64)(row0 + r) * columns + column0 + lane] = values[r][lane];
}

// Rows of half precision in single precision.
extern "C" __global__ void widen_all(const u16* __restrict__ from, i64 count, float* __restrict__ to) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) to[i] = widen(from[i]);
}

// Sets one after the other: the addresses of their rows, and the end of each.
struct Sets {
    u64 base[16];
    int end[16];
};

// at[row] = the address of a row of the sets, of `bytes` bytes each; 0 from the last set's end to `rows`.
extern "C" __global__ void addresses(Sets sets, int count, i64 bytes, int rows, u64* __restrict__ at) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, start = 0;
    if (row >= rows) return;
    u64 address = 0;
    for (int i = 0; i < count; start = sets.end[i++])
        if (row >= start && row < sets.end[i]) address = sets.base[i] + (row - start) * bytes;
    at[row] = address;
}

// at[row] = from[target[row]]: addresses in the order of a layout, 0 for padding.
extern "C" __global__ void place(const u64* __restrict__ from, const u32* __restrict__ target, int rows, u64* __restrict__ at) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) at[row] = target[row] == ~0u ? 0 : from[target[row]];
}

// norms[row] = ‖x‖ in double precision. One warp per row.
extern "C" __global__ void norms(const u64* __restrict__ at, int rows, int width, double* __restrict__ norms) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    double sum = 0.0;
    for (int k = lane; k < width; k += 32) sum = fma((double)r[k], (double)r[k], sum);
    sum = warp_sum(sum);
    if (lane == 0) norms[row] = sqrt(sum);
}

// Rows copied to one place, divided by their norms if these are given. One warp per row.
extern "C" __global__ void pack(const u64* __restrict__ at, int rows, int width, const double* __restrict__ norms,
                                float* __restrict__ to) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    for (int k = lane; k < width; k += 32) 
        to[(i64)row * width + k] = norms ? (float)((double)r[k] / norms[row]) : r[k];
}

// Rows by index, in units of two bytes. One block per row.
extern "C" __global__ void gather(const u16* __restrict__ from, const u32* __restrict__ index, int units, u16* __restrict__ to) {
    const u16* a = from + (i64)index[blockIdx.x] * units;
    u16* b = to + (i64)blockIdx.x * units;
    for (int i = threadIdx.x; i < units; i += blockDim.x) b[i] = a[i];
}

// The nearest of the set's centres for every row: label[row], in double precision. One warp per row.
extern "C" __global__ void assign(const u64* __restrict__ at, int rows, int width, const float* __restrict__ centres, int count,
                                  u32* __restrict__ label) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    double best = 1.7976931348623157e308;
    u32 which = 0;
    for (int c = 0; c < count; ++c) {
        double sum = 0.0;
        for (int k = lane; k < width; k += 32) { double d = (double)r[k] - centres[(i64)c * width + k]; sum = fma(d, d, sum); }
        sum = warp_sum(sum);
        if (sum < best) { best = sum; which = c; }
    }
    if (lane == 0) label[row] = which;
}

// The smallest index of a row with a value that is NaN or infinite; `first` is left as it is if there is none.
extern "C" __global__ void not_finite(const float* __restrict__ x, i64 count, int width, u64* __restrict__ first) {
    i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        if ((__float_as_uint(__ldg(x + i)) & 0x7f800000u) == 0x7f800000u) {
            atomicMin(first, (u64)(i / width));
            return;
        }
    }
}
