// Sums, products and extrema of contiguous rows, and sums over the rows of contiguous matrices.
//
// Sums are computed in double precision, after adding eight elements in their own precision (halves in float32). Sums
// of integers have 64 bits.

#include <memory>

#include "calls.h"
#include "halves.h"
#include "sums.h"

namespace gradcore {

// The type in which elements are read: float32 for float16 and bfloat16.
template <class T>
struct Reader : Register<T> {
    using Number = T;
    INLINE static T number(T x) { return x; }
};

#if defined(__AVX512F__) && defined(__F16C__)
constexpr __mmask16 every = 0xFFFF;  // GCC warns about intrinsics without a mask

INLINE __m512 widened(const Half* x) {
    return _mm512_maskz_cvtph_ps(every, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
INLINE __m512 widened(const Brain* x) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(every, _mm512_maskz_cvtepu16_epi32(every, bits), 16));
}
#elif defined(__AVX2__) && defined(__F16C__)
INLINE __m256 widened(const Half* x) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))); }
INLINE __m256 widened(const Brain* x) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
#else  // as `to_float`, in vectors
typedef i32 Words __attribute__((vector_size(register_size)));

template <class H>
INLINE Words words_of(const H* x) {
    typedef u16 Short __attribute__((vector_size(register_size / 2)));
    Short bits;
    __builtin_memcpy(&bits, x, sizeof bits);
    return __builtin_convertvector(bits, Words);
}
INLINE Words widened(const Brain* x) { return words_of(x) << 16; }
INLINE Words widened(const Half* x) {
    const Words bits = words_of(x), size = bits & 0x7FFF, sign = (bits & 0x8000) << 16;
    const Words normal = (size << 13) + (112 << 23) + ((size >= 0x7C00) & (112 << 23));
    const Register<float>::Vector tiny = __builtin_convertvector(size, Register<float>::Vector) * 5.9604644775390625e-08f;
    Words subnormal;
    __builtin_memcpy(&subnormal, &tiny, sizeof tiny);
    const Words is_tiny = size < 0x400;
    return (subnormal & is_tiny) | (normal & ~is_tiny) | sign;
}
#endif

template <class H>
struct HalfReader : Register<float> {
    using Number = float;
    INLINE static float number(H x) { return to_float(x); }
    INLINE static Vector load(const H* place) {
        Vector v;
        const auto numbers = widened(place);
        __builtin_memcpy(&v, &numbers, sizeof v);
        return v;
    }
};

template <>
struct Reader<Half> : HalfReader<Half> {};

template <>
struct Reader<Brain> : HalfReader<Brain> {};

// ---------------------------------------------------------------------------------------------------------------- rows

