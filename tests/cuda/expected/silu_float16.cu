#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_silu(const i32 size, const float16* __restrict__ self_array, float16* __restrict__ r0_out) {
    const i32 start = 8 * first_index_32();
    if (start + 8 <= size) {
        const Pack<float16, 8> self_pack = pack<8>(self_array + start);
        Pack<float16, 8> r0_pack;
        GRADCORE_UNROLL for (i32 k = 0; k < 8; ++k) {
            const float self = load(self_pack.items[k]);
            const float v1 = -self;
            const float v2 = exp(v1);
            const float v3 = 1.0f + v2;
            const float v4 = self / v3;
            r0_pack.items[k] = store<float16>(v4);
        }
        unpack(r0_out + start, r0_pack);
    } else {
        GRADCORE_ROLLED for (i32 i = start; i < size; ++i) {
            const float self = load(self_array[i]);
            const float v1 = -self;
            const float v2 = exp(v1);
            const float v3 = 1.0f + v2;
            const float v4 = self / v3;
            r0_out[i] = store<float16>(v4);
        }
    }
}
