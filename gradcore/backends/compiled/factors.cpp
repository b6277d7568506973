// LU and Cholesky factors, and solutions of triangular systems, of matrices of middle size; a part of the derivatives of
// eigenvectors and singular vectors. A call of LAPACK copies matrices to column-major order and back.
//
// A panel is a copy of as many columns as two vector registers have lanes, in adjacent rows. The kernels
// subtract from rows of a panel their products with the rows before, in tiles that stay in registers.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "blas.h"
#include "calls.h"
#include "lanes.h"

namespace gradcore {

namespace {

// A matrix: element (i, j) is data[i * row + j * column]. Strides are negative where rows and columns run backwards.
template <class T>
struct Strided {
    T* data;
    i64 row, column;

    T& at(i64 i, i64 j) const { return data[i * row + j * column]; }
    // The same matrix with rows and columns in opposite order. A triangle becomes the other one.
    Strided reversed(i64 n) const { return {&at(n - 1, n - 1), -row, -column}; }
    Strided transposed() const { return {data, column, row}; }
};

template <class T>
Strided<T> matrix_at(const Array& a, i64 number) {
    constexpr i64 size = sizeof(T);
    return {reinterpret_cast<T*>(matrix_of(a, number)), a.strides[a.dims - 2] / size, a.strides[a.dims - 1] / size};
}

// The number of matrices of a batch.
i64 count_matrices(const Array& a) {
    i64 product = 1;
    for (int d = 0; d < a.dims - 2; ++d) product *= a.extents[d];
    return product;
}

// Memory of a thread, which grows with the largest matrix.
template <class T>
T* scratch(i64 size) {
    thread_local std::vector<T> memory;
    if (static_cast<i64>(memory.size()) < size) memory.resize(size);
    return memory.data();
}

template <class T, int V>
class Panel {
public:
    using Vector = typename Lanes<T>::Type;
    static constexpr int lanes = Lanes<T>::count, width = V * lanes;

    Panel(T* data, i64 step) : data_(data), step_(step) {}

    T* row(i64 i) const { return data_ + i * step_; }
    Panel reversed(i64 n) const { return {row(n - 1), -step_}; }

    // Subtract the products of `l` with the first `count` rows from the rows from `first` to `stop`.
    void subtract(Strided<const T> l, i64 first, i64 stop, i64 count) const {
        first = subtract_tiles<rows, false>(l, first, stop, count, true);
        first = subtract_tiles<4, false>(l, first, stop, count, true);
        subtract_tiles<1, false>(l, first, stop, count, true);
    }

    // Overwrite the first `n` rows with the solution for the lower triangle of `l`.
    void solve(Strided<const T> l, i64 n, bool unit) const {
        i64 first = subtract_tiles<rows, true>(l, 0, n, 0, unit);
        first = subtract_tiles<4, true>(l, first, n, 0, unit);
        subtract_tiles<1, true>(l, first, n, 0, unit);
    }

private:
    static constexpr int rows = registers * 3 / 8;

    // Process tiles of R rows as long as they fit, and return the first row that is left. To solve, the products are with
    // all rows before the tile.
    template <int R, bool solves>
    i64 subtract_tiles(Strided<const T> l, i64 first, i64 stop, i64 count, bool unit) const {
        for (; first + R <= stop; first += R) subtract_rows<R, solves>(l, first, solves ? first : count, unit);
        return first;
    }

