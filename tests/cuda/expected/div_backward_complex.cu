#include "complex.cuh"
using namespace gradcore;

extern "C" __global__ void fused_div_backward(const i32 size, const complex<float>* __restrict__ t_array, const complex<float>* __restrict__ other_array, const complex<float>* __restrict__ self_array, complex<float>* __restrict__ r0_out, complex<float>* __restrict__ r1_out) {
    const i32 start = 2 * first_index_32();
    if (start + 2 <= size) {
        const Pack<complex<float>, 2> t_pack = pack<2>(t_array + start);
        const Pack<complex<float>, 2> other_pack = pack<2>(other_array + start);
        const Pack<complex<float>, 2> self_pack = pack<2>(self_array + start);
        Pack<complex<float>, 2> r0_pack;
        Pack<complex<float>, 2> r1_pack;
        GRADCORE_UNROLL for (i32 k = 0; k < 2; ++k) {
            const complex<float> t = load(t_pack.items[k]);
            const complex<float> other = load(other_pack.items[k]);
            const complex<float> self = load(self_pack.items[k]);
            const complex<float> v1 = conj(t);
            const complex<float> v2 = quotient(v1, other);
            const complex<float> v3 = conj(v2);
            const complex<float> v4 = -v1;
            const complex<float> v5 = quotient(self, other);
            const complex<float> v6 = quotient(v5, other);
            const complex<float> v7 = v4 * v6;
            const complex<float> v8 = conj(v7);
            r0_pack.items[k] = store<complex<float>>(v3);
            r1_pack.items[k] = store<complex<float>>(v8);
        }
        unpack(r0_out + start, r0_pack);
        unpack(r1_out + start, r1_pack);
    } else {
        GRADCORE_ROLLED for (i32 i = start; i < size; ++i) {
            const complex<float> t = load(t_array[i]);
            const complex<float> other = load(other_array[i]);
            const complex<float> self = load(self_array[i]);
            const complex<float> v1 = conj(t);
            const complex<float> v2 = quotient(v1, other);
            const complex<float> v3 = conj(v2);
            const complex<float> v4 = -v1;
            const complex<float> v5 = quotient(self, other);
            const complex<float> v6 = quotient(v5, other);
            const complex<float> v7 = v4 * v6;
            const complex<float> v8 = conj(v7);
            r0_out[i] = store<complex<float>>(v3);
            r1_out[i] = store<complex<float>>(v8);
        }
    }
}
