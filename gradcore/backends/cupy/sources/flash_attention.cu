// Attention without a matrix of scores: the softmax is accumulated while tiles of scores are computed.
//
// GRADCORE_TYPE is the type of the arrays; see heads.cuh, tiles.cuh and kept.cuh. A block computes some queries of one
// head.

#include "heads.cuh"

using namespace gradcore;

extern "C" __global__ void __launch_bounds__(THREADS) flash_attention(
    const T* query, const T* key, const T* value, const T* mask, T* out, A* logs, const Heads of DROPOUT) {
    alignas(16) __shared__ T queries[ROWS * STRIDE], keys[COLUMNS * STRIDE], values[COLUMNS * STRIDE];
    __shared__ Stage<ROWS, COLUMNS> stage;
    const Lane lane;
    const Kept kept = KEPT;
    const i64 tiles = (of.queries + ROWS - 1) / ROWS, head = blockIdx.x / tiles;
    const i64 first = (tiles - 1 - blockIdx.x % tiles) * ROWS;  // blocks that see the most keys begin first
    const int of_warp = threadIdx.x / 32 * 16;
    const i64 row = first + of_warp + lane.row;
    query += of.start(of.query, head);
    key += of.start(of.key, head);
    value += of.start(of.value, head);
    if (mask) mask += of.start(of.mask, head);
    begin_rows<ROWS>(queries, query, of.query, first, of.queries, of.width, of.in_packs);
    begin_rows<COLUMNS>(keys, key, of.key, 0, of.keys, of.width, of.in_packs);
    A top[2] = {-infinity<A>(), -infinity<A>()}, total[2] = {0, 0}, sums[WIDTH / 8][4] = {};
    for (i64 start = 0; start < of.seen(first); start += COLUMNS) {
        finish_copies();  // of the keys, and all threads have read the former values
        begin_rows<COLUMNS>(values, value, of.value, start, of.keys, of.value_width, of.in_packs);
        A scores[COLUMNS / 8][4] = {};
        add_rows_by_rows<WIDTH>(scores, queries + of_warp * STRIDE, keys);
        of.score_by_queries(scores, mask, row, start);
        A highest[2] = {top[0], top[1]}, shift[2];
        GRADCORE_UNROLL
        for (int n = 0; n < COLUMNS / 8; ++n)
            GRADCORE_UNROLL
            for (int i = 0; i < 4; ++i) highest[i / 2] = Largest()(highest[i / 2], scores[n][i]);
        GRADCORE_UNROLL
        for (int i = 0; i < 2; ++i) {
            highest[i] = quad_reduce(highest[i], Largest());
            shift[i] = highest[i] == -infinity<A>() ? A(0) : highest[i];
            const A factor = power(top[i] - shift[i]);
            top[i] = highest[i];
            total[i] *= factor;
            GRADCORE_UNROLL
            for (int n = 0; n < WIDTH / 8; ++n) {
                sums[n][2 * i] *= factor;
                sums[n][2 * i + 1] *= factor;
            }
        }
        const Kept::OfQueries<COLUMNS> is_kept(kept, head, row, start);
        GRADCORE_UNROLL
        for (int n = 0; n < COLUMNS / 8; ++n)
            GRADCORE_UNROLL
            for (int i = 0; i < 4; ++i) {
                scores[n][i] = power(scores[n][i] - shift[i / 2]);
                total[i / 2] += scores[n][i];
                if (!is_kept(n, i)) scores[n][i] = 0;
            }
        finish_copies();  // of the values, and all threads have read the keys
        const i64 next = start + COLUMNS;
        if (next < of.seen(first)) begin_rows<COLUMNS>(keys, key, of.key, next, of.keys, of.width, of.in_packs);
        add_quads_by_rows(sums, scores, values, stage.rows_of_warp());
    }
    GRADCORE_UNROLL
    for (int i = 0; i < 2; ++i) {
        total[i] = quad_reduce(total[i], Sum());
        if (total[i] == 0) total[i] = 1;  // the row sees no key
        if (top[i] == -infinity<A>()) top[i] = 0;
        if (lane.column == 0 && row + 8 * i < of.queries) logs[head * of.queries + row + 8 * i] = top[i] + log(total[i]);
    }
    out += head * of.queries * of.value_width;
    store_rows(out, sums, kept.scale / total[0], kept.scale / total[1], first + of_warp, of.queries, of.value_width);
}
