// Pooling, im2col, and resampling of dense images with three spatial dims (missing dims have size 1).
//
// GRADCORE_TYPE is the type of the arrays. GRADCORE_INDEX is the type of positions and sizes: i32 if that suffices,
// because divisions of 64 bits take a hundred instructions, else i64. A thread computes one element of the result, also
// of gradients, and reads all elements that contribute to it. So there are no atomic additions, and sums always have
// the same order.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;
using Index = GRADCORE_INDEX;

// A dim of windows that move by a stride.
struct Dim {
    Index size, outputs, kernel, stride, padding, dilation;

    GRADCORE_FUNCTION Index taps(Index) const { return kernel; }
    GRADCORE_FUNCTION Index input(Index output, Index tap) const { return output * stride - padding + tap * dilation; }
    GRADCORE_FUNCTION bool inside(Index i) const { return i >= 0 && i < size; }
    // Return the number of elements of a window, by which its mean is divided.
    GRADCORE_FUNCTION Index count(Index output, bool with_padding) const {
        Index start = output * stride - padding, end = start + kernel;
        if (end > size + padding) end = size + padding;
        if (with_padding) return end - start;
        return (end < size ? end : size) - (start > 0 ? start : 0);
    }
    // The first and the last output whose windows can contain the element i. Return whether there are any.
    GRADCORE_FUNCTION Index first(Index i) const {
        const Index reach = i + padding - (kernel - 1) * dilation;
        return reach > 0 ? (reach + stride - 1) / stride : 0;
    }
    GRADCORE_FUNCTION Index last(Index i) const {
        const Index output = (i + padding) / stride;
        return output < outputs ? output : outputs - 1;
    }
    GRADCORE_FUNCTION bool has(Index output, Index i) const { return (i + padding - output * stride) % dilation == 0; }
};

// A dim that is cut into equal parts, which overlap where its size is no multiple of their number.
struct Part {
    Index size, outputs;

    GRADCORE_FUNCTION Index start(Index output) const { return output * size / outputs; }
    GRADCORE_FUNCTION Index taps(Index output) const { return ((output + 1) * size + outputs - 1) / outputs - start(output); }
    GRADCORE_FUNCTION Index input(Index output, Index tap) const { return start(output) + tap; }
    GRADCORE_FUNCTION bool inside(Index) const { return true; }
    GRADCORE_FUNCTION Index count(Index output, bool) const { return taps(output); }
    GRADCORE_FUNCTION Index first(Index i) const { return i * outputs / size; }
    GRADCORE_FUNCTION Index last(Index i) const { return ((i + 1) * outputs + size - 1) / size - 1; }
    GRADCORE_FUNCTION bool has(Index, Index) const { return true; }
};

GRADCORE_FUNCTION Dim dim(i64 size, i64 outputs, i64 kernel, i64 stride, i64 padding, i64 dilation) {
    return {static_cast<Index>(size),   static_cast<Index>(outputs), static_cast<Index>(kernel),
            static_cast<Index>(stride), static_cast<Index>(padding), static_cast<Index>(dilation)};
}

GRADCORE_FUNCTION Part part(i64 size, i64 outputs) { return {static_cast<Index>(size), static_cast<Index>(outputs)}; }

#define DIM(d)                                                                                               \
    const i64 size##d, const i64 outputs##d, const i64 kernel##d, const i64 stride##d, const i64 padding##d, \
        const i64 dilation##d
#define DIMS                                                                      \
    const Dim a = dim(size0, outputs0, kernel0, stride0, padding0, dilation0);    \
    const Dim b = dim(size1, outputs1, kernel1, stride1, padding1, dilation1);    \
    const Dim c = dim(size2, outputs2, kernel2, stride2, padding2, dilation2)
#define PART(d) const i64 size##d, const i64 outputs##d
#define PARTS const Part a = part(size0, outputs0), b = part(size1, outputs1), c = part(size2, outputs2)

// The position of an element in three dims: its flat index, and the index along each dim.
struct Place {
    Index plane, i0, i1, i2;

    GRADCORE_FUNCTION Place(Index i, Index n0, Index n1, Index n2)
        : plane(i / n2 / n1 / n0), i0(i / n2 / n1 % n0), i1(i / n2 % n1), i2(i % n2) {}
};

// Call `call` with the place of each element of an output's window in its plane.
template <class D, class F>
GRADCORE_FUNCTION void for_window(const D& a, const D& b, const D& c, const Place& o, F&& call) {
    for (Index t0 = 0; t0 < a.taps(o.i0); ++t0) {
        const Index i0 = a.input(o.i0, t0);
        if (!a.inside(i0)) continue;
        for (Index t1 = 0; t1 < b.taps(o.i1); ++t1) {
            const Index i1 = b.input(o.i1, t1);
            if (!b.inside(i1)) continue;
            for (Index t2 = 0; t2 < c.taps(o.i2); ++t2) {
                const Index i2 = c.input(o.i2, t2);
                if (c.inside(i2)) call((i0 * b.size + i1) * c.size + i2);
            }
        }
    }
}

