// Random numbers from the words of Philox, bit for bit those of `gradcore.backends.random.philox`.

#pragma once

#include "philox.cuh"

namespace gradcore {

// Elements of which each word makes so many, by a function of the word and the number of the element in it; the key and
// the counter are six words.
template <int per_word, class T, class F>
__attribute__((noinline)) void draw(T* out, const u64* from, i64 n, i64 threads, F make) {
    constexpr i64 block = 4 * per_word;
    const philox::Key key{{from[0], from[1]}};
    const philox::Block counter{{from[2], from[3], from[4], from[5]}};
    spread((n + block - 1) / block, 1 << 10, 1, threads, [&](i64 start, i64 stop) {
        for (i64 b = start; b < stop; ++b) {
            const philox::Block words = philox::words(philox::advanced(counter, static_cast<u64>(b)), key);
            T found[block];
            for (i64 i = 0; i < block; ++i) {
                const u64 word = words.word[i / per_word];
                found[i] = make(per_word == 2 ? static_cast<u32>(word >> 32 * (i % 2)) : word);
            }
            const i64 first = b * block, count = n - first < block ? n - first : block;
            for (i64 i = 0; i < count; ++i) out[first + i] = found[i];
        }
    });
}

}  // namespace gradcore
