// Kernels for all gradients at once: unscaling with a check for infinities, norms, and clipping.
//
// GRADCORE_TYPE is the type of the arrays. A block handles a part of one array. There are no atomic additions.

#include "block.cuh"
#include "parts.cuh"

using namespace gradcore;
using T = GRADCORE_TYPE;
using A = Computed<T>::type;

GRADCORE_FUNCTION T* array_of(const Parts& parts, i32 array, const Elements& elements) {
    return reinterpret_cast<T*>(parts.addresses[0][array]) + elements.begin;
}

// Multiply by *factor unless `factor` is null, and set *found if an element is not finite.
extern "C" __global__ void unscale(const Parts parts, const float* factor, float* found) {
    const i32 array = parts.array();
    const Elements elements(parts, array);
    T* x = array_of(parts, array, elements);
    const A scale = factor ? static_cast<A>(*factor) : A(1);
    bool bad = false;
    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) {
        const A value = load(x[i]);
        bad |= !(value - value == 0);
        if (factor) x[i] = store<T>(value * scale);
    }
    if (bad) *found = 1;  // all threads write the same value
}

// Update the scale of gradients after a step: reduce it if an element was not finite, and increase it after `interval`
// steps without.
extern "C" __global__ void adapt_scale(float* scale, i32* steps, const float* found, const float growth, const float backoff,
                                       const i32 interval) {
    if (*found > 0) {
        *scale *= backoff;
        *steps = 0;
        return;
    }
    const i32 now = *steps + 1;
    const float larger = *scale * growth;
    if (now >= interval && larger - larger == 0) *scale = larger;
    *steps = now >= interval ? 0 : now;
}

// ------------------------------------------------------------------------------------------------------- norms

// order 0 stands for the largest element, 1 and 2 for the norms of these orders.
GRADCORE_FUNCTION A combined(A value, const i32 order) { return order ? row_sum(value) : row_largest(value); }

extern "C" __global__ void partial_norms(const Parts parts, A* partial, const i32 order) {
    const i32 array = parts.array();
    const Elements elements(parts, array);
    const T* x = array_of(parts, array, elements);
    A value = 0;
    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) {
        const A e = load(x[i]), size = e < 0 ? -e : e;
        value = order == 0 ? Largest()(value, size) : value + (order == 1 ? size : e * e);
    }
    value = combined(value, order);
    if (threadIdx.x == 0) partial[blockIdx.x] = value;
}

// Combine the partial norms. The grid has a single block.
extern "C" __global__ void total_norm(const A* partial, T* out, const i64 count, const i32 order) {
    A value = 0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x)
        value = order == 0 ? Largest()(value, partial[i]) : value + partial[i];
    value = combined(value, order);
    if (threadIdx.x == 0) *out = store<T>(order == 2 ? sqrt(value) : value);
}

// Scale down to the norm `most`, given the present one.
extern "C" __global__ void clip_norm(const Parts parts, const A* norm, const double most) {
    const i32 array = parts.array();
    const Elements elements(parts, array);
    T* x = array_of(parts, array, elements);
    A factor = static_cast<A>(most) / (*norm + static_cast<A>(1e-6));
    if (factor > 1) factor = 1;
    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) x[i] = store<T>(load(x[i]) * factor);
}

// Clamp elements to [-bound, bound]. NaN stays NaN.
extern "C" __global__ void clip_values(const Parts parts, const double bound) {
    const i32 array = parts.array();
    const Elements elements(parts, array);
    T* x = array_of(parts, array, elements);
    const A most = static_cast<A>(bound);
    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) {
        const A value = load(x[i]);
        if (value > most) x[i] = store<T>(most);
        else if (value < -most) x[i] = store<T>(-most);
    }
}
