// Gradients of attention. Weights are computed again from the logarithms of the rows' sums. There are no atomic
// additions: a block computes the whole gradient of some queries of one head, or of some keys, which several heads may
// share.
//
// GRADCORE_TYPE is the type of the arrays; see heads.cuh, tiles.cuh and kept.cuh. GRADCORE_GRADIENTS is
// by_keys or by_values, or missing for both: registers do not suffice for the sums of both if heads are wide.

#include "heads.cuh"

#ifndef GRADCORE_GRADIENTS
#define GRADCORE_GRADIENTS by_keys | by_values
#endif

using namespace gradcore;

constexpr int by_keys = 1, by_values = 2, gradients = GRADCORE_GRADIENTS;
constexpr bool BY_KEYS = gradients & by_keys, BY_VALUES = gradients & by_values;

// The gradient by the queries, and for the other kernel the inner products of the rows of the gradient and of the
// result.
extern "C" __global__ void __launch_bounds__(THREADS) flash_attention_queries(
    const T* query, const T* key, const T* value, const T* mask, const T* grad, const T* out, const A* logs, A* products,
    T* of_query, const Heads of DROPOUT) {
    alignas(16) __shared__ T queries[ROWS * STRIDE], grads[ROWS * STRIDE], keys[COLUMNS * STRIDE], values[COLUMNS * STRIDE];
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
    grad += of.start(of.grad, head);
    if (mask) mask += of.start(of.mask, head);
    begin_rows<ROWS>(queries, query, of.query, first, of.queries, of.width, of.in_packs);
    begin_rows<ROWS>(grads, grad, of.grad, first, of.queries, of.value_width, of.in_packs);
    finish_copies();
    begin_rows<COLUMNS>(values, value, of.value, 0, of.keys, of.value_width, of.in_packs);
    A product[2] = {0, 0}, shift[2] = {0, 0}, sums[WIDTH / 8][4] = {};
    GRADCORE_UNROLL
    for (int i = 0; i < 2; ++i) {
        const i64 at = head * of.queries + row + 8 * i;
        const bool inside = row + 8 * i < of.queries;
        const T* grad_row = grads + (of_warp + lane.row + 8 * i) * STRIDE;
        if (inside) {
            shift[i] = logs[at];
            for (int column = lane.column / 2; column < of.value_width; column += 4)
                product[i] += load(grad_row[column]) * load(out[at * of.value_width + column]);
        }
        product[i] = quad_reduce(product[i], Sum());
        if (inside && lane.column == 0) products[at] = product[i];
    }
    for (i64 start = 0; start < of.seen(first); start += COLUMNS) {
        finish_copies();  // of the values, and all threads have read the former keys
        begin_rows<COLUMNS>(keys, key, of.key, start, of.keys, of.width, of.in_packs);
        A scores[COLUMNS / 8][4] = {}, of_weights[COLUMNS / 8][4] = {};
        add_rows_by_rows<WIDTH>(of_weights, grads + of_warp * STRIDE, values);
        finish_copies();  // of the keys, and all threads have read the values
        const i64 next = start + COLUMNS;
        if (next < of.seen(first)) begin_rows<COLUMNS>(values, value, of.value, next, of.keys, of.value_width, of.in_packs);
        add_rows_by_rows<WIDTH>(scores, queries + of_warp * STRIDE, keys);
        of.score_by_queries(scores, mask, row, start);
        const Kept::OfQueries<COLUMNS> is_kept(kept, head, row, start);
        GRADCORE_UNROLL
        for (int n = 0; n < COLUMNS / 8; ++n)
            GRADCORE_UNROLL
            for (int i = 0; i < 4; ++i) {
                const A of_weight = is_kept(n, i) ? of_weights[n][i] * kept.scale : A(0);
                scores[n][i] = power(scores[n][i] - shift[i / 2]) * (of_weight - product[i / 2]);
            }
        add_quads_by_rows(sums, scores, keys, stage.rows_of_warp());
    }
    const A scale = static_cast<A>(of.scale);
    store_rows(of_query + head * of.queries * of.width, sums, scale, scale, first + of_warp, of.queries, of.width);
}

