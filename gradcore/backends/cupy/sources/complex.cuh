// Complex numbers in generated kernels: CuPy's class, and functions for which it differs from NumPy.

#pragma once

#include <cupy/complex.cuh>

#include "elementwise.cuh"

namespace gradcore {

template <class T>
struct Cast<complex<T>> {
    template <class From>
    static GRADCORE_FUNCTION complex<T> of(From x) {
        return complex<T>(static_cast<T>(x));
    }
    template <class From>
    static GRADCORE_FUNCTION complex<T> of(complex<From> x) {
        return complex<T>(static_cast<T>(x.real()), static_cast<T>(x.imag()));
    }
};

template <class T>
GRADCORE_FUNCTION bool is_nan(complex<T> x) {
    return is_nan(x.real()) || is_nan(x.imag());
}

template <class T>
GRADCORE_FUNCTION bool is_finite(complex<T> x) {
    return is_finite(x.real()) && is_finite(x.imag());
}

template <class T>
GRADCORE_FUNCTION bool is_infinite(complex<T> x) {
    return is_infinite(x.real()) || is_infinite(x.imag());
}

template <class T>
GRADCORE_FUNCTION T magnitude(complex<T> x) {
    return hypot(x.real(), x.imag());
}

// The quotient by Smith's algorithm, as in NumPy. The divisor is divided by its larger part, so that no intermediate
// result overflows, and a quotient by an infinite number is zero.
template <class T>
GRADCORE_FUNCTION complex<T> quotient(complex<T> x, complex<T> y) {
    const T real = fabs(y.real()), imag = fabs(y.imag());
    if (real == 0 && imag == 0) return complex<T>(x.real() / real, x.imag() / real);
    if (real >= imag) {
        const T ratio = y.imag() / y.real(), scale = 1 / (y.real() + y.imag() * ratio);
        return complex<T>((x.real() + x.imag() * ratio) * scale, (x.imag() - x.real() * ratio) * scale);
    }
    const T ratio = y.real() / y.imag(), scale = 1 / (y.imag() + y.real() * ratio);
    return complex<T>((x.real() * ratio + x.imag()) * scale, (x.imag() * ratio - x.real()) * scale);
}

template <class T>
GRADCORE_FUNCTION complex<T> inverse(complex<T> x) {
    if (fabs(x.imag()) <= fabs(x.real())) {
        const T ratio = x.imag() / x.real(), size = x.real() + x.imag() * ratio;
        return complex<T>(1 / size, -ratio / size);
    }
    const T ratio = x.real() / x.imag(), size = x.real() * ratio + x.imag();
    return complex<T>(ratio / size, -1 / size);
}

// CuPy's functions return NaN in both parts if one part is infinite and the other NaN.
template <class T>
GRADCORE_FUNCTION complex<T> logarithm(complex<T> x) {
    return is_infinite(x) ? complex<T>(infinity<T>(), atan2(x.imag(), x.real())) : log(x);
}

template <class T>
GRADCORE_FUNCTION complex<T> logarithm_base_two(complex<T> x) {
    return logarithm(x) * T(1.44269504088896340736);
}

template <class T>
GRADCORE_FUNCTION complex<T> logarithm_base_ten(complex<T> x) {
    return logarithm(x) * T(0.43429448190325182765);
}

// A product as in C, from which NumPy computes powers. It is infinite if an operand is, even if its parts would be NaN.
template <class T>
GRADCORE_FUNCTION complex<T> infinite_product(complex<T> x, complex<T> y) {
    const complex<T> plain = x * y;
    if (!is_nan(plain.real()) || !is_nan(plain.imag())) return plain;
    T parts[4] = {x.real(), x.imag(), y.real(), y.imag()};
    bool infinite = false;
    for (i32 k = 0; k < 4; k += 2) {
        if (!is_infinite(parts[k]) && !is_infinite(parts[k + 1])) continue;
        for (i32 j = k; j < k + 2; ++j) parts[j] = copysign(T(is_infinite(parts[j])), parts[j]);
        for (i32 j = 2 - k; j < 4 - k; ++j) parts[j] = is_nan(parts[j]) ? copysign(T(0), parts[j]) : parts[j];
        infinite = true;
    }
    for (i32 k = 0; k < 4 && !infinite; ++k) {
        if (!is_infinite(parts[k / 2] * parts[2 + k % 2])) continue;
        for (T& part : parts) part = is_nan(part) ? copysign(T(0), part) : part;
        infinite = true;
    }
    if (!infinite) return plain;
    const T scale = infinity<T>();
    return complex<T>(scale * (parts[0] * parts[2] - parts[1] * parts[3]), scale * (parts[0] * parts[3] + parts[1] * parts[2]));
}

// Compute powers with small integer exponents by multiplication, as NumPy does.
template <class T>
GRADCORE_FUNCTION complex<T> power(complex<T> x, complex<T> exponent) {
    if (exponent == complex<T>(0)) return complex<T>(1);
    if (x == complex<T>(0)) {
        return exponent.real() > 0 ? complex<T>(0) : complex<T>(not_a_number<T>(), not_a_number<T>());
    }
    if (exponent.imag() == 0 && fabs(exponent.real()) < 100 && rint(exponent.real()) == exponent.real()) {
        if (exponent.real() == 1) return x;
        if (exponent.real() == 2) return x * x;
        if (exponent.real() == 3) return x * (x * x);
        complex<T> square = x, result(1);
        for (i32 left = static_cast<i32>(fabs(exponent.real()));; square = square * square) {
            if (left & 1) result = result * square;
            if (!(left >>= 1)) break;
        }
        return exponent.real() < 0 ? quotient(complex<T>(1), result) : result;
    }
    return exp(infinite_product(exponent, logarithm(x)));
}

// If the real part is 0 and the imaginary part infinite or NaN, CuPy's function returns NaN in both parts.
template <class T>
GRADCORE_FUNCTION complex<T> hyperbolic_tangent(complex<T> x) {
    return x.real() == 0 && !is_finite(x.imag()) ? complex<T>(x.real(), not_a_number<T>()) : tanh(x);
}

template <class T>
GRADCORE_FUNCTION complex<T> tangent(complex<T> x) {
    const complex<T> turned = hyperbolic_tangent(complex<T>(-x.imag(), x.real()));
    return complex<T>(turned.imag(), -turned.real());
}

template <class T>
GRADCORE_FUNCTION complex<T> inverse_hyperbolic_cosine(complex<T> x) {
    return x.real() == 0 && is_nan(x.imag()) ? complex<T>(x.imag(), T(1.57079632679489661923)) : acosh(x);
}

template <class T>
GRADCORE_FUNCTION complex<T> exp_minus_one(complex<T> x) {
    const T half = sin(x.imag() / 2);
    return complex<T>(expm1(x.real()) * cos(x.imag()) - 2 * half * half, exp(x.real()) * sin(x.imag()));
}

template <class T>
GRADCORE_FUNCTION complex<T> exp_base_two(complex<T> x) {
    return exp(x * T(0.69314718055994530942));
}

}  // namespace gradcore
