// Nearest rows: candidates by products in half precision with bounds, then measured in double precision. It stands after
// common.cuh and mma.cuh. Rows are centred and scaled, u = hi + e with hi in f16; for two rows, the distance is that of hi and hi up to
// ‖e‖ + ‖e'‖ (triangle inequality), and the latter comes from tensor cores up to an error that grows with the width.

// hi of every row, with ‖hi‖² and ‖e‖; rows of hi are `pitch` bytes apart. One warp per row; padding has zeros.
extern "C" __global__ void halves(const u64* __restrict__ at, int rows, int width, int pitch, const float* __restrict__ centre,
                                  const u32* __restrict__ extent, u8* __restrict__ hi, float* __restrict__ squares,
                                  float* __restrict__ rests) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    double most = __uint_as_float(*extent), square = 0.0, rest = 0.0;
    double unit = exp2(floor(log2(16384.0 / (most > 0.0 ? most : 1.0))));
    for (int k = 4 * lane; k < pitch / 2; k += 128) {
        float v[4] = {0, 0, 0, 0}, c[4] = {0, 0, 0, 0};
        if (r && (width & 3) == 0 && k < width) {
            float4 p = __ldg((const float4*)(r + k)), q = __ldg((const float4*)(centre + k));
            v[0] = p.x; v[1] = p.y; v[2] = p.z; v[3] = p.w;
            c[0] = q.x; c[1] = q.y; c[2] = q.z; c[3] = q.w;
        } else if (r) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (k + e < width) { v[e] = r[k + e]; c[e] = centre[k + e]; }
        }
        u16 bits[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            double u = ((double)v[e] - (double)c[e]) * unit;
            float value;
            asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits[e]) : "f"((float)u));
            asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits[e]));
            square = fma((double)value, (double)value, square);
            rest = fma(u - value, u - value, rest);
        }
        *(uint2*)(hi + (i64)row * pitch + 2 * k) = make_uint2(bits[0] | (u32)bits[1] << 16, bits[2] | (u32)bits[3] << 16);
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) {
        square += __shfl_xor_sync(0xffffffffu, square, s);
        rest += __shfl_xor_sync(0xffffffffu, rest, s);
    }
    if (lane == 0) {
        squares[row] = (float)square;
        rests[row] = (float)(sqrt(rest) * 1.000001);
    }
}

#define STAGES 4
#define ROW_BYTES 64
#define PLANE (128 * ROW_BYTES)
#define STAGE_BYTES (2 * PLANE)

// The error of a product of hi by tensor cores, and of roundings here, relative to the squares.
static __device__ __forceinline__ float relative_error(int width) { return (width / 16 + 16) * 9.5367432e-7f; }

// near[row - row0][column] ≈ ‖hi - hi'‖², in tiles of 128 x 128 with eight warps of 64 x 32, as pairs_mma.cu. mirror: also
// [column][row]; tiles are then those of row ≤ column, row0 is 0, and near has all rows. least[row - row0][block]: the least upper
// bound of the row's distances to the 64 rows of a block, less the row's own rest. Grid: one block per tile.
extern "C" __global__ void __launch_bounds__(256, 2)
    near_squares(const u8* __restrict__ hi, int pitch, const uint2* __restrict__ tiles, const float* __restrict__ squares,
                 const float* __restrict__ rests, int count, int width, int row0_of_near, int mirror, float* __restrict__ near,
                 i64 stride, float* __restrict__ least) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ float row_least[4][128];
    u32 base = (u32)__cvta_generic_to_shared(smem);
    int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31, wm = warp & 1, wn = warp >> 1;
    uint2 tile = tiles[blockIdx.x];
    int row0 = tile.x * 128, column0 = tile.y * 128, chunks = pitch / ROW_BYTES;
    auto fetch = [&](int chunk) {
        u32 stage = base + (chunk % STAGES) * STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int index = i * 256 + thread, plane = i >> 1, r = (index >> 2) & 127, c = index & 3;
            const u8* from = hi + (i64)((plane ? column0 : row0) + r) * pitch + chunk * ROW_BYTES + c * 16;
            copy16(stage + plane * PLANE + r * ROW_BYTES + ((c ^ (r >> 1 & 3)) << 4), from);
        }
    };
    float acc[4][4][4];
