"""Selection between elements: `where`, maxima, minima and bounds."""

from __future__ import annotations

from gradcore.core import dtypes
from gradcore.core.errors import warn_once
from gradcore.ops.declare.annotations import Number, Tensor
from gradcore.ops.declare.checks import check_fits
from gradcore.ops.declare.promotion import is_number
from gradcore.ops.declare.samples import Case, bools, case, complexes, floats
from gradcore.ops.declare.table import composite, elementwise

_ORDERED = "default -complex"

# -- where ---------------------------------------------------------------------------------------------------


@elementwise(
    self=lambda F, t, condition: F.where(condition, t, 0),
    other=lambda F, t, condition: F.where(condition, 0, t),
    keeps_dtype=("condition",),
    promotion="where",
    node="WhereBackward0",
    kernel="where",
    function=False,
    method=False,
    inplace=False,
)
def select_where(condition, self, other):
    """Return `self` where the condition holds, and `other` elsewhere."""


def _choices() -> list[Case]:
    tensors = [case(bools(3, 4), floats(3, 4), floats(4)), case(bools(3, 1), floats(), floats(1, 2))]
    return [
        *tensors,
        case(bools(5), floats(5), 0.5),
        case(bools(5), 1, floats(5)),
        case(bools(2), complexes(2), floats(2)),
    ]


