// Complex numbers in generated kernels: CuPy's class, and what it does otherwise than NumPy.

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

// Smith's quotient, as NumPy's: a divisor is divided by the larger of its parts, so that nothing overflows on the way, and
// what is divided by an infinite number is zero.
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

template <class T>
GRADCORE_FUNCTION complex<T> power(complex<T> x, complex<T> exponent) {
    if (exponent == complex<T>(0)) return complex<T>(1);
    if (x == complex<T>(0)) return exponent.real() > 0 && exponent.imag() == 0 ? x : complex<T>(not_a_number<T>(), not_a_number<T>());
    return pow(x, exponent);
}

// With the real part's limit near 1, where the product of the logarithm's argument would cancel.
template <class T>
GRADCORE_FUNCTION complex<T> log_one_plus(complex<T> x) {
    return complex<T>(log(hypot(x.real() + 1, x.imag())), atan2(x.imag(), x.real() + 1));
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
