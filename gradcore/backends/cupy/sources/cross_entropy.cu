// Cross entropy of scores with target classes: forward with the statistics that backward needs, and backward. Negative
// log-likelihood (nll) of scores that are logarithms of probabilities already: forward and backward.
//
// GRADCORE_TYPE is the type of the scores, their powers and gradients, and of weights, GRADCORE_INDEX that of the targets.
// Losses, weights of rows, totals and the divisor are of type A, float for halves. Scores are dense, of shape (batch,
// classes, points). There is a target for each image and point. Ignored targets have a loss and a weight of zero.
// Targets that are no class count as ignored; the first one is written to `found`, after the number of the check.

#include "rows.cuh"
#include "checks.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;
using Index = GRADCORE_INDEX;

// The arguments of a row, apart from its powers. `x` are its scores, with a stride of `points`.
struct Row {
    const T* x;
    const T* weight;
    i64 classes, points, ignored, number;
    i64* found;

    // Return whether a target is a class that counts, and write to `found` one that is neither a class nor ignored.
    GRADCORE_FUNCTION bool counts(i64 target) const {
        const bool is_class = target != ignored && target >= 0 && target < classes;
        if (!is_class && target != ignored) note(target, number, found);
        return is_class;
    }

    GRADCORE_FUNCTION void finish(i64 row, i64 target, A top, A total, A* losses, A* weights, A* totals) const {
        const bool known = counts(target);
        const A factor = !known ? A(0) : weight ? load(weight[target]) : A(1);
        losses[row] = known ? (log(total) - (load(x[target * points]) - top)) * factor : A(0);
        weights[row] = factor;
        totals[row] = total;
    }
};

#define ROWS                                                                                                          \
    const T *x, const Index *targets, const T *weight, A *losses, A *weights, T *powers, A *totals, const i64 rows,   \
        const i64 classes, const i64 points, const i64 ignored, const i64 number, i64 *found

// One row (an image's point) for each block or, if there are few classes, for each warp. Powers are the exponentials of
// the differences from the row's maximum, totals their sums.
extern "C" __global__ void cross_entropy(ROWS) {
    const i64 row = row_index();
    if (row >= rows) return;
    const i64 start = row / points * classes * points + row % points;
    x += start;
    powers += start;
    A top = -infinity<A>(), total = 0;
    for (i64 i = threadIdx.x; i < classes; i += blockDim.x) top = Largest()(top, load(x[i * points]));
    top = row_largest(top);
    for (i64 i = threadIdx.x; i < classes; i += blockDim.x) {
        const A power = exp(load(x[i * points]) - top);
        powers[i * points] = store<T>(power);
        total += power;
    }
    total = row_sum(total);
    if (threadIdx.x) return;
    Row{x, weight, classes, points, ignored, number, found}.finish(row, targets[row], top, total, losses, weights, totals);
}

// Like `cross_entropy`, for dense rows (points = 1), which are read once.
extern "C" __global__ void cross_entropy_rows(ROWS) {
    const i64 row = row_index();
    if (row >= rows) return;
    x += row * classes;
    powers += row * classes;
    constexpr int lanes = HeldRow<T>::lanes;
    const bool packed = classes % lanes == 0 && aligned(x, powers);
    const HeldRow<T> scores(x, classes, packed);
    A top = -infinity<A>(), total = 0;
    walk<lanes>(classes, packed, [&](Place place, i64 i) {
        const auto some = scores.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) top = Largest()(top, load(some.items[j]));
    });
    top = row_largest(top);
    walk<lanes>(classes, packed, [&](Place place, i64 i) {
        auto some = scores.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A power = exp(load(some.items[j]) - top);
            some.items[j] = store<T>(power);
            total += power;
        }
        put(powers, place, i, some);
    });
    total = row_sum(total);
    if (threadIdx.x) return;
    Row{x, weight, classes, points, ignored, number, found}.finish(row, targets[row], top, total, losses, weights, totals);
}

// Like `cross_entropy`, with a row for each thread: in images of many points, neighbouring threads access neighbours.
extern "C" __global__ void cross_entropy_points(ROWS) {
    for (i64 row = first_index(); row < rows; row += index_step()) {
        const i64 start = row / points * classes * points + row % points;
        const T* from = x + start;
        A top = -infinity<A>(), total = 0;
        for (i64 i = 0; i < classes; ++i) top = Largest()(top, load(from[i * points]));
        for (i64 i = 0; i < classes; ++i) {
            const A power = exp(load(from[i * points]) - top);
            powers[start + i * points] = store<T>(power);
            total += power;
        }
        Row{from, weight, classes, points, ignored, number, found}.finish(row, targets[row], top, total, losses, weights,
                                                                          totals);
    }
}

