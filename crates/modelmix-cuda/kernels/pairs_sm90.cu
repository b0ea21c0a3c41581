// Sums of a kernel over pairs of rows on Hopper (sm_90a): products by wgmma, tiles by TMA, the kernel and its sums in
// registers. No product reaches memory. Every partial sum has one writer and one place, so bits are the same in every run.
//
// A cluster of two blocks of threads computes a tile of 256 x 256 rows, half of its rows each, and shares the loads of its
// columns. In a block, one thread loads and two warpgroups of 64 x 256 accumulate. A slot holds 128 bytes of depth of
// 128 + 256 rows.
#define TILE_M 128
#define TILE_N 256
#define SLOTS 4
#define A_BYTES (TILE_M * 128)
#define B_BYTES (TILE_N * 128)
#define SLOT_BYTES (A_BYTES + B_BYTES)
// Dynamic shared memory: slots, columns [2][2][4][256], terms [2][2][256], barriers, and 1024 to align.
#define SHARED_BYTES (SLOTS * SLOT_BYTES + 16384 + 4096 + 16 * SLOTS + 1024)

struct __align__(64) TensorMap { u64 words[16]; };  // CUtensorMap

// The 128 accumulators of a thread as operands of wgmma.
#define ACCUMULATORS \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define OUTPUTS \
    "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), \
    "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]), \
    "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), \
    "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]), \
    "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), \
    "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), \
    "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), \
    "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]), \
    "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), \
    "+f"(acc[36]), "+f"(acc[37]), "+f"(acc[38]), "+f"(acc[39]), \
    "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]), \
    "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), \
    "+f"(acc[48]), "+f"(acc[49]), "+f"(acc[50]), "+f"(acc[51]), \
    "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]), \
    "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), \
    "+f"(acc[60]), "+f"(acc[61]), "+f"(acc[62]), "+f"(acc[63]), \
    "+f"(acc[64]), "+f"(acc[65]), "+f"(acc[66]), "+f"(acc[67]), \
    "+f"(acc[68]), "+f"(acc[69]), "+f"(acc[70]), "+f"(acc[71]), \
    "+f"(acc[72]), "+f"(acc[73]), "+f"(acc[74]), "+f"(acc[75]), \
    "+f"(acc[76]), "+f"(acc[77]), "+f"(acc[78]), "+f"(acc[79]), \
    "+f"(acc[80]), "+f"(acc[81]), "+f"(acc[82]), "+f"(acc[83]), \
    "+f"(acc[84]), "+f"(acc[85]), "+f"(acc[86]), "+f"(acc[87]), \
    "+f"(acc[88]), "+f"(acc[89]), "+f"(acc[90]), "+f"(acc[91]), \
    "+f"(acc[92]), "+f"(acc[93]), "+f"(acc[94]), "+f"(acc[95]), \
    "+f"(acc[96]), "+f"(acc[97]), "+f"(acc[98]), "+f"(acc[99]), \
    "+f"(acc[100]), "+f"(acc[101]), "+f"(acc[102]), "+f"(acc[103]), \
    "+f"(acc[104]), "+f"(acc[105]), "+f"(acc[106]), "+f"(acc[107]), \
    "+f"(acc[108]), "+f"(acc[109]), "+f"(acc[110]), "+f"(acc[111]), \
    "+f"(acc[112]), "+f"(acc[113]), "+f"(acc[114]), "+f"(acc[115]), \
    "+f"(acc[116]), "+f"(acc[117]), "+f"(acc[118]), "+f"(acc[119]), \
    "+f"(acc[120]), "+f"(acc[121]), "+f"(acc[122]), "+f"(acc[123]), \
    "+f"(acc[124]), "+f"(acc[125]), "+f"(acc[126]), "+f"(acc[127])
#define WGMMA(NAME, SHAPE, TRANSPOSED) \
    static __device__ __forceinline__ void NAME(float (&acc)[128], u64 a, u64 b, int add) { \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned." SHAPE \
                     " {" ACCUMULATORS "}, %128, %129, p, 1, 1" TRANSPOSED ";\n}\n" \
                     : OUTPUTS \
                     : "l"(a), "l"(b), "r"(add)); \
    }
