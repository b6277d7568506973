// Sums and maxima of rows, accumulated in several registers. Compilers do not transform simple loops into this form.

#pragma once

#include "elements.h"

namespace gradcore {

// A vector that fills a register of the CPU. GCC compares and converts longer vectors one element after the other.
template <class T>
struct Register {
    static constexpr i64 count = register_size / sizeof(T);
    typedef T Vector __attribute__((vector_size(register_size)));

    INLINE static Vector load(const T* place) {
        Vector v;
        __builtin_memcpy(&v, place, sizeof v);
        return v;
    }
    // Return `v` with zeros in its first lanes.
    INLINE static Vector from_lane(i64 first, Vector v) {
        for (i64 k = 0; k < count; ++k) v[k] = k < first ? T(0) : v[k];
        return v;
    }
};

// Convert the first or the second half of a vector to double precision.
template <int half>
INLINE Register<double>::Vector doubles(Register<float>::Vector v) {
    constexpr int bytes = register_size / 2;
    typedef float Half __attribute__((vector_size(bytes)));
    Half found;
    __builtin_memcpy(&found, reinterpret_cast<const char*>(&v) + half * bytes, bytes);
    return __builtin_convertvector(found, Register<double>::Vector);
}

// Return the sum of the lanes of a vector. The two halves are added, then the halves of the result, and so on.
INLINE double sum_of_lanes(Register<double>::Vector v) {
    double parts[Register<double>::count];
    __builtin_memcpy(parts, &v, sizeof v);
#pragma GCC unroll 3
    for (i64 step = Register<double>::count / 2; step; step /= 2) {
        for (i64 k = 0; k < step; ++k) parts[k] += parts[k + step];
    }
    return parts[0];
}

// Accumulator of vectors in double precision.
class Total {
public:
    INLINE void add(Register<double>::Vector v) { low_ += v; }
    INLINE void add(Register<float>::Vector v) {
        low_ += doubles<0>(v);
        high_ += doubles<1>(v);
    }
    INLINE void add_number(double x) { rest_ += x; }
    INLINE double sum() const { return rest_ + sum_of_lanes(low_ + high_); }

private:
    Register<double>::Vector low_ = {}, high_ = {};
    double rest_ = 0;
};

template <class V>
struct Two {
    V first, second;
};

// Return two sums over `n` elements: those of the two results of `values`, a function of an element of each row or of a
// vector of each row.
template <class T, class F, class... Rows>
INLINE Two<double> sums_of(i64 n, F values, const Rows*... rows) {
    using L = Register<T>;
    constexpr i64 lanes = L::count;
    Total first, second;
    i64 i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {  // sums of four vectors, added in double precision
        const auto a = values(L::load(rows + i)...), b = values(L::load(rows + i + lanes)...);
        const auto c = values(L::load(rows + i + 2 * lanes)...), d = values(L::load(rows + i + 3 * lanes)...);
        first.add((a.first + b.first) + (c.first + d.first));
        second.add((a.second + b.second) + (c.second + d.second));
    }
    for (; i + lanes <= n; i += lanes) {
        const auto a = values(L::load(rows + i)...);
        first.add(a.first), second.add(a.second);
    }
    if (i < n && n >= lanes) {  // the last vector, without elements that were added before
        const auto a = values(L::load(rows + n - lanes)...);
        first.add(L::from_lane(lanes - (n - i), a.first)), second.add(L::from_lane(lanes - (n - i), a.second));
        i = n;
    }
    for (; i < n; ++i) {
        const auto a = values(rows[i]...);
        first.add_number(a.first), second.add_number(a.second);
    }
    return {first.sum(), second.sum()};
}

// Return the sum of `value(x[i], ...)`.
template <class T, class F, class... Rows>
INLINE double sum_of(i64 n, F value, const Rows*... rows) {
    const auto values = [=](auto... x) {
        const auto found = value(x...);
        return Two<decltype(value(x...))>{found, decltype(value(x...)){}};
    };
    return sums_of<T>(n, values, rows...).first;
}

template <class T>
INLINE double sum_of(i64 n, const T* x) {
    return sum_of<T>(n, [](auto a) { return a; }, x);
}

// Return the largest number, ignoring NaN.
template <class T>
INLINE T largest(const T* x, i64 n) {
    using L = Register<T>;
    constexpr i64 lanes = L::count;
    T found = -infinity<T>();
    if (n < lanes) {
        for (i64 i = 0; i < n; ++i) found = x[i] > found ? x[i] : found;
        return found;
    }
    typename L::Vector a = found + typename L::Vector{}, b = a;
    i64 i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        const auto c = L::load(x + i), d = L::load(x + i + lanes);
        a = c > a ? c : a;
        b = d > b ? d : b;
    }
    if (i + lanes <= n) {
        const auto c = L::load(x + i);
        a = c > a ? c : a;
    }
    const auto last = L::load(x + n - lanes);
    b = last > b ? last : b;
    a = b > a ? b : a;
    for (i64 k = 0; k < lanes; ++k) found = a[k] > found ? a[k] : found;
    return found;
}

}  // namespace gradcore
