// Kernels of rows, which may have a weight for each column, and kernels of planes. A plane is a row with the points of
// one channel, which has one weight for all points.
//
// A kernel computes the rows from `start` to before `stop` of contiguous matrices. Among its arguments, arrays that it
// reads come before arrays that it writes.

#pragma once

#include <algorithm>

#include "calls.h"
#include "sums.h"

// Where rows.cpp includes this file, makes a kernel a symbol of the library for Python to call.
#ifndef ROW_KERNEL
#define ROW_KERNEL(name)
#endif

namespace gradcore {

// out = exp(x - top), where top is at least the largest x, so that no result is above one.
template <class T>
INLINE void exponentials(const T* x, i64 n, T top, T* out) {
#pragma omp simd
    for (i64 i = 0; i < n; ++i) out[i] = exponential_below_one(x[i] - top);
}

// ------------------------------------------------------------------------------------------------------------- softmax

// The largest element of a row, and the sum of the exponentials of the elements minus that.
template <class T>
struct RowSum {
    T top;
    double total;
};

template <class T>
INLINE RowSum<T> softmax_row(i64 width, T top, const T* a, T* b) {
    exponentials(a, width, top, b);
    const double total = sum_of(width, b);
    const T scale = static_cast<T>(1 / total);
#pragma omp simd
    for (i64 i = 0; i < width; ++i) b[i] *= scale;
    return {top, total};
}

template <class T>
void softmax(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        softmax_row(width, largest(a, width), a, out + row * width);
    }
}
ROW_KERNEL(softmax)

// Compute the softmax of a row, or zeros for a row of minus infinity, which belongs to a query without keys. `b` may
// share the memory of `a`.
template <class T>
INLINE RowSum<T> softmax_or_zero_row(i64 width, const T* a, T* b) {
    const T top = largest(a, width);
    if (top != -infinity<T>()) return softmax_row(width, top, a, b);
    T value = 0;  // 0, or NaN if an element is NaN
    for (i64 i = 0; i < width; ++i) value = a[i] == top ? value : a[i];
    for (i64 i = 0; i < width; ++i) b[i] = value;
    return {value == 0 ? top : value, 0};
}

template <class T>
void softmax_or_zero(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    for (i64 row = start; row < stop; ++row) softmax_or_zero_row(work.width, x + row * work.width, out + row * work.width);
}
ROW_KERNEL(softmax_or_zero)

// `c` may share the memory of `a`.
template <class T>
INLINE void softmax_backward_row(i64 width, const T* a, const T* b, T* c) {
    const T dot = static_cast<T>(sum_of<T>(width, [](auto p, auto q) { return p * q; }, a, b));
#pragma omp simd
    for (i64 i = 0; i < width; ++i) c[i] = (a[i] - dot) * b[i];
}

template <class T>
void softmax_backward(const Work& work, i64 start, i64 stop, const T* t, const T* y, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        softmax_backward_row(width, t + row * width, y + row * width, out + row * width);
    }
}
ROW_KERNEL(softmax_backward)

template <class T>
void log_softmax(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T* b = out + row * width;
        const T top = largest(a, width);
        exponentials(a, width, top, b);
        const T total = static_cast<T>(std::log(sum_of(width, b)));
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = (a[i] - top) - total;
    }
}
ROW_KERNEL(log_softmax)

template <class T>
void log_softmax_backward(const Work& work, i64 start, i64 stop, const T* t, const T* y, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T *a = t + row * width, *b = y + row * width;
        T* c = out + row * width;
        const T total = static_cast<T>(sum_of(width, a));
#pragma omp simd
        for (i64 i = 0; i < width; ++i) c[i] = a[i] - exponential_below_one(b[i]) * total;
    }
}
ROW_KERNEL(log_softmax_backward)

// Return the logarithm of the sum of a row's exponentials. Exponentials are stored for a few elements at a time only.
template <class T>
void logsumexp(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    constexpr i64 some = 2048 / sizeof(T);
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        const T top = largest(a, width);
        if (!is_finite(top)) {  // for infinities and NaN, add the elements
            T total = top;
            for (i64 i = 0; i < width; ++i) total = a[i] == -infinity<T>() ? total : total + a[i];
            out[row] = total;
            continue;
        }
        double total = 0;
        for (i64 i = 0; i < width; i += some) {
            alignas(64) T powers[some];
            const i64 n = i + some < width ? some : width - i;
            exponentials(a + i, n, top, powers);
            total += sum_of(n, powers);
        }
        out[row] = top + static_cast<T>(std::log(total));
    }
}
ROW_KERNEL(logsumexp)

