"""Logic of truth values and of bits; results carry no derivative."""

from __future__ import annotations

from gradcore.ops.declare.table import elementwise

_BITS = "default -float -complex"


@elementwise(promotion="compare", accepts_scalars=("self", "other"))
def logical_and(self, other):
    """Return whether both elements are nonzero.

    Examples
    --------
    >>> gc.logical_and(gc.tensor([True, True]), gc.tensor([True, False]))
    tensor([ True, False])
    """


@elementwise(promotion="compare", accepts_scalars=("self", "other"))
def logical_or(self, other):
    """Return whether at least one of the two elements is nonzero.

    Examples
    --------
    >>> gc.logical_or(gc.tensor([True, False]), gc.tensor([False, False]))
    tensor([ True, False])
    """


@elementwise(promotion="compare", accepts_scalars=("self", "other"))
def logical_xor(self, other):
    """Return whether exactly one element of the two is nonzero.

    Examples
    --------
    >>> gc.logical_xor(gc.tensor([True, True]), gc.tensor([True, False]))
    tensor([False,  True])
    """


@elementwise(promotion="compare")
def logical_not(self):
    """Return whether an element is zero.

    Examples
    --------
    >>> gc.logical_not(gc.tensor([True, False]))
    tensor([False,  True])
    """


@elementwise(promotion=_BITS, accepts_scalars=("self", "other"), commutative=True)
def bitwise_and(self, other):
    """Return the bits that are set in both elements.

    Examples
    --------
    >>> gc.bitwise_and(gc.tensor([12, 10]), 6)
    tensor([4, 2])
    """


@elementwise(promotion=_BITS, accepts_scalars=("self", "other"), commutative=True)
def bitwise_or(self, other):
    """Return the bits that are set in at least one of the two elements.

    Examples
    --------
    >>> gc.bitwise_or(gc.tensor([12, 10]), 6)
    tensor([14, 14])
    """


@elementwise(promotion=_BITS, accepts_scalars=("self", "other"), commutative=True)
def bitwise_xor(self, other):
    """Return the bits that are set in exactly one of the two elements.

    Examples
    --------
    >>> gc.bitwise_xor(gc.tensor([12, 10]), 6)
    tensor([10, 12])
    """


@elementwise(promotion=_BITS)
def bitwise_not(self):
    """Return the bits that are not set in the element.

    Examples
    --------
    >>> gc.bitwise_not(gc.tensor([0, 5]))
    tensor([-1, -6])
    """


@elementwise(promotion=_BITS + " -bool", accepts_scalars=("self", "other"))
def bitwise_left_shift(self, other):
    """Compute ``self * 2**other`` within the bits of the dtype.

    Examples
    --------
    >>> gc.bitwise_left_shift(gc.tensor([1, 3]), 2)
    tensor([ 4, 12])
    """


@elementwise(promotion=_BITS + " -bool", accepts_scalars=("self", "other"))
def bitwise_right_shift(self, other):
    """Compute ``self / 2**other`` rounded down; the sign stays.

    Examples
    --------
    >>> gc.bitwise_right_shift(gc.tensor([4, 12]), 2)
    tensor([1, 3])
    """
