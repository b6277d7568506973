// Sums of rows by index, always in the same order: the rows are visited in the order of their indices, and rows of one index
// one after the other, by the thread that has a column of the first of them.
//
// GRADCORE_TYPE is the numbers' type. `order` are the places of the rows by increasing index, equal ones in the order of
// their places; `sorted` the indices in this order. Negative indices count from the end.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

extern "C" __global__ void sum_segments(const T* rows, const i64* order, const i64* sorted, T* out, const i64 size,
                                        const i64 count, const i64 width) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 first = i / width, column = i % width, index = sorted[first];
        if (first > 0 && sorted[first - 1] == index) continue;
        A total = 0;
        for (i64 k = first; k < count && sorted[k] == index; ++k) total += load(rows[order[k] * width + column]);
        out[index * width + column] = store<T>(total);
    }
}