// ------------------------------------------------------------------------------------------------ softmax of columns

// Some columns of a matrix of a stack, which are computed together.
struct ColumnPart {
    static constexpr i64 most = 256;
    i64 rows, step, count;  // rows are `step` apart
    i64 first, reduced;     // the place of the first element, and of its column in the array of one number for each

    ColumnPart(const Work& work, i64 part) : rows(work.height), step(work.width) {
        const i64 pieces = (step + most - 1) / most, matrix = part / pieces, column = part % pieces * most;
        count = std::min(step - column, most);
        first = matrix * rows * step + column;
        reduced = matrix * step + column;
    }
};

// total[i] = the sum of summand(k, i) over the rows k. Eight are added in their own precision, and their sums in double.
template <class T, class F>
INLINE void sum_columns(const ColumnPart& part, double* total, F summand) {
    alignas(64) T eight[ColumnPart::most];
    for (i64 i = 0; i < part.count; ++i) total[i] = 0;
    for (i64 k = 0; k < part.rows; k += 8) {
        const i64 stop = std::min(k + 8, part.rows);
#pragma omp simd
        for (i64 i = 0; i < part.count; ++i) eight[i] = summand(k, i);
        for (i64 row = k + 1; row < stop; ++row) {
#pragma omp simd
            for (i64 i = 0; i < part.count; ++i) eight[i] += summand(row, i);
        }
#pragma omp simd
        for (i64 i = 0; i < part.count; ++i) total[i] += eight[i];
    }
}

// The largest element of each column, or NaN if an element is NaN.
template <class T>
INLINE void largest_of_columns(const ColumnPart& part, const T* x, T* top) {
    for (i64 i = 0; i < part.count; ++i) top[i] = x[i];
    for (i64 k = 1; k < part.rows; ++k) {
        const T* row = x + k * part.step;
#pragma omp simd
        for (i64 i = 0; i < part.count; ++i) top[i] = (int(row[i] > top[i]) | int(row[i] != row[i])) ? row[i] : top[i];
    }
}

// The largest element of each column, the exponentials of its elements minus that, and their sum.
template <class T>
INLINE void exponentials_of_columns(const ColumnPart& part, const T* x, T* top, T* out, double* total) {
    largest_of_columns(part, x, top);
    sum_columns<T>(part, total, [=](i64 k, i64 i) __attribute__((always_inline)) {
        return out[k * part.step + i] = exponential_below_one(x[k * part.step + i] - top[i]);
    });
}

template <class T>
void exponential_columns(const Work& work, i64 start, i64 stop, const T* x, T* top, T* out, T* sums) {
    alignas(64) double total[ColumnPart::most];
    for (i64 p = start; p < stop; ++p) {
        const ColumnPart part(work, p);
        exponentials_of_columns(part, x + part.first, top + part.reduced, out + part.first, total);
        for (i64 i = 0; i < part.count; ++i) sums[part.reduced + i] = static_cast<T>(total[i]);
    }
}
ROW_KERNEL(exponential_columns)

template <class T>
void softmax_columns(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    alignas(64) double total[ColumnPart::most];
    alignas(64) T top[ColumnPart::most];
    for (i64 p = start; p < stop; ++p) {
        const ColumnPart part(work, p);
        T* to = out + part.first;
        exponentials_of_columns(part, x + part.first, top, to, total);
#pragma omp simd
        for (i64 i = 0; i < part.count; ++i) top[i] = static_cast<T>(1 / total[i]);
        for (i64 k = 0; k < part.rows; ++k, to += part.step) {
#pragma omp simd
            for (i64 i = 0; i < part.count; ++i) to[i] *= top[i];
        }
    }
}
ROW_KERNEL(softmax_columns)

template <class T>
void log_softmax_columns(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    alignas(64) double total[ColumnPart::most];
    alignas(64) T top[ColumnPart::most], logarithms[ColumnPart::most];
    for (i64 p = start; p < stop; ++p) {
        const ColumnPart part(work, p);
        const T* from = x + part.first;
        T* to = out + part.first;
        exponentials_of_columns(part, from, top, to, total);
#pragma omp simd
        for (i64 i = 0; i < part.count; ++i) logarithms[i] = static_cast<T>(logarithm(total[i]));
        for (i64 k = 0; k < part.rows; ++k, from += part.step, to += part.step) {
#pragma omp simd
            for (i64 i = 0; i < part.count; ++i) to[i] = (from[i] - top[i]) - logarithms[i];
        }
    }
}
ROW_KERNEL(log_softmax_columns)

