// Types and kernels of the library, shared by the exact kernels. It stands before each of their files; no includes.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum Kind { GAUSSIAN = 0, LAPLACIAN = 1, POLYNOMIAL = 2, COSINE = 3, PLAIN = 4 };

// A kernel of the library: GAUSSIAN exp(-a g), LAPLACIAN exp(-a √g), POLYNOMIAL (a g + b)^power, COSINE g^power, PLAIN g.
struct Function {
    double a, b;
    int kind, power;
};

static __device__ __forceinline__ double powered(double v, int power) {
    double k = 1.0;
    for (int e = power; e; e >>= 1) {
        if (e & 1) k *= v;
        v *= v;
    }
    return k;
}
