#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_gelu_backward(const i64 size, const float* t_array, const float* self_array, float* r0_out) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const float t = load(t_array[i]);
        const float self = load(self_array[i]);
        const float v1 = self * 0.70710677f;
        const float v2 = erf(v1);
        const float v3 = 1.0f + v2;
        const float v4 = 0.5f * v3;
        const float v5 = (-0.5f) * self;
        const float v6 = v5 * self;
        const float v7 = exp(v6);
        const float v8 = v7 * 0.3989423f;
        const float v9 = self * v8;
        const float v10 = v4 + v9;
        const float v11 = t * v10;
        r0_out[i] = store<float>(v11);
    }
}
