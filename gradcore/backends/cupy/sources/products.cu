// Products of batches of matrices: of integers, which cuBLAS does not multiply, and of all dtypes while a graph is
// captured.
//
// GRADCORE_TYPE is the type of the arrays; GRADCORE_COMPLEX is defined if it is complex. Operands may have any strides,
// and can be conjugated when they are read. A block computes a tile of the result. Each thread computes 4 x 4 numbers
// of it, and sums in registers in the order of the inner dim, so that equal calls give equal bits.

#ifdef GRADCORE_COMPLEX
#include "complex.cuh"
#else
#include "numbers.cuh"
#endif

using namespace gradcore;
using T = GRADCORE_TYPE;

namespace gradcore {

// The type in which sums of products are computed. Integers wrap around.
template <class N>
struct Summed {
    using type = typename Computed<N>::type;
};
template <>
struct Summed<i8> {
    using type = u32;
};
template <>
struct Summed<u8> {
    using type = u32;
};
template <>
struct Summed<i16> {
    using type = u32;
};
template <>
struct Summed<u16> {
    using type = u32;
};
template <>
struct Summed<i32> {
    using type = u32;
};
template <>
struct Summed<u32> {
    using type = u32;
};
template <>
struct Summed<i64> {
    using type = u64;
};
template <>
struct Summed<u64> {
    using type = u64;
};

template <class N>
GRADCORE_FUNCTION N conjugated(N x) {
    return x;
}
#ifdef GRADCORE_COMPLEX
template <class N>
GRADCORE_FUNCTION complex<N> conjugated(complex<N> x) {
    return complex<N>(x.real(), -x.imag());
}
#endif

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, EACH = TILE / SIDE;

// A matrix of one operand. `row` and `column` are its strides.
struct Matrix {
    const T* start;
    i64 rows, columns, row, column;
    bool conjugate;

    // Read TILE rows and DEPTH columns into `tile`, a column after the other; zeros beyond the matrix. Neighbouring
    // threads read what lies closest together.
    template <class A>
    GRADCORE_FUNCTION void read(A (&tile)[DEPTH][TILE + 1], i64 first_row, i64 first_column, int thread) const {
        const bool along_rows = column <= row;
        GRADCORE_ROLLED for (int i = thread; i < TILE * DEPTH; i += SIDE * SIDE) {  // unrolled, it takes 160 registers
            const int r = along_rows ? i / DEPTH : i % TILE, c = along_rows ? i % DEPTH : i / TILE;
            const i64 y = first_row + r, x = first_column + c;
            A value = A(0);
            if (y < rows && x < columns) value = static_cast<A>(load(start[y * row + x * column]));
            tile[c][r] = conjugate ? conjugated(value) : value;
        }
    }
};

}  // namespace gradcore

// out = a @ b for `n0 * n1 * n2` pairs of matrices, which lie a0, a1, a2 and b0, b1, b2 apart; `out` is dense.
extern "C" __global__ void __launch_bounds__(256) product(
    const T* a, const T* b, T* out, const i64 m, const i64 n, const i64 k, const i64 a_row, const i64 a_column,
    const i64 b_row, const i64 b_column, const bool conjugate_a, const bool conjugate_b, const i64 n0, const i64 n1,
    const i64 n2, const i64 a0, const i64 a1, const i64 a2, const i64 b0, const i64 b1, const i64 b2) {
    using A = Summed<T>::type;
    __shared__ A left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const int thread = threadIdx.y * SIDE + threadIdx.x;
    const i64 across = (n + TILE - 1) / TILE;
    const i64 row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
    for (i64 batch = blockIdx.y; batch < n0 * n1 * n2; batch += gridDim.y) {
        const i64 i2 = batch % n2, i1 = batch / n2 % n1, i0 = batch / n2 / n1;
        const Matrix of_a = {a + i0 * a0 + i1 * a1 + i2 * a2, m, k, a_row, a_column, conjugate_a};
        const Matrix of_b = {b + i0 * b0 + i1 * b1 + i2 * b2, n, k, b_column, b_row, conjugate_b};
        A sums[EACH][EACH];
        for (int i = 0; i < EACH; ++i)
            for (int j = 0; j < EACH; ++j) sums[i][j] = A(0);
        for (i64 start = 0; start < k; start += DEPTH) {
            __syncthreads();  // all threads have read the former content
            of_a.read(left, row, start, thread);
            of_b.read(right, column, start, thread);
            __syncthreads();
            for (int depth = 0; depth < DEPTH; ++depth) {
                A x[EACH], y[EACH];
                for (int i = 0; i < EACH; ++i) x[i] = left[depth][threadIdx.y + SIDE * i];
                for (int j = 0; j < EACH; ++j) y[j] = right[depth][threadIdx.x + SIDE * j];
                for (int i = 0; i < EACH; ++i)
                    for (int j = 0; j < EACH; ++j) sums[i][j] = plus_product(sums[i][j], x[i], y[j]);
            }
        }
        for (int i = 0; i < EACH; ++i)
            for (int j = 0; j < EACH; ++j) {
                const i64 r = row + threadIdx.y + SIDE * i, c = column + threadIdx.x + SIDE * j;
                if (r < m && c < n) out[(batch * m + r) * n + c] = store<T>(sums[i][j]);
            }
    }
}
