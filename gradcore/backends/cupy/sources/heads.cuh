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

    // The number of keys, from the first one on, that at least one query of a block sees.
    GRADCORE_FUNCTION i64 seen(i64 first_query) const {
        return causal && first_query + ROWS < keys ? first_query + ROWS : keys;
    }

    // Make scores of the products of a lane's queries `query` and `query` + 8 and the keys from `start` on: scale them
    // and add the mask. Scores are minus infinity where the key is hidden or the matrices have no such row.
    GRADCORE_FUNCTION void score_by_queries(A (&products)[COLUMNS / 8][4], const T* mask_of_head, i64 query, i64 start) const {
        int seen_keys[2];
        GRADCORE_UNROLL
        for (int i = 0; i < 2; ++i) {
            const i64 at = query + 8 * i;
            seen_keys[i] = bounded((at >= queries ? 0 : causal && at < keys ? at + 1 : keys) - start);
        }
        score(products, {0, 0}, seen_keys, mask_of_head, query * mask.row + start * mask_key, mask.row, mask_key);
    }

    // Like `score_by_queries`, for a lane's keys `key` and `key` + 8 and the queries from `start` on.
    GRADCORE_FUNCTION void score_by_keys(A (&products)[COLUMNS / 8][4], const T* mask_of_head, i64 key, i64 start) const {
        int first[2];
        GRADCORE_UNROLL
        for (int i = 0; i < 2; ++i) first[i] = key + 8 * i >= keys ? COLUMNS : causal ? bounded(key + 8 * i - start) : 0;
        const int last = bounded(queries - start);
        score(products, first, {last, last}, mask_of_head, key * mask_key + start * mask.row, mask_key, mask.row);
    }

private:
    static GRADCORE_FUNCTION int bounded(i64 count) {
        return static_cast<int>(count < 0 ? 0 : count < COLUMNS ? count : COLUMNS);
    }

    // Elements of a row count from `first` to before `last`. The mask of the tile begins at `begin`.
    GRADCORE_FUNCTION void score(A (&products)[COLUMNS / 8][4], const int (&first)[2], const int (&last)[2],
                                 const T* mask_of_head, i64 begin, i64 row_step, i64 column_step) const {
        const int from = Lane().column;
        const T* added = mask_of_head ? mask_of_head + begin + from * column_step : mask_of_head;
        GRADCORE_UNROLL
        for (int n = 0; n < COLUMNS / 8; ++n) {
            bool counts[4];
            GRADCORE_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int column = from + 8 * n + i % 2;
                counts[i] = column >= first[i / 2] && column < last[i / 2];
                products[n][i] = counts[i] ? products[n][i] * static_cast<A>(scale) : -infinity<A>();
            }
            if (!added) continue;
            GRADCORE_UNROLL
            for (int i = 0; i < 4; ++i)
                if (counts[i]) products[n][i] += load(added[i / 2 * 8 * row_step + i % 2 * column_step]);
            added += 8 * column_step;
        }
    }
};

// Return exp(x), for float16 and bfloat16 by the faster exp2: they do not store the last digits of float.
GRADCORE_FUNCTION A power(A x) { return sizeof(T) == 2 ? exp2(x * static_cast<A>(1.4426950408889634)) : exp(x); }

// Begin to copy rows of queries, keys, values or gradients from row `first` of `count` on.
template <int HEIGHT>
GRADCORE_FUNCTION void begin_rows(T* tile, const T* matrix, const Steps& of, i64 first, i64 count, i64 width, bool in_packs) {
    begin_tile<HEIGHT, WIDTH, THREADS>(tile, matrix + first * of.row, of.row, count - first, width, in_packs);
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