// Call `call` with the position of each output whose window contains the element i.
template <class D, class F>
GRADCORE_FUNCTION void for_outputs(const D& a, const D& b, const D& c, const Place& i, F&& call) {
    for (Index o0 = a.first(i.i0); o0 <= a.last(i.i0); ++o0) {
        if (!a.has(o0, i.i0)) continue;
        for (Index o1 = b.first(i.i1); o1 <= b.last(i.i1); ++o1) {
            if (!b.has(o1, i.i1)) continue;
            for (Index o2 = c.first(i.i2); o2 <= c.last(i.i2); ++o2)
                if (c.has(o2, i.i2)) call(o0, o1, o2);
        }
    }
}

template <class D>
GRADCORE_FUNCTION void maxima(const T* x, T* out, i64* indices, i64 total, const D& a, const D& b, const D& c) {
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Index i = static_cast<Index>(n);
        const Place o(i, a.outputs, b.outputs, c.outputs);
        const T* from = x + o.plane * a.size * b.size * c.size;
        A best = -infinity<A>();
        Index index = 0;
        bool found = false;
        for_window(a, b, c, o, [&](Index place) {
            const A value = load(from[place]);
            if (found && !(value > best || value != value)) return;
            best = value;
            index = place;
            found = true;
        });
        out[i] = store<T>(best);
        indices[i] = index;
    }
}

template <class D>
GRADCORE_FUNCTION void means(const T* x, T* out, i64 total, bool with_padding, i64 divisor, const D& a, const D& b,
                             const D& c) {
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Index i = static_cast<Index>(n);
        const Place o(i, a.outputs, b.outputs, c.outputs);
        const T* from = x + o.plane * a.size * b.size * c.size;
        A sum = 0;
        for_window(a, b, c, o, [&](Index place) { sum += load(from[place]); });
        const Index count = a.count(o.i0, with_padding) * b.count(o.i1, with_padding) * c.count(o.i2, with_padding);
        out[i] = store<T>(sum / static_cast<A>(divisor ? divisor : i64(count)));
    }
}

template <class D>
GRADCORE_FUNCTION void from_maxima(const T* grad, const i64* indices, T* out, i64 total, const D& a, const D& b,
                                   const D& c) {
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Index i = static_cast<Index>(n);
        const Place place(i, a.size, b.size, c.size);
        const Index own = (place.i0 * b.size + place.i1) * c.size + place.i2;
        const Index start = place.plane * a.outputs * b.outputs * c.outputs;
        A sum = 0;
        for_outputs(a, b, c, place, [&](Index o0, Index o1, Index o2) {
            const Index output = start + (o0 * b.outputs + o1) * c.outputs + o2;
            if (indices[output] == own) sum += load(grad[output]);
        });
        out[i] = store<T>(sum);
    }
}

template <class D>
GRADCORE_FUNCTION void from_means(const T* grad, T* out, i64 total, bool with_padding, i64 divisor, const D& a,
                                  const D& b, const D& c) {
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Index i = static_cast<Index>(n);
        const Place place(i, a.size, b.size, c.size);
        const T* from = grad + place.plane * a.outputs * b.outputs * c.outputs;
        A sum = 0;
        for_outputs(a, b, c, place, [&](Index o0, Index o1, Index o2) {
            const Index count = a.count(o0, with_padding) * b.count(o1, with_padding) * c.count(o2, with_padding);
            sum += load(from[(o0 * b.outputs + o1) * c.outputs + o2]) / static_cast<A>(divisor ? divisor : i64(count));
        });
        out[i] = store<T>(sum);
    }
}

// The maximum of each window and its index in the flattened spatial dims. Of equal maxima the first counts, of NaN the
// last.
extern "C" __global__ void max_pool(const T* x, T* out, i64* indices, const i64 total, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    maxima(x, out, indices, total, a, b, c);
}

extern "C" __global__ void adaptive_max_pool(const T* x, T* out, i64* indices, const i64 total, PART(0), PART(1), PART(2)) {
    PARTS;
    maxima(x, out, indices, total, a, b, c);
}

// Each element gets the sum of the gradients of the windows of which it was the maximum.
extern "C" __global__ void max_pool_backward(const T* grad, const i64* indices, T* out, const i64 total, DIM(0), DIM(1),
                                             DIM(2)) {
    DIMS;
    from_maxima(grad, indices, out, total, a, b, c);
}

extern "C" __global__ void adaptive_max_pool_backward(const T* grad, const i64* indices, T* out, const i64 total, PART(0),
                                                      PART(1), PART(2)) {
    PARTS;
    from_maxima(grad, indices, out, total, a, b, c);
}

extern "C" __global__ void avg_pool(const T* x, T* out, const i64 total, const bool with_padding, const i64 divisor, DIM(0),
                                    DIM(1), DIM(2)) {
    DIMS;
    means(x, out, total, with_padding, divisor, a, b, c);
}

extern "C" __global__ void adaptive_avg_pool(const T* x, T* out, const i64 total, PART(0), PART(1), PART(2)) {
    PARTS;
    means(x, out, total, false, 0, a, b, c);
}

