// Functions of one element that generated loops call. They have the names of NumPy's functions, and no branches, so
// that the compiler can use all SIMD lanes. For NaN, infinities, signed zeros and subnormal numbers, their results
// equal NumPy's. The largest errors of exp, expm1, log, log1p and tanh are in tests/compiled/test_elementwise.py.

#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

// Functions must be inlined: a loop with a function call cannot be vectorized.
#define INLINE inline __attribute__((always_inline))

namespace gradcore {

using i8 = int8_t;
using u8 = uint8_t;
using i16 = int16_t;
using u16 = uint16_t;
using i32 = int32_t;
using u32 = uint32_t;
using i64 = int64_t;
using u64 = uint64_t;

template <class T>
INLINE T infinity() {
    return std::numeric_limits<T>::infinity();
}

template <class T>
INLINE T not_a_number() {
    return std::numeric_limits<T>::quiet_NaN();
}

// ------------------------------------------------------------------------------------------------------ bits of floats

// Constants of a floating-point type: its layout in bits, and limits and coefficients of the functions below.
template <class T>
struct Format;

template <>
struct Format<float> {
    using Bits = i32;
    static constexpr int fraction = 23, bias = 127;
    static constexpr i32 half_root = 0x3F3504F3;  // the bits of the root of 1/2
    // The product of ln2_high with a whole number below 2**8 is exact.
    static constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static constexpr float round = 12582912.0f;  // 1.5 * 2**23: adding it rounds to a whole number
    static constexpr float lowest = -104.0f, lowest_normal = -87.3f, highest = 89.0f, minus_one = -18.0f, tanh_one = 9.1f;
    static constexpr float lowest_half = -86.6f;  // above it, exp(x) / 2 is normal
    // (exp(x) - 1 - x) / x**2 for abs(x) < 0.35, and (log(1 + x) - x + x**2 / 2) / x**3 for 1 + x between the roots of 1/2
    // and of 2. Fitted by least squares, with weights adjusted until the error was even: .05 and .1 units of the results.
    static constexpr float exp_series[] = {0.49999994f,    0.166665196f,   4.16683927e-2f,
                                           8.36878084e-3f, 1.38144672e-3f};
    static constexpr float log_series[] = {0.333333313f,  -0.250008196f, 0.200012267f,  -0.166233569f,
                                           0.142017573f,  -0.131601825f, 0.127615824f, -7.6345004e-2f};
};

template <>
struct Format<double> {
    using Bits = i64;
    static constexpr int fraction = 52, bias = 1023;
    static constexpr i64 half_root = 0x3FE6A09E667F3BCD;
    static constexpr double log2_e = 1.4426950408889634074, ln2_high = 0.69314718036912381649,
                            ln2_low = 1.90821492927058770002e-10;
    static constexpr double round = 6755399441055744.0;
    static constexpr double lowest = -746.0, lowest_normal = -708.3, highest = 710.0, minus_one = -40.0, tanh_one = 22.0;
    static constexpr double lowest_half = -707.7;
    // Taylor's series of (exp(x) - 1 - x) / x**2, and the series of atanh(x) / x in x**2 after the first term.
    static constexpr double exp_series[] = {1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,
                                            1.0 / 720,    1.0 / 5040,    1.0 / 40320,    1.0 / 362880,
                                            1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    static constexpr double atanh_series[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                              1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
};

template <class T>
INLINE typename Format<T>::Bits bits_of(T x) {
    typename Format<T>::Bits bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

template <class T>
INLINE T float_of(typename Format<T>::Bits bits) {
    T x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

// Return x * y + z, rounded once if the CPU has fast instructions for it.
template <class T>
INLINE T fused(T x, T y, T z) {
#if defined(__FMA__) || defined(__aarch64__)
    if constexpr (sizeof(T) == 4) return __builtin_fmaf(x, y, z);
    else return __builtin_fma(x, y, z);
#else
    return x * y + z;
#endif
}

// Integer sums, differences and shifts that wrap around instead of overflowing. They are also computed for the bits of
// NaN and of other numbers, whose results are then not used.
template <class I>
INLINE I plus(I x, I y) {
    using U = std::make_unsigned_t<I>;
    return static_cast<I>(static_cast<U>(x) + static_cast<U>(y));
}

template <class I>
INLINE I minus(I x, I y) {
    using U = std::make_unsigned_t<I>;
    return static_cast<I>(static_cast<U>(x) - static_cast<U>(y));
}

template <class I>
INLINE I shifted(I x, int places) {
    return static_cast<I>(static_cast<std::make_unsigned_t<I>>(x) << places);
}

// Return 2**n, which must be a normal number.
template <class T>
INLINE T power_of_two(typename Format<T>::Bits n) {
    using F = Format<T>;
    return float_of<T>(shifted<typename F::Bits>(plus<typename F::Bits>(n, F::bias), F::fraction));
}

// ------------------------------------------------------------------------------------------------- simple functions

template <class To, class From>
INLINE To cast(From x) {
    if constexpr (std::is_same_v<To, bool>) return x != From(0);
    else return static_cast<To>(x);
}

// Return condition ? x : y, computed by masks. Compilers would translate the operator to branches, which prevent
// vectorization.
template <class T>
INLINE T chosen(bool condition, T x, T y) {
    if constexpr (std::is_same_v<T, bool>) {
        return (condition & x) | (!condition & y);
    } else if constexpr (std::is_integral_v<T>) {
        return condition ? x : y;
    } else {
        const typename Format<T>::Bits mask = -static_cast<typename Format<T>::Bits>(condition);
        return float_of<T>((bits_of(x) & mask) | (bits_of(y) & ~mask));
    }
}

// Return the maximum or minimum of a number and a bound, or NaN if the number is NaN. This is one instruction. For both
// bounds in one expression, compilers would emit branches.
template <class T>
INLINE T at_least(T bound, T x) {
    return x < bound ? bound : x;
}

template <class T>
INLINE T at_most(T bound, T x) {
    return x > bound ? bound : x;
}

template <class T>
INLINE bool truth(T x) {
    return x != T(0);
}

template <class T>
INLINE bool is_nan(T x) {
    return x != x;
}

template <class T>
INLINE bool is_finite(T x) {
    return x - x == T(0);
}

template <class T>
INLINE bool is_infinite(T x) {
    return (x == x) & !(x - x == T(0));
}

// If both numbers are equal (0.0 and -0.0), return the second one, as NumPy's functions of these names do.
template <class T>
INLINE T maximum(T x, T y) {
    return chosen((x > y) | (x != x), x, y);
}

template <class T>
INLINE T minimum(T x, T y) {
    return chosen((x < y) | (x != x), x, y);
}

template <class T>
INLINE T larger(T x, T y) {
    return chosen((x > y) | (y != y), x, y);
}

template <class T>
INLINE T smaller(T x, T y) {
    return chosen((x < y) | (y != y), x, y);
}

template <class T>
INLINE T magnitude(T x) {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    else return x < T(0) ? minus(T(0), x) : x;
}

INLINE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
INLINE double copysign(double x, double y) { return __builtin_copysign(x, y); }
INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
INLINE double sqrt(double x) { return __builtin_sqrt(x); }
INLINE float floor(float x) { return __builtin_floorf(x); }
INLINE double floor(double x) { return __builtin_floor(x); }
INLINE float ceil(float x) { return __builtin_ceilf(x); }
INLINE double ceil(double x) { return __builtin_ceil(x); }
INLINE float trunc(float x) { return __builtin_truncf(x); }
INLINE double trunc(double x) { return __builtin_trunc(x); }
INLINE float rint(float x) { return __builtin_rintf(x); }
INLINE double rint(double x) { return __builtin_rint(x); }

// ----------------------------------------------------------------------------------------- exponentials and logarithms

// Return the polynomial with these coefficients, from the constant to the highest power.
template <class T, int terms>
INLINE T polynomial(const T (&coefficients)[terms], T x) {
    T sum = coefficients[terms - 1];
#pragma GCC unroll 16
    for (int i = terms - 2; i >= 0; --i) sum = fused(sum, x, coefficients[i]);
    return sum;
}

// The decomposition x = n * ln(2) + rest with an integer n.
template <class T>
struct Reduced {
    typename Format<T>::Bits n;
    T rest;

    INLINE explicit Reduced(T x) {
        using F = Format<T>;
        const T moved = fused(x, F::log2_e, F::round);
        n = minus(bits_of(moved), bits_of(F::round));
        const T whole = moved - F::round;
        rest = fused(-whole, F::ln2_low, fused(-whole, F::ln2_high, x));
    }
};

// exp(x) for abs(x) < 0.35.
template <class T>
INLINE T exp_near_zero(T x) {
    return fused(fused(polynomial(Format<T>::exp_series, x), x, T(1)), x, T(1));
}

// exp(x) - 1 for abs(x) < 0.35.
template <class T>
INLINE T exp_minus_one_near_zero(T x) {
    return fused(x * x, polynomial(Format<T>::exp_series, x), x);
}

template <class T>
INLINE T scaled(T x, typename Format<T>::Bits n) {
    const typename Format<T>::Bits half = n >> 1;  // twice, as 2**n may be out of range
    return x * power_of_two<T>(half) * power_of_two<T>(minus(n, half));
}

template <class T>
INLINE T exponential(T x) {
    using F = Format<T>;
    using Bits = typename F::Bits;
    const Reduced<T> r(at_least(F::lowest, x));
    // Half of the result, as 2**n may be out of range. Results that may be subnormal are computed 2**63 times as large.
    const bool is_small = x < F::lowest_half;
    const T half = exp_near_zero(r.rest) * power_of_two<T>(plus<Bits>(r.n, is_small ? 63 : -1));
    return chosen(x > F::highest, infinity<T>(), half * (is_small ? power_of_two<T>(-63) : T(2)));
}

// Return exp(x) for x <= 0. Subnormal results are replaced by zero.
template <class T>
INLINE T exponential_below_one(T x) {
    using F = Format<T>;
    const Reduced<T> r(at_least(F::lowest_normal, x));
    return chosen(x < F::lowest_normal, T(0), exp_near_zero(r.rest) * power_of_two<T>(r.n));
}

template <class T>
INLINE T exponential_minus_one(T x) {
    using F = Format<T>;
    T y = chosen(x < F::minus_one, F::minus_one, x);
    y = chosen(y > F::highest, F::highest, y);
    const Reduced<T> r(y);
    const T near = exp_minus_one_near_zero(r.rest);
    const T one = chosen(r.n > 60, T(0), power_of_two<T>(minus<typename F::Bits>(0, r.n)));  // in units of 2**n
    const T result = scaled(near + (1 - one), r.n);
    return copysign(chosen(r.n == 0, near, result), x);
}

// log(1 + f) for 1 + f between the roots of 1/2 and of 2, plus n * ln(2).
template <class T>
INLINE T log_near_one(T f, T n) {
    using F = Format<T>;
    if constexpr (sizeof(T) == 4) {
        const T z = f * f;
        const T rest = fused(f * z, polynomial(F::log_series, f), fused(n, F::ln2_low, T(-0.5) * z));
        return fused(n, F::ln2_high, f + rest);
    } else {  // with s = f / (2 + f), it is 2 * atanh(s)
        const T s = f / (2 + f), z = s * s, half = T(0.5) * f * f;
        const T correction = fused(s, fused(2 * z, polynomial(F::atanh_series, z), half), n * F::ln2_low);
        return n * F::ln2_high - ((half - correction) - f);
    }
}

template <class T>
INLINE T logarithm(T x) {
    using F = Format<T>;
    const bool tiny = x < std::numeric_limits<T>::min();
    const T normal = chosen(tiny, x * power_of_two<T>(F::fraction), x);
    const typename F::Bits bits = bits_of(normal), n = minus(bits, F::half_root) >> F::fraction;
    const T f = float_of<T>(minus(bits, shifted(n, F::fraction))) - 1;
    const T whole = static_cast<T>(static_cast<i32>(n)) - chosen(tiny, T(F::fraction), T(0));
    T result = log_near_one(f, whole);
    result = chosen(x == infinity<T>(), x, result);
    result = chosen(x == 0, -infinity<T>(), result);
    return chosen(!(x >= 0), not_a_number<T>(), result);
}

template <class T>
INLINE T logarithm_of_one_plus(T x) {
    using F = Format<T>;
    const T u = 1 + x, lost = x - (u - 1);  // the rounding error of the sum
    const typename F::Bits bits = bits_of(u), n = minus(bits, F::half_root) >> F::fraction;
    const T unit = power_of_two<T>(minus<typename F::Bits>(0, n > 60 ? 60 : n));
    const T f = (float_of<T>(minus(bits, shifted(n, F::fraction))) - 1) + lost * unit;
    T result = log_near_one(f, static_cast<T>(static_cast<i32>(n)));
    result = chosen((x == infinity<T>()) | (x == 0), x, result);
    result = chosen(x == -1, -infinity<T>(), result);
    return chosen((x < -1) | (x != x), not_a_number<T>(), result);
}

template <class T>
INLINE T hyperbolic_tangent(T x) {
    const T size = at_most(Format<T>::tanh_one, std::abs(x));
    if constexpr (sizeof(T) == 4) {  // x * p(x**2) / q(x**2), fitted by least squares to 1.5e-9
        const T z = size * size;
        T p = -1.20224231e-11f, q = 1.28025705e-6f;
        p = fused(fused(fused(p, z, 3.03404329e-8f), z, 2.79056880e-5f), z, 3.86328463e-3f);
        p = fused(fused(p, z, 0.136758911f), z, 1.0f);
        q = fused(fused(fused(fused(q, z, 3.92973857e-4f), z, 2.72273839e-2f), z, 0.470092230f), z, 1.0f);
        return copysign(at_most(T(1), size * p / q), x);
    } else {
        const T e = exponential_minus_one(2 * size);
        return copysign(e / (e + 2), x);
    }
}

// Below 1.375, erf(x) is x * p(x**2) / q(x**2). Above, it is 1 - d(x)**-16, so that the difference to 1 has few
// rounding errors, which `gelu` multiplies by x. The coefficients were fitted by least squares, with weights adjusted
// until the error was even, and were rounded one at a time.
INLINE float erf(float x) {
    const float a = std::abs(x), z = a * a;
    float p = 3.32860723e-2f, q = 5.12954406e-3f, d = 1.00211531e-3f;
    p = fused(fused(p, z, 0.113962099f), z, 1.12837911f);
    q = fused(fused(fused(q, z, 7.42782131e-2f), z, 0.434329182f), z, 1.0f);
    d = fused(fused(fused(d, a, -4.09158971e-3f), a, 2.13415772e-2f), a, 2.4024386e-2f);
    d = fused(fused(d, a, 8.47007558e-2f), a, 0.995537996f);
    d *= d;
    d *= d;
    d *= d;
    d *= d;
    const bool near_zero = a < 1.375f;
    const float quotient = (near_zero ? a * p : 1.0f) / (near_zero ? q : d);
    return copysign(near_zero ? quotient : 1.0f - quotient, x);
}

#define GRADCORE_FUNCTION(name, formula)                       \
    INLINE float name(float x) { return formula(x); }          \
    INLINE double name(double x) { return formula(x); }
GRADCORE_FUNCTION(exp, exponential)
GRADCORE_FUNCTION(expm1, exponential_minus_one)
GRADCORE_FUNCTION(log, logarithm)
GRADCORE_FUNCTION(log1p, logarithm_of_one_plus)
GRADCORE_FUNCTION(tanh, hyperbolic_tangent)
#undef GRADCORE_FUNCTION

template <class T>
INLINE T times_log(T x, T y) {
    return chosen((x == 0) & (y == y), T(0), x * log(y));
}

template <class T>
INLINE T times_log1p(T x, T y) {
    return chosen((x == 0) & (y == y), T(0), x * log1p(y));
}

// ------------------------------------------------------------------------------------------------- parts of blocks

// The bytes of a register for vectors.
#if defined(__AVX512F__)
constexpr int register_size = 64;
#elif defined(__AVX__)
constexpr int register_size = 32;
#else
constexpr int register_size = 16;
#endif

// The number of elements that generated loops compute at a time: of floats, one vector.
constexpr i64 BLOCK = register_size / sizeof(float);

// Copy the first `left` elements of a block, and fill the copy up with zeros.
template <class T>
static __attribute__((noinline)) const T* load_part(T* copy, const T* block, i64 left) {
    const int size = static_cast<int>(left);
#pragma omp simd
    for (int i = 0; i < BLOCK; ++i) copy[i] = i < size ? block[i] : T(0);
    return copy;
}

// Copy the first `left` elements of the results of a block to their place.
template <class T>
static __attribute__((noinline)) void store_part(T* place, const T* results, i64 left) {
    const int size = static_cast<int>(left);
#pragma omp simd
    for (int i = 0; i < BLOCK; ++i) {
        if (i < size) place[i] = results[i];
    }
}

}  // namespace gradcore
