// Reductions of rows by index, always in the same order. Rows are visited in the order of their indices. The rows of
// one index are visited one after the other, by the thread that handles a column of the first of them.
//
// GRADCORE_TYPE is the type of the arrays. `order` has the positions of the rows in the order of their indices
// (stable), and `sorted` the indices in this order. Reductions start with the content of `out`.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

struct Product {
    GRADCORE_FUNCTION A operator()(A x, A y) const { return x * y; }
};

// A thread goes over rows up to the next multiple of `chunk`, or to the end of its segment. Partial results of a
// segment that begins before the chunk are written to `heads`, those of a segment that continues after it to `tails`. A
// second launch combines these in order.
template <class Combine>
GRADCORE_FUNCTION void reduce(const T* rows, const i64* order, const i64* sorted, T* out, A* heads, A* tails, i64 size,
                              i64 count, i64 width, i64 chunk, Combine combine) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 first = i / width, column = i % width, index = sorted[first], part = first / chunk;
        const bool begins = first == 0 || sorted[first - 1] != index;
        if (!begins && first % chunk) continue;
        const i64 end = (part + 1) * chunk < count ? (part + 1) * chunk : count;
        A total = load(rows[order[first] * width + column]);
        i64 k = first + 1;
        for (; k < end && sorted[k] == index; ++k) total = combine(total, load(rows[order[k] * width + column]));
        if (!begins) heads[part * width + column] = total;
        else if (k < count && sorted[k] == index) tails[part * width + column] = total;
        else out[index * width + column] = store<T>(combine(load(out[index * width + column]), total));
    }
}

// Combine the parts of segments that begin in a chunk and continue after it.
template <class Combine>
GRADCORE_FUNCTION void join(const i64* sorted, T* out, const A* heads, const A* tails, i64 size, i64 count, i64 width,
                            i64 chunk, Combine combine) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 column = i % width;
        i64 part = i / width, next = (part + 1) * chunk;
        if (next >= count) continue;
        const i64 index = sorted[next], first = part * chunk;
        if (sorted[next - 1] != index || (first > 0 && sorted[first - 1] == index)) continue;
        A total = tails[part * width + column];
        for (; next < count && sorted[next] == index; next += chunk) total = combine(total, heads[++part * width + column]);
        out[index * width + column] = store<T>(combine(load(out[index * width + column]), total));
    }
}

#define SEGMENTS                                                                                                      \
    const T *rows, const i64 *order, const i64 *sorted, T *out, A *heads, A *tails, const i64 size, const i64 count,  \
        const i64 width, const i64 chunk
#define JOINED                                                                                                        \
    const i64 *sorted, T *out, const A *heads, const A *tails, const i64 size, const i64 count, const i64 width,      \
        const i64 chunk

extern "C" __global__ void sum_segments(SEGMENTS) {
    reduce(rows, order, sorted, out, heads, tails, size, count, width, chunk, Sum());
}

extern "C" __global__ void sum_joined(JOINED) {
    join(sorted, out, heads, tails, size, count, width, chunk, Sum());
}

extern "C" __global__ void prod_segments(SEGMENTS) {
    reduce(rows, order, sorted, out, heads, tails, size, count, width, chunk, Product());
}

extern "C" __global__ void prod_joined(JOINED) {
    join(sorted, out, heads, tails, size, count, width, chunk, Product());
}

extern "C" __global__ void amax_segments(SEGMENTS) {
    reduce(rows, order, sorted, out, heads, tails, size, count, width, chunk, Largest());
}

extern "C" __global__ void amax_joined(JOINED) {
    join(sorted, out, heads, tails, size, count, width, chunk, Largest());
}

extern "C" __global__ void amin_segments(SEGMENTS) {
    reduce(rows, order, sorted, out, heads, tails, size, count, width, chunk, Smallest());
}

extern "C" __global__ void amin_joined(JOINED) {
    join(sorted, out, heads, tails, size, count, width, chunk, Smallest());
}

// Sums of few rows by index, which need not be sorted. A block handles a row, and a warp 32 columns of it. The warp of
// the first row of an index sums all rows of the index, in the order of their positions; the warps of other rows end.
// Negative indices count from `height`.
extern "C" __global__ void sum_few(const T* rows, const i64* index, T* out, const i64 height, const i64 count, const i64 width) {
    const i64 row = blockIdx.x, lane = threadIdx.x, column = (static_cast<i64>(blockIdx.y) * blockDim.y + threadIdx.y) * 32 + lane;
    const i64 own = index[row] < 0 ? index[row] + height : index[row];
    A total = 0;
    for (i64 begin = 0; begin < count; begin += 32) {
        const i64 other = begin + lane < count ? index[begin + lane] : own + 1;
        u32 equal = __ballot_sync(whole_warp, (other < 0 ? other + height : other) == own);
        while (equal) {  // (equal for all lanes of the warp)
            const i64 k = begin + __ffs(static_cast<i32>(equal)) - 1;
            if (k < row) return;
            if (column < width) total += load(rows[k * width + column]);
            equal &= equal - 1;
        }
    }
    if (column < width) out[own * width + column] = store<T>(total);
}
