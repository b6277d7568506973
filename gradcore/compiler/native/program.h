// What native parts of compiled programs are made of, beside the loops that are written for them.

#pragma once

#include "arrays.h"
#include "pool.h"
#include "sums.h"

namespace gradcore {

// What the process gives: the functions of its libraries, and how objects lie in memory.
struct Tools {
    i64 items;  // where the elements of a tuple begin
    void (*share)(i64, i64, void (*)(const void*, i64), const void*);
    const void *multiply_f, *multiply_d;  // CBLAS
    i64 long_integers;
};
static Tools tools = {};

void share(i64 count, i64 threads, void (*function)(const void*, i64), const void* work) {
    if (tools.share) return tools.share(count, threads, function, work);
    for (i64 i = 0; i < count; ++i) function(work, i);
}

template <int dims>
inline bool fits(const Array& a, const i64 (&shape)[dims], const i64 (&strides)[dims], int count) {
    bool same = a.dims == count && a.is_aligned();
    for (int d = 0; same && d < count; ++d) same = a.extents[d] == shape[d] && (shape[d] < 2 || a.strides[d] == strides[d]);
    return same;
}

inline const Array& item(const void* tuple, i64 i) {
    return array_of(reinterpret_cast<void* const*>(static_cast<const char*>(tuple) + tools.items)[i]);
}

// ------------------------------------------------------------------------------------------------- more functions

#define GRADCORE_LIBRARY(name)                              \
    inline float name(float x) { return std::name(x); }     \
    inline double name(double x) { return std::name(x); }
GRADCORE_LIBRARY(sin)
GRADCORE_LIBRARY(cos)
GRADCORE_LIBRARY(tan)
GRADCORE_LIBRARY(asin)
GRADCORE_LIBRARY(acos)
GRADCORE_LIBRARY(atan)
GRADCORE_LIBRARY(sinh)
GRADCORE_LIBRARY(cosh)
GRADCORE_LIBRARY(asinh)
GRADCORE_LIBRARY(acosh)
GRADCORE_LIBRARY(atanh)
GRADCORE_LIBRARY(exp2)
GRADCORE_LIBRARY(log2)
GRADCORE_LIBRARY(log10)
GRADCORE_LIBRARY(cbrt)
#undef GRADCORE_LIBRARY
inline float power(float x, float y) { return std::pow(x, y); }
inline double power(double x, double y) { return std::pow(x, y); }
inline float atan2(float x, float y) { return std::atan2(x, y); }
inline double atan2(double x, double y) { return std::atan2(x, y); }
inline double erf(double x) { return std::erf(x); }

// --------------------------------------------------------------------------------------------------- reductions

template <class T>
struct Wide {
    using type = i64;
};
template <>
struct Wide<float> {
    using type = double;
};
template <>
struct Wide<double> {
    using type = double;
};
template <class T>
using wide = typename Wide<T>::type;

// The first place of the largest number, or of the first NaN.
template <class T, class F>
inline i64 place_of(const T* x, i64 n, i64 step, F before) {
    i64 place = 0;
    for (i64 i = 1; i < n; ++i) {
        const T found = x[place * step], next = x[i * step];
        if (found != found) break;
        if (next != next || before(next, found)) place = i;
    }
    return place;
}

// --------------------------------------------------------------------------------------------------- products

#if defined(__clang__)
#define GRADCORE_CONTRACTED
#else
#define GRADCORE_CONTRACTED __attribute__((optimize("fp-contract=fast")))
#endif

// out = a @ b, elements of which are so many elements from each other; b may be in columns.
template <class T, i64 height, i64 inner, i64 width, i64 a0, i64 a1, i64 b0, i64 b1, i64 o0>
GRADCORE_CONTRACTED __attribute__((noinline)) void small_product(T* out, const T* a, const T* b) {
    T packed[b1 == 1 ? 1 : inner * width];
    if constexpr (b1 != 1) {
        for (i64 k = 0; k < inner; ++k) {
            for (i64 j = 0; j < width; ++j) packed[k * width + j] = b[k * b0 + j * b1];
        }
    }
    const T* rows = b1 == 1 ? b : packed;
    constexpr i64 step = b1 == 1 ? b0 : width, lanes = 64 / sizeof(T);
    typedef T Vector __attribute__((vector_size(64)));
    constexpr i64 tall = 4;
    i64 j = 0;
    for (; j + lanes <= width; j += lanes) {
        i64 i = 0;
        for (; i + tall <= height; i += tall) {
            Vector sums[tall] = {};
            for (i64 k = 0; k < inner; ++k) {
                const Vector row = Lanes<T>::load(rows + k * step + j);
#pragma GCC unroll 4
                for (i64 r = 0; r < tall; ++r) sums[r] += a[(i + r) * a0 + k * a1] * row;
            }
            for (i64 r = 0; r < tall; ++r) __builtin_memcpy(out + (i + r) * o0 + j, &sums[r], 64);
        }
        for (; i < height; ++i) {
            Vector sum = {};
            for (i64 k = 0; k < inner; ++k) sum += a[i * a0 + k * a1] * Lanes<T>::load(rows + k * step + j);
            __builtin_memcpy(out + i * o0 + j, &sum, 64);
        }
    }
    constexpr i64 rest = width % lanes;
    if constexpr (rest != 0) {
        for (i64 i = 0; i < height; ++i) {
            T sums[rest] = {};
            for (i64 k = 0; k < inner; ++k) {
                const T factor = a[i * a0 + k * a1];
                for (i64 c = 0; c < rest; ++c) sums[c] += factor * rows[k * step + j + c];
            }
            for (i64 c = 0; c < rest; ++c) out[i * o0 + j + c] = sums[c];
        }
    }
}

template <class T, class I>
void blas_product(const void* function, bool at, bool bt, i64 height, i64 inner, i64 width, T* out, const T* a, i64 a0,
                  const T* b, i64 b0, i64 o0) {
    using Gemm = void (*)(int, int, int, I, I, I, T, const T*, I, const T*, I, T, T*, I);
    reinterpret_cast<Gemm>(const_cast<void*>(function))(101, at ? 112 : 111, bt ? 112 : 111, I(height), I(width),
                                                        I(inner), T(1), a, I(a0), b, I(b0), T(0), out, I(o0));
}

// The same by BLAS; a and b may each lie in columns.
template <class T>
void large_product(bool at, bool bt, i64 height, i64 inner, i64 width, T* out, const T* a, i64 a0, const T* b, i64 b0,
                   i64 o0) {
    const void* function = sizeof(T) == 4 ? tools.multiply_f : tools.multiply_d;
    const auto run = tools.long_integers ? blas_product<T, int64_t> : blas_product<T, int32_t>;
    run(function, at, bt, height, inner, width, out, a, a0, b, b0, o0);
}

// ------------------------------------------------------------------------------------------------------- rows

// Exponentials of rows less their largest number, these numbers, and sums.
template <class T>
inline T powers_of_row(const T* x, T* powers, i64 n, T top) {
#pragma omp simd
    for (i64 i = 0; i < n; ++i) powers[i] = exp(x[i] - top);
    return static_cast<T>(sum_of<T>(n, static_cast<const T*>(powers)));
}

template <class T>
inline T top_of_row(const T* x, i64 n) {
    bool unknown = false;
    for (i64 i = 0; i < n; ++i) unknown |= x[i] != x[i];
    return unknown ? not_a_number<T>() : largest(x, n);
}

template <class T>
__attribute__((noinline)) void softmax_rows(T* out, const T* x, i64 rows, i64 n) {
    for (i64 r = 0; r < rows; ++r, x += n, out += n) {
        const T total = powers_of_row(x, out, n, top_of_row(x, n));
#pragma omp simd
        for (i64 i = 0; i < n; ++i) out[i] /= total;
    }
}

template <class T>
__attribute__((noinline)) void log_softmax_rows(T* out, const T* x, i64 rows, i64 n) {
    for (i64 r = 0; r < rows; ++r, x += n, out += n) {
        const T top = top_of_row(x, n), shift = log(powers_of_row(x, out, n, top));
#pragma omp simd
        for (i64 i = 0; i < n; ++i) out[i] = (x[i] - top) - shift;
    }
}

// The gradients through them, given their results.
template <class T>
__attribute__((noinline)) void softmax_back_rows(T* out, const T* grad, const T* y, i64 rows, i64 n) {
    for (i64 r = 0; r < rows; ++r, out += n, grad += n, y += n) {
        const T sum = static_cast<T>(sum_of<T>(n, [](auto g, auto v) { return g * v; }, grad, y));
#pragma omp simd
        for (i64 i = 0; i < n; ++i) out[i] = y[i] * (grad[i] - sum);
    }
}

template <class T>
__attribute__((noinline)) void log_softmax_back_rows(T* out, const T* grad, const T* y, i64 rows, i64 n) {
    for (i64 r = 0; r < rows; ++r, out += n, grad += n, y += n) {
        const T sum = static_cast<T>(sum_of<T>(n, grad));
#pragma omp simd
        for (i64 i = 0; i < n; ++i) out[i] = grad[i] - exp(y[i]) * sum;
    }
}

template <class T>
__attribute__((noinline)) void layer_norm_rows(T* out, T* mean, T* var, const T* x, const T* weight, const T* bias,
                                               i64 rows, i64 n, T eps) {
    for (i64 r = 0; r < rows; ++r, out += n, x += n) {
        const T center = static_cast<T>(sum_of<T>(n, x) / static_cast<double>(n));
        for (i64 i = 0; i < n; ++i) out[i] = x[i] - center;
        const T spread = static_cast<T>(
            sum_of<T>(n, [](auto c) { return c * c; }, static_cast<const T*>(out)) / static_cast<double>(n));
        const T scale = 1 / sqrt(spread + eps);
        mean[r] = center, var[r] = spread;
        for (i64 i = 0; i < n; ++i) {
            T y = out[i] * scale;
            if (weight) y *= weight[i];
            if (bias) y += bias[i];
            out[i] = y;
        }
    }
}

template <class T>
__attribute__((noinline)) void layer_norm_back_rows(T* out, T* to_weight, T* to_bias, const T* grad, const T* x,
                                                    const T* weight, const T* mean, const T* var, i64 rows, i64 n,
                                                    T eps) {
    for (i64 i = 0; to_weight && i < n; ++i) to_weight[i] = 0;
    for (i64 i = 0; to_bias && i < n; ++i) to_bias[i] = 0;
    for (i64 r = 0; r < rows; ++r, grad += n, x += n) {
        const T scale = 1 / sqrt(var[r] + eps), center = mean[r];
        if (to_weight) {
            for (i64 i = 0; i < n; ++i) to_weight[i] += grad[i] * ((x[i] - center) * scale);
        }
        if (to_bias) {
            for (i64 i = 0; i < n; ++i) to_bias[i] += grad[i];
        }
        if (!out) continue;
        wide<T> of_var = 0, of_mean = 0;
        for (i64 i = 0; i < n; ++i) {
            const T g = weight ? grad[i] * weight[i] : grad[i];
            of_var += g * (x[i] - center);
            of_mean += g;
        }
        const T slope = static_cast<T>(of_var) * (-scale * scale * scale / 2) * (T(2) / n);
        const T shift = static_cast<T>(of_mean) * -scale / n;
        for (i64 i = 0; i < n; ++i) {
            const T g = weight ? grad[i] * weight[i] : grad[i];
            out[i] = (g * scale + (x[i] - center) * slope) + shift;
        }
        out += n;
    }
}

// Cross entropy of classes, without weights: whether all classes are there.
template <class T>
__attribute__((noinline)) bool cross_entropy(T* loss, T* number, T* powers, T* total, const T* x, const i64* target,
                                             i64 rows, i64 n, bool mean) {
    for (i64 r = 0; r < rows; ++r) {
        if (target[r] < 0 || target[r] >= n) return false;
    }
    wide<T> sum = 0;
    for (i64 r = 0; r < rows; ++r, x += n, powers += n) {
        const T top = top_of_row(x, n);
        total[r] = powers_of_row(x, powers, n, top);
        sum += (top - x[target[r]]) + log(total[r]);
    }
    *number = static_cast<T>(rows);
    *loss = mean ? static_cast<T>(sum) / *number : static_cast<T>(sum);
    return true;
}

template <class T>
__attribute__((noinline)) bool cross_entropy_back(T* out, const T* grad, const i64* target, const T* number,
                                                  const T* powers, const T* total, i64 rows, i64 n, bool mean) {
    for (i64 r = 0; r < rows; ++r) {
        if (target[r] < 0 || target[r] >= n) return false;
    }
    if (*number != static_cast<T>(rows)) return false;
    const T scale = mean ? *grad / *number : *grad;
    for (i64 r = 0; r < rows; ++r, out += n, powers += n) {
        const T factor = scale / total[r];
#pragma omp simd
        for (i64 i = 0; i < n; ++i) out[i] = powers[i] * factor;
        out[target[r]] -= scale;
    }
    return true;
}

// Slices of `width` bytes at an index along the first dim: whether all are there.
__attribute__((noinline)) inline bool take_rows(char* out, const char* x, const i64* index, i64 count, i64 height,
                                                i64 width) {
    for (i64 r = 0; r < count; ++r) {
        if (index[r] < -height || index[r] >= height) return false;
    }
    for (i64 r = 0; r < count; ++r) {
        __builtin_memcpy(out + r * width, x + (index[r] < 0 ? index[r] + height : index[r]) * width, width);
    }
    return true;
}

}  // namespace gradcore

extern "C" __attribute__((visibility("default"))) void gradcore_program_begin(gradcore::i64 header,
                                                                              const gradcore::Tools* tools) {
    gradcore::header = header;
    gradcore::tools = *tools;
}

// For a check: what is found in an array of a tuple.
extern "C" __attribute__((visibility("default"))) void gradcore_program_describe(const void* tuple, gradcore::i64 i,
                                                                                 gradcore::i64* found) {
    const gradcore::Array& a = gradcore::item(tuple, i);
    found[0] = reinterpret_cast<gradcore::i64>(a.data);
    found[1] = a.dims;
    found[2] = a.is_aligned();
    found[3] = a.extents[0];
    found[4] = a.strides[1];
}
