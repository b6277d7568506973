// LU factors and inverses of small matrices, by Gaussian elimination with the pivots that LAPACK chooses. Rows are
// padded with zeros to a width that is known at compile time, so that each row consists of a few vector registers.

#include <utility>

#include "calls.h"

namespace gradcore {

// Overwrite a matrix with its factors L and U, and the rows of `x`, unless it is null, with the solution for L. Pivots
// are counted from 1. Return the number of the first pivot that is zero, or 0.
template <class T, int W>
i32 eliminate(T (*a)[W], T (*x)[W], i64 n, i32* pivots) {
    i32 info = 0;
    for (i64 k = 0; k < n; ++k) {
        i64 top = k;
        for (i64 i = k + 1; i < n; ++i) top = magnitude(a[i][k]) > magnitude(a[top][k]) ? i : top;
        pivots[k] = static_cast<i32>(top + 1);
        if (a[top][k] == 0) {
            info = info ? info : static_cast<i32>(k + 1);
            continue;
        }
        if (top != k) {
            std::swap(a[k], a[top]);
            if (x) std::swap(x[k], x[top]);
        }
        alignas(64) T row[W];  // row of U; L does not change any more
        for (int j = 0; j < W; ++j) row[j] = j > k ? a[k][j] : T(0);
        for (i64 i = k + 1; i < n; ++i) {
            const T factor = a[i][k] / a[k][k];
            for (int j = 0; j < W; ++j) a[i][j] -= factor * row[j];
            a[i][k] = factor;
            if (!x) continue;
            for (int j = 0; j < W; ++j) x[i][j] -= factor * x[k][j];
        }
    }
    return info;
}

// Return `info`, or -1 if it is 0 and an element is not finite.
template <class T, int W>
i32 checked(const T (*a)[W], i64 n, i32 info) {
    T sum = 0;
    for (i64 i = 0; i < n; ++i) {
        for (int j = 0; j < W; ++j) sum += a[i][j] * T(0);
    }
    return info == 0 && sum != 0 ? -1 : info;
}

template <class F, class T, int W>
void read(const F* from, i64 n, T (*a)[W]) {
    for (i64 i = 0; i < n; ++i) {
        for (int j = 0; j < W; ++j) a[i][j] = j < n ? T(from[i * n + j]) : T(0);
    }
}

template <class T, int W>
void factor_some(const Work& work, i64 start, i64 stop, const T* from, T* to, i32* pivots, i32* info) {
    const i64 n = work.width;
    alignas(64) T a[W][W];
    for (i64 m = start; m < stop; ++m) {
        read<T, T, W>(from + m * n * n, n, a);
        const i32 zero = eliminate<T, W>(a, nullptr, n, pivots + m * n);
        info[m] = checked<T, W>(a, n, zero);
        for (i64 j = 0; j < n; ++j) {
            for (i64 i = 0; i < n; ++i) to[(m * n + j) * n + i] = a[i][j];
        }
    }
}

// Computed in double precision, as by NumPy.
template <class T, int W>
void invert_some(const Work& work, i64 start, i64 stop, const T* from, T* to, i32* info) {
    const i64 n = work.width;
    alignas(64) double a[W][W], x[W][W];
    i32 pivots[W];
    for (i64 m = start; m < stop; ++m) {
        read<T, double, W>(from + m * n * n, n, a);
        for (i64 i = 0; i < n; ++i) {
            for (int j = 0; j < W; ++j) x[i][j] = i == j ? 1.0 : 0.0;
        }
        const i32 zero = checked<double, W>(a, n, eliminate<double, W>(a, x, n, pivots));
        for (i64 k = n - 1; k >= 0; --k) {
            for (int j = 0; j < W; ++j) x[k][j] /= a[k][k];
            for (i64 i = 0; i < k; ++i) {
                for (int j = 0; j < W; ++j) x[i][j] -= a[i][k] * x[k][j];
            }
        }
        info[m] = checked<double, W>(x, n, zero);
        for (i64 i = 0; i < n; ++i) {
            for (i64 j = 0; j < n; ++j) to[(m * n + i) * n + j] = static_cast<T>(x[i][j]);
        }
    }
}

// Compute the factors, pivots and info of matrices with up to 32 rows, including further columns. An info of -1 means
// that LAPACK may give another result for infinities and NaN.
template <class T>
void lu_factors(const Work& work, i64 start, i64 stop, const T* from, T* to, i32* pivots, i32* info) {
    const auto some = work.width <= 4 ? factor_some<T, 4> : work.width <= 8 ? factor_some<T, 8>
                    : work.width <= 16 ? factor_some<T, 16> : factor_some<T, 32>;
    some(work, start, stop, from, to, pivots, info);
}

template <class T>
void inverses(const Work& work, i64 start, i64 stop, const T* from, T* to, i32* info) {
    const auto some = work.width <= 4 ? invert_some<T, 4> : work.width <= 8 ? invert_some<T, 8>
                    : work.width <= 16 ? invert_some<T, 16> : invert_some<T, 32>;
    some(work, start, stop, from, to, info);
}

}  // namespace gradcore

FLOAT_KERNEL(lu_factors)
FLOAT_KERNEL(inverses)
