// Exact kernels on tiles of pairs: differences or products of rows without centring, in single precision summed in double
// (float) or all in double precision (double). Sums, single values, distances, balls and neighbours. They are also what the
// fused kernels are checked with, and used if these are not accurate enough.
//
// Rows are given by addresses: x_at[row], y_at[column]. Blocks of 128 threads compute tiles of 64 x 32 pairs, 4 x 4 each.

// Not inlined, as are others that every thread calls for each of its sixteen pairs: the compiler took 20 s for it.
static __device__ __noinline__ double evaluate(const Function& f, double g) {
    switch (f.kind) {
        case GAUSSIAN: return exp(-f.a * g);
        case LAPLACIAN: return exp(-f.a * sqrt(g));
        case POLYNOMIAL: return powered(f.a * g + f.b, f.power);
        case COSINE: return powered(fmin(1.0, fmax(-1.0, g)), f.power);
        default: return g;
    }
}

// What errors are relative to: the larger of |k| and its change if the distance, or Σ|xᵢyᵢ|, doubles.
static __device__ __noinline__ double magnitude(const Function& f, double g, double k, double parts) {
    switch (f.kind) {
        case GAUSSIAN: return k * fmax(1.0, f.a * g);
        case LAPLACIAN: return k * fmax(1.0, 0.5 * f.a * sqrt(g));
        case POLYNOMIAL: return fmax(fabs(k), f.power * powered(fabs(f.a * g + f.b), f.power - 1) * f.a * parts);
        case COSINE: return fmax(fabs(k), f.power * powered(fabs(g), f.power - 1) * parts);
        default: return fabs(k);
    }
}

template <class T> struct Depth { static const int value = 32; };
template <> struct Depth<double> { static const int value = 16; };

// 68 and 36: 16-byte rows of other banks.
template <class T> struct Shared {
    T a[2][Depth<T>::value][68];
    T b[2][Depth<T>::value][36];
};

// Single precision loses squares beyond 1e±19; their sums are then not between these.
static __device__ __forceinline__ bool is_ordinary(float v) { return v > 1e-28f && v < 1e37f; }

// ‖a-b‖², or a·b and Σ|aᵢbᵢ|.
template <bool PRODUCT>
static __device__ __noinline__ double2 in_double(const float* a, const float* b, int width) {
    double exact = 0.0, all = 0.0;
    for (int k = 0; k < width; ++k) {
        double u = a[k], v = b[k];
        exact = PRODUCT ? fma(u, v, exact) : fma(u - v, u - v, exact);
        if (PRODUCT) all = fma(fabs(u), fabs(v), all);
    }
    return make_double2(exact, all);
}

