// Rows of dense arrays that are read once, 16 bytes by one instruction. Threads keep them in registers for the next
// pass.
//
// walk() calls a function with the place and the index of each group of neighbours that belong to the thread. Rows
// whose length or address is no multiple of 16 bytes are read element by element, once in each pass.

#pragma once

#include "block.cuh"

namespace gradcore {

// Groups of neighbours that a thread keeps of a row: a block of 512 threads keeps 16 KiB.
constexpr int held = 2;

// Neighbours that are visited together: the number of the group that the thread keeps in registers (or -1), and their
// count.
struct Place {
    int number, count;
};

// Return whether all addresses are multiples of 16, which null pointers are.
template <class... P>
GRADCORE_FUNCTION bool aligned(const P*... pointers) {
    return (reinterpret_cast<u64>(pointers) | ... | u64(0)) % 16 == 0;
}

template <class T>
struct HeldRow {
    static constexpr int lanes = 16 / sizeof(T);
    const T* row;
    Pack<T, lanes> kept[held];

    GRADCORE_FUNCTION HeldRow(const T* row, i64 n, bool packed) : row(row) {
        GRADCORE_UNROLL
        for (int k = 0; k < held; ++k) {
            const i64 i = (static_cast<i64>(k) * blockDim.x + threadIdx.x) * lanes;
            if (packed && i < n) kept[k] = pack<lanes>(row + i);
        }
    }
    // The neighbours from the i-th element on. If the place has only one element, the others are undefined.
    GRADCORE_FUNCTION Pack<T, lanes> at(Place place, i64 i) const {
        if (place.number >= 0) return kept[place.number];
        if (place.count == lanes) return pack<lanes>(row + i);
        Pack<T, lanes> one;
        one.items[0] = row[i];
        return one;
    }
};

// Store 16 bytes by one instruction. The compiler does not combine stores in loops by itself.
GRADCORE_FUNCTION void store_words(void* to, const Pack<u32, 4>& words) {
#ifdef __CUDA_ARCH__
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(words.items[0]),
                 "r"(words.items[1]), "r"(words.items[2]), "r"(words.items[3])
                 : "memory");
#else
    unpack(static_cast<u32*>(to), words);
#endif
}

template <class T, int lanes>
GRADCORE_FUNCTION void put(T* row, Place place, i64 i, const Pack<T, lanes>& some) {
    Pack<u32, 4> words;
    if (place.count != lanes) {
        row[i] = some.items[0];
    } else if constexpr (sizeof(T) == 8) {
        unpack(row + i, some);
    } else {
        GRADCORE_UNROLL
        for (int k = 0; k < 4; ++k) {
            if constexpr (sizeof(T) == 4) words.items[k] = bits_of(some.items[k]);
            else words.items[k] = some.items[2 * k].bits | static_cast<u32>(some.items[2 * k + 1].bits) << 16;
        }
        store_words(row + i, words);
    }
}

// Call `visit(place, i)` for the groups of neighbours of this thread, of which `i` is the first.
template <int lanes, class F>
GRADCORE_FUNCTION void walk(i64 n, bool packed, F&& visit) {
    if (packed) {
        GRADCORE_UNROLL
        for (int k = 0; k < held; ++k) {
            const i64 i = (static_cast<i64>(k) * blockDim.x + threadIdx.x) * lanes;
            if (i < n) visit(Place{k, lanes}, i);
        }
        for (i64 i = (static_cast<i64>(held) * blockDim.x + threadIdx.x) * lanes; i < n; i += blockDim.x * lanes)
            visit(Place{-1, lanes}, i);
    } else {
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) visit(Place{-1, 1}, i);
    }
}

}  // namespace gradcore