#pragma unroll
    for (int i = 0; i < 64; ++i) acc[i >> 4][i >> 2 & 3][i & 3] = 0.0f;
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < chunks) fetch(s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    int ra = wm * 64 + (lane & 15), ka = lane >> 4;
    int rb = wn * 32 + (lane & 7) + (lane >> 4 << 3), kb = lane >> 3 & 1;
    for (int c = 0; c < chunks; ++c) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        if (c + STAGES - 1 < chunks) fetch(c + STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
        u32 stage = base + (c % STAGES) * STAGE_BYTES;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            u32 b[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                int r = rb + n * 16;
                matrices(b[n], stage + PLANE + r * ROW_BYTES + (((2 * k + kb) ^ (r >> 1 & 3)) << 4));
            }
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                int r = ra + m * 16;
                u32 a[4];
                matrices(a, stage + r * ROW_BYTES + (((2 * k + ka) ^ (r >> 1 & 3)) << 4));
#pragma unroll
                for (int n = 0; n < 4; ++n) mma(acc[m][n], a, b[n >> 1][(n & 1) * 2], b[n >> 1][(n & 1) * 2 + 1]);
            }
        }
    }
    int row = row0 + wm * 64 + (lane >> 2), column = column0 + wn * 32 + 2 * (lane & 3), blocks = (int)(stride >> 6);
    bool both = mirror && row0 != column0;
    float relative = relative_error(width), by_column[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) by_column[i] = 3.4e38f;
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int r = row + 16 * m + 8 * half;
            float own = squares[r], own_rest = rests[r], by_row = 3.4e38f;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                int c = column + 8 * n;
                float v[2];
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float sum = own + squares[c + e], root;
                    v[e] = fmaf(-2.0f, acc[m][n][2 * half + e], sum);
                    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(fmaf(relative, sum, fmaxf(v[e], 0.0f))));
                    bool counts = c + e != r && c + e < count && r < count;
                    root = counts ? root * 1.000001f : 3.4e38f;
                    by_row = fminf(by_row, root + rests[c + e]);
                    by_column[2 * n + e] = fminf(by_column[2 * n + e], root + own_rest);
                }
                *(float2*)(near + (i64)(r - row0_of_near) * stride + c) = make_float2(v[0], v[1]);
                if (both) {
                    near[(i64)c * stride + r] = v[0];
                    near[(i64)(c + 1) * stride + r] = v[1];
                }
            }
            by_row = fminf(by_row, __shfl_xor_sync(0xffffffffu, by_row, 1));
            by_row = fminf(by_row, __shfl_xor_sync(0xffffffffu, by_row, 2));
            if ((lane & 3) == 0) row_least[wn][r - row0] = by_row;
        }
    if (both) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
            for (int s = 4; s < 32; s <<= 1) by_column[i] = fminf(by_column[i], __shfl_xor_sync(0xffffffffu, by_column[i], s));
            if (lane < 4) least[(i64)(column + 8 * (i >> 1) + (i & 1)) * blocks + (row0 >> 6) + wm] = by_column[i];
        }
    }
    __syncthreads();
    int r = thread & 127, side = thread >> 7;
    least[(i64)(row0 + r - row0_of_near) * blocks + (column0 >> 6) + side] = fminf(row_least[2 * side][r], row_least[2 * side + 1][r]);
}

#define MOST 8
#define CANDIDATES 64

// What may be among the k nearest rows by the bounds, with their number, which may be above CANDIDATES. `bounds` are the least
// upper bounds of blocks: k blocks have a row within the k-th least of them. One warp.
static __device__ __forceinline__ int candidates(const float* __restrict__ values, const float* __restrict__ bounds, int blocks,
                                                 int columns, int row, int width, const float* __restrict__ squares,
                                                 const float* __restrict__ rests, int k, int* found) {
    int lane = threadIdx.x & 31;
    float own = squares[row], rest = rests[row], relative = relative_error(width);
    // The k least upper bounds of this lane, in order.
    float least[MOST];
#pragma unroll
    for (int i = 0; i < MOST; ++i) least[i] = 3.4e38f;
    for (int block = lane; block < blocks; block += 32) {
        float upper = bounds[block] + rest;
        if (!(upper < least[MOST - 1])) continue;
        least[MOST - 1] = upper;
#pragma unroll
        for (int i = MOST - 1; i > 0; --i)
            if (least[i] < least[i - 1]) { float t = least[i]; least[i] = least[i - 1]; least[i - 1] = t; }
    }
    // The k-th least of all lanes: k other rows are surely not farther.
    float limit = 3.4e38f;
    for (int round = 0; round < k; ++round) {
        limit = least[0];
#pragma unroll
        for (int s = 16; s; s >>= 1) limit = fminf(limit, __shfl_xor_sync(0xffffffffu, limit, s));
        u32 vote = __ballot_sync(0xffffffffu, least[0] == limit);
        if (lane == __ffs(vote) - 1) {
#pragma unroll
            for (int i = 0; i + 1 < MOST; ++i) least[i] = least[i + 1];
            least[MOST - 1] = 3.4e38f;
        }
    }
    int count = 0;
    float within = limit * 1.000001f + rest;
    for (int j0 = 0; j0 < columns; j0 += 128) {
        int first_of_lane = j0 + lane * 4;
        bool is_candidate[4] = {false, false, false, false};
        if (first_of_lane < columns) {
            float4 v4 = __ldg((const float4*)(values + first_of_lane)), s4 = __ldg((const float4*)(squares + first_of_lane));
            float4 r4 = __ldg((const float4*)(rests + first_of_lane));
            float v[4] = {v4.x, v4.y, v4.z, v4.w}, s[4] = {s4.x, s4.y, s4.z, s4.w}, r[4] = {r4.x, r4.y, r4.z, r4.w};
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int j = first_of_lane + e;
                float lower = fmaf(-relative, own + s[e], v[e]), most = within + r[e];
                // What is not a number is a candidate.
                is_candidate[e] = j != row && j < columns && !(lower > most * most * 1.000001f);
            }
        }
        if (!__any_sync(0xffffffffu, is_candidate[0] || is_candidate[1] || is_candidate[2] || is_candidate[3])) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            u32 vote = __ballot_sync(0xffffffffu, is_candidate[e]);
            int place = count + __popc(vote & ((1u << lane) - 1));
            if (is_candidate[e] && place < CANDIDATES) found[place] = first_of_lane + e;
            count += __popc(vote);
        }
    }
    return count;
}

