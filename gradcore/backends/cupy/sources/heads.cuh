// Shared parts of the attention kernels: the arguments of a call, the scores, and functions that write rows.
//
// GRADCORE_WIDTH is a multiple of 16 that is at least the width of queries, keys and values.

#pragma once

#include "kept.cuh"
#include "tiles.cuh"

namespace gradcore {

constexpr int WIDTH = GRADCORE_WIDTH, STRIDE = WIDTH + padding;
// The number of rows of a block, 16 for each warp, and the number of rows of the other operand in shared memory.
constexpr int ROWS = GRADCORE_ROWS, COLUMNS = GRADCORE_COLUMNS, THREADS = 2 * ROWS;

// How many elements an operand's matrices lie apart in each batch dim, and the rows of a matrix.
struct Steps {
    i64 batch[4], row;
};

// The same structure is in backends/cupy/flash_attention.py. In the last batch dim, heads share keys and values.
struct Heads {
    i64 sizes[4], queries, keys, width, value_width, mask_key, in_packs, causal;
    Steps query, key, value, mask, grad;
    double scale;

    GRADCORE_FUNCTION i64 start(const Steps& of, i64 head) const {
        i64 found = 0;
        GRADCORE_UNROLL
        for (int i = 3; i > 0; --i) {
            found += head % sizes[i] * of.batch[i];
            head /= sizes[i];
        }
        return found + head * of.batch[0];
    }

    // The score of a key for a query, with its mask; minus infinity if it is hidden or beyond the matrix.
    GRADCORE_FUNCTION A score(A product, const T* mask_of_head, i64 at_query, i64 at_key) const {
        if (at_query >= queries || at_key >= keys || (causal && at_key > at_query)) return -infinity<A>();
        product *= static_cast<A>(scale);
        return mask_of_head ? product + load(mask_of_head[at_query * mask.row + at_key * mask_key]) : product;
    }

    // The number of keys, from the first one on, that at least one query of a block sees.
    GRADCORE_FUNCTION i64 seen(i64 first_query) const {
        return causal && first_query + ROWS < keys ? first_query + ROWS : keys;
    }
};

// Return exp(x), for float16 and bfloat16 by the faster exp2: they do not store the last digits of float.
GRADCORE_FUNCTION A power(A x) { return sizeof(T) == 2 ? exp2(x * static_cast<A>(1.4426950408889634)) : exp(x); }

// Copy rows of queries, keys, values or gradients from row `first` of `count` on.
template <int HEIGHT>
GRADCORE_FUNCTION void load_rows(T* tile, const T* matrix, const Steps& of, i64 first, i64 count, i64 width, bool in_packs) {
    load_tile<HEIGHT, WIDTH>(tile, matrix + first * of.row, of.row, count - first, width, in_packs);
}

// Write a warp's 16 rows times `factors`, from row `first` of `count` on.
GRADCORE_FUNCTION void store_rows(T* matrix, const A (&sums)[WIDTH / 8][4], A factor0, A factor1, i64 first, i64 count,
                                  i64 width) {
    const Lane lane;
    GRADCORE_UNROLL
    for (int n = 0; n < WIDTH / 8; ++n)
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i) {
            const i64 row = first + lane.row + i / 2 * 8;
            const int column = 8 * n + lane.column + i % 2;
            if (row < count && column < width)
                matrix[row * width + column] = store<T>(sums[n][i] * (i < 2 ? factor0 : factor1));
        }
}

}  // namespace gradcore