extern "C" __global__ void avg_pool_backward(const T* grad, T* out, const i64 total, const bool with_padding,
                                             const i64 divisor, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    from_means(grad, out, total, with_padding, divisor, a, b, c);
}

extern "C" __global__ void adaptive_avg_pool_backward(const T* grad, T* out, const i64 total, PART(0), PART(1), PART(2)) {
    PARTS;
    from_means(grad, out, total, false, 0, a, b, c);
}

// Copy windows of images (planes, *size) to columns (planes, taps, windows), with zeros outside of the images.
extern "C" __global__ void im2col(const T* x, T* out, const i64 total, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Index i = static_cast<Index>(n);
        Index rest = i;
        const Index o2 = rest % c.outputs;
        rest /= c.outputs;
        const Index o1 = rest % b.outputs;
        rest /= b.outputs;
        const Index o0 = rest % a.outputs;
        rest /= a.outputs;
        const Index i2 = c.input(o2, rest % c.kernel);
        rest /= c.kernel;
        const Index i1 = b.input(o1, rest % b.kernel);
        rest /= b.kernel;
        const Index i0 = a.input(o0, rest % a.kernel), plane = rest / a.kernel;
        const bool inside = a.inside(i0) && b.inside(i1) && c.inside(i2);
        out[i] = store<T>(inside ? load(x[((plane * a.size + i0) * b.size + i1) * c.size + i2]) : A(0));
    }
}

// Return the output whose window reads the element i by `tap`, or -1.
GRADCORE_FUNCTION Index output_of(const Dim& dim, Index i, Index tap) {
    const Index reach = i + dim.padding - tap * dim.dilation;
    if (reach < 0 || reach % dim.stride) return -1;
    const Index output = reach / dim.stride;
    return output < dim.outputs ? output : -1;
}

// Adjoint of im2col: each element of an image is the sum of its copies in the columns.
extern "C" __global__ void col2im(const T* columns, T* out, const i64 total, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    const Index windows = a.outputs * b.outputs * c.outputs;
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Index i = static_cast<Index>(n);
        const Index i2 = i % c.size, i1 = i / c.size % b.size, i0 = i / c.size / b.size % a.size;
        const Index plane = i / c.size / b.size / a.size;
        A sum = 0;
        for (Index t0 = 0; t0 < a.kernel; ++t0) {
            const Index o0 = output_of(a, i0, t0);
            if (o0 < 0) continue;
            for (Index t1 = 0; t1 < b.kernel; ++t1) {
                const Index o1 = output_of(b, i1, t1);
                if (o1 < 0) continue;
                for (Index t2 = 0; t2 < c.kernel; ++t2) {
                    const Index o2 = output_of(c, i2, t2);
                    if (o2 < 0) continue;
                    const Index tap = ((plane * a.kernel + t0) * b.kernel + t1) * c.kernel + t2;
                    sum += load(columns[tap * windows + (o0 * b.outputs + o1) * c.outputs + o2]);
                }
            }
        }
        out[i] = store<T>(sum);
    }
}

// ------------------------------------------------------------------------------------------------------ resampling

// A linear map along one dim. Each output has a number of inputs (-1 for none) with weights.
struct Map {
    Index inputs, outputs, taps;
    const i32* sources;
    const A* weights;
};

// Return the weighted sum of `value` over the inputs of an output.
template <class F>
GRADCORE_FUNCTION A combined(const Map& map, Index output, F&& value) {
    A sum = 0;
    for (Index tap = 0; tap < map.taps; ++tap) {
        const Index input = map.sources[output * map.taps + tap];
        if (input >= 0) sum = plus_product(sum, map.weights[output * map.taps + tap], value(input));
    }
    return sum;
}

extern "C" __global__ void resample(
    const T* x, T* out, const i64 total, const i32* sources, const A* weights, const i64 inputs0, const i64 outputs0,
    const i64 taps0, const i64 inputs1, const i64 outputs1, const i64 taps1, const i64 inputs2, const i64 outputs2, const i64 taps2) {
    const Map a = {static_cast<Index>(inputs0), static_cast<Index>(outputs0), static_cast<Index>(taps0), sources, weights};
    const i64 first = outputs0 * taps0, second = first + outputs1 * taps1;
    const Map b = {static_cast<Index>(inputs1), static_cast<Index>(outputs1), static_cast<Index>(taps1), sources + first, weights + first};
    const Map c = {static_cast<Index>(inputs2), static_cast<Index>(outputs2), static_cast<Index>(taps2), sources + second, weights + second};
    for (i64 n = first_index(); n < total; n += index_step()) {
        const Place o(static_cast<Index>(n), a.outputs, b.outputs, c.outputs);
        const T* from = x + o.plane * a.inputs * b.inputs * c.inputs;
        out[n] = store<T>(combined(a, o.i0, [&](Index i0) {
            return combined(b, o.i1, [&](Index i1) {
                const T* row = from + (i0 * b.inputs + i1) * c.inputs;
                return combined(c, o.i2, [&](Index i2) { return load(row[i2]); });
            });
        }));
    }
}