template <class T, class F, class... Rows>
INLINE double float_sum(i64 n, F value, const Rows*... x) {
    using L = Reader<T>;
    constexpr i64 lanes = L::count;
    Total total;
    i64 i = 0;
    for (; i + 8 * lanes <= n; i += 8 * lanes) {  // eight vectors are added in their own precision
        typename L::Vector v[8];
        for (int k = 0; k < 8; ++k) v[k] = value(L::load(x + i + k * lanes)...);
        total.add(((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
    }
    if (i + lanes <= n) {  // up to seven more
        typename L::Vector v = value(L::load(x + i)...);
        for (i += lanes; i + lanes <= n; i += lanes) v += value(L::load(x + i)...);
        total.add(v);
    }
    if (i < n && n >= lanes) {  // the last vector, without elements that were added before
        total.add(L::from_lane(lanes - (n - i), value(L::load(x + n - lanes)...)));
        i = n;
    }
    for (; i < n; ++i) total.add_number(value(L::number(x[i])...));
    return total.sum();
}
template <class T>
INLINE double row_sum(const T* x, i64 n) {
    return float_sum<T>(n, [](auto a) { return a; }, x);
}

// A bool. Any byte but 0 is true.
struct Truth {
    u8 byte;
    operator u32() const { return byte != 0; }
};

// Sum parts of `step` numbers first, whose sums fit into 32 bits.
template <class T, class S>
INLINE i64 sum_in_parts(const T* x, i64 n) {
    constexpr i64 step = 1 << 14;
    i64 total = 0;
    for (i64 i = 0; i < n; i += step) {
        const i64 end = i + step < n ? i + step : n;
        S sum = 0;
#pragma omp simd reduction(+ : sum)
        for (i64 k = i; k < end; ++k) sum += x[k];
        total += sum;
    }
    return total;
}
INLINE i64 row_sum(const u8* x, i64 n) { return sum_in_parts<u8, u32>(x, n); }
INLINE i64 row_sum(const Truth* x, i64 n) { return sum_in_parts<Truth, u32>(x, n); }
INLINE i64 row_sum(const i8* x, i64 n) { return sum_in_parts<i8, i32>(x, n); }
INLINE i64 row_sum(const i16* x, i64 n) { return sum_in_parts<i16, i32>(x, n); }
INLINE i64 row_sum(const i32* x, i64 n) { return sum_in_parts<i32, i64>(x, n); }
INLINE i64 row_sum(const i64* x, i64 n) {  // sums of int64 may wrap around
    return static_cast<i64>(sum_in_parts<u64, u64>(reinterpret_cast<const u64*>(x), n));
}

// Sum each row. The last row may be shorter, because there are `inner` elements in all.
template <class T, class S>
void row_sums(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = static_cast<S>(row_sum(x + row * width, rest < width ? rest : width));
    }
}

template <class T, class S>
void row_squares(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = float_sum<T>(rest < width ? rest : width, [](auto a) { return a * a; }, x + row * width);
    }
}

// Compute the dot products of the rows of `x` with rows of `y`. All rows use the same row of `y` or, if `cycle` is the
// width, each its own.
template <class T>
void row_dots(const Work& work, i64 start, i64 stop, const T* x, const T* y, double* out) {
    for (i64 row = start; row < stop; ++row) {
        const T *a = x + row * work.width, *b = y + row * work.cycle;
        out[row] = float_sum<T>(work.width, [](auto p, auto q) { return p * q; }, a, b);
    }
}

// Return the product of a row, accumulated in four registers.
template <class T>
INLINE T row_product(const T* x, i64 n) {
    using L = Register<T>;
    constexpr i64 lanes = L::count;
    typename L::Vector products[4];
    for (auto& v : products) v = T(1) + typename L::Vector{};
    i64 i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        for (int k = 0; k < 4; ++k) products[k] *= L::load(x + i + k * lanes);
    }
    for (int k = 0; i + lanes <= n; i += lanes, ++k) products[k] *= L::load(x + i);
    if (i < n && n >= lanes) {  // the last vector, without elements that were used before
        typename L::Vector last = L::load(x + n - lanes);
        for (i64 k = 0; k < lanes; ++k) last[k] = k < lanes - (n - i) ? T(1) : last[k];
        products[3] *= last;
        i = n;
    }
    T parts[lanes];
    products[0] = (products[0] * products[1]) * (products[2] * products[3]);
    __builtin_memcpy(parts, &products[0], sizeof parts);
    for (i64 step = lanes / 2; step; step /= 2) {
        for (i64 k = 0; k < step; ++k) parts[k] *= parts[k + step];
    }
    T product = parts[0];
    for (; i < n; ++i) product *= x[i];
    return product;
}

template <class T, class S>
void row_products(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = row_product(x + row * width, rest < width ? rest : width);
    }
}

// Return the largest or least element, or NaN if an element is NaN.
template <class T, bool least>
INLINE typename Reader<T>::Number extremum(const T* x, i64 n) {
    using L = Reader<T>;
    using Number = typename L::Number;
    constexpr i64 lanes = L::count;
    const auto further = [](auto v, auto best) { return (least ? v < best : v > best) ? v : best; };
    const auto unordered = [](auto v, auto found) { return v != v ? v : found; };
    Number best = L::number(x[0]);
    bool spoilt = best != best;
    i64 i = 0;
    if (n >= lanes) {
        typename L::Vector tops[4], nan = {};
        for (auto& v : tops) v = L::load(x);
        nan = unordered(tops[0], nan);
        for (; i + 4 * lanes <= n; i += 4 * lanes) {
            for (int k = 0; k < 4; ++k) {
                const auto v = L::load(x + i + k * lanes);
                tops[k] = further(v, tops[k]);
                nan = unordered(v, nan);
            }
        }
        for (; i + lanes <= n; i += lanes) {
            const auto v = L::load(x + i);
            tops[0] = further(v, tops[0]);
            nan = unordered(v, nan);
        }
        tops[0] = further(tops[1], tops[0]);
        tops[2] = further(tops[3], tops[2]);
        tops[0] = further(tops[2], tops[0]);
        Number found[lanes], wrong[lanes];
        __builtin_memcpy(found, &tops[0], sizeof found);
        __builtin_memcpy(wrong, &nan, sizeof wrong);
#pragma GCC unroll 4
        for (i64 step = lanes / 2; step; step /= 2) {  // the first half with the second, and so on
            for (i64 k = 0; k < step; ++k) found[k] = further(found[k + step], found[k]);
            for (i64 k = 0; k < step; ++k) wrong[k] += wrong[k + step];
        }
        best = further(found[0], best);
        spoilt |= wrong[0] != wrong[0];
    }
    for (; i < n; ++i) {
        const Number v = L::number(x[i]);
        best = further(v, best);
        spoilt |= v != v;
    }
    return spoilt ? not_a_number<Number>() : best;
}

