// Reads and writes by indices along a dim. Arrays are contiguous and have three dims, of which the middle one is
// indexed.
//
// An index out of bounds is not used. It sets `wrong`, and Python then searches for the index. Shapes and layouts are
// checked here and not in Python, where the checks take several times as long as the work on a thousand elements.

#include "calls.h"

namespace gradcore {

// The indexed array has the shape (outer, length, inner), the array of values (outer, count, inner). Parts are slices
// of the first dim or, if `by_columns`, of the last one. So two parts never write to the same element.
struct Slices {
    i64 parts, outer, length, inner, count;
    i64 negative;    // `length` if negative indices count from the end, else 0
    i64 by_columns;
    i64 step;        // step between the values to write: 0 for a single number
};

// How a kernel uses its indices: for whole slices, or for each element. The indexed array is read or written.
enum class Use { read_slices, read_elements, write_elements, add_elements, add_slices };

// What a kernel returns to Python. For unsupported arrays it has written nothing.
enum Outcome : i64 { done, out_of_bounds, unsupported };

INLINE bool is_plain(const Array& array) { return array.is_contiguous() && array.is_aligned(); }

// Return whether `index` has the dims of the indexed array `x`, and the same sizes except along `dim`.
INLINE bool has_index_for_each(const Array& x, const Array& index, i64 dim) {
    bool same = index.dims == x.dims;
    for (i64 d = 0; same && d < x.dims; ++d) same = d == dim || index.extents[d] == x.extents[d];
    return same;
}

// Describe the work on dim `dim` of the indexed array `x`; `values` has an element for each that is read or written.
// `negative` says whether negative indices count from the end. Return whether the kernels support these arrays. Empty
// arrays are left to NumPy.
template <Use use>
INLINE bool describe(i64 dim, bool negative, const Array& x, const Array& index, const Array& values, Slices& work) {
    constexpr bool reads = use == Use::read_slices || use == Use::read_elements;
    constexpr bool by_slices = use == Use::read_slices || use == Use::add_slices;
    if (!is_plain(x) || !is_plain(index) || !is_plain(values) || dim < 0 || dim >= x.dims) return false;
    work.outer = work.length = work.inner = 1;
    for (i64 d = 0; d < x.dims; ++d) (d < dim ? work.outer : d > dim ? work.inner : work.length) *= x.extents[d];
    work.step = 1;
    if (by_slices) {
        work.count = index.size();
        if (values.size() != work.outer * work.count * work.inner) return false;
    } else {
        if (!has_index_for_each(x, index, dim)) return false;
        work.count = index.extents[dim];
        work.step = use == Use::write_elements && values.dims == 0 ? 0 : 1;
        if (work.step && !values.has_shape_of(index)) return false;
    }
    if (!work.outer || !work.length || !work.inner || !work.count) return false;
    work.negative = negative ? work.length : 0;
    work.by_columns = !reads && work.outer == 1;
    work.parts = reads ? work.outer * work.count : work.by_columns ? work.inner : work.outer;
    return true;
}

// The function that Python calls for a kernel of indices. It takes NumPy's arrays in the order of the kernel's.
template <auto kernel, Use use>
struct IndexEntry;

template <class T, Use use, void (*kernel)(const Slices&, i64, i64, const T*, const i64*, T*, i64*)>
struct IndexEntry<kernel, use> {
    static i64 run(i64 dim, i64 negative, i64 worth_a_thread, i64 threads, const Array& from, const Array& by,
                   const Array& to) {
        constexpr bool reads = use == Use::read_slices || use == Use::read_elements;
        Slices work;
        if (!describe<use>(dim, negative != 0, reads ? from : to, by, reads ? to : from, work)) return unsupported;
        const i64 elements = work.outer * work.count * work.inner;
        const i64 grain = worth_a_thread * work.parts / elements;
        i64 wrong = 0;
        spread(work.parts, grain > 1 ? grain : 1, 1, threads, [&](i64 start, i64 stop) {
            kernel(work, start, stop, reinterpret_cast<const T*>(from.data), reinterpret_cast<const i64*>(by.data),
                   reinterpret_cast<T*>(to.data), &wrong);
        });
        return __atomic_load_n(&wrong, __ATOMIC_RELAXED) ? out_of_bounds : done;
    }
};

// An element of sixteen bytes.
struct Wide {
    u64 low, high;
};

template <class T>
struct Complex {
    T real, imag;
    INLINE void operator+=(Complex other) { real += other.real, imag += other.imag; }
};

// A block of indices that have been compared with the bounds. The comparison is a separate pass, which uses all SIMD
// lanes. The indices are copied, because another thread may change the originals afterwards.
struct Checked {
    static constexpr i64 most = 512;
    i64 index[most];

