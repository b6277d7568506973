// Reductions over the threads of a block: sums, maxima and others.
//
// A block has blockDim.x threads for a row, a multiple of 32 up to 1024. If blockDim.x is 32, a block may have several
// rows, one for each threadIdx.y. Each row then belongs to one warp.

#pragma once

#include "numbers.cuh"

namespace gradcore {

constexpr unsigned whole_warp = 0xFFFFFFFF;

struct Sum {
    template <class T>
    GRADCORE_FUNCTION T operator()(T x, T y) const {
        return x + y;
    }
};

// Return the larger number, or NaN if one of the two is NaN.
struct Largest {
    template <class T>
    GRADCORE_FUNCTION T operator()(T x, T y) const {
        return x >= y || x != x ? x : y;
    }
};

// Return the smaller number, or NaN if one of the two is NaN.
struct Smallest {
    template <class T>
    GRADCORE_FUNCTION T operator()(T x, T y) const {
        return x <= y || x != x ? x : y;
    }
};

// Combine the values of a warp's threads, and return the result in all of them. The order does not depend on timing.
template <class T, class Combine>
GRADCORE_FUNCTION T warp_reduce(T value, Combine combine) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value = combine(value, __shfl_xor_sync(whole_warp, value, lanes));
    return value;
}

// Combine the values of a row's threads, and return the result in all of them.
template <class T, class Combine>
GRADCORE_FUNCTION T row_reduce(T value, Combine combine, T neutral) {
    value = warp_reduce(value, combine);
    if (blockDim.x <= 32) return value;
    __shared__ T partial[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();  // all threads have read the former content
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp_reduce(lane < blockDim.x / 32 ? partial[lane] : neutral, combine);
}

template <class T>
GRADCORE_FUNCTION T row_sum(T value) {
    return row_reduce(value, Sum(), T(0));
}

template <class T>
GRADCORE_FUNCTION T row_largest(T value) {
    return row_reduce(value, Largest(), -infinity<T>());
}

// Return the row of this thread. A block may have several rows.
GRADCORE_FUNCTION i64 row_index() { return static_cast<i64>(blockIdx.x) * blockDim.y + threadIdx.y; }

}  // namespace gradcore
