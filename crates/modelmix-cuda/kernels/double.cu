// Double precision over many pairs: products of matrices on tensor cores, used where cuBLAS is not installed; rows in double
// precision; and values and sums of pairs from their products. It stands after tiles.cu. Rows are centred, so that
// ‖x-y‖² = ‖u‖² + ‖v‖² - 2u·v loses few digits; pairs that are close for their norms are computed from differences.
//
// Products: blocks of 128 threads take tiles of 64 x 64, a warp 32 x 32 of them, as 4 x 4 products of 8 x 8.
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

// c[j·stride + i] = Σ over k of a(i, k) b(k, j), added to what is there if `add`; a(i, k) is a[i·a_row + k·a_depth] and b(k, j)
// is b[j·b_row + k·b_depth]. The sum over k is in order. Grid (ceil(m/64), ceil(n/64)), 128 threads.
extern "C" __global__ void __launch_bounds__(128)
    product_double(const double* __restrict__ a, i64 a_row, i64 a_depth, const double* __restrict__ b, i64 b_row, i64 b_depth,
                   int m, int n, int depth, int add, double* __restrict__ c, i64 stride) {
    // The lines of p are those of b, so that neighbouring threads write neighbouring places of c.
    __shared__ double p[2][64][PITCH], q[2][64][PITCH];
    int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31, wm = warp & 1, wn = warp >> 1;
    int i0 = blockIdx.x * 64, j0 = blockIdx.y * 64;
    // Eight values of a line per thread; neighbouring threads read neighbouring values.
    int p_line = b_depth == 1 ? thread >> 1 : thread & 63, p_from = (b_depth == 1 ? thread & 1 : thread >> 6) * 8;
    int q_line = a_depth == 1 ? thread >> 1 : thread & 63, q_from = (a_depth == 1 ? thread & 1 : thread >> 6) * 8;
    const double* p_at = b + min(j0 + p_line, n - 1) * b_row;
    const double* q_at = a + min(i0 + q_line, m - 1) * a_row;
    double lp[8], lq[8];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            lp[i] = k0 + p_from + i < depth ? __ldg(p_at + (k0 + p_from + i) * b_depth) : 0.0;
            lq[i] = k0 + q_from + i < depth ? __ldg(q_at + (k0 + q_from + i) * a_depth) : 0.0;
        }
    };
    auto store = [&](int s) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            p[s][p_line][p_from + i] = lp[i];
            q[s][q_line][q_from + i] = lq[i];
        }
    };
    double acc[4][4][2];
#pragma unroll
    for (int i = 0; i < 32; ++i) acc[i >> 3][i >> 1 & 3][i & 1] = 0.0;
    fetch(0);
    store(0);
    __syncthreads();
    for (int k0 = 0, s = 0; k0 < depth; k0 += STEP, s ^= 1) {
        if (k0 + STEP < depth) fetch(k0 + STEP);
#if __CUDA_ARCH__ >= 900
#pragma unroll
        for (int k = 0; k < STEP; k += 8) {
            double pa[4][2], qb[4][2];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                int at = 8 * (i >> 1) + (lane >> 2), column = k + 4 * (i & 1) + (lane & 3);
                pa[i >> 1][i & 1] = p[s][wm * 32 + at][column];
                qb[i >> 1][i & 1] = q[s][wn * 32 + at][column];
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
                pa[i] = p[s][wm * 32 + 8 * i + (lane >> 2)][k + (lane & 3)];
                qb[i] = q[s][wn * 32 + 8 * i + (lane >> 2)][k + (lane & 3)];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) dmma(acc[i][j], pa[i], qb[j]);
        }
#endif
        if (k0 + STEP < depth) store(s ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                int line = j0 + wm * 32 + 8 * i + (lane >> 2), at = i0 + wn * 32 + 8 * j + 2 * (lane & 3) + side;
                if (line >= n || at >= m) continue;
                double* to = c + line * stride + at;
                *to = add ? *to + acc[i][j][side] : acc[i][j][side];
            }
}

static __device__ __forceinline__ double over_warp(double v) {
#pragma unroll
    for (int s = 16; s; s >>= 1) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}

