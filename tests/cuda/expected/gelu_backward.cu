#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_gelu_backward(const i32 size, const float* __restrict__ t_array, const float* __restrict__ self_array, float* __restrict__ r0_out) {
    const i32 start = 4 * first_index_32();
    if (start + 4 <= size) {
        const Pack<float, 4> t_pack = pack<4>(t_array + start);
        const Pack<float, 4> self_pack = pack<4>(self_array + start);
        Pack<float, 4> r0_pack;
        GRADCORE_UNROLL for (i32 k = 0; k < 4; ++k) {
            const float t = load(t_pack.items[k]);
            const float self = load(self_pack.items[k]);
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
            r0_pack.items[k] = store<float>(v11);
        }
        unpack(r0_out + start, r0_pack);
    } else {
        GRADCORE_ROLLED for (i32 i = start; i < size; ++i) {
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
}
