// Stable selection and sorting in rows of dense arrays, whose elements are read as integers.
//
// GRADCORE_TYPE is the unsigned integer as wide as an element. GRADCORE_KIND is the kind of the elements: 0 for
// unsigned integers, 1 for signed ones, 2 for floating-point numbers. For these, GRADCORE_INFINITY has the bits of
// infinity. The key of an element is an integer that is smaller the earlier the element comes. NaN are equal and come
// last, 0.0 equals -0.0, and in descending order keys are inverted. GRADCORE_MOST is the number of elements that a
// block can sort, a power of 2.
//
// A block handles a row, or a part of one. Selection considers one digit of 8 bits of the keys at a time, the highest
// first (radix select). A histogram shows which digit the element of a rank has, and only elements with this digit
// count in the next pass.

#include "block.cuh"

using namespace gradcore;
using Key = GRADCORE_TYPE;

constexpr int bits = 8 * sizeof(Key), digits = sizeof(Key), lanes = 16 / sizeof(Key);
constexpr u32 most = GRADCORE_MOST;  // number of elements that a block sorts in shared memory
constexpr u32 nowhere = 0xFFFFFFFF;
constexpr Key all_ones = static_cast<Key>(~Key(0)), sign = static_cast<Key>(Key(1) << (bits - 1));

GRADCORE_FUNCTION bool is_nan(Key element) {
    return GRADCORE_KIND == 2 && static_cast<Key>(element & ~sign) > static_cast<Key>(GRADCORE_INFINITY);
}

struct Order {
    bool descending;

    GRADCORE_FUNCTION Key key(Key element) const {
        Key found = element;
        if (GRADCORE_KIND == 1) found = element ^ sign;
        if (GRADCORE_KIND == 2) {
            if (is_nan(element)) found = all_ones;
            else if (element & sign) found = element == sign ? sign : static_cast<Key>(~element);
            else found = element | sign;
        }
        return descending ? static_cast<Key>(~found) : found;
    }
};

// Call `visit` with the place and the value of each element of a row. Threads read neighbours by one load where
// possible.
template <class F>
GRADCORE_FUNCTION void each_of(const Key* x, u32 n, F&& visit) {
    u32 begin = 0;
    if (reinterpret_cast<u64>(x) % 16 == 0) {
        begin = n / lanes * lanes;
        for (u32 i = threadIdx.x * lanes; i < begin; i += blockDim.x * lanes) {
            const Pack<Key, lanes> some = pack<lanes>(x + i);
            GRADCORE_UNROLL
            for (int j = 0; j < lanes; ++j) visit(i + j, some.items[j]);
        }
    }
    for (u32 i = begin + threadIdx.x; i < n; i += blockDim.x) visit(i, x[i]);
}

// ------------------------------------------------------------------------------------------------------- sorting

// Sort pairs of a key and a place by a bitonic network, with all threads of the block. `count` is a power of 2.
GRADCORE_FUNCTION void sort_pairs(Key* keys, u32* places, u32 count) {
    for (u32 size = 2; size <= count; size *= 2)
        for (u32 step = size / 2; step; step /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < count / 2; i += blockDim.x) {
                const u32 a = 2 * (i & ~(step - 1)) + (i & (step - 1)), b = a + step;
                const Key first = keys[a], second = keys[b];
                const u32 at = places[a], other = places[b];
                const bool later = first > second || (first == second && at > other);
                if (later == ((a & size) == 0)) {
                    keys[a] = second;
                    keys[b] = first;
                    places[a] = other;
                    places[b] = at;
                }
            }
        }
    __syncthreads();
}

GRADCORE_FUNCTION u32 power_of_two(u32 n) {
    u32 found = 1;
    while (found < n) found *= 2;
    return found;
}

// Sort `count` pairs, and write the first `wanted` elements and their places.
GRADCORE_FUNCTION void write_sorted(const Key* x, const i64* origins, i64 begin, Key* keys, u32* places, u32 count, u32 wanted,
                                    Key* values, i64* indices) {
    const u32 whole = power_of_two(count);
    for (u32 i = count + threadIdx.x; i < whole; i += blockDim.x) {
        keys[i] = all_ones;
        places[i] = nowhere;
    }
    sort_pairs(keys, places, whole);
    for (u32 i = threadIdx.x; i < wanted; i += blockDim.x) {
        const u32 place = places[i];
        if (values) values[i] = x[place];
        indices[i] = origins ? origins[place] : begin + place;
    }
}