// ‖a-b‖² in double precision, in the order of columns.
static __device__ __forceinline__ double distance(u64 a_at, u64 b_at, int width) {
    const float *a = (const float*)a_at, *b = (const float*)b_at;
    double sum = 0.0;
    int i = 0;
    for (; i + 16 <= width && (width & 3) == 0; i += 16) {
        float4 p[4], q[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) { p[e] = __ldg((const float4*)(a + i) + e); q[e] = __ldg((const float4*)(b + i) + e); }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            double d = (double)p[e].x - (double)q[e].x;
            sum = fma(d, d, sum);
            d = (double)p[e].y - (double)q[e].y;
            sum = fma(d, d, sum);
            d = (double)p[e].z - (double)q[e].z;
            sum = fma(d, d, sum);
            d = (double)p[e].w - (double)q[e].w;
            sum = fma(d, d, sum);
        }
    }
    for (; i < width; ++i) { double d = (double)a[i] - (double)b[i]; sum = fma(d, d, sum); }
    return sum;
}

// The k ≤ MOST nearest other rows of rows first to first + rows, ties in the order of rows. What may be among them by the
// bounds is measured, adding in the order of columns as tiles.cu does, so that distances have the same bits. A row has few
// candidates, so those of a block's eight rows are measured together, one per thread. doubt[row] = 1 if a row has more, and its
// neighbours are then 0. One warp per row.
extern "C" __global__ void __launch_bounds__(256)
    near_select(const float* __restrict__ near, i64 stride, const float* __restrict__ least, const u64* __restrict__ at, int rows, int columns, int first, int width,
                const float* __restrict__ squares, const float* __restrict__ rests, int k, double* __restrict__ distances,
                u32* __restrict__ who, u32* __restrict__ doubt) {
    __shared__ int found[8][CANDIDATES];
    __shared__ double measured[8][CANDIDATES];
    __shared__ int counts[8];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, line = blockIdx.x * 8 + warp, row = first + line;
    bool is_row = line < rows;
    if (is_row) {
        int blocks = (int)(stride >> 6);
        int count = candidates(near + (i64)line * stride, least + (i64)line * blocks, blocks, columns, row, width, squares, rests, k,
                               found[warp]);
        bool in_doubt = count > CANDIDATES || count < k;
        if (lane == 0) {
            doubt[line] = in_doubt;
            counts[warp] = in_doubt ? 0 : count;
        }
        if (in_doubt) {
            for (int i = lane; i < k; i += 32) { distances[(i64)line * k + i] = 0.0; who[(i64)line * k + i] = 0; }
            is_row = false;
        }
    } else if (lane == 0) {
        counts[warp] = 0;
    }
    __syncthreads();
    int all = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) all += counts[w];
    for (int pair = threadIdx.x; pair < all; pair += 256) {
        int of = 0, slot = pair;
        while (slot >= counts[of]) slot -= counts[of++];
        measured[of][slot] = distance(at[first + blockIdx.x * 8 + of], at[found[of][slot]], width);
    }
    __syncthreads();
    if (!is_row) return;
    const double NONE = 1.7976931348623157e308;
    int count = counts[warp], mine[2];
    double distance[2];
#pragma unroll
    for (int turn = 0; turn < 2; ++turn) {
        bool is_mine = lane + 32 * turn < count;
        mine[turn] = is_mine ? found[warp][lane + 32 * turn] : 2147483647;
        distance[turn] = is_mine ? measured[warp][lane + 32 * turn] : NONE;
    }
    for (int round = 0; round < k; ++round) {
        bool is_second = distance[1] < distance[0] || (distance[1] == distance[0] && mine[1] < mine[0]);
        double best = is_second ? distance[1] : distance[0];
        int which = is_second ? mine[1] : mine[0];
#pragma unroll
        for (int s = 16; s; s >>= 1) {
            double other = __shfl_xor_sync(0xffffffffu, best, s);
            int other_which = __shfl_xor_sync(0xffffffffu, which, s);
            if (other < best || (other == best && other_which < which)) { best = other; which = other_which; }
        }
        if (lane == 0) { distances[(i64)line * k + round] = best; who[(i64)line * k + round] = (u32)which; }
#pragma unroll
        for (int turn = 0; turn < 2; ++turn)
            if (mine[turn] == which) { mine[turn] = 2147483647; distance[turn] = NONE; }
    }
}
