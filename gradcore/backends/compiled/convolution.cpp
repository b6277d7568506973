// Convolution with one to three spatial dims, and the gradient of its weight, without copies of windows as columns.
//
// The padded image is split by the residues of the stride (phases). The elements that a tap reads for all positions of
// the output are then a shifted copy of one phase. So a tile of the result, for some output channels and some positions
// in the memory order of the padded image, stays in registers while all input channels and taps are added up. Positions
// between two rows are computed and discarded. In sums over positions, they count as zero.

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "calls.h"
#include "lanes.h"

namespace gradcore {

// A tile of the result has `tile_positions` registers of positions for each of `tile_outputs` outputs. A tile of the
// weight's gradient has two registers of outputs for each of `tile_taps` taps. Both fill three quarters of the
// registers; the others hold operands.
constexpr int tile_positions = 3, tile_outputs = registers / 4, tile_taps = registers * 3 / 8;

// The padded part of an image that stays in the second level of cache, in bytes; positions of a part at least.
constexpr i64 part_bytes = 1 << 18, part_positions = 192;

// The sizes that do not change between calls, written by `convolution.py`. Channels and outputs are numbers per group.
// Element t of a phase is element stride * t + start of the image. A tap reads its phase at its shift.
struct Tap {
    i64 phase, shift[3];
};

struct Geometry {
    i64 images, groups, channels, outputs, taps, phases;
    i64 spatial[3], reach[3], size[3], stride[3];
    i64 along;  // the dim in which images are divided
    const i64* starts() const { return reinterpret_cast<const i64*>(this + 1); }
    const Tap* tap(i64 i) const { return reinterpret_cast<const Tap*>(starts() + 3 * phases) + i; }
};

// A part of the output: some of its rows, and the padded part of the image that they read.
struct Part {
    const Geometry& g;
    i64 first, spatial[3], extent[3], phase, channel;

    Part(const Geometry& geometry, i64 start, i64 stop) : g(geometry), first(start) {
        for (int d = 0; d < 3; ++d) spatial[d] = d == g.along ? stop - start : g.spatial[d];
        for (int d = 0; d < 3; ++d) extent[d] = spatial[d] + g.reach[d];
        phase = extent[0] * extent[1] * extent[2];
        channel = phase * g.phases;
    }

    // Return the number of positions from the first one to the last one.
    i64 positions() const { return ((spatial[0] - 1) * extent[1] + spatial[1] - 1) * extent[2] + spatial[2]; }
    // The first position of each register of the output. Registers begin anew in each row, or follow each other across
    // rows if fewer registers are needed then.
    std::vector<i64> registers_of(i64 lanes) const {
        const i64 number = (positions() + lanes - 1) / lanes, of_row = (spatial[2] + lanes - 1) / lanes;
        std::vector<i64> found;
        if (of_row * spatial[0] * spatial[1] <= number) {
            for_rows([&](i64 start) {
                for (i64 i = 0; i < of_row; ++i) found.push_back(start + i * lanes);
            });
        } else {
            for (i64 i = 0; i < number; ++i) found.push_back(i * lanes);
        }
        return found;
    }
    i64 offset(const Tap& tap) const {
        return tap.phase * phase + (tap.shift[0] * extent[1] + tap.shift[1]) * extent[2] + tap.shift[2];
    }
    std::vector<i64> offsets() const {
        std::vector<i64> found(g.taps);
        for (i64 i = 0; i < g.taps; ++i) found[i] = offset(*g.tap(i));
        return found;
    }

    // Call `work` with the first position of each row of the output.
    template <class F>
    INLINE void for_rows(const F& work) const {
        for (i64 i = 0; i < spatial[0]; ++i)
            for (i64 j = 0; j < spatial[1]; ++j) work((i * extent[1] + j) * extent[2]);
    }

    // Copy channels of an image to `room`, with zeros as padding.
    template <class T>
    void pad(const T* x, i64 channels, T* room) const {
        const i64 plane = g.size[0] * g.size[1] * g.size[2];
        for (i64 c = 0; c < channels; ++c)
            for (i64 f = 0; f < g.phases; ++f)
                pad_plane(x + c * plane, g.starts() + 3 * f, room + c * channel + f * phase);
    }

