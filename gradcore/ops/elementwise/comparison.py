"""Comparisons and tests of elements; the results are bool and carry no derivative."""

from __future__ import annotations

from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import composite, elementwise


@elementwise(promotion="compare")
def eq(self, other):
    """Compute ``self == other``.

    Examples
    --------
    >>> gc.eq(gc.tensor([1, 2, 3]), gc.tensor([1, 0, 3]))
    tensor([ True, False,  True])
    """


@elementwise(promotion="compare", aliases=("not_equal",))
def ne(self, other):
    """Compute ``self != other``.

    Examples
    --------
    >>> gc.ne(gc.tensor([1, 2, 3]), 2)
    tensor([ True, False,  True])
    """


@elementwise(promotion="compare -complex", aliases=("less",))
def lt(self, other):
    """Compute ``self < other``.

    Examples
    --------
    >>> gc.lt(gc.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """


@elementwise(promotion="compare -complex", aliases=("less_equal",))
def le(self, other):
    """Compute ``self <= other``.

    Examples
    --------
    >>> gc.le(gc.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """


@elementwise(promotion="compare -complex", aliases=("greater",))
def gt(self, other):
    """Compute ``self > other``.

    Examples
    --------
    >>> gc.gt(gc.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    """


@elementwise(promotion="compare -complex", aliases=("greater_equal",))
def ge(self, other):
    """Compute ``self >= other``.

    Examples
    --------
    >>> gc.ge(gc.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """


@elementwise(promotion="compare", inplace=False)
def isnan(self):
    """Return whether an element is not a number.

    Examples
    --------
    >>> gc.isnan(gc.tensor([1.0, gc.nan, gc.inf]))
    tensor([False,  True, False])
    """


@elementwise(promotion="compare", inplace=False)
def isinf(self):
    """Return whether an element is infinite.

    Examples
    --------
    >>> gc.isinf(gc.tensor([1.0, gc.nan, -gc.inf]))
    tensor([False, False,  True])
    """


@elementwise(promotion="compare", inplace=False)
def isfinite(self):
    """Return whether an element is neither infinite nor NaN.

    Examples
    --------
    >>> gc.isfinite(gc.tensor([1.0, gc.nan, gc.inf]))
    tensor([ True, False, False])
    """


@elementwise(promotion="compare -complex", inplace=False)
def isposinf(K, self):
    """Return whether an element is positive infinity.

    Examples
    --------
    >>> gc.isposinf(gc.tensor([1.0, gc.inf, -gc.inf]))
    tensor([False,  True, False])
    """
    return K.isinf(self) & ~K.signbit(self)


@elementwise(promotion="compare -complex", inplace=False)
def isneginf(K, self):
    """Return whether an element is negative infinity.

    Examples
    --------
    >>> gc.isneginf(gc.tensor([1.0, gc.inf, -gc.inf]))
    tensor([False, False,  True])
    """
    return K.isinf(self) & K.signbit(self)


@elementwise(promotion="compare", inplace=False)
def isreal(K, self):
    """Return whether the imaginary part is zero.

    Examples
    --------
    >>> gc.isreal(gc.tensor([1 + 0j, 1 + 2j]))
    tensor([ True, False])
    """
    return K.imag(self) == 0


@composite(samples=lambda: [case(floats(3, 4), floats(3, 4)), case(ints(5), ints(5))])
def isclose(F, self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """Return whether elements are equal, or finite and ``abs(self - other) <= atol + rtol * abs(other)``.

    With `equal_nan`, NaN is close to NaN.

    Examples
    --------
    >>> gc.isclose(gc.tensor([1.0, 1.0]), gc.tensor([1.0 + 1e-9, 1.1]))
    tensor([ True, False])
    """
    if self.dtype is not other.dtype:
        raise RuntimeError(f"{self.dtype.scalar_name} did not match {other.dtype.scalar_name}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol}")
    close = self == other
    if equal_nan and self.dtype.is_differentiable:
        close = close | (F.isnan(self) & F.isnan(other))
    if rtol == 0 and atol == 0:
        return close
    distance = abs(self - other) if self.dtype.category else F.logical_xor(self, other)
    allowed = atol + abs(rtol * other)
    return close | (F.isfinite(distance) & (distance <= allowed))