// The first `wanted` elements in order of each row of up to `most` elements.
extern "C" __global__ void sort_rows(const Key* x, Key* values, i64* indices, const i64 n, const i64 wanted,
                                     const bool descending) {
    __shared__ Key keys[most];
    __shared__ u32 places[most];
    const Order order{descending};
    x += blockIdx.x * n;
    each_of(x, static_cast<u32>(n), [&](u32 i, Key element) {
        keys[i] = order.key(element);
        places[i] = i;
    });
    write_sorted(x, nullptr, 0, keys, places, static_cast<u32>(n), static_cast<u32>(wanted),
                 values ? values + blockIdx.x * wanted : nullptr, indices + blockIdx.x * wanted);
}

// ----------------------------------------------------------------------------------------------------- selection

// The elements among which the element of a rank is: those whose keys have the bits `prefix` at the positions in
// `mask`. `count` is their number, and `rank` (from 1) the rank among them.
struct Choice {
    Key prefix, mask;
    u32 rank, count;

    GRADCORE_FUNCTION bool holds(Key key) const { return static_cast<Key>(key & mask) == prefix; }
};

// Shared memory of a block during a selection: counts of digits, and the result of `narrow`.
struct Workspace {
    u32 counts[256], found[3];
};

// Find which of 256 groups of elements contains the element of the rank, given the size of each group, and tell all
// threads. At least 256 threads take part, or all threads of a smaller block.
GRADCORE_FUNCTION void narrow(Choice& choice, const u32* counts, int shift, u32* found) {
    __syncthreads();
    if (threadIdx.x < 32) {  // a lane has 8 digits
        u32 own[8], total = 0;
        for (int j = 0; j < 8; ++j) total += own[j] = counts[8 * threadIdx.x + j];
        u32 before = total;
        for (int by = 1; by < 32; by *= 2) {
            const u32 other = __shfl_up_sync(whole_warp, before, by);
            if (threadIdx.x >= by) before += other;
        }
        before -= total;
        for (int j = 0; j < 8; ++j) {
            if (before < choice.rank && choice.rank <= before + own[j]) {
                found[0] = 8 * threadIdx.x + j;
                found[1] = choice.rank - before;
                found[2] = own[j];
            }
            before += own[j];
        }
    }
    __syncthreads();
    choice.prefix |= static_cast<Key>(static_cast<Key>(found[0]) << shift);
    choice.mask |= static_cast<Key>(Key(0xFF) << shift);
    choice.rank = found[1];
    choice.count = found[2];
}

// Set the counts of the digits to zero, and synchronize the block.
GRADCORE_FUNCTION void clear(u32* counts) {
    __syncthreads();
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
    __syncthreads();
}

// Select the element of a rank, and all elements equal to it. If `as_whole`, it ends early when all remaining elements
// are wanted.
GRADCORE_FUNCTION Choice select(const Key* x, u32 n, u32 rank, const Order& order, bool as_whole,
                                Workspace& shared) {
    u32* const counts = shared.counts;
    Choice choice{0, 0, rank, n};
    for (int shift = bits - 8; shift >= 0 && choice.count > (as_whole ? choice.rank : 1); shift -= 8) {
        clear(counts);
        each_of(x, n, [&](u32, Key element) {
            const Key key = order.key(element);
            if (choice.holds(key)) atomicAdd(&counts[static_cast<u32>(key >> shift) & 0xFF], 1u);
        });
        narrow(choice, counts, shift, shared.found);
    }
    return choice;
}

// The place of the last wanted element among the equal elements of a choice, found by digits of the places;
// `nowhere` if all of them are wanted.
GRADCORE_FUNCTION u32 last_place(const Key* x, u32 n, const Choice& choice, const Order& order, Workspace& shared) {
    u32* const counts = shared.counts;
    if (choice.rank == choice.count) return nowhere;
    u32 prefix = 0, mask = 0, rank = choice.rank;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (!shift || n >> shift) {
            clear(counts);
            each_of(x, n, [&](u32 i, Key element) {
                if ((i & mask) == prefix && choice.holds(order.key(element))) atomicAdd(&counts[i >> shift & 0xFF], 1u);
            });
            Choice digit{0, 0, rank, 0};
            narrow(digit, counts, 0, shared.found);
            prefix |= static_cast<u32>(digit.prefix & 0xFF) << shift;
            rank = digit.rank;
        }
        mask |= 0xFFu << shift;
    }
    return prefix;
}

