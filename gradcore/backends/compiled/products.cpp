// Products of matrices, and with vectors, by BLAS or by kernels of this library, in its threads: each computes some of
// the matrices of a batch, or some rows or columns of a matrix.

#include <algorithm>
#include <memory>
#include <numeric>

#include "blas.h"
#include "calls.h"
#include "matrix_kernel.h"

using gradcore::Array;
using gradcore::as_it_is;
using gradcore::Gemm;
using gradcore::i64;
using gradcore::matrix_of;
using gradcore::row_major;
using gradcore::transposed;

namespace {

// Parts of a matrix begin at multiples of `step_of_parts` rows or columns, the size of the tiles of BLAS. From `many`
// matrices for each thread on, matrices are not divided.
constexpr i64 step_of_parts = 16, many = 4;
// Least number of rows of the second operand that are multiplied in halves.
constexpr i64 least_halved = 256;
// The same for rows that are multiplied by a vector: BLAS processes up to that many together.
constexpr i64 step_of_rows = 64;

// A matrix in the last two dims of an array.
struct Matrix {
    int order;
    i64 lead;         // distance of two rows (or columns if transposed) in elements
    i64 row, column;  // strides in bytes
};

// Return whether BLAS can read a matrix in place, and set `lead` to the distance of its rows.
bool is_readable(i64 rows, i64 columns, i64 row, i64 column, i64 size, i64& lead) {
    if (columns != 1 && column != size) return false;
    if (rows != 1 && (row < columns * size || row % size != 0)) return false;
    lead = rows == 1 ? columns : row / size;
    return true;
}

bool describe(const Array& a, i64 size, Matrix& matrix) {
    const i64 rows = a.extents[a.dims - 2], columns = a.extents[a.dims - 1];
    const i64 row = a.strides[a.dims - 2], column = a.strides[a.dims - 1];
    matrix = {as_it_is, 0, row, column};
    if (is_readable(rows, columns, row, column, size, matrix.lead)) return true;
    matrix.order = transposed;
    return is_readable(columns, rows, column, row, size, matrix.lead);
}

// Return whether the first half of the rows of the second operand and the second half are multiplied separately. This
// operand is then much larger than the other matrices: a weight, say, whose last update has left one half of it in the
// cache of each of two threads. In parts of the columns, each thread would read half of the other's memory, which takes
// several times as long. The answer does not depend on the number of threads, so the sums do not either.
bool is_halved(i64 rows, i64 columns, i64 inner, bool has_dense_rows) {
    return has_dense_rows && inner >= least_halved && 4 * rows <= inner && 2 * rows <= columns;
}

// out = a @ b, as the sum of two products, of which each is divided along its columns.
template <class T>
void multiply_halves(i64 rows, i64 columns, i64 inner, i64 threads, gradcore::Operand<T> a, gradcore::Operand<T> b,
                     T* out) {
    const std::unique_ptr<T[]> other(new T[rows * columns]);
    const i64 half = inner / 2, steps = (columns + step_of_parts - 1) / step_of_parts;
    const i64 cuts = std::min((threads + 1) / 2, steps);
    const auto part = [&](i64 i) {
        const i64 second = i / cuts, cut = i % cuts, start = steps * cut / cuts * step_of_parts;
        const i64 stop = std::min(steps * (cut + 1) / cuts * step_of_parts, columns), from = second * half;
        gradcore::MatrixKernel<T>::multiply(rows, stop - start, second ? inner - half : half,
                                            {a.data + from * a.column, a.row, a.column},
                                            {b.data + from * b.row + start * b.column, b.row, b.column},
                                            (second ? other.get() : out) + start, columns);
    };
    using Part = decltype(part);
    gradcore::share(2 * cuts, threads, [](const void* w, i64 i) { (*static_cast<const Part*>(w))(i); }, &part);
    const T* const from = other.get();
#pragma omp simd
    for (i64 i = 0; i < rows * columns; ++i) out[i] += from[i];
}

template <class T, class I>
bool multiply(const void* function, i64 threads, const Array& a, const Array& b, const Array& out) {
    const auto gemm = reinterpret_cast<Gemm<T, I>>(const_cast<void*>(function));
    Matrix first, second;
    if (!a.is_aligned() || !b.is_aligned()) return false;
    if (!describe(a, sizeof(T), first) || !describe(b, sizeof(T), second)) return false;
    const i64 rows = out.extents[out.dims - 2], columns = out.extents[out.dims - 1], inner = a.extents[a.dims - 1];
    const i64 matrices = rows * columns ? out.size() / (rows * columns) : 0;
    const auto operand = [](const char* place, const Matrix& m) -> gradcore::Operand<T> {
        const bool turned = m.order == transposed;
        return {reinterpret_cast<const T*>(place), turned ? 1 : m.lead, turned ? m.lead : 1};
    };
    using Kernel = gradcore::MatrixKernel<T>;
    const bool fits = Kernel::fits(rows, columns, inner, operand(a.data, first), operand(b.data, second));
    if (threads < 2 && !fits) return false;
    if (fits && matrices == 1 && is_halved(rows, columns, inner, second.order == as_it_is)) {
        multiply_halves<T>(rows, columns, inner, threads, operand(a.data, first), operand(b.data, second),
                           reinterpret_cast<T*>(out.data));
        return true;
    }
    const bool by_columns = columns > rows;
    const i64 length = by_columns ? columns : rows, steps = (length + step_of_parts - 1) / step_of_parts;
    const i64 cuts = matrices >= many * threads ? 1 : std::min(threads / std::gcd(matrices, threads), steps);
    const auto part = [&](i64 i) {
        const i64 matrix = i / cuts, cut = i % cuts;
        const i64 start = std::min(steps * cut / cuts * step_of_parts, length);
        const i64 size = std::min(steps * (cut + 1) / cuts * step_of_parts, length) - start;
        const char *left = matrix_of(a, matrix), *right = matrix_of(b, matrix);
        char* target = matrix_of(out, matrix);
        if (by_columns) {
            right += start * second.column;
            target += start * static_cast<i64>(sizeof(T));
        } else {
            left += start * first.row;
            target += start * out.strides[out.dims - 2];
        }
        if (fits) {
            return Kernel::multiply(by_columns ? rows : size, by_columns ? size : columns, inner, operand(left, first),
                                    operand(right, second), reinterpret_cast<T*>(target), columns);
        }
        gemm(row_major, first.order, second.order, I(by_columns ? rows : size), I(by_columns ? size : columns), I(inner),
             T(1), reinterpret_cast<const T*>(left), I(first.lead), reinterpret_cast<const T*>(right), I(second.lead),
             T(0), reinterpret_cast<T*>(target), I(columns));
    };
    using Part = decltype(part);
    gradcore::share(matrices * cuts, threads, [](const void* w, i64 i) { (*static_cast<const Part*>(w))(i); }, &part);
    return true;
}

template <class T, class I>
using Gemv = void (*)(int, int, I, I, T, const T*, I, const T*, I, T, T*, I);

template <class T, class I>
void multiply_vector(const void* function, i64 threads, i64 block, const Array& x, const Array& v, const Array& out) {
    const auto gemv = reinterpret_cast<Gemv<T, I>>(const_cast<void*>(function));
    const i64 rows = x.extents[0], width = x.extents[1];
    const T *matrix = reinterpret_cast<const T*>(x.data), *vector = reinterpret_cast<const T*>(v.data);
    T* result = reinterpret_cast<T*>(out.data);
    const auto call = [=](int order, i64 start, i64 stop, const T* factor, T* target) {
        gemv(row_major, order, I(stop - start), I(width), T(1), matrix + start * width, I(width), factor, I(1), T(0),
             target, I(1));
    };
    if (block == 0) {
        gradcore::spread(rows, 1, step_of_rows, threads, [=](i64 start, i64 stop) {
            call(as_it_is, start, stop, vector, result + start);
        });
        return;
    }
    gradcore::spread((rows + block - 1) / block, 1, 1, threads, [=](i64 start, i64 stop) {
        for (i64 i = start; i < stop; ++i) {
            call(transposed, i * block, std::min(i * block + block, rows), vector + i * block, result + i * width);
        }
    });
}

// Write the product of `a` and `b`, whose batch dims are equal, to the contiguous array `out`. Return false, and write
// nothing, if the operands are not supported or, with one thread, if BLAS is faster than the kernel of this library.
// `gemm` is CBLAS's function for the dtype, which takes 64-bit integers if `long_integers`, else 32-bit ones.
template <class T>
bool run_multiply(const void* gemm, i64 long_integers, i64 threads, const Array& a, const Array& b, const Array& out) {
    const auto work = long_integers ? multiply<T, int64_t> : multiply<T, int32_t>;
    return work(gemm, threads, a, b, out);
}

// Write to `out` the products of the rows of a contiguous matrix with a vector. With a `block`, write vector-matrix
// products instead: each multiplies `block` numbers of `v` with as many rows, and the caller adds the results.
template <class T>
void run_multiply_vector(const void* gemv, i64 long_integers, i64 threads, i64 block, const Array& x, const Array& v,
                         const Array& out) {
    const auto work = long_integers ? multiply_vector<T, int64_t> : multiply_vector<T, int32_t>;
    work(gemv, threads, block, x, v, out);
}

}  // namespace

BUILTIN(gradcore_multiply_f, &run_multiply<float>)
BUILTIN(gradcore_multiply_d, &run_multiply<double>)
BUILTIN(gradcore_multiply_vector_f, &run_multiply_vector<float>)
BUILTIN(gradcore_multiply_vector_d, &run_multiply_vector<double>)
