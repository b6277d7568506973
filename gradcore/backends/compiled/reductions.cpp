// Sums, products and extrema of contiguous rows, and the sums of squares over the rows of contiguous matrices.
//
// Sums are in double precision, of eight elements in their own, those of integers in 64 bits.

#include "calls.h"
#include "sums.h"

namespace gradcore {

// ---------------------------------------------------------------------------------------------------------------- rows

template <class T, class F>
INLINE double float_sum(const T* x, i64 n, F value) {
    using L = Lanes<T>;
    constexpr i64 lanes = L::count;
    Total total;
    i64 i = 0;
    for (; i + 8 * lanes <= n; i += 8 * lanes) {  // eight vectors in their own precision
        typename L::Vector v[8];
        for (int k = 0; k < 8; ++k) v[k] = value(L::load(x + i + k * lanes));
        total.add(((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
    }
    if (i + lanes <= n) {  // up to seven more
        typename L::Vector v = value(L::load(x + i));
        for (i += lanes; i + lanes <= n; i += lanes) v += value(L::load(x + i));
        total.add(v);
    }
    if (i < n && n >= lanes) {  // the last vector, without what was added already
        total.add(L::from_lane(lanes - (n - i), value(L::load(x + n - lanes))));
        i = n;
    }
    for (; i < n; ++i) total.add_number(value(x[i]));
    return total.sum();
}
template <class T>
INLINE double row_sum(const T* x, i64 n) {
    return float_sum(x, n, [](auto a) { return a; });
}

// Parts of `step` numbers, whose sums no 32 bits exceed, are added first.
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
INLINE i64 row_sum(const i8* x, i64 n) { return sum_in_parts<i8, i32>(x, n); }
INLINE i64 row_sum(const i16* x, i64 n) { return sum_in_parts<i16, i32>(x, n); }
INLINE i64 row_sum(const i32* x, i64 n) { return sum_in_parts<i32, i64>(x, n); }
INLINE i64 row_sum(const i64* x, i64 n) {  // which may wrap around
    return static_cast<i64>(sum_in_parts<u64, u64>(reinterpret_cast<const u64*>(x), n));
}

// Of each row; the last one may be shorter, as there are `inner` elements in all.
template <class T, class S>
void row_sums(const Work& work, i64 start, i64 stop, const T* x, S* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = static_cast<S>(row_sum(x + row * width, rest < width ? rest : width));
    }
}

template <class T>
void row_squares(const Work& work, i64 start, i64 stop, const T* x, double* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = float_sum(x + row * width, rest < width ? rest : width, [](auto a) { return a * a; });
    }
}

// The product of a row, in four registers.
template <class T>
void row_products(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    using L = Lanes<T>;
    constexpr i64 lanes = L::count;
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        const i64 rest = work.inner - row * width, n = rest < width ? rest : width;
        typename L::Vector products[4];
        for (auto& v : products) v = T(1) + typename L::Vector{};
        i64 i = 0;
        for (; i + 4 * lanes <= n; i += 4 * lanes) {
            for (int k = 0; k < 4; ++k) products[k] *= L::load(a + i + k * lanes);
        }
        products[0] = (products[0] * products[1]) * (products[2] * products[3]);
        T product = 1;
        for (i64 k = 0; k < lanes; ++k) product *= products[0][k];
        for (; i < n; ++i) product *= a[i];
        out[row] = product;
    }
}

// The largest or least element; NaN if there is one.
template <class T, bool least>
INLINE T extremum(const T* x, i64 n) {
    using L = Lanes<T>;
    constexpr i64 lanes = L::count;
    T best = x[0];
    bool spoilt = best != best;
    i64 i = 0;
    if (n >= lanes) {
        typename L::Vector tops[4];
        for (auto& v : tops) v = L::load(x);
        auto unordered = tops[0] != tops[0];
        for (; i + 4 * lanes <= n; i += 4 * lanes) {
            for (int k = 0; k < 4; ++k) {
                const auto v = L::load(x + i + k * lanes);
                tops[k] = (least ? v < tops[k] : v > tops[k]) ? v : tops[k];
                unordered |= v != v;
            }
        }
        for (; i + lanes <= n; i += lanes) {
            const auto v = L::load(x + i);
            tops[0] = (least ? v < tops[0] : v > tops[0]) ? v : tops[0];
            unordered |= v != v;
        }
        for (const auto& top : tops) {
            for (i64 k = 0; k < lanes; ++k) best = (least ? top[k] < best : top[k] > best) ? top[k] : best;
        }
        for (i64 k = 0; k < lanes; ++k) spoilt |= unordered[k] != 0;
    }
    for (; i < n; ++i) {
        best = (least ? x[i] < best : x[i] > best) ? x[i] : best;
        spoilt |= x[i] != x[i];
    }
    return spoilt ? not_a_number<T>() : best;
}

template <class T, bool least>
void row_extrema(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 rest = work.inner - row * width;
        out[row] = extremum<T, least>(x + row * width, rest < width ? rest : width);
    }
}

template <class T>
void row_maxima(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    row_extrema<T, false>(work, start, stop, x, out);
}
template <class T>
void row_minima(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    row_extrema<T, true>(work, start, stop, x, out);
}

// ------------------------------------------------------------------------------------------------------------- columns

// Columns whose sums stay in the first level of cache.
constexpr i64 columns = 512;

// A part is a block of `inner` rows of one of the matrices, which have `height` rows; its sums are a row of `out`.
template <class T>
void column_squares(const Work& work, i64 start, i64 stop, const T* x, double* out) {
    const i64 width = work.width, blocks = work.cycle;
    for (i64 part = start; part < stop; ++part) {
        const i64 matrix = part / blocks, first = part % blocks * work.inner;
        const i64 last = first + work.inner < work.height ? first + work.inner : work.height;
        for (i64 c = 0; c < width; c += columns) {
            const i64 n = c + columns < width ? columns : width - c;
            const T* a = x + (matrix * work.height + first) * width + c;
            alignas(64) double sums[columns] = {};
            i64 row = first;
            for (; row + 4 <= last; row += 4, a += 4 * width) {
#pragma omp simd
                for (i64 i = 0; i < n; ++i) {
                    const T p = a[i], q = a[i + width], r = a[i + 2 * width], s = a[i + 3 * width];
                    sums[i] += (p * p + q * q) + (r * r + s * s);
                }
            }
            for (; row < last; ++row, a += width) {
#pragma omp simd
                for (i64 i = 0; i < n; ++i) sums[i] += a[i] * a[i];
            }
            __builtin_memcpy(out + part * width + c, sums, n * sizeof(double));
        }
    }
}

}  // namespace gradcore

FLOAT_KERNEL(row_squares)
FLOAT_KERNEL(row_products)
FLOAT_KERNEL(row_maxima)
FLOAT_KERNEL(row_minima)
FLOAT_KERNEL(column_squares)
KERNEL(row_sums, f, float, double)
KERNEL(row_sums, d, double, double)
KERNEL(row_sums, B, gradcore::u8, gradcore::i64)
KERNEL(row_sums, b, gradcore::i8, gradcore::i64)
KERNEL(row_sums, h, gradcore::i16, gradcore::i64)
KERNEL(row_sums, i, gradcore::i32, gradcore::i64)
KERNEL(row_sums, l, gradcore::i64, gradcore::i64)
