"""Extrema over dims, along one dim with their index, and cumulative ones.

Equal elements share the gradient of an extremum over dims evenly. The gradient of an extremum with an index goes to
the element at the index.
"""

from __future__ import annotations

from numbers import Integral

from gradcore.ops.declare.annotations import Dims, Tensor
from gradcore.ops.declare.checks import check_implemented, check_reducible
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import along, axes, keep_reduced_dims, wrap_dim
from gradcore.ops.declare.table import composite, constant, general, linear

# -- over dims --------------------------------------------------------------------------------------------------------


def _ties(F, self, chosen):
    """Return 1 where an element equals the chosen one, and 0 elsewhere."""
    return F.ones_like(chosen) * (self == chosen)


def _share_gradient(F, grad, self, chosen, dim):
    """Return the gradient of extrema over dims, shared evenly by equal elements."""
    shape = keep_reduced_dims(self.shape, dim)
    ties = _ties(F, self, F.reshape(chosen, shape))
    return F.reshape(grad, shape) / F.sum(ties, dim, True) * ties


def _average_tangent(F, t, self, chosen, dim, keepdim):
    """Return the tangent of extrema over dims: the mean over equal elements."""
    ties = _ties(F, self, F.reshape(chosen, keep_reduced_dims(self.shape, dim)))
    return F.sum(t * ties, dim, keepdim) / F.sum(ties, dim, keepdim)


def _samples_over_dims():
    x = floats(3, 4, form="distinct")
    return [
        case(x), case(x, dim=1), case(x, dim=(0, 1), keepdim=True), case(floats(), dim=0), case(floats(0, 3), dim=1),
    ]  # fmt: skip


def _reduce_dims(name, word):
    def reduce_over(K, self, dim: Dims = (), keepdim: bool = False):
        check_reducible(f"a{name}", self.shape, dim)
        check_implemented(f"{name}_values_cpu", self, "c")
        return getattr(K, f"{name}_over")(self, axes(dim, self.ndim), keepdim)

    reduce_over.__doc__ = (
        f"Return the {word} over `dim` (all dims if empty). Equal extreme elements share the gradient evenly."
    )
    op = general(
        lambda F, grad, self, result, dim: _share_gradient(F, grad, self, result, dim),
        name=f"a{name}",
        samples=_samples_over_dims,
        half_on_cuda="reductions forward",
    )(reduce_over)
    op.jvp("self")(lambda F, t, self, result, dim, keepdim: _average_tangent(F, t, self, result, dim, keepdim))


_reduce_dims("max", "maximum")
_reduce_dims("min", "minimum")


@general(
    fields="min max",
    samples=lambda: [
        case(floats(3, 4, form="distinct")),
        case(floats(3, 4, form="distinct"), dim=1),
        case(floats(2, 3), dim=0, keepdim=True),
    ],
    half_on_cuda="reductions forward",
)
def aminmax(K, self, *, dim: int | None = None, keepdim: bool = False):
    """Return the minimum and the maximum of all elements or along a dim, as a named tuple ``(min, max)``.

    Examples
    --------
    >>> gc.aminmax(gc.tensor([3, 1, 2]))
    torch.return_types.aminmax(
    min=tensor(1),
    max=tensor(3))
    """
    if dim is None and 0 in self.shape:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    check_reducible("aminmax", self.shape, dim)
    check_implemented("aminmax_cpu", self, "c")
    dims = axes(dim, self.ndim)
    return K.min_over(self, dims, keepdim), K.max_over(self, dims, keepdim)


@aminmax.vjp("self")
def _(F, grads, self, min, max, dim):
    return _share_gradient(F, grads[0], self, min, dim) + _share_gradient(F, grads[1], self, max, dim)


@aminmax.jvp("self")
def _(F, t, self, min, max, dim, keepdim):
    return _average_tangent(F, t, self, min, dim, keepdim), _average_tangent(F, t, self, max, dim, keepdim)


# -- of all elements --------------------------------------------------------------------------------------------------


@constant(constant="results are bools", function=False, method=False)
def same(K, self, other):
    """Return whether elements are equal or both NaN."""
    return K.equal_or_nan(self, other)


def shared_by_equals(F, grad, self, result):
    """Return the gradient of an element chosen among all, shared evenly by the elements equal to it."""
    equals = F.same(self, result)
    return F.where(equals, grad / F.sum(F.ones_like(grad) * equals), F.zeros_like(grad))


def mean_of_equals(F, t, self, result):
    """Return the tangent of an element chosen among all: the mean over the elements equal to it."""
    equals = F.ones_like(result) * F.same(self, result)
    return F.sum(t * equals) / F.sum(equals)


# -- along a dim, with the index --------------------------------------------------------------------------------------


@linear(
    lambda F, grad, dim, index: F.gather(grad, dim, index),
    function=False,
    method=False,
    node="ScatterBackward0",
    samples=lambda: [
        case(floats(3, 1), (3, 4), 1, ints(3, 1, high=4)),
        case(floats(1, 2), (3, 2), -2, ints(1, 2, high=3)),
    ],
)
def place(K, self, shape: tuple[int, ...], dim: int, index):
    """Return zeros of `shape` with `self` at `index` along `dim`: the adjoint of a selection.

    The index names no position twice.
    """
    return K.put_along(self, shape, wrap_dim(dim, len(shape)), index)


def take_tangent(F, t, dim, indices):
    """Return the tangent of the elements at `indices` along `dim`."""
    return F.gather(t, dim, indices) if t.shape else t


def place_gradient(F, grad, self_shape, dim, indices):
    """Return the gradient of a tensor from that of its elements at `indices` along `dim`."""
    return F.place(grad, self_shape, dim, indices) if self_shape else grad


