// Functions of one element for generated kernels. They do the same as NumPy's functions of these names, for which C++
// has no function or operator. complex.cuh has the functions of complex numbers.

#pragma once

#include "numbers.cuh"

#ifdef __CUDACC__
#pragma nv_diag_suppress 186  // comparisons with zero are for signed and unsigned integers alike
#endif

namespace gradcore {

// ------------------------------------------------------------------------------------------------------- kinds

template <class T>
struct is_floating {
    static constexpr bool value = false;
};
template <>
struct is_floating<float> {
    static constexpr bool value = true;
};
template <>
struct is_floating<double> {
    static constexpr bool value = true;
};

template <class T>
struct is_unsigned {
    static constexpr bool value = false;
};
template <>
struct is_unsigned<u8> {
    static constexpr bool value = true;
};
template <>
struct is_unsigned<u16> {
    static constexpr bool value = true;
};
template <>
struct is_unsigned<u32> {
    static constexpr bool value = true;
};
template <>
struct is_unsigned<u64> {
    static constexpr bool value = true;
};

// -------------------------------------------------------------------------------------------------- conversions

// Convert negative numbers to unsigned ones by way of signed ones, so that they wrap as on a CPU. The conversion of a
// GPU gives zero.
template <class To>
struct Cast {
    template <class From>
    static GRADCORE_FUNCTION To of(From x) {
        if constexpr (is_floating<From>::value && is_unsigned<To>::value)
            if (x < 0) return static_cast<To>(static_cast<i64>(x));
        return static_cast<To>(x);
    }
};

template <>
struct Cast<bool> {
    template <class From>
    static GRADCORE_FUNCTION bool of(From x) {
        return x != From(0);
    }
};

template <class To, class From>
GRADCORE_FUNCTION To cast(From x) {
    return Cast<To>::of(x);
}

template <class T>
GRADCORE_FUNCTION bool truth(T x) {
    return x != T(0);
}

// ------------------------------------------------------------------------------------------------------ predicates

template <class T>
GRADCORE_FUNCTION bool is_nan(T x) {
    return x != x;
}

template <class T>
GRADCORE_FUNCTION bool is_finite(T x) {
    return x - x == T(0);
}

template <class T>
GRADCORE_FUNCTION bool is_infinite(T x) {
    return !is_nan(x) && !is_finite(x);
}

GRADCORE_FUNCTION bool sign_bit(float x) { return copysign(1.0f, x) < 0; }
GRADCORE_FUNCTION bool sign_bit(double x) { return copysign(1.0, x) < 0; }

template <class T>
GRADCORE_FUNCTION bool sign_bit(T x) {
    return x < T(0);
}

// -------------------------------------------------------------------------------------------------- comparisons

// Return the second of two equal numbers (0.0 and -0.0), as the CPU's `elements.h` does. `clamp` and `relu` rely on it.
template <class T>
GRADCORE_FUNCTION T maximum(T x, T y) {
    return x > y || is_nan(x) ? x : y;
}

template <class T>
GRADCORE_FUNCTION T minimum(T x, T y) {
    return x < y || is_nan(x) ? x : y;
}

template <class T>
GRADCORE_FUNCTION T larger(T x, T y) {
    return x > y || is_nan(y) ? x : y;
}

template <class T>
GRADCORE_FUNCTION T smaller(T x, T y) {
    return x < y || is_nan(y) ? x : y;
}

template <class T>
GRADCORE_FUNCTION T magnitude(T x) {
    if constexpr (is_floating<T>::value) return fabs(x);
    return x < T(0) ? static_cast<T>(-x) : x;
}

// --------------------------------------------------------------------------------------------------- quotients
//
// Integer quotients by zero are 0, as in NumPy. On the CPU they have raised an error before.

template <class T>
GRADCORE_FUNCTION bool is_minus_one(T x) {
    return x < 0 && x == static_cast<T>(-1);  // excludes the largest unsigned number
}

template <class T>
GRADCORE_FUNCTION T floor_quotient(T x, T y) {
    if constexpr (is_floating<T>::value) {
        if (y == 0) return x / y;
        T rest = fmod(x, y);
        T quotient = (x - rest) / y;
        if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
        if (quotient == 0) return copysign(T(0), x / y);
        const T whole = floor(quotient);
        return quotient - whole > T(0.5) ? whole + 1 : whole;
    } else {
        if (y == 0) return 0;
        if (is_minus_one(y)) return static_cast<T>(0 - x);  // the least integer by -1 traps on a CPU
        const T quotient = x / y;
        return static_cast<T>(quotient - (x % y != 0 && (x < 0) != (y < 0)));
    }
}

template <class T>
GRADCORE_FUNCTION T floor_rest(T x, T y) {
    if constexpr (is_floating<T>::value) {
        const T rest = fmod(x, y);
        if (y == 0) return rest;
        if (rest == 0) return copysign(T(0), y);
        return (rest < 0) != (y < 0) ? rest + y : rest;
    } else {
        if (y == 0 || is_minus_one(y)) return 0;
        const T rest = x % y;
        return static_cast<T>(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
    }
}

template <class T>
GRADCORE_FUNCTION T rest(T x, T y) {
    if constexpr (is_floating<T>::value) return fmod(x, y);
    else return y == 0 || is_minus_one(y) ? 0 : static_cast<T>(x % y);
}

template <class T>
GRADCORE_FUNCTION T common_divisor(T x, T y) {
    while (y != 0) {
        const T r = rest(x, y);
        x = y;
        y = r;
    }
    return magnitude(x);
}

template <class T>
GRADCORE_FUNCTION T common_multiple(T x, T y) {
    const T divisor = common_divisor(x, y);
    return divisor == 0 ? 0 : static_cast<T>(static_cast<u64>(magnitude(x / divisor)) * static_cast<u64>(magnitude(y)));
}

// ------------------------------------------------------------------------------------------------------- powers

template <class T>
GRADCORE_FUNCTION T power(T x, T exponent) {
    if constexpr (is_floating<T>::value) {
        return pow(x, exponent);
    } else {  // the exponent is not negative
        T result = 1;
        for (; exponent > 0; exponent = static_cast<T>(exponent >> 1)) {
            if (exponent & 1) result = static_cast<T>(result * x);
            x = static_cast<T>(x * x);
        }
        return result;
    }
}

// Shifts by at least the number of bits return 0, or -1 for negative numbers that are shifted right.
template <class T>
GRADCORE_FUNCTION T shifted_left(T x, T n) {
    return n >= 0 && static_cast<u64>(n) < 8 * sizeof(T) ? static_cast<T>(static_cast<u64>(x) << n) : T(0);
}

template <class T>
GRADCORE_FUNCTION T shifted_right(T x, T n) {
    if (n >= 0 && static_cast<u64>(n) < 8 * sizeof(T)) return static_cast<T>(x >> n);
    return x < 0 ? static_cast<T>(-1) : T(0);
}

// ------------------------------------------------------------------------------------------------ special functions

template <class T>
GRADCORE_FUNCTION T times_log(T x, T y) {
    return x == 0 && !is_nan(y) ? T(0) : x * log(y);
}

template <class T>
GRADCORE_FUNCTION T times_log1p(T x, T y) {
    return x == 0 && !is_nan(y) ? T(0) : x * log1p(y);
}

// The logarithm of the normal distribution function.
template <class T>
GRADCORE_FUNCTION T log_normal_cdf(T x) {
    const T scaled = x * T(0.70710678118654752440);
    return x < T(-1) ? log(erfcx(-scaled) / 2) - scaled * scaled : log1p(-erfc(scaled) / 2);
}

// The derivative of the logarithm of the gamma function: reflected, moved up to where the asymptotic series is exact.
template <class T>
GRADCORE_FUNCTION T digamma(T x) {
    constexpr double pi = 3.14159265358979323846;
    double y = x, result = 0;
    if (y == 0) return static_cast<T>(copysign(infinity<double>(), -y));
    if (y < 0) {
        const double part = y - rint(y);  // equals y for small numbers
        if (part == 0) return not_a_number<T>();
        result = -pi / tan(pi * part);
        y = 1 - y;
    }
    for (; y < 10; y += 1) result -= 1 / y;
    const double z = 1 / (y * y);
    const double series =
        z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return static_cast<T>(result + log(y) - 0.5 / y - series);
}

}  // namespace gradcore
