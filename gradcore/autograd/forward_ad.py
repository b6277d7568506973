"""Public functions of forward-mode differentiation: create dual tensors, and unpack them."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.forward import ForwardLevel, all_tangents, attach, check_tangent, match_layout, tangent_of
from gradcore.autograd.modes import DUAL, local
from gradcore.autograd.variables import Variable
from gradcore.autograd.views import gradient_edge, identity_view
from gradcore.core.interrupts import run_despite_interrupts
from gradcore.core.typing import AnyTensor, NamedTuple

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a dual tensor; the tangent may be None.

    Examples
    --------
    >>> import gradcore as gc
    >>> fw = gc.autograd.forward_ad
    >>> with fw.dual_level():
    ...     print(fw.unpack_dual(fw.make_dual(gc.tensor(1.0), gc.tensor(2.0))).tangent)
    tensor(2.)
    """

    primal: Any
    tangent: Any | None


def enter_dual_level() -> int:
    """Open a forward-mode level in this thread, inside the levels that are open, and return its number.

    Examples
    --------
    >>> import gradcore as gc
    >>> fw = gc.autograd.forward_ad
    >>> level = fw.enter_dual_level()
    >>> y = fw.make_dual(gc.tensor([2.0]), gc.tensor([1.0])) ** 2
    >>> fw.unpack_dual(y).tangent
    tensor([4.])
    >>> fw.exit_dual_level()
    """
    return _open(ForwardLevel())


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level and remove its tangents.

    Raises
    ------
    RuntimeError
        If no level is open, or if `level` is not the innermost.

    Examples
    --------
    >>> import gradcore as gc
    >>> fw = gc.autograd.forward_ad
    >>> level = fw.enter_dual_level()
    >>> fw.exit_dual_level(level=level)
    """
    levels = local.state.levels
    if not levels:
        raise RuntimeError("Trying to exit a forward AD level but no level exists.")
    if level is not None and level != len(levels) - 1:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    levels[-1].close()


def _open(level: ForwardLevel) -> int:
    level.__enter__()
    return len(local.state.levels) - 1


def _level(number: int | None) -> ForwardLevel | None:
    """Return the open level `number`, by default the innermost, or None if no level is open."""
    levels = local.state.levels
    if number is None:
        return levels[-1] if levels else None
    if not 0 <= number < len(levels):
        raise RuntimeError(f"Invalid level given: {number}; {len(levels)} are open, counted from 0")
    return levels[number]  # type: ignore[no-any-return]


def make_dual(tensor: AnyTensor, tangent: AnyTensor, *, level: int | None = None) -> Any:
    """Return a dual tensor: a view of `tensor` that carries `tangent` through all operations.

    Parameters
    ----------
    tensor, tangent : Tensor
        Tensors of equal shape.
    level : int, optional
        The forward-mode level; by default the innermost.

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If there is no such level, if the shapes differ, or if either has a tangent at this level already.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(gradcore.tensor(3.0), gradcore.tensor(1.0))
    ...     forward_ad.unpack_dual(x * x)
    UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
    """
    forward_level = _level(level)
    if forward_level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(t, Variable):
            raise TypeError(f"make_dual(): the {name} must be a Tensor, not {type(t).__name__}")
        if not t._dtype.is_differentiable:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t._dtype!r}")
    if tangent_of(tensor, forward_level) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            f"{local.state.levels.index(forward_level)} is not supported."
        )
    if tangent_of(tangent, forward_level) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level "
            f"{local.state.levels.index(forward_level)} is not supported."
        )
    check_tangent(tensor, tangent)
    return _with_tangent(tensor, forward_level, match_layout(tangent, tensor))


def _with_tangent(tensor: AnyTensor, level: ForwardLevel, tangent: AnyTensor) -> Any:
    """Return a view of `tensor` with the same history and with `tangent` (a tensor or None) at `level`."""
    view = identity_view(tensor, gradient_edge(tensor))
    for other, outer in (all_tangents(tensor) or {}).items():
        attach(view, other, outer)
    return attach(view, level, tangent)


def unpack_dual(tensor: AnyTensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor.

    Parameters
    ----------
    tensor : Tensor
    level : int, optional
        The forward-mode level; by default the innermost. Outside of every level there is no tangent.

    Returns
    -------
    UnpackedDualTensor
        ``(primal, tangent)``; the primal is a view of the tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> fw = gc.autograd.forward_ad
    >>> with fw.dual_level():
    ...     y = fw.make_dual(gc.tensor([2.0]), gc.tensor([1.0])) ** 2
    ...     primal, tangent = fw.unpack_dual(y)
    >>> primal, tangent
    (tensor([4.]), tensor([4.]))
    """
    if not isinstance(tensor, Variable):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    forward_level = _level(level)
    if forward_level is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(_with_tangent(tensor, forward_level, None), tangent_of(tensor, forward_level))


class dual_level:
    """A forward-mode level as a context manager, which removes the tangents at its end.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.autograd import forward_ad
    >>> x, v = gradcore.tensor([1.0, 2.0]), gradcore.tensor([1.0, 0.0])
    >>> with forward_ad.dual_level():
    ...     y = (forward_ad.make_dual(x, v) ** 2).sum()
    ...     forward_ad.unpack_dual(y).tangent
    tensor(2.)
    """

    def __enter__(self) -> int:
        self._level = level = ForwardLevel()
        state = local.state
        number = len(state.levels)
        state.levels, state.mode = (*state.levels, level), state.mode | DUAL  # without a call: see `grad_mode`
        return number

    def __exit__(self, *exc: object) -> None:
        try:
            self._level.close()
        except BaseException:
            run_despite_interrupts(self._level.close)
            raise
