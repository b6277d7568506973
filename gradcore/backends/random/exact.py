"""Elementary functions that give the same bits on every device.

The mathematical libraries of CPUs and GPUs differ in the last bits of ``log`` or ``exp``. Random numbers must
not, so the functions here use only what IEEE 754 defines exactly: ``+ - * /``, ``sqrt``, rounding to an
integer, conversions and operations on the bits. Each array operation rounds once: no multiply and add is ever
fused.

Arrays are float32 or float64, of at least one dimension; where a function needs the array library (NumPy,
CuPy), it comes first, as `xp`. ``cuda/philox.cuh`` holds the functions that its kernels need, for one number
at a time; the tests compare the two bit for bit.

The rational approximations are minimax fits made for this file (Remez exchange with 50 digits, then rounded).
The normal quantile follows the plan of algorithm AS 241 (M. J. Wichura, "The Percentage Points of the Normal
Distribution", Applied Statistics 37, 1988, 477-484): one rational function in the centre, and one of
``sqrt(-log(t))`` in the tails. Here both only correct a leading term, so that their rounding errors hardly
count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.core.typing import NUMPY, NamedTuple

Array = Any
Coefficients = tuple[float, ...]


class Format(NamedTuple):
    """A binary floating-point format, and the coefficients of its approximations from the lowest power up."""

    real: type
    signed: type
    unsigned: type
    bits: int
    fraction: int  # bits of the fraction field
    bias: int  # of the exponent field
    sqrt_half: int  # the bits of sqrt(1/2)
    sqrt_two_pi: float
    pi: float
    per_ln2: float  # 1 / ln 2
    ln2_high: float  # few bits, so that its product with an exponent is exact
    ln2_low: float
    exp_range: tuple[float, float]  # outside it, exp is 0 or inf
    log: Coefficients
    exp: Coefficients
    tangent: tuple[Coefficients, Coefficients]
    centre: tuple[Coefficients, Coefficients]
    tail: tuple[Coefficients, Coefficients]


FLOAT32 = Format(
    real=np.float32,
    signed=np.int32,
    unsigned=np.uint32,
    bits=32,
    fraction=23,
    bias=127,
    sqrt_half=0x3F3504F3,
    sqrt_two_pi=2.5066283,
    pi=3.1415927,
    per_ln2=1.442695,
    ln2_high=45426 / 2**16,
    ln2_low=1.4286068e-06,
    exp_range=(-104.0, 89.0),
    log=(0.66666776, 0.39977497, 0.29873076),
    exp=(0.49999994, 0.1666652, 0.041668396, 0.008368782, 0.0013814385),
    tangent=((10.335425, -4.558799), (1.0, -4.388927, 1.555817)),
    centre=((5.0894127, 77.61739, 229.1295, 30.321047), (1.0, 21.776972, 125.87763, 169.824)),
    tail=(
        (-0.24862698, 0.46274257, 0.57364136, 0.16079663, 0.012043091),
        (1.0, 1.0916227, 0.34678409, 0.029040424),
    ),
)

FLOAT64 = Format(
    real=np.float64,
    signed=np.int64,
    unsigned=np.uint64,
    bits=64,
    fraction=52,
    bias=1023,
    sqrt_half=0x3FE6A09E667F3BCD,
    sqrt_two_pi=2.5066282746310007,
    pi=3.141592653589793,
    per_ln2=1.4426950408889634,
    ln2_high=1524246769572 / 2**41,
    ln2_low=-1.7239444525614835e-13,
    exp_range=(-746.0, 710.0),
    log=(
        0.6666666666666735,
        0.3999999999941136,
        0.28571428743206656,
        0.22222198481154362,
        0.18183569505650157,
        0.1531390835368053,
        0.14797464946305933,
    ),
    exp=(
        0.5000000000000011,
        0.1666666666666641,
        0.04166666666652919,
        0.008333333333495717,
        0.0013888888943922276,
        0.00019841269504566983,
        2.4801492762804077e-05,
        2.7557587514363896e-06,
        2.763037872326115e-07,
        2.499991295131864e-08,
    ),
    tangent=(
        (10.33542556009994, -6.561950794332971, 0.7396575034962379, -0.0005335384365220621),
        (1.0, -4.582740706412912, 2.3925047151341996, -0.2461675569435343),
    ),
    centre=(
        (
            5.0894155459982295,
            213.2450466717518,
            3334.0182620277774,
            24182.50099817065,
            82422.0081627949,
            118152.12707073137,
            51357.217287317704,
            805.7645860597261,
        ),
        (
            1.0,
            48.426116883687065,
            909.8473558283939,
            8399.854291756674,
            39887.32431520449,
            93295.27069993428,
            93440.45321345361,
            27932.630602892834,
        ),
    ),
    tail=(
        (
            -0.24862707094296443,
            0.1135724351108346,
            1.0403978275166839,
            1.2606739112970504,
            0.7415909217641734,
            0.2526013447911658,
            0.05194641500548657,
            0.006313908016902205,
            0.00042078417320517633,
            1.3185447929107896e-05,
            1.3627913082481982e-07,
        ),
        (
            1.0,
            2.496021487636657,
            2.616355030092585,
            1.5073234921545302,
            0.5224004166706584,
            0.11111165358396224,
            0.014056167776238162,
            0.0009725774510164889,
            3.1342402919257704e-05,
            3.2899804213028864e-07,
        ),
    ),
)

# The quantile changes from the centre to the tails at q = CENTRE; the rational functions are written in the
# distance from a point just outside their range, which makes all coefficients of a denominator positive.
CENTRE = 109 / 256
_CENTRE_POINT = 3 / 16
_TAIL_POINT = 1.5


def format_of(array: Array) -> Format:
    """Return the `Format` of an array of 32-bit or 64-bit numbers."""
    return FLOAT32 if array.dtype.itemsize == 4 else FLOAT64


def polynomial(x: Array, coefficients: Coefficients) -> Array:
    """Evaluate a polynomial by Horner's rule."""
    value = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


