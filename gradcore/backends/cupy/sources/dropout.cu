// Dropout: Bernoulli draws (see decisions.cuh), and the elements of an array times a factor if drawn, else times zero.
//
// GRADCORE_TYPE is the type of the array. A thread handles the elements for which one block of random words suffices.

#include "decisions.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

extern "C" __global__ void dropout(const T* x, T* out, bool* kept, STREAM, u64 threshold, double scale) {
    constexpr int each = decisions_of_block, packed = 16 / sizeof(T), packs = each / packed;
    const philox::Place place = PLACE;
    const bool aligned = reinterpret_cast<u64>(x) % 16 == 0;
    const u64 threads = static_cast<u64>(gridDim.x) * blockDim.x;
    for (u64 b = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; b < (n + each - 1) / each; b += threads) {
        const philox::Block block = philox::words(philox::advanced(place.counter, b), place.key);
        const u64 first = b * each;
        Pack<T, packed> values[packs];
        Pack<bool, each> decisions;
        const bool whole = aligned && first + each <= n;
        GRADCORE_UNROLL
        for (int i = 0; i < packs; ++i) {
            if (whole) values[i] = pack<packed>(x + first + i * packed);
            GRADCORE_UNROLL
            for (int k = 0; k < packed; ++k) {
                const int number = i * packed + k;
                const bool inside = first + number < n;
                if (!whole && inside) values[i].items[k] = x[first + number];
                decisions.items[number] = decision(block, number, threshold);
                const A factor = decisions.items[number] ? static_cast<A>(scale) : A(0);
                if (inside) values[i].items[k] = store<T>(load(values[i].items[k]) * factor);
                if (!whole && inside) {
                    out[first + number] = values[i].items[k];
                    kept[first + number] = decisions.items[number];
                }
            }
            if (whole) unpack(out + first + i * packed, values[i]);
        }
        if (whole) unpack(kept + first, decisions);
    }
}