  private:
    template <class T>
    void pad_plane(const T* x, const i64* starts, T* to) const {
        for (i64 i = 0; i < extent[0]; ++i) {
            for (i64 j = 0; j < extent[1]; ++j, to += extent[2]) {
                const i64 t[3] = {i, j, 0};
                i64 at[3];
                bool inside = true;
                for (int d = 0; d < 3; ++d) {
                    at[d] = g.stride[d] * (t[d] + (d == g.along ? first : 0)) + starts[d];
                    inside &= d == 2 || (at[d] >= 0 && at[d] < g.size[d]);
                }
                if (inside) {
                    pad_row(x + (at[0] * g.size[1] + at[1]) * g.size[2], at[2], to);
                } else {
                    std::memset(to, 0, extent[2] * sizeof(T));
                }
            }
        }
    }
    template <class T>
    void pad_row(const T* row, i64 start, T* to) const {
        const i64 step = g.stride[2], n = extent[2];
        i64 begin = start < 0 ? (-start + step - 1) / step : 0;
        i64 end = g.size[2] > start ? (g.size[2] - start + step - 1) / step : 0;
        end = end < n ? end : n;
        begin = begin < end ? begin : end;
        std::memset(to, 0, begin * sizeof(T));
        if (step == 1) {
            std::memcpy(to + begin, row + start + begin, (end - begin) * sizeof(T));
        } else {
            for (i64 t = begin; t < end; ++t) to[t] = row[start + t * step];
        }
        std::memset(to + end, 0, (n - end) * sizeof(T));
    }
};

// Memory for some elements, followed by zeros for the elements that tiles read beyond the end.
template <class T>
std::unique_ptr<T[]> memory(i64 elements) {
    constexpr i64 behind = (tile_positions + 1) * Lanes<T>::count;
    std::unique_ptr<T[]> made(new T[elements + behind]);
    std::memset(made.get() + elements, 0, behind * sizeof(T));
    return made;
}

// ------------------------------------------------------------------------------------------------------- the output

// A tile of the output: the positions in the padded image at which its registers begin, the positions to which they are
// written, and the step between outputs.
template <class T>
struct Tile {
    const T* x[tile_positions];
    T* out[tile_positions];
    i64 step;
};

// Compute O outputs at V registers of positions: sums over channels and taps. Weights are stored in this order.
template <class T, int O, int V>
void output_tile(const Tile<T>& tile, i64 channels, i64 channel, const i64* offsets, i64 taps, const T* weights) {
    typename Lanes<T>::Type sums[O][V] = {};
    const T* x[V];
    for (int v = 0; v < V; ++v) x[v] = tile.x[v];
    for (i64 c = 0; c < channels; ++c) {
        for (i64 t = 0; t < taps; ++t, weights += O) {
            typename Lanes<T>::Type read[V];
            for (int v = 0; v < V; ++v) read[v] = load(x[v] + offsets[t]);
            for (int o = 0; o < O; ++o)
                for (int v = 0; v < V; ++v) sums[o][v] += read[v] * weights[o];
        }
        for (int v = 0; v < V; ++v) x[v] += channel;
    }
    for (int v = 0; v < V; ++v)
        for (int o = 0; o < O; ++o) store(tile.out[v] + o * tile.step, sums[o][v]);
}

template <class T>
using OutputTile = void (*)(const Tile<T>&, i64, i64, const i64*, i64, const T*);

template <class T, int V>
OutputTile<T> output_tile_of(i64 outputs) {
    if (outputs == tile_outputs) return output_tile<T, tile_outputs, V>;
    switch (outputs) {
        case 4: return output_tile<T, 4, V>;
        case 2: return output_tile<T, 2, V>;
        default: return output_tile<T, 1, V>;
    }
}

template <class T>
OutputTile<T> output_tile_of(i64 outputs, i64 registers_of_positions) {
    switch (registers_of_positions) {
        case 3: return output_tile_of<T, 3>(outputs);
        case 2: return output_tile_of<T, 2>(outputs);
        default: return output_tile_of<T, 1>(outputs);
    }
}

// Return how many of the `left` remaining outputs to compute at a time, a power of two.
inline i64 outputs_at_a_time(i64 left) {
    i64 some = tile_outputs;
    while (some > left) some /= 2;
    return some;
}

// Copy weights to the order in which tiles read them.
template <class T>
std::unique_ptr<T[]> packed(const Geometry& g, const T* weight) {
    const i64 depth = g.channels * g.taps;
    std::unique_ptr<T[]> made(new T[g.groups * g.outputs * depth]);
    T* to = made.get();
    for (i64 group = 0; group < g.groups; ++group, weight += g.outputs * depth)
        for (i64 o = 0, some; o < g.outputs; o += some) {
            some = outputs_at_a_time(g.outputs - o);
            for (i64 i = 0; i < depth; ++i)
                for (i64 k = 0; k < some; ++k) *to++ = weight[(o + k) * depth + i];
        }
    return made;
}

// Strides of the output in elements: between images, between outputs and along the spatial dims.
struct Steps {
    i64 image, output, spatial[3];
};

// Write those positions of a register that belong to rows of the output.
template <class T>
void write_register(const Part& part, i64 from, i64 outputs, const T* source, T* out, const Steps& steps) {
    const i64 width = part.extent[2], stop = from + Lanes<T>::count;
    for (i64 row = from / width; row * width < stop && row < part.spatial[0] * part.extent[1]; ++row) {
        const i64 i = row / part.extent[1], j = row % part.extent[1];
        const i64 begin = from > row * width ? from - row * width : 0;
        i64 end = stop - row * width;
        end = end < part.spatial[2] ? end : part.spatial[2];
        if (j >= part.spatial[1] || begin >= end) continue;
        T* to = out + i * steps.spatial[0] + j * steps.spatial[1];
        for (i64 o = 0; o < outputs; ++o, to += steps.output)
            for (i64 k = begin; k < end; ++k) to[k * steps.spatial[2]] = source[o * Lanes<T>::count + row * width + k - from];
    }
}

// Compute a part of an image's output for one group.
template <class T>
void correlate_part(const Part& part, const T* x, const T* weights, T* out, const Steps& steps, T* room) {
    constexpr i64 lanes = Lanes<T>::count;
    const Geometry& g = part.g;
    const i64 depth = g.channels * g.taps, width = part.extent[2];
    const std::vector<i64> offsets = part.offsets(), registers = part.registers_of(lanes);
    T buffer[tile_positions][tile_outputs * lanes];
    part.pad(x, g.channels, room);
    for (i64 p = 0, wide, left; (left = registers.size() - p) > 0; p += wide) {
        wide = left < tile_positions ? left : left == tile_positions + 1 ? 2 : tile_positions;
        Tile<T> tile;
        bool direct = steps.spatial[2] == 1;
        i64 at[tile_positions];  // of the output
        for (i64 v = 0; v < wide; ++v) {
            const i64 from = registers[p + v], i = from / width / part.extent[1], j = from / width % part.extent[1];
            tile.x[v] = room + from;
            at[v] = i * steps.spatial[0] + j * steps.spatial[1] + from % width;
            direct &= from % width + lanes <= part.spatial[2] && j < part.spatial[1];
        }
        for (i64 o = 0, some; o < g.outputs; o += some) {
            some = outputs_at_a_time(g.outputs - o);
            T* to = out + o * steps.output;
            tile.step = direct ? steps.output : lanes;
            for (i64 v = 0; v < wide; ++v) tile.out[v] = direct ? to + at[v] : buffer[v];
            output_tile_of<T>(some, wide)(tile, g.channels, part.channel, offsets.data(), g.taps, weights + o * depth);
            for (i64 v = 0; v < wide && !direct; ++v) write_register(part, registers[p + v], some, buffer[v], to, steps);
        }
    }
}

template <class T>
void correlate(const Geometry& g, const Steps& steps, i64 threads, const T* x, const T* weight, T* out) {
    const i64 rows = g.spatial[g.along], plane = g.size[0] * g.size[1] * g.size[2];
    const i64 row = Part(g, 0, rows).positions() / rows + 1;
    const i64 fit = part_bytes / i64(sizeof(T)) / (row * g.channels * g.phases) - g.reach[g.along];
    // Use at least as many parts as threads, unless the parts become too small.
    i64 parts = (rows + (fit > 1 ? fit : 1) - 1) / (fit > 1 ? fit : 1);
    const i64 wanted = (4 * threads + g.images * g.groups - 1) / (g.images * g.groups);
    if (threads > 1 && parts < wanted) parts = wanted;
    i64 least = part_positions / row + 2 * g.reach[g.along] + 1;
    i64 most = rows / least > 1 ? rows / least : 1;
    parts = parts < most ? parts : most;
    const std::unique_ptr<T[]> weights = packed(g, weight);
    const auto work = [&](i64 start, i64 stop) {
        const i64 longest = (rows + parts - 1) / parts;
        const auto room = memory<T>(Part(g, 0, longest).channel * g.channels);
        for (i64 i = start; i < stop; ++i) {
            const i64 n = i / (g.groups * parts), group = i / parts % g.groups, k = i % parts;
            const Part part(g, rows * k / parts, rows * (k + 1) / parts);
            T* to = out + n * steps.image + group * g.outputs * steps.output + part.first * steps.spatial[g.along];
            const T* from = x + (n * g.groups + group) * g.channels * plane;
            correlate_part(part, from, weights.get() + group * g.outputs * g.channels * g.taps, to, steps, room.get());
        }
    };
    spread(g.images * g.groups * parts, 1, 1, threads, work);
}

// ------------------------------------------------------------------------------------------- the weight's gradient

// For R taps and V registers of outputs, add to `sums` the products of `grad` with the elements that the taps read,
// summed over all positions. In `grad`, the outputs of a position are adjacent.
template <class T, int R, int V>
void weight_tile(const Part& part, const T* x, const i64* offsets, const T* grad, T* sums) {
    constexpr int lanes = Lanes<T>::count;
    typename Lanes<T>::Type found[R][V];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) found[r][v] = load(sums + (r * V + v) * lanes);
    part.for_rows([&](i64 start) {
        const T* from = x + start;
        for (i64 p = 0; p < part.spatial[2]; ++p, ++from, grad += V * lanes) {
            typename Lanes<T>::Type upstream[V];
            for (int v = 0; v < V; ++v) upstream[v] = load(grad + v * lanes);
            for (int r = 0; r < R; ++r)
                for (int v = 0; v < V; ++v) found[r][v] += upstream[v] * from[offsets[r]];
        }
    });
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) store(sums + (r * V + v) * lanes, found[r][v]);
}

