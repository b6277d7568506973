// Normalization of rows (layers, groups of channels) and of channels (batches) of dense arrays; statistics in two
// passes.
//
// GRADCORE_TYPE is the type of the arrays. The statistics of rows and channels of halves are float. Rows have a weight
// and a bias for each of `width / points` channels, beginning with the channel `row % groups * (width / points)`. For
// layer norm, groups = points = 1. For group norm, an image has `groups` rows, and each channel has `points` elements.

#include "rows.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

GRADCORE_FUNCTION A inverse_root(A x) { return 1 / sqrt(x); }

constexpr int lanes = HeldRow<T>::lanes;

// The channels of a row: each element has its own (points = 1), or `points` neighbours have one.
struct Channels {
    i64 first, points;
    bool short_row;  // whether positions in the row fit into 32 bits

    GRADCORE_FUNCTION Channels(i64 row, i64 width, i64 groups, i64 points)
        : first(groups == 1 ? 0 : row % groups * (width / points)), points(points), short_row(width <= 0x7FFFFFFF) {}

    // Whether a group of neighbours is read at once: those of a channel, or as many as a load has.
    GRADCORE_FUNCTION bool packs(const T* weight, const T* bias) const {
        return points == 1 ? aligned(weight, bias) : points % lanes == 0;
    }
    // Read the numbers of the channels of the neighbours from the i-th on, or `missing` for a null pointer.
    GRADCORE_FUNCTION void read(const T* from, Place place, i64 i, A missing, A (&to)[lanes]) const {
        if (from && points == 1 && place.count == lanes) {
            const Pack<T, lanes> some = pack<lanes>(from + first + i);
            GRADCORE_UNROLL
            for (int j = 0; j < lanes; ++j) to[j] = load(some.items[j]);
            return;
        }
        A value = missing;
        if (from) {
            const i64 channel = points == 1 ? i
                                : short_row ? static_cast<i64>(static_cast<u32>(i) / static_cast<u32>(points))
                                            : i / points;
            value = load(from[first + channel]);
        }
        GRADCORE_UNROLL
        for (int j = 0; j < lanes; ++j) to[j] = value;
    }
};

// --------------------------------------------------------------------------------------------------------- rows

extern "C" __global__ void normalize_rows(const T* x, const T* weight, const T* bias, T* y, A* means, A* variances,
                                          const i64 rows, const i64 width, const i64 groups, const i64 points,
                                          const double eps) {
    const i64 number = row_index();
    if (number >= rows) return;
    const Channels channels(number, width, groups, points);
    x += number * width;
    y += number * width;
    const bool packed = width % lanes == 0 && aligned(x, y) && channels.packs(weight, bias);
    const HeldRow<T> row(x, width, packed);
    A mean = 0, variance = 0;
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        const auto some = row.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) mean += load(some.items[j]);
    });
    mean = row_sum(mean) / width;
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        const auto some = row.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A c = load(some.items[j]) - mean;
            variance += c * c;
        }
    });
    variance = row_sum(variance) / width;
    const A scale = inverse_root(variance + static_cast<A>(eps));
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        auto some = row.at(place, i);
        A factors[lanes], summands[lanes];
        channels.read(weight, place, i, A(1), factors);
        channels.read(bias, place, i, A(0), summands);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            A value = (load(some.items[j]) - mean) * scale;
            if (weight) value *= factors[j];
            if (bias) value += summands[j];
            some.items[j] = store<T>(value);
        }
        put(y, place, i, some);
    });
    if (threadIdx.x == 0) {
        means[number] = mean;
        variances[number] = variance;
    }
}

// Compute the gradient of x. The gradients of means and variances may be missing (null).
extern "C" __global__ void normalize_rows_backward(const T* grad, const T* grad_means, const T* grad_variances,
                                                   const T* x, const T* weight, const A* means, const A* variances,
                                                   T* out, const i64 rows, const i64 width, const i64 groups,
                                                   const i64 points, const double eps) {
    const i64 number = row_index();
    if (number >= rows) return;
    const Channels channels(number, width, groups, points);
    grad += number * width;
    x += number * width;
    out += number * width;
    const bool packed = width % lanes == 0 && aligned(grad, x, out) && channels.packs(weight, nullptr);
    const HeldRow<T> grads(grad, width, packed), row(x, width, packed);
    const A mean = means[number], r = inverse_root(variances[number] + static_cast<A>(eps));
    A total = 0, product = 0;
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        const auto some = grads.at(place, i), values = row.at(place, i);
        A factors[lanes];
        channels.read(weight, place, i, A(1), factors);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A g = load(some.items[j]) * factors[j];
            total += g;
            product += g * (load(values.items[j]) - mean);
        }
    });
    total = row_sum(total);
    product = row_sum(product);
    A of_variance = product * r * r * (r / -2), of_mean = -total * r;
    if (grad_variances) of_variance += load(grad_variances[number]);
    if (grad_means) of_mean += load(grad_means[number]);
    const A slope = of_variance * 2 / width, shift = of_mean / width;
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        auto some = grads.at(place, i);
        const auto values = row.at(place, i);
        A factors[lanes];
        channels.read(weight, place, i, A(1), factors);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A g = load(some.items[j]) * factors[j];
            some.items[j] = store<T>(g * r + ((load(values.items[j]) - mean) * slope + shift));
        }
        put(out, place, i, some);
    });
}

