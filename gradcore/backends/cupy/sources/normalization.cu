// Normalization of rows (layers, groups of channels) and of channels (batches) of dense arrays; statistics in two passes.
//
// GRADCORE_TYPE is the numbers' type. Rows have a weight and a bias for each of `width / points` channels, beginning with
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

extern "C" __global__ void normalize_rows(const T* x, const T* weight, const T* bias, T* y, T* means, T* variances,
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
        means[row] = store<T>(mean);
        variances[row] = store<T>(variance);
    }
}

// The gradient by x. Gradients by the means and variances may be missing (null).
extern "C" __global__ void normalize_rows_backward(const T* grad, const T* grad_means, const T* grad_variances,
                                                   const T* x, const T* weight, const T* means, const T* variances,
                                                   T* out, const i64 rows, const i64 width, const i64 groups,
                                                   const i64 points, const double eps) {
    const i64 row = row_index();
    if (row >= rows) return;
    const Rows place{rows, width, groups, points};
    grad += row * width;
    x += row * width;
    out += row * width;
    const A mean = load(means[row]), r = inverse_root(load(variances[row]) + static_cast<A>(eps));
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
extern "C" __global__ void layer_parameters(const T* grad, const T* x, const T* means, const T* variances, A* of_weight,
                                            A* of_bias, const i64 rows, const i64 width, const i64 rows_of_block,
                                            const double eps) {
    const i64 column = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const i64 first = blockIdx.y * rows_of_block;
    const i64 end = first + rows_of_block < rows ? first + rows_of_block : rows;
    A weight = 0, bias = 0;
    for (i64 row = first; row < end; ++row) {
        const A g = load(grad[row * width + column]);
        weight += g * (load(x[row * width + column]) - load(means[row])) *
                  inverse_root(load(variances[row]) + static_cast<A>(eps));
        bias += g;
    }
    of_weight[blockIdx.y * width + column] = weight;
    of_bias[blockIdx.y * width + column] = bias;
}

// ------------------------------------------------------------------------------------------- root mean squares

// Rows times `scales`, one over the root of the mean square, and the weights.
extern "C" __global__ void scale_rows(const T* x, const T* weight, T* y, T* scales, const i64 rows, const i64 width,
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
    if (threadIdx.x == 0) scales[row] = store<T>(scale);
}

// The gradient by x. The gradients by the scales may be missing (null).
extern "C" __global__ void scale_rows_backward(const T* grad, const T* grad_scales, const T* x, const T* weight,
                                               const T* scales, T* out, const i64 rows, const i64 width) {
    const i64 row = row_index();
    if (row >= rows) return;
    grad += row * width;
    x += row * width;
    out += row * width;
    const A r = load(scales[row]);
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
extern "C" __global__ void scale_parameters(const T* grad, const T* x, const T* scales, A* of_weight, const i64 rows,
                                            const i64 width, const i64 rows_of_block) {
    const i64 column = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const i64 first = blockIdx.y * rows_of_block;
    const i64 end = first + rows_of_block < rows ? first + rows_of_block : rows;
    A weight = 0;
    for (i64 row = first; row < end; ++row)
        weight += load(grad[row * width + column]) * load(x[row * width + column]) * load(scales[row]);
    of_weight[blockIdx.y * width + column] = weight;
}

// ----------------------------------------------------------------------------------------------------- channels
//
// Arrays of images: batch, channels, points. A block has a channel.

extern "C" __global__ void channel_moments(const T* x, T* means, T* variances, const i64 batch, const i64 channels,
                                           const i64 points) {
    const i64 channel = blockIdx.x, count = batch * points;
    A mean = 0, variance = 0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x)
        mean += load(x[(i / points * channels + channel) * points + i % points]);
    mean = row_sum(mean) / count;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
        const A c = load(x[(i / points * channels + channel) * points + i % points]) - mean;
        variance += c * c;
    }
    variance = row_sum(variance) / count;
    if (threadIdx.x == 0) {
        means[channel] = store<T>(mean);
        variances[channel] = store<T>(variance);
    }
}

// For each channel the sum of the gradients, and of their products with x less its mean, each times a factor for the group
// and image if there is one. Means are those of the channel (groups = 0), or of one of the groups of an image.
extern "C" __global__ void channel_products(const T* grad, const T* x, const T* means, const T* variances, T* totals,
                                            T* products, const i64 batch, const i64 channels, const i64 points,
                                            const i64 groups, const double eps) {
    const i64 channel = blockIdx.x, count = batch * points;
    A total = 0, product = 0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
        const i64 image = i / points, at = (image * channels + channel) * points + i % points;
        const i64 statistic = groups ? image * groups + channel / (channels / groups) : channel;
        const A g = load(grad[at]), c = load(x[at]) - load(means[statistic]);
        total += g;
        product += g * c * (groups ? inverse_root(load(variances[statistic]) + static_cast<A>(eps)) : A(1));
    }
    total = row_sum(total);
    product = row_sum(product);
    if (threadIdx.x == 0) {
        totals[channel] = store<T>(total);
        products[channel] = store<T>(product);
    }
}