template <class T, int V>
void weight_rows(const Part& part, const T* x, const std::vector<i64>& offsets, const T* grad, T* sums) {
    const i64 depth = offsets.size();
    for (i64 i = 0, some; i < depth; i += some, sums += some * V * Lanes<T>::count) {
        some = depth - i >= tile_taps ? tile_taps : depth - i >= 3 ? 3 : 1;
        const auto tile = some == tile_taps ? weight_tile<T, tile_taps, V> : some == 3 ? weight_tile<T, 3, V> : weight_tile<T, 1, V>;
        tile(part, x, offsets.data() + i, grad, sums);
    }
}

// The gradient of a weight is computed for two registers of outputs at a time, or for one at the end. Call
// `work(output, outputs, width)` for the outputs of a group, where `width` is the number of elements in the registers.
template <class T, class F>
INLINE void for_outputs(i64 outputs, const F& work) {
    constexpr i64 lanes = Lanes<T>::count;
    for (i64 o = 0, width; o < outputs; o += width) {
        width = outputs - o > lanes ? 2 * lanes : lanes;
        work(o, outputs - o < width ? outputs - o : width, width);
    }
}

// The division of the work: how many channels of a group are taken at a time, and how many groups of images have
// separate sums, which are added at the end. The division does not depend on the number of threads, so the result does
// not either.
struct Division {
    i64 channels, blocks, parts, depth, outputs, size;