def rational(x: Array, coefficients: tuple[Coefficients, Coefficients]) -> Array:
    """Evaluate the quotient of two polynomials."""
    value = polynomial(x, coefficients[0])
    value /= polynomial(x, coefficients[1])
    return value


def select(mask: Array, chosen: Array, other: Array) -> Array:
    """Return `chosen` where the integer `mask` is -1 and `other` where it is 0, without branches."""
    form = format_of(chosen)
    bits = chosen.view(form.signed) ^ other.view(form.signed)
    bits &= mask
    bits ^= other.view(form.signed)
    return bits.view(form.real)


def _split(x: Array) -> tuple[Array, Array]:
    """Return integer e and real f with x = 2**e * (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for positive normal x."""
    form = format_of(x)
    bits = x.view(form.signed)
    exponent = bits - form.sqrt_half
    exponent >>= form.fraction
    fraction = (bits - (exponent << form.fraction)).view(form.real)
    fraction -= 1
    return exponent, fraction


def _log_join(exponent: Array, f: Array) -> Array:
    """Return the logarithm of 2**exponent * (1 + f).

    log(1 + f) = f - (f*f/2 - s*(f*f/2 + R(s*s))) with s = f/(2 + f).
    """
    form = format_of(f)
    s = f / (f + 2)
    square = s * s
    value = polynomial(square, form.log)
    value *= square
    half_square = f * f
    half_square *= 0.5
    value += half_square
    value *= s
    half_square -= value
    exponent = exponent.astype(form.real)
    value = exponent * form.ln2_low
    value += f - half_square
    exponent *= form.ln2_high
    value += exponent
    return value


def log(x: Array) -> Array:
    """Return the natural logarithm of positive, finite, normal numbers."""
    return _log_join(*_split(x))


def minus_log_complement(p: Array, complement: Array) -> Array:
    """Return ``-log(1 - p)`` for 0 < p < 1, precise near p = 0 as well; `complement` is 1 - p."""
    exponent, f = _split(complement)
    # The exponent is zero where 1 - p > sqrt(1/2); -p is then the exact value of what 1 - p was rounded from.
    scaled = exponent | -exponent
    scaled >>= format_of(p).bits - 1
    return -_log_join(exponent, select(scaled, f, -p))


def exp(xp: Any, x: Array) -> Array:
    """Return the exponential: exp(x) = 2**n * exp(r), with r = x - n*ln(2) at most ln(2)/2."""
    form = format_of(x)
    x = xp.minimum(xp.maximum(x, form.exp_range[0]), form.exp_range[1])
    n = xp.rint(x * form.per_ln2)
    r = x - n * form.ln2_high
    r -= n * form.ln2_low
    value = polynomial(r, form.exp)
    value *= r * r
    value += r
    value += 1
    # 2**n in two factors: one alone could leave the range of the format although the product does not.
    n = n.astype(form.signed)
    first = n >> 1
    for power in (first, n - first):
        value *= ((power + form.bias) << form.fraction).view(form.real)
    return value


def tan_pi(y: Array) -> Array:
    """Return ``tan(pi * y)`` for 0 < y <= 1/4."""
    form = format_of(y)
    square = y * y
    value = rational(square, form.tangent)
    value *= square
    value += form.pi
    value *= y
    return value


def midpoints(k: Array, exponent: int) -> Array:
    """Return ``(k + 1/2) * 2**exponent`` as real numbers, for signed integers k >= 0."""
    form = format_of(k)
    value = k.astype(form.real)
    value += 0.5
    value *= 2.0**exponent
    return value


def _quantile_tail(xp: Any, k: Array) -> Array:
    form = format_of(k)
    t = midpoints(np.iinfo(form.signed).max - k, -form.bits)
    r = xp.sqrt(-log(t))
    value = rational(r - _TAIL_POINT, form.tail)
    value += r
    return value


def normal_quantile(xp: Any, k: Array) -> Array:
    """Return the positive z at which the normal distribution function is 1/2 + (k + 1/2) / 2**bits.

    Parameters
    ----------
    xp : module
        The array library.
    k : array
        Signed integers, not negative, of 32 or 64 `bits`.

    Returns
    -------
    array
        z in float32 or float64, within 3 units in the last place.
    """
    form = format_of(k)
    q = midpoints(k, -form.bits)
    square = q * q
    z = rational(_CENTRE_POINT - square, form.centre)
    z *= square
    z += form.sqrt_two_pi
    z *= q
    in_tail = q > CENTRE
    if xp is not NUMPY:
        return xp.where(in_tail, _quantile_tail(xp, k), z)
    # Only one element in seven is in a tail, so the others are left out.
    index = np.flatnonzero(in_tail)
    z[index] = _quantile_tail(np, k[index])
    return z
