// Convolution of dense images with three spatial dims (missing dims have size 1): copying windows to columns, which
// cuBLAS multiplies with the weight; adding columns to images; and depthwise convolutions.
//
// GRADCORE_TYPE is the type of the arrays. GRADCORE_INDEX is the type of indices: i32 if it can hold all of them. A
// thread computes one element of the result, or copies one window. There are no atomic additions, so sums always have
// one order.

#include "block.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;
using I = GRADCORE_INDEX;

// A dim of windows that move by a stride.
struct Dim {
    I size, outputs, kernel, stride, padding, dilation;

    GRADCORE_FUNCTION I input(I output, I tap) const { return output * stride - padding + tap * dilation; }
    GRADCORE_FUNCTION bool inside(I i) const { return i >= 0 && i < size; }
    // The first and the last output whose windows can have the element i.
    GRADCORE_FUNCTION I first(I i) const {
        const I reach = i + padding - (kernel - 1) * dilation;
        return reach > 0 ? (reach + stride - 1) / stride : 0;
    }
    GRADCORE_FUNCTION I last(I i) const {
        const I output = (i + padding) / stride;
        return output < outputs ? output : outputs - 1;
    }
    // The tap by which an output reads the element i, or -1.
    GRADCORE_FUNCTION I tap(I output, I i) const {
        const I distance = i + padding - output * stride;
        return distance % dilation ? -1 : distance / dilation;
    }
};

#define DIM(d) const I size##d, const I outputs##d, const I kernel##d, const I stride##d, const I padding##d, const I dilation##d
#define DIMS                                                             \
    const Dim a{size0, outputs0, kernel0, stride0, padding0, dilation0}; \
    const Dim b{size1, outputs1, kernel1, stride1, padding1, dilation1}; \
    const Dim c{size2, outputs2, kernel2, stride2, padding2, dilation2}
#define TAPS (a.kernel * b.kernel * c.kernel)
#define WINDOWS (a.outputs * b.outputs * c.outputs)
#define POINTS (a.size * b.size * c.size)
#define EACH(i, total) \
    GRADCORE_ROLLED for (I i = static_cast<I>(first_index()); i < total; i += static_cast<I>(index_step()))

// An element of three dims: the number of its plane, and its index in each dim.
struct Element {
    I plane, i0, i1, i2;

    GRADCORE_FUNCTION Element(I i, I n0, I n1, I n2) {
        i2 = i % n2;
        i /= n2;
        i1 = i % n1;
        i /= n1;
        i0 = i % n0;
        plane = i / n0;
    }
};

// Call `call` with the number of each tap of an output's window and the index that it reads, or -1 outside of the
// image.
template <class F>
GRADCORE_FUNCTION void for_taps(const Dim& a, const Dim& b, const Dim& c, const Element& o, F&& call) {
    I tap = 0;
    for (I t0 = 0; t0 < a.kernel; ++t0) {
        const I i0 = a.input(o.i0, t0);
        for (I t1 = 0; t1 < b.kernel; ++t1) {
            const I i1 = b.input(o.i1, t1);
            const bool row = a.inside(i0) && b.inside(i1);
            for (I t2 = 0; t2 < c.kernel; ++t2, ++tap) {
                const I i2 = c.input(o.i2, t2);
                call(tap, row && c.inside(i2) ? (i0 * b.size + i1) * c.size + i2 : -1);
            }
        }
    }
}

// For each window that contains the element `i`, call `call` with the numbers of the window and of the tap that reads
// it.
template <class F>
GRADCORE_FUNCTION void for_windows(const Dim& a, const Dim& b, const Dim& c, const Element& i, F&& call) {
    for (I o0 = a.first(i.i0); o0 <= a.last(i.i0); ++o0) {
        const I t0 = a.tap(o0, i.i0);
        if (t0 < 0) continue;
        for (I o1 = b.first(i.i1); o1 <= b.last(i.i1); ++o1) {
            const I t1 = b.tap(o1, i.i1);
            if (t1 < 0) continue;
            for (I o2 = c.first(i.i2); o2 <= c.last(i.i2); ++o2) {
                const I t2 = c.tap(o2, i.i2);
                if (t2 >= 0) call((o0 * b.outputs + o1) * c.outputs + o2, (t0 * b.kernel + t1) * c.kernel + t2);
            }
        }
    }
}

