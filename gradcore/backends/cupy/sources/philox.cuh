// Philox 4x64-10 and random numbers from its words, one number at a time. philox.py and exact.py define the results.
//
// Compiles as CUDA and as C++17. All devices give equal bits as long as the compiler fuses no multiply and add:
// compile with -fmad=false (CUDA) or -ffp-contract=off (GCC, Clang), and without fast mathematics.

#pragma once

#if __FAST_MATH__ || __USE_FAST_MATH__
#error "random numbers differ between devices under fast mathematics"
#endif

#ifdef __CUDACC__
#define PHILOX_FUNCTION __host__ __device__ __forceinline__
#else
#define PHILOX_FUNCTION inline
#endif

namespace philox {

using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

// ---------------------------------------------------------------------------------------------------- platform

PHILOX_FUNCTION u64 multiply_high(u64 a, u64 b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return static_cast<u64>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

template <class To, class From>
PHILOX_FUNCTION To bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To result;
#ifdef __CUDACC__
    memcpy(&result, &value, sizeof(To));
#else
    __builtin_memcpy(&result, &value, sizeof(To));
#endif
    return result;
}

PHILOX_FUNCTION float square_root(float x) {
#ifdef __CUDA_ARCH__
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

PHILOX_FUNCTION double square_root(double x) {
#ifdef __CUDA_ARCH__
    return __dsqrt_rn(x);
#else
    return __builtin_sqrt(x);
#endif
}

// ------------------------------------------------------------------------------------------------------- words

struct Key {
    u64 word[2];
};

struct Block {  // a counter, or the four words made from it; the lowest first
    u64 word[4];
};

PHILOX_FUNCTION Block advanced(Block counter, u64 steps) {
    for (int i = 0; i < 4; ++i) {
        counter.word[i] += steps;
        steps = counter.word[i] < steps;  // the carry
    }
    return counter;
}

// Where a kernel begins: at key and counter if base is null. In a recorded graph, base is where a replay begins, a key
// and a counter, and the argument counter is the place inside the graph.
struct Place {
    Key key;
    Block counter;

    PHILOX_FUNCTION Place(const u64* base, Key key_, Block counter_) : key(key_), counter(counter_) {
        if (base) {
            key = {{base[0], base[1]}};
            counter = advanced({{base[2], base[3], base[4], base[5]}}, counter_.word[0]);
        }
    }
};

PHILOX_FUNCTION Block words(Block counter, Key key) {
    const u64 multiplier0 = 0xD2E7470EE14C6C93, multiplier1 = 0xCA5A826395121157;
    const u64 weyl0 = 0x9E3779B97F4A7C15, weyl1 = 0xBB67AE8584CAA73B;
    Block x = counter;
    for (int round = 0; round < 10; ++round) {
        x = {{multiply_high(multiplier1, x.word[2]) ^ x.word[1] ^ key.word[0], multiplier1 * x.word[2],
              multiply_high(multiplier0, x.word[0]) ^ x.word[3] ^ key.word[1], multiplier0 * x.word[0]}};
        key.word[0] += weyl0;
        key.word[1] += weyl1;
    }
    return x;
}

// ----------------------------------------------------------------------------------------- elementary functions

template <class Real>
struct Format;

template <>
struct Format<float> {
    using Signed = i32;
    using Unsigned = u32;
    static constexpr int bits = 32, fraction = 23;
    static constexpr Signed sqrt_half = 0x3F3504F3;
    static constexpr float sqrt_two_pi = 2.5066283f, ln2_high = 45426.0f / 65536, ln2_low = 1.4286068e-06f;
};

template <>
struct Format<double> {
    using Signed = i64;
    using Unsigned = u64;
    static constexpr int bits = 64, fraction = 52;
    static constexpr Signed sqrt_half = 0x3FE6A09E667F3BCD;
    static constexpr double sqrt_two_pi = 2.5066282746310007, ln2_high = 1524246769572.0 / 2199023255552.0,
                            ln2_low = -1.7239444525614835e-13;
};

template <class Real>
PHILOX_FUNCTION constexpr Real power_of_two(int exponent) {  // exponent <= 0
    Real value = 1;
    for (; exponent < 0; ++exponent) value /= 2;
    return value;
}

template <class Real>
PHILOX_FUNCTION Real polynomial(Real, Real constant) {
    return constant;
}

// Horner's rule, the lowest power first.
template <class Real, class... Rest>
PHILOX_FUNCTION Real polynomial(Real x, Real constant, Rest... rest) {
    return polynomial(x, rest...) * x + constant;
}

PHILOX_FUNCTION float log_series(float z) { return polynomial(z, 0.66666776f, 0.39977497f, 0.29873076f); }

PHILOX_FUNCTION double log_series(double z) {
    return polynomial(z, 0.6666666666666735, 0.3999999999941136, 0.28571428743206656, 0.22222198481154362,
                      0.18183569505650157, 0.1531390835368053, 0.14797464946305933);
}

PHILOX_FUNCTION float centre(float x) {
    return polynomial(x, 5.0894127f, 77.61739f, 229.1295f, 30.321047f) /
           polynomial(x, 1.0f, 21.776972f, 125.87763f, 169.824f);
}

PHILOX_FUNCTION double centre(double x) {
    return polynomial(x, 5.0894155459982295, 213.2450466717518, 3334.0182620277774, 24182.50099817065,
                      82422.0081627949, 118152.12707073137, 51357.217287317704, 805.7645860597261) /
           polynomial(x, 1.0, 48.426116883687065, 909.8473558283939, 8399.854291756674, 39887.32431520449,
                      93295.27069993428, 93440.45321345361, 27932.630602892834);
}

PHILOX_FUNCTION float tail(float x) {
    return polynomial(x, -0.24862698f, 0.46274257f, 0.57364136f, 0.16079663f, 0.012043091f) /
           polynomial(x, 1.0f, 1.0916227f, 0.34678409f, 0.029040424f);
}

PHILOX_FUNCTION double tail(double x) {
    return polynomial(x, -0.24862707094296443, 0.1135724351108346, 1.0403978275166839, 1.2606739112970504,
                      0.7415909217641734, 0.2526013447911658, 0.05194641500548657, 0.006313908016902205,
                      0.00042078417320517633, 1.3185447929107896e-05, 1.3627913082481982e-07) /
           polynomial(x, 1.0, 2.496021487636657, 2.616355030092585, 1.5073234921545302, 0.5224004166706584,
                      0.11111165358396224, 0.014056167776238162, 0.0009725774510164889, 3.1342402919257704e-05,
                      3.2899804213028864e-07);
}

// x = 2**exponent * (1 + fraction), 1 + fraction between sqrt(1/2) and sqrt(2); x positive and normal.
template <class Real>
struct Split {
    typename Format<Real>::Signed exponent;
    Real fraction;

    PHILOX_FUNCTION explicit Split(Real x) {
        using Signed = typename Format<Real>::Signed;
        const Signed bits = bit_cast<Signed>(x);
        exponent = (bits - Format<Real>::sqrt_half) >> Format<Real>::fraction;
        fraction = bit_cast<Real>(bits - exponent * (Signed(1) << Format<Real>::fraction)) - 1;
    }

    PHILOX_FUNCTION Real log() const {
        const Real s = fraction / (fraction + 2), z = s * s, half_square = fraction * fraction * Real(0.5);
        const Real log_fraction = fraction - (half_square - (log_series(z) * z + half_square) * s);
        const Real e = static_cast<Real>(exponent);
        return e * Format<Real>::ln2_low + log_fraction + e * Format<Real>::ln2_high;
    }
};

// (k + 1/2) * 2**exponent
template <class Real, int exponent>
PHILOX_FUNCTION Real midpoint(typename Format<Real>::Signed k) {
    constexpr Real scale = power_of_two<Real>(exponent);
    return (static_cast<Real>(k) + Real(0.5)) * scale;
}

template <class Real>
PHILOX_FUNCTION typename Format<Real>::Signed complement(typename Format<Real>::Signed k) {
    return static_cast<typename Format<Real>::Signed>(~typename Format<Real>::Unsigned(0) >> 1) - k;
}

// -------------------------------------------------------------------------------------------------- distributions
//
// h is a half word for float and a word for double.

// Uniform in [0, 1) with a number of digits: 24 for float, 53 for double, 11 for float16, 8 for bfloat16.
template <class Real, int digits>
PHILOX_FUNCTION Real uniform(typename Format<Real>::Unsigned h) {
    constexpr Real scale = power_of_two<Real>(-digits);
    return static_cast<Real>(static_cast<typename Format<Real>::Signed>(h >> (Format<Real>::bits - digits))) * scale;
}

// Uniform in [low, high): span is high - low, and below the last number before high.
template <class Real, int digits>
PHILOX_FUNCTION Real uniform(typename Format<Real>::Unsigned h, Real low, Real span, Real below) {
    const Real value = uniform<Real, digits>(h) * span + low;
    return value < below ? value : below;
}

template <class Real>
PHILOX_FUNCTION Real normal(typename Format<Real>::Unsigned h) {
    using Signed = typename Format<Real>::Signed;
    constexpr int bits = Format<Real>::bits;
    const Signed signed_h = static_cast<Signed>(h), k = signed_h ^ (signed_h >> (bits - 1));
    const Real q = midpoint<Real, -bits>(k);
    Real z;
    if (q > Real(109.0 / 256)) {
        const Real r = square_root(-Split<Real>(midpoint<Real, -bits>(complement<Real>(k))).log());
        z = tail(r - Real(1.5)) + r;
    } else {
        const Real square = q * q;
        z = (centre(Real(0.1875) - square) * square + Format<Real>::sqrt_two_pi) * q;
    }
    return signed_h < 0 ? -z : z;
}

template <class Real>
PHILOX_FUNCTION Real exponential(typename Format<Real>::Unsigned h) {
    constexpr int scale = 1 - Format<Real>::bits;
    const auto k = static_cast<typename Format<Real>::Signed>(h >> 1);
    Split<Real> rest(midpoint<Real, scale>(complement<Real>(k)));
    if (rest.exponent == 0) rest.fraction = -midpoint<Real, scale>(k);
    return -rest.log();
}

// ---------------------------------------------------------------------------------- rounding to 16 bits (finite x)

PHILOX_FUNCTION u16 bfloat16_bits(float x) {
    const u32 bits = bit_cast<u32>(x);
    return static_cast<u16>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

PHILOX_FUNCTION u16 float16_bits(float x) {
    const u32 sign = bit_cast<u32>(x) >> 31 << 15, bits = bit_cast<u32>(x) & 0x7FFFFFFF;
    if (bits >= 0x477FF000) return static_cast<u16>(sign | 0x7C00);  // 65520 and more: infinite
    if (bits < 0x38800000) {  // subnormal: adding 1/2 rounds to a multiple of 2**-24
        return static_cast<u16>(sign | (bit_cast<u32>(bit_cast<float>(bits) + 0.5f) - 0x3F000000));
    }
    return static_cast<u16>(sign | ((bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13));
}

}  // namespace philox