def take_at_index(F, x, dim, index):
    """Return the elements of `x` at one index along `dim`; the index may have that dim with size 1."""
    if not x.shape:
        return x
    return F.reshape(F.gather(x, dim, F.reshape(index, keep_reduced_dims(x.shape, dim))), index.shape)


def put_at_index(F, grad, shape, dim, index):
    """Return zeros of `shape` with `grad` at the index: the transpose of `take_at_index`."""
    if not shape:
        return grad
    kept_shape = keep_reduced_dims(shape, dim)
    return F.place(F.reshape(grad, kept_shape), shape, dim, F.reshape(index, kept_shape))


def selection(function, path, /, **options):
    """Declare an operation that picks one element along a dim, and its index."""
    op = general(
        lambda F, grad, self_shape, dim, indices: put_at_index(F, grad, self_shape, dim, indices),
        path=path, fields="values indices", differentiable=(0,), **options,
    )(function)  # fmt: skip
    op.jvp("self")(lambda F, t, dim, indices: take_at_index(F, t, dim, indices))
    return op


def _samples():
    x = floats(3, 4, form="distinct")
    return [
        case(x), case(x, 1), case(x, 0, True), case(floats(), 0), case(floats(0, 2), 1), case(floats(2, 3, 4), -2)
    ]  # fmt: skip


def _declare_extremum(name, word):
    """Declare ``max`` or ``min`` with its overloads: of all elements, along a dim, and of two tensors."""
    title = name.title()
    hidden = {"function": False, "method": False}

    def reduce_all(K, self):
        check_reducible(name, self.shape, None)
        check_implemented(f"{name}_all", self, "c")
        return getattr(K, f"{name}_over")(self)

    def reduce_dim(K, self, dim: int, keepdim: bool = False):
        check_reducible(name, self.shape, dim)
        if self.dtype.kind == "c":
            raise RuntimeError(f"{name}(): does not support complex input")
        return along(getattr(K, f"{name}_along"), self, dim, keepdim)

    def overloads(F, self, dim: int | Tensor | None = None, keepdim: bool = False, *, other: Tensor | None = None):
        if dim is None and other is None:
            return getattr(F, f"{name}_all")(self)
        if dim.__class__ is int or isinstance(dim, Integral):
            return getattr(F, f"{name}_dim")(self, dim, keepdim)
        return getattr(F, f"{name}imum")(self, dim if other is None else other)

    reduce_all.__doc__ = f"Return the {word} of all elements."
    reduce_dim.__doc__ = f"Return the {word} along a dim, and its index."
    overloads.__doc__ = f"""Return the {word} of all elements, along one dim, or of two tensors element by element.

    Parameters
    ----------
    dim : int or Tensor, optional
        Without it, the result is the {word} of all elements; those that tie share the gradient evenly. Along a dim, the
        result is a named tuple ``(values, indices)``; the gradient goes to the element of the index. With a tensor in
        its place, the result is ``{name}imum(self, other)``.
    keepdim : bool
        Whether the dim stays, with size 1.
    """
    op = general(shared_by_equals, name=f"{name}_all", path=name, node=f"{title}Backward1", **hidden)(reduce_all)
    op.jvp("self")(mean_of_equals)
    selection(
        reduce_dim, name, name=f"{name}_dim", node=f"{title}Backward0", half_on_cuda="reductions forward", **hidden
    )
    composite(
        name=name,
        samples=lambda: [*_samples(), case(floats(3, 4), floats(4))],
        overloads=(
            ("", "Tensor"),
            ("dim: int, keepdim: bool = ...", f"return_types.{name}"),
            ("other: Tensor", "Tensor"),
        ),
    )(overloads)


_declare_extremum("max", "maximum")
_declare_extremum("min", "minimum")


def _index_of(name, word):
    def index(K, self, dim: int | None = None, keepdim: bool = False):
        check_reducible(f"arg{name}", self.shape, dim, IndexError)
        if self.dtype.kind in "bc":
            kind = "bool" if self.dtype.kind == "b" else "complex"
            raise RuntimeError(f"arg{name}(): does not support {kind} input")
        kernel = getattr(K, f"arg{name}_along")
        if dim is None:
            result = kernel(self.reshape((-1,)), 0, False)
            return result.reshape((1,) * self.ndim) if keepdim else result
        return along(kernel, self, dim, keepdim)

    index.__doc__ = f"""Return the index of the {word} along a dim, or in the flattened tensor if `dim` is None.

    Among equal elements the first one is chosen. NaN counts as the {word}.
    """
    declare = constant(
        name=f"arg{name}", constant="results are indices", samples=_samples, half_on_cuda="reductions forward"
    )
    declare(index)


_index_of("max", "maximum")
_index_of("min", "minimum")


# -- running along a dim ----------------------------------------------------------------------------------------------


def _running(name, word):
    def running(K, self, dim: int):
        check_implemented(f"{name}_cpu", self, "c")
        return along(getattr(K, f"{name}_along"), self, dim)

    running.__doc__ = (
        f"Return the cumulative {word} along a dim, and its indices; among equal elements the last one is chosen."
    )
    op = general(
        lambda F, grad, self_shape, dim, indices: (
            F.gather_backward(grad, self_shape, dim, indices) if self_shape else grad
        ),
        name=name, fields="values indices", differentiable=(0,), half_on_cuda="selection forward",
        samples=lambda: [
            case(floats(3, 4, form="distinct"), 1), case(floats(5, 2), 0), case(floats(), 0), case(floats(0), 0)
        ],
    )(running)  # fmt: skip
    op.jvp("self")(take_tangent)


_running("cummax", "maximum")
_running("cummin", "minimum")
