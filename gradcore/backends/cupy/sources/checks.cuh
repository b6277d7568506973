// Indices that kernels check themselves: the first one that is out of bounds is noted, and raised when the host next waits.

#pragma once

#include "numbers.cuh"

namespace gradcore {

// Note an index in `found`, unless that is null or has one: the number of the check, and the index.
GRADCORE_FUNCTION void note(i64 index, i64 number, i64* found) {
    u64* first = reinterpret_cast<u64*>(found);
    if (found && atomicCAS(first, u64(0), static_cast<u64>(number)) == u64(0)) found[1] = index;
}

}  // namespace gradcore
