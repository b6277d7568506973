// Normalization of rows (layers, groups of channels) and of channels (batches) of dense arrays; statistics in two passes.
//
// GRADCORE_TYPE is the numbers' type; statistics of rows and channels are float where that is a half. Rows have a weight and a bias for each of `width / points` channels, beginning with
// the channel `row % groups * (width / points)`: for a layer groups = points = 1, for a group of channels there are groups
// of them in an image, and points of each channel.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

GRADCORE_FUNCTION A inverse_root(A x) { return 1 / sqrt(x); }

struct Rows {
    i64 rows, width, groups, points;

    GRADCORE_FUNCTION i64 channel(i64 row, i64 i) const { return row % groups * (width / points) + i / points; }
};

// --------------------------------------------------------------------------------------------------------- rows

extern "C" __global__ void normalize_rows(const T* x, const T* weight, const T* bias, T* y, A* means, A* variances,
                                          const i64 rows, const i64 width, const i64 groups, const i64 points,
                                          const double eps) {
    const i64 row = row_index();
    if (row >= rows) return;
    const Rows place{rows, width, groups, points};
    x += row * width;
    y += row * width;
    A mean = 0, variance = 0;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) mean += load(x[i]);
    mean = row_sum(mean) / width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        const A c = load(x[i]) - mean;
        variance += c * c;
    }
    variance = row_sum(variance) / width;
    const A scale = inverse_root(variance + static_cast<A>(eps));
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        const i64 channel = place.channel(row, i);
        A value = (load(x[i]) - mean) * scale;
        if (weight) value *= load(weight[channel]);
        if (bias) value += load(bias[channel]);
        y[i] = store<T>(value);
    }
    if (threadIdx.x == 0) {
        means[row] = mean;
        variances[row] = variance;
    }
}

// The gradient by x. Gradients by the means and variances may be missing (null).
extern "C" __global__ void normalize_rows_backward(const T* grad, const T* grad_means, const T* grad_variances,
                                                   const T* x, const T* weight, const A* means, const A* variances,
                                                   T* out, const i64 rows, const i64 width, const i64 groups,
                                                   const i64 points, const double eps) {
    const i64 row = row_index();
    if (row >= rows) return;
    const Rows place{rows, width, groups, points};
    grad += row * width;
    x += row * width;
    out += row * width;
    const A mean = means[row], r = inverse_root(variances[row] + static_cast<A>(eps));
    A total = 0, product = 0;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        const A g = load(grad[i]) * (weight ? load(weight[place.channel(row, i)]) : A(1));
        total += g;
        product += g * (load(x[i]) - mean);
    }
    total = row_sum(total);
    product = row_sum(product);
    A of_variance = product * (r * r * r / -2), of_mean = -total * r;
    if (grad_variances) of_variance += load(grad_variances[row]);
    if (grad_means) of_mean += load(grad_means[row]);
    const A slope = of_variance * 2 / width, shift = of_mean / width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        const A g = load(grad[i]) * (weight ? load(weight[place.channel(row, i)]) : A(1));
        out[i] = store<T>(g * r + ((load(x[i]) - mean) * slope + shift));
    }
}

// The gradients by the weight and the bias of a layer: sums down the columns of blocks of rows, one thread for a column;
// the sums of the blocks, `partial_*` with a row each, are added up in a second launch, so that the order is always the same.
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
    const i64 row = row_index();
    if (row >= rows) return;
    x += row * width;
    y += row * width;
    A square = 0;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) square += load(x[i]) * load(x[i]);
    const A scale = inverse_root(row_sum(square) / width + static_cast<A>(eps));
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        const A value = load(x[i]) * scale;
        y[i] = store<T>(weight ? value * load(weight[i]) : value);
    }
    if (threadIdx.x == 0) scales[row] = scale;
}

// The gradient by x. The gradients by the scales may be missing (null).
extern "C" __global__ void scale_rows_backward(const T* grad, const T* grad_scales, const T* x, const T* weight,
                                               const A* scales, T* out, const i64 rows, const i64 width) {
    const i64 row = row_index();
    if (row >= rows) return;
    grad += row * width;
    x += row * width;
    out += row * width;
    const A r = scales[row];
    A product = 0;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x)
        product += load(grad[i]) * (weight ? load(weight[i]) : A(1)) * load(x[i]);
    product = row_sum(product);
    if (grad_scales) product += load(grad_scales[row]);
    const A slope = product * (r * r * r) / -static_cast<A>(width);
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        const A g = load(grad[i]) * (weight ? load(weight[i]) : A(1));
        out[i] = store<T>(g * r + load(x[i]) * slope);
    }
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
// Arrays of images: batch, channels, points. A block has a part of a channel, up to `chunk` elements; there are gridDim.y parts,
// whose results are combined in a second launch, so that the order is always the same.

// The elements of a channel that a thread goes over, by one division for all of them.
struct Walk {
    i64 left, at, point;
    const i64 channels, points;

    GRADCORE_FUNCTION Walk(i64 count, i64 channels, i64 points, i64 chunk) : channels(channels), points(points) {
        const i64 first = blockIdx.y * chunk + threadIdx.x;
        left = (count - blockIdx.y * chunk < chunk ? count - blockIdx.y * chunk : chunk) - threadIdx.x;
        point = first % points;
        at = (first / points * channels + blockIdx.x) * points + point;
    }
    // Call with the place of each element.
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

// What a channel is multiplied with, and what is added then.
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

// The mean of a channel, and the sum of the squares of the distances from it, by those of its parts; a warp has a channel.
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

// Variances with so many degrees of freedom, or their roots.
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

// Running statistics times `keep`, plus new ones times `share`, that of variances times a factor for the sample's size.
extern "C" __global__ void move_statistics(T* running_means, T* running_variances, const A* means, const A* variances,
                                           const i64 channels, const double keep, const double share,
                                           const double share_of_variances) {
    for (i64 i = first_index(); i < channels; i += index_step()) {
        const A mean = load(running_means[i]) * static_cast<A>(keep), variance = load(running_variances[i]) * static_cast<A>(keep);
        running_means[i] = store<T>(mean + means[i] * static_cast<A>(share));
        running_variances[i] = store<T>(variance + variances[i] * static_cast<A>(share_of_variances));
    }
}

// For each part the sum of the gradients, and of their products with x less its mean, each times a factor for the group and
// image if there is one. Means are those of the channel (groups = 0), or of one of the groups of an image.
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

// The gradients by weight and bias from the sums of parts, and for the gradient by x the factors of the gradient (scales) and
// of x less its mean (slopes), and what is added. Gradients by means and variances may be missing (null).
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
    A slope = product * (scale * r * r / -2), shift = -total * scale;
    if (grad_variances) slope += load(grad_variances[channel]);
    if (grad_means) shift += load(grad_means[channel]);
    of_weight[channel] = store<T>(product * r);
    of_bias[channel] = store<T>(total);
    scales[channel] = scale;
    slopes[channel] = slope * 2 / static_cast<A>(count);
    shifts[channel] = shift / static_cast<A>(count);
}
