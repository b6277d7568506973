#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_atan2_backward(const i64 size, const float* t_array, const float* self_array, const float* other_array, float* r0_out, float* r1_out, const i64 n1, const i64 n2, const i64 t_step0, const i64 t_step1, const i64 t_step2, const i64 self_step0, const i64 self_step1, const i64 self_step2, const i64 other_step0, const i64 other_step1, const i64 other_step2) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 i2 = i % n2;
        const i64 rest1 = i / n2;
        const i64 i1 = rest1 % n1;
        const i64 i0 = rest1 / n1;
        const float t = load(t_array[i0 * t_step0 + i1 * t_step1 + i2 * t_step2]);
        const float self = load(self_array[i0 * self_step0 + i1 * self_step1 + i2 * self_step2]);
        const float other = load(other_array[i0 * other_step0 + i1 * other_step1 + i2 * other_step2]);
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