template <class T, bool least, class S>
void row_extrema(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = extremum<T, least>(x + row * width, rest < width ? rest : width);
    }
}

template <class T, class S = T>
void row_maxima(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    row_extrema<T, false>(work, start, stop, x, out);
}
template <class T, class S = T>
void row_minima(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    row_extrema<T, true>(work, start, stop, x, out);
}

// Reduce the last dims of a contiguous array, rows of `width` elements, to the elements of `out`. A single row is reduced
// in parts, whose results are combined one after the other. Return false, and write nothing, for other arrays.
template <class T, class R, class S, void (*kernel)(const Work&, i64, i64, const T*, S*), S (*combine)(S, S)>
bool reduce_rows(i64 width, i64 worth_a_thread, i64 threads, const Array& x, const Array& out) {
    constexpr i64 part = 1 << 13, few = 64;
    const i64 size = x.size();
    if (!x.is_contiguous() || !x.is_aligned() || width < 1 || size < width || out.size() * width != size) return false;
    const bool whole = size == width;
    const i64 length = whole && part < width ? part : width, parts = (size + length - 1) / length;
    const i64 grain = worth_a_thread / length;
    const T* data = reinterpret_cast<const T*>(x.data);
    R* to = reinterpret_cast<R*>(out.data);
    S some[few];
    const std::unique_ptr<S[]> many(parts > few ? new S[parts] : nullptr);
    S* const results = parts > few ? many.get() : some;
    const Work work{parts, parts, length, size, 0, 0};
    spread(parts, grain > 1 ? grain : 1, 1, threads, [&](i64 start, i64 stop) { kernel(work, start, stop, data, results); });
    if (whole) {
        for (i64 i = 1; i < parts; ++i) results[0] = combine(results[0], results[i]);
        to[0] = static_cast<R>(results[0]);
    } else {
        for (i64 i = 0; i < parts; ++i) to[i] = static_cast<R>(results[i]);
    }
    return true;
}

template <class S>
S sum_of_two(S a, S b) { return a + b; }
template <>
i64 sum_of_two(i64 a, i64 b) { return static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b)); }
template <class S>
S product_of_two(S a, S b) { return a * b; }
template <class S>
S larger_of_two(S a, S b) { return a != a || a > b ? a : b; }
template <class S>
S smaller_of_two(S a, S b) { return a != a || a < b ? a : b; }

// ------------------------------------------------------------------------------------------------------------- columns

// Columns whose sums stay in the first level of cache.
constexpr i64 columns = 512;

// sums[i] += v[i]
INLINE void add_to(double* sums, Register<float>::Vector v) {
    using L = Register<double>;
    const L::Vector low = L::load(sums) + doubles<0>(v), high = L::load(sums + L::count) + doubles<1>(v);
    __builtin_memcpy(sums, &low, sizeof low);
    __builtin_memcpy(sums + L::count, &high, sizeof high);
}