template <class T>
void softmax_backward_columns(const Work& work, i64 start, i64 stop, const T* t, const T* y, T* out) {
    alignas(64) double total[ColumnPart::most];
    for (i64 p = start; p < stop; ++p) {
        const ColumnPart part(work, p);
        const T *a = t + part.first, *b = y + part.first;
        T* c = out + part.first;
        sum_columns<T>(part, total, [=](i64 k, i64 i) __attribute__((always_inline)) {
            return a[k * part.step + i] * b[k * part.step + i];
        });
        for (i64 k = 0; k < part.rows; ++k, a += part.step, b += part.step, c += part.step) {
#pragma omp simd
            for (i64 i = 0; i < part.count; ++i) c[i] = (a[i] - static_cast<T>(total[i])) * b[i];
        }
    }
}
ROW_KERNEL(softmax_backward_columns)

template <class T>
void log_softmax_backward_columns(const Work& work, i64 start, i64 stop, const T* t, const T* y, T* out) {
    alignas(64) double total[ColumnPart::most];
    for (i64 p = start; p < stop; ++p) {
        const ColumnPart part(work, p);
        const T *a = t + part.first, *b = y + part.first;
        T* c = out + part.first;
        sum_columns<T>(part, total, [=](i64 k, i64 i) __attribute__((always_inline)) { return a[k * part.step + i]; });
        for (i64 k = 0; k < part.rows; ++k, a += part.step, b += part.step, c += part.step) {
#pragma omp simd
            for (i64 i = 0; i < part.count; ++i) {
                c[i] = a[i] - exponential_below_one(b[i]) * static_cast<T>(total[i]);
            }
        }
    }
}
ROW_KERNEL(log_softmax_backward_columns)

// -------------------------------------------------------------------------------------------------------- cross entropy

// The cross entropy of each row's softmax with a class (`losses`), the exponentials of rows minus their largest elements
// (`powers`), and the sums of the exponentials. The exponentials of several short rows are computed together.
template <class T>
void cross_entropy_rows(const Work& work, i64 start, i64 stop, const T* x, const i64* target, T* powers, T* losses,
                        T* total) {
    constexpr i64 some = 256;  // elements
    const i64 width = work.width, step = width < some ? some / width : 1;
    for (i64 first = start; first < stop; first += step) {
        const i64 end = first + step < stop ? first + step : stop;
        T* const block = powers + first * width;
        for (i64 row = first; row < end; ++row) {
            const T* a = x + row * width;
            const T top = largest(a, width);
            losses[row] = top - a[target[row]];
            T* b = powers + row * width;
#pragma omp simd
            for (i64 i = 0; i < width; ++i) b[i] = a[i] - top;
        }
        exponentials(block, (end - first) * width, T(0), block);
        for (i64 row = first; row < end; ++row) {
            const double sum = sum_of(width, powers + row * width);
            losses[row] = static_cast<T>(losses[row] + std::log(sum));
            total[row] = static_cast<T>(sum);
        }
    }
}
ROW_KERNEL(cross_entropy_rows)

// The derivative of cross entropy. `grad` has a number for each row if `inner` is 1, and one for all rows if it is 0.
template <class T>
void cross_entropy_rows_backward(const Work& work, i64 start, i64 stop, const T* grad, const i64* target,
                                 const T* powers, const T* total, T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const T *a = powers + row * width, upstream = grad[row * work.inner], factor = upstream / total[row];
        T* b = out + row * width;
#pragma omp simd
        for (i64 i = 0; i < width; ++i) b[i] = a[i] * factor;
        b[target[row]] -= upstream;
    }
}
ROW_KERNEL(cross_entropy_rows_backward)

// ------------------------------------------------------------------------------------------------------- normalization

template <class T>
INLINE T mean_of(const T* x, i64 width) {
    return static_cast<T>(sum_of(width, x) / width);
}

template <class T>
INLINE T variance_of(const T* x, i64 width, T center) {
    return static_cast<T>(sum_of<T>(width, [=](auto a) { return (a - center) * (a - center); }, x) / width);
}

