"""Operations that overwrite a whole tensor: the values of `fill_`, `zero_`, `copy_` and assignments."""

from __future__ import annotations

from gradcore.backends.kernel_rules import native_body
from gradcore.ops.declare.annotations import Number
from gradcore.ops.declare.geometry import expand_shape
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.table import composite, general, linear
from gradcore.ops.indexing.gather_scatter import number_for


def _fill_number(K, self, value: Number):
    """Return a tensor of the shape and dtype of `self` with `value`, a number, in every element."""
    return K.xp.full(self.shape, number_for(K, value, self), self.dtype)


def _fill_tensor(K, self, value):
    """Return a tensor of the shape and dtype of `self` with the value of a 0-dim tensor in every element."""
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return K.xp.array(K.broadcast_view(value.astype(self.dtype), self.shape))


def _declare_fills(suffix, first_node):
    """Declare both fills twice: for calls and, with other node names, for in-place use."""
    private = {"computes_half_in_float": False, "function": False, "method": False}
    by_number = general(
        self=lambda F, grad: F.zeros_like(grad),
        name=f"fill_number{suffix}",
        node=f"FillBackward{first_node}",
        saved={"value": None},
        fills=bool(suffix),
        **private,
    )(_fill_number)
    by_number.jvp("self")(lambda F, t: F.zeros_like(t))
    linear(
        self=lambda F, grad: F.zeros_like(grad),
        value=lambda F, grad: F.sum(grad),
        name=f"fill_tensor{suffix}",
        node=f"FillBackward{first_node + 1}",
        **private,
    )(_fill_tensor)


_declare_fills("", 0)
_declare_fills("_", 2)


@composite(method=False, inplace="function", samples=lambda: [case(floats(2, 3), 1.5), case(floats(2, 3), floats())])
def fill(F, input, value):
    """Return a tensor of the shape and dtype of `input` with a value (a number or a 0-dim tensor) in every element.

    Examples
    --------
    >>> gc.fill(gc.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    return F.fill_tensor(input, value) if F.is_tensor(value) else F.fill_number(input, value)


@linear(
    lambda F, grad: F.zeros_like(grad),
    computes_half_in_float=False,
    function=False,
    method=False,
    inplace="function",
    fills=True,
)
def zero(K, self):
    """Return zeros of the shape and dtype of `self`."""
    return K.zeros_like(self)


@linear(
    self=lambda F, grad: F.zeros_like(grad),
    src=lambda F, grad, src_shape: F.sum_to_size(grad, src_shape),
    node="CopyBackwards",
    kernel="copy_from",  # not `copy`, the method of arrays
    computes_half_in_float=False,
    function=False,
    method=False,
    inplace=True,
)
@native_body
def copy(K, self, src, non_blocking: bool = False):
    """Return `src` in the shape and dtype of `self`."""
    return K.broadcast_view(K.astype(src, self.dtype), expand_shape(src.shape, self.shape))


@general(
    node=lambda name: name,
    constant={"self": "has been drawn"},
    materialize=False,
    computes_half_in_float=False,
    function=False,
    method=False,
)
def drawn(K, self, source, other=None, name: str = ""):
    """Return `self`, which holds random numbers, with an edge to the parameters of their distribution.

    The gradient of the parameters is zero.
    """
    return self


drawn.vjp("source")(lambda F, grad, source_shape: F.new_zeros(grad, source_shape))
drawn.vjp("other")(lambda F, grad, other_shape: F.new_zeros(grad, other_shape))
drawn.jvp("source")(lambda F, t, self: F.zeros_like(self))
drawn.jvp("other")(lambda F, t, self: F.zeros_like(self))
