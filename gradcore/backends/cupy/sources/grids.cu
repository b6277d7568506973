// Sampling of images and volumes at the points of grids, and its gradients.
//
// GRADCORE_TYPE is the type of the arrays, GRADCORE_DIMS the number of spatial dims (2 or 3). Images are dense, (batch,
// channels, *sizes), grids (batch, points, dims) with the coordinate of the last dim first, results (batch, channels,
// points). Settings are those of ops/grids.py, where the same formulas are: modes linear, nearest and cubic; padding
// with zeros, the border and the reflection.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

constexpr int dims = GRADCORE_DIMS, most_taps = dims == 2 ? 4 : 2;

enum Mode { linear, nearest, cubic };
enum Padding { zeros, border, reflection };

struct Settings {
    i64 sizes[3];
    i32 mode, padding;
    bool align;
};

// The elements of a dim that a point reads, their weights, and the derivatives of the weights by the coordinate.
struct Taps {
    i64 indices[most_taps];
    A weights[most_taps], slopes[most_taps];
};

struct Position {
    A at, slope;
};

GRADCORE_FUNCTION Position inside(A at, i64 size, i32 padding, bool align) {
    if (padding == zeros) return {at, A(1)};
    A slope = 1;
    const A last = static_cast<A>(size - 1);
    if (padding == reflection) {
        const A low = align ? A(0) : A(-0.5), span = align ? last : static_cast<A>(size);
        if (span == 0) return {A(0), A(0)};
        const A away = at - low, distance = away < 0 ? -away : away, flips = floor(distance / span);
        const A rest = distance - flips * span;
        const bool even = flips - floor(flips / 2) * 2 == 0;
        at = (even ? rest : span - rest) + low;
        slope = even == (away >= 0) ? A(1) : A(-1);
    }
    if (!(at >= 0 && at <= last)) slope = 0;
    return {at < 0 ? A(0) : at > last ? last : at, slope};
}

// Return the index of a coordinate, or -1 if it is outside or NaN.
GRADCORE_FUNCTION i64 index_of(A at, i64 size) { return at >= 0 && at <= static_cast<A>(size - 1) ? static_cast<i64>(at) : -1; }

constexpr A parameter = -0.75;

GRADCORE_FUNCTION A near(A x) { return ((parameter + 2) * x - (parameter + 3)) * x * x + 1; }
GRADCORE_FUNCTION A near_slope(A x) { return (3 * (parameter + 2) * x - 2 * (parameter + 3)) * x; }
GRADCORE_FUNCTION A far(A x) { return ((parameter * x - 5 * parameter) * x + 8 * parameter) * x - 4 * parameter; }
GRADCORE_FUNCTION A far_slope(A x) { return (3 * parameter * x - 10 * parameter) * x + 8 * parameter; }

GRADCORE_FUNCTION Taps taps_of(A coordinate, i64 size, const Settings& s) {
    Taps taps;
    const A scale = static_cast<A>(s.align ? size - 1 : size) / 2;
    const A at = s.align ? (coordinate + 1) * scale : ((coordinate + 1) * static_cast<A>(size) - 1) / 2;
    if (dims == 2 && s.mode == cubic) {
        const A before = floor(at), t = at - before;
        const A weights[4] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
        const A slopes[4] = {far_slope(t + 1), near_slope(t), -near_slope(1 - t), -far_slope(2 - t)};
        GRADCORE_UNROLL
        for (int k = 0; k < most_taps; ++k) {
            taps.indices[k] = index_of(inside(before + static_cast<A>(k - 1), size, s.padding, s.align).at, size);
            taps.weights[k] = weights[k];
            taps.slopes[k] = slopes[k] * scale;
        }
        return taps;
    }
    const Position position = inside(at, size, s.padding, s.align);
    const A before = s.mode == nearest ? rint(position.at) : floor(position.at), t = position.at - before;
    taps.indices[0] = index_of(before, size);
    taps.indices[1] = index_of(before + 1, size);
    taps.weights[0] = s.mode == nearest ? A(1) : 1 - t;
    taps.weights[1] = t;
    taps.slopes[0] = -position.slope * scale;
    taps.slopes[1] = position.slope * scale;
    return taps;
}