// The gradients by keys and values, each of which may be missing (null) or not among GRADCORE_GRADIENTS.
extern "C" __global__ void __launch_bounds__(THREADS) flash_attention_keys(
    const T* query, const T* key, const T* value, const T* mask, const T* grad, const A* logs, const A* products, T* of_key,
    T* of_value, const Heads of DROPOUT) {
    alignas(16) __shared__ T queries[COLUMNS * STRIDE], grads[COLUMNS * STRIDE], keys[ROWS * STRIDE], values[ROWS * STRIDE];
    __shared__ Stage<ROWS, COLUMNS> stage;
    const Lane lane;
    const Kept kept = KEPT;
    const i64 tiles = (of.keys + ROWS - 1) / ROWS, shared = blockIdx.x / tiles, first = blockIdx.x % tiles * ROWS;
    const int of_warp = threadIdx.x / 32 * 16;
    const i64 row = first + of_warp + lane.row, first_head = shared * of.sizes[3];
    key += of.start(of.key, first_head);
    value += of.start(of.value, first_head);
    begin_rows<ROWS>(keys, key, of.key, first, of.keys, of.width, of.in_packs);
    begin_rows<ROWS>(values, value, of.value, first, of.keys, of.value_width, of.in_packs);
    A key_sums[WIDTH / 8][4] = {}, value_sums[WIDTH / 8][4] = {};
    for (i64 head = first_head; head < first_head + of.sizes[3]; ++head) {
        const T *its_queries = query + of.start(of.query, head), *its_grads = grad + of.start(of.grad, head);
        const T* its_mask = mask ? mask + of.start(of.mask, head) : mask;
        for (i64 start = of.causal ? first / COLUMNS * COLUMNS : 0; start < of.queries; start += COLUMNS) {
            __syncthreads();  // all threads have read the former content
            begin_rows<COLUMNS>(queries, its_queries, of.query, start, of.queries, of.width, of.in_packs);
            begin_rows<COLUMNS>(grads, its_grads, of.grad, start, of.queries, of.value_width, of.in_packs);
            finish_copies();
            A weights[COLUMNS / 8][4] = {}, of_scores[COLUMNS / 8][4] = {};
            add_rows_by_rows<WIDTH>(weights, keys + of_warp * STRIDE, queries);
            if constexpr (BY_KEYS) add_rows_by_rows<WIDTH>(of_scores, values + of_warp * STRIDE, grads);
            of.score_by_keys(weights, its_mask, row, start);
            const Kept::OfKeys<COLUMNS> is_kept(kept, head, start, first + of_warp);
            const A *its_logs = logs + head * of.queries + start, *its_products = products + head * of.queries + start;
            const int last = static_cast<int>(of.queries - start < COLUMNS ? of.queries - start : COLUMNS);
            GRADCORE_UNROLL
            for (int n = 0; n < COLUMNS / 8; ++n) {
                A shift[2] = {0, 0}, product[2] = {0, 0};
                GRADCORE_UNROLL
                for (int i = 0; i < 2; ++i) {
                    const int column = 8 * n + lane.column + i;
                    if (column < last) {
                        shift[i] = its_logs[column];
                        product[i] = its_products[column];
                    }
                }
                GRADCORE_UNROLL
                for (int i = 0; i < 4; ++i) {
                    weights[n][i] = power(weights[n][i] - shift[i % 2]);
                    const bool keeps = is_kept(n, i);
                    const A of_weight = keeps ? of_scores[n][i] * kept.scale : A(0);
                    of_scores[n][i] = weights[n][i] * (of_weight - product[i % 2]);
                    if (!keeps) weights[n][i] = 0;
                }
            }
            if constexpr (BY_VALUES) add_quads_by_rows(value_sums, weights, grads, stage.rows_of_warp());
            if constexpr (BY_KEYS) add_quads_by_rows(key_sums, of_scores, queries, stage.rows_of_warp());
        }
    }
    const A scale = static_cast<A>(of.scale);
    if constexpr (BY_KEYS) {
        T* to = of_key + shared * of.keys * of.width;
        if (of_key) store_rows(to, key_sums, scale, scale, first + of_warp, of.keys, of.width);
    }
    if constexpr (BY_VALUES) {
        T* to = of_value + shared * of.keys * of.value_width;
        if (of_value) store_rows(to, value_sums, kept.scale, kept.scale, first + of_warp, of.keys, of.value_width);
    }
}