// A part is as for `column_squares`; the sums of eight elements are in float32.
template <class T>
void column_sums(const Work& work, i64 start, i64 stop, const T* x, double* out) {
    using L = Reader<T>;
    constexpr i64 lanes = L::count;
    const i64 width = work.width, blocks = work.cycle;
    for (i64 part = start; part < stop; ++part) {
        const i64 matrix = part / blocks, first = part % blocks * work.inner;
        const i64 last = first + work.inner < work.height ? first + work.inner : work.height;
        for (i64 c = 0; c < width; c += columns) {
            const i64 n = c + columns < width ? columns : width - c, whole = n / lanes * lanes;
            const T* a = x + (matrix * work.height + first) * width + c;
            alignas(64) double sums[columns] = {};
            i64 row = first;
            for (; row + 8 <= last; row += 8, a += 8 * width) {
                for (i64 i = 0; i < whole; i += lanes) {
                    typename L::Vector v[8];
                    for (int k = 0; k < 8; ++k) v[k] = L::load(a + k * width + i);
                    add_to(sums + i, ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
                }
                for (int k = 0; k < 8; ++k) {
                    for (i64 i = whole; i < n; ++i) sums[i] += L::number(a[k * width + i]);
                }
            }
            for (; row < last; ++row, a += width) {
                for (i64 i = 0; i < whole; i += lanes) add_to(sums + i, L::load(a + i));
                for (i64 i = whole; i < n; ++i) sums[i] += L::number(a[i]);
            }
            __builtin_memcpy(out + part * width + c, sums, n * sizeof(double));
        }
    }
}

// Write the column sums of `value` of the elements. A part is a block of `inner` rows of a matrix of `height` rows. Its
// sums are a row of `out`.
template <class T, class F, class... Arrays>
INLINE void sum_columns(const Work& work, i64 start, i64 stop, double* out, F value, const Arrays*... arrays) {
    const i64 width = work.width, blocks = work.cycle;
    for (i64 part = start; part < stop; ++part) {
        const i64 matrix = part / blocks, first = part % blocks * work.inner;
        const i64 last = first + work.inner < work.height ? first + work.inner : work.height;
        for (i64 c = 0; c < width; c += columns) {
            const i64 n = c + columns < width ? columns : width - c;
            alignas(64) double sums[columns] = {};
            i64 row = first, at = (matrix * work.height + first) * width + c;
            for (; row + 8 <= last; row += 8) {  // two at a time, as rows may collide in the cache
                alignas(64) T eight[columns];
                for (int k = 0; k < 4; ++k, at += 2 * width) {
                    const i64 next = at + width;
                    if (k == 0) {
#pragma omp simd
                        for (i64 i = 0; i < n; ++i) eight[i] = value(arrays[at + i]...) + value(arrays[next + i]...);
                    } else {
#pragma omp simd
                        for (i64 i = 0; i < n; ++i) eight[i] += value(arrays[at + i]...) + value(arrays[next + i]...);
                    }
                }
#pragma omp simd
                for (i64 i = 0; i < n; ++i) sums[i] += eight[i];
            }
            for (; row < last; ++row, at += width) {
#pragma omp simd
                for (i64 i = 0; i < n; ++i) sums[i] += value(arrays[at + i]...);
            }
            __builtin_memcpy(out + part * width + c, sums, n * sizeof(double));
        }
    }
}

template <class T>
void column_squares(const Work& work, i64 start, i64 stop, const T* x, double* out) {
    sum_columns<T>(work, start, stop, out, [](T a) { return a * a; }, x);
}
template <class T>
void column_dots(const Work& work, i64 start, i64 stop, const T* x, const T* y, double* out) {
    sum_columns<T>(work, start, stop, out, [](T a, T b) { return a * b; }, x, y);
}

}  // namespace gradcore

#define REDUCTION(name, char, T, R, S, kernel, combine) \
    BUILTIN(name##_##char, &gradcore::reduce_rows<T, R, S, &gradcore::kernel<T, S>, &gradcore::combine<S>>)
#define SUMS(char, T, R, S) REDUCTION(row_sums, char, gradcore::T, R, S, row_sums, sum_of_two)
#define EXTREMA(char, T, S) \
    REDUCTION(row_maxima, char, T, S, S, row_maxima, larger_of_two) \
    REDUCTION(row_minima, char, T, S, S, row_minima, smaller_of_two)
#define FLOAT_REDUCTIONS(char, T) \
    REDUCTION(row_sums, char, T, T, double, row_sums, sum_of_two) \
    REDUCTION(row_squares, char, T, T, double, row_squares, sum_of_two) \
    REDUCTION(row_products, char, T, T, T, row_products, product_of_two) \
    EXTREMA(char, T, T)

FLOAT_REDUCTIONS(f, float)
FLOAT_REDUCTIONS(d, double)
EXTREMA(e, gradcore::Half, float)
EXTREMA(E, gradcore::Brain, float)
SUMS(e, Half, float, double)
SUMS(E, Brain, float, double)
SUMS(t, Truth, gradcore::i64, gradcore::i64)
SUMS(B, u8, gradcore::i64, gradcore::i64)
SUMS(b, i8, gradcore::i64, gradcore::i64)
SUMS(h, i16, gradcore::i64, gradcore::i64)
SUMS(i, i32, gradcore::i64, gradcore::i64)
SUMS(l, i64, gradcore::i64, gradcore::i64)

FLOAT_KERNEL(row_dots)
FLOAT_KERNEL(column_squares)
KERNEL(column_dots, f, float)
KERNEL(column_sums, e, gradcore::Half)
KERNEL(column_sums, E, gradcore::Brain)
