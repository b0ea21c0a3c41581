// Before and after the fused kernels: centres, extent, scale, split and terms of rows; folds of partial sums.
//
// Rows are in groups with one centre each (at least one group per set, so that near pairs have small products and little
// cancels). A group starts at a multiple of 64 rows, a block. at[row] is the address of the row's features, 0 for padding.

static __device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int s = 16; s; s >>= 1) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}

// The row that stands for the i-th stretch of `step` rows: not always the first, since rows may have a period.
static __device__ __forceinline__ int chosen(int i, int step, int rows) {
    return min(i * step + (int)(((u32)i * 2654435761u >> 8) % (u32)step), rows - 1);
}

// Sums of columns over a row of every `step` rows of a group, in slices. Grid (ceil(width/128), slices, groups), 128 threads.
extern "C" __global__ void centre_slices(const u64* __restrict__ at, const int* __restrict__ first_row,
                                         const int* __restrict__ row_count, int width, int most, double* __restrict__ part) {
    int column = blockIdx.x * 128 + threadIdx.x, group = blockIdx.z;
    if (column >= width) return;
    int rows = row_count[group], step = (rows + most - 1) / most, count = step ? (rows + step - 1) / step : 0;
    int first = (i64)count * blockIdx.y / gridDim.y, last = (i64)count * (blockIdx.y + 1) / gridDim.y;
    double sum = 0.0;
#pragma unroll 4
    for (int i = first; i < last; ++i) sum += ((const float*)at[first_row[group] + chosen(i, step, rows)])[column];
    part[((i64)group * gridDim.y + blockIdx.y) * width + column] = sum;
}

// Grid (ceil(width/128), groups), 128 threads.
extern "C" __global__ void centre_fold(const double* __restrict__ part, int slices, const int* __restrict__ row_count,
                                       int width, int most, float* __restrict__ centre, u32* __restrict__ extent) {
    int column = blockIdx.x * 128 + threadIdx.x, group = blockIdx.y;
    if (group == 0 && column == 0) *extent = 0;
    if (column >= width) return;
    int rows = row_count[group], step = (rows + most - 1) / most, count = step ? (rows + step - 1) / step : 0;
    double sum = 0.0;
    for (int i = 0; i < slices; ++i) sum += part[((i64)group * slices + i) * width + column];
    centre[(i64)group * width + column] = count ? (float)(sum / count) : 0.0f;
}

// The largest |x - c|: a maximum does not depend on the order. One warp per row.
extern "C" __global__ void extent(const u64* __restrict__ at, int rows, int width, const float* __restrict__ centre,
                                  const int* __restrict__ block_group, u32* __restrict__ out) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float most = 0.0f;
    for (int row = blockIdx.x * warps + (threadIdx.x >> 5); row < rows; row += gridDim.x * warps) {
        const float* r = (const float*)at[row];
        if (!r) continue;
        const float* c = centre + (i64)block_group[row >> 6] * width;
        if ((width & 3) == 0) {
            for (int k = lane * 4; k < width; k += 128) {
                float4 v = *(const float4*)(r + k), u = *(const float4*)(c + k);
                float a = fmaxf(fabsf(v.x - u.x), fabsf(v.y - u.y)), b = fmaxf(fabsf(v.z - u.z), fabsf(v.w - u.w));
                most = fmaxf(most, fmaxf(a, b));
            }
        } else {
            for (int k = lane; k < width; k += 32) most = fmaxf(most, fabsf(r[k] - c[k]));
        }
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, s));
    if (lane == 0) atomicMax(out, __float_as_uint(most));
}

// rate: Gaussian, log2(e)/2σ²; polynomial, γ. gain: products are multiplied by it, for what tensor cores cut off on average.
// One thread. The unit is chosen so that the factor is a float exactly.
extern "C" __global__ void choose_scale(const u32* __restrict__ extent, double rate, double gain, Scale* __restrict__ scale) {
    double most = __uint_as_float(*extent);
    if (!(most > 0.0)) most = 1.0;
    // Values below 2^14: lo stays normal, and products stay far from overflow.
    double unit = exp2(floor(log2(16384.0 / most)));
    double per = (MAP == 0 ? 2.0 * rate : rate) * gain;
    float factor = (float)(per / (unit * unit));
    // A factor beyond single precision: the check of the result then rejects the sums.
    scale->unit = factor > 0.0f && factor < 3e38f ? sqrt(per / (double)factor) : unit;
    scale->factor = factor;
}

static __device__ __forceinline__ u32 half_bits(float v) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v));
    return r;
}
static __device__ __forceinline__ float half_value(u32 v) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)v));
    return r;
}
#if FORM == 1
static __device__ __forceinline__ u32 four_e4m3(const float (&v)[4]) {
    u16 a, b;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(a) : "f"(v[1]), "f"(v[0]));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(b) : "f"(v[3]), "f"(v[2]));
    return a | (u32)b << 16;
}
#endif