template <class T>
void layer_norm(const Work& work, i64 start, i64 stop, const T* x, const T* weight, const T* bias, T* out, T* mean,
                T* variance) {
    constexpr i64 some = 4;  // rows at a time, because each step of a row waits for a sum
    const i64 width = work.width;
    for (i64 first = start; first < stop; first += some) {
        const i64 end = first + some < stop ? first + some : stop;
        for (i64 row = first; row < end; ++row) mean[row] = mean_of(x + row * width, width);
        for (i64 row = first; row < end; ++row) variance[row] = variance_of(x + row * width, width, mean[row]);
        for (i64 row = first; row < end; ++row) {
            const T *a = x + row * width, center = mean[row], scale = 1 / sqrt(variance[row] + T(work.number));
            T* b = out + row * width;
#pragma omp simd
            for (i64 i = 0; i < width; ++i) b[i] = (a[i] - center) * scale * weight[i] + bias[i];
        }
    }
}
ROW_KERNEL(layer_norm)

// Some rows of layer norm's gradient, whose contributions to the gradients of weight and bias are added together.
template <int rows, class T>
INLINE void layer_norm_rows(const Work& work, i64 row, const T* grad, const T* x, const T* weight, const T* mean,
                            const T* variance, T* out, T* to_weight, T* to_bias) {
    const i64 width = work.width;
    const T *g = grad + row * width, *a = x + row * width;
    T *b = out + row * width, center[rows], scale[rows], slope[rows], shift[rows];
    for (int r = 0; r < rows; ++r) {
        const T middle = center[r] = mean[row + r], s = scale[r] = 1 / sqrt(variance[row + r] + T(work.number));
        const auto values = [=](auto t, auto y, auto w) {
            const auto along = t * w;
            return Two<decltype(along + along)>{along * (y - middle), along};
        };
        const Two<double> sums = sums_of<T>(width, values, g + r * width, a + r * width, weight);
        slope[r] = static_cast<T>(sums.first / width) * s * s * s;
        shift[r] = static_cast<T>(sums.second / width) * s;
    }
#pragma omp simd
    for (i64 i = 0; i < width; ++i) {
        T of_weight = to_weight[i], of_bias = to_bias[i];
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
            const T t = g[r * width + i], y = a[r * width + i] - center[r];
            of_weight += t * y * scale[r];
            of_bias += t;
            b[r * width + i] = t * weight[i] * scale[r] - (y * slope[r] + shift[r]);
        }
        to_weight[i] = of_weight, to_bias[i] = of_bias;
    }
}

// A part consists of several rows, whose sums are written to a row of `to_weight` and of `to_bias`.
template <class T>
void layer_norm_backward(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* weight,
                         const T* mean, const T* variance, T* out, T* to_weight, T* to_bias) {
    const i64 width = work.width;
    for (i64 part = start; part < stop; ++part) {
        T *weights = to_weight + part * width, *biases = to_bias + part * width;
        for (i64 i = 0; i < width; ++i) weights[i] = biases[i] = 0;
        const i64 end = work.height * (part + 1) / work.parts;
        i64 row = work.height * part / work.parts;
        for (; row + 4 <= end; row += 4) {
            layer_norm_rows<4>(work, row, grad, x, weight, mean, variance, out, weights, biases);
        }
        for (; row < end; ++row) {
            layer_norm_rows<1>(work, row, grad, x, weight, mean, variance, out, weights, biases);
        }
    }
}
ROW_KERNEL(layer_norm_backward)

template <class T>
INLINE void write_line(i64 n, const T* x, T center, T scale, T shift, T* out) {
#pragma omp simd
    for (i64 i = 0; i < n; ++i) out[i] = (x[i] - center) * scale + shift;
}

// A row is a group of channels, of `inner` points each; after `cycle` groups, those of the next image follow.
template <class T>
void group_norm(const Work& work, i64 start, i64 stop, const T* x, const T* weight, const T* bias, T* out, T* mean,
                T* variance) {
    const i64 width = work.width, points = work.inner, channels = width / points;
    for (i64 row = start; row < stop; ++row) {
        mean[row] = mean_of(x + row * width, width);
        variance[row] = variance_of(x + row * width, width, mean[row]);
        const T center = mean[row], scale = 1 / sqrt(variance[row] + T(work.number));
        for (i64 c = 0; c < channels; ++c) {
            const i64 channel = row % work.cycle * channels + c, place = row * width + c * points;
            write_line(points, x + place, center, scale * weight[channel], bias[channel], out + place);
        }
    }
}
ROW_KERNEL(group_norm)

