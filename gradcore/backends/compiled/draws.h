// Random numbers from the words of Philox, bit for bit those of `gradcore.backends.random.philox`.

#pragma once

#include <type_traits>

#include "philox.cuh"
#include "pool.h"

namespace gradcore {

// Write `make(h)`, or `make(h, i)` with the element's number, to each element. Each word makes `per_word` elements, of which
// h is the word itself or a half of it. The key and the counter are six words, given in `from`.
template <int per_word, class T, class F>
__attribute__((noinline)) void draw(T* out, const u64* from, i64 n, i64 threads, F make) {
    using H = std::conditional_t<per_word == 2, u32, u64>;
    constexpr i64 block = 4 * per_word, some = 32;  // elements of four words; blocks of words that are made at a time
    const philox::Key key{{from[0], from[1]}};
    const philox::Block counter{{from[2], from[3], from[4], from[5]}};
    spread((n + block - 1) / block, 1 << 10, 1, threads, [&](i64 start, i64 stop) {
        H h[some * block];
        for (i64 first = start; first < stop; first += some) {
            const i64 last = first + some < stop ? first + some : stop;
            for (i64 b = first; b < last; ++b) {
                const philox::Block words = philox::words(philox::advanced(counter, static_cast<u64>(b)), key);
                for (i64 i = 0; i < block; ++i) {
                    h[(b - first) * block + i] = static_cast<H>(words.word[i / per_word] >> i % per_word * 32);
                }
            }
            const i64 rest = n - first * block, count = (last - first) * block < rest ? (last - first) * block : rest;
            T* const to = out + first * block;
#pragma omp simd
            for (i64 i = 0; i < count; ++i) {
                if constexpr (std::is_invocable<F, H, i64>::value) to[i] = make(h[i], first * block + i);
                else to[i] = make(h[i]);
            }
        }
    });
}

}  // namespace gradcore