// g[i][j] of rows row0 + 4·ty + i and columns column0 + 4·tx + j; parts are Σ|xᵢyᵢ|. Rows and columns beyond the last repeat it.
template <class T, bool PRODUCT, bool PARTS>
static __device__ __forceinline__ void tile(Shared<T>& shared, const u64* __restrict__ x_at, int row0, int rows,
                                            const u64* __restrict__ y_at, int column0, int columns, int width,
                                            double (&g)[4][4], double (&parts)[4][4]) {
    const int D = Depth<T>::value, QUADS = D / 4, STEP = 128 / QUADS;
    int tx = threadIdx.x & 7, ty = threadIdx.x >> 3, quad = 4 * (threadIdx.x % QUADS), lead = threadIdx.x / QUADS;
    const float *xs[64 / STEP], *ys[32 / STEP];
#pragma unroll
    for (int i = 0; i < 64 / STEP; ++i) xs[i] = (const float*)x_at[min(row0 + i * STEP + lead, rows - 1)];
#pragma unroll
    for (int i = 0; i < 32 / STEP; ++i) ys[i] = (const float*)y_at[min(column0 + i * STEP + lead, columns - 1)];
    float4 la[64 / STEP], lb[32 / STEP];
    auto one = [&](const float* r, int k) {
        if ((width & 3) == 0) return k < width ? __ldg((const float4*)(r + k)) : make_float4(0, 0, 0, 0);
        return make_float4(k < width ? __ldg(r + k) : 0.0f, k + 1 < width ? __ldg(r + k + 1) : 0.0f,
                           k + 2 < width ? __ldg(r + k + 2) : 0.0f, k + 3 < width ? __ldg(r + k + 3) : 0.0f);
    };
    auto fetch = [&](int k) {
#pragma unroll
        for (int i = 0; i < 64 / STEP; ++i) la[i] = one(xs[i], k + quad);
#pragma unroll
        for (int i = 0; i < 32 / STEP; ++i) lb[i] = one(ys[i], k + quad);
    };
    auto store = [&](int s) {
#pragma unroll
        for (int i = 0; i < 64 / STEP; ++i) {
            int r = i * STEP + lead;
            shared.a[s][quad][r] = la[i].x; shared.a[s][quad + 1][r] = la[i].y;
            shared.a[s][quad + 2][r] = la[i].z; shared.a[s][quad + 3][r] = la[i].w;
        }
#pragma unroll
        for (int i = 0; i < 32 / STEP; ++i) {
            int r = i * STEP + lead;
            shared.b[s][quad][r] = lb[i].x; shared.b[s][quad + 1][r] = lb[i].y;
            shared.b[s][quad + 2][r] = lb[i].z; shared.b[s][quad + 3][r] = lb[i].w;
        }
    };
    T sum[4][4], part[4][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        sum[i >> 2][i & 3] = part[i >> 2][i & 3] = 0;
        g[i >> 2][i & 3] = parts[i >> 2][i & 3] = 0.0;
    }
    fetch(0);
    store(0);
    __syncthreads();
    for (int k0 = 0, s = 0; k0 < width; k0 += D, s ^= 1) {
        if (k0 + D < width) fetch(k0 + D);
#pragma unroll 8
        for (int k = 0; k < D; ++k) {
            T pa[4], qb[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) { pa[i] = shared.a[s][k][ty * 4 + i]; qb[i] = shared.b[s][k][tx * 4 + i]; }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if (PRODUCT) {
                        sum[i][j] = fma(pa[i], qb[j], sum[i][j]);
                        if (PARTS) part[i][j] = fma(pa[i] < 0 ? -pa[i] : pa[i], qb[j] < 0 ? -qb[j] : qb[j], part[i][j]);
                    } else {
                        T d = pa[i] - qb[j];
                        sum[i][j] = fma(d, d, sum[i][j]);
                    }
                }
        }
        if (sizeof(T) == 8 ? k0 + D >= width : (k0 & 32) == 32 || k0 + D >= width) {
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                g[i >> 2][i & 3] += sum[i >> 2][i & 3];
                sum[i >> 2][i & 3] = 0;
                if (PARTS) { parts[i >> 2][i & 3] += part[i >> 2][i & 3]; part[i >> 2][i & 3] = 0; }
            }
        }
        if (k0 + D < width) store(s ^ 1);
        __syncthreads();
    }
    if (sizeof(T) == 4) {  // values whose squares are no floats, and equal rows: again in double precision
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float size = PRODUCT && PARTS ? (float)parts[i][j] : fabsf((float)g[i][j]);
                if (is_ordinary(size)) continue;
                const float* a = (const float*)x_at[min(row0 + ty * 4 + i, rows - 1)];
                const float* b = (const float*)y_at[min(column0 + tx * 4 + j, columns - 1)];
                double2 exact = in_double<PRODUCT>(a, b, width);
                g[i][j] = exact.x;
                parts[i][j] = exact.y;
            }
    }
}

// Divides by the norms of the rows, for the cosine.
static __device__ __forceinline__ void by_norms(double (&g)[4][4], double (&parts)[4][4], const double* __restrict__ x_norm,
                                                int row, int rows, const double* __restrict__ y_norm, int column, int columns) {
    if (!x_norm) return;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            double norms = x_norm[min(row + i, rows - 1)] * y_norm[min(column + j, columns - 1)];
            g[i][j] /= norms;
            parts[i][j] /= norms;
        }
}

// Sums over the eight lanes that share rows.
static __device__ __forceinline__ double over_columns(double v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    v += __shfl_xor_sync(0xffffffffu, v, 2);
    return v + __shfl_xor_sync(0xffffffffu, v, 4);
}

