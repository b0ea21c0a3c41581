// Sums over pairs in double precision on tensor cores, for many pairs. It stands after tiles.cu. Rows are centred, so that
// ‖x-y‖² = ‖u‖² + ‖v‖² - 2u·v loses few digits; pairs that are close for their norms are computed from differences.
//
// Blocks of 128 threads take tiles of 64 x 64 pairs, a warp 32 x 32 of them, as 4 x 4 products of 8 x 8.
#define STEP 16
// 20: four rows of eight banks each.
#define PITCH 20
// A squared distance below this share of the squared norms has lost digits.
#define MIN_SHARE 1e-4

static __device__ __forceinline__ void dmma(double (&c)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
}

#if __CUDA_ARCH__ >= 900
// 16 x 8 x 8, which Hopper multiplies faster; c of rows r and r + 8.
static __device__ __forceinline__ void dmma(double (&c)[2], double (&d)[2], const double (&a)[2], const double (&b)[2], const double (&n)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(d[0]), "+d"(d[1])
                 : "d"(a[0]), "d"(b[0]), "d"(a[1]), "d"(b[1]), "d"(n[0]), "d"(n[1]));
}
#endif

// squares[row] = ‖x - c‖², or ‖x‖² without a centre. One warp per row.
extern "C" __global__ void squares(const u64* __restrict__ at, int rows, int width, const float* __restrict__ centre,
                                   double* __restrict__ squares) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = (const float*)at[row];
    double sum = 0.0;
    for (int k = lane; k < width; k += 32) {
        double u = (double)r[k] - (centre ? (double)centre[k] : 0.0);
        sum = fma(u, u, sum);
    }
#pragma unroll
    for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    if (lane == 0) squares[row] = sum;
}

// The value of a pair from its product; not inlined, as evaluate.
static __device__ __noinline__ double pair(const Function& f, double g, double own, double other, u64 x, u64 y, int width) {
    if (f.kind == COSINE) {
        g /= sqrt(own) * sqrt(other);
    } else if (f.kind != POLYNOMIAL) {
        double both = own + other;
        g = fma(-2.0, g, both);
        if (!(g > MIN_SHARE * both)) g = in_double<false>((const float*)x, (const float*)y, width).x;
    }
    return evaluate(f, g);
}

// part[slice][row]: the sum of the row over the columns of a slice (first, last); self[row] is a column that does not count.
// Distances need a centre and squares of the rows; the cosine needs squares. Grid (ceil(rows/64), slices), 128 threads.
extern "C" __global__ void __launch_bounds__(128)
    sums_double(const u64* __restrict__ x_at, int rows, const double* __restrict__ x_square, const u64* __restrict__ y_at,
                const double* __restrict__ y_square, const float* __restrict__ centre, const int2* __restrict__ slices, int width,
                Function f, const int* __restrict__ self, double* __restrict__ part, i64 stride) {
    __shared__ double a[2][64][PITCH], b[2][64][PITCH];
    __shared__ double halves[2][64];
    int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31, wm = warp & 1, wn = warp >> 1;
    int row0 = blockIdx.x * 64;
    int2 slice = slices[blockIdx.y];
    // Loads: two threads per row, of eight values each.
    int lead = thread >> 1, from = (thread & 1) * 8;
    const float* x_row = (const float*)x_at[min(row0 + lead, rows - 1)];
    double total[4] = {0, 0, 0, 0};
    for (int column0 = slice.x; column0 < slice.y; column0 += 64) {
        const float* y_row = (const float*)y_at[min(column0 + lead, slice.y - 1)];
        float la[8], lb[8], lc[8];
        auto fetch = [&](int k0) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                int k = k0 + from + i;
                la[i] = k < width ? __ldg(x_row + k) : 0.0f;
                lb[i] = k < width ? __ldg(y_row + k) : 0.0f;
                lc[i] = centre && k < width ? __ldg(centre + k) : 0.0f;
            }
        };
        auto store = [&](int s) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                a[s][lead][from + i] = (double)la[i] - (double)lc[i];
                b[s][lead][from + i] = (double)lb[i] - (double)lc[i];
            }
        };
        double acc[4][4][2];
#pragma unroll
        for (int i = 0; i < 32; ++i) acc[i >> 3][i >> 1 & 3][i & 1] = 0.0;
        fetch(0);
        store(0);
        __syncthreads();
        for (int k0 = 0, s = 0; k0 < width; k0 += STEP, s ^= 1) {
            if (k0 + STEP < width) fetch(k0 + STEP);
#if __CUDA_ARCH__ >= 900
#pragma unroll
            for (int k = 0; k < STEP; k += 8) {
                double pa[4][2], qb[4][2];
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    int at = 8 * (i >> 1) + (lane >> 2), depth = k + 4 * (i & 1) + (lane & 3);
                    pa[i >> 1][i & 1] = a[s][wm * 32 + at][depth];
                    qb[i >> 1][i & 1] = b[s][wn * 32 + at][depth];
                }
#pragma unroll
                for (int i = 0; i < 4; i += 2)
#pragma unroll
                    for (int j = 0; j < 4; ++j) dmma(acc[i][j], acc[i + 1][j], pa[i], pa[i + 1], qb[j]);
            }
#else
#pragma unroll
            for (int k = 0; k < STEP; k += 4) {
                double pa[4], qb[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    pa[i] = a[s][wm * 32 + 8 * i + (lane >> 2)][k + (lane & 3)];
                    qb[i] = b[s][wn * 32 + 8 * i + (lane >> 2)][k + (lane & 3)];
                }
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j) dmma(acc[i][j], pa[i], qb[j]);
            }
#endif
            if (k0 + STEP < width) store(s ^ 1);
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int row = row0 + wm * 32 + 8 * i + (lane >> 2);
            if (row >= rows) continue;
            double own = x_square ? x_square[row] : 0.0;
#pragma unroll
            for (int j = 0; j < 4; ++j)
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    int column = column0 + wn * 32 + 8 * j + 2 * (lane & 3) + side;
                    if (column >= slice.y || (self && self[row] == column)) continue;
                    double other = y_square ? y_square[column] : 0.0;
                    total[i] += pair(f, acc[i][j][side], own, other, x_at[row], y_at[column], width);
                }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        total[i] += __shfl_xor_sync(0xffffffffu, total[i], 1);
        total[i] += __shfl_xor_sync(0xffffffffu, total[i], 2);
        if ((lane & 3) == 0) halves[wn][wm * 32 + 8 * i + (lane >> 2)] = total[i];
    }
    __syncthreads();
    if (thread < 64 && row0 + thread < rows) part[blockIdx.y * stride + row0 + thread] = halves[0][thread] + halves[1][thread];
}
