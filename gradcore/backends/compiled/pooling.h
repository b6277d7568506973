// Maxima of windows over planes of two dims, and the sums of their gradients.

#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "elements.h"
#include "pool.h"

namespace gradcore {

// Elements from which a thread pays off.
constexpr i64 worth_a_thread = 1 << 15;

template <class I>
inline bool are_below(const I* index, i64 count, i64 bound) {
    bool fine = true;
    for (i64 i = 0; i < count; ++i) fine &= index[i] >= 0 && index[i] < bound;
    return fine;
}

struct Windows {
    i64 planes, size[2], outputs[2], kernel[2], stride[2], padding[2], dilation[2];
};

// The windows of one row of outputs. Memory has a whole number of blocks, so that all loops use full registers, and
// negative infinity beside the elements of a row, so that there are no bounds to check.
template <class T>
class RowOfWindows {
public:
    explicit RowOfWindows(const Windows& windows)
        : w(windows), step(w.outputs[1] > 1 ? w.stride[1] : 1), n(round_up(w.outputs[1])),
          span(n + round_up((w.kernel[1] - 1) * w.dilation[1] / step + 1)), length(span * step + w.padding[1] + w.size[1]),
          line(new T[length]), phases(new T[span * step]), best(new T[n]), place(new i32[n]), column(new i32[n]),
          first_column(new i32[n]) {
        for (i64 c = 0; c < length; ++c) line[c] = -infinity<T>();
        for (i64 j = 0; j < n; ++j) {
            column[j] = static_cast<i32>(std::min(j, w.outputs[1] - 1) * step - w.padding[1]);
            first_column[j] = 0;
            for (i64 l = w.kernel[1] - 1; l >= 0; --l) {
                const i64 c = column[j] + l * w.dilation[1];
                if (c >= 0 && c < w.size[1]) first_column[j] = static_cast<i32>(c);
            }
        }
    }

    template <class I>
    void find(const T* plane, i64 row, T* out, I* index) {
        const i64 top = row * w.stride[0] - w.padding[0];
        bool is_first = true;
        for (i64 k = 0; k < w.kernel[0]; ++k) {
            const i64 i = top + k * w.dilation[0];
            if (i < 0 || i >= w.size[0]) continue;
            if (is_first) start(static_cast<i32>(i * w.size[1]));
            is_first = false;
            __builtin_memcpy(line.get() + w.padding[1], plane + i * w.size[1], w.size[1] * sizeof(T));
            if (step == 2) split();
            for (i64 l = 0; l < w.kernel[1]; ++l) {
                const i64 shift = l * w.dilation[1];
                take(values_at(shift), static_cast<i32>(i * w.size[1] + shift));
            }
        }
        if (is_first) start(0);
        __builtin_memcpy(out, best.get(), w.outputs[1] * sizeof(T));
        for (i64 j = 0; j < w.outputs[1]; ++j) index[j] = static_cast<I>(place[j]);
    }

private:
    static constexpr i64 block = 16;
    static i64 round_up(i64 count) { return (count + block - 1) / block * block; }

    void start(i32 row) {
        for (i64 j = 0; j < n; ++j) best[j] = -infinity<T>(), place[j] = row + first_column[j];
    }

    // Copy the elements of even columns, and then those of odd columns.
    void split() {
        const T* from = line.get();
        T *even = phases.get(), *odd = even + span;
        for (i64 first = 0; first < span; first += block) {
#pragma omp simd
            for (i64 j = first; j < first + block; ++j) even[j] = from[2 * j], odd[j] = from[2 * j + 1];
        }
    }

    // Return the elements at one place of the windows side by side.
    const T* values_at(i64 shift) {
        if (step == 1) return line.get() + shift;
        if (step == 2) return phases.get() + shift % 2 * span + shift / 2;
        for (i64 j = 0; j < n; ++j) phases[j] = line[shift + j * step];
        return phases.get();
    }

    void take(const T* values, i32 base) {
        T* top = best.get();
        i32* places = place.get();
        const i32* columns = column.get();
        for (i64 start = 0; start < n; start += block) {
#pragma omp simd
            for (i64 j = start; j < start + block; ++j) {
                const T value = values[j];
                const bool taken = (value > top[j]) | (value != value);
                top[j] = taken ? value : top[j];
                places[j] = taken ? base + columns[j] : places[j];
            }
        }
    }

