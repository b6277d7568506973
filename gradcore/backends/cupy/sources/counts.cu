// Counts of whole numbers (bincount) and of numbers in bins of equal width (histc).
//
// GRADCORE_TYPE is the type of the numbers, GRADCORE_COUNT that of the counts: i64 for whole numbers, or the type of
// floating-point numbers. A block counts up to `most` bins in shared memory. A single block writes its counts to
// `result`; several add them to `counts`, which is zero before.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using Count = GRADCORE_COUNT;

constexpr i64 most = 2048;

// Write the least and the largest number, or NaN if there is one, with one block.
extern "C" __global__ void find_range(const T* x, Count* range, const i64 size) {
    const Count first = static_cast<Count>(x[0]);
    Count low = first, high = first;
    for (i64 i = threadIdx.x; i < size; i += blockDim.x) {
        const Count value = static_cast<Count>(x[i]);
        low = Smallest()(low, value);
        high = Largest()(high, value);
    }
    low = row_reduce(low, Smallest(), first);
    high = row_reduce(high, Largest(), first);
    if (threadIdx.x) return;
    range[0] = low;
    range[1] = high;
}

// Count numbers by the bins that `bin_of` returns; numbers with a negative bin are left out.
template <class Bin>
GRADCORE_FUNCTION void count(const T* x, u64* counts, Count* result, i64 size, i64 bins, Bin bin_of) {
    __shared__ u32 partial[most];
    const bool shared = bins <= most;
    for (i64 k = threadIdx.x; shared && k < bins; k += blockDim.x) partial[k] = 0;
    __syncthreads();
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 bin = bin_of(x[i]);
        if (bin < 0) continue;
        if (shared) atomicAdd(partial + bin, 1u);
        else atomicAdd(counts + bin, u64(1));
    }
    __syncthreads();
    for (i64 k = threadIdx.x; shared && k < bins; k += blockDim.x) {
        if (result) result[k] = static_cast<Count>(partial[k]);
        else if (partial[k]) atomicAdd(counts + k, static_cast<u64>(partial[k]));
    }
}

// Count whole numbers from 0 to bins - 1.
extern "C" __global__ void count_numbers(const T* x, u64* counts, Count* result, const i64 size, const i64 bins) {
    count(x, counts, result, size, bins, [](T value) { return static_cast<i64>(value); });
}

// Sum the weights of each whole number. The order of additions depends on timing.
extern "C" __global__ void add_weights(const T* x, const double* weights, double* sums, const i64 size) {
    for (i64 i = first_index(); i < size; i += index_step()) atomicAdd(sums + static_cast<i64>(x[i]), weights[i]);
}

// Count numbers in bins of equal width between `low` and `low + width`, both included. NaN are left out.
extern "C" __global__ void count_in_bins(const T* x, u64* counts, Count* result, const i64 size, const i64 bins,
                                         const double low, const double high) {
    const T first = static_cast<T>(low), last = static_cast<T>(high), width = static_cast<T>(high - low);
    const T factor = static_cast<T>(bins);
    count(x, counts, result, size, bins, [&](T value) {
        if (!(value >= first && value <= last)) return i64(-1);
        T scaled = (value - first) * factor / width;
        if (scaled - scaled != 0) scaled = (value - first) / width * factor;  // the product overflows
        if (scaled - scaled != 0) return i64(-1);  // the width does
        const i64 bin = static_cast<i64>(scaled);
        return bin < bins ? bin : bins - 1;
    });
}
