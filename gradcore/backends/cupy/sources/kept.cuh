// Which weights of attention dropout keeps: all, or with GRADCORE_DROPOUT = 1 those of Bernoulli draws (decisions.cuh).
//
// Draws are numbered like the weights in a dense array of (heads, queries, keys). They are evaluated where they are
// used, and never stored. A block of random words decides 8 weights, which the lanes of a warp share.

#pragma once

#include "tiles.cuh"

#if GRADCORE_DROPOUT
#include "decisions.cuh"
#define DROPOUT , STREAM, u64 threshold, double scale_of_kept
#define KEPT Kept(PLACE, threshold, scale_of_kept, n, of.queries, of.keys)
#else
#define DROPOUT
#define KEPT Kept()
#endif

namespace gradcore {

#if GRADCORE_DROPOUT

struct Kept {
    const philox::Place place;
    const u32 threshold;
    const A scale;  // the factor of weights that are kept
    const i64 keys, weights_of_head, heads;

    GRADCORE_FUNCTION Kept(const philox::Place& place_, u64 threshold_, double scale_, u64 n, i64 queries, i64 keys_)
        : place(place_), threshold(threshold_), scale(scale_), keys(keys_), weights_of_head(queries * keys_),
          heads(n / weights_of_head) {}

    // Return a bit for each of the 8 weights that a block of random words decides.
    GRADCORE_FUNCTION u32 decide(u64 block) const {
        const philox::Block words = philox::words(philox::advanced(place.counter, block), place.key);
        u32 bits = 0;
        GRADCORE_UNROLL
        for (int i = 0; i < decisions_of_block; ++i) bits |= static_cast<u32>(decision(words, i, threshold)) << i;
        return bits;
    }

    // Return the number of the weight of a query and a key. The upstream gradient may have a further batch dim before
    // those of the weights, which all its elements share.
    GRADCORE_FUNCTION u64 number(i64 head, i64 query, i64 key) const {
        return head % heads * weights_of_head + query * keys + key;
    }

    // The decisions for the keys from `start` on of the queries `query` and `query` + 8 of each quad.
    template <int COLUMNS>
    struct OfQueries {
        u32 bits[COLUMNS / 16];  // those of the second query follow those of the first

        GRADCORE_FUNCTION OfQueries(const Kept& kept, i64 head, i64 query, i64 start) {
            const int lane = threadIdx.x % 4;
            GRADCORE_UNROLL
            for (int m = 0; m < COLUMNS / 16; ++m) {
                const int part = 4 * m + lane;  // 8 keys of a query
                const u64 first = kept.number(head, query + part / (COLUMNS / 8) * 8, start + part % (COLUMNS / 8) * 8);
                const int shift = first % 8;
                u32 found = 0;
                GRADCORE_ROLLED
                for (int i = 0; i < (shift ? 2 : 1); ++i) found |= kept.decide(first / 8 + i) << 8 * i;
                found = (found >> shift & 0xFF) << 8 * lane;
                found |= __shfl_xor_sync(whole_warp, found, 1);
                bits[m] = found | __shfl_xor_sync(whole_warp, found, 2);
            }
        }
        GRADCORE_FUNCTION bool operator()(int n, int i) const {
            const int first = i / 2 * COLUMNS + 8 * n;
            return bits[first / 32] >> (first % 32 + threadIdx.x % 4 * 2 + i % 2) & 1;
        }
    };

    // The decisions for the 16 keys from `key` on of the queries from `start` on. Each lane has those of one query.
    template <int COLUMNS>
    struct OfKeys {
        static_assert(COLUMNS == 16 || COLUMNS == 32, "lanes have whole queries");
        u32 bits = 0;

        GRADCORE_FUNCTION OfKeys(const Kept& kept, i64 head, i64 start, i64 key) {
            const int lane = threadIdx.x % 32;
            const u64 first = kept.number(head, start + lane % COLUMNS, key);
            const int shift = first % 8;
            GRADCORE_ROLLED
            for (int i = lane / COLUMNS; i < (shift ? 3 : 2); i += 32 / COLUMNS)
                bits |= kept.decide(first / 8 + i) << 8 * i;
            bits >>= shift;
            if (COLUMNS == 16) bits |= __shfl_xor_sync(whole_warp, bits, 16);
        }
        GRADCORE_FUNCTION bool operator()(int n, int i) const {
            const u32 of_query = __shfl_sync(whole_warp, bits, 8 * n + threadIdx.x % 4 * 2 + i % 2);
            return of_query >> (threadIdx.x % 32 / 4 + i / 2 * 8) & 1;
        }
    };
};

#else

struct Kept {
    static constexpr int scale = 1;

    template <int COLUMNS>
    struct OfQueries {
        GRADCORE_FUNCTION OfQueries(const Kept&, i64, i64, i64) {}
        GRADCORE_FUNCTION bool operator()(int, int) const { return true; }
    };
    template <int COLUMNS>
    using OfKeys = OfQueries<COLUMNS>;
};

#endif

}  // namespace gradcore