    const Windows& w;
    // Numbers of outputs, of these and of further ones that begin within the last windows, and of elements of `line`.
    const i64 step, n, span, length;
    const std::unique_ptr<T[]> line, phases, best;
    const std::unique_ptr<i32[]> place, column, first_column;
};

// The rows of outputs from `start` to before `stop` of all planes, for windows of two by two elements that do not overlap
// and cover planes of even sizes. The pairs of a row are compared first, as one loop for many rows.
template <class T, class I>
void find_of_two_by_two(const Windows& w, i64 start, i64 stop, const T* x, T* out, I* index) {
    constexpr i64 block = 8;
    const i64 n = w.outputs[1], width = 2 * n, most = std::max<i64>(512 / width, 1);
    // The last block of a row reads elements that follow it.
    const std::unique_ptr<T[]> tops(new T[most * width + block]());
    const std::unique_ptr<i32[]> takes(new i32[most * width + block]());
    T* top = tops.get();
    i32* takes_right = takes.get();
    for (i64 first = start; first < stop; first += most) {
        const i64 rows = std::min(most, stop - first);
        const T* from = x + first * 2 * width;
#pragma omp simd
        for (i64 k = 0; k < rows * width; ++k) {
            const T left = from[2 * k], right = from[2 * k + 1];
            const bool taken = (right > left) | (right != right);
            top[k] = taken ? right : left, takes_right[k] = taken ? 1 : 0;
        }
        for (i64 row = 0; row < rows; ++row) {
            const T *high = top + row * width, *low = high + n;
            const i32 *right = takes_right + row * width, *right_below = right + n;
            const i32 place = static_cast<i32>((first + row) % w.outputs[0] * 2 * width), below = static_cast<i32>(width);
            T* best = out + (first + row) * n;
            I* places = index + (first + row) * n;
            for (i64 j = 0; j < n; j += block) {
                T values[block];
                i32 found[block];
#pragma omp simd
                for (i64 k = 0; k < block; ++k) {
                    const T above = high[j + k], beneath = low[j + k];
                    const bool taken = (beneath > above) | (beneath != beneath);
                    values[k] = taken ? beneath : above;
                    found[k] = place + static_cast<i32>(2 * (j + k)) + (taken ? below + right_below[j + k] : right[j + k]);
                }
                if (j + block <= n) {
                    __builtin_memcpy(best + j, values, sizeof values);
                    for (i64 k = 0; k < block; ++k) places[j + k] = found[k];
                } else {
                    for (i64 k = 0; k < n - j; ++k) best[j + k] = values[k], places[j + k] = found[k];
                }
            }
        }
    }
}

// Write the largest elements of windows, the first of equal ones and the last NaN, and their places in the plane.
template <class T, class I>
__attribute__((noinline)) void max_pool(T* out, I* index, const T* x, const Windows& w, i64 threads) {
    const i64 rows = w.planes * w.outputs[0], n = w.outputs[1], taps = n * w.kernel[0] * w.kernel[1];
    bool is_two_by_two = true;
    for (int dim : {0, 1}) {
        is_two_by_two &= w.kernel[dim] == 2 && w.stride[dim] == 2 && w.dilation[dim] == 1 && w.padding[dim] == 0;
        is_two_by_two &= w.size[dim] == 2 * w.outputs[dim];
    }
    const i64 grain = worth_a_thread / (taps + 1) + 1;
    if (is_two_by_two) {
        spread(rows, grain, 1, threads, [&](i64 start, i64 stop) { find_of_two_by_two(w, start, stop, x, out, index); });
        return;
    }
    spread(rows, grain, 1, threads, [&](i64 start, i64 stop) {
        RowOfWindows<T> windows(w);
        for (i64 row = start; row < stop; ++row) {
            const T* plane = x + row / w.outputs[0] * w.size[0] * w.size[1];
            windows.find(plane, row % w.outputs[0], out + row * n, index + row * n);
        }
    });
}

// Write planes of `size` zeros, and add elements to them at their places. Return whether all places are within a plane.
template <class T, class I>
__attribute__((noinline)) bool spread_places(T* out, const T* x, const I* index, i64 planes, i64 outputs, i64 size,
                                             i64 threads) {
    std::atomic<bool> fine{true};
    spread(planes, worth_a_thread / (outputs + size + 1) + 1, 1, threads, [&](i64 start, i64 stop) {
        if (!are_below(index + start * outputs, (stop - start) * outputs, size)) fine = false;
        if (!fine) return;
        for (i64 p = start; p < stop; ++p) {
            T* plane = out + p * size;
            for (i64 i = 0; i < size; ++i) plane[i] = 0;
            for (i64 i = p * outputs; i < (p + 1) * outputs; ++i) plane[index[i]] += x[i];
        }
    });
    return fine;
}

}  // namespace gradcore
