// Kernels of rows, of a weight for each of their elements, and of planes, the rows of channels, of a number for each.
//
// A kernel works on the rows from `start` to before `stop` of contiguous matrices. What it reads comes first in its
// arguments, what it writes last. Sums are taken in lanes over some elements at a time, and in double precision over
// these sums.

#include <utility>

#include "elements.h"

namespace gradcore {

// The sum of `value(i)` for all `i` below n, taken in lanes of type S over some of them at a time.
template <class S, class F>
inline double sum_of(i64 n, F value) {
    constexpr i64 some = 1024;
    double total = 0;
    for (i64 start = 0; start < n; start += some) {
        const i64 stop = start + some < n ? start + some : n;
        S sum = 0;
#pragma omp simd reduction(+ : sum)
        for (i64 i = start; i < stop; ++i) sum += value(i);
        total += sum;
    }
    return total;
}

// The largest of numbers; NaN are left out.
template <class T>
inline T largest(const T* x, i64 n) {
    constexpr i64 lanes = 32;
    T top[lanes];
    for (i64 k = 0; k < lanes; ++k) top[k] = -infinity<T>();
    i64 i = 0;
    for (; i + lanes <= n; i += lanes) {
#pragma omp simd
        for (i64 k = 0; k < lanes; ++k) top[k] = chosen(x[i + k] > top[k], x[i + k], top[k]);
    }
    for (; i < n; ++i) top[0] = x[i] > top[0] ? x[i] : top[0];
    for (i64 k = 1; k < lanes; ++k) top[0] = top[k] > top[0] ? top[k] : top[0];
    return top[0];
}

// out = exp(x - top), and its sum. Where the logarithm of the sum is the result, S is double: it may be close to one.
template <class S, class T>
inline T exponentials(const T* x, i64 n, T top, T* out) {
    return static_cast<T>(sum_of<S>(n, [=](i64 i) { return out[i] = exp(x[i] - top); }));
}

// ------------------------------------------------------------------------------------------------------------- softmax

template <class T>
void softmax(i64 start, i64 stop, i64 width, const T* x, T* out) {
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T* b = out + row * width;
        const T total = exponentials<T>(a, width, largest(a, width), b);
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] /= total;
    }
}

template <class T>
void softmax_backward(i64 start, i64 stop, i64 width, const T* t, const T* y, T* out) {
    for (i64 row = start; row < stop; ++row) {
        const T *a = t + row * width, *b = y + row * width;
        T* c = out + row * width;
        const T dot = static_cast<T>(sum_of<T>(width, [=](i64 i) { return a[i] * b[i]; }));
#pragma omp simd
        for (i64 i = 0; i < width; ++i) c[i] = (a[i] - dot) * b[i];
    }
}

template <class T>
void log_softmax(i64 start, i64 stop, i64 width, const T* x, T* out) {
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T* b = out + row * width;
        const T top = largest(a, width);
        const T total = log(static_cast<T>(sum_of<double>(width, [=](i64 i) { return exp(a[i] - top); })));
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = (a[i] - top) - total;
    }
}

template <class T>
void log_softmax_backward(i64 start, i64 stop, i64 width, const T* t, const T* y, T* out) {
    for (i64 row = start; row < stop; ++row) {
        const T *a = t + row * width, *b = y + row * width;
        T* c = out + row * width;
        const T total = static_cast<T>(sum_of<T>(width, [=](i64 i) { return a[i]; }));
#pragma omp simd
        for (i64 i = 0; i < width; ++i) c[i] = a[i] - exp(b[i]) * total;
    }
}

// The exponentials of rows less their largest elements, these, and the exponentials' sums.
template <class T>
void row_powers(i64 start, i64 stop, i64 width, const T* x, T* powers, T* top, T* total) {
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        top[row] = largest(a, width);
        total[row] = exponentials<double>(a, width, top[row], powers + row * width);
    }
}

// ------------------------------------------------------------------------------------------------------- normalization

template <class T>
inline void statistics_of(const T* x, i64 width, T& mean, T& variance) {
    const T center = static_cast<T>(sum_of<T>(width, [=](i64 i) { return x[i]; }) / width);
    const double squares = sum_of<T>(width, [=](i64 i) { return (x[i] - center) * (x[i] - center); });
    mean = center;
    variance = static_cast<T>(squares / width);
}

template <class T>
void row_statistics(i64 start, i64 stop, i64 width, const T* x, T* mean, T* variance) {
    for (i64 row = start; row < stop; ++row) statistics_of(x + row * width, width, mean[row], variance[row]);
}

template <class T>
void layer_norm(i64 start, i64 stop, i64 width, const T* x, const T* weight, const T* bias, const T* eps, T* out, T* mean,
                T* variance) {
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T* b = out + row * width;
        statistics_of(a, width, mean[row], variance[row]);
        const T center = mean[row], scale = 1 / sqrt(variance[row] + *eps);
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = (a[i] - center) * scale * weight[i] + bias[i];
    }
}