// Rows centred, scaled and split. One warp per row. Rows of hi are `pitch` bytes apart, those of lo and mid `small_pitch`:
// multiples of 128, filled up with zeros. Only the mixed form has mid.
extern "C" __global__ void split(const u64* __restrict__ at, int rows, int width, int pitch, int small_pitch,
                                 const float* __restrict__ centre, const int* __restrict__ block_group,
                                 const Scale* __restrict__ scale, u8* __restrict__ hi, u8* __restrict__ lo,
                                 u8* __restrict__ mid, float* __restrict__ weights) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    double unit = scale->unit;
    const float* centres = centre + (i64)block_group[row >> 6] * width;
    int depth = FORM == 0 ? pitch / 2 : small_pitch;
    for (int k = lane * 4; k < depth; k += 128) {
        float v[4] = {0, 0, 0, 0}, c[4] = {0, 0, 0, 0};
        if (r) {
            if ((width & 3) == 0) {
                if (k < width) {
                    float4 t = *(const float4*)(r + k), u = *(const float4*)(centres + k);
                    v[0] = t.x; v[1] = t.y; v[2] = t.z; v[3] = t.w;
                    c[0] = u.x; c[1] = u.y; c[2] = u.z; c[3] = u.w;
                }
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (k + i < width) { v[i] = r[k + i]; c[i] = centres[k + i]; }
            }
        }
        u32 h[4];
        float top[4], rest[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            double exact = ((double)v[i] - (double)c[i]) * unit;
            h[i] = half_bits((float)exact);
            top[i] = half_value(h[i]);
            rest[i] = (float)(exact - (double)top[i]);
        }
        if (2 * k < pitch) *(uint2*)(hi + (i64)row * pitch + 2 * k) = make_uint2(h[0] | h[1] << 16, h[2] | h[3] << 16);
#if FORM == 1
        // |hi| ≤ 2^14 and |lo| ≤ 2^2: a factor of 64 either way brings both into the range of e4m3, and cancels.
        float a[4] = {top[0] * 0.015625f, top[1] * 0.015625f, top[2] * 0.015625f, top[3] * 0.015625f};
        float b[4] = {rest[0] * 64.0f, rest[1] * 64.0f, rest[2] * 64.0f, rest[3] * 64.0f};
        *(u32*)(mid + (i64)row * small_pitch + k) = four_e4m3(a);
        *(u32*)(lo + (i64)row * small_pitch + k) = four_e4m3(b);
#else
        *(uint2*)(lo + (i64)row * small_pitch + 2 * k) = make_uint2(
            half_bits(rest[0]) | half_bits(rest[1]) << 16, half_bits(rest[2]) | half_bits(rest[3]) << 16);
#endif
    }
    if (lane == 0) weights[row] = r ? 1.0f : 0.0f;
}

