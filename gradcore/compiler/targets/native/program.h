// What native parts of compiled programs are made of, beside the loops that are written for them.

#pragma once

#include <algorithm>
#include <memory>

#include "halves.h"
#include "pooling.h"
#include "rows.h"

namespace gradcore {

// What the process gives: the functions of its libraries, and how objects lie in memory.
struct Tools {
    i64 items;  // where the elements of a tuple begin
    void (*share)(i64, i64, void (*)(const void*, i64), const void*);
    const void *multiply_f, *multiply_d;  // CBLAS
    i64 long_integers;
    const void *correlate_f, *correlate_d, *windows_f, *windows_d;  // of the compiled library
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

// The bytes of an argument, and whether they are written to.
struct Span {
    const char *start, *stop;
    bool is_written;
};

// The order in which arguments began in the last call of a thread: most often, it is that of the next one.
template <int count>
struct Order {
    int at[count] = {};
    constexpr Order() {
        for (int i = 0; i < count; ++i) at[i] = i;
    }
};

// Whether arguments that are written to share no memory with others.
template <int count>
inline bool apart(const Span (&spans)[count], Order<count>& order) {
    const auto before = [&](int i, int j) { return spans[i].start < spans[j].start; };
    if (!std::is_sorted(order.at, order.at + count, before)) std::sort(order.at, order.at + count, before);
    const char *all = nullptr, *written = nullptr;  // where those so far end
    for (const int i : order.at) {
        const Span& each = spans[i];
        if (each.start < (each.is_written ? all : written)) return false;
        all = std::max(all, each.stop);
        if (each.is_written) written = std::max(written, each.stop);
    }
    return true;
}

inline const Array& item(const void* tuple, i64 i) {
    return array_of(reinterpret_cast<void* const*>(static_cast<const char*>(tuple) + tools.items)[i]);
}

// ------------------------------------------------------------------------------------------------- 16-bit floats

using float16 = Half;
using bfloat16 = Brain;

template <class T>
INLINE float load(T x) {
    return to_float(x);
}

template <class T>
INLINE T store(float x) {
    T out;
    convert(x, out);
    return out;
}

// ------------------------------------------------------------------------------------------------- more functions

// GNU's library has a function of vectors beside each of these, which loops call if they are told of it.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define GRADCORE_VECTORS __GLIBC_PREREQ(2, 35)
#else
#define GRADCORE_VECTORS 0
#endif
#if GRADCORE_VECTORS
#define GRADCORE_DECLARED(T, name, symbol, ...) \
    extern "C" __attribute__((simd("notinbranch"), const)) T library_##name(__VA_ARGS__) __asm__(#symbol);
#else
#define GRADCORE_DECLARED(T, name, symbol, ...) \
    template <class... A>                       \
    INLINE T library_##name(A... x) {           \
        return std::symbol(x...);               \
    }
#endif
#define GRADCORE_LIBRARY(name)                            \
    GRADCORE_DECLARED(float, name##_f, name##f, float)    \
    GRADCORE_DECLARED(double, name##_d, name, double)     \
    INLINE float name(float x) { return library_##name##_f(x); } \
    INLINE double name(double x) { return library_##name##_d(x); }
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
GRADCORE_DECLARED(float, pow_f, powf, float, float)
GRADCORE_DECLARED(double, pow_d, pow, double, double)
GRADCORE_DECLARED(float, atan2_f, atan2f, float, float)
GRADCORE_DECLARED(double, atan2_d, atan2, double, double)
#undef GRADCORE_LIBRARY
#undef GRADCORE_DECLARED
INLINE float power(float x, float y) { return library_pow_f(x, y); }
INLINE double power(double x, double y) { return library_pow_d(x, y); }
INLINE float atan2(float x, float y) { return library_atan2_f(x, y); }
INLINE double atan2(double x, double y) { return library_atan2_d(x, y); }
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

// --------------------------------------------------------------------------------------------------- products

#if defined(__clang__)
#define GRADCORE_CONTRACTED
#else
#define GRADCORE_CONTRACTED __attribute__((optimize("fp-contract=fast")))
#endif

// As many columns of a product as vectors of so many bytes take, four rows at a time.
#define GRADCORE_COLUMNS(bytes)                                                               \
    for (constexpr i64 lanes = bytes / sizeof(T); j + lanes <= width; j += lanes) {           \
        typedef T Vector __attribute__((vector_size(bytes)));                                 \
        i64 i = 0;                                                                            \
        for (; i + tall <= height; i += tall) {                                               \
            Vector sums[tall] = {};                                                           \
            for (i64 k = 0; k < inner; ++k) {                                                 \
                Vector row;                                                                   \
                __builtin_memcpy(&row, rows + k * step + j, bytes);                           \
                _Pragma("GCC unroll 4")                                                       \
                for (i64 r = 0; r < tall; ++r) sums[r] += a[(i + r) * a0 + k * a1] * row;     \
            }                                                                                 \
            for (i64 r = 0; r < tall; ++r) __builtin_memcpy(out + (i + r) * o0 + j, &sums[r], bytes); \
        }                                                                                     \
        for (; i < height; ++i) {                                                             \
            Vector sum = {};                                                                  \
            for (i64 k = 0; k < inner; ++k) {                                                 \
                Vector row;                                                                   \
                __builtin_memcpy(&row, rows + k * step + j, bytes);                           \
                sum += a[i * a0 + k * a1] * row;                                              \
            }                                                                                 \
            __builtin_memcpy(out + i * o0 + j, &sum, bytes);                                  \
        }                                                                                     \
    }

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
    constexpr i64 step = b1 == 1 ? b0 : width, tall = 4, rest = width % (16 / sizeof(T));
    i64 j = 0;
    GRADCORE_COLUMNS(64)
    GRADCORE_COLUMNS(32)
    GRADCORE_COLUMNS(16)
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
#undef GRADCORE_COLUMNS

template <class T, class I>
void blas_product(const void* function, bool at, bool bt, i64 height, i64 inner, i64 width, T* out, const T* a, i64 a0,
                  const T* b, i64 b0, i64 o0) {
    using Gemm = void (*)(int, int, int, I, I, I, T, const T*, I, const T*, I, T, T*, I);
    reinterpret_cast<Gemm>(const_cast<void*>(function))(101, at ? 112 : 111, bt ? 112 : 111, I(height), I(width),
                                                        I(inner), T(1), a, I(a0), b, I(b0), T(0), out, I(o0));
}

// The same by BLAS, in parts of rows or of columns, whichever are more; a and b may each lie in columns.
template <class T>
void large_product(bool at, bool bt, i64 height, i64 inner, i64 width, T* out, const T* a, i64 a0, const T* b, i64 b0,
                   i64 o0, i64 threads) {
    constexpr i64 worth_a_thread = 1 << 18, step_of_parts = 16;
    const void* function = sizeof(T) == 4 ? tools.multiply_f : tools.multiply_d;
    const auto run = tools.long_integers ? blas_product<T, int64_t> : blas_product<T, int32_t>;
    const i64 most = tools.share ? std::min(threads, height * inner * width / worth_a_thread) : 1;
    const bool by_columns = width > height;
    const i64 length = by_columns ? width : height, steps = (length + step_of_parts - 1) / step_of_parts;
    const i64 cuts = std::max(std::min(most, steps), i64(1));
    const auto part = [=](i64 i) {
        const i64 start = std::min(steps * i / cuts * step_of_parts, length);
        const i64 size = std::min(steps * (i + 1) / cuts * step_of_parts, length) - start;
        if (by_columns) {
            run(function, at, bt, height, inner, size, out + start, a, a0, b + start * (bt ? b0 : 1), b0, o0);
        } else {
            run(function, at, bt, size, inner, width, out + start * o0, a + start * (at ? 1 : a0), a0, b, b0, o0);
        }
    };
    using Part = decltype(part);
    share(cuts, threads, [](const void* w, i64 i) { (*static_cast<const Part*>(w))(i); }, &part);
}

// ------------------------------------------------------------------------------------------------------- rows

// A kernel of the library, on all rows, or parts of more rows.
template <auto kernel, class... A>
void run_rows(const Work& work, i64 threads, A... arrays) {
    constexpr i64 worth_a_thread = 1 << 14;
    const i64 size = work.height * work.width, grain = worth_a_thread * work.parts / (size ? size : 1);
    const auto part = [&](i64 start, i64 stop) { kernel(work, start, stop, arrays...); };
    spread(work.parts, grain ? grain : 1, 1, threads, part);
}

// So many elements that are all the same, where there is no array for them.
template <class T>
class Filled {
public:
    Filled(const T* there, i64 n, T value) : there_(there), room_(there ? nullptr : new T[n]) {
        for (i64 i = 0; !there && i < n; ++i) room_[i] = value;
    }
    operator const T*() const { return there_ ? there_ : room_.get(); }

private:
    const T* there_;
    std::unique_ptr<T[]> room_;
};

template <class T>
void add_parts(T* out, const T* sums, i64 parts, i64 n) {
    for (i64 i = 0; i < n; ++i) out[i] = sums[i];
    for (i64 part = 1; part < parts; ++part) {
        for (i64 i = 0; i < n; ++i) out[i] += sums[part * n + i];
    }
}

template <class T>
__attribute__((noinline)) void normed_rows_back(T* out, T* to_weight, T* to_bias, const T* grad, const T* x,
                                                    const T* weight, const T* mean, const T* var, i64 rows, i64 n,
                                                    double eps, i64 threads) {
    constexpr i64 part = 1 << 15;
    const i64 most = rows * n / part > 1 ? rows * n / part : 1, parts = most < rows ? most : rows;
    const Filled<T> factors(weight, n, 1);
    const std::unique_ptr<T[]> sums(new T[2 * parts * n]), room(out ? nullptr : new T[rows * n]);
    run_rows<layer_norm_backward<T>, const T*, const T*, const T*, const T*, const T*>(
        {parts, rows, n, 0, 0, eps}, threads, grad, x, factors, mean, var, out ? out : room.get(), sums.get(),
        sums.get() + parts * n);
    if (to_weight) add_parts(to_weight, sums.get(), parts, n);
    if (to_bias) add_parts(to_bias, sums.get() + parts * n, parts, n);
}

// Cross entropy of classes, without weights: whether all classes are there.
template <class T>
__attribute__((noinline)) bool cross_entropy(T* loss, T* number, T* powers, T* total, const T* x, const i64* target,
                                             i64 rows, i64 n, bool mean, i64 threads) {
    if (!are_below(target, rows, n)) return false;
    const std::unique_ptr<T[]> losses(new T[rows]);
    run_rows<cross_entropy_rows<T>, const T*, const i64*>({rows, rows, n, 0, 0, 0}, threads, x, target, powers,
                                                          losses.get(), total);
    wide<T> sum = 0;
    for (i64 r = 0; r < rows; ++r) sum += losses[r];
    *number = static_cast<T>(rows);
    *loss = mean ? static_cast<T>(sum) / *number : static_cast<T>(sum);
    return true;
}

template <class T>
__attribute__((noinline)) bool cross_entropy_back(T* out, const T* grad, const i64* target, const T* number,
                                                  const T* powers, const T* total, i64 rows, i64 n, bool mean,
                                                  i64 threads) {
    if (!are_below(target, rows, n) || *number != static_cast<T>(rows)) return false;
    const T scale = mean ? *grad / *number : *grad;
    run_rows<cross_entropy_rows_backward<T>, const T*, const i64*, const T*, const T*>(
        {rows, rows, n, 0, 0, 0}, threads, &scale, target, powers, total, out);
    return true;
}

// --------------------------------------------------------------------------------------------- convolution, pooling

template <i64... numbers>
inline constexpr i64 table_of[] = {numbers...};

// The library's correlation of images with weights, or of gradients with images; tables as in `convolution.cpp`.
template <class T>
void correlate(T* out, const T* x, const T* weight, const i64* geometry, const i64* steps, i64 threads) {
    using Function = void (*)(i64, const void*, const void*, const T*, const T*, T*);
    const void* function = sizeof(T) == 4 ? tools.correlate_f : tools.correlate_d;
    reinterpret_cast<Function>(const_cast<void*>(function))(threads, geometry, steps, x, weight, out);
}

template <class T>
void sum_windows(T* out, const T* x, const T* grad, const i64* geometry, i64 threads) {
    using Function = void (*)(i64, const void*, const T*, const T*, T*);
    const void* function = sizeof(T) == 4 ? tools.windows_f : tools.windows_d;
    reinterpret_cast<Function>(const_cast<void*>(function))(threads, geometry, x, grad, out);
}

// Correlation with the weights of the adjoint: taps in reverse, and inputs and outputs of each group exchanged.
template <class T>
__attribute__((noinline)) void correlate_back(T* out, const T* grad, const T* weight, const i64* geometry,
                                              const i64* steps, i64 groups, i64 outputs, i64 channels, i64 taps,
                                              i64 threads) {
    const std::unique_ptr<T[]> swapped(new T[groups * outputs * channels * taps]);
    T* to = swapped.get();
    for (i64 g = 0; g < groups; ++g, weight += outputs * channels * taps) {
        for (i64 c = 0; c < channels; ++c) {
            for (i64 o = 0; o < outputs; ++o, to += taps) {
                const T* from = weight + (o * channels + c) * taps;
                for (i64 k = 0; k < taps; ++k) to[k] = from[taps - 1 - k];
            }
        }
    }
    correlate(out, grad, static_cast<const T*>(swapped.get()), geometry, steps, threads);
}

// Elements at indices: their shape, the steps of values, of an array and of indices along its dims, and of each index
// the size and the step of the dim that it is along.
template <int dims, int count>
struct Indexed {
    i64 shape[dims], values[dims], array[dims], indices[count][dims], sizes[count], steps[count];
    bool negative;  // whether negative indices count from the end
    bool at_once;   // whether all indices are to be checked before the first element is written

    // Rows are cut into blocks. The indices of a block are read once: they are checked and become places in the array,
    // which stay in the first cache.
    static constexpr i64 most = 512;

    i64 blocks_of_row() const { return (shape[dims - 1] + most - 1) / most; }
    i64 blocks() const {
        i64 n = blocks_of_row();
        for (int d = 0; d < dims - 1; ++d) n *= shape[d];
        return n;
    }

    // Calls a function of the size of each block, and of where in values, in the array and in the indices it begins.
    template <class F>
    INLINE void each_block(i64 start, i64 stop, F take) const {
        const i64 blocks = blocks_of_row();
        i64 at[dims], block = start % blocks, rest = start / blocks;
        for (int d = dims - 2; d >= 0; --d) at[d] = rest % shape[d], rest /= shape[d];
        for (i64 i = start; i < stop; ++i) {
            const i64 first = block * most, left = shape[dims - 1] - first;
            i64 value = first * values[dims - 1], element = first * array[dims - 1], from[count];
            for (int c = 0; c < count; ++c) from[c] = first * indices[c][dims - 1];
            for (int d = 0; d < dims - 1; ++d) {
                value += at[d] * values[d], element += at[d] * array[d];
                for (int c = 0; c < count; ++c) from[c] += at[d] * indices[c][d];
            }
            take(left < most ? left : most, value, element, from);
            if (++block < blocks) continue;
            block = 0;
            for (int d = dims - 2; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
        }
    }

    // Calls a function of the number and the place of each index of a block. Returns whether all are within the bounds.
    template <class I, class F>
    INLINE bool find(const I* index, i64 stride, int c, i64 n, F take) const {
        const u64 size = static_cast<u64>(sizes[c]), below = negative ? size : 0;
        const i64 step = steps[c];
        u64 outside = 0;  // the sign bit is set by indices below or above the bounds
        const auto look = [=](i64 given, u64& wrong) {
            const u64 i = static_cast<u64>(given);
            wrong |= (i + below) | (size - 1 - i);
            return static_cast<i64>(i + (static_cast<u64>(given >> 63) & below)) * step;
        };
        if (stride == 1) {
#pragma omp simd reduction(| : outside)
            for (i64 k = 0; k < n; ++k) take(k, look(index[k], outside));
        } else {
            for (i64 k = 0; k < n; ++k) take(k, look(index[k * stride], outside));
        }
        return !(outside >> 63);
    }

    // Calls a function of the places of values and of the array for each element of blocks, up to the first block with
    // an index that is out of bounds. Returns whether there is none.
    template <class I, class F>
    INLINE bool each(i64 start, i64 stop, const I* const (&index)[count], F take) const {
        const i64 v = values[dims - 1], a = array[dims - 1];
        bool fine = true, same = true;
        for (int c = 0; c < count; ++c) same &= indices[c][dims - 1] == 0;
        each_block(start, stop, [&](i64 n, i64 value, i64 element, const i64(&from)[count]) {
            if (!fine) return;
            if (same) {
                const auto move = [&](i64, i64 place) { element += place; };
                for (int c = 0; c < count; ++c) fine &= find(index[c] + from[c], 1, c, 1, move);
                if (!fine) return;
                if (v == 1 && a == 1) {
                    for (i64 i = 0; i < n; ++i) take(value + i, element + i);
                } else {
                    for (i64 i = 0; i < n; ++i) take(value + i * v, element + i * a);
                }
                return;
            }
            i64 places[most];
            for (int c = 0; c < count; ++c) {
                fine &= find(index[c] + from[c], indices[c][dims - 1], c, n, [&](i64 i, i64 place) {
                    places[i] = place + (c ? places[i] : element + i * a);
                });
            }
            if (!fine) return;
            if (v == 1) {
                for (i64 i = 0; i < n; ++i) take(value + i, places[i]);
            } else {
                for (i64 i = 0; i < n; ++i) take(value + i * v, places[i]);
            }
        });
        return fine;
    }

    // Calls `each` for all blocks in one thread, as two may write to the same element.
    template <class I, class F>
    INLINE bool write(const I* const (&index)[count], F take) const {
        return (!at_once || each(0, blocks(), index, [](i64, i64) {})) && each(0, blocks(), index, take);
    }
};

// Elements at indices become values: whether all are there.
template <class T, class I, int dims, int count>
__attribute__((noinline)) bool take_places(T* values, const T* x, const Indexed<dims, count>& at,
                                           const I* const (&index)[count], i64 threads) {
    i64 wrong = 0;
    const i64 size = at.shape[dims - 1] < at.most ? at.shape[dims - 1] : at.most;
    spread(at.blocks(), (1 << 14) / size + 1, 1, threads, [&](i64 start, i64 stop) {
        const bool fine = at.each(start, stop, index, [=](i64 value, i64 element) { values[value] = x[element]; });
        if (!fine) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
    });
    return !__atomic_load_n(&wrong, __ATOMIC_RELAXED);
}

// Values are written to where the indices point, the last one to a place that several have.
template <class T, class I, int dims, int count>
__attribute__((noinline)) bool put_places(T* x, const T* values, const Indexed<dims, count>& at,
                                          const I* const (&index)[count], i64) {
    return at.write(index, [=](i64 value, i64 element) { x[element] = values[value]; });
}

template <class T, class I, int dims, int count>
__attribute__((noinline)) bool add_places(T* x, const T* values, const Indexed<dims, count>& at,
                                          const I* const (&index)[count], i64) {
    return at.write(index, [=](i64 value, i64 element) { x[element] += values[value]; });
}

// Whether a number comes before another one as the largest or smallest: NaN does, and the first of equal ones stays.
template <bool least, class T>
INLINE bool leads(T x, T best) {
    return (least ? x < best : x > best) | ((x != x) & (best == best));
}

// The place of the extremum of a row.
template <class T, bool least>
inline i64 extremum_of(const T* x, i64 n) {
    constexpr i64 block = 256;
    T best = x[0];
    i64 place = 0;
    for (i64 start = 0; start < n && best == best; start += block) {
        const i64 stop = start + block < n ? start + block : n;
        bool found = false;
#pragma omp simd reduction(| : found)
        for (i64 i = start; i < stop; ++i) found |= leads<least>(x[i], best);
        for (i64 i = start; found && i < stop; ++i) {
            if (leads<least>(x[i], best)) best = x[i], place = i;
        }
    }
    return place;
}

// The places of the extrema along a dim, and these, where there is an array for them.
template <class T, bool least>
__attribute__((noinline)) void extrema(i64* index, T* values, const T* x, i64 outer, i64 n, i64 inner, i64 threads) {
    if (inner == 1) {
        spread(outer, (1 << 14) / n + 1, 1, threads, [&](i64 start, i64 stop) {
            for (i64 row = start; row < stop; ++row) index[row] = extremum_of<T, least>(x + row * n, n);
        });
    }
    for (i64 o = 0; o < outer && inner != 1; ++o) {
        const T* rows = x + o * n * inner;
        i64* places = index + o * inner;
        constexpr i64 block = 256;
        for (i64 start = 0; start < inner; start += block) {
            const i64 size = start + block < inner ? block : inner - start;
            T best[block];
            i64 place[block] = {};
            for (i64 i = 0; i < size; ++i) best[i] = rows[start + i];
            for (i64 k = 1; k < n; ++k) {
                const T* row = rows + k * inner + start;
#pragma omp simd
                for (i64 i = 0; i < size; ++i) {
                    const bool taken = leads<least>(row[i], best[i]);
                    best[i] = taken ? row[i] : best[i];
                    place[i] = taken ? k : place[i];
                }
            }
            for (i64 i = 0; i < size; ++i) places[start + i] = place[i];
        }
    }
    for (i64 o = 0; values && o < outer; ++o) {
        for (i64 i = 0; i < inner; ++i) values[o * inner + i] = x[(o * n + index[o * inner + i]) * inner + i];
    }
}

// Rows of zeros, with rows added at an index, but for one row: whether all are there.
template <class T>
__attribute__((noinline)) bool add_rows(T* out, const T* x, const i64* index, i64 count, i64 height, i64 width,
                                        i64 left_out, i64) {
    if (!are_below(index, count, height)) return false;
    for (i64 i = 0; i < height * width; ++i) out[i] = 0;
    for (i64 r = 0; r < count; ++r) {
        if (index[r] == left_out) continue;
        T* to = out + index[r] * width;
        for (i64 i = 0; i < width; ++i) to[i] += x[r * width + i];
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