    template <int R, bool solves>
    void subtract_rows(Strided<const T> l, i64 first, i64 count, bool unit) const {
        Vector x[R][V] = {};  // first the sums of products, whose rounding errors are smaller than those of differences
        // A pointer for each row would leave too few registers for addresses.
        const T* factors[(R + 2) / 3];
        for (int g = 0; g < (R + 2) / 3; ++g) factors[g] = l.data + (first + 3 * g) * l.row;
        const T* from = data_;
        for (i64 j = 0; j < count; ++j, from += step_) {
            Vector read[V];
            for (int v = 0; v < V; ++v) read[v] = load(from + v * lanes);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const T factor = factors[r / 3][r % 3 * l.row + j * l.column];
                for (int v = 0; v < V; ++v) x[r][v] += read[v] * factor;
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < V; ++v) x[r][v] = load(row(first + r) + v * lanes) - x[r][v];
        if constexpr (solves) {
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
                for (int s = 0; s < r; ++s)
                    for (int v = 0; v < V; ++v) x[r][v] -= x[s][v] * l.at(first + r, first + s);
                if (!unit)
                    for (int v = 0; v < V; ++v) x[r][v] /= l.at(first + r, first + r);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < V; ++v) store(row(first + r) + v * lanes, x[r][v]);
    }

    T* data_;
    i64 step_;
};

// Copy `n` rows of `used` columns to a panel: row `order[i]`, or i if `order` is null. Other columns are zero, or keep
// what they contained: results never depend on them.
template <class T>
void read_panel(Strided<const T> from, i64 n, i64 used, const i32* order, T* to, i64 width) {
    if (from.row == 1 && from.column != 1 && !order) return transpose(from.data, used, n, from.column, to, width);
    for (i64 i = 0; i < n; ++i, to += width) {
        const T* row = &from.at(order ? order[i] : i, 0);
        for (i64 j = 0; j < used; ++j) to[j] = row[j * from.column];
        for (i64 j = used; j < width; ++j) to[j] = 0;
    }
}

// The inverse: row i of the panel becomes row `order[i]`.
template <class T>
void write_panel(const T* from, i64 width, i64 n, i64 used, const i32* order, Strided<T> to) {
    if (to.row == 1 && to.column == n && n % Lanes<T>::count == 0 && !order) {
        return transpose(from, n, used, width, to.data, n);
    }
    for (i64 i = 0; i < n; ++i, from += width) {
        T* row = &to.at(order ? order[i] : i, 0);
        for (i64 j = 0; j < used; ++j) row[j * to.column] = from[j];
    }
}

// Subtract from the rows of a panel after `top` their multiples of row `top` that make column `c` zero, but keep that
// column: as it is, or divided by the pivot.
template <class T, int V>
void eliminate_column(const Panel<T, V>& panel, i64 top, i64 n, int c, bool divides) {
    using Vector = typename Lanes<T>::Type;
    constexpr int lanes = Lanes<T>::count, width = V * lanes;
    const T* const pivot_row = panel.row(top);
    const T pivot = pivot_row[c], inverse = T(1) / pivot;
    alignas(64) T right[width];
    for (int j = 0; j < width; ++j) right[j] = j > c ? pivot_row[j] : T(0);
    Vector read[V];
    for (int v = 0; v < V; ++v) read[v] = load(right + v * lanes);
    const bool is_tiny = !(magnitude(inverse) <= std::numeric_limits<T>::max());
    for (i64 i = top + 1; i < n; ++i) {
        T* const row = panel.row(i);
        const T factor = is_tiny ? row[c] / pivot : row[c] * inverse;
        for (int v = 0; v < V; ++v) store(row + v * lanes, load(row + v * lanes) - read[v] * factor);
        if (divides) row[c] = factor;
    }
}

// Return `info`, or -1 if it is 0 and an element of the matrix is not finite.
template <class T>
i32 check_finite(const T* a, i64 size, i32 info) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 i = 0; i < size; ++i) sum += a[i] * T(0);
    return info == 0 && sum != 0 ? -1 : info;
}

