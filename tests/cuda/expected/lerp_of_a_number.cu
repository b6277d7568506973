#include "elementwise.cuh"
using namespace gradcore;

extern "C" __global__ void fused_lerp(const i64 size, const double* self_array, const double* end_array, double* r0_out, const double weight, const i64 n1, const i64 self_step0, const i64 self_step1, const i64 end_step0, const i64 end_step1) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const i64 i1 = i % n1;
        const i64 i0 = i / n1;
        const double self = load(self_array[i0 * self_step0 + i1 * self_step1]);
        const double end = load(end_array[i0 * end_step0 + i1 * end_step1]);
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
