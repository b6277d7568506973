"""Special functions: error functions, gamma functions and their relatives."""

from __future__ import annotations

import math

from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import check_count
from gradcore.ops.declare.table import composite, elementwise
from gradcore.ops.special.gammas import log_gamma_slope


def _overload(name, first, second):
    """Return PyTorch's number of the overload: 0 for two tensors, 1 or 2 if the first or second is a number."""
    number = 1 if getattr(first, "_constant", False) else 2 if getattr(second, "_constant", False) else 0
    return f"{name}Backward{number}"


_ROOT_PI = math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)

# -- error functions and the normal distribution -------------------------------------------------------------


@elementwise(
    lambda F, t, self: t * ((2 / _ROOT_PI) * F.exp(-self * self)),
    promotion="float -complex",
    aliases=("special.erf",),
)
def erf(self):
    """Return the error function.

    Examples
    --------
    >>> gc.erf(gc.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@elementwise(
    lambda F, t, self: t * ((-2 / _ROOT_PI) * F.exp(-self * self)),
    promotion="float -complex",
    aliases=("special.erfc",),
)
def erfc(self):
    """Compute ``1 - erf(self)``, accurate for large elements.

    Examples
    --------
    >>> gc.erfc(gc.tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """


@elementwise(
    lambda F, t, self: t * ((_ROOT_PI / 2) * F.exp(F.erfinv(self) ** 2)),
    promotion="float -complex",
    domain=(-0.9, 0.9),
    aliases=("special.erfinv",),
    autocast="float32:cuda",
)
def erfinv(self):
    """Return the inverse of `erf`.

    Examples
    --------
    >>> gc.erfinv(gc.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


def inverse_powers(F, x, sign, use, terms=10):
    """Return the sum of ``(2 k - 1)!! sign**k / (2 x**2)**k`` from k = 1 where `use`, else a finite number.

    For large `x` it is the remainder of an asymptotic series after its first term. Subtracting that term from the
    function would cancel.
    """
    large = F.where(use, x, 30)
    w = sign / (2 * large * large)
    total = w * 0
    for k in range(terms, 0, -1):
        total = (2 * k - 1) * w * (1 + total)
    return total


def _erfcx_slope(F, x, result):
    use = x > 15
    return F.where(use, 2 / _ROOT_PI * inverse_powers(F, x, -1, use), 2 * x * result - 2 / _ROOT_PI)


@elementwise(
    lambda F, t, self, result: t * _erfcx_slope(F, self, result),
    promotion="float -complex",
    path="special.erfcx",
    node="SpecialErfcxBackward0",
)
def erfcx(self):
    """Compute ``exp(self**2) * erfc(self)``, without overflow.

    Examples
    --------
    >>> gc.special.erfcx(gc.tensor([0.0, 10.0]))
    tensor([1.0000, 0.0561])
    """


@elementwise(
    lambda F, t, self: t * (F.exp(self * self * -0.5) / _ROOT_TWO_PI),
    promotion="float -complex",
    path="special.ndtr",
    node="MulBackward1",
)
def ndtr(K, self):
    """Return the distribution function of the standard normal distribution.

    Examples
    --------
    >>> gc.special.ndtr(gc.tensor([-1.0, 0.0]))
    tensor([0.1587, 0.5000])
    """
    return 0.5 * K.erfc(self * -math.sqrt(0.5))


@elementwise(
    lambda F, t, result: t * (_ROOT_TWO_PI * F.exp(result * result / 2)),
    promotion="float -complex",
    domain=(0.1, 0.9),
    path="special.ndtri",
    node="SpecialNdtriBackward0",
    slow=True,
)
def ndtri(self):
    """Return the inverse of `ndtr`.

    Examples
    --------
    >>> gc.special.ndtri(gc.tensor([0.25, 0.5]))
    tensor([-0.6745,  0.0000])
    """


def _log_ndtr_slope(F, x, result):
    use = x < -1  # where the result and half of the square nearly cancel
    tail = math.sqrt(2 / math.pi) / F.erfcx(F.where(use, x, -1) * -math.sqrt(0.5))
    return F.where(use, tail, F.exp(-(result + x * x / 2)) / _ROOT_TWO_PI)


@elementwise(
    lambda F, t, self, result: t * _log_ndtr_slope(F, self, result),
    promotion="float -complex",
    path="special.log_ndtr",
    node="SpecialLogNdtrBackward0",
    slow=True,
)
def log_ndtr(self):
    """Return the logarithm of `ndtr`, accurate in the tails.

    Examples
    --------
    >>> gc.special.log_ndtr(gc.tensor([-10.0, 0.0]))
    tensor([-53.2313,  -0.6931])
    """


# -- gamma functions -----------------------------------------------------------------------------------------


@elementwise(
    lambda F, t, self: t * F.digamma(self),
    promotion="float -complex",
    domain=(0.3, 4),
    aliases=("special.gammaln",),
    slow=True,
)
def lgamma(self):
    """Return the logarithm of the magnitude of the gamma function.

    Examples
    --------
    >>> gc.lgamma(gc.tensor([0.5, 5.0]))
    tensor([0.5724, 3.1781])
    """


@elementwise(
    lambda F, t, self: t * F.polygamma(1, self),
    promotion="float -complex",
    domain=(0.3, 4),
    aliases=("special.digamma", "special.psi"),
    slow=True,
)
def digamma(self):
    """Return the derivative of `lgamma`.

    Examples
    --------
    >>> gc.digamma(gc.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """


@elementwise(
    self=lambda F, t, n, self: t * F.polygamma(n + 1, self),
    promotion="float -complex",
    domain=(0.3, 4),
    method=False,
    inplace=False,
    aliases=("special.polygamma",),
    samples=lambda: [case(0, floats(3, 4)), case(1, floats(2)), case(3, floats()), case(2, floats(0, 2))],
)
def polygamma(n: int, self):
    """Return the n-th derivative of `digamma`.

    Examples
    --------
    >>> gc.polygamma(1, gc.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """


@composite(method="polygamma", function=False, inplace=True, samples=lambda: [case(floats(3, low=0.3), 1)])
def polygamma_of(F, self, n: int):
    """Return the n-th derivative of `digamma`."""
    return F.polygamma(n, self)


@elementwise(
    lambda F, t, self, p: t * _sum_shifted(F.digamma, self, p),
    promotion="float -complex",
    domain=(3, 6),
    aliases=("special.multigammaln",),
    samples=lambda: [case(floats(3, 4), 1), case(floats(2), 3), case(floats(), 5), case(floats(0, 2), 2)],
)
def mvlgamma(K, self, p: int):
    """Return the logarithm of the multivariate gamma function of dimension `p`.

    Examples
    --------
    >>> gc.mvlgamma(gc.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    check_count("mvlgamma", p)
    return _sum_shifted(K.lgamma, self, p) + p * (p - 1) / 4 * math.log(math.pi)


def _sum_shifted(function, x, p):
    """Compute ``function(x) + function(x - 1/2) + ...`` with `p` terms."""
    total = function(x)
    for i in range(1, p):
        total = total + function(x - i / 2)
    return total


def _order_slope(F, order, x):
    """Return the derivative of `igamma` by its order.

    It follows from the derivative of gamma-distributed numbers, at which `igamma` is constant.
    """
    end = (x == 0) | (x == math.inf)  # the function is 0 or 1 there for every order
    x = F.where(end, 1, x)
    log_x = F.log(x)
    density = F.exp(order * log_x - x - F.lgamma(order))  # by the logarithm of x
    return F.where(end, 0, -density * log_gamma_slope(F, order, log_x))


@elementwise(
    self=lambda F, t, self, other: t * _order_slope(F, self, other),
    other=lambda F, t, self, other: t * F.exp(F.xlogy(self - 1, other) - other - F.lgamma(self)),
    promotion="float -complex",
    domain=(0.3, 3),
    aliases=("special.gammainc",),
    accepts_scalars=(),
)
def igamma(self, other):
    """Return the regularized lower incomplete gamma function of order `self`.

    Examples
    --------
    >>> gc.igamma(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """


@elementwise(
    self=lambda F, t, self, other: -t * _order_slope(F, self, other),
    other=lambda F, t, self, other: -t * F.exp(F.xlogy(self - 1, other) - other - F.lgamma(self)),
    promotion="float -complex",
    domain=(0.3, 3),
    aliases=("special.gammaincc",),
    accepts_scalars=(),
)
def igammac(self, other):
    """Return the regularized upper incomplete gamma function of order `self`.

    Examples
    --------
    >>> gc.igammac(gc.tensor([1.0, 2.0]), gc.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """


#: Bernoulli numbers over factorials, ``B_2 / 2!``, ``B_4 / 4!`` ...: coefficients of the Euler-Maclaurin formula.
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000,
)  # fmt: skip


def _zeta_slope(F, s, q):
    """Return the derivative of the sum of ``(q + k) ** -s`` by `s`.

    The first terms are summed, the remaining ones are computed by the Euler-Maclaurin formula.
    """
    total = 0
    for k in range(12):
        log = F.log(q + k)
        total = total - log * F.exp(-s * log)
    q = q + 12
    log = F.log(q)
    power = F.exp(-s * log)
    total = total - power * (q * (log / (s - 1) + 1 / ((s - 1) * (s - 1))) + log / 2)
    product, logs = s, 1 / s  # s * (s + 1) ... and the derivative of its logarithm
    power = power / q
    for j, coefficient in enumerate(_BERNOULLI):
        total = total + coefficient * power * product * (logs - log)
        for i in (2 * j + 1, 2 * j + 2):
            product, logs = product * (s + i), logs + 1 / (s + i)
        power = power / (q * q)
    return F.where(s > 1, total, math.nan)  # the sum has no limit otherwise


@elementwise(
    self=lambda F, t, self, other: t * _zeta_slope(F, self, other),
    other=lambda F, t, self, other: t * (-self * F.zeta(self + 1, other)),
    promotion="float -complex",
    path="special.zeta",
    node=lambda self, other: _overload("SpecialZeta", self, other),
    samples=lambda: [
        case(ints(3, low=2), floats(3, low=0.5)),
        case(floats(3, 4, low=1.2, high=6), floats(4, low=0.5, high=3)),
    ],
    accepts_scalars=("self", "other"),
)
def zeta(self, other):
    """Return the Hurwitz zeta function.

    Examples
    --------
    >>> gc.special.zeta(gc.tensor([2.0, 3.0]), gc.tensor([1.0, 1.0]))
    tensor([1.6449, 1.2021])
    """


# -- logarithms with products --------------------------------------------------------------------------------


@elementwise(
    self=lambda F, t, self, other: F.where(F.logical_and(self == 0, other <= 0), 0, F.xlogy(t, other)),
    other=lambda F, t, self, other: t * self / other,
    promotion="float -complex",
    domain=(0.2, 3),
    node=lambda self, other: _overload("Xlogy", self, other),
    aliases=("special.xlogy",),
    accepts_scalars=("self", "other"),
    inplace="function",
)
def xlogy(self, other):
    """Compute ``self * log(other)``, and 0 where `self` is 0 (but NaN where `other` is).

    Examples
    --------
    >>> gc.xlogy(gc.tensor([0.0, 2.0]), gc.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """


@elementwise(
    self=lambda F, t, self, other: F.where(F.logical_and(self == 0, other <= -1), 0, F.xlog1py(t, other)),
    other=lambda F, t, self, other: t * self / (other + 1),
    promotion="float -complex",
    domain=(-0.8, 3),
    node=lambda self, other: _overload("SpecialXlog1Py", self, other),
    path="special.xlog1py",
    accepts_scalars=("self", "other"),
)
def xlog1py(self, other):
    """Compute ``self * log1p(other)``, and 0 where `self` is 0 (but NaN where `other` is).

    Examples
    --------
    >>> gc.special.xlog1py(gc.tensor([0.0, 2.0]), gc.tensor([-1.0, 3.0]))
    tensor([0.0000, 2.7726])
    """


@elementwise(
    lambda F, t, self: t * (-(1 + F.log(self))),
    promotion="float -complex",
    domain=(0.1, 3),
    path="special.entr",
    node="SpecialEntrBackward0",
)
def entr(K, self):
    """Compute ``-self * log(self)``, 0 at 0, and minus infinity below.

    Examples
    --------
    >>> gc.special.entr(gc.tensor([0.0, 0.5]))
    tensor([-0.0000, 0.3466])
    """
    return K.where(self < 0, -math.inf, -K.xlogy(self, self))
