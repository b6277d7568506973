#include "complex.cuh"
using namespace gradcore;

extern "C" __global__ void fused_div_backward(const i64 size, const complex<float>* t_array, const complex<float>* other_array, const complex<float>* self_array, complex<float>* r0_out, complex<float>* r1_out) {
    for (i64 i = first_index(); i < size; i += index_step()) {
        const complex<float> t = load(t_array[i]);
        const complex<float> other = load(other_array[i]);
        const complex<float> self = load(self_array[i]);
        const complex<float> v1 = conj(t);
        const complex<float> v2 = v1 / other;
        const complex<float> v3 = conj(v2);
        const complex<float> v4 = -v1;
        const complex<float> v5 = self / other;
        const complex<float> v6 = v5 / other;
        const complex<float> v7 = v4 * v6;
        const complex<float> v8 = conj(v7);
        r0_out[i] = store<complex<float>>(v3);
        r1_out[i] = store<complex<float>>(v8);
    }
}