// Write the first `wanted` elements (up to `most`), in order, of each part of `chunk` elements of each row. The block
// (part, row) handles a part. If rows consist of elements chosen before from longer rows, `origins` has their positions
// there.
extern "C" __global__ void topk_rows(const Key* x, const i64* origins, Key* values, i64* indices, const i64 n,
                                     const i64 chunk, const i64 wanted, const bool descending) {
    __shared__ Key keys[most];
    __shared__ u32 places[most];
    __shared__ u32 filled;
    __shared__ Workspace shared;
    const Order order{descending};
    const i64 parts = (n + chunk - 1) / chunk, part = blockIdx.x % parts, row = blockIdx.x / parts, begin = part * chunk;
    const i64 end = n - (parts - 1) * chunk;  // elements of the last part
    const u32 size = static_cast<u32>(part + 1 < parts ? chunk : end), k = static_cast<u32>(wanted < size ? wanted : size);
    const i64 to = row * ((parts - 1) * wanted + (wanted < end ? wanted : end)) + part * wanted;
    x += row * n + begin;
    if (origins) origins += row * n + begin;
    const Choice choice = select(x, size, k, order, true, shared);
    const u32 last = last_place(x, size, choice, order, shared);
    if (threadIdx.x == 0) filled = 0;
    __syncthreads();
    each_of(x, size, [&](u32 i, Key element) {
        const Key key = order.key(element), known = static_cast<Key>(key & choice.mask);
        if (known < choice.prefix || (known == choice.prefix && i <= last)) {
            const u32 slot = atomicAdd(&filled, 1u);
            keys[slot] = key;
            places[slot] = i;
        }
    });
    __syncthreads();
    write_sorted(x, origins, begin, keys, places, k, k, values + to, indices + to);
}

// Return the number of NaN in a row, in all threads.
GRADCORE_FUNCTION u32 count_nan(const Key* x, u32 n) {
    u32 count = 0;
    if (GRADCORE_KIND == 2) each_of(x, n, [&](u32, Key element) { count += is_nan(element); });
    return row_sum(count);
}

// The rank (from 1) to select: `rank` itself, or that of the lower median. With `mode` 1 it is the median of all
// elements, which is NaN if any element is. With `mode` 2 it is the median of the elements that are not NaN.
GRADCORE_FUNCTION u32 meant(u32 rank, u32 n, u32 unknown, int mode) {
    if (mode == 1) return unknown ? n : (n + 1) / 2;
    if (mode == 2) return unknown == n ? 1 : (n - unknown + 1) / 2;
    return rank;
}

// Write the element of a rank of each row, and the place of its first occurrence.
extern "C" __global__ void kth_of_rows(const Key* x, Key* values, i64* indices, const i64 n, const i64 rank, const int mode) {
    __shared__ Workspace shared;
    __shared__ u32 first;
    const u32 size = static_cast<u32>(n);
    const Order order{false};
    x += blockIdx.x * n;
    const u32 unknown = mode ? count_nan(x, size) : 0;
    const Choice choice = select(x, size, meant(static_cast<u32>(rank), size, unknown, mode), order, false, shared);
    if (threadIdx.x == 0) first = nowhere;
    __syncthreads();
    u32 own = nowhere;
    each_of(x, size, [&](u32 i, Key element) {
        if (i < own && choice.holds(order.key(element))) own = i;
    });
    if (own != nowhere) atomicMin(&first, own);
    __syncthreads();
    if (threadIdx.x == 0) {
        values[blockIdx.x] = x[first];
        indices[blockIdx.x] = first;
    }
}

// --------------------------------------------------------------------------------------- rows of several blocks
//
// `counts` has the histograms of a row, of 256 numbers for each digit, and then the number of NaN. It is zero at the
// beginning. Each launch counts one digit of the elements that the digits before select. Blocks derive this selection
// from the histograms.

constexpr int counters = 256 * digits + 1;

GRADCORE_FUNCTION Choice chosen(const u32* counts, u32 n, u32 rank, int mode, int passes, u32* found) {
    Choice choice{0, 0, meant(rank, n, counts[256 * digits], mode), n};
    for (int pass = 0; pass < passes; ++pass) narrow(choice, counts + 256 * pass, bits - 8 - 8 * pass, found);
    return choice;
}