// `to_weight` and `to_bias` are sums over these rows.
template <class T>
void layer_norm_backward(i64 start, i64 stop, i64 width, const T* grad, const T* x, const T* weight, const T* mean,
                         const T* variance, const T* eps, T* out, T* to_weight, T* to_bias) {
#pragma omp simd
    for (i64 i = 0; i < width; ++i) to_weight[i] = to_bias[i] = 0;
    for (i64 row = start; row < stop; ++row) {
        const T *g = grad + row * width, *a = x + row * width;
        T* b = out + row * width;
        const T center = mean[row], scale = 1 / sqrt(variance[row] + *eps);
        const double along_x = sum_of<T>(width, [=](i64 i) {
            to_weight[i] += g[i] * (a[i] - center) * scale;
            return g[i] * weight[i] * (a[i] - center);
        });
        const double along_one = sum_of<T>(width, [=](i64 i) {
            to_bias[i] += g[i];
            return g[i] * weight[i];
        });
        const T slope = static_cast<T>(along_x / width) * (scale * scale * scale);
        const T shift = static_cast<T>(along_one / width) * scale;
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = g[i] * weight[i] * scale - ((a[i] - center) * slope + shift);
    }
}

// ----------------------------------------------------------------------------------------------------------- planes

// The sums of x less the plane's center, and of the squares.
template <class T>
void plane_moments(i64 start, i64 stop, i64 width, const T* x, const T* center, T* total, T* squares) {
    for (i64 row = start; row < stop; ++row) {
        const T *a = x + row * width, middle = center[row];
        total[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return a[i] - middle; }));
        squares[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return (a[i] - middle) * (a[i] - middle); }));
    }
}

// (x - center) * scale + shift
template <class T>
void plane_line(i64 start, i64 stop, i64 width, const T* x, const T* center, const T* scale, const T* shift, T* out) {
    for (i64 row = start; row < stop; ++row) {
        const T *a = x + row * width, middle = center[row], factor = scale[row], term = shift[row];
        T* b = out + row * width;
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = (a[i] - middle) * factor + term;
    }
}

// The sums of grad, and of grad times x less the plane's center.
template <class T>
void plane_products(i64 start, i64 stop, i64 width, const T* grad, const T* x, const T* center, T* total, T* product) {
    for (i64 row = start; row < stop; ++row) {
        const T *g = grad + row * width, *a = x + row * width, middle = center[row];
        total[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return g[i]; }));
        product[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return g[i] * (a[i] - middle); }));
    }
}

// grad * scale + ((x - center) * slope + shift)
template <class T>
void plane_plane(i64 start, i64 stop, i64 width, const T* grad, const T* x, const T* center, const T* scale,
                 const T* slope, const T* shift, T* out) {
    for (i64 row = start; row < stop; ++row) {
        const T *g = grad + row * width, *a = x + row * width;
        const T middle = center[row], factor = scale[row], along = slope[row], term = shift[row];
        T* b = out + row * width;
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = g[i] * factor + ((a[i] - middle) * along + term);
    }
}

// ------------------------------------------------------------------------------------------------------ cumulative sums

// Some rows at a time, as an addition waits for the one before it.
template <class T, int rows>
inline void accumulate(i64 width, bool reverse, const T* x, T* out) {
    double sums[rows] = {};
    for (i64 k = 0; k < width; ++k) {
        const i64 i = reverse ? width - 1 - k : k;
        for (int row = 0; row < rows; ++row) out[row * width + i] = static_cast<T>(sums[row] += x[row * width + i]);
    }
}

template <class T>
void cumulative_sum(i64 start, i64 stop, i64 width, const T* x, const bool* reverse, T* out) {
    i64 row = start;
    for (; row + 4 <= stop; row += 4) accumulate<T, 4>(width, *reverse, x + row * width, out + row * width);
    for (; row < stop; ++row) accumulate<T, 1>(width, *reverse, x + row * width, out + row * width);
}

}  // namespace gradcore

// Every kernel as a function `(start, stop, width, arrays)` for each type.

namespace {

template <class... A, std::size_t... I>
void call(void (*kernel)(gradcore::i64, gradcore::i64, gradcore::i64, A...), const gradcore::i64* rows, void* const* arrays,
          std::index_sequence<I...>) {
    kernel(rows[0], rows[1], rows[2], static_cast<A>(arrays[I])...);
}

template <class... A>
void call(void (*kernel)(gradcore::i64, gradcore::i64, gradcore::i64, A...), gradcore::i64 start, gradcore::i64 stop,
          gradcore::i64 width, void* const* arrays) {
    const gradcore::i64 rows[] = {start, stop, width};
    call(kernel, rows, arrays, std::index_sequence_for<A...>());
}

}  // namespace

#define KERNEL(name)                                                                                               \
    extern "C" void name##_f(gradcore::i64 start, gradcore::i64 stop, gradcore::i64 width, void* const* arrays) {  \
        call(&gradcore::name<float>, start, stop, width, arrays);                                                  \
    }                                                                                                              \
    extern "C" void name##_d(gradcore::i64 start, gradcore::i64 stop, gradcore::i64 width, void* const* arrays) {  \
        call(&gradcore::name<double>, start, stop, width, arrays);                                                 \
    }

KERNEL(softmax)
KERNEL(softmax_backward)
KERNEL(log_softmax)
KERNEL(log_softmax_backward)
KERNEL(row_powers)
KERNEL(row_statistics)
KERNEL(layer_norm)
KERNEL(layer_norm_backward)
KERNEL(plane_moments)
KERNEL(plane_line)
KERNEL(plane_products)
KERNEL(plane_plane)
KERNEL(cumulative_sum)