WGMMA(wgmma_wide, "m64n256k16.f32.f16.f16", ", 0, 0")
#if FORM == 1
WGMMA(wgmma_small, "m64n256k32.f32.e4m3.e4m3", "")
#endif

static __device__ __forceinline__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
static __device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
    asm volatile(
        "{\n.reg .pred p;\nL_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D_%=;\nbra L_%=;\nD_%=:\n}\n" ::"r"(bar),
        "r"(parity)
        : "memory");
}
// Arrives at the barrier of the same place in another block of the cluster.
static __device__ __forceinline__ void barrier_arrive(u32 bar, u32 rank) {
    asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [r];\n}\n" ::"r"(bar), "r"(rank)
                 : "memory");
}
static __device__ __forceinline__ void load(u32 to, const TensorMap* map, int column, int row, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map),
                 "r"(column), "r"(row), "r"(bar)
                 : "memory");
}
static __device__ __forceinline__ void load_both(u32 to, const TensorMap* map, int column, int row, u32 bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(bar), "h"((u16)3)
        : "memory");
}
// K-major operand, 128-byte swizzle: 8 rows of 128 bytes per atom, atoms 1024 bytes apart.
static __device__ __forceinline__ u64 descriptor(u32 address) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
static __device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
static __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
static __device__ __forceinline__ void pin(float (&acc)[128]) {
#pragma unroll
    for (int i = 0; i < 128; ++i)
        asm volatile("" : "+f"(acc[i])::"memory");
}
// A slot's four steps of depth.
static __device__ __forceinline__ void multiply(float (&acc)[128], u32 a, u32 b, bool add) {
    u64 da = descriptor(a), db = descriptor(b);
#pragma unroll
    for (int k = 0; k < 4; ++k) wgmma_wide(acc, da + 2 * k, db + 2 * k, add || k > 0);
}

#if FORM == 1
static __device__ __forceinline__ void multiply_small(float (&acc)[128], u32 a, u32 b, bool add) {
    u64 da = descriptor(a), db = descriptor(b);
#pragma unroll
    for (int k = 0; k < 4; ++k) wgmma_small(acc, da + 2 * k, db + 2 * k, add || k > 0);
}
#endif

// Values of a warpgroup's 64 x 256 tile. A thread has rows `row` and `row` + 8, and of every eight columns two. Sums by row
// are written for each block of 64 columns, from `part` on; those of the thread's two rows by column are left in `columns`.
template <bool MASKED>
static __device__ __forceinline__ void row_sums(float (&acc)[128], float (&columns)[64], int row, int column,
                                                const float (&t0)[4], const float (&t1)[4], float factor, const float* term,
                                                const float* __restrict__ weights, float* __restrict__ part, i64 stride) {
    int lane = threadIdx.x & 31;
    float w0 = 1.0f, w1 = 1.0f;
    if (MASKED) { w0 = __ldg(weights + row); w1 = __ldg(weights + row + 8); }
#pragma unroll
    for (int group = 0; group < 4; ++group) {
        float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
        for (int jj = 0; jj < 8; ++jj) {
            int j = group * 8 + jj, c = column + 8 * j + 2 * (lane & 3);
            float2 t = *(const float2*)(term + 8 * j + 2 * (lane & 3));
            float a = value(acc[4 * j], t0[group], t.x, factor), b = value(acc[4 * j + 1], t0[group], t.y, factor);
            float d = value(acc[4 * j + 2], t1[group], t.x, factor), e = value(acc[4 * j + 3], t1[group], t.y, factor);
            if (MASKED) {  // padding does not count, nor does a row with itself; not a product, which may be inf * 0
                float2 w = __ldg((const float2*)(weights + c));
                a = c == row || w0 * w.x == 0.0f ? 0.0f : a;
                b = c + 1 == row || w0 * w.y == 0.0f ? 0.0f : b;
                d = c == row + 8 || w1 * w.x == 0.0f ? 0.0f : d;
                e = c + 1 == row + 8 || w1 * w.y == 0.0f ? 0.0f : e;
            }
            s0 += a + b;
            s1 += d + e;
            columns[2 * j] = a + d;
            columns[2 * j + 1] = b + e;
        }
        s0 += __shfl_xor_sync(0xffffffffu, s0, 1);
        s1 += __shfl_xor_sync(0xffffffffu, s1, 1);
        s0 += __shfl_xor_sync(0xffffffffu, s0, 2);
        s1 += __shfl_xor_sync(0xffffffffu, s1, 2);
        if ((lane & 3) == 0) {
            float* p = part + group * stride;
            p[0] = s0;
            p[8] = s1;
        }
    }
}

