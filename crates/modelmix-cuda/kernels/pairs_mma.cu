// The same sums with mma.sync and cp.async, for every GPU from sm_80 on; FORM 0 only. A block of threads computes a tile of
// 128 x 128 with eight warps of 64 x 32; the three products share what is loaded.
#define STAGES 3
#define ROW_BYTES 64
#define PLANE (128 * ROW_BYTES)
#define STAGE_BYTES (4 * PLANE)  // A hi, A lo, B hi, B lo

// hi, lo: rows of `pitch` bytes, a multiple of 64. tiles in units of 128 rows; the rest as in pairs_sm90.cu.
// Grid: one block per tile; 256 threads; STAGES * STAGE_BYTES of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(256, 2)
    pairs_mma(const u8* __restrict__ hi, const u8* __restrict__ lo, int pitch, const uint2* __restrict__ tiles,
              const Scale* __restrict__ scale, const float* __restrict__ terms, const int* __restrict__ block_group,
              const float* __restrict__ weights, i64 rows, int row0_of_square, int column0_of_square,
              float* __restrict__ row_part, i64 row_stride, float* __restrict__ column_part, i64 column_stride) {
    extern __shared__ __align__(1024) u8 smem[];
    __shared__ float rows_buffer[4][128];
    u32 base = (u32)__cvta_generic_to_shared(smem);
    int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31, wm = warp & 1, wn = warp >> 1;
    uint2 tile = tiles[blockIdx.x];
    bool masked = tile.y >> 31;
    int row0 = tile.x * 128, column0 = (tile.y & 0x7fffffff) * 128, chunks = pitch / ROW_BYTES;

    auto fetch = [&](int chunk) {
        u32 stage = base + (chunk % STAGES) * STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int index = i * 256 + thread, plane = i >> 1, r = (index >> 2) & 127, c = index & 3;
            const u8* plane_at = plane & 1 ? lo : hi;
            const u8* from = plane_at + (i64)((plane < 2 ? row0 : column0) + r) * pitch + chunk * ROW_BYTES + c * 16;
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
    // Where this lane's row of an 8 x 16-byte matrix is: A in the order rows, then depth; B in the order depth, then rows.
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
            u32 bh[2][4], bl[2][4];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                int r = rb + n * 16;
                u32 at = stage + 2 * PLANE + r * ROW_BYTES + (((2 * k + kb) ^ (r >> 1 & 3)) << 4);
                matrices(bh[n], at);
                matrices(bl[n], at + PLANE);
            }
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                int r = ra + m * 16;
                u32 at = stage + r * ROW_BYTES + (((2 * k + ka) ^ (r >> 1 & 3)) << 4), ah[4], al[4];
                matrices(ah, at);
                matrices(al, at + PLANE);
#pragma unroll
                for (int n = 0; n < 4; ++n) mma(acc[m][n], al, bh[n >> 1][(n & 1) * 2], bh[n >> 1][(n & 1) * 2 + 1]);
#pragma unroll
                for (int n = 0; n < 4; ++n) mma(acc[m][n], ah, bl[n >> 1][(n & 1) * 2], bl[n >> 1][(n & 1) * 2 + 1]);
#pragma unroll
                for (int n = 0; n < 4; ++n) mma(acc[m][n], ah, bh[n >> 1][(n & 1) * 2], bh[n >> 1][(n & 1) * 2 + 1]);
            }
        }
    }
    float factor = scale->factor;
    float columns[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int row = row0 + wm * 64 + (lane >> 2), column = column0 + wn * 32 + 2 * (lane & 3);
    const float* column_terms = terms + block_group[(row0 >> 6) + wm] * rows;
    const float* row_terms = terms + block_group[(column0 >> 6) + (wn >> 1)] * rows;
    float2 tc[4];
    float2 wc[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        tc[n] = *(const float2*)(column_terms + column + 8 * n);
        wc[n] = *(const float2*)(weights + column + 8 * n);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int r = row + 16 * m + 8 * half;
            float t = row_terms[r];
            float w = weights[r], sum = 0.0f;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                float a = value(acc[m][n][2 * half], t, tc[n].x, factor), b = value(acc[m][n][2 * half + 1], t, tc[n].y, factor);
                if (masked) {
                    a = column + 8 * n == r || w * wc[n].x == 0.0f ? 0.0f : a;
                    b = column + 8 * n + 1 == r || w * wc[n].y == 0.0f ? 0.0f : b;
                }
                sum += a + b;
                columns[2 * n] += a;
                columns[2 * n + 1] += b;
            }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if ((lane & 3) == 0) rows_buffer[wn][wm * 64 + 16 * m + 8 * half + (lane >> 2)] = sum;
        }
    }
    if (row0 != column0) {
#pragma unroll
        for (int count = 4, bit = 16; count; count >>= 1, bit >>= 1) {
            bool upper = lane & bit;
#pragma unroll
            for (int i = 0; i < count; ++i) {
                float keep = upper ? columns[i + count] : columns[i], give = upper ? columns[i] : columns[i + count];
                columns[i] = keep + __shfl_xor_sync(0xffffffffu, give, bit);
            }
        }
        // The lane's column: bits 16, 8, 4 chose among eight of (n, side).
        int which = (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
        int to = column - column0_of_square + 8 * (which >> 1) + (which & 1);
        column_part[(i64)(((row0 - row0_of_square) >> 6) + wm) * column_stride + to] = columns[0];
    }
    __syncthreads();
    int r = thread & 127, block = thread >> 7;
    row_part[(i64)(((column0 - column0_of_square) >> 6) + block) * row_stride + (row0 - row0_of_square) + r] =
        rows_buffer[2 * block][r] + rows_buffer[2 * block + 1][r];
}
