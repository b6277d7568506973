#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_lerp(const i32 size, const double* __restrict__ self_array, const double* __restrict__ end_array, double* __restrict__ r0_out, const double weight, const u32 n1, const i32 self_step0, const i32 self_step1, const i32 end_step0, const i32 end_step1) {
    const i32 i = first_index_32();
    if (i < size) {
        const u32 i1 = u32(i) % n1;
        const u32 i0 = u32(i) / n1;
        const double self = load(self_array[static_cast<i32>(i0 * self_step0 + i1 * self_step1)]);
        const double end = load(end_array[static_cast<i32>(i0 * end_step0 + i1 * end_step1)]);
        const double v1 = magnitude(weight);
        const bool v2 = v1 < 0.5;
        const double v3 = end - self;
        const double v4 = v3 * weight;
        const double v5 = self + v4;
        const double v6 = 1.0 - weight;
        const double v7 = v3 * v6;
        const double v8 = end - v7;
        const double v9 = v2 ? v5 : v8;
        r0_out[i] = store<double>(v9);
    }
}
