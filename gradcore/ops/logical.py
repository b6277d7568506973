"""Logic of truth values and of bits; results carry no derivative."""

from __future__ import annotations

from gradcore.ops.table import elementwise

_BITS = "default -float -complex"


@elementwise(promotion="compare", numbers=())
def logical_and(self, other):
    """Whether both elements are nonzero."""


@elementwise(promotion="compare", numbers=())
def logical_or(self, other):
    """Whether an element of the two is nonzero."""


@elementwise(promotion="compare", numbers=())
def logical_xor(self, other):
    """Whether exactly one element of the two is nonzero."""


@elementwise(promotion="compare")
def logical_not(self):
    """Whether an element is zero."""


@elementwise(promotion=_BITS, numbers=("self", "other"))
def bitwise_and(self, other):
    """The bits that are set in both."""


@elementwise(promotion=_BITS, numbers=("self", "other"))
def bitwise_or(self, other):
    """The bits that are set in either."""


@elementwise(promotion=_BITS, numbers=("self", "other"))
def bitwise_xor(self, other):
    """The bits that are set in one of the two."""


@elementwise(promotion=_BITS)
def bitwise_not(self):
    """The bits that are not set."""


@elementwise(promotion=_BITS + " -bool", numbers=("self", "other"))
def bitwise_left_shift(self, other):
    """``self * 2**other`` within the bits of the dtype."""


@elementwise(promotion=_BITS + " -bool", numbers=("self", "other"))
def bitwise_right_shift(self, other):
    """``self / 2**other`` rounded down; the sign stays."""
