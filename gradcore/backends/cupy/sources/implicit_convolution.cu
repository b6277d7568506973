// Convolution on tensor cores without columns in memory: products whose right operand is gathered from images, a tile
// at a time. The forward pass and the gradient with respect to the input are one kernel, the gradient with respect to the
// weight is another.
//
// GRADCORE_TYPE is the type of the arrays, and GRADCORE_ROWS the number of rows of a block; see tiles.cuh. Operands have
// any strides. Indices within an image and within the weight have 32 bits. There are no atomic additions, so sums always
// have one order.

#include "tiles.cuh"

using namespace gradcore;

constexpr int ROWS = GRADCORE_ROWS, THREADS = 2 * ROWS, COLUMNS = 64;
// The part of the inner index of a product that is in shared memory at a time, and the distance of the rows of a tile.
constexpr int DEPTH = 32, STRIDE = DEPTH + padding;
// The distance of the rows of a tile whose columns are windows. Lanes read from different banks for both sizes of T.
constexpr int WINDOW_STRIDE = COLUMNS + 8;
// The numbers of each operand's tile that a thread copies.
constexpr int OF_ROWS = ROWS * DEPTH / THREADS, OF_COLUMNS = COLUMNS * DEPTH / THREADS;
// A coordinate outside of all images, also after another coordinate is added.
constexpr i32 outside = -(1 << 30);

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

// Coordinates in an image, or their differences, and the distance in elements that belongs to them.
struct alignas(16) Place {
    i32 offset, i0, i1, i2;
};

// Split a number into indices of three dims, of which the last two have sizes `n1` and `n2`.
GRADCORE_FUNCTION void split_index(i32 (&i)[3], i32 number, i32 n1, i32 n2) {
    i[2] = number % n2;
    number /= n2;
    i[1] = number % n1;
    i[0] = number / n1;
}

// Return the first coordinates of a window in an image, which may be outside, and write its element of `out`.
GRADCORE_FUNCTION Place place_of_window(const Convolved& of, i32 window, i32& out_offset) {
    i32 index[3], i[3], offset = 0;
    split_index(index, window, of.dims[1].outputs, of.dims[2].outputs);
    out_offset = 0;
    GRADCORE_UNROLL
    for (int d = 0; d < 3; ++d) {
        i[d] = index[d] * of.dims[d].stride - of.dims[d].padding;
        offset += i[d] * of.dims[d].x_step;
        out_offset += index[d] * of.dims[d].out_step;
    }
    return {offset, i[0], i[1], i[2]};
}

// Return the distance from a window's first element to that of a channel and tap, and write its element of the weight.
GRADCORE_FUNCTION Place place_of_tap(const Convolved& of, i32 number, i32& weight_offset) {
    const i32 taps = of.taps(), channel = number / taps;
    weight_offset = channel * of.weight_channel;
    if (channel >= of.channels) return {0, outside, outside, outside};
    i32 index[3], i[3], offset = channel * of.x_channel;
    split_index(index, number % taps, of.dims[1].taps, of.dims[2].taps);
    GRADCORE_UNROLL
    for (int d = 0; d < 3; ++d) {
        i[d] = index[d] * of.dims[d].dilation;
        offset += i[d] * of.dims[d].x_step;
        weight_offset += index[d] * of.dims[d].weight_step;
    }
    return {offset, i[0], i[1], i[2]};
}

// Return `source[offset]`, or zero without `exists`. The load is not in a branch, so that loads of a tile are under way
// together: instead of an element that does not exist, it reads the first one of the source.
GRADCORE_FUNCTION T load_if(bool exists, const T* source, i32 offset) {
    const T value = source[exists ? offset : 0];
    return exists ? value : T{};
}