// part[slice][row]: the sum of the row over the columns of a slice (first, last); sizes[slice][row]: that of magnitudes.
// self[row] is a column that does not count: the row itself. Grid (ceil(rows/64), slices).
template <class T, bool PRODUCT, bool PARTS>
static __device__ __forceinline__ void sums(const u64* __restrict__ x_at, int rows, const double* __restrict__ x_norm,
                                            const u64* __restrict__ y_at, const double* __restrict__ y_norm,
                                            const int2* __restrict__ slices, int width, Function f, const int* __restrict__ self,
                                            double* __restrict__ part, double* __restrict__ sizes, i64 stride) {
    __shared__ Shared<T> shared;
    int tx = threadIdx.x & 7, ty = threadIdx.x >> 3, row0 = blockIdx.x * 64, row = row0 + ty * 4;
    int2 slice = slices[blockIdx.y];
    double total[4] = {0, 0, 0, 0}, size[4] = {0, 0, 0, 0};
    for (int column0 = slice.x; column0 < slice.y; column0 += 32) {
        double g[4][4], parts[4][4];
        tile<T, PRODUCT, PARTS>(shared, x_at, row0, rows, y_at, column0, slice.y, width, g, parts);
        by_norms(g, parts, x_norm, row, rows, y_norm, column0 + tx * 4, slice.y);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int column = column0 + tx * 4 + j;
                if (column >= slice.y || row + i >= rows || (self && self[row + i] == column)) continue;
                double k = evaluate(f, g[i][j]);
                total[i] += k;
                if (PARTS) size[i] += magnitude(f, g[i][j], k, parts[i][j]);
            }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        double sum = over_columns(total[i]);
        if (tx == 0 && row + i < rows) part[blockIdx.y * stride + row + i] = sum;
        if (PARTS) {
            double all = over_columns(size[i]);
            if (tx == 0 && row + i < rows) sizes[blockIdx.y * stride + row + i] = all;
        }
    }
}
#define SUMS(NAME, T, PRODUCT, PARTS) \
    extern "C" __global__ void __launch_bounds__(128) NAME( \
        const u64* __restrict__ x_at, int rows, const double* __restrict__ x_norm, const u64* __restrict__ y_at, \
        const double* __restrict__ y_norm, const int2* __restrict__ slices, int width, Function f, const int* __restrict__ self, \
        double* __restrict__ part, double* __restrict__ sizes, i64 stride) { \
        sums<T, PRODUCT, PARTS>(x_at, rows, x_norm, y_at, y_norm, slices, width, f, self, part, sizes, stride); \
    }
SUMS(sums_distance, double, false, false)
SUMS(sums_product, double, true, false)
SUMS(check_distance, float, false, true)
SUMS(check_product, float, true, true)

// out[set][row] and out[sets + set][row] = Σ over the set's slices of part[slice][row] and sizes[slice][row], 32 slices at a time
// and then in a tree: for a few rows and many slices. Grid (rows, sets), 64 threads: a warp for each of both.
extern "C" __global__ void fold_check(const double* __restrict__ part, const double* __restrict__ sizes, int rows,
                                      const int* __restrict__ set_slice, double* __restrict__ out) {
    int row = blockIdx.x, set = blockIdx.y, which = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const double* from = which ? sizes : part;
    double sum = 0.0;
    for (int slice = set_slice[set] + lane; slice < set_slice[set + 1]; slice += 32) sum += from[(i64)slice * rows + row];
#pragma unroll
    for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    if (lane == 0) out[(i64)(which * gridDim.y + set) * rows + row] = sum;
}

// out[set][row] = Σ over the set's slices of part[slice][row], in their order. Grid (ceil(rows/128), sets), 128 threads.
extern "C" __global__ void fold_slices(const double* __restrict__ part, int rows, i64 stride, const int* __restrict__ set_slice,
                                       double* __restrict__ out, i64 out_stride) {
    int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    double sum = 0.0;
    for (int slice = set_slice[blockIdx.y]; slice < set_slice[blockIdx.y + 1]; ++slice) sum += part[slice * stride + row];
    out[blockIdx.y * out_stride + row] = sum;
}

