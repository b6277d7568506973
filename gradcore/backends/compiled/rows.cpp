// Kernels of rows, of a weight for each of their elements, and of planes, the rows of channels, of a number for each.
//
// A kernel works on the rows from `start` to before `stop` of contiguous matrices. What it reads comes first in its
// arguments, what it writes last. Sums are taken in lanes over some elements at a time, and in double precision over
// these sums.

#include "arrays.h"
#include "pool.h"

namespace gradcore {

// What a kernel is called for, beside its arrays: the shape of the matrices, into how many parts the work is divided
// (as a rule rows), and a number whose meaning is the kernel's own.
struct Work {
    i64 parts, height, width;
    double number;
};

// The sum of `value(i)` for all `i` below n, taken in lanes of type S over some of them at a time.
template <class S, class F>
INLINE double sum_of(i64 n, F value) {
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
INLINE T largest(const T* x, i64 n) {
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
INLINE T exponentials(const T* x, i64 n, T top, T* out) {
    return static_cast<T>(sum_of<S>(n, [=](i64 i) { return out[i] = exp(x[i] - top); }));
}

// ------------------------------------------------------------------------------------------------------------- softmax

template <class T>
void softmax(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T* b = out + row * width;
        const T total = exponentials<T>(a, width, largest(a, width), b);
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] /= total;
    }
}

template <class T>
void softmax_backward(const Work& work, i64 start, i64 stop, const T* t, const T* y, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T *a = t + row * width, *b = y + row * width;
        T* c = out + row * width;
        const T dot = static_cast<T>(sum_of<T>(width, [=](i64 i) { return a[i] * b[i]; }));
#pragma omp simd
        for (i64 i = 0; i < width; ++i) c[i] = (a[i] - dot) * b[i];
    }
}

template <class T>
void log_softmax(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
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
void log_softmax_backward(const Work& work, i64 start, i64 stop, const T* t, const T* y, T* out) {
    const i64 width = work.width;
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
void row_powers(const Work& work, i64 start, i64 stop, const T* x, T* powers, T* top, T* total) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        top[row] = largest(a, width);
        total[row] = exponentials<double>(a, width, top[row], powers + row * width);
    }
}

// ------------------------------------------------------------------------------------------------------- normalization

template <class T>
INLINE void statistics_of(const T* x, i64 width, T& mean, T& variance) {
    const T center = static_cast<T>(sum_of<T>(width, [=](i64 i) { return x[i]; }) / width);
    const double squares = sum_of<T>(width, [=](i64 i) { return (x[i] - center) * (x[i] - center); });
    mean = center;
    variance = static_cast<T>(squares / width);
}

template <class T>
void row_statistics(const Work& work, i64 start, i64 stop, const T* x, T* mean, T* variance) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) statistics_of(x + row * width, width, mean[row], variance[row]);
}

template <class T>
void layer_norm(const Work& work, i64 start, i64 stop, const T* x, const T* weight, const T* bias, T* out, T* mean,
                T* variance) {
    const i64 width = work.width;
    const T eps = static_cast<T>(work.number);
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T* b = out + row * width;
        statistics_of(a, width, mean[row], variance[row]);
        const T center = mean[row], scale = 1 / sqrt(variance[row] + eps);
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = (a[i] - center) * scale * weight[i] + bias[i];
    }
}