// The gradients by the weight and the bias of a layer: sums down the columns of blocks of rows, with one thread for
// each column. A second launch adds the sums of the blocks, which are the rows of `partial_*`, so that the order is
// always the same.
extern "C" __global__ void layer_parameters(const T* grad, const T* x, const A* means, const A* variances, A* of_weight,
                                            A* of_bias, const i64 rows, const i64 width, const i64 rows_of_block,
                                            const double eps) {
    const i64 column = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const i64 first = blockIdx.y * rows_of_block;
    const i64 end = first + rows_of_block < rows ? first + rows_of_block : rows;
    A weight = 0, bias = 0;
    for (i64 row = first; row < end; ++row) {
        const A g = load(grad[row * width + column]);
        weight += g * (load(x[row * width + column]) - means[row]) * inverse_root(variances[row] + static_cast<A>(eps));
        bias += g;
    }
    of_weight[blockIdx.y * width + column] = weight;
    of_bias[blockIdx.y * width + column] = bias;
}

// ------------------------------------------------------------------------------------------- root mean squares

// Rows times `scales`, one over the root of the mean square, and the weights.
extern "C" __global__ void scale_rows(const T* x, const T* weight, T* y, A* scales, const i64 rows, const i64 width,
                                      const double eps) {
    const i64 number = row_index();
    if (number >= rows) return;
    const Channels channels(number, width, 1, 1);
    x += number * width;
    y += number * width;
    const bool packed = width % lanes == 0 && aligned(x, y) && channels.packs(weight, nullptr);
    const HeldRow<T> row(x, width, packed);
    A square = 0;
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        const auto some = row.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) square += load(some.items[j]) * load(some.items[j]);
    });
    const A scale = inverse_root(row_sum(square) / width + static_cast<A>(eps));
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        auto some = row.at(place, i);
        A factors[lanes];
        channels.read(weight, place, i, A(1), factors);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j)
            some.items[j] = store<T>(load(some.items[j]) * scale * factors[j]);
        put(y, place, i, some);
    });
    if (threadIdx.x == 0) scales[number] = scale;
}

// Compute the gradient of x. The gradient of the scales may be missing (null).
extern "C" __global__ void scale_rows_backward(const T* grad, const T* grad_scales, const T* x, const T* weight,
                                               const A* scales, T* out, const i64 rows, const i64 width) {
    const i64 number = row_index();
    if (number >= rows) return;
    const Channels channels(number, width, 1, 1);
    grad += number * width;
    x += number * width;
    out += number * width;
    const bool packed = width % lanes == 0 && aligned(grad, x, out) && channels.packs(weight, nullptr);
    const HeldRow<T> grads(grad, width, packed), row(x, width, packed);
    const A r = scales[number];
    A product = 0;
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        const auto some = grads.at(place, i), values = row.at(place, i);
        A factors[lanes];
        channels.read(weight, place, i, A(1), factors);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j)
            product += load(some.items[j]) * factors[j] * load(values.items[j]);
    });
    product = row_sum(product);
    if (grad_scales) product += load(grad_scales[number]);
    const A slope = product * r * r * r / -static_cast<A>(width);
    walk<lanes>(width, packed, [&](Place place, i64 i) {
        auto some = grads.at(place, i);
        const auto values = row.at(place, i);
        A factors[lanes];
        channels.read(weight, place, i, A(1), factors);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j)
            some.items[j] = store<T>(load(some.items[j]) * factors[j] * r + load(values.items[j]) * slope);
        put(out, place, i, some);
    });
}

