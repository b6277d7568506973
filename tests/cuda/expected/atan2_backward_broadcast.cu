#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_atan2_backward(const i32 size, const float* __restrict__ t_array, const float* __restrict__ self_array, const float* __restrict__ other_array, float* __restrict__ r0_out, float* __restrict__ r1_out, const u32 n1, const u32 n2, const i32 t_step0, const i32 t_step1, const i32 t_step2, const i32 self_step0, const i32 self_step1, const i32 self_step2, const i32 other_step0, const i32 other_step1, const i32 other_step2) {
    const i32 i = first_index_32();
    if (i < size) {
        const u32 i2 = u32(i) % n2;
        const u32 rest1 = u32(i) / n2;
        const u32 i1 = rest1 % n1;
        const u32 i0 = rest1 / n1;
        const float t = load(t_array[static_cast<i32>(i0 * t_step0 + i1 * t_step1 + i2 * t_step2)]);
        const float self = load(self_array[static_cast<i32>(i0 * self_step0 + i1 * self_step1 + i2 * self_step2)]);
        const float other = load(other_array[static_cast<i32>(i0 * other_step0 + i1 * other_step1 + i2 * other_step2)]);
        const float v1 = t * other;
        const float v2 = self * self;
        const float v3 = other * other;
        const float v4 = v2 + v3;
        const bool v5 = v4 == 0.0f;
        const float v6 = cast<float>(v5);
        const float v7 = v4 + v6;
        const float v8 = v1 / v7;
        const float v9 = -t;
        const float v10 = v9 * self;
        const float v11 = v10 / v7;
        r0_out[i] = store<float>(v8);
        r1_out[i] = store<float>(v11);
    }
}