    template <class T>
    static Division of(const Geometry& g) {
        constexpr i64 lanes = Lanes<T>::count, most_channels = 32, items = 16;
        Division d;
        d.channels = g.channels < most_channels ? g.channels : most_channels;
        d.blocks = (g.channels + d.channels - 1) / d.channels;
        const i64 parts = (items + g.groups * d.blocks - 1) / (g.groups * d.blocks);
        d.parts = parts < g.images ? parts : g.images;
        d.depth = d.channels * g.taps;
        d.outputs = (g.outputs + lanes - 1) / lanes * lanes;
        d.size = d.depth * d.outputs;
        return d;
    }
};

// Compute the contribution of an item's images to the gradient of the weights of some channels: for each register of
// outputs, a row for each channel and tap.
template <class T>
void sum_images(const Geometry& g, const Division& d, i64 item, const T* x, const T* grad, T* sums, T* room, T* columns) {
    const i64 plane = g.size[0] * g.size[1] * g.size[2], positions = g.spatial[0] * g.spatial[1] * g.spatial[2];
    const i64 k = item / (g.groups * d.blocks), group = item / d.blocks % g.groups, first = item % d.blocks * d.channels;
    const i64 channels = g.channels - first < d.channels ? g.channels - first : d.channels;
    const Part part(g, 0, g.spatial[g.along]);
    std::vector<i64> offsets(channels * g.taps);
    for (i64 i = 0; i < channels * g.taps; ++i) offsets[i] = i / g.taps * part.channel + part.offset(*g.tap(i % g.taps));
    std::memset(sums, 0, d.size * sizeof(T));
    for (i64 n = g.images * k / d.parts; n < g.images * (k + 1) / d.parts; ++n) {
        part.pad(x + ((n * g.groups + group) * g.channels + first) * plane, channels, room);
        const T* upstream = grad + (n * g.groups + group) * g.outputs * positions;
        for_outputs<T>(g.outputs, [&](i64 o, i64 outputs, i64 width) {
            transpose(upstream + o * positions, outputs, positions, positions, columns, width);
            const auto rows = width == Lanes<T>::count ? weight_rows<T, 1> : weight_rows<T, 2>;
            rows(part, room, offsets, columns, sums + o * d.depth);
        });
    }
}

