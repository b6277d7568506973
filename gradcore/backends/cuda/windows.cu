// Pooling, and windows as columns, of dense images with three spatial dims (of size 1 where there are fewer).
//
// GRADCORE_TYPE is the numbers' type. A thread has one element of the result and reads what it is made of, in gradients too: so
// nothing is added atomically, and sums are always in the same order.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

struct Dim {
    i64 size, outputs, kernel, stride, padding, dilation;

    GRADCORE_FUNCTION i64 input(i64 output, i64 tap) const { return output * stride - padding + tap * dilation; }
    GRADCORE_FUNCTION bool inside(i64 i) const { return i >= 0 && i < size; }
    // How many elements the mean of a window is taken of.
    GRADCORE_FUNCTION i64 count(i64 output, bool with_padding) const {
        i64 start = output * stride - padding, end = start + kernel;
        if (end > size + padding) end = size + padding;
        if (with_padding) return end - start;
        return (end < size ? end : size) - (start > 0 ? start : 0);
    }
};

#define DIM(d)                                                                                               \
    const i64 size##d, const i64 outputs##d, const i64 kernel##d, const i64 stride##d, const i64 padding##d, \
        const i64 dilation##d
#define DIMS                                                                      \
    const Dim a{size0, outputs0, kernel0, stride0, padding0, dilation0};          \
    const Dim b{size1, outputs1, kernel1, stride1, padding1, dilation1};          \
    const Dim c{size2, outputs2, kernel2, stride2, padding2, dilation2}

// The maximum of each window and its index in the flattened spatial dims: of equal ones the first, of NaN the last.
extern "C" __global__ void max_pool(const T* x, T* out, i64* indices, const i64 total, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    for (i64 i = first_index(); i < total; i += index_step()) {
        const i64 o2 = i % c.outputs, o1 = i / c.outputs % b.outputs, o0 = i / c.outputs / b.outputs % a.outputs;
        const i64 plane = i / c.outputs / b.outputs / a.outputs;
        const T* from = x + plane * a.size * b.size * c.size;
        A best = -infinity<A>();
        i64 index = 0;
        bool found = false;
        for (i64 t0 = 0; t0 < a.kernel; ++t0) {
            const i64 i0 = a.input(o0, t0);
            if (!a.inside(i0)) continue;
            for (i64 t1 = 0; t1 < b.kernel; ++t1) {
                const i64 i1 = b.input(o1, t1);
                if (!b.inside(i1)) continue;
                for (i64 t2 = 0; t2 < c.kernel; ++t2) {
                    const i64 i2 = c.input(o2, t2);
                    if (!c.inside(i2)) continue;
                    const i64 place = (i0 * b.size + i1) * c.size + i2;
                    const A value = load(from[place]);
                    if (!found || value > best || value != value) {
                        best = value;
                        index = place;
                        found = true;
                    }
                }
            }
        }
        out[i] = store<T>(best);
        indices[i] = index;
    }
}

extern "C" __global__ void avg_pool(const T* x, T* out, const i64 total, const bool with_padding, const i64 divisor, DIM(0),
                                    DIM(1), DIM(2)) {
    DIMS;
    for (i64 i = first_index(); i < total; i += index_step()) {
        const i64 o2 = i % c.outputs, o1 = i / c.outputs % b.outputs, o0 = i / c.outputs / b.outputs % a.outputs;
        const i64 plane = i / c.outputs / b.outputs / a.outputs;
        const T* from = x + plane * a.size * b.size * c.size;
        A sum = 0;
        for (i64 t0 = 0; t0 < a.kernel; ++t0) {
            const i64 i0 = a.input(o0, t0);
            if (!a.inside(i0)) continue;
            for (i64 t1 = 0; t1 < b.kernel; ++t1) {
                const i64 i1 = b.input(o1, t1);
                if (!b.inside(i1)) continue;
                for (i64 t2 = 0; t2 < c.kernel; ++t2) {
                    const i64 i2 = c.input(o2, t2);
                    if (c.inside(i2)) sum += load(from[(i0 * b.size + i1) * c.size + i2]);
                }
            }
        }
        const i64 count = a.count(o0, with_padding) * b.count(o1, with_padding) * c.count(o2, with_padding);
        out[i] = store<T>(sum / static_cast<A>(divisor ? divisor : count));
    }
}