@composite(
    method=False,
    samples=_choices,
    also={"input": "self"},
    overloads=(("", "tuple[Tensor, ...]"), ("input: Tensor | Number, other: Tensor | Number", "Tensor")),
)
def where(F, condition, self=None, other=None):
    """Select elements: `self` where the condition holds, else `other`.

    With the condition alone, return the indices where it holds.

    Examples
    --------
    >>> x = gc.tensor([-1.0, 2.0])
    >>> gc.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if self is None and other is None:
        return F.nonzero(condition, as_tuple=True)
    _check_choice(self, other)
    _check_choice(other, self)
    return F.select_where(_as_bools(F, condition), self, other)


#: Floating-point dtypes to which `where` converts only numbers that fit; PyTorch makes larger halves infinite.
_CHECKED = frozenset([dtypes.float32, dtypes.complex64, dtypes.float64, dtypes.complex128])


def _check_choice(value, other):
    """Raise an error if `value` is a number that does not fit into the dtype of the result, or an int above 64 bits."""
    if value.__class__ not in (int, float, complex):
        return
    dtype = getattr(other, "dtype", None)
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        if not -(2**63) <= value < 2**64:
            raise OverflowError("int too big to convert")
        if not (dtype or dtypes.scalar_dtype(other.__class__)).is_differentiable:
            check_fits(value, dtypes.int64)
    if dtype is not None and (dtype in _CHECKED or (value.__class__ is int and dtype.category == dtypes.INTEGER)):
        check_fits(value, dtype.to_complex() if value.__class__ is complex else dtype)


def _as_bools(F, condition):
    if getattr(condition, "dtype", None) is not dtypes.uint8:
        return condition
    warn_once("where received a uint8 condition tensor. This is deprecated: use a boolean condition instead.")
    return F.to(condition, dtypes.bool_)


@composite(
    method="where",
    function=False,
    samples=lambda: [case(floats(3, 4), bools(4), floats(3, 1)), case(floats(2), bools(2), 1)],
)
def where_of(F, self, condition, other):
    """Return `self` where the condition holds, and `other` elsewhere: `where` as a method."""
    _check_choice(other, self)
    return F.select_where(_as_bools(F, condition), self, other)


# -- maxima and minima ---------------------------------------------------------------------------------------


@elementwise(
    self=lambda F, t, self, other: F.where(self < other, 0, F.where(self == other, t / 2, t)),
    other=lambda F, t, self, other: F.where(self > other, 0, F.where(self == other, t / 2, t)),
    promotion=_ORDERED,
    inplace=False,
    accepts_scalars=("self", "other"),
)
def maximum(self, other):
    """Return the larger of two elements, or NaN if one is NaN; equal elements share the gradient.

    Examples
    --------
    >>> gc.maximum(gc.tensor([1.0, 5.0]), gc.tensor([3.0, 2.0]))
    tensor([3., 5.])
    """


@elementwise(
    self=lambda F, t, self, other: F.where(self > other, 0, F.where(self == other, t / 2, t)),
    other=lambda F, t, self, other: F.where(self < other, 0, F.where(self == other, t / 2, t)),
    promotion=_ORDERED,
    inplace=False,
    accepts_scalars=("self", "other"),
)
def minimum(self, other):
    """Return the smaller of two elements, or NaN if one is NaN; equal elements share the gradient.

    Examples
    --------
    >>> gc.minimum(gc.tensor([1.0, 5.0]), gc.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """


@elementwise(
    self=lambda F, t, self, other: F.where((self >= other) | F.isnan(other), t, 0),
    other=lambda F, t, self, other: F.where((self >= other) | F.isnan(other), 0, t),
    promotion=_ORDERED,
    inplace=False,
    accepts_scalars=("self", "other"),
)
def fmax(self, other):
    """Return the larger of two elements, ignoring NaN; of equal elements the first has the gradient.

    Examples
    --------
    >>> gc.fmax(gc.tensor([1.0, gc.nan]), gc.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """


@elementwise(
    self=lambda F, t, self, other: F.where((self <= other) | F.isnan(other), t, 0),
    other=lambda F, t, self, other: F.where((self <= other) | F.isnan(other), 0, t),
    promotion=_ORDERED,
    inplace=False,
    accepts_scalars=("self", "other"),
)
def fmin(self, other):
    """Return the smaller of two elements, ignoring NaN; of equal elements the first has the gradient.

    Examples
    --------
    >>> gc.fmin(gc.tensor([1.0, gc.nan]), gc.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """


# -- bounds --------------------------------------------------------------------------------------------------


def _is_within(F, self, min, max):
    """Return the mask of the elements of `self` within the bounds, inclusive."""
    if max is None:
        return self >= min
    if min is None:
        return self <= max
    return (self >= min) & (self <= max)


def _is_below(F, self, min, max):
    """Return the mask of the elements that a clamp sets to `min`."""
    return self < min if max is None else (self < min) & (min < max)


def _is_above(F, self, min, max):
    """Return the mask of the elements that a clamp sets to `max`."""
    return self > max if min is None else (self > max) | (max < min)


def _bounds() -> list[Case]:
    x = floats(3, 4)
    numbers = [case(x, -0.5, 0.5), case(x, min=0), case(x, max=0.1), case(x, 1, -1)]
    tensors = [case(x, floats(4), floats(3, 1)), case(x, floats(4)), case(x, None, floats())]
    return [*numbers, *tensors]


@composite(inplace="function", aliases=("clip",), samples=_bounds)
def clamp(F, self, min: Tensor | Number | None = None, max: Tensor | Number | None = None):
    """Compute ``minimum(maximum(self, min), max)``; the bounds are numbers, tensors or, one of them, None.

    Examples
    --------
    >>> gc.clamp(gc.tensor([-2.0, 0.5, 3.0]), min=-1, max=1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if all(bound is None or is_number(bound) for bound in (min, max)):
        return F.clamp_numbers(self, min, max)
    return F.clamp_tensors(self, min, max)


@elementwise(
    lambda F, t, self, min, max: F.where(_is_within(F, self, min, max), t, 0),
    node="ClampBackward1",
    promotion="settings -complex",
    kernel="clamp",
    function=False,
    method=False,
)
def clamp_numbers(self, min: Number | None = -1, max: Number | None = 1):
    """Clamp between bounds that are numbers."""


@elementwise(
    self=lambda F, t, self, min, max: F.where(_is_within(F, self, min, max), t, 0),
    min=lambda F, t, self, min, max: F.where(_is_below(F, self, min, max), t, 0),
    max=lambda F, t, self, min, max: F.where(_is_above(F, self, min, max), t, 0),
    node="ClampBackward0",
    promotion=_ORDERED,
    kernel="clamp",
    function=False,
    method=False,
)
def clamp_tensors(self, min=None, max=None):
    """Clamp between bounds that are tensors."""


@composite(inplace="function", samples=lambda: [case(floats(3, 4), 0.5), case(floats(3, 4), floats(4))])
def clamp_min(F, self, min):
    """Compute ``maximum(self, min)`` for a number or a tensor; at ties all of the gradient goes to `self`.

    Examples
    --------
    >>> gc.clamp_min(gc.tensor([-2.0, 0.5]), 0)
    tensor([0.0000, 0.5000])
    """
    return F.clamp_min_number(self, min) if is_number(min) else F.clamp_min_tensor(self, min)


@composite(inplace="function", samples=lambda: [case(floats(3, 4), 0.5), case(floats(3, 4), floats(4))])
def clamp_max(F, self, max):
    """Compute ``minimum(self, max)`` for a number or a tensor; at ties all of the gradient goes to `self`.

    Examples
    --------
    >>> gc.clamp_max(gc.tensor([0.5, 3.0]), 1)
    tensor([0.5000, 1.0000])
    """
    return F.clamp_max_number(self, max) if is_number(max) else F.clamp_max_tensor(self, max)


@elementwise(
    lambda F, t, self, min: F.where(self >= min, t, 0),
    node="ClampMinBackward0",
    promotion="settings -complex",
    kernel="clamp_min",
    function=False,
    method=False,
)
def clamp_min_number(K, self, min: Number = 0):
    """Clamp from below by a number."""
    return K.clamp(self, min, None)


@elementwise(
    lambda F, t, self, max: F.where(self <= max, t, 0),
    node="ClampMaxBackward0",
    promotion="settings -complex",
    kernel="clamp_max",
    function=False,
    method=False,
)
def clamp_max_number(K, self, max: Number = 0):
    """Clamp from above by a number."""
    return K.clamp(self, None, max)


@elementwise(
    self=lambda F, t, self, min: F.where(self >= min, t, 0),
    min=lambda F, t, self, min: F.where(self < min, t, 0),
    node="ClampMinBackward1",
    promotion=_ORDERED,
    kernel="maximum",
    function=False,
    method=False,
)
def clamp_min_tensor(self, min):
    """Clamp from below by a tensor."""


@elementwise(
    self=lambda F, t, self, max: F.where(self <= max, t, 0),
    max=lambda F, t, self, max: F.where(self > max, t, 0),
    node="ClampMaxBackward1",
    promotion=_ORDERED,
    kernel="minimum",
    function=False,
    method=False,
)
def clamp_max_tensor(self, max):
    """Clamp from above by a tensor."""


@elementwise(
    lambda F, t, self: F.where(F.isfinite(self), t, 0),
    promotion="default",
    computes_half_in_float=False,
    inplace="function",
    saved={"nan": None, "neginf": None, "posinf": None},
)
def nan_to_num(self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None):
    """Replace NaN by 0, and infinities by the largest and the smallest number of the dtype.

    Examples
    --------
    >>> gc.nan_to_num(gc.tensor([gc.nan, 1.0, gc.inf]), nan=0.0, posinf=9.0)
    tensor([0., 1., 9.])
    """