// The gradient by the weight, in blocks of rows as in layer_parameters.
extern "C" __global__ void scale_parameters(const T* grad, const T* x, const A* scales, A* of_weight, const i64 rows,
                                            const i64 width, const i64 rows_of_block) {
    const i64 column = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const i64 first = blockIdx.y * rows_of_block;
    const i64 end = first + rows_of_block < rows ? first + rows_of_block : rows;
    A weight = 0;
    for (i64 row = first; row < end; ++row)
        weight += load(grad[row * width + column]) * load(x[row * width + column]) * scales[row];
    of_weight[blockIdx.y * width + column] = weight;
}

// ----------------------------------------------------------------------------------------------------- channels
//
// Images have the shape (batch, channels, points). A block computes a part of a channel, of up to `chunk` elements. A
// second launch combines the results of the gridDim.y parts, so that the order is always the same.

// Iterator over the elements of a channel for one thread, which needs a single division.
struct Walk {
    i64 left, at, point;
    const i64 channels, points;

    GRADCORE_FUNCTION Walk(i64 count, i64 channels, i64 points, i64 chunk) : channels(channels), points(points) {
        const i64 first = blockIdx.y * chunk + threadIdx.x;
        left = (count - blockIdx.y * chunk < chunk ? count - blockIdx.y * chunk : chunk) - threadIdx.x;
        point = first % points;
        at = (first / points * channels + blockIdx.x) * points + point;
    }
    // Call `call` with the place of each element.
    template <class F>
    GRADCORE_FUNCTION void over(F&& call) const {
        const i64 images = blockDim.x / points, rest = blockDim.x % points;
        i64 place = at, p = point;
        for (i64 n = left; n > 0; n -= blockDim.x) {
            call(place);
            place += images * channels * points + rest;
            p += rest;
            if (p >= points) {
                p -= points;
                place += (channels - 1) * points;
            }
        }
    }
};

// Compute the factor of a channel, and the number that is added to the product.
GRADCORE_FUNCTION void scale_channel(const T* weight, const T* bias, A* scales, A* shifts, i64 channel, A mean, A variance,
                                     double eps) {
    A scale = inverse_root(variance + static_cast<A>(eps));
    if (weight) scale *= load(weight[channel]);
    scales[channel] = scale;
    shifts[channel] = bias ? load(bias[channel]) - mean * scale : -mean * scale;
}

// The mean of each part, and the sum of the squares of the distances from it.
extern "C" __global__ void channel_moments(const T* x, A* means, A* squares, const i64 batch, const i64 channels,
                                           const i64 points, const i64 chunk) {
    const i64 count = batch * points, part = blockIdx.x * static_cast<i64>(gridDim.y) + blockIdx.y;
    const i64 rest = count - blockIdx.y * chunk;
    const Walk walk(count, channels, points, chunk);
    A mean = 0, square = 0;
    walk.over([&](i64 at) { mean += load(x[at]); });
    mean = row_sum(mean) / static_cast<A>(rest < chunk ? rest : chunk);
    walk.over([&](i64 at) {
        const A c = load(x[at]) - mean;
        square += c * c;
    });
    square = row_sum(square);
    if (threadIdx.x == 0) {
        means[part] = mean;
        squares[part] = square;
    }
}

// The mean of a channel, and the sum of the squared distances from it, computed from those of its parts. A warp handles
// a channel.
struct Moments {
    A mean = 0, square = 0;

    GRADCORE_FUNCTION Moments(const A* means, const A* squares, i64 parts, i64 count, i64 chunk) {
        for (i64 i = threadIdx.x; i < parts; i += blockDim.x)
            mean += means[i] * (static_cast<A>(i < parts - 1 ? chunk : count - i * chunk) / static_cast<A>(count));
        mean = row_sum(mean);
        for (i64 i = threadIdx.x; i < parts; i += blockDim.x) {
            const A away = means[i] - mean;
            square += squares[i] + away * away * static_cast<A>(i < parts - 1 ? chunk : count - i * chunk);
        }
        square = row_sum(square);
    }
};

extern "C" __global__ void channel_statistics(const A* part_means, const A* part_squares, const T* weight, const T* bias,
                                              A* means, A* variances, A* scales, A* shifts, const i64 channels,
                                              const i64 parts, const i64 count, const i64 chunk, const double eps) {
    const i64 channel = row_index();
    if (channel >= channels) return;
    const Moments moments(part_means + channel * parts, part_squares + channel * parts, parts, count, chunk);
    if (threadIdx.x) return;
    const A variance = moments.square / static_cast<A>(count);
    means[channel] = moments.mean;
    variances[channel] = variance;
    scale_channel(weight, bias, scales, shifts, channel, moments.mean, variance, eps);
}

