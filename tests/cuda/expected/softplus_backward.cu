#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_softplus_backward(const i64 size, const float* t_array, const float* self_array, float* r0_out, const float p0, const float p1) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const float t = load(t_array[i]);
        const float self = load(self_array[i]);
        const float v1 = self * p0;
        const bool v2 = v1 > p1;
        const float v3 = -v1;
        const float v4 = exp(v3);
        const float v5 = v4 + 1.0f;
        const float v6 = 1.0f / v5;
        const float v7 = t * v6;
        const float v8 = v2 ? t : v7;
        r0_out[i] = store<float>(v8);
    }
}
