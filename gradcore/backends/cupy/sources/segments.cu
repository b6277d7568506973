// Reductions of rows by index, always in the same order: the rows are visited in the order of their indices, and rows of one
// index one after the other, by the thread that has a column of the first of them.
//
// GRADCORE_TYPE is the numbers' type. `order` are the places of the rows by increasing index, equal ones in the order of
// their places; `sorted` the indices in this order. The result starts as what is in `out`.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

struct Product {
    GRADCORE_FUNCTION A operator()(A x, A y) const { return x * y; }
};

// The smaller number; not a number if one of the two is not.
struct Smallest {
    GRADCORE_FUNCTION A operator()(A x, A y) const { return x <= y || x != x ? x : y; }
};

template <class Combine>
GRADCORE_FUNCTION void reduce(const T* rows, const i64* order, const i64* sorted, T* out, i64 size, i64 count, i64 width,
                              Combine combine) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 first = i / width, column = i % width, index = sorted[first];
        if (first > 0 && sorted[first - 1] == index) continue;
        A total = load(out[index * width + column]);
        for (i64 k = first; k < count && sorted[k] == index; ++k) total = combine(total, load(rows[order[k] * width + column]));
        out[index * width + column] = store<T>(total);
    }
}

extern "C" __global__ void sum_segments(const T* rows, const i64* order, const i64* sorted, T* out, const i64 size,
                                        const i64 count, const i64 width) {
    reduce(rows, order, sorted, out, size, count, width, Sum());
}

extern "C" __global__ void prod_segments(const T* rows, const i64* order, const i64* sorted, T* out, const i64 size,
                                         const i64 count, const i64 width) {
    reduce(rows, order, sorted, out, size, count, width, Product());
}

extern "C" __global__ void amax_segments(const T* rows, const i64* order, const i64* sorted, T* out, const i64 size,
                                         const i64 count, const i64 width) {
    reduce(rows, order, sorted, out, size, count, width, Largest());
}

extern "C" __global__ void amin_segments(const T* rows, const i64* order, const i64* sorted, T* out, const i64 size,
                                         const i64 count, const i64 width) {
    reduce(rows, order, sorted, out, size, count, width, Smallest());
}