// `to_weight` and `to_bias` have a row for each image.
template <class T>
void group_norm_backward(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* weight,
                         const T* mean, const T* variance, T* out, T* to_weight, T* to_bias) {
    const i64 width = work.width, points = work.inner, channels = width / points;
    for (i64 row = start; row < stop; ++row) {
        const T center = mean[row], scale = 1 / sqrt(variance[row] + T(work.number));
        const T *weights = weight + row % work.cycle * channels, *g = grad + row * width, *a = x + row * width;
        T *b = out + row * width, *of_weight = to_weight + row * channels, *of_bias = to_bias + row * channels;
        double along_x = 0, along_one = 0;
        for (i64 c = 0; c < channels; ++c) {
            const auto values = [=](auto t, auto y) { return Two<decltype(t + t)>{t * (y - center), t}; };
            const Two<double> sums = sums_of<T>(points, values, g + c * points, a + c * points);
            of_weight[c] = static_cast<T>(sums.first * scale), of_bias[c] = static_cast<T>(sums.second);
            along_x += sums.first * weights[c], along_one += sums.second * weights[c];
        }
        const T slope = static_cast<T>(along_x / width) * scale * scale * scale;
        const T shift = static_cast<T>(along_one / width) * scale;
        for (i64 c = 0; c < channels; ++c) {
            const T factor = scale * weights[c];
#pragma omp simd
            for (i64 i = c * points; i < (c + 1) * points; ++i) b[i] = g[i] * factor - ((a[i] - center) * slope + shift);
        }
    }
}
ROW_KERNEL(group_norm_backward)

// Batch norm of a matrix, whose columns are the channels. A part consists of so many columns.
constexpr i64 columns_of_part = 64;

// Call `visit(row, i)` for the elements of all rows in these columns; `i` is the number of the column among them.
template <class F>
INLINE void for_columns(const Work& work, i64 first, i64 n, F visit) {
    for (i64 row = 0; row < work.height; ++row) {
        const i64 place = row * work.width + first;
#pragma omp simd
        for (i64 i = 0; i < n; ++i) visit(place + i, i);
    }
}

template <class T>
void batch_norm_columns(const Work& work, i64 start, i64 stop, const T* x, const T* weight, const T* bias, T* out,
                        T* mean, T* variance) {
    for (i64 part = start; part < stop; ++part) {
        const i64 first = part * columns_of_part, rest = work.width - first;
        const i64 n = rest < columns_of_part ? rest : columns_of_part;
        alignas(64) double total[columns_of_part] = {}, squares[columns_of_part] = {};
        alignas(64) T center[columns_of_part], factor[columns_of_part];
        for_columns(work, first, n, [&](i64 place, i64 i) { total[i] += x[place]; });
        for (i64 i = 0; i < n; ++i) mean[first + i] = center[i] = static_cast<T>(total[i] / work.height);
        for_columns(work, first, n, [&](i64 place, i64 i) {
            const T distance = x[place] - center[i];
            squares[i] += distance * distance;
        });
        for (i64 i = 0; i < n; ++i) {
            variance[first + i] = static_cast<T>(squares[i] / work.height);
            factor[i] = weight[first + i] * (1 / sqrt(variance[first + i] + T(work.number)));
        }
        for_columns(work, first, n, [&](i64 place, i64 i) {
            out[place] = (x[place] - center[i]) * factor[i] + bias[first + i];
        });
    }
}
ROW_KERNEL(batch_norm_columns)

