// Running extrema of rows and of columns, the most frequent elements of sorted rows, and positions in sorted rows.
//
// GRADCORE_TYPE is the type of the elements. GRADCORE_WIDE is the type in which they are compared and exchanged between
// threads: i64 or u64 for integers, float for float16 and bfloat16.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using Wide = GRADCORE_WIDE;

// An element and its index, which is negative if there is no element.
struct Found {
    Wide value;
    i64 index;
};

// The last of the largest (or smallest) elements; NaN counts as the largest and as the smallest.
struct Extremum {
    bool least;

    GRADCORE_FUNCTION Found operator()(const Found& earlier, const Found& later) const {
        if (earlier.index < 0) return later;
        if (later.index < 0) return earlier;
        if (later.value != later.value) return later;
        if (earlier.value != earlier.value) return earlier;
        return (least ? later.value <= earlier.value : later.value >= earlier.value) ? later : earlier;
    }
};

// Combine the elements of a warp's lanes up to each lane.
template <class Combine>
GRADCORE_FUNCTION Found warp_scan(Found own, const Combine& combine) {
    for (u32 by = 1; by < 32; by *= 2) {
        const Found other{__shfl_up_sync(whole_warp, own.value, by), __shfl_up_sync(whole_warp, own.index, by)};
        if (threadIdx.x % 32 >= by) own = combine(other, own);
    }
    return own;
}

// Call `visit` with each index of a row and the elements up to it, combined. `element` returns the element of an index.
// All threads of a row take part, a warp or a block.
template <class Element, class Combine, class Visit>
GRADCORE_FUNCTION void scan_row(i64 n, const Element& element, const Combine& combine, Visit&& visit) {
    __shared__ Found totals[32];
    const u32 warp = threadIdx.x / 32, warps = blockDim.x / 32;
    Found carry{Wide(0), -1};
    for (i64 begin = 0; begin < n; begin += blockDim.x) {
        const i64 i = begin + threadIdx.x;
        Found own = warp_scan(i < n ? element(i) : Found{Wide(0), -1}, combine), before = carry;
        if (warps > 1) {
            __syncthreads();  // all threads have read the former totals
            if (threadIdx.x % 32 == 31) totals[warp] = own;
            __syncthreads();
            for (u32 k = 0; k < warps; ++k) {
                if (k == warp) before = carry;
                carry = combine(carry, totals[k]);
            }
        }
        own = combine(before, own);
        if (warps == 1) carry = {__shfl_sync(whole_warp, own.value, 31), __shfl_sync(whole_warp, own.index, 31)};
        if (i < n) visit(i, own);
    }
}

// Running extrema along dense rows.
extern "C" __global__ void scan_rows(const T* x, T* values, i64* indices, const i64 rows, const i64 n, const bool least) {
    const i64 row = row_index();
    if (row >= rows) return;
    const i64 start = row * n;
    const auto element = [&](i64 i) { return Found{static_cast<Wide>(load(x[start + i])), i}; };
    scan_row(n, element, Extremum{least}, [&](i64 i, const Found& found) {
        values[start + i] = store<T>(found.value);
        indices[start + i] = found.index;
    });
}

// Running extrema down columns, of which each thread has one: `inner` elements lie between those of a column.
extern "C" __global__ void scan_columns(const T* x, T* values, i64* indices, const i64 columns, const i64 n, const i64 inner,
                                        const bool least) {
    const Extremum combine{least};
    for (i64 column = first_index(); column < columns; column += index_step()) {
        const i64 start = column / inner * n * inner + column % inner;
        Found found{Wide(0), -1};
        for (i64 i = 0; i < n; ++i) {
            const i64 place = start + i * inner;
            found = combine(found, Found{static_cast<Wide>(load(x[place])), i});
            values[place] = store<T>(found.value);
            indices[place] = found.index;
        }
    }
}

// A run of equal elements: its length, and the position of its last element.
struct Longest {
    GRADCORE_FUNCTION i64 operator()(i64 x, i64 y) const { return x >= y ? x : y; }
};

// The most frequent element of each sorted row, the first of several, and where its last occurrence was before sorting.
// NaN differ from each other.
extern "C" __global__ void mode_rows(const T* sorted, const i64* order, T* values, i64* indices, const i64 rows, const i64 n) {
    const i64 row = row_index();
    if (row >= rows) return;
    sorted += row * n;
    order += row * n;
    const auto start_of_run = [&](i64 i) {
        return Found{Wide(0), i && load(sorted[i]) == load(sorted[i - 1]) ? i64(-1) : i};
    };
    const auto last = [](const Found& earlier, const Found& later) { return later.index < 0 ? earlier : later; };
    i64 length = 0, place = 0;  // of the longest run that ends at one of this thread's positions
    scan_row(n, start_of_run, last, [&](i64 i, const Found& start) {
        if (i - start.index + 1 <= length) return;
        length = i - start.index + 1;
        place = i;
    });
    const i64 longest = row_reduce(length, Longest(), i64(0));
    const i64 first = -row_reduce(length == longest ? -place : -n, Longest(), -n);
    if (threadIdx.x) return;
    values[row] = sorted[first];
    indices[row] = order[first];
}

// The positions at which to insert numbers into sorted rows: `width` numbers for each row of `n` elements, before
// (or after, if `right`) equal elements.
extern "C" __global__ void search_rows(const T* sorted, const T* x, i64* out, const i64 size, const i64 n, const i64 width,
                                       const bool right) {
    for (i64 k = first_index(); k < size; k += index_step()) {
        const T* row = sorted + k / width * n;
        const auto value = load(x[k]);
        i64 low = 0, high = n;
        while (low < high) {
            const i64 middle = low + (high - low) / 2;
            const auto probed = load(row[middle]);
            if (right ? probed > value : probed >= value) high = middle;
            else low = middle + 1;
        }
        out[k] = low;
    }
}