// Sums over the eight lanes that hold the same columns: half of the columns are handed over at every step.
template <int COUNT>
static __device__ __forceinline__ void halve(float (&v)[64], int lane, int bit) {
    bool upper = lane & bit;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        float keep = upper ? v[i + COUNT] : v[i], give = upper ? v[i] : v[i + COUNT];
        v[i] = keep + __shfl_xor_sync(0xffffffffu, give, bit);
    }
}

// tiles: (row, column) in units of 256 rows; the top bit of the column says that something is to be masked. They are of one
// square, whose rows start at row0 and columns at column0. row_part[block][row]: the sum of the row over the 64 columns of
// the block; column_part[block][column]: that of the column over 64 rows. On the diagonal both are the same array, tiles
// have row ≤ column, and every place is written once. `rows` is the stride of terms.
// Grid: an even number of blocks, at most as many as multiprocessors; 384 threads; SHARED_BYTES.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    pairs(const __grid_constant__ TensorMap hi, const __grid_constant__ TensorMap lo, const __grid_constant__ TensorMap mid,
          const uint2* __restrict__ tiles, int tile_count, int chunks, int small_chunks, const Scale* __restrict__ scale,
          const float* __restrict__ terms, const int* __restrict__ block_group, const float* __restrict__ weights, i64 rows,
          int row0, int column0, float* __restrict__ row_part, i64 row_stride, float* __restrict__ column_part,
          i64 column_stride) {
    extern __shared__ u8 raw[];
    u32 base = (shared(raw) + 1023) & ~1023u;
    float* column_buffer = (float*)(raw + (base - shared(raw)) + SLOTS * SLOT_BYTES);
    float* term_buffer = column_buffer + 4096;
    u32 full = base + SLOTS * SLOT_BYTES + 16384 + 4096, empty = full + 8 * SLOTS;
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, 4);  // two warpgroups of each of two blocks
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    int first = blockIdx.x >> 1, clusters = gridDim.x >> 1;

    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            u32 it = 0;
            for (int t = first; t < tile_count; t += clusters) {
                uint2 tile = __ldg(tiles + t);
                int row = tile.x * 256 + rank * 128, column = (tile.y & 0x7fffffff) * 256 + rank * 128;
                auto fetch = [&](const TensorMap* a, const TensorMap* b, int chunk) {
                    u32 slot = it & (SLOTS - 1), at = base + slot * SLOT_BYTES;
                    barrier_wait(empty + 8 * slot, ((it / SLOTS) & 1) ^ 1);
                    barrier_expect(full + 8 * slot, SLOT_BYTES);
                    load(at, a, chunk * 128, row, full + 8 * slot);
                    load_both(at + A_BYTES + rank * (B_BYTES / 2), b, chunk * 128, column, full + 8 * slot);
                    ++it;
                };
#if FORM == 0
                for (int c = 0; c < chunks; ++c) { fetch(&lo, &lo, c); fetch(&hi, &hi, c); }
#else
                for (int c = 0; c < small_chunks; ++c) { fetch(&lo, &mid, c); fetch(&mid, &lo, c); }
                for (int c = 0; c < chunks; ++c) fetch(&hi, &hi, c);
#endif
            }
        }
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int wg = (threadIdx.x >> 7) - 1, warp = (threadIdx.x >> 5) & 3, lane = threadIdx.x & 31;
        int thread = threadIdx.x & 127;
        float factor = scale->factor;
        u32 a_at = base + wg * 64 * 128, b_at = base + A_BYTES;
        u32 it = 0;
        int parity = 0;
        float acc[128];
        auto ready = [&](u32 i) { barrier_wait(full + 8 * (i & (SLOTS - 1)), (i / SLOTS) & 1); };
        // A thread for each block of the cluster says that the warpgroup is done with a slot.
        auto release = [&](u32 i) {
            if (lane == 0 && warp < 2) barrier_arrive(empty + 8 * (i & (SLOTS - 1)), warp);
        };
        uint2 next = first < tile_count ? __ldg(tiles + first) : make_uint2(0, 0);
        for (int t = first; t < tile_count; t += clusters) {
            uint2 tile = next;
            if (t + clusters < tile_count) next = __ldg(tiles + t + clusters);
            u32 tile_column = tile.y & 0x7fffffff;
            bool masked = tile.y >> 31, diagonal = tile.x == tile_column;
            int row_block = tile.x * 4 + rank * 2 + wg, row = row_block * 64 + warp * 16 + (lane >> 2);
            int column = tile_column * 256;
            // Terms: of the rows for each block of columns, of the columns for this block of rows.
            int4 groups = __ldg((const int4*)block_group + tile_column);
            const float* row_terms = terms + row;
            float t0[4] = {__ldg(row_terms + groups.x * rows), __ldg(row_terms + groups.y * rows),
                           __ldg(row_terms + groups.z * rows), __ldg(row_terms + groups.w * rows)};
            row_terms += 8;
            float t1[4] = {__ldg(row_terms + groups.x * rows), __ldg(row_terms + groups.y * rows),
                           __ldg(row_terms + groups.z * rows), __ldg(row_terms + groups.w * rows)};
            const float* column_terms = terms + __ldg(block_group + row_block) * rows + column + thread;
            float ta = __ldg(column_terms), tb = __ldg(column_terms + 128);
#if FORM == 0
            // Small products first, and what is loaded serves all three.
            for (int c = 0; c < chunks; ++c) {
                u32 l = (it & (SLOTS - 1)) * SLOT_BYTES, h = ((it + 1) & (SLOTS - 1)) * SLOT_BYTES;
                ready(it);
                ready(it + 1);
                wgmma_fence();
                multiply(acc, a_at + l, b_at + h, c > 0);
                multiply(acc, a_at + h, b_at + l, true);
                wgmma_commit();
                wgmma_wait<1>();
                if (c > 0) release(it - 1);
                multiply(acc, a_at + h, b_at + h, true);
                wgmma_commit();
                wgmma_wait<1>();
                release(it);
                it += 2;
            }
            wgmma_wait<0>();
            release(it - 1);
#else
            auto run = [&](int steps, bool small) {
                for (int c = 0; c < steps; ++c) {
                    u32 s = (it & (SLOTS - 1)) * SLOT_BYTES;
                    ready(it);
                    wgmma_fence();
                    if (small) multiply_small(acc, a_at + s, b_at + s, c > 0);
                    else multiply(acc, a_at + s, b_at + s, true);
                    wgmma_commit();
                    wgmma_wait<1>();
                    if (c > 0) release(it - 1);
                    ++it;
                }
                wgmma_wait<0>();
                release(it - 1);
            };
            // The small products first: e4m3 accumulates fewer bits.
            run(2 * small_chunks, true);
            run(chunks, false);
#endif
            pin(acc);
            float* term = term_buffer + (parity * 2 + wg) * 256;
            term[thread] = ta;
            term[thread + 128] = tb;
            asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
            float columns[64];
            float* part = row_part + (i64)((column - column0) >> 6) * row_stride + (row - row0);
            if (masked) row_sums<true>(acc, columns, row, column, t0, t1, factor, term, weights, part, row_stride);
            else row_sums<false>(acc, columns, row, column, t0, t1, factor, term, weights, part, row_stride);
            if (!diagonal) {  // on the diagonal, sums by row have both halves
                halve<32>(columns, lane, 16);
                halve<16>(columns, lane, 8);
                halve<8>(columns, lane, 4);
                float* buffer = column_buffer + (parity * 2 + wg) * 1024;
                int j = (lane >> 4 & 1) * 16 + (lane >> 3 & 1) * 8 + (lane >> 2 & 1) * 4;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    *(float2*)(buffer + warp * 256 + 8 * (j + i) + 2 * (lane & 3)) =
                        make_float2(columns[2 * i], columns[2 * i + 1]);
                asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float* b = buffer + thread + 128 * i;
                    float* to = column_part + (i64)(row_block - (row0 >> 6)) * column_stride + (column - column0);
                    to[thread + 128 * i] = (b[0] + b[256]) + (b[512] + b[768]);
                }
            }
            parity ^= 1;  // the other buffers: a slower warp may still read these
        }
        __syncwarp();
    }
    // No block may leave while its pair can still write to its shared memory.
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