template <class T>
void batch_norm_columns_backward(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* weight,
                                 const T* mean, const T* variance, T* out, T* to_weight, T* to_bias) {
    for (i64 part = start; part < stop; ++part) {
        const i64 first = part * columns_of_part, rest = work.width - first;
        const i64 n = rest < columns_of_part ? rest : columns_of_part;
        alignas(64) double total[columns_of_part] = {}, product[columns_of_part] = {};
        alignas(64) T scale[columns_of_part], slope[columns_of_part], shift[columns_of_part];
        const T* center = mean + first;
        for_columns(work, first, n, [&](i64 place, i64 i) {
            total[i] += grad[place];
            product[i] += grad[place] * (x[place] - center[i]);
        });
        for (i64 i = 0; i < n; ++i) {
            const T r = 1 / sqrt(variance[first + i] + T(work.number)), factor = r * weight[first + i];
            scale[i] = factor;
            slope[i] = static_cast<T>(product[i] / work.height) * r * factor * r;
            shift[i] = static_cast<T>(total[i] / work.height) * factor;
            to_weight[first + i] = static_cast<T>(product[i]) * r, to_bias[first + i] = static_cast<T>(total[i]);
        }
        for_columns(work, first, n, [&](i64 place, i64 i) {
            out[place] = grad[place] * scale[i] - ((x[place] - center[i]) * slope[i] + shift[i]);
        });
    }
}
ROW_KERNEL(batch_norm_columns_backward)

// Batch norm of images, which have a plane for each channel. A part is a channel: it stays in the CPU's cache while it is
// read several times.
template <class F>
INLINE void for_planes(const Work& work, i64 channel, F visit) {
    for (i64 plane = channel; plane < work.height; plane += work.parts) visit(plane * work.width);
}

template <class T>
void batch_norm_images(const Work& work, i64 start, i64 stop, const T* x, const T* weight, const T* bias, T* out,
                       T* mean, T* variance) {
    const i64 points = work.width, count = work.height / work.parts * points;
    for (i64 channel = start; channel < stop; ++channel) {
        double total = 0, squares = 0;
        for_planes(work, channel, [&](i64 place) { total += sum_of(points, x + place); });
        const T center = static_cast<T>(total / count);
        const auto square = [=](auto a) { return (a - center) * (a - center); };
        for_planes(work, channel, [&](i64 place) { squares += sum_of<T>(points, square, x + place); });
        mean[channel] = center, variance[channel] = static_cast<T>(squares / count);
        const T factor = weight[channel] * (1 / sqrt(variance[channel] + T(work.number))), term = bias[channel];
        for_planes(work, channel, [&](i64 place) { write_line(points, x + place, center, factor, term, out + place); });
    }
}
ROW_KERNEL(batch_norm_images)

// Write the gradients of the weight and of the bias, and of the images if `work.inner` is not zero.
template <class T>
void batch_norm_images_backward(const Work& work, i64 start, i64 stop, const T* grad, const T* x, const T* weight,
                                const T* mean, const T* variance, T* out, T* to_weight, T* to_bias) {
    const i64 points = work.width, count = work.height / work.parts * points;
    for (i64 channel = start; channel < stop; ++channel) {
        const T center = mean[channel], r = 1 / sqrt(variance[channel] + T(work.number)), factor = r * weight[channel];
        const auto values = [=](auto t, auto y) { return Two<decltype(t + t)>{t, t * (y - center)}; };
        double total = 0, product = 0;
        for_planes(work, channel, [&](i64 place) {
            const Two<double> sums = sums_of<T>(points, values, grad + place, x + place);
            total += sums.first, product += sums.second;
        });
        to_weight[channel] = static_cast<T>(product) * r, to_bias[channel] = static_cast<T>(total);
        if (!work.inner) continue;
        const T slope = static_cast<T>(product / count) * r * factor * r;
        const T shift = static_cast<T>(total / count) * factor;
        for_planes(work, channel, [&](i64 place) {
            const T *g = grad + place, *a = x + place;
            T* b = out + place;
#pragma omp simd
            for (i64 i = 0; i < points; ++i) b[i] = g[i] * factor - ((a[i] - center) * slope + shift);
        });
    }
}
ROW_KERNEL(batch_norm_images_backward)

// ----------------------------------------------------------------------------------------------------------- planes

// Compute the sums of x - center and of (x - center)**2 for each plane.
template <class T>
void plane_moments(const Work& work, i64 start, i64 stop, const T* x, const T* center, T* total, T* squares) {
    for (i64 row = start; row < stop; ++row) {
        const T middle = center[row];
        const auto values = [=](auto a) { return Two<decltype(a + a)>{a - middle, (a - middle) * (a - middle)}; };
        const Two<double> sums = sums_of<T>(work.width, values, x + row * work.width);
        total[row] = static_cast<T>(sums.first), squares[row] = static_cast<T>(sums.second);
    }
}
ROW_KERNEL(plane_moments)