template <class T>
void sum_windows(const Geometry& g, i64 threads, const T* x, const T* grad, T* out) {
    const Division d = Division::of<T>(g);
    const i64 positions = g.spatial[0] * g.spatial[1] * g.spatial[2], items = d.parts * g.groups * d.blocks;
    const Part part(g, 0, g.spatial[g.along]);
    const std::unique_ptr<T[]> sums(new T[items * d.size]);
    spread(items, 1, 1, threads, [&](i64 start, i64 stop) {
        const auto room = memory<T>(part.channel * d.channels);
        const std::unique_ptr<T[]> columns(new T[positions * 2 * Lanes<T>::count]);
        for (i64 i = start; i < stop; ++i) sum_images(g, d, i, x, grad, sums.get() + i * d.size, room.get(), columns.get());
    });
    const i64 depth = g.channels * g.taps;
    spread(g.groups * d.blocks, 1, 1, threads, [&](i64 start, i64 stop) {
        for (i64 i = start; i < stop; ++i) {
            const i64 group = i / d.blocks, first = i % d.blocks * d.depth;
            const i64 rows = depth - first < d.depth ? depth - first : d.depth;
            for_outputs<T>(g.outputs, [&](i64 o, i64 outputs, i64 width) {
                T* to = out + (group * g.outputs + o) * depth + first;
                for (i64 row = 0; row < rows; ++row)
                    for (i64 k = 0; k < outputs; ++k) {
                        T sum = 0;
                        for (i64 p = 0; p < d.parts; ++p)
                            sum += sums[(p * g.groups * d.blocks + i) * d.size + o * d.depth + row * width + k];
                        to[k * depth + row] = sum;
                    }
            });
        }
    });
}

// Functions that Python calls, with the numbers of a `Geometry` as an array of int64. Inputs are contiguous.
template <class T>
void run_correlate(i64 threads, const Array& geometry, const Array& x, const Array& weight, const Array& out) {
    const int last = out.dims - 1;
    Steps steps{};
    steps.image = out.strides[0] / i64(sizeof(T)), steps.output = out.strides[1] / i64(sizeof(T));
    for (int d = 0; d < last - 1; ++d) steps.spatial[2 - d] = out.strides[last - d] / i64(sizeof(T));
    correlate(*reinterpret_cast<const Geometry*>(geometry.data), steps, threads, reinterpret_cast<const T*>(x.data),
              reinterpret_cast<const T*>(weight.data), reinterpret_cast<T*>(out.data));
}

template <class T>
void run_sum_windows(i64 threads, const Array& geometry, const Array& x, const Array& grad, const Array& out) {
    sum_windows(*reinterpret_cast<const Geometry*>(geometry.data), threads, reinterpret_cast<const T*>(x.data),
                reinterpret_cast<const T*>(grad.data), reinterpret_cast<T*>(out.data));
}

}  // namespace gradcore

BUILTIN(gradcore_correlate_f, &gradcore::run_correlate<float>)
BUILTIN(gradcore_correlate_d, &gradcore::run_correlate<double>)
BUILTIN(gradcore_sum_windows_f, &gradcore::run_sum_windows<float>)
BUILTIN(gradcore_sum_windows_d, &gradcore::run_sum_windows<double>)

// The same functions for programs in C++, which pass addresses (`program.h`).
#define PROGRAM_FUNCTIONS(T, letter)                                                                       \
    extern "C" void gradcore_program_correlate_##letter(int64_t threads, const gradcore::Geometry* g,      \
                                                        const gradcore::Steps* steps, const T* x,          \
                                                        const T* weight, T* out) {                         \
        gradcore::correlate(*g, *steps, threads, x, weight, out);                                          \
    }                                                                                                      \
    extern "C" void gradcore_program_sum_windows_##letter(int64_t threads, const gradcore::Geometry* g,    \
                                                          const T* x, const T* grad, T* out) {             \
        gradcore::sum_windows(*g, threads, x, grad, out);                                                  \
    }

PROGRAM_FUNCTIONS(float, f)
PROGRAM_FUNCTIONS(double, d)
