#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_silu(const i64 size, const float16* self_array, float16* r0_out) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const float self = load(self_array[i]);
        const float v1 = -self;
        const float v2 = exp(v1);
        const float v3 = 1.0f + v2;
        const float v4 = self / v3;
        r0_out[i] = store<float16>(v4);
    }
}
