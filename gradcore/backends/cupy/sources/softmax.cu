// Softmax and log_softmax along a dim of dense arrays, and the products with their Jacobian matrices.
//
// GRADCORE_TYPE is the type of the arrays. Along the last dim, a block or, for short rows, a warp computes a row
// (kernels named rows). Along another dim, a thread computes a column, and neighbouring threads read neighbours.

#include "rows.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;


extern "C" __global__ void softmax_rows(const T* x, T* y, const i64 rows, const i64 n, const bool logarithm) {
    const i64 number = row_index();
    if (number >= rows) return;
    x += number * n;
    y += number * n;
    constexpr int lanes = HeldRow<T>::lanes;
    const bool packed = n % lanes == 0 && aligned(x, y);
    const HeldRow<T> row(x, n, packed);
    A top = -infinity<A>(), total = 0;
    walk<lanes>(n, packed, [&](Place place, i64 i) {
        const auto some = row.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) top = Largest()(top, load(some.items[j]));
    });
    top = row_largest(top);
    walk<lanes>(n, packed, [&](Place place, i64 i) {
        const auto some = row.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) total += exp(load(some.items[j]) - top);
    });
    total = row_sum(total);
    const A shift = logarithm ? log(total) : A(0);
    walk<lanes>(n, packed, [&](Place place, i64 i) {
        auto some = row.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A value = load(some.items[j]);
            some.items[j] = store<T>(logarithm ? value - top - shift : exp(value - top) / total);
        }
        put(y, place, i, some);
    });
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

// Compute the gradient of the argument from that of the result y: y * (t - sum(t * y)), or t - exp(y) * sum(t) for the
// logarithm.
extern "C" __global__ void softmax_backward_rows(const T* t, const T* y, T* out, const i64 rows, const i64 n,
                                                 const bool logarithm) {
    const i64 number = row_index();
    if (number >= rows) return;
    t += number * n;
    y += number * n;
    out += number * n;
    constexpr int lanes = HeldRow<T>::lanes;
    const bool packed = n % lanes == 0 && aligned(t, y, out);
    const HeldRow<T> grads(t, n, packed), values(y, n, packed);
    A total = 0;
    walk<lanes>(n, packed, [&](Place place, i64 i) {
        const auto grad = grads.at(place, i), value = values.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j)
            total += logarithm ? load(grad.items[j]) : load(grad.items[j]) * load(value.items[j]);
    });
    total = row_sum(total);
    walk<lanes>(n, packed, [&](Place place, i64 i) {
        auto some = grads.at(place, i);
        const auto result = values.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A grad = load(some.items[j]), value = load(result.items[j]);
            some.items[j] = store<T>(logarithm ? grad - exp(value) * total : (grad - total) * value);
        }
        put(out, place, i, some);
    });
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