// A part of the work is several rows, whose sums come into a row of `to_weight` and of `to_bias`.
template <class T>
void layer_norm_backward(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* weight,
                         const T* mean, const T* variance, T* out, T* to_weight, T* to_bias) {
    const i64 width = work.width;
    const T eps = static_cast<T>(work.number);
    for (i64 part = start; part < stop; ++part) {
        T *weights = to_weight + part * width, *biases = to_bias + part * width;
        for (i64 i = 0; i < width; ++i) weights[i] = biases[i] = 0;
        for (i64 row = work.height * part / work.parts; row < work.height * (part + 1) / work.parts; ++row) {
            const T *g = grad + row * width, *a = x + row * width;
            T* b = out + row * width;
            const T center = mean[row], scale = 1 / sqrt(variance[row] + eps);
            const double along_x = sum_of<T>(width, [=](i64 i) {
                weights[i] += g[i] * (a[i] - center) * scale;
                return g[i] * weight[i] * (a[i] - center);
            });
            const double along_one = sum_of<T>(width, [=](i64 i) {
                biases[i] += g[i];
                return g[i] * weight[i];
            });
            const T slope = static_cast<T>(along_x / width) * (scale * scale * scale);
            const T shift = static_cast<T>(along_one / width) * scale;
#pragma omp simd
            for (i64 i = 0; i < width; ++i) b[i] = g[i] * weight[i] * scale - ((a[i] - center) * slope + shift);
        }
    }
}

// ----------------------------------------------------------------------------------------------------------- planes

// The sums of x less the plane's center, and of the squares.
template <class T>
void plane_moments(const Work& work, i64 start, i64 stop, const T* x, const T* center, T* total, T* squares) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T *a = x + row * width, middle = center[row];
        total[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return a[i] - middle; }));
        squares[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return (a[i] - middle) * (a[i] - middle); }));
    }
}

// (x - center) * scale + shift
template <class T>
void plane_line(const Work& work, i64 start, i64 stop, const T* x, const T* center, const T* scale, const T* shift, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T *a = x + row * width, middle = center[row], factor = scale[row], term = shift[row];
        T* b = out + row * width;
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = (a[i] - middle) * factor + term;
    }
}

// The sums of grad, and of grad times x less the plane's center.
template <class T>
void plane_products(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* center, T* total, T* product) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T *g = grad + row * width, *a = x + row * width, middle = center[row];
        total[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return g[i]; }));
        product[row] = static_cast<T>(sum_of<T>(width, [=](i64 i) { return g[i] * (a[i] - middle); }));
    }
}

// grad * scale + ((x - center) * slope + shift)
template <class T>
void plane_plane(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* center, const T* scale,
                 const T* slope, const T* shift, T* out) {
    const i64 width = work.width;
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
INLINE void accumulate(i64 width, bool reverse, const T* x, T* out) {
    double sums[rows] = {};
    for (i64 k = 0; k < width; ++k) {
        const i64 i = reverse ? width - 1 - k : k;
        for (int row = 0; row < rows; ++row) out[row * width + i] = static_cast<T>(sums[row] += x[row * width + i]);
    }
}

template <class T>
void cumulative_sum(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    i64 row = start;
    for (; row + 4 <= stop; row += 4) accumulate<T, 4>(width, work.number != 0, x + row * width, out + row * width);
    for (; row < stop; ++row) accumulate<T, 1>(width, work.number != 0, x + row * width, out + row * width);
}

// What Python calls for a kernel: numbers, then its arrays, objects of NumPy.
template <auto kernel>
struct Entry;

template <class... A, void (*kernel)(const Work&, i64, i64, A...)>
struct Entry<kernel> {
    template <class>
    using Object = const void*;

    static void run(i64 parts, i64 height, i64 width, i64 grain, i64 threads, double number, Object<A>... objects) {
        const Work work = {parts, height, width, number};
        spread(parts, grain, 1, threads, [&](i64 start, i64 stop) {
            kernel(work, start, stop, reinterpret_cast<A>(array_of(objects).data)...);
        });
    }
};

}  // namespace gradcore

// The addresses of these functions, by kernel and type.

#define KERNEL(name)                                                                                      \
    extern "C" {                                                                                          \
    const void* name##_f = reinterpret_cast<const void*>(&gradcore::Entry<&gradcore::name<float>>::run);  \
    const void* name##_d = reinterpret_cast<const void*>(&gradcore::Entry<&gradcore::name<double>>::run); \
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