// Compute (x - center) * scale + shift, with numbers for each of `work.cycle` channels.
template <class T>
void plane_line(const Work& work, i64 start, i64 stop, const T* x, const T* center, const T* scale, const T* shift,
                T* out) {
    const i64 width = work.width;
    for (i64 row = start; row < stop; ++row) {
        const i64 channel = row % work.cycle;
        write_line(width, x + row * width, center[channel], scale[channel], shift[channel], out + row * width);
    }
}
ROW_KERNEL(plane_line)

// ------------------------------------------------------------------------------------------------------ cumulative sums

// Several rows are summed at a time, because each addition waits for the one before it. Sums are in registers only if
// loops over these rows are unrolled, which compiled programs, built with `-O2`, have to ask for.
template <class T, int rows>
INLINE void accumulate(i64 width, bool reverse, const T* x, T* out) {
    double sums[rows] = {};
    for (i64 k = 0; k < width; ++k) {
        const i64 i = reverse ? width - 1 - k : k;
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) out[row * width + i] = static_cast<T>(sums[row] += x[row * width + i]);
    }
}

// Cumulative products of several rows at a time.
template <class T, int rows>
INLINE void multiply_up(i64 width, const T* x, T* out) {
    T products[rows];
#pragma GCC unroll 4
    for (int row = 0; row < rows; ++row) products[row] = 1;
    for (i64 i = 0; i < width; ++i) {
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) out[row * width + i] = products[row] *= x[row * width + i];
    }
}

template <class T>
void cumulative_product(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    i64 row = start;
    for (; row + 4 <= stop; row += 4) multiply_up<T, 4>(width, x + row * width, out + row * width);
    for (; row < stop; ++row) multiply_up<T, 1>(width, x + row * width, out + row * width);
}
ROW_KERNEL(cumulative_product)

// Running maxima (minima if `work.number` is not zero), and the index of the last element that equals each. From the
// first NaN on, results are NaN.
template <class T>
void cumulative_extremum(const Work& work, i64 start, i64 stop, const T* x, T* out, i64* index) {
    const i64 width = work.width;
    const bool least = work.number != 0;
    for (i64 row = start; row < stop; ++row) {
        const T* a = x + row * width;
        T best = a[0];
        i64 place = 0;
        for (i64 i = 0; i < width; ++i) {
            const T value = a[i];
            const bool taken = (least ? value <= best : value >= best) | (value != value);
            best = taken ? value : best;
            place = taken ? i : place;
            out[row * width + i] = best, index[row * width + i] = place;
        }
    }
}
ROW_KERNEL(cumulative_extremum)

// Process the elements in reverse order if `work.number` is not zero.
template <class T>
void cumulative_sum(const Work& work, i64 start, i64 stop, const T* x, T* out) {
    const i64 width = work.width;
    const bool reverse = work.number != 0;
    i64 row = start;
    for (; row + 4 <= stop; row += 4) accumulate<T, 4>(width, reverse, x + row * width, out + row * width);
    for (; row < stop; ++row) accumulate<T, 1>(width, reverse, x + row * width, out + row * width);
}
ROW_KERNEL(cumulative_sum)

// Compute `out[i] = factor[i] * out[i - 1] + term[i]` for several rows at a time. The factor of the first element is
// not read.
template <class T, int rows>
INLINE void recur(i64 width, bool reverse, const T* factor, const T* term, T* out) {
    const i64 first = reverse ? width - 1 : 0, step = reverse ? -1 : 1;
    double values[rows];
#pragma GCC unroll 4
    for (int row = 0; row < rows; ++row) out[row * width + first] = values[row] = term[row * width + first];
    for (i64 k = 1, i = first + step; k < width; ++k, i += step) {
#pragma GCC unroll 4
        for (int row = 0; row < rows; ++row) {
            const i64 at = row * width + i;
            out[at] = static_cast<T>(values[row] = factor[at] * values[row] + term[at]);
        }
    }
}

// Process the elements in reverse order if `work.number` is not zero.
template <class T>
void scan(const Work& work, i64 start, i64 stop, const T* factor, const T* term, T* out) {
    const i64 width = work.width;
    const bool reverse = work.number != 0;
    i64 row = start;
    for (; row + 4 <= stop; row += 4) {
        recur<T, 4>(width, reverse, factor + row * width, term + row * width, out + row * width);
    }
    for (; row < stop; ++row) recur<T, 1>(width, reverse, factor + row * width, term + row * width, out + row * width);
}
ROW_KERNEL(scan)

}  // namespace gradcore
