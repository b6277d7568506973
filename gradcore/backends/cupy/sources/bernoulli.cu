// Bernoulli draws with one probability; see decisions.cuh.

#include "decisions.cuh"

using namespace philox;

template <int per_word, class Decide>
GRADCORE_FUNCTION void decide(bool* out, u64 n, Place place, Decide decision) {
    const u64 blocks = (n + 4 * per_word - 1) / (4 * per_word), threads = static_cast<u64>(gridDim.x) * blockDim.x;
    for (u64 b = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; b < blocks; b += threads) {
        const Block block = words(advanced(place.counter, b), place.key);
        for (int part = 0; part < 4 * per_word; ++part) {
            const u64 element = b * 4 * per_word + part;
            if (element < n) out[element] = decision(block.word[part / per_word], part % per_word);
        }
    }
}

extern "C" __global__ void bernoulli_float32(bool* out, STREAM, u64 threshold) {
    decide<2>(out, n, PLACE, [=](u64 word, int half) { return static_cast<u32>(word >> 32 * half) >> 1 < threshold; });
}

extern "C" __global__ void bernoulli_float64(bool* out, STREAM, u64 threshold) {
    decide<1>(out, n, PLACE, [=](u64 word, int) { return word >> 11 < threshold; });
}