// The upstream gradient of a row's loss: one for each row (grad_step 1) or one for all rows (0), divided by *divisor
// unless that is null, times the weight of the target. It is zero if the target does not count.
GRADCORE_FUNCTION A gradient_of(const T* grad, i64 row, i64 target, const T* weight, const A* divisor, i64 classes, i64 ignored,
                                i64 grad_step) {
    if (target == ignored || target < 0 || target >= classes) return 0;
    A g = load(grad[row * grad_step]);
    if (divisor) g /= *divisor;
    if (weight) g *= load(weight[target]);
    return g;
}

// Compute the gradient of the scores: the softmax times the scale, minus the scale at the target.
extern "C" __global__ void cross_entropy_backward(const T* grad, const Index* targets, const T* weight, const A* divisor,
                                                  const T* powers, const A* totals, T* out, const i64 size,
                                                  const i64 classes, const i64 points, const i64 ignored,
                                                  const i64 grad_step) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 point = i % points, k = i / points % classes, row = i / points / classes * points + point;
        const i64 target = targets[row];
        const A g = gradient_of(grad, row, target, weight, divisor, classes, ignored, grad_step);
        const A value = load(powers[i]) * (g / totals[row]);
        out[i] = store<T>(k == target ? value - g : value);
    }
}

// Like `cross_entropy_backward`, for dense rows, each of which a block or a warp computes.
extern "C" __global__ void cross_entropy_backward_rows(const T* grad, const Index* targets, const T* weight,
                                                       const A* divisor, const T* powers, const A* totals, T* out,
                                                       const i64 rows, const i64 classes, const i64 points,
                                                       const i64 ignored, const i64 grad_step) {
    const i64 row = row_index();
    if (row >= rows) return;
    powers += row * classes;
    out += row * classes;
    constexpr int lanes = 16 / sizeof(T);
    const i64 target = targets[row];
    const A g = gradient_of(grad, row, target, weight, divisor, classes, ignored, grad_step);
    const A factor = g / totals[row];
    const bool packed = classes % lanes == 0 && aligned(powers, out);
    const HeldRow<T> read(powers, classes, packed);
    walk<lanes>(classes, packed, [&](Place place, i64 i) {
        auto some = read.at(place, i);
        GRADCORE_UNROLL
        for (int j = 0; j < place.count; ++j) {
            const A value = load(some.items[j]) * factor;
            some.items[j] = store<T>(i + j == target ? value - g : value);
        }
        put(out, place, i, some);
    });
}

// ---------------------------------------------------------------------------------------------- reduced losses

// Write the sum of the losses of all rows, or their weighted mean, and the sum of the weights. One block runs, and all of
// its threads take part. `out` may be null.
GRADCORE_FUNCTION void write_reduced(A loss, A weight, T* out, A* total_weight, bool mean) {
    loss = row_sum(loss);
    weight = row_sum(weight);
    if (threadIdx.x) return;
    *total_weight = weight;
    if (out) *out = store<T>(mean ? loss / weight : loss);
}

// Reduce losses and weights of rows, with one block.
extern "C" __global__ void reduce_losses(const A* losses, const A* weights, T* out, A* total_weight, const i64 rows,
                                         const bool mean) {
    A loss = 0, weight = 0;
    for (i64 row = threadIdx.x; row < rows; row += blockDim.x) {
        loss += losses[row];
        weight += weights[row];
    }
    write_reduced(loss, weight, out, total_weight, mean);
}

// ------------------------------------------------------------------------------------ negative log-likelihood

// Weighted negative scores of the targets. Each of `rounded`, `losses` and `weights` has an element for each row, or is
// null. If `total_weight` is not null, one block runs and reduces the rows.
extern "C" __global__ void nll(const T* x, const Index* targets, const T* weight, T* rounded, A* losses, A* weights, T* out,
                               A* total_weight, const i64 rows, const i64 classes, const i64 points, const i64 ignored,
                               const i64 number, i64* found, const bool mean) {
    const Row arguments{x, weight, classes, points, ignored, number, found};
    A sum = 0, sum_of_weights = 0;
    for (i64 row = first_index(); row < rows; row += index_step()) {
        const i64 target = targets[row];
        A loss = 0, factor = 0;
        if (arguments.counts(target)) {
            factor = weight ? load(weight[target]) : A(1);
            loss = -load(x[(row / points * classes + target) * points + row % points]) * factor;
        }
        if (rounded) rounded[row] = store<T>(loss);
        if (losses) losses[row] = loss;
        if (weights) weights[row] = factor;
        sum += loss;
        sum_of_weights += factor;
    }
    if (total_weight) write_reduced(sum, sum_of_weights, out, total_weight, mean);
}

// Compute the gradient of the scores: minus the gradient of the row's loss at its target, and zeros.
extern "C" __global__ void nll_backward(const T* grad, const Index* targets, const T* weight, const A* divisor, T* out,
                                        const i64 size, const i64 classes, const i64 points, const i64 ignored,
                                        const i64 grad_step) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 point = i % points, k = i / points % classes, row = i / points / classes * points + point;
        const i64 target = targets[row];
        out[i] = store<T>(k == target ? -gradient_of(grad, row, target, weight, divisor, classes, ignored, grad_step) : A(0));
    }
}