// to[row][k] = √w (x - c), with a centre in single or double precision or none, and w = 1 without weights;
// squares[row] = Σ of their squares, if asked for. One warp per row, 256 threads.
extern "C" __global__ void rows_double(const float* __restrict__ x, int rows, int width, const float* __restrict__ centre,
                                       const double* __restrict__ exact_centre, const double* __restrict__ weights,
                                       double* __restrict__ to, double* __restrict__ squares) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const float* r = x + (i64)row * width;
    double factor = weights ? sqrt(weights[row]) : 1.0, sum = 0.0;
    for (int k = lane; k < width; k += 32) {
        double c = exact_centre ? exact_centre[k] : centre ? (double)centre[k] : 0.0;
        double u = factor * ((double)r[k] - c);
        to[(i64)row * width + k] = u;
        sum = fma(u, u, sum);
    }
    if (!squares) return;
    sum = over_warp(sum);
    if (lane == 0) squares[row] = sum;
}

// The value of a pair from its product g.
template <int KIND>
static __device__ __forceinline__ double value(const Function& f, double g, double own, double other, const float* x, const float* y,
                                               int width) {
    if (KIND == POLYNOMIAL) return powered(f.a * g + f.b, f.power);
    if (KIND == COSINE) return powered(fmin(1.0, fmax(-1.0, g / (sqrt(own) * sqrt(other)))), f.power);
    double both = own + other;
    g = fma(-2.0, g, both);
    if (!(g > MIN_SHARE * both)) g = in_double<false>(x, y, width).x;
    return KIND == GAUSSIAN ? exp(-f.a * g) : KIND == LAPLACIAN ? exp(-f.a * sqrt(g)) : g;
}

// From products g[row][column] of a tile: row_part[block of 128 columns][row], the sums of values of the row over the block, and
// column_part[block of 64 rows][column], if asked for. On the diagonal, a row is not paired with itself. `pitch` and
// addresses are even. Distances need squares of centred rows, the cosine of rows. Grid (ceil(columns/128), ceil(rows/64)),
// 256 threads.
template <int KIND>
static __device__ __forceinline__ void sums_of_tile(const double* __restrict__ g, i64 pitch, int rows, int columns,
                                                    const double* __restrict__ x_square, const double* __restrict__ y_square,
                                                    const float* __restrict__ x, const float* __restrict__ y, int width,
                                                    const Function& f, int diagonal, double* __restrict__ row_part, i64 row_stride,
                                                    double* __restrict__ column_part, i64 column_stride) {
    __shared__ double of_columns[8][128];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row0 = blockIdx.y * 64 + warp * 8;
    double others[4], sums[4] = {0, 0, 0, 0};
    int at[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        at[j] = blockIdx.x * 128 + (j >> 1) * 64 + lane * 2 + (j & 1);
        others[j] = y_square && at[j] < columns ? y_square[at[j]] : 0.0;
    }
#pragma unroll 2
    for (int i = 0; i < 8; ++i) {
        int row = row0 + i;
        if (row >= rows) break;
        const double* line = g + (i64)row * pitch;
        double products[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            double2 two = at[2 * half] < columns ? __ldcs((const double2*)(line + at[2 * half])) : make_double2(0, 0);
            products[2 * half] = two.x;
            products[2 * half + 1] = two.y;
        }
        double own = x_square ? x_square[row] : 0.0, sum = 0.0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (at[j] >= columns || (diagonal && at[j] == row)) continue;
            double k = value<KIND>(f, products[j], own, others[j], x + (i64)row * width, y + (i64)at[j] * width, width);
            sum += k;
            sums[j] += k;
        }
        sum = over_warp(sum);
        if (lane == 0) row_part[blockIdx.x * row_stride + row] = sum;
    }
    if (!column_part) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) of_columns[warp][(j >> 1) * 64 + lane * 2 + (j & 1)] = sums[j];
    __syncthreads();
    int column = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x < 128 && column < columns) {
        double sum = 0.0;
#pragma unroll
        for (int w = 0; w < 8; ++w) sum += of_columns[w][threadIdx.x];
        column_part[blockIdx.y * column_stride + column] = sum;
    }
}
#define TILE_SUMS(NAME, KIND) \
    extern "C" __global__ void __launch_bounds__(256) NAME( \
        const double* __restrict__ g, i64 pitch, int rows, int columns, const double* __restrict__ x_square, \
        const double* __restrict__ y_square, const float* __restrict__ x, const float* __restrict__ y, int width, Function f, \
        int diagonal, double* __restrict__ row_part, i64 row_stride, double* __restrict__ column_part, i64 column_stride) { \
        sums_of_tile<KIND>(g, pitch, rows, columns, x_square, y_square, x, y, width, f, diagonal, row_part, row_stride, \
                           column_part, column_stride); \
    }
