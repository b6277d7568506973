// float16 and bfloat16, and their conversions from and to float32 and float64. Conversions use integer arithmetic on
// the bits, which compilers can vectorize.

#pragma once

#include "elements.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace gradcore {

// A float16 number: 5 bits of exponent, 10 bits of fraction.
struct Half {
    u16 bits;
};

// A bfloat16 number: the upper 16 bits of a float32.
struct Brain {
    u16 bits;
};

INLINE u32 word_of(float x) { return static_cast<u32>(bits_of(x)); }
INLINE float number_of(u32 bits) { return float_of<float>(static_cast<i32>(bits)); }
// Return condition ? x : y, without a branch.
INLINE u32 picked(bool condition, u32 x, u32 y) {
    const u32 mask = -static_cast<u32>(condition);
    return (x & mask) | (y & ~mask);
}

INLINE float to_float(Brain x) { return number_of(static_cast<u32>(x.bits) << 16); }
INLINE float to_float(float x) { return x; }
INLINE float to_float(double x) { return static_cast<float>(x); }

INLINE float to_float(Half x) {
    const u32 size = x.bits & 0x7FFFu, sign = static_cast<u32>(x.bits & 0x8000u) << 16;
    const u32 normal = (size << 13) + picked(size >= 0x7C00u, 224u << 23, 112u << 23);
    const float tiny = static_cast<float>(static_cast<i32>(size)) * 5.9604644775390625e-08f;  // in units of 2**-24
    return number_of(picked(size < 0x400u, word_of(tiny), normal) | sign);
}

INLINE void convert(float x, float& out) { out = x; }
INLINE void convert(float x, double& out) { out = x; }

// Round to the nearest, and ties to the even one.
INLINE void convert(float x, Brain& out) {
    const u32 bits = word_of(x), rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const u32 nan = 0x7FC0u | ((bits >> 16) & 0x8000u);
    out.bits = static_cast<u16>(picked(x != x, nan, rounded));
}

INLINE void convert(float x, Half& out) {
    constexpr u32 first = 113u << 23, last = 143u << 23;  // the exponents of 2**-14, the least normal half, and 2**16
    const u32 bits = word_of(x), sign = (bits >> 16) & 0x8000u;
    u32 size = bits & 0x7FFFFFFFu;
    const u32 nan = 0x7C00u | ((size >> 13) & 0x3FFu);
    const u32 quiet = nan | (static_cast<u32>((nan & 0x3FFu) == 0) << 9);
    const bool is_nan = size > 0x7F800000u;
    size = picked(size > last, last, size);
    const u32 high = size & 0x7F800000u, exponent = picked(high < first, first, high);
    const u32 unit = exponent + (13u << 23);  // adding it rounds to a multiple of the unit of a half
    const u32 count = word_of(number_of(size) + number_of(unit)) - unit;
    const u32 found = ((exponent - first) >> 13) + count;
    out.bits = static_cast<u16>(picked(is_nan, quiet, found) | sign);
}

// Convert consecutive elements.
template <class From, class To>
INLINE void convert_all(i64 n, const From* x, To* out) {
#pragma omp simd
    for (i64 i = 0; i < n; ++i) convert(to_float(x[i]), out[i]);
}

#ifdef __F16C__
// Conversions for which the CPU has instructions: eight numbers at a time, and the rest by the formulas above.
template <>
INLINE void convert_all(i64 n, const float* x, Half* out) {
    i64 i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    }
    for (; i < n; ++i) convert(x[i], out[i]);
}

template <>
INLINE void convert_all(i64 n, const Half* x, float* out) {
    i64 i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
    }
    for (; i < n; ++i) out[i] = to_float(x[i]);
}
#endif

}  // namespace gradcore