// Variances of channels with a given number of degrees of freedom, or the roots of these variances.
extern "C" __global__ void channel_variances(const A* part_means, const A* part_squares, T* means, T* variances,
                                             const i64 channels, const i64 parts, const i64 count, const i64 chunk,
                                             const double degrees, const bool root) {
    const i64 channel = row_index();
    if (channel >= channels) return;
    const Moments moments(part_means + channel * parts, part_squares + channel * parts, parts, count, chunk);
    if (threadIdx.x) return;
    const A variance = moments.square / static_cast<A>(degrees);
    means[channel] = store<T>(moments.mean);
    variances[channel] = store<T>(root ? sqrt(variance) : variance);
}

extern "C" __global__ void channel_scales(const A* means, const A* variances, const T* weight, const T* bias, A* scales,
                                          A* shifts, const i64 channels, const double eps) {
    for (i64 i = first_index(); i < channels; i += index_step())
        scale_channel(weight, bias, scales, shifts, i, means[i], variances[i], eps);
}

// Running statistics times `keep`, plus new ones times `share`. New variances are multiplied by a correction for the
// size of the sample.
extern "C" __global__ void move_statistics(T* running_means, T* running_variances, const A* means, const A* variances,
                                           const i64 channels, const double keep, const double share,
                                           const double share_of_variances) {
    for (i64 i = first_index(); i < channels; i += index_step()) {
        const A mean = load(running_means[i]) * static_cast<A>(keep), variance = load(running_variances[i]) * static_cast<A>(keep);
        running_means[i] = store<T>(mean + means[i] * static_cast<A>(share));
        running_variances[i] = store<T>(variance + variances[i] * static_cast<A>(share_of_variances));
    }
}

// For each part, the sum of the gradients, and the sum of their products with x minus its mean. With groups, the
// products are multiplied by a factor of the group and image. Means belong to channels (groups = 0) or to the groups of
// an image.
extern "C" __global__ void channel_products(const T* grad, const T* x, const A* means, const A* variances, A* totals,
                                            A* products, const i64 batch, const i64 channels, const i64 points,
                                            const i64 chunk, const i64 groups, const double eps) {
    const i64 channel = blockIdx.x, part = channel * gridDim.y + blockIdx.y;
    A total = 0, product = 0;
    const A mean = groups ? A(0) : means[channel];
    Walk(batch * points, channels, points, chunk).over([&](i64 at) {
        const A g = load(grad[at]);
        total += g;
        if (!groups) {
            product += g * (load(x[at]) - mean);
            return;
        }
        const i64 statistic = at / points / channels * groups + channel / (channels / groups);
        product += g * (load(x[at]) - means[statistic]) * inverse_root(variances[statistic] + static_cast<A>(eps));
    });
    total = row_sum(total);
    product = row_sum(product);
    if (threadIdx.x == 0) {
        totals[part] = total;
        products[part] = product;
    }
}

// Compute, from the sums of parts, the gradients by weight and bias, and the terms of the gradient by x: the factor of
// the upstream gradient (scales), the factor of x minus its mean (slopes), and the constant (shifts). Gradients of
// means and variances may be null.
extern "C" __global__ void channel_gradients(const A* part_totals, const A* part_products, const T* grad_means,
                                             const T* grad_variances, const T* weight, const A* variances, T* of_weight,
                                             T* of_bias, A* scales, A* slopes, A* shifts, const i64 channels,
                                             const i64 parts, const i64 count, const double eps) {
    const i64 channel = row_index();
    if (channel >= channels) return;
    A total = 0, product = 0;
    for (i64 i = threadIdx.x; i < parts; i += blockDim.x) {
        total += part_totals[channel * parts + i];
        product += part_products[channel * parts + i];
    }
    total = row_sum(total);
    product = row_sum(product);
    if (threadIdx.x) return;
    const A r = inverse_root(variances[channel] + static_cast<A>(eps));
    const A scale = weight ? r * load(weight[channel]) : r;
    A slope = product * r * scale * (r / -2), shift = -total * scale;
    if (grad_variances) slope += load(grad_variances[channel]);
    if (grad_means) shift += load(grad_means[channel]);
    of_weight[channel] = store<T>(product * r);
    of_bias[channel] = store<T>(total);
    scales[channel] = scale;
    slopes[channel] = slope * 2 / static_cast<A>(count);
    shifts[channel] = shift / static_cast<A>(count);
}
