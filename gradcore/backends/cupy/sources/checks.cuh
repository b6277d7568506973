// Checks of indices inside of kernels. The first index out of bounds is stored, and raised as an error when the host
// next waits.

#pragma once

#include "numbers.cuh"

namespace gradcore {

// Write the number of the check and the index to `found`, unless `found` is null or has an index already.
GRADCORE_FUNCTION void note(i64 index, i64 number, i64* found) {
    u64* first = reinterpret_cast<u64*>(found);
    if (found && atomicCAS(first, u64(0), static_cast<u64>(number)) == u64(0)) found[1] = index;
}

}  // namespace gradcore