// The output whose window's tap is the element i, or -1.
GRADCORE_FUNCTION i64 output_of(const Dim& dim, i64 i, i64 tap) {
    const i64 reach = i + dim.padding - tap * dim.dilation;
    if (reach < 0 || reach % dim.stride) return -1;
    const i64 output = reach / dim.stride;
    return output < dim.outputs ? output : -1;
}

extern "C" __global__ void avg_pool_backward(const T* grad, T* out, const i64 total, const bool with_padding,
                                             const i64 divisor, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    for (i64 i = first_index(); i < total; i += index_step()) {
        const i64 i2 = i % c.size, i1 = i / c.size % b.size, i0 = i / c.size / b.size % a.size;
        const i64 plane = i / c.size / b.size / a.size;
        const T* from = grad + plane * a.outputs * b.outputs * c.outputs;
        A sum = 0;
        for (i64 t0 = 0; t0 < a.kernel; ++t0) {
            const i64 o0 = output_of(a, i0, t0);
            if (o0 < 0) continue;
            for (i64 t1 = 0; t1 < b.kernel; ++t1) {
                const i64 o1 = output_of(b, i1, t1);
                if (o1 < 0) continue;
                for (i64 t2 = 0; t2 < c.kernel; ++t2) {
                    const i64 o2 = output_of(c, i2, t2);
                    if (o2 < 0) continue;
                    const i64 count = a.count(o0, with_padding) * b.count(o1, with_padding) * c.count(o2, with_padding);
                    sum += load(from[(o0 * b.outputs + o1) * c.outputs + o2]) / static_cast<A>(divisor ? divisor : count);
                }
            }
        }
        out[i] = store<T>(sum);
    }
}

// Windows as columns: (planes, taps, windows) of images (planes, *size), zero outside.
extern "C" __global__ void im2col(const T* x, T* out, const i64 total, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    for (i64 i = first_index(); i < total; i += index_step()) {
        i64 rest = i;
        const i64 o2 = rest % c.outputs;
        rest /= c.outputs;
        const i64 o1 = rest % b.outputs;
        rest /= b.outputs;
        const i64 o0 = rest % a.outputs;
        rest /= a.outputs;
        const i64 i2 = c.input(o2, rest % c.kernel);
        rest /= c.kernel;
        const i64 i1 = b.input(o1, rest % b.kernel);
        rest /= b.kernel;
        const i64 i0 = a.input(o0, rest % a.kernel), plane = rest / a.kernel;
        const bool inside = a.inside(i0) && b.inside(i1) && c.inside(i2);
        out[i] = store<T>(inside ? load(x[((plane * a.size + i0) * b.size + i1) * c.size + i2]) : A(0));
    }
}

// The adjoint: each element of an image is the sum of its places in the columns.
extern "C" __global__ void col2im(const T* columns, T* out, const i64 total, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    const i64 windows = a.outputs * b.outputs * c.outputs;
    for (i64 i = first_index(); i < total; i += index_step()) {
        const i64 i2 = i % c.size, i1 = i / c.size % b.size, i0 = i / c.size / b.size % a.size;
        const i64 plane = i / c.size / b.size / a.size;
        A sum = 0;
        for (i64 t0 = 0; t0 < a.kernel; ++t0) {
            const i64 o0 = output_of(a, i0, t0);
            if (o0 < 0) continue;
            for (i64 t1 = 0; t1 < b.kernel; ++t1) {
                const i64 o1 = output_of(b, i1, t1);
                if (o1 < 0) continue;
                for (i64 t2 = 0; t2 < c.kernel; ++t2) {
                    const i64 o2 = output_of(c, i2, t2);
                    if (o2 < 0) continue;
                    const i64 tap = ((plane * a.kernel + t0) * b.kernel + t1) * c.kernel + t2;
                    sum += load(columns[tap * windows + (o0 * b.outputs + o1) * c.outputs + o2]);
                }
            }
        }
        out[i] = store<T>(sum);
    }
}
