// Kernels that fill an array with the words of Philox 4x64-10 or with random numbers made of them.
//
// All take   out, n                              the array and its number of elements
//            base                                null or, in a recorded graph, where a replay begins, see philox.cuh
//            key0, key1                          the key, its lower 64 bits first
//            counter0, counter1, counter2, counter3
//            offset                              words of the stream (key, counter) to leave out
// and then the parameters of the distribution, in the type the numbers are computed in: double for float64, else
// float. float16 and bfloat16 arrays are passed as their bits. The grid may have any size: each thread computes whole
// blocks of four words.
//
// Compile with -fmad=false, as C++17; see philox.cuh.

#include "philox.cuh"

using namespace philox;

// From word w of the stream, compute the elements from (w - offset) * per_word on by store(element, word, which).
template <int per_word, class Store>
__device__ void fill(u64 n, Place place, u64 offset, Store store) {
    const u64 words_needed = n / per_word + (n % per_word != 0);
    const u64 blocks_end = (offset + words_needed + 3) / 4;
    const u64 threads = static_cast<u64>(gridDim.x) * blockDim.x;
    for (u64 b = offset / 4 + static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; b < blocks_end; b += threads) {
        const Block block = words(advanced(place.counter, b), place.key);
#pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
            const u64 word = 4 * b + lane;
            if (word < offset) continue;
#pragma unroll
            for (int part = 0; part < per_word; ++part) {
                const u64 element = (word - offset) * per_word + part;
                if (element < n) store(element, block.word[lane], part);
            }
        }
    }
}

__device__ u32 half(u64 word, int part) { return static_cast<u32>(word >> (32 * part)); }

#define STREAM                                                                                                \
    u64 n, const u64 *base, u64 key0, u64 key1, u64 counter0, u64 counter1, u64 counter2, u64 counter3, u64 offset
#define FILL(per_word, value)                                                                             \
    fill<per_word>(n, Place(base, Key{{key0, key1}}, Block{{counter0, counter1, counter2, counter3}}), \
                   offset, [=](u64 i, u64 word, [[maybe_unused]] int part) { out[i] = value; })

// Where a replay begins, for the kernels of its graph.
extern "C" __global__ void philox_place(u64* base, u64 key0, u64 key1, u64 counter0, u64 counter1, u64 counter2,
                                        u64 counter3) {
    base[0] = key0, base[1] = key1;
    base[2] = counter0, base[3] = counter1, base[4] = counter2, base[5] = counter3;
}

extern "C" __global__ void philox_words(u64* out, STREAM) { FILL(1, word); }

// uniform: low, high - low, and the last number before high
#define UNIFORM(name, type, real, per_word, lane, digits, rounded)                                 \
    extern "C" __global__ void philox_uniform_##name(type* out, STREAM, real low, real span, real below) { \
        FILL(per_word, rounded(uniform<real, digits>(lane, low, span, below)));                    \
    }

// normal: mean and standard deviation
#define NORMAL(name, type, real, per_word, lane, rounded)                                     \
    extern "C" __global__ void philox_normal_##name(type* out, STREAM, real mean, real std) { \
        FILL(per_word, rounded(normal<real>(lane) * std + mean));                             \
    }

// exponential: the rate
#define EXPONENTIAL(name, type, real, per_word, lane, rounded)                           \
    extern "C" __global__ void philox_exponential_##name(type* out, STREAM, real rate) { \
        FILL(per_word, rounded(exponential<real>(lane) / rate));                         \
    }

#define DISTRIBUTIONS(name, type, real, per_word, lane, digits, rounded) \
    UNIFORM(name, type, real, per_word, lane, digits, rounded)           \
    NORMAL(name, type, real, per_word, lane, rounded)                    \
    EXPONENTIAL(name, type, real, per_word, lane, rounded)

DISTRIBUTIONS(float16, u16, float, 2, half(word, part), 11, float16_bits)
DISTRIBUTIONS(bfloat16, u16, float, 2, half(word, part), 8, bfloat16_bits)
DISTRIBUTIONS(float32, float, float, 2, half(word, part), 24, )
DISTRIBUTIONS(float64, double, double, 1, word, 53, )
