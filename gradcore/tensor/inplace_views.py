"""In-place views: transposes as attributes, and methods such as `squeeze_`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradcore import dispatch, functional
from gradcore.autograd import forward, views
from gradcore.autograd.derivatives import node_class
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.record import view_of
from gradcore.autograd.variables import PLAIN_TYPES, AutogradMeta, bump
from gradcore.core.errors import warn_once
from gradcore.core.typing import AnyTensor
from gradcore.ops.declare.table import OPS

if TYPE_CHECKING:
    from gradcore.tensor import Tensor

__all__ = [
    "adjoint_matrices",
    "adjoint_matrix",
    "as_strided_",
    "squeeze_",
    "t_",
    "transpose_",
    "transpose_all",
    "transpose_matrix",
    "unsqueeze_",
]


def _matrix(self: AnyTensor, name: str, batches: bool) -> None:
    ndim = self._array.ndim
    if ndim and (ndim < 2 or (ndim > 2 and not batches)):
        expected = "matrices or batches of matrices" if batches else "matrices (2-D tensors)"
        hint = "" if batches or ndim == 1 else f" For batches of matrices, consider using tensor.m{name}"
        raise RuntimeError(f"tensor.{name} is only supported on {expected}. Got {ndim}-D tensor.{hint}")


def _scalar(self: AnyTensor, name: str, advice: str) -> None:
    if not self._array.ndim:
        warn_once(f"Tensor.{name} is deprecated on 0-D tensors. {advice}")


_IDENTITY, _CONJUGATE = "This function is the identity in these cases.", "Consider using x.conj()."


def transpose_all(self: AnyTensor) -> Tensor:
    """Return a view with the dims in reversed order."""
    array, state = self._array, local.state
    if array.ndim == 2 and state.mode <= GRAD and self.__class__ in PLAIN_TYPES:
        transposed = self._device.kernels["permute"](array, (1, 0))
        return view_of(self, transposed, OPS["permute"], ((1, 0),), state)  # type: ignore[no-any-return]
    if array.ndim not in (0, 2):
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated. Consider "
            "`x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim - 1, -1, -1))` to reverse the "
            "dimensions of a tensor."
        )
    _scalar(self, "T", _IDENTITY)
    return functional.permute(self, tuple(range(array.ndim - 1, -1, -1)))  # type: ignore[no-any-return]


def transpose_matrix(self: AnyTensor) -> Tensor:
    """Return a view with the last two dims exchanged."""
    _matrix(self, "mT", True)
    _scalar(self, "mT", _IDENTITY)
    if not self._array.ndim:
        return functional.permute(self, ())  # type: ignore[no-any-return]
    return functional.transpose(self, -2, -1)  # type: ignore[no-any-return]


def adjoint_matrix(self: AnyTensor) -> Tensor:
    """Return the conjugate transpose of a matrix."""
    _matrix(self, "H", False)
    _scalar(self, "H", _CONJUGATE)
    return functional.adjoint(self)  # type: ignore[no-any-return]


def adjoint_matrices(self: AnyTensor) -> Tensor:
    """Return the conjugate transposes of a batch of matrices."""
    _matrix(self, "mH", True)
    _scalar(self, "mH", _CONJUGATE)
    return functional.adjoint(self)  # type: ignore[no-any-return]


# -- in place ---------------------------------------------------------------------------------------------------------


def reshape_in_place(name: str, renamed: Callable[[str], str]) -> Callable[..., Any]:
    """Return the in-place method of a view operation."""

    def method(self: AnyTensor, *args: Any, **kwargs: Any) -> Any:
        dispatch.check_inplace(self, local.state)
        out = getattr(type(self), name)(self, *args, **kwargs)
        meta = self._autograd
        if out._edge is not None:
            viewed = out._edge[0]
            node = node_class(viewed.op, renamed(viewed.name())).make(viewed._device, viewed._edges, out)
            node.saved, node.metas = viewed.saved, viewed.metas
            self._edge = node, 0
        elif self._edge is not None:
            views.keep_shape(self)
        self._array = out._array
        bump(self)
        if meta is not None and meta.base is not None:
            meta.chain = out._autograd.chain
            if out._edge is not None:  # Otherwise the history is derived from that of the base.
                meta.edge_version = self._vc.version
        else:  # Views that were created before must be refreshed.
            meta = self._autograd = meta or AutogradMeta()
            meta.reshaped += 1
        for level in local.state.levels:
            tangent = forward.tangent_of(out, level)
            if tangent is not None:
                forward.attach(self, level, tangent)
        return self

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__doc__ = f"Apply `{name}` in place: this tensor itself takes the new shape."
    return method


def _renumber(first: int) -> Callable[[str], str]:
    """Return a function that raises the number in a node's name by `first`, as PyTorch's in-place variants have it."""
    return lambda name: name[:-1] + str(int(name[-1]) + first)


squeeze_ = reshape_in_place("squeeze", _renumber(3))
unsqueeze_, transpose_, t_, as_strided_ = (
    reshape_in_place(name, _renumber(1)) for name in ("unsqueeze", "transpose", "t", "as_strided")
)
