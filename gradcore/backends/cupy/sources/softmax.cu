// Softmax and log_softmax along a dim of dense arrays, and the products with their Jacobian matrices.
//
// GRADCORE_TYPE is the numbers' type. Along the last dim a row belongs to a block or, if it is short, to a warp (the kernels
// named rows); along another dim each thread goes down a column, and neighbouring threads read neighbouring columns.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;


extern "C" __global__ void softmax_rows(const T* x, T* y, const i64 rows, const i64 n, const bool logarithm) {
    const i64 row = row_index();
    if (row >= rows) return;
    x += row * n;
    y += row * n;
    A top = -infinity<A>(), total = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) top = Largest()(top, load(x[i]));
    top = row_largest(top);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) total += exp(load(x[i]) - top);
    total = row_sum(total);
    const A shift = logarithm ? log(total) : A(0);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        const A value = load(x[i]);
        y[i] = store<T>(logarithm ? value - top - shift : exp(value - top) / total);
    }
}

extern "C" __global__ void softmax_columns(const T* x, T* y, const i64 columns, const i64 n, const i64 inner,
                                           const bool logarithm) {
    for (i64 column = first_index(); column < columns; column += index_step()) {
        const i64 start = column / inner * n * inner + column % inner;
        A top = -infinity<A>(), total = 0;
        for (i64 i = 0; i < n; ++i) top = Largest()(top, load(x[start + i * inner]));
        for (i64 i = 0; i < n; ++i) total += exp(load(x[start + i * inner]) - top);
        const A shift = logarithm ? log(total) : A(0);
        for (i64 i = 0; i < n; ++i) {
            const A value = load(x[start + i * inner]);
            y[start + i * inner] = store<T>(logarithm ? value - top - shift : exp(value - top) / total);
        }
    }
}

// The gradient by the argument, from that by the result y: y * (t - sum(t * y)), or for the logarithm t - exp(y) * sum(t).
extern "C" __global__ void softmax_backward_rows(const T* t, const T* y, T* out, const i64 rows, const i64 n,
                                                 const bool logarithm) {
    const i64 row = row_index();
    if (row >= rows) return;
    t += row * n;
    y += row * n;
    out += row * n;
    A total = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) total += logarithm ? load(t[i]) : load(t[i]) * load(y[i]);
    total = row_sum(total);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        const A grad = load(t[i]), value = load(y[i]);
        out[i] = store<T>(logarithm ? grad - exp(value) * total : (grad - total) * value);
    }
}

extern "C" __global__ void softmax_backward_columns(const T* t, const T* y, T* out, const i64 columns, const i64 n,
                                                    const i64 inner, const bool logarithm) {
    for (i64 column = first_index(); column < columns; column += index_step()) {
        const i64 start = column / inner * n * inner + column % inner;
        A total = 0;
        for (i64 i = 0; i < n; ++i) {
            const i64 place = start + i * inner;
            total += logarithm ? load(t[place]) : load(t[place]) * load(y[place]);
        }
        for (i64 i = 0; i < n; ++i) {
            const i64 place = start + i * inner;
            const A grad = load(t[place]), value = load(y[place]);
            out[place] = store<T>(logarithm ? grad - exp(value) * total : (grad - total) * value);
        }
    }
}
