// Reductions whose rows or columns are too short for SIMD registers: sums, extrema, their indices, logsumexp.
//
// A contiguous array is a stack of matrices, whose rows are reduced to one. Where the matrices are narrow, the columns of
// several matrices are copied side by side, so that a vector has elements of several matrices.

#include "calls.h"

namespace gradcore {

// The numbers of matrices, and of the rows and columns of each.
struct Stack {
    i64 matrices, rows, columns;
};

// Columns that are reduced together, and rows that are copied at a time. Matrices with so many columns are not copied.
constexpr i64 most_columns = 256, most_rows = 16, wide = 32;

// What a kernel returns to Python. For unsupported arrays it has written nothing.
enum Outcome : i64 { done, unsupported };

// Columns of a stack: all columns of some matrices, or some columns of one.
struct Columns {
    i64 matrix, matrices, first, count;

    static i64 matrices_of(const Stack& stack) { return stack.columns < wide ? most_columns / stack.columns : 1; }
    static i64 parts_of(const Stack& stack) {
        const i64 matrices = matrices_of(stack);
        if (matrices > 1) return (stack.matrices + matrices - 1) / matrices;
        return stack.matrices * ((stack.columns + most_columns - 1) / most_columns);
    }
    static Columns of(const Stack& stack, i64 part) {
        const i64 matrices = matrices_of(stack);
        if (matrices > 1) {
            const i64 matrix = part * matrices, rest = stack.matrices - matrix;
            const i64 some = rest < matrices ? rest : matrices;
            return {matrix, some, 0, some * stack.columns};
        }
        const i64 pieces = (stack.columns + most_columns - 1) / most_columns;
        const i64 first = part % pieces * most_columns, rest = stack.columns - first;
        return {part / pieces, 1, first, rest < most_columns ? rest : most_columns};
    }
};

// Copy `count` rows of a narrow matrix to places that are `most_columns` apart.
template <i64 width, class T>
INLINE void copy_rows(const T* from, i64 count, T* to) {
    for (i64 k = 0; k < count; ++k) __builtin_memcpy(to + k * most_columns, from + k * width, width * sizeof(T));
}
template <class T>
INLINE void copy_rows(const T* from, i64 width, i64 count, T* to) {
    switch (width) {  // the compiler turns copies of a known size into a few instructions
        case 1: return copy_rows<1>(from, count, to);
        case 2: return copy_rows<2>(from, count, to);
        case 3: return copy_rows<3>(from, count, to);
        case 4: return copy_rows<4>(from, count, to);
        case 5: return copy_rows<5>(from, count, to);
        case 6: return copy_rows<6>(from, count, to);
        case 7: return copy_rows<7>(from, count, to);
        case 8: return copy_rows<8>(from, count, to);
    }
    for (i64 k = 0; k < count; ++k, from += width) {
        T* row = to + k * most_columns;
        i64 i = 0;
        for (; i + 4 <= width; i += 4) __builtin_memcpy(row + i, from + i, 4 * sizeof(T));
        for (; i < width; ++i) row[i] = from[i];
    }
}

// Call `use(rows, step, count)` for consecutive rows of these columns: row k begins at `rows + k * step`.
template <class T, class F>
INLINE void for_rows(const Stack& stack, const Columns& columns, const T* x, F use) {
    const i64 width = stack.columns, size = stack.rows * width;
    const T* from = x + columns.matrix * size + columns.first;
    if (columns.matrices == 1) return use(from, width, stack.rows);
    alignas(64) T copy[most_rows * most_columns];
    for (i64 row = 0; row < stack.rows; row += most_rows) {
        const i64 rest = stack.rows - row, count = rest < most_rows ? rest : most_rows;
        for (i64 m = 0; m < columns.matrices; ++m) {
            copy_rows(from + m * size + row * width, width, count, copy + m * width);
        }
        use(copy, most_columns, count);
    }
}

// Eight rows are added in their own precision, and their sums in double precision.
template <class T>
void narrow_sums(const Stack& stack, const Columns& columns, const T* x, T* out) {
    alignas(64) double total[most_columns];
    alignas(64) T eight[most_columns];
    const i64 n = columns.count;
    for (i64 i = 0; i < n; ++i) total[i] = 0;
    for_rows(stack, columns, x, [&](const T* rows, i64 step, i64 count) {
        for (i64 k = 0; k < count; k += 8, rows += 8 * step) {
            const i64 some = count - k < 8 ? count - k : 8;
            if (some == 8) {
#pragma omp simd
                for (i64 i = 0; i < n; ++i) {
                    const T *a = rows + i, *b = rows + 4 * step + i;
                    total[i] += ((a[0] + a[step]) + (a[2 * step] + a[3 * step])) +
                                ((b[0] + b[step]) + (b[2 * step] + b[3 * step]));
                }
                continue;
            }
#pragma omp simd
            for (i64 i = 0; i < n; ++i) eight[i] = rows[i];
            for (i64 r = 1; r < some; ++r) {
#pragma omp simd
                for (i64 i = 0; i < n; ++i) eight[i] += rows[r * step + i];
            }
#pragma omp simd
            for (i64 i = 0; i < n; ++i) total[i] += eight[i];
        }
    });
#pragma omp simd
    for (i64 i = 0; i < n; ++i) out[i] = static_cast<T>(total[i]);
}

// The largest or least element of each column, or NaN if an element is NaN.
template <class T, bool least>
INLINE void find_extrema(const Stack& stack, const Columns& columns, const T* x, T* best) {
    const i64 n = columns.count;
    for (i64 i = 0; i < n; ++i) best[i] = least ? infinity<T>() : -infinity<T>();
    for_rows(stack, columns, x, [&](const T* rows, i64 step, i64 count) {
        for (i64 k = 0; k < count; ++k, rows += step) {
#pragma omp simd
            for (i64 i = 0; i < n; ++i) {  // no number is further than NaN
                const T v = rows[i];
                best[i] = (int(least ? v < best[i] : v > best[i]) | int(v != v)) ? v : best[i];
            }
        }
    });
}
template <class T>
void narrow_maxima(const Stack& stack, const Columns& columns, const T* x, T* out) {
    find_extrema<T, false>(stack, columns, x, out);
}
template <class T>
void narrow_minima(const Stack& stack, const Columns& columns, const T* x, T* out) {
    find_extrema<T, true>(stack, columns, x, out);
}

// The first row with the largest or least element, or with NaN if an element is NaN.
template <class T, bool least>
INLINE void find_indices(const Stack& stack, const Columns& columns, const T* x, i64* out) {
    using Index = typename Format<T>::Bits;  // of the size of a number, so that both are compared by one mask
    alignas(64) T best[most_columns];
    alignas(64) Index at[most_columns];
    const i64 n = columns.count;
    Index row = 0;
    for_rows(stack, columns, x, [&](const T* rows, i64 step, i64 count) {
        for (i64 k = 0; k < count; ++k, ++row, rows += step) {
            if (row == 0) {
                for (i64 i = 0; i < n; ++i) best[i] = rows[i], at[i] = 0;
                continue;
            }
#pragma omp simd
            for (i64 i = 0; i < n; ++i) {
                const T v = rows[i], old = best[i];
                const int is_further = int(least ? v < old : v > old) | (int(v != v) & int(old == old));
                best[i] = is_further ? v : old;
                at[i] = is_further ? row : at[i];
            }
        }
    });
    for (i64 i = 0; i < n; ++i) out[i] = at[i];
}

template <class T>
void narrow_argmax(const Stack& stack, const Columns& columns, const T* x, i64* out) {
    find_indices<T, false>(stack, columns, x, out);
}
template <class T>
void narrow_argmin(const Stack& stack, const Columns& columns, const T* x, i64* out) {
    find_indices<T, true>(stack, columns, x, out);
}

// The logarithms of the sums of exponentials. Infinities and NaN are the result where they are the largest element.
template <class T>
void narrow_logsumexp(const Stack& stack, const Columns& columns, const T* x, T* out) {
    alignas(64) T top[most_columns], powers[most_columns];
    alignas(64) double total[most_columns];
    const i64 n = columns.count;
    find_extrema<T, false>(stack, columns, x, top);
    for (i64 i = 0; i < n; ++i) total[i] = 0;
    for_rows(stack, columns, x, [&](const T* rows, i64 step, i64 count) {
        for (i64 k = 0; k < count; ++k, rows += step) {
#pragma omp simd
            for (i64 i = 0; i < n; ++i) powers[i] = exponential_below_one(rows[i] - top[i]);
#pragma omp simd
            for (i64 i = 0; i < n; ++i) total[i] += powers[i];
        }
    });
#pragma omp simd
    for (i64 i = 0; i < n; ++i) total[i] = logarithm(total[i]);
    for (i64 i = 0; i < n; ++i) out[i] = is_finite(top[i]) ? top[i] + static_cast<T>(total[i]) : top[i];
}

// The function that Python calls for a kernel: the reduced dim, the elements from which a thread pays off, the number of
// threads, the array and the result.
template <auto kernel>
struct NarrowEntry;

template <class T, class R, void (*kernel)(const Stack&, const Columns&, const T*, R*)>
struct NarrowEntry<kernel> {
    static i64 run(i64 dim, i64 worth_a_thread, i64 threads, const Array& from, const Array& to) {
        if (dim < 0 || dim >= from.dims) return unsupported;
        if (!from.is_contiguous() || !from.is_aligned() || !to.is_contiguous() || !to.is_aligned()) return unsupported;
        Stack stack{1, 1, 1};
        for (i64 d = 0; d < from.dims; ++d) {
            (d < dim ? stack.matrices : d > dim ? stack.columns : stack.rows) *= from.extents[d];
        }
        if (!stack.matrices || !stack.rows || !stack.columns || stack.rows > 0x7FFFFFFF) return unsupported;
        if (to.size() != stack.matrices * stack.columns) return unsupported;
        const i64 parts = Columns::parts_of(stack), grain = worth_a_thread * parts / from.size();
        spread(parts, grain > 1 ? grain : 1, 1, threads, [&](i64 first, i64 last) {
            for (i64 part = first; part < last; ++part) {
                const Columns columns = Columns::of(stack, part);
                kernel(stack, columns, reinterpret_cast<const T*>(from.data),
                       reinterpret_cast<R*>(to.data) + columns.matrix * stack.columns + columns.first);
            }
        });
        return done;
    }
};

}  // namespace gradcore

#define NARROW_KERNEL(name, char, ...) \
    BUILTIN(name##_##char, &gradcore::NarrowEntry<&gradcore::name<__VA_ARGS__>>::run)
#define NARROW_KERNELS(name) NARROW_KERNEL(name, f, float) NARROW_KERNEL(name, d, double)
NARROW_KERNELS(narrow_sums)
NARROW_KERNELS(narrow_maxima)
NARROW_KERNELS(narrow_minima)
NARROW_KERNELS(narrow_argmax)
NARROW_KERNELS(narrow_argmin)
NARROW_KERNELS(narrow_logsumexp)
