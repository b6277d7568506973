"""Views and rearrangements."""

from __future__ import annotations

from gradcore.ops.table import linear


@linear(lambda F, grad, self_shape: F.sum_to_size(grad, self_shape), view=True)
def expand(self, size: Sizes):
    """A view with dimensions of size 1 repeated to `size`, in which -1 keeps a dimension."""


@linear(lambda F, grad, self_shape: F.reshape(grad, self_shape), view=True, node="ViewBackward0")
def reshape(self, shape: Sizes):
    """The same elements in another shape: a view where possible, else a copy."""


@linear(lambda F, grad, dim0, dim1: F.transpose(grad, dim0, dim1), view=True)
def transpose(self, dim0: int, dim1: int):
    """A view with two dims exchanged."""


@linear(lambda F, grad, self_shape: F.expand(grad, self_shape))
def sum_to_size(self, size: Sizes):
    """Sum the dims along which `size` was broadcast."""


@linear(lambda F, grad: grad)
def clone(self):
    """A copy."""
