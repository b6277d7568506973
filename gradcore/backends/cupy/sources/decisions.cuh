// Bernoulli draws with one probability from words of Philox 4x64-10, bit for bit equal to those of philox.bernoulli.
//
// threshold is the probability, rounded up to a multiple of 2**-31 (float32) or 2**-53 (float64), times that power of 2.
// base is null or, in a recorded graph, the counter at which a replay begins. The grid may have any size. Compile with
// -fmad=false as C++17; see philox.cuh.

#pragma once

#include "numbers.cuh"
#include "philox.cuh"

#define STREAM u64 n, const u64 *base, u64 key0, u64 key1, u64 counter0, u64 counter1, u64 counter2, u64 counter3
#define PLACE philox::Place(base, philox::Key{{key0, key1}}, philox::Block{{counter0, counter1, counter2, counter3}})

namespace gradcore {

// Number of draws of 32 bits that a block of words provides.
constexpr int decisions_of_block = 8;

GRADCORE_FUNCTION bool decision(const philox::Block& block, int number, u64 threshold) {
    return static_cast<u32>(block.word[number / 2] >> 32 * (number % 2)) >> 1 < threshold;
}

}  // namespace gradcore