GRADCORE_FUNCTION A bias_of(const T* bias, I channel) { return bias ? load(bias[channel]) : A(0); }

// Copy windows to columns. The elements that one tap reads are adjacent, and `tap_step` is the distance of two taps.
extern "C" __global__ void columns(const T* x, T* out, const I total, const I channels, const I image_step,
                                   const I channel_step, const I tap_step, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    EACH(i, total) {
        const Element o(i, a.outputs, b.outputs, c.outputs);
        const T* from = x + o.plane * POINTS;
        T* to = out + o.plane / channels * image_step + o.plane % channels * channel_step + i % WINDOWS;
        for_taps(a, b, c, o, [&](I tap, I index) { to[tap * tap_step] = index < 0 ? store<T>(A(0)) : from[index]; });
    }
}

// Add columns (planes, taps, windows) to images: each element of an image is the sum of the columns that read it.
extern "C" __global__ void images(const A* columns, const T* bias, T* out, const I total, const I channels, DIM(0), DIM(1),
                                  DIM(2)) {
    DIMS;
    EACH(i, total) {
        const Element place(i, a.size, b.size, c.size);
        const A* from = columns + place.plane * TAPS * WINDOWS;
        A sum = bias_of(bias, place.plane % channels);
        for_windows(a, b, c, place, [&](I window, I tap) { sum += from[tap * WINDOWS + window]; });
        out[i] = store<T>(sum);
    }
}

// Depthwise convolution. `multiplier` neighbouring channels of the output read one channel of the input.
extern "C" __global__ void depthwise(const T* x, const T* weight, const T* bias, T* out, const I total, const I channels,
                                     const I multiplier, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    EACH(i, total) {
        const Element o(i, a.outputs, b.outputs, c.outputs);
        const I channel = o.plane % channels;
        const T *from = x + o.plane / multiplier * POINTS, *factors = weight + channel * TAPS;
        A sum = bias_of(bias, channel);
        for_taps(a, b, c, o, [&](I tap, I index) {
            if (index >= 0) sum += load(from[index]) * load(factors[tap]);
        });
        out[i] = store<T>(sum);
    }
}

// Gradient of the input of a depthwise convolution with `channels` channels.
extern "C" __global__ void depthwise_input(const T* grad, const T* weight, const T* bias, T* out, const I total,
                                           const I channels, const I multiplier, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    EACH(i, total) {
        const Element place(i, a.size, b.size, c.size);
        const I channel = place.plane % channels;
        A sum = bias_of(bias, channel);
        for (I k = 0; k < multiplier; ++k) {
            const T *from = grad + (place.plane * multiplier + k) * WINDOWS, *factors = weight + (channel * multiplier + k) * TAPS;
            for_windows(a, b, c, place, [&](I window, I tap) { sum += load(from[window]) * load(factors[tap]); });
        }
        out[i] = store<T>(sum);
    }
}

// Gradient of the weight of a depthwise convolution. A block computes one element.
extern "C" __global__ void depthwise_weight(const T* x, const T* grad, T* out, const I images, const I channels,
                                            const I multiplier, DIM(0), DIM(1), DIM(2)) {
    DIMS;
    const I row = static_cast<I>(blockIdx.x), channel = row / TAPS;
    const Element tap(row % TAPS, a.kernel, b.kernel, c.kernel);
    A sum = 0;
    GRADCORE_ROLLED for (I i = static_cast<I>(threadIdx.x); i < images * WINDOWS; i += static_cast<I>(blockDim.x)) {
        const Element o(i, a.outputs, b.outputs, c.outputs);
        const I i0 = a.input(o.i0, tap.i0), i1 = b.input(o.i1, tap.i1), i2 = c.input(o.i2, tap.i2);
        if (!(a.inside(i0) && b.inside(i1) && c.inside(i2))) continue;
        const I plane = o.plane * channels + channel;
        sum += load(x[plane / multiplier * POINTS + (i0 * b.size + i1) * c.size + i2]) * load(grad[plane * WINDOWS + i % WINDOWS]);
    }
    sum = row_sum(sum);
    if (threadIdx.x == 0) out[row] = store<T>(sum);
}