TILE_SUMS(tile_gaussian, GAUSSIAN)
TILE_SUMS(tile_laplacian, LAPLACIAN)
TILE_SUMS(tile_polynomial, POLYNOMIAL)
TILE_SUMS(tile_cosine, COSINE)
TILE_SUMS(tile_plain, PLAIN)

// The same values in the place of the products, with those of a row with itself. Grid (ceil(columns/128), rows), 128 threads.
extern "C" __global__ void tile_values(double* __restrict__ g, i64 pitch, int columns, const double* __restrict__ x_square,
                                       const double* __restrict__ y_square, const float* __restrict__ x,
                                       const float* __restrict__ y, int width, Function f) {
    int row = blockIdx.y, column = blockIdx.x * 128 + threadIdx.x;
    if (column >= columns) return;
    double* to = g + row * pitch + column;
    double own = x_square ? x_square[row] : 0.0, other = y_square ? y_square[column] : 0.0;
    const float *a = x + (i64)row * width, *b = y + (i64)column * width;
    switch (f.kind) {
        case GAUSSIAN: *to = value<GAUSSIAN>(f, *to, own, other, a, b, width); break;
        case LAPLACIAN: *to = value<LAPLACIAN>(f, *to, own, other, a, b, width); break;
        case POLYNOMIAL: *to = value<POLYNOMIAL>(f, *to, own, other, a, b, width); break;
        case COSINE: *to = value<COSINE>(f, *to, own, other, a, b, width); break;
        default: *to = value<PLAIN>(f, *to, own, other, a, b, width);
    }
}

// out[row] += Σ over blocks of part[block][row], in their order.
extern "C" __global__ void add_parts(const double* __restrict__ part, int blocks, i64 stride, int rows, double* __restrict__ out) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0.0;
    for (int block = 0; block < blocks; ++block) sum += part[block * stride + row];
    out[row] += sum;
}

// part[slice][column] = Σ of the column over `length` rows. Grid (ceil(width/128), slices), 128 threads.
extern "C" __global__ void column_sums(const float* __restrict__ x, int rows, int width, int length, double* __restrict__ part) {
    int column = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * length;
    if (column >= width) return;
    double sum = 0.0;
    for (int row = first; row < min(first + length, rows); ++row) sum += x[(i64)row * width + column];
    part[(i64)blockIdx.y * width + column] = sum;
}

// out[line] = Σ over k of weights[k] values[line][k]², lines of `count` values. One warp per line, 256 threads.
extern "C" __global__ void weighted_squares(const double* __restrict__ values, int lines, int count,
                                            const double* __restrict__ weights, double* __restrict__ out) {
    int line = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (line >= lines) return;
    double sum = 0.0;
    for (int k = lane; k < count; k += 32) {
        double v = values[(i64)line * count + k];
        sum = fma(weights[k] * v, v, sum);
    }
    sum = over_warp(sum);
    if (lane == 0) out[line] = sum;
}

// out[line] += factor · Σ over k of a[line·a_stride + k] b[line·b_stride + k]. One block of 256 threads per line.
extern "C" __global__ void line_products(const double* __restrict__ a, i64 a_stride, const double* __restrict__ b, i64 b_stride,
                                         int count, double factor, double* __restrict__ out) {
    __shared__ double of_warps[8];
    double sum = 0.0;
    for (int k = threadIdx.x; k < count; k += 256) sum = fma(a[blockIdx.x * a_stride + k], b[blockIdx.x * b_stride + k], sum);
    sum = over_warp(sum);
    if ((threadIdx.x & 31) == 0) of_warps[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0;
        for (int w = 0; w < 8; ++w) sum += of_warps[w];
        out[blockIdx.x] += factor * sum;
    }
}

// The upper triangle of a square matrix becomes the mirror image of the lower one. Grid (size, ceil(size/256)).
extern "C" __global__ void mirror(double* __restrict__ matrix, int size) {
    int row = blockIdx.y * blockDim.x + threadIdx.x, column = blockIdx.x;
    if (row < column) matrix[(i64)column * size + row] = matrix[(i64)row * size + column];
}