    // Copy indices, and convert negative ones. Return whether all indices are within the bounds.
    INLINE bool take(const Slices& work, const i64* given, i64 count) {
        const u64 negative = static_cast<u64>(work.negative), last = static_cast<u64>(work.length) - 1;
        u64 outside = 0;  // the sign bit is set by indices below or above the bounds
#pragma omp simd reduction(| : outside)
        for (i64 k = 0; k < count; ++k) {
            const u64 i = static_cast<u64>(given[k]);
            outside |= (i + negative) | (last - i);
            index[k] = static_cast<i64>(i + (static_cast<u64>(given[k] >> 63) & negative));
        }
        return !(outside >> 63);
    }
};

// Check blocks of indices, and call `run(index, first, count)` for each. Return whether all are within the bounds.
template <class F>
INLINE bool for_checked(const Slices& work, const i64* index, i64 count, F run) {
    Checked checked;
    for (i64 first = 0; first < count; first += Checked::most) {
        const i64 some = count - first < Checked::most ? count - first : Checked::most;
        if (!checked.take(work, index + first, some)) return false;
        run(checked.index, first, some);
    }
    return true;
}

// Call `visit(k, offset)` for the indices of consecutive elements, the first of which is in column `column`. `offset`
// is the position of the indexed element. Return whether all indices are within the bounds.
template <class F>
INLINE bool for_each_index(const Slices& work, const i64* index, i64 count, i64 column, F visit) {
    const i64 inner = work.inner;
    return for_checked(work, index, count, [&](const i64* checked, i64 first, i64 some) {
        if (inner == 1) {
            for (i64 k = 0; k < some; ++k) visit(first + k, checked[k]);
            return;
        }
        for (i64 k = 0; k < some; ++k) {
            visit(first + k, checked[k] * inner + column);
            if (++column == inner) column = 0;
        }
    });
}

INLINE void report(i64* wrong, bool fine) {
    if (!fine) __atomic_store_n(wrong, 1, __ATOMIC_RELAXED);
}

// Return `done` if all of the indices are at least `-negative` and less than `length`.
static i64 find_outside(i64 length, i64 negative, const Array& array) {
    if (!is_plain(array) || length < 1) return unsupported;
    const u64* index = reinterpret_cast<const u64*>(array.data);
    const u64 below = static_cast<u64>(negative), last = static_cast<u64>(length) - 1;
    const i64 count = array.size();
    u64 outside = 0;  // the sign bit is set by indices below or above the bounds
#pragma omp simd reduction(| : outside)
    for (i64 k = 0; k < count; ++k) outside |= (index[k] + below) | (last - index[k]);
    return outside >> 63 ? out_of_bounds : done;
}

// -------------------------------------------------------------------------------------------------------------- reading

// Call `read(o, first, stop)` for rows of the result, whose first two dims are divided into parts.
template <class F>
INLINE bool for_parts(const Slices& work, i64 start, i64 stop, F read) {
    bool fine = true;
    for (i64 row = start; row < stop;) {
        const i64 o = row / work.count, first = row % work.count;
        const i64 end = first + (stop - row) < work.count ? first + (stop - row) : work.count;
        fine &= read(o, first, end);
        row += end - first;
    }
    return fine;
}

// out[o, k, :] = x[o, index[k], :]
template <class T>
void take_slices(const Slices& work, i64 start, i64 stop, const T* x, const i64* index, T* out, i64* wrong) {
    const i64 inner = work.inner;
    report(wrong, for_parts(work, start, stop, [&](i64 o, i64 first, i64 end) {
        const T* from = x + o * work.length * inner;
        T* to = out + (o * work.count + first) * inner;
        return for_checked(work, index + first, end - first, [&](const i64* checked, i64 before, i64 some) {
            T* target = to + before * inner;
            if (inner == 1) {
                for (i64 k = 0; k < some; ++k) target[k] = from[checked[k]];
            } else {
                for (i64 k = 0; k < some; ++k) {
                    __builtin_memcpy(target + k * inner, from + checked[k] * inner, inner * sizeof(T));
                }
            }
        });
    }));
}

// out[o, k, i] = x[o, index[o, k, i], i]
template <class T>
void gather_along(const Slices& work, i64 start, i64 stop, const T* x, const i64* index, T* out, i64* wrong) {
    const i64 inner = work.inner;
    if (work.count == 1 && inner == 1) {  // one element of each row
        bool fine = true;
        for (i64 row = start; row < stop; ++row) {
            const i64 given = index[row], i = given < 0 ? given + work.negative : given;
            const bool is_inside = i >= 0 && i < work.length;
            fine &= is_inside;
            if (is_inside) out[row] = x[row * work.length + i];
        }
        return report(wrong, fine);
    }
    report(wrong, for_parts(work, start, stop, [&](i64 o, i64 first, i64 end) {
        const T* from = x + o * work.length * inner;
        const i64 place = (o * work.count + first) * inner;
        T* to = out + place;
        return for_each_index(work, index + place, (end - first) * inner, 0,
                              [&](i64 k, i64 offset) { to[k] = from[offset]; });
    }));
}

// Copy rows, each in reverse order.
template <class T>
void reverse_rows(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* last = x + (row + 1) * width - 1;
        T* to = out + row * width;
#pragma omp simd
        for (i64 i = 0; i < width; ++i) to[i] = last[-i];
    }
}