// Count the elements by their digit in one pass or, for the pass -1, the NaN. A block handles `chunk` elements.
extern "C" __global__ void count_digits(const Key* x, u32* all_counts, const i64 n, const i64 chunk, const i64 rank,
                                        const int mode, const int pass) {
    __shared__ Workspace shared;
    u32* const own = shared.counts;
    const i64 parts = (n + chunk - 1) / chunk, part = blockIdx.x % parts, row = blockIdx.x / parts;
    const u32 size = static_cast<u32>(part + 1 < parts ? chunk : n - part * chunk);
    u32* counts = all_counts + row * counters;
    x += row * n + part * chunk;
    if (pass < 0) {
        const u32 unknown = count_nan(x, size);
        if (threadIdx.x == 0 && unknown) atomicAdd(counts + 256 * digits, unknown);
        return;
    }
    const Order order{false};
    const Choice choice = chosen(counts, static_cast<u32>(n), static_cast<u32>(rank), mode, pass, shared.found);
    const int shift = bits - 8 - 8 * pass;
    clear(own);
    each_of(x, size, [&](u32, Key element) {
        const Key key = order.key(element);
        if (choice.holds(key)) atomicAdd(&own[static_cast<u32>(key >> shift) & 0xFF], 1u);
    });
    __syncthreads();
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
        if (own[i]) atomicAdd(counts + 256 * pass + i, own[i]);
}

// Write the place of the first element of the rank to `indices`, which contain the largest number at the beginning.
extern "C" __global__ void find_chosen(const Key* x, const u32* all_counts, u64* indices, const i64 n, const i64 chunk,
                                       const i64 rank, const int mode) {
    const i64 parts = (n + chunk - 1) / chunk, part = blockIdx.x % parts, row = blockIdx.x / parts;
    const u32 size = static_cast<u32>(part + 1 < parts ? chunk : n - part * chunk);
    const Order order{false};
    __shared__ Workspace shared;
    const Choice choice = chosen(all_counts + row * counters, static_cast<u32>(n), static_cast<u32>(rank), mode, digits,
                                 shared.found);
    x += row * n + part * chunk;
    u32 own = nowhere;
    each_of(x, size, [&](u32 i, Key element) {
        if (i < own && choice.holds(order.key(element))) own = i;
    });
    if (own != nowhere) atomicMin(indices + row, static_cast<u64>(part * chunk + own));
}

// Read the element of each row at its place in `indices`.
extern "C" __global__ void take_chosen(const Key* x, const i64* indices, Key* values, const i64 rows, const i64 n) {
    for (i64 row = first_index(); row < rows; row += index_step()) values[row] = x[row * n + indices[row]];
}

// ------------------------------------------------------------------------------------------------------ long rows
//
// Rows that are too long for a block are sorted by keys, which are integers without NaN and with one zero.

// Write the keys of the elements or, if `Result` is wider than a key, 64-bit keys with the number of the row in the
// upper half. A block handles `chunk` elements.
template <class Result>
GRADCORE_FUNCTION void write_keys(const Key* x, Result* keys, i64 n, i64 chunk, bool descending) {
    const i64 parts = (n + chunk - 1) / chunk, part = blockIdx.x % parts, row = blockIdx.x / parts;
    const i64 begin = row * n + part * chunk;
    const Order order{descending};
    const Result upper = sizeof(Result) > sizeof(Key) ? static_cast<Result>(static_cast<u64>(row) << 32) : Result(0);
    each_of(x + begin, static_cast<u32>(part + 1 < parts ? chunk : n - part * chunk), [&](u32 i, Key element) {
        keys[begin + i] = static_cast<Result>(order.key(element) | upper);
    });
}

extern "C" __global__ void order_keys(const Key* x, Key* keys, const i64 n, const i64 chunk, const bool descending) {
    write_keys(x, keys, n, chunk, descending);
}

extern "C" __global__ void order_keys_by_row(const Key* x, u64* keys, const i64 n, const i64 chunk, const bool descending) {
    write_keys(x, keys, n, chunk, descending);
}

// Write the elements (unless `values` is null) and places in the order that `order` gives for all elements, row by row.
extern "C" __global__ void take_order(const Key* x, const i64* order, Key* values, i64* indices, const i64 n,
                                      const i64 chunk) {
    const i64 parts = (n + chunk - 1) / chunk, part = blockIdx.x % parts, row = blockIdx.x / parts;
    const i64 begin = row * n + part * chunk, end = part + 1 < parts ? begin + chunk : (row + 1) * n;
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const i64 place = order[i];
        indices[i] = place - row * n;
        if (values) values[i] = x[place];
    }
}
