// Reading and writing by indices along a dim. Arrays are contiguous, and seen as three dims: the middle one is indexed.
//
// An index out of bounds is not followed: `wrong` then says so, and Python finds out which it is.

#include "calls.h"

namespace gradcore {

// `outer` by `length` by `inner` elements are read or written by indices, by `outer` by `count` by `inner` others. What
// could meet at one place is in one part: parts are the first dim or, if `by_columns`, the last.
struct Slices {
    i64 parts, outer, length, inner, count;
    i64 negative;    // `length` if negative indices count from the end, else 0
    i64 by_columns;
    i64 step;        // of the elements that are written: 0 if they are one number
};

// Sixteen bytes.
struct Wide {
    u64 low, high;
};

template <class T>
struct Complex {
    T real, imag;
    INLINE void operator+=(Complex other) { real += other.real, imag += other.imag; }
};

INLINE bool within(const Slices& work, i64& index) {
    index += (index >> 63) & work.negative;
    return static_cast<u64>(index) < static_cast<u64>(work.length);
}

// -------------------------------------------------------------------------------------------------------------- reading

// out[o, k, :] = x[o, index[k], :]; parts are the first two dims of the result.
template <class T>
void take_slices(const Slices& work, i64 start, i64 stop, const T* x, const i64* index, T* out, i64* wrong) {
    const i64 inner = work.inner;
    bool fine = true;
    for (i64 row = start; row < stop;) {
        const i64 o = row / work.count, first = row % work.count;
        const i64 end = first + (stop - row) < work.count ? first + (stop - row) : work.count;
        const T* from = x + o * work.length * inner;
        T* to = out + o * work.count * inner;
        if (inner == 1) {
            for (i64 k = first; k < end; ++k) {
                i64 i = index[k];
                const bool good = within(work, i);
                to[k] = from[good ? i : 0];
                fine &= good;
            }
        } else {
            for (i64 k = first; k < end; ++k) {
                i64 i = index[k];
                if (within(work, i)) __builtin_memcpy(to + k * inner, from + i * inner, inner * sizeof(T));
                else fine = false;
            }
        }
        row += end - first;
    }
    if (!fine) __atomic_store_n(wrong, 1, __ATOMIC_RELAXED);
}

// out[o, k, i] = x[o, index[o, k, i], i]; parts are the first two dims of the result.
template <class T>
void gather_along(const Slices& work, i64 start, i64 stop, const T* x, const i64* index, T* out, i64* wrong) {
    const i64 inner = work.inner;
    bool fine = true;
    for (i64 row = start; row < stop;) {
        const i64 o = row / work.count, first = row % work.count;
        const i64 end = first + (stop - row) < work.count ? first + (stop - row) : work.count;
        const T* from = x + o * work.length * inner;
        const i64 place = (o * work.count + first) * inner, many = (end - first) * inner;
        for (i64 k = 0, column = 0; k < many; ++k) {
            i64 i = index[place + k];
            const bool good = within(work, i);
            out[place + k] = from[(good ? i : 0) * inner + column];
            fine &= good;
            if (inner > 1 && ++column == inner) column = 0;
        }
        row += end - first;
    }
    if (!fine) __atomic_store_n(wrong, 1, __ATOMIC_RELAXED);
}

// -------------------------------------------------------------------------------------------------------------- writing

// Calls `write(o, k, start, stop)` for rows of what is written, or the parts of them that a thread has.
template <class F>
INLINE void for_rows(const Slices& work, i64 start, i64 stop, F write) {
    const bool columns = work.by_columns != 0;
    const i64 first = columns ? 0 : start, last = columns ? work.outer : stop;
    const i64 left = columns ? start : 0, right = columns ? stop : work.inner;
    for (i64 o = first; o < last; ++o) {
        for (i64 k = 0; k < work.count; ++k) write(o, k, left, right);
    }
}

template <class T, class F>
INLINE void write_along(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong,
                        F write) {
    const i64 inner = work.inner, step = work.step;
    bool fine = true;
    for_rows(work, start, stop, [&](i64 o, i64 k, i64 left, i64 right) {
        const i64 place = (o * work.count + k) * inner;
        T* to = out + o * work.length * inner;
        for (i64 c = left; c < right; ++c) {
            i64 i = index[place + c];
            if (within(work, i)) write(to[i * inner + c], values[(place + c) * step]);
            else fine = false;
        }
    });
    if (!fine) __atomic_store_n(wrong, 1, __ATOMIC_RELAXED);
}

// out[o, index[o, k, i], i] = values[o, k, i], the last of several.
template <class T>
void scatter_along(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong) {
    write_along(work, start, stop, values, index, out, wrong, [](T& place, T value) { place = value; });
}

template <class T>
void add_along(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong) {
    write_along(work, start, stop, values, index, out, wrong, [](T& place, T value) { place += value; });
}

// out[o, index[k], :] += values[o, k, :]
template <class T>
void add_slices(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong) {
    const i64 inner = work.inner;
    bool fine = true;
    for_rows(work, start, stop, [&](i64 o, i64 k, i64 left, i64 right) {
        i64 i = index[k];
        if (!within(work, i)) {
            fine = false;
            return;
        }
        const T* from = values + (o * work.count + k) * inner;
        T* to = out + (o * work.length + i) * inner;
#pragma omp simd
        for (i64 c = left; c < right; ++c) to[c] += from[c];
    });
    if (!fine) __atomic_store_n(wrong, 1, __ATOMIC_RELAXED);
}

}  // namespace gradcore

// By the bytes of an element where it is copied, by the character of NumPy's dtype where it is added.
#define COPYING(name)                                                                                  \
    KERNEL(name, 1, gradcore::u8)                                                                      \
    KERNEL(name, 2, gradcore::u16)                                                                     \
    KERNEL(name, 4, gradcore::u32)                                                                     \
    KERNEL(name, 8, gradcore::u64)                                                                     \
    KERNEL(name, 16, gradcore::Wide)
#define ADDING(name)                                                                                   \
    FLOAT_KERNEL(name)                                                                                 \
    KERNEL(name, F, gradcore::Complex<float>)                                                          \
    KERNEL(name, D, gradcore::Complex<double>)                                                         \
    KERNEL(name, b, gradcore::u8)                                                                      \
    KERNEL(name, h, gradcore::u16)                                                                     \
    KERNEL(name, i, gradcore::u32)                                                                     \
    KERNEL(name, l, gradcore::u64)

COPYING(take_slices)
COPYING(gather_along)
COPYING(scatter_along)
ADDING(add_along)
ADDING(add_slices)