// Return the element of an image that a tap of a window reads: zero outside of the image.
GRADCORE_FUNCTION T element(const Convolved& of, const T* image, const Place& window, const Place& tap) {
    const bool is_inside = (static_cast<u32>(window.i0 + tap.i0) < static_cast<u32>(of.dims[0].size)) &
                           (static_cast<u32>(window.i1 + tap.i1) < static_cast<u32>(of.dims[1].size)) &
                           (static_cast<u32>(window.i2 + tap.i2) < static_cast<u32>(of.dims[2].size));
    return load_if(is_inside, image, window.offset + tap.offset);
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
    const int of_warp = threadIdx.x / 32 * 16, depth_of_lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i64 row_tiles = (of.rows + ROWS - 1) / ROWS;
    const i64 columns = of.images * of.windows(), column_tiles = (columns + COLUMNS - 1) / COLUMNS;
    const i64 tile = blockIdx.x / row_tiles, group = tile / column_tiles;
    const i32 first_row = static_cast<i32>(blockIdx.x % row_tiles) * ROWS, inner = of.channels * of.taps();
    const i64 column = tile % column_tiles * COLUMNS + threadIdx.x % COLUMNS;
    const i64 image = column < columns ? column / of.windows() : 0;
    i32 out_offset;
    Place window = place_of_window(of, static_cast<i32>(column % of.windows()), out_offset);
    if (column >= columns) window.i0 = outside;
    if (threadIdx.x < COLUMNS) targets[threadIdx.x] = column < columns ? image * of.out_image + out_offset : -1;
    x += image * of.x_image + group * of.x_group;
    weight += group * of.weight_group;

    T next_weights[OF_ROWS], next_windows[OF_COLUMNS];
    const auto find_taps = [&](i32 start) {
        if (threadIdx.x < DEPTH) taps[threadIdx.x] = place_of_tap(of, start + threadIdx.x, weight_offsets[threadIdx.x]);
    };
    const auto read_tiles = [&](i32 start) {
        const i32 offset = weight_offsets[depth_of_lane];
        const bool has_weight = start + depth_of_lane < inner;
        GRADCORE_UNROLL
        for (int n = 0; n < OF_ROWS; ++n) {
            const i32 row = first_row + warp + n * (THREADS / 32);
            next_weights[n] = load_if(has_weight & (row < of.rows), weight, offset + row * of.weight_row);
        }
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n)
            next_windows[n] = element(of, x, window, taps[threadIdx.x / COLUMNS + n * (THREADS / COLUMNS)]);
    };
    const auto store_tiles = [&] {
        GRADCORE_UNROLL
        for (int n = 0; n < OF_ROWS; ++n) weights[(warp + n * (THREADS / 32)) * STRIDE + depth_of_lane] = next_weights[n];
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
    const int of_warp = threadIdx.x / 32 * 16, depth_of_lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i32 columns = of.channels * of.taps(), count = of.windows();
    const i64 row_tiles = (of.rows + ROWS - 1) / ROWS, column_tiles = (columns + COLUMNS - 1) / COLUMNS;
    const i64 tile = blockIdx.x / row_tiles, groups_and_splits = tile / column_tiles;
    const i32 first_row = static_cast<i32>(blockIdx.x % row_tiles) * ROWS;
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
    grad += group * of.out_group;

    T next_gradients[OF_ROWS], next_windows[OF_COLUMNS];
    const auto read_tiles = [&] {
        i32 offset;
        Place place = place_of_window(of, window, offset);
        const bool has_window = image < of.images;
        if (!has_window) place.i0 = outside;
        const T *of_image = x + (has_window ? image : 0) * of.x_image, *of_grad = grad + (has_window ? image : 0) * of.out_image;
        GRADCORE_UNROLL
        for (int n = 0; n < OF_ROWS; ++n) {
            const i32 row = first_row + warp + n * (THREADS / 32);
            next_gradients[n] = load_if(has_window & (row < of.rows), of_grad, offset + row * of.out_row);
        }
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n)
            next_windows[n] = element(of, of_image, place, taps[warp + n * (THREADS / 32)]);
        window += DEPTH;
        image += window / count;
        window %= count;
    };
    const auto store_tiles = [&] {
        GRADCORE_UNROLL
        for (int n = 0; n < OF_ROWS; ++n) gradients[(warp + n * (THREADS / 32)) * STRIDE + depth_of_lane] = next_gradients[n];
        GRADCORE_UNROLL
        for (int n = 0; n < OF_COLUMNS; ++n) windows[(warp + n * (THREADS / 32)) * STRIDE + depth_of_lane] = next_windows[n];
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
