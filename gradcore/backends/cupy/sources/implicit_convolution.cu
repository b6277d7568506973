// Convolution on tensor cores without columns in memory: products whose right operand is gathered from images, a tile
// at a time. The forward pass and the gradient with respect to the input are one kernel, the gradient with respect to the
// weight is another.
//
// GRADCORE_TYPE is the type of the arrays, and GRADCORE_ROWS the number of rows of a block; see tiles.cuh. Operands have
// any strides. Indices within an image and within the weight have 32 bits. There are no atomic additions, so sums always
// have one order.

#include "tiles.cuh"

using namespace gradcore;

constexpr int ROWS = GRADCORE_ROWS, THREADS = 2 * ROWS, WARPS = THREADS / 32, COLUMNS = 64;
// The part of the inner index of a product that is in shared memory at a time, and the distance of the rows of a tile.
constexpr int DEPTH = 32, STRIDE = DEPTH + padding;
// The distance of the rows of a tile whose columns are windows. Lanes read from different banks for both sizes of T.
constexpr int WINDOW_STRIDE = COLUMNS + 8;
// The numbers of each operand's tile that a thread copies.
constexpr int OF_ROWS = ROWS * DEPTH / THREADS, OF_COLUMNS = COLUMNS * DEPTH / THREADS;
// Bits of the taps of a window, one for each index in each dim. Windows also have the last bit, whose taps do not exist.
using Bits = u32;
constexpr Bits no_tap = Bits(1) << 31;

// A spatial dim: its sizes, the settings of the windows, and the steps in elements of the three operands.
struct Dim {
    i32 size, outputs, taps, stride, padding, dilation, x_step, weight_step, out_step;
};

// The same structure is in backends/cupy/implicit_convolution.py. `rows` and `channels` are those of a group: channels of
// the result and of the images. `out` is the result, or the gradient with respect to it.
struct Convolved {
    Dim dims[3];
    i64 images, x_image, out_image, x_group, weight_group, out_group;
    i32 rows, channels, x_channel, weight_row, weight_channel, out_row;

    GRADCORE_FUNCTION i32 windows() const { return dims[0].outputs * dims[1].outputs * dims[2].outputs; }
    GRADCORE_FUNCTION i32 taps() const { return dims[0].taps * dims[1].taps * dims[2].taps; }
};

// Of a window the distance of its first element from the image's, which may be outside, and the bits of the taps that are
// outside of the image in their dim. Of a tap its distance from a window's first element, and its bit in each dim.
struct alignas(8) Place {
    Bits bits;
    i32 offset;
};

// Split a number into indices of three dims, of which the last two have sizes `n1` and `n2`.
GRADCORE_FUNCTION void split_index(i32 (&i)[3], i32 number, i32 n1, i32 n2) {
    i[2] = number % n2;
    number /= n2;
    i[1] = number % n1;
    i[0] = number / n1;
}

// Return the place of a window, and write its element of `out`.
GRADCORE_FUNCTION Place place_of_window(const Convolved& of, i32 window, i32& out_offset) {
    i32 index[3], offset = 0;
    split_index(index, window, of.dims[1].outputs, of.dims[2].outputs);
    out_offset = 0;
    Bits bits = no_tap, bit = 1;
    GRADCORE_UNROLL
    for (int d = 0; d < 3; ++d) {
        const Dim& dim = of.dims[d];
        i32 i = index[d] * dim.stride - dim.padding;
        offset += i * dim.x_step;
        out_offset += index[d] * dim.out_step;
        GRADCORE_ROLLED
        for (i32 tap = 0; tap < dim.taps; ++tap, i += dim.dilation, bit <<= 1)
            if (static_cast<u32>(i) >= static_cast<u32>(dim.size)) bits |= bit;
    }
    return {bits, offset};
}

// Return the place of a channel and tap, and write its element of the weight.
GRADCORE_FUNCTION Place place_of_tap(const Convolved& of, i32 number, i32& weight_offset) {
    const i32 taps = of.taps(), channel = number / taps;
    weight_offset = channel * of.weight_channel;
    if (channel >= of.channels) return {no_tap, 0};
    i32 index[3], offset = channel * of.x_channel, first_bit = 0;
    split_index(index, number % taps, of.dims[1].taps, of.dims[2].taps);
    Bits bits = 0;
    GRADCORE_UNROLL
    for (int d = 0; d < 3; ++d) {
        offset += index[d] * of.dims[d].dilation * of.dims[d].x_step;
        weight_offset += index[d] * of.dims[d].weight_step;
        bits |= Bits(1) << (first_bit + index[d]);
        first_bit += of.dims[d].taps;
    }
    return {bits, offset};
}

// Return the pointer. The compiler does not know then how it was computed, and does not compute it again for each element.
GRADCORE_FUNCTION const T* hide_origin(const T* pointer) {
#ifdef __CUDA_ARCH__
    size_t address = __cvta_generic_to_global(pointer);
    asm("" : "+l"(address));
    return static_cast<const T*>(__cvta_global_to_generic(address));
#else
    return pointer;
#endif
}