// Compute the factors in memory in row-major order, with the pivots that LAPACK chooses, counted from 1. Return the
// number of the first pivot that is zero, or 0.
template <class T>
i32 factor_lu(Strided<const T> a, i64 n, T* lu, T* memory, i32* pivots, i32* order) {
    using Columns = Panel<T, 2>;
    constexpr i64 width = Columns::width;
    const Columns panel(memory, width);
    i32 info = 0;
    for (i64 i = 0; i < n; ++i) order[i] = static_cast<i32>(i);
    for (i64 k = 0; k < n; k += width) {
        const i64 used = std::min(width, n - k);
        read_panel<T>({&a.at(0, k), a.row, a.column}, n, used, order, memory, width);
        panel.solve({lu, n, 1}, k, true);
        panel.subtract({lu, n, 1}, k, n, k);
        for (i64 c = 0; c < used; ++c) {
            i64 best = k + c;
            T most = magnitude(panel.row(best)[c]);
            for (i64 i = best + 1; i < n; ++i) {
                const T size = magnitude(panel.row(i)[c]);
                best = size > most ? i : best;
                most = size > most ? size : most;
            }
            const i64 top = k + c;
            pivots[top] = static_cast<i32>(best + 1);
            if (best != top) {
                std::swap(order[top], order[best]);
                std::swap_ranges(panel.row(top), panel.row(top) + width, panel.row(best));
                std::swap_ranges(lu + top * n, lu + top * n + k, lu + best * n);
            }
            if (panel.row(top)[c] == 0) info = info ? info : static_cast<i32>(top + 1);
            else eliminate_column<T, 2>(panel, top, n, static_cast<int>(c), true);
        }
        write_panel<T>(memory, width, n, used, nullptr, {lu + k, n, 1});
    }
    return check_finite(lu, n * n, info);
}

// Compute the lower factor from the lower triangle of `a`. Return -1 if a pivot is not positive, or not finite.
template <class T>
i32 factor_cholesky(Strided<const T> a, i64 n, T* out, T* memory) {
    using Columns = Panel<T, 2>;
    constexpr i64 width = Columns::width;
    const Columns panel(memory, width);
    for (i64 k = 0; k < n; k += width) {
        const i64 used = std::min(width, n - k);
        transpose(out + k * n, used, k, n, memory, width);
        read_panel<T>({&a.at(k, k), a.row, a.column}, n - k, used, nullptr, panel.row(k), width);
        for (i64 i = 0; i < used; ++i)
            for (i64 j = i + 1; j < used; ++j) panel.row(k + i)[j] = panel.row(k + j)[i];
        panel.subtract({out, n, 1}, k, n, k);
        T roots[width];
        for (i64 c = 0; c < used; ++c) {
            const T pivot = panel.row(k + c)[c];
            if (!(pivot > 0)) return -1;
            roots[c] = std::sqrt(pivot);
            eliminate_column<T, 2>(panel, k + c, n, static_cast<int>(c), false);
        }
        for (i64 i = 0; i < n; ++i) {
            const T* const from = panel.row(i);
            for (i64 j = 0; j < used; ++j) out[i * n + k + j] = i < k + j ? T(0) : from[j] / roots[j];
        }
    }
    return check_finite(out, n * n, 0);
}

// Write the factors of each matrix of a batch: to `lu` transposed, in row-major order. An `info` of -1 means that LAPACK
// may give another result for infinities and NaN.
template <class T>
void run_factor_lu(i64 threads, const Array& a, const Array& lu, const Array& pivots, const Array& info) {
    const i64 n = a.extents[a.dims - 1];
    spread(count_matrices(a), 1, 1, threads, [&](i64 start, i64 stop) {
        constexpr i64 width = Panel<T, 2>::width;
        T* const memory = scratch<T>(n * (n + width));
        const std::unique_ptr<i32[]> order(new i32[n]);
        for (i64 m = start; m < stop; ++m) {
            reinterpret_cast<i32*>(info.data)[m] =
                factor_lu<T>(matrix_at<const T>(a, m), n, memory, memory + n * n,
                             reinterpret_cast<i32*>(pivots.data) + m * n, order.get());
            write_panel<T>(memory, n, n, n, nullptr, {reinterpret_cast<T*>(lu.data) + m * n * n, 1, n});
        }
    });
}

