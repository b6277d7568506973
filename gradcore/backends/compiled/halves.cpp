// Run generated float32 loops on arrays of float16 or bfloat16. A few elements at a time are converted, so that they
// stay in the first level of cache.

#include "halves.h"

#include "calls.h"

using gradcore::Brain;
using gradcore::convert_all;
using gradcore::Half;
using gradcore::i64;

namespace {

constexpr i64 block = 1024, most_arrays = 6;
// Parts of arrays for different threads begin at multiples of this number, so that they have no cache line in common.
constexpr i64 step_of_parts = 64;

// The format of an array: float32, a single float32 for all elements, or halves.
enum Kind : i64 { floats, repeated, halves, brains };

// Arguments of a loop, filled in by Python. The last array is the result.
struct Call {
    void (*loop)(i64, void* const*, const double*);
    const double* parameters;
    i64 grain, size, arrays;
    i64 kinds[most_arrays];
    char* data[most_arrays];
};

void run(const Call& call, i64 start, i64 stop) {
    alignas(64) float memory[most_arrays][block];
    void* places[most_arrays];
    const i64 result = call.arrays - 1;
    for (i64 k = 0; k < result; ++k) {
        if (call.kinds[k] != repeated) continue;
        for (float& x : memory[k]) x = *reinterpret_cast<const float*>(call.data[k]);
    }
    for (i64 i = start; i < stop; i += block) {
        const i64 n = stop - i < block ? stop - i : block;
        for (i64 k = 0; k < call.arrays; ++k) {
            const i64 kind = call.kinds[k];
            places[k] = kind == floats ? static_cast<void*>(reinterpret_cast<float*>(call.data[k]) + i) : memory[k];
            if (k == result) continue;
            if (kind == halves) convert_all(n, reinterpret_cast<const Half*>(call.data[k]) + i, memory[k]);
            if (kind == brains) convert_all(n, reinterpret_cast<const Brain*>(call.data[k]) + i, memory[k]);
        }
        call.loop(n, places, call.parameters);
        const float* computed = memory[result];
        if (call.kinds[result] == halves) convert_all(n, computed, reinterpret_cast<Half*>(call.data[result]) + i);
        if (call.kinds[result] == brains) convert_all(n, computed, reinterpret_cast<Brain*>(call.data[result]) + i);
    }
}

void run_halves(const Call* call, i64 threads) {
    gradcore::spread(call->size, call->grain, step_of_parts, threads, [&](i64 start, i64 stop) { run(*call, start, stop); });
}

}  // namespace

BUILTIN(gradcore_run_halves, &run_halves)