// -------------------------------------------------------------------------------------------------------------- writing

// Call `write(place, offset)` for all elements to write in this thread's part: `place` is the position in `values` and
// `index`, `offset` the position in `out`.
template <class F>
INLINE void write_along(const Slices& work, i64 start, i64 stop, const i64* index, i64* wrong, F write) {
    const i64 inner = work.inner, size = work.count * inner;
    const auto run = [&](i64 o, i64 place, i64 count, i64 column) {
        const i64 base = o * work.length * inner;
        return for_each_index(work, index + place, count, column,
                              [&](i64 k, i64 offset) { write(place + k, base + offset); });
    };
    bool fine = true;
    if (!work.by_columns) {
        for (i64 o = start; o < stop; ++o) fine &= run(o, o * size, size, 0);
    } else if (stop - start == inner) {
        fine = run(0, 0, size, 0);
    } else {
        for (i64 k = 0; k < work.count; ++k) fine &= run(0, k * inner + start, stop - start, start);
    }
    report(wrong, fine);
}

// out[o, index[o, k, i], i] = values[o, k, i]. Among equal indices, the last one counts.
template <class T>
void scatter_along(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong) {
    if (work.step) {
        write_along(work, start, stop, index, wrong, [&](i64 place, i64 offset) { out[offset] = values[place]; });
    } else {
        const T value = *values;
        write_along(work, start, stop, index, wrong, [&](i64, i64 offset) { out[offset] = value; });
    }
}

template <class T>
void add_along(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong) {
    write_along(work, start, stop, index, wrong, [&](i64 place, i64 offset) { out[offset] += values[place]; });
}

// out[o, index[k], :] += values[o, k, :]
template <class T>
void add_slices(const Slices& work, i64 start, i64 stop, const T* values, const i64* index, T* out, i64* wrong) {
    const bool columns = work.by_columns != 0;
    const i64 inner = work.inner, first = columns ? 0 : start, last = columns ? work.outer : stop;
    const i64 left = columns ? start : 0, right = columns ? stop : inner;
    report(wrong, for_checked(work, index, work.count, [&](const i64* checked, i64 before, i64 some) {
        for (i64 o = first; o < last; ++o) {
            const T* from = values + (o * work.count + before) * inner;
            T* to = out + o * work.length * inner;
            if (inner == 1) {
                for (i64 k = 0; k < some; ++k) to[checked[k]] += from[k];
                continue;
            }
            for (i64 k = 0; k < some; ++k) {
                T* target = to + checked[k] * inner;
                const T* source = from + k * inner;
#pragma omp simd
                for (i64 c = left; c < right; ++c) target[c] += source[c];
            }
        }
    }));
}

}  // namespace gradcore

// Kernels that copy are named by the size of an element in bytes, kernels that add by the character of the NumPy dtype.
#define INDEX_KERNEL(name, char, use, ...)                                                             \
    BUILTIN(name##_##char, &gradcore::IndexEntry<&gradcore::name<__VA_ARGS__>, gradcore::Use::use>::run)
#define COPYING(name, use)                                                                             \
    INDEX_KERNEL(name, 1, use, gradcore::u8)                                                           \
    INDEX_KERNEL(name, 2, use, gradcore::u16)                                                          \
    INDEX_KERNEL(name, 4, use, gradcore::u32)                                                          \
    INDEX_KERNEL(name, 8, use, gradcore::u64)                                                          \
    INDEX_KERNEL(name, 16, use, gradcore::Wide)
#define ADDING(name, use)                                                                              \
    INDEX_KERNEL(name, f, use, float)                                                                  \
    INDEX_KERNEL(name, d, use, double)                                                                 \
    INDEX_KERNEL(name, F, use, gradcore::Complex<float>)                                               \
    INDEX_KERNEL(name, D, use, gradcore::Complex<double>)                                              \
    INDEX_KERNEL(name, b, use, gradcore::u8)                                                           \
    INDEX_KERNEL(name, h, use, gradcore::u16)                                                          \
    INDEX_KERNEL(name, i, use, gradcore::u32)                                                          \
    INDEX_KERNEL(name, l, use, gradcore::u64)

BUILTIN(find_outside_l, &gradcore::find_outside)
COPYING(take_slices, read_slices)
COPYING(gather_along, read_elements)
COPYING(scatter_along, write_elements)
ADDING(add_along, add_elements)
ADDING(add_slices, add_slices)

KERNEL(reverse_rows, 1, gradcore::u8)
KERNEL(reverse_rows, 2, gradcore::u16)
KERNEL(reverse_rows, 4, gradcore::u32)
KERNEL(reverse_rows, 8, gradcore::u64)
KERNEL(reverse_rows, 16, gradcore::Wide)