// out[row][column] = f of the pair, in the precision of its distance. Grid (ceil(columns/32), ceil(rows/64)).
template <class T, bool PRODUCT>
static __device__ __forceinline__ void values(const u64* __restrict__ x_at, int rows, const double* __restrict__ x_norm,
                                              const u64* __restrict__ y_at, int columns, const double* __restrict__ y_norm,
                                              int width, Function f, T* __restrict__ out) {
    __shared__ Shared<T> shared;
    int row = blockIdx.y * 64 + (threadIdx.x >> 3) * 4, column = blockIdx.x * 32 + (threadIdx.x & 7) * 4;
    double g[4][4], parts[4][4];
    tile<T, PRODUCT, false>(shared, x_at, blockIdx.y * 64, rows, y_at, blockIdx.x * 32, columns, width, g, parts);
    by_norms(g, parts, x_norm, row, rows, y_norm, column, columns);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (row + i < rows && column + j < columns) out[(i64)(row + i) * columns + column + j] = (T)evaluate(f, g[i][j]);
}
#define VALUES(NAME, T, PRODUCT) \
    extern "C" __global__ void __launch_bounds__(128) NAME( \
        const u64* __restrict__ x_at, int rows, const double* __restrict__ x_norm, const u64* __restrict__ y_at, int columns, \
        const double* __restrict__ y_norm, int width, Function f, T* __restrict__ out) { \
        values<T, PRODUCT>(x_at, rows, x_norm, y_at, columns, y_norm, width, f, out); \
    }
VALUES(values_distance, double, false)
VALUES(values_product, double, true)

// Points in balls, in double precision. counts[row] += the number of columns whose ball, column_radii, contains the row;
// masses[slice][row] = Σ of weights of the columns in the row's own ball, row_radii. Either may be absent: 0.
// Grid (ceil(rows/64), slices).
extern "C" __global__ void __launch_bounds__(128)
    balls(const u64* __restrict__ x_at, int rows, const double* __restrict__ row_radii, const u64* __restrict__ y_at,
          const double* __restrict__ column_radii, const double* __restrict__ weights, const int2* __restrict__ slices,
          int width, u32* __restrict__ counts, double* __restrict__ masses, i64 stride) {
    __shared__ Shared<double> shared;
    int tx = threadIdx.x & 7, ty = threadIdx.x >> 3, row0 = blockIdx.x * 64, row = row0 + ty * 4;
    int2 slice = slices[blockIdx.y];
    u32 count[4] = {0, 0, 0, 0};
    double mass[4] = {0, 0, 0, 0};
    for (int column0 = slice.x; column0 < slice.y; column0 += 32) {
        double g[4][4], parts[4][4];
        tile<double, false, false>(shared, x_at, row0, rows, y_at, column0, slice.y, width, g, parts);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int column = column0 + tx * 4 + j;
                if (column >= slice.y || row + i >= rows) continue;
                if (column_radii) count[i] += g[i][j] < column_radii[column];
                if (row_radii && g[i][j] < row_radii[row + i]) mass[i] += weights[column];
            }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (column_radii && count[i]) atomicAdd(counts + row + i, count[i]);  // integers: any order
        if (row_radii) {
            double sum = over_columns(mass[i]);
            if (tx == 0 && row + i < rows) masses[blockIdx.y * stride + row + i] = sum;
        }
    }
}

// The k least of every line of distances, nearest first, ties in the order of columns; line i is of row
// own[i], which is not its own neighbour.
// Each round finds the least pair (distance, column) beyond the last one. One warp per row.
extern "C" __global__ void nearest(const double* __restrict__ distances, int rows, int columns,
                                   const int* __restrict__ own, int k, double* __restrict__ near, u32* __restrict__ who) {
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (row >= rows) return;
    const double* line = distances + (i64)row * columns;
    double last = -1.0;
    int last_column = -1, self = own[row];
    for (int round = 0; round < k; ++round) {
        double best = 1.7976931348623157e308;
        int at = columns;
        for (int column = lane; column < columns; column += 32) {
            double d = line[column];
            if (column == self || d < last || (d == last && column <= last_column)) continue;
            if (at == columns || d < best) { best = d; at = column; }
        }
#pragma unroll
        for (int s = 16; s; s >>= 1) {
            double other = __shfl_xor_sync(0xffffffffu, best, s);
            int other_at = __shfl_xor_sync(0xffffffffu, at, s);
            if (other_at < columns && (at == columns || other < best || (other == best && other_at < at))) {
                best = other;
                at = other_at;
            }
        }
        if (lane == 0) { near[(i64)row * k + round] = best; who[(i64)row * k + round] = (u32)at; }
        last = best;
        last_column = at;
    }
}