// between[g][h]: Gaussian, the squared distance of two centres; polynomial, their product. Grid (groups, groups), 32 threads.
extern "C" __global__ void centre_pairs(const float* __restrict__ centre, int width, double* __restrict__ between) {
    const float *a = centre + (i64)blockIdx.x * width, *b = centre + (i64)blockIdx.y * width;
    double sum = 0.0;
    for (int k = threadIdx.x; k < width; k += 32) {
        double u = a[k], v = b[k];
        sum += MAP == 0 ? (u - v) * (u - v) : u * v;
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) between[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// terms[h][row], for a row x of group g against group h, so that with u = x - c_g
//   Gaussian:   -rate ‖x-y‖²  = factor u_x·u_y + terms[h][x] + terms[g][y],  terms[h][x] = -rate (‖x-c_h‖² - ‖c_g-c_h‖²/2)
//   polynomial: γ x·y + offset = the same,                                   terms[h][x] = γ (x·c_h - c_g·c_h/2) + offset/2
// and what the rounded term lacks. One warp per row, or half a warp. Padding has terms of 0; its weight is 0 too.
// ‖x-c‖² or x·c of a row with COUNT centres from c on, by LANES lanes, in single precision over at most 8 columns per lane.
template <int COUNT, int LANES>
static __device__ __forceinline__ void with_centres(const float* __restrict__ r, const float* __restrict__ c, int width, int lane,
                                                    u32 mask, double (&sums)[5]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = 0.0;
    bool aligned = (width & 3) == 0;
    for (int k0 = 4 * lane; k0 < width; k0 += 8 * LANES) {
        float part[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) part[i] = 0.0f;
#pragma unroll
        for (int k = k0; k < k0 + 8 * LANES; k += 4 * LANES) {
            if (k >= width) break;
            float v[4] = {0, 0, 0, 0};
            if (aligned) {
                float4 t = __ldg((const float4*)(r + k));
                v[0] = t.x; v[1] = t.y; v[2] = t.z; v[3] = t.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (k + e < width) v[e] = r[k + e];
            }
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const float* ci = c + (i64)i * width + k;
                float u[4] = {0, 0, 0, 0};
                if (aligned) {
                    float4 t = __ldg((const float4*)ci);
                    u[0] = t.x; u[1] = t.y; u[2] = t.z; u[3] = t.w;
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        if (k + e < width) u[e] = ci[e];
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
#if MAP == 0
                    float d = v[e] - u[e];
                    part[i] = fmaf(d, d, part[i]);
#else
                    part[i] = fmaf(v[e], u[e], part[i]);
#endif
                }
            }
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sums[i] += (double)part[i];
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
        for (int s = LANES / 2; s; s >>= 1) sums[i] += __shfl_xor_sync(mask, sums[i], s);
}

template <int LANES>
static __device__ __forceinline__ void terms_of_row(const u64* __restrict__ at, int rows, int groups, int width,
                                                    const float* __restrict__ centre, const double* __restrict__ between,
                                                    const int* __restrict__ block_group, double rate, double offset,
                                                    float* __restrict__ terms, float* __restrict__ residual) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    u32 mask = LANES == 32 ? ~0u : 0xffffu << (threadIdx.x & 16);
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    if (!r) {
        for (int h = lane; h < groups; h += LANES) terms[(i64)h * rows + row] = residual[(i64)h * rows + row] = 0.0f;
        return;
    }
    int own = block_group[row >> 6];
    for (int h0 = 0; h0 < groups; h0 += 5) {
        const float* c = centre + (i64)h0 * width;
        double sums[5];
        int count = min(groups - h0, 5);
        switch (count) {
            case 1: with_centres<1, LANES>(r, c, width, lane, mask, sums); break;
            case 2: with_centres<2, LANES>(r, c, width, lane, mask, sums); break;
            case 3: with_centres<3, LANES>(r, c, width, lane, mask, sums); break;
            case 4: with_centres<4, LANES>(r, c, width, lane, mask, sums); break;
            default: with_centres<5, LANES>(r, c, width, lane, mask, sums);
        }
        // A lane for each centre.
        double sum = sums[0];
#pragma unroll
        for (int i = 1; i < 5; ++i)
            if (lane == i && i < count) sum = sums[i];
        if (lane < count) {
            double value = sum - 0.5 * between[own * groups + h0 + lane];
            i64 to = (i64)(h0 + lane) * rows + row;
            double term = MAP == 0 ? -rate * value : rate * value + 0.5 * offset;
            terms[to] = (float)term;
            residual[to] = (float)(term - (double)(float)term);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    terms(const u64* __restrict__ at, int rows, int groups, int width, const float* __restrict__ centre,
          const double* __restrict__ between, const int* __restrict__ block_group, double rate, double offset,
          float* __restrict__ terms, float* __restrict__ residual) {
    terms_of_row<32>(at, rows, groups, width, centre, between, block_group, rate, offset, terms, residual);
}
// For at most 64 columns.
extern "C" __global__ void __launch_bounds__(256)
    terms_narrow(const u64* __restrict__ at, int rows, int groups, int width, const float* __restrict__ centre,
                 const double* __restrict__ between, const int* __restrict__ block_group, double rate, double offset,
                 float* __restrict__ terms, float* __restrict__ residual) {
    terms_of_row<16>(at, rows, groups, width, centre, between, block_group, rate, offset, terms, residual);
}

// own[target row]: the term of a row with its own group, which is its squared distance to the centre up to a factor.
extern "C" __global__ void own_terms(const float* __restrict__ terms, int rows, const int* __restrict__ block_group,
                                     const u32* __restrict__ target, float* __restrict__ own) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && target[row] != ~0u) own[target[row]] = terms[(i64)block_group[row >> 6] * rows + row];
}

// Adds the partial sums of a square to out[set][target row], in the order of blocks: part[block - first][row - row0].
// The square has `count` rows from row0 and the blocks first to last; a set has the groups set_group[set] to
// set_group[set + 1]. Grid (ceil(count/128), sets), 128 threads.
extern "C" __global__ void __launch_bounds__(128)
    fold(const float* __restrict__ part, i64 stride, int row0, int count, int first, int last, int rows,
         const int* __restrict__ set_group, const int* __restrict__ group_first, const int* __restrict__ group_rows,
         const float* __restrict__ residual, const u32* __restrict__ target, i64 out_stride, double* __restrict__ out) {
    int local = blockIdx.x * 128 + threadIdx.x, set = blockIdx.y;
    if (local >= count) return;
    int row = row0 + local;
    u32 to = target[row];
    if (to == ~0u) return;
    double total = 0.0;
    bool is_empty = true;
    for (int group = set_group[set], end_of_set = set_group[set + 1]; group < end_of_set; ++group) {
        int block = max(first, group_first[group] >> 6), end = min(last, (group_first[group] + group_rows[group] + 63) >> 6);
        if (block >= end) continue;
        is_empty = false;
        const float* p = part + (i64)(block - first) * stride + local;
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
        for (; block + 16 <= end; block += 16, p += 16 * stride) {
            float v[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) v[i] = __ldcs(p + i * stride);
#pragma unroll
            for (int i = 0; i < 16; i += 4) { a += v[i]; b += v[i + 1]; c += v[i + 2]; d += v[i + 3]; }
        }
        for (; block < end; ++block, p += stride) a += __ldcs(p);
        double sum = (a + b) + (c + d);
#if MAP == 0
        sum += sum * (0.6931471805599453 * (double)residual[(i64)group * rows + row]);
#endif
        total += sum;
    }
    if (!is_empty) out[(i64)set * out_stride + to] += total;
}