// Return `source[i * step]`, or zero without `exists`.
GRADCORE_FUNCTION T load_if(bool exists, const T* source, i32 i, i32 step) {
    T value{};
    if (exists) value = source[i * step];
    return value;
}

// Return the element of an image that a tap of a window reads: zero if it is one of those outside of the image.
GRADCORE_FUNCTION T element(const T* window, Bits outside, const Place& tap) {
    return load_if(!(outside & tap.bits), window, tap.offset, 1);
}

// Compute the convolution of images, plus a bias unless it is null. A block computes ROWS channels of COLUMNS windows, which
// may belong to several images. The inner index is a channel and a tap. The next tiles are read into registers while the
// present ones are multiplied.
extern "C" __global__ void __launch_bounds__(THREADS) convolve_images(const T* x, const T* weight, const T* bias, T* out,
                                                                      const Convolved of) {
    alignas(16) __shared__ T weights[ROWS * STRIDE], windows[DEPTH * WINDOW_STRIDE];
    __shared__ Place taps[DEPTH];
    __shared__ i32 weight_offsets[DEPTH];
    __shared__ i64 targets[COLUMNS];
    const Lane lane;
    const int warp = threadIdx.x / 32, of_warp = warp * 16, depth_of_lane = threadIdx.x % 32;
    const i64 row_tiles = (of.rows + ROWS - 1) / ROWS;
    const i64 columns = of.images * of.windows(), column_tiles = (columns + COLUMNS - 1) / COLUMNS;
    const i64 tile = blockIdx.x / row_tiles, group = tile / column_tiles;
    const i32 first_row = static_cast<i32>(blockIdx.x % row_tiles) * ROWS, first_row_of_warp = first_row + warp;
    const i32 inner = of.channels * of.taps();
    const i64 column = tile % column_tiles * COLUMNS + threadIdx.x % COLUMNS;
    const i64 image = column < columns ? column / of.windows() : 0;
    i32 out_offset;
    Place window = place_of_window(of, static_cast<i32>(column % of.windows()), out_offset);
    if (column >= columns) window.bits = ~Bits(0);
    if (threadIdx.x < COLUMNS) targets[threadIdx.x] = column < columns ? image * of.out_image + out_offset : -1;
    x = hide_origin(x + image * of.x_image + group * of.x_group + window.offset);
    weight += group * of.weight_group + static_cast<i64>(first_row_of_warp) * of.weight_row;

    T next_weights[OF_ROWS], next_windows[OF_COLUMNS];
    const auto find_taps = [&](i32 start) {
        if (threadIdx.x < DEPTH) taps[threadIdx.x] = place_of_tap(of, start + threadIdx.x, weight_offsets[threadIdx.x]);
    };
    const auto read_tiles = [&](i32 start) {
        const T* row = hide_origin(weight + weight_offsets[depth_of_lane]);
        const i32 count = start + depth_of_lane < inner ? of.rows - first_row_of_warp : 0;
        GRADCORE_UNROLL
        for (int n = 0; n < ROWS; n += WARPS) next_weights[n / WARPS] = load_if(n < count, row, n, of.weight_row);
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n)
            next_windows[n] = element(x, window.bits, taps[threadIdx.x / COLUMNS + n * (THREADS / COLUMNS)]);
    };
    const auto store_tiles = [&] {
        GRADCORE_UNROLL
        for (int n = 0; n < OF_ROWS; ++n) weights[(warp + n * WARPS) * STRIDE + depth_of_lane] = next_weights[n];
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n) {
            const int depth = threadIdx.x / COLUMNS + n * (THREADS / COLUMNS);
            windows[depth * WINDOW_STRIDE + threadIdx.x % COLUMNS] = next_windows[n];
        }
    };

    A sums[COLUMNS / 8][4] = {};
    find_taps(0);
    __syncthreads();
    read_tiles(0);
    __syncthreads();  // all threads have read the taps
    GRADCORE_ROLLED
    for (i32 start = 0; start < inner; start += DEPTH) {
        store_tiles();
        find_taps(start + DEPTH);
        __syncthreads();
        if (start + DEPTH < inner) read_tiles(start + DEPTH);
        add_rows_by_columns<DEPTH>(sums, weights + of_warp * STRIDE, STRIDE, windows, WINDOW_STRIDE);
        __syncthreads();  // all threads have read the tiles and the taps
    }

    GRADCORE_UNROLL
    for (int i = 0; i < 4; ++i) {
        const i32 row = first_row + of_warp + lane.row + i / 2 * 8;
        if (row >= of.rows) continue;
        const A added = bias ? load(bias[group * of.rows + row]) : A(0);
        T* target = out + group * of.out_group + static_cast<i64>(row) * of.out_row;
        GRADCORE_UNROLL
        for (int n = 0; n < COLUMNS / 8; ++n) {
            const i64 offset = targets[8 * n + lane.column + i % 2];
            if (offset >= 0) target[offset] = store<T>(sums[n][i] + added);
        }
    }
}