template <class T>
void run_factor_cholesky(i64 threads, const Array& a, const Array& out, const Array& info) {
    const i64 n = a.extents[a.dims - 1];
    spread(count_matrices(a), 1, 1, threads, [&](i64 start, i64 stop) {
        T* const memory = scratch<T>(n * Panel<T, 2>::width);
        for (i64 m = start; m < stop; ++m) {
            reinterpret_cast<i32*>(info.data)[m] = factor_cholesky<T>(
                matrix_at<const T>(a, m), n, reinterpret_cast<T*>(out.data) + m * n * n, memory);
        }
    });
}

// Call `solve(panel, number)` for each panel of the right-hand sides of each matrix of a batch, between reading it from
// `b` and writing it to `out`. Rows are read, or written, in the order of `orders`, `n` numbers for each matrix.
template <class T, int V, class F>
void solve_panels(i64 threads, const Array& b, const Array& out, const i32* orders, bool reads, const F& solve) {
    using Columns = Panel<T, V>;
    constexpr i64 width = Columns::width;
    const i64 n = b.extents[b.dims - 2], columns = b.extents[b.dims - 1], panels = (columns + width - 1) / width;
    const i64 grain = std::max<i64>(1, (1 << 18) / (n * n * width));
    spread(count_matrices(out) * panels, grain, 1, threads, [&](i64 start, i64 stop) {
        T* const memory = scratch<T>(n * width);
        for (i64 part = start; part < stop; ++part) {
            const i64 number = part / panels, first = part % panels * width, used = std::min(width, columns - first);
            const i32* const order = orders ? orders + number * n : nullptr;
            const Strided<const T> from = matrix_at<const T>(b, number);
            const Strided<T> to = matrix_at<T>(out, number);
            read_panel<T>({&from.at(0, first), from.row, from.column}, n, used, reads ? order : nullptr, memory, width);
            solve(Columns(memory, width), number);
            write_panel<T>(memory, width, n, used, reads ? nullptr : order, {&to.at(0, first), to.row, to.column});
        }
    });
}

// Solve for all right-hand sides with panels of one register if that is enough.
template <class T, class F>
void solve_all(i64 threads, const Array& b, const Array& out, const i32* orders, bool reads, const F& solve) {
    if (b.extents[b.dims - 1] <= Lanes<T>::count) solve_panels<T, 1>(threads, b, out, orders, reads, solve);
    else solve_panels<T, 2>(threads, b, out, orders, reads, solve);
}

template <class T>
void run_solve_triangle(i64 threads, i64 upper, i64 unit, const Array& a, const Array& b, const Array& out) {
    const i64 n = a.extents[a.dims - 1];
    solve_all<T>(threads, b, out, nullptr, true, [=, &a](auto panel, i64 number) {
        const Strided<const T> matrix = matrix_at<const T>(a, number);
        if (upper) panel.reversed(n).solve(matrix.reversed(n), n, unit);
        else panel.solve(matrix, n, unit);
    });
}

// Solve for matrices of which `lu` and `pivots` are the factors, or for their transposes. Return false if a pivot is no
// row.
template <class T>
bool run_solve_lu(i64 threads, i64 adjoint, const Array& lu, const Array& pivots, const Array& b, const Array& out) {
    const i64 n = lu.extents[lu.dims - 1], count = count_matrices(lu);
    const std::unique_ptr<i32[]> orders(new i32[count * n]);
    for (i64 m = 0; m < count; ++m) {
        i32* const order = orders.get() + m * n;
        const i32* const exchanged = reinterpret_cast<const i32*>(pivots.data) + m * n;
        for (i64 i = 0; i < n; ++i) order[i] = static_cast<i32>(i);
        for (i64 i = 0; i < n; ++i) {
            const i64 row = __atomic_load_n(exchanged + i, __ATOMIC_RELAXED) - i64(1);  // once: others may write to it
            if (row < 0 || row >= n) return false;
            std::swap(order[i], order[row]);
        }
    }
    solve_all<T>(threads, b, out, orders.get(), !adjoint, [=, &lu](auto panel, i64 number) {
        const Strided<const T> factors = matrix_at<const T>(lu, number);
        const Strided<const T> matrix = adjoint ? factors.transposed() : factors;
        panel.solve(matrix, n, !adjoint);
        panel.reversed(n).solve(matrix.reversed(n), n, adjoint);
    });
    return true;
}

