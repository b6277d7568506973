// Attention for a block of queries: the softmax of their scores, and the gradient of the scores.
//
// GRADCORE_TYPE is the type of the arrays. Scores and sums have the type in which numbers of that type are computed. A
// row (one query of one head) is computed by a block or, if it is short, by a warp. cuBLAS computes the products of
// matrices.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

namespace gradcore {

// The mask, with a number for each score. `head`, `row` and `key` are its strides. `of` has the number of each head's
// mask, if there are several masks.
struct Mask {
    const T* start;
    const i64* of;
    i64 head, row, key;
};

// The head and the query of a row of the block, and the number of keys that it sees.
struct Place {
    i64 head, query, seen;

    GRADCORE_FUNCTION Place(i64 row, i64 rows_of_head, i64 first_head, i64 first_query, i64 keys, bool causal)
        : head(first_head + row / rows_of_head), query(first_query + row % rows_of_head) {
        seen = causal && query + 1 < keys ? query + 1 : keys;
    }

    GRADCORE_FUNCTION const T* mask(const Mask& all) const {
        if (!all.start) return all.start;
        return all.start + (all.of ? all.of[head] * all.head : 0) + query * all.row;
    }
};

}  // namespace gradcore

// Compute weights = softmax(scores + mask), with zeros for rows of minus infinity, and the logarithm of the sum of the
// exponentials of each row.
extern "C" __global__ void attention_weights(
    const A* scores, const T* mask, const i64* mask_of, T* weights, A* logs, const i64 rows, const i64 keys,
    const i64 rows_of_head, const i64 queries, const i64 first_head, const i64 first_query, const bool causal,
    const i64 mask_head, const i64 mask_row, const i64 mask_key) {
    const i64 row = row_index();
    if (row >= rows) return;
    const Place place(row, rows_of_head, first_head, first_query, keys, causal);
    const T* added = place.mask({mask, mask_of, mask_head, mask_row, mask_key});
    scores += row * keys;
    weights += row * keys;
    A top = -infinity<A>(), total = 0;
    for (i64 i = threadIdx.x; i < place.seen; i += blockDim.x)
        top = Largest()(top, added ? scores[i] + load(added[i * mask_key]) : scores[i]);
    top = row_largest(top);
    if (top == -infinity<A>()) top = 0;
    for (i64 i = threadIdx.x; i < place.seen; i += blockDim.x)
        total += exp((added ? scores[i] + load(added[i * mask_key]) : scores[i]) - top);
    total = row_sum(total);
    if (total == 0) total = 1;
    for (i64 i = threadIdx.x; i < keys; i += blockDim.x) {
        A weight = 0;
        if (i < place.seen) weight = exp((added ? scores[i] + load(added[i * mask_key]) : scores[i]) - top) / total;
        weights[i] = store<T>(weight);  // overwrites the score, if both have one type
    }
    if (threadIdx.x == 0) logs[place.head * queries + place.query] = top + log(total);
}

// Compute the weights again, and from their gradient t that of the scores: weights * (t - sum(t * weights)).
extern "C" __global__ void attention_gradients(
    const A* scores, const A* of_weights, const T* mask, const i64* mask_of, const A* logs, T* weights, T* of_scores,
    const i64 rows, const i64 keys, const i64 rows_of_head, const i64 queries, const i64 first_head,
    const i64 first_query, const bool causal, const i64 mask_head, const i64 mask_row, const i64 mask_key) {
    const i64 row = row_index();
    if (row >= rows) return;
    const Place place(row, rows_of_head, first_head, first_query, keys, causal);
    const T* added = place.mask({mask, mask_of, mask_head, mask_row, mask_key});
    scores += row * keys;
    of_weights += row * keys;
    weights += row * keys;
    of_scores += row * keys;
    const A shift = logs[place.head * queries + place.query];
    A total = 0;
    for (i64 i = threadIdx.x; i < place.seen; i += blockDim.x)
        total += exp((added ? scores[i] + load(added[i * mask_key]) : scores[i]) - shift) * of_weights[i];
    total = row_sum(total);
    for (i64 i = threadIdx.x; i < keys; i += blockDim.x) {
        A weight = 0, gradient = 0;
        if (i < place.seen) {
            weight = exp((added ? scores[i] + load(added[i * mask_key]) : scores[i]) - shift);
            gradient = weight * (of_weights[i] - total);
        }
        weights[i] = store<T>(weight);
        of_scores[i] = store<T>(gradient);
    }
}
