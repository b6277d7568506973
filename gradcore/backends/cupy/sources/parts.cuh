// Many arrays as one argument of a kernel, passed by value, so that no table of addresses has to be copied to the
// device.
//
// A block has up to `chunk` elements of one of the arrays. The same structure is in backends/cupy/multi_tensor.py.

#pragma once

#include "numbers.cuh"

namespace gradcore {

constexpr int most_arrays = 128;
constexpr i64 chunk = 8192;

struct Parts {
    i64 addresses[2][most_arrays];  // addresses of the arrays, and of a second list of arrays
    i64 start[most_arrays + 1];     // number of elements before each array
    i32 block[most_arrays + 1];     // number of blocks before each array
    i32 count;
    i64 first;  // position of the first array in a longer list

    // The array of this block: the last one whose first block is this one or before.
    GRADCORE_FUNCTION i32 array() const {
        i32 low = 0, high = count;
        while (high - low > 1) {
            const i32 middle = (low + high) / 2;
            if (block[middle] <= static_cast<i32>(blockIdx.x)) low = middle;
            else high = middle;
        }
        return low;
    }
};

static_assert(sizeof(Parts) <= 3712, "a kernel's arguments have 4096 bytes in all");

// This block's elements: where they begin in the array, and how many they are.
struct Elements {
    i64 begin, count;

    GRADCORE_FUNCTION Elements(const Parts& parts, i32 array)
        : begin((blockIdx.x - parts.block[array]) * chunk), count(parts.start[array + 1] - parts.start[array] - begin) {
        if (count > chunk) count = chunk;
    }
};

}  // namespace gradcore