GRADCORE_FUNCTION int count(const Settings& s) { return s.mode == linear ? 2 : s.mode == nearest ? 1 : most_taps; }

// For each element that a point reads, call `call` with its place in the image, its weight, and the derivatives of the
// weight by the coordinates.
template <class F>
GRADCORE_FUNCTION void for_taps(const T* grid, i64 point, const Settings& s, F&& call) {
    Taps taps[dims];
    GRADCORE_UNROLL
    for (int d = 0; d < dims; ++d) taps[d] = taps_of(load(grid[point * dims + dims - 1 - d]), s.sizes[d], s);
    const int n = count(s);
    GRADCORE_UNROLL
    for (int i = 0; i < most_taps; ++i) {
        if (i >= n || taps[0].indices[i] < 0) continue;
        GRADCORE_UNROLL
        for (int j = 0; j < most_taps; ++j) {
            if (j >= n || taps[1].indices[j] < 0) continue;
            const i64 place = taps[0].indices[i] * s.sizes[1] + taps[1].indices[j];
            const A weight = taps[0].weights[i] * taps[1].weights[j];
            const A slope0 = taps[0].slopes[i] * taps[1].weights[j], slope1 = taps[0].weights[i] * taps[1].slopes[j];
            if constexpr (dims == 2) {
                const A slopes[] = {slope0, slope1};
                call(place, weight, slopes);
            } else {
                GRADCORE_UNROLL
                for (int k = 0; k < most_taps; ++k) {
                    if (k >= n || taps[2].indices[k] < 0) continue;
                    const A last = taps[2].weights[k], slopes[] = {slope0 * last, slope1 * last, weight * taps[2].slopes[k]};
                    call(place * s.sizes[2] + taps[2].indices[k], weight * last, slopes);
                }
            }
        }
    }
}

#define SETTINGS                                                                                                      \
    const i64 channels, const i64 points, const i64 size0, const i64 size1, const i64 size2, const i32 mode,          \
        const i32 padding, const bool align
#define READ_SETTINGS                                                                                                 \
    const Settings s{{size0, size1, size2}, mode, padding, align};                                                    \
    const i64 volume = size0 * size1 * size2

// Each thread computes an element of the result.
extern "C" __global__ void grid_sampler(const T* image, const T* grid, T* out, const i64 total, SETTINGS) {
    READ_SETTINGS;
    for (i64 i = first_index(); i < total; i += index_step()) {
        const i64 plane = i / points;
        const T* from = image + plane * volume;
        A sum = 0;
        for_taps(grid, plane / channels * points + i % points, s,
                 [&](i64 place, A weight, const A*) { sum += load(from[place]) * weight; });
        out[i] = store<T>(sum);
    }
}

// A thread handles a point. It computes the gradient of the point, and adds to the gradients of the elements that the
// point reads. Either result may be null. Gradients of images begin with zeros.
extern "C" __global__ void grid_sampler_backward(const T* grad, const T* image, const T* grid, A* to_image, T* to_grid,
                                                 const i64 total, SETTINGS) {
    READ_SETTINGS;
    for (i64 i = first_index(); i < total; i += index_step()) {
        const i64 first = i / points * channels;
        const T* of = grad + first * points + i % points;
        const T* from = image + first * volume;
        A sums[dims] = {};
        for_taps(grid, i, s, [&](i64 place, A weight, const A* slopes) {
            A product = 0;
            for (i64 c = 0; c < channels; ++c) {
                const A g = load(of[c * points]);
                if (to_image) atomicAdd(to_image + (first + c) * volume + place, g * weight);
                if (to_grid) product += load(from[c * volume + place]) * g;
            }
            GRADCORE_UNROLL
            for (int d = 0; d < dims; ++d) sums[d] += product * slopes[d];
        });
        if (!to_grid) continue;
        GRADCORE_UNROLL
        for (int d = 0; d < dims; ++d) to_grid[i * dims + dims - 1 - d] = store<T>(s.mode == nearest ? A(0) : sums[d]);
    }
}
