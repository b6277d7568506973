// Calls of BLAS, whose addresses Python passes, on matrices in row-major order.

#pragma once

#include "arrays.h"

namespace gradcore {

// CBLAS's constants for the order of a matrix and for its transpose.
constexpr int row_major = 101, as_it_is = 111, transposed = 112;

template <class T, class I>
using Gemm = void (*)(int, int, int, I, I, I, T, const T*, I, const T*, I, T, T*, I);

// Return the address of a matrix of a batch.
inline char* matrix_of(const Array& a, i64 number) {
    char* place = a.data;
    for (int d = a.dims - 3; d >= 0; --d) {
        place += number % a.extents[d] * a.strides[d];
        number /= a.extents[d];
    }
    return place;
}

}  // namespace gradcore
