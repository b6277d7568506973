#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_softplus_backward(const i32 size, const float* __restrict__ t_array, const float* __restrict__ self_array, float* __restrict__ r0_out, const float p0, const float p1) {
    const i32 start = 4 * first_index_32();
    if (start + 4 <= size) {
        const Pack<float, 4> t_pack = pack<4>(t_array + start);
        const Pack<float, 4> self_pack = pack<4>(self_array + start);
        Pack<float, 4> r0_pack;
        GRADCORE_UNROLL for (i32 k = 0; k < 4; ++k) {
            const float t = load(t_pack.items[k]);
            const float self = load(self_pack.items[k]);
            const float v1 = self * p0;
            const bool v2 = v1 > p1;
            const float v3 = -v1;
            const float v4 = exp(v3);
            const float v5 = v4 + 1.0f;
            const float v6 = 1.0f / v5;
            const float v7 = t * v6;
            const float v8 = v2 ? t : v7;
            r0_pack.items[k] = store<float>(v8);
        }
        unpack(r0_out + start, r0_pack);
    } else {
        GRADCORE_ROLLED for (i32 i = start; i < size; ++i) {
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
}
