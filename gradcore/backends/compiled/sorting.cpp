// Stable radix sort of rows. Keys are distributed by one byte after the other, beginning with the lowest.

#include <memory>
#include <new>

#include "calls.h"

namespace gradcore {

// Return an unsigned key with the order of the elements. Both zeros have one key, and all NaN have the largest one.
INLINE u32 key_of(float x) {
    const u32 bits = static_cast<u32>(bits_of(x + 0.0f));
    return x != x ? ~0u : bits ^ (-(bits >> 31) | 0x80000000u);
}
INLINE u64 key_of(double x) {
    const u64 bits = static_cast<u64>(bits_of(x + 0.0));
    return x != x ? ~u64(0) : bits ^ (-(bits >> 63) | (u64(1) << 63));
}
INLINE u32 key_of(i32 x) { return static_cast<u32>(x) ^ 0x80000000u; }
INLINE u64 key_of(i64 x) { return static_cast<u64>(x) ^ (u64(1) << 63); }

template <class K>
struct Item {
    K key;
    u32 index;
};

// Sort `n` items, with `n` further items as scratch memory. Return the address of the sorted items.
template <class K>
INLINE Item<K>* distribute(Item<K>* items, Item<K>* room, i64 n) {
    constexpr int bytes = sizeof(K);
    u32 counts[bytes][256] = {};
    for (i64 i = 0; i < n; ++i) {
        for (int b = 0; b < bytes; ++b) ++counts[b][(items[i].key >> (8 * b)) & 255];
    }
    for (int b = 0; b < bytes; ++b) {
        u32* places = counts[b];
        if (places[(items[0].key >> (8 * b)) & 255] == n) continue;  // all keys have the same byte here
        u32 sum = 0;
        for (int value = 0; value < 256; ++value) {
            const u32 count = places[value];
            places[value] = sum;
            sum += count;
        }
        for (i64 i = 0; i < n; ++i) room[places[(items[i].key >> (8 * b)) & 255]++] = items[i];
        Item<K>* const sorted = room;
        room = items, items = sorted;
    }
    return items;
}

// Write the sorted elements of rows and their indices. The order is descending if `work.number` is not zero. Rows must be
// shorter than 2**32.
template <class T>
void sort_rows(const Work& work, i64 start, i64 stop, const T* x, T* out, i64* index) {
    using K = decltype(key_of(T()));
    const i64 n = work.width;
    const K flip = work.number != 0 ? ~K(0) : K(0);
    const std::unique_ptr<Item<K>[]> memory(new Item<K>[2 * n]);
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * n;
        Item<K>* items = memory.get();
        for (i64 i = 0; i < n; ++i) items[i] = {key_of(a[i]) ^ flip, static_cast<u32>(i)};
        items = distribute(items, items + n, n);
        for (i64 i = 0; i < n; ++i) {
            const i64 place = items[i].index;
            index[row * n + i] = place, out[row * n + i] = a[place];
        }
    }
}

}  // namespace gradcore

FLOAT_KERNEL(sort_rows)
KERNEL(sort_rows, i, gradcore::i32)
KERNEL(sort_rows, l, gradcore::i64)