// Compute the gradient of a convolution with respect to its weight. A block computes ROWS rows of COLUMNS channels and taps,
// of some of the windows of all images: their number is the inner index. Blocks write their sums to `parts`, unless each
// has all windows.
extern "C" __global__ void __launch_bounds__(THREADS) convolve_gradients(const T* x, const T* grad, T* out, A* parts,
                                                                         const i64 splits, const Convolved of) {
    alignas(16) __shared__ T gradients[ROWS * STRIDE], windows[COLUMNS * STRIDE];
    __shared__ Place taps[COLUMNS];
    const Lane lane;
    const int warp = threadIdx.x / 32, of_warp = warp * 16, depth_of_lane = threadIdx.x % 32;
    const i32 columns = of.channels * of.taps(), count = of.windows();
    const i64 row_tiles = (of.rows + ROWS - 1) / ROWS, column_tiles = (columns + COLUMNS - 1) / COLUMNS;
    const i64 tile = blockIdx.x / row_tiles, groups_and_splits = tile / column_tiles;
    const i32 first_row = static_cast<i32>(blockIdx.x % row_tiles) * ROWS, first_row_of_warp = first_row + warp;
    const i32 first_column = static_cast<i32>(tile % column_tiles) * COLUMNS;
    const i64 group = groups_and_splits / splits, split = groups_and_splits % splits;
    const i64 steps = (of.images * count + DEPTH - 1) / DEPTH, end = (split + 1) * steps / splits;
    const i64 groups = gridDim.x / (row_tiles * column_tiles * splits);
    i64 step = split * steps / splits;
    i64 image = (step * DEPTH + depth_of_lane) / count;
    i32 window = static_cast<i32>((step * DEPTH + depth_of_lane) % count);
    if (threadIdx.x < COLUMNS) {
        i32 weight_offset;
        taps[threadIdx.x] = place_of_tap(of, first_column + threadIdx.x, weight_offset);
    }
    x += group * of.x_group;
    grad += group * of.out_group + static_cast<i64>(first_row_of_warp) * of.out_row;

    T next_gradients[OF_ROWS], next_windows[OF_COLUMNS];
    const auto read_tiles = [&] {
        i32 offset;
        Place place = place_of_window(of, window, offset);
        const bool has_window = image < of.images;
        if (!has_window) place.bits = ~Bits(0);
        const T* of_window = hide_origin(x + image * of.x_image + place.offset);
        const T* row = hide_origin(grad + image * of.out_image + offset);
        const i32 rows = has_window ? of.rows - first_row_of_warp : 0;
        GRADCORE_UNROLL
        for (int n = 0; n < ROWS; n += WARPS) next_gradients[n / WARPS] = load_if(n < rows, row, n, of.out_row);
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n)
            next_windows[n] = element(of_window, place.bits, taps[warp + n * WARPS]);
        window += DEPTH;
        image += window / count;
        window %= count;
    };
    const auto store_tiles = [&] {
        GRADCORE_UNROLL
        for (int n = 0; n < OF_ROWS; ++n) gradients[(warp + n * WARPS) * STRIDE + depth_of_lane] = next_gradients[n];
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n) windows[(warp + n * WARPS) * STRIDE + depth_of_lane] = next_windows[n];
    };

    A sums[COLUMNS / 8][4] = {};
    __syncthreads();
    read_tiles();
    GRADCORE_ROLLED
    for (; step < end; ++step) {
        store_tiles();
        __syncthreads();
        if (step + 1 < end) read_tiles();
        add_rows_by_rows<DEPTH>(sums, gradients + of_warp * STRIDE, windows);
        __syncthreads();  // all threads have read the tiles
    }

    GRADCORE_UNROLL
    for (int n = 0; n < COLUMNS / 8; ++n)
        GRADCORE_UNROLL
        for (int i = 0; i < 4; ++i) {
            const i32 row = first_row + of_warp + lane.row + i / 2 * 8, column = first_column + 8 * n + lane.column + i % 2;
            if (row >= of.rows || column >= columns) continue;
            const i64 index = (group * of.rows + row) * columns + column;
            if (splits > 1)
                parts[split * groups * of.rows * columns + index] = sums[n][i];
            else
                out[index] = store<T>(sums[n][i]);
        }
}

// Add the sums of the blocks that share a gradient, in the order of the windows.
extern "C" __global__ void add_parts(const A* parts, T* out, const i64 total, const i64 splits) {
    for (i64 i = first_index(); i < total; i += index_step()) {
        A sum = 0;
        for (i64 split = 0; split < splits; ++split) sum += parts[split * total + i];
        out[i] = store<T>(sum);
    }
}