// Return the largest absolute value times `units`, or NaN if a value is NaN.
template <class T>
T bound_of_largest(const T* x, i64 n, T units) {
    T most = 0, sum = 0;
    for (i64 i = 0; i < n; ++i) {
        most = std::max(most, magnitude(x[i]));
        sum += magnitude(x[i]);
    }
    return std::isnan(sum) ? sum : most * units;
}

template <class T>
T bound_of_sum(const T* x, i64 n, T units) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 i = 0; i < n; ++i) sum += magnitude(x[i]);
    return sum * units;
}

// The operation `divide_by_gaps` for real matrices. `of_values` may have no elements.
template <class T>
void run_divide_by_gaps(i64 skews, const Array& x, const Array& values, const Array& scale, const Array& of_values,
                        const Array& out) {
    const i64 n = values.extents[values.dims - 1], count = count_matrices(x);
    const T units = sizeof(T) == 4 ? T(0x1p-20) : T(0x1p-49);
    const bool has_gradients = of_values.size() > 0;
    for (i64 m = 0; m < count; ++m) {
        const T* const a = reinterpret_cast<const T*>(x.data) + m * n * n;
        const T* const value = reinterpret_cast<const T*>(values.data) + m * n;
        const T* const gradient = has_gradients ? reinterpret_cast<const T*>(of_values.data) + m * n : nullptr;
        const T least_gap = bound_of_largest(value, n, units);
        const T least = bound_of_sum(reinterpret_cast<const T*>(scale.data) + m * n * n, n * n, units);
        const T least_gradient = has_gradients ? bound_of_sum(gradient, n, units) : T(0);
        for (i64 i = 0; i < n; ++i) {
            const T* const row = a + i * n;
            T* const to = reinterpret_cast<T*>(out.data) + (m * n + i) * n;
            i32 equal = 0;
#pragma omp simd reduction(+ : equal)
            for (i64 j = 0; j < n; ++j) {
                const T gap = value[j] - value[i];
                equal += magnitude(gap) <= least_gap;
                to[j] = row[j] / gap;
            }
            for (i64 j = 0; equal > 1 && j < n; ++j) {  // The gap of the diagonal is zero.
                if (!(magnitude(value[j] - value[i]) <= least_gap)) continue;
                const bool unseen = magnitude(skews ? row[j] - a[j * n + i] : row[j]) <= least &&
                                    (!has_gradients || magnitude(gradient[j] - gradient[i]) <= least_gradient);
                to[j] = unseen ? T(0) : row[j] / T(0);
            }
            to[i] = has_gradients ? gradient[i] : T(0);
        }
    }
}

}  // namespace

}  // namespace gradcore

BUILTIN(gradcore_divide_by_gaps_f, &gradcore::run_divide_by_gaps<float>)
BUILTIN(gradcore_divide_by_gaps_d, &gradcore::run_divide_by_gaps<double>)
BUILTIN(gradcore_factor_lu_f, &gradcore::run_factor_lu<float>)
BUILTIN(gradcore_factor_lu_d, &gradcore::run_factor_lu<double>)
BUILTIN(gradcore_factor_cholesky_f, &gradcore::run_factor_cholesky<float>)
BUILTIN(gradcore_factor_cholesky_d, &gradcore::run_factor_cholesky<double>)
BUILTIN(gradcore_solve_triangle_f, &gradcore::run_solve_triangle<float>)
BUILTIN(gradcore_solve_triangle_d, &gradcore::run_solve_triangle<double>)
BUILTIN(gradcore_solve_lu_f, &gradcore::run_solve_lu<float>)
BUILTIN(gradcore_solve_lu_d, &gradcore::run_solve_lu<double>)
