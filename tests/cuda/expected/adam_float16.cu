#include "elementwise.cuh"
#include "parts.cuh"
using namespace gradcore;

extern "C" __global__ void fused_adam_steps(const Parts parts, const float* found_inf, float16* s0_states, float16* s1_states, const float p0, const float p1, const float p2, const float p3, const float p4) {
    if (found_inf && *found_inf > 0) return;
    const i32 array = parts.array();
    const Elements elements(parts, array);
    float16* p_array = reinterpret_cast<float16*>(parts.addresses[0][array]) + elements.begin;
    const float16* g_array = reinterpret_cast<const float16*>(parts.addresses[1][array]) + elements.begin;
    float16* s0_array = s0_states + parts.start[array] + elements.begin;
    float16* s1_array = s1_states + parts.start[array] + elements.begin;
    for (i64 i = threadIdx.x; i < elements.count; i += blockDim.x) {
        const float g = load(g_array[i]);
        const float p = load(p_array[i]);
        const float s0 = load(s0_array[i]);
        const float s1 = load(s1_array[i]);
        const float v1 = g - s0;
        const float v2 = v1 * p0;
        const float v3 = s0 + v2;
        const float v4 = s1 * p1;
        const float v5 = g * g;
        const float v6 = v5 * p2;
        const float v7 = v4 + v6;
        const float v8 = sqrt(v7);
        const float v9 = v8 + p3;
        const float v10 = v3 / v9;
        const float v11 = v10 * p4;
        const float v12 = p - v11;
        p_array[i] = store<float16>(v12);
        s0_array[i] = store<float16>(v3);
        s1_array[i] = store<float16>(v7);
    }
}
