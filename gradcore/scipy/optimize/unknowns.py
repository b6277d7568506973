"""Conversion between nested unknowns and the vector of numbers that SciPy's solvers work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.func import grad as gradient_of
from gradcore.func import grad_and_value, hessian, jacrev, jvp
from gradcore.numpy.conversion import inexact, promote, tensor_of
from gradcore.tensor import Tensor
from gradcore.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["Unknowns"]


def _is_nested(x0: Any) -> bool:
    """Return whether the guess `x0` is a container of several unknowns, rather than the numbers of a single one."""
    if isinstance(x0, dict):
        return True
    return isinstance(x0, (list, tuple)) and any(
        isinstance(each, Tensor) or np.ndim(each) if not isinstance(each, (list, tuple, dict)) else _is_nested(each)
        for each in x0
    )


class Unknowns:
    """The structure, shapes, dtypes and device of the unknowns; converts functions of them to functions of a vector.

    Parameters
    ----------
    x0 : array_like or nested containers of tensors and arrays
        The initial guess.
    args : tuple
        Further arguments of all functions.

    Examples
    --------
    >>> from gradcore.scipy.optimize.unknowns import Unknowns
    >>> unknowns = Unknowns({"a": [1.0, 2.0], "b": 3.0})
    >>> unknowns.start
    array([1., 2., 3.])
    >>> unknowns.nest(unknowns.vector)["b"]
    tensor(3., dtype=torch.float64)
    """

    def __init__(self, x0: Any, args: Any = ()) -> None:
        self.args = args if isinstance(args, tuple) else (args,)
        guesses, self.structure = (
            tree_flatten({k: _array(v) for k, v in x0.items()} if isinstance(x0, dict) else x0)  # type: ignore[var-annotated]
            if _is_nested(x0)
            else ([x0], None)
        )
        with no_grad():
            leaves = [inexact(tensor_of(x)).detach() for x in guesses]
            if any(F.is_complex(x) for x in leaves):
                raise TypeError("unknowns must be real numbers; use gradcore.view_as_real for complex ones")
            self.like = leaves
            self.vector: AnyTensor = F.cat([F.reshape(x, (-1,)) for x in promote(*leaves)])
        self.start: AnyArray = np.array(self.vector.host(), float)

    def tensor(self, values: AnyArray) -> AnyTensor:
        """Convert a solver's array to a vector on the device of the unknowns."""
        return F.to(F.as_tensor(np.asarray(values, float), device=self.vector.device), self.vector.dtype)

    def nest(self, x: AnyTensor) -> Any:
        """Return the vector `x` in the nested structure of the unknowns."""
        pieces = F.split(x, [each.numel() for each in self.like])
        leaves = [F.to(F.reshape(p, t.shape), t.dtype) for p, t in zip(pieces, self.like, strict=True)]
        return leaves[0] if self.structure is None else tree_unflatten(leaves, self.structure)

    def scalar(self, function: Callable[..., Any]) -> Callable[[AnyTensor], AnyTensor]:
        """Convert a function of the unknowns that returns one number to a function of a vector."""

        def call(x: AnyTensor) -> AnyTensor:
            value = inexact(tensor_of(function(self.nest(x), *self.args)))
            if value.numel() != 1:
                raise ValueError("The user-provided objective function must return a scalar value.")
            return F.reshape(value, ())

        return call

    def numbers(self, function: Callable[..., Any]) -> Callable[[AnyTensor], AnyTensor]:
        """Convert a function of the unknowns that returns several numbers to a function from vectors to vectors."""

        def call(x: AnyTensor) -> AnyTensor:
            output = function(self.nest(x), *self.args)
            parts = tree_leaves(output) if _is_nested(output) else [output]
            return F.cat([F.reshape(t, (-1,)) for t in map(inexact, promote(*map(tensor_of, parts)))])

        return call

    def wrap_for_host(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Convert a function of vectors to a function from arrays to arrays, for SciPy."""

        def call(*arrays: AnyArray) -> Any:
            with no_grad():
                return _host(f(*map(self.tensor, arrays)))

        return call

    def gradient(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return self.wrap_for_host(gradient_of(f))

    def value_and_gradient(self, f: Callable[..., Any]) -> Callable[..., Any]:
        evaluate = self.wrap_for_host(grad_and_value(f))

        def call(x: AnyArray) -> Any:
            gradient, value = evaluate(x)
            return float(value), gradient

        return call

    def jacobian(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return self.wrap_for_host(jacrev(f))

    def hessian(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return self.wrap_for_host(hessian(f))

    def hessian_product(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return self.wrap_for_host(lambda x, v: jvp(gradient_of(f), (x,), (v,))[1])


def _array(value: Any) -> Any:
    """Convert a flat list or tuple of numbers to an array; return any other value unchanged."""
    return value if not isinstance(value, (list, tuple)) or _is_nested(value) else np.asarray(value)


def _host(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_host, value))
    return np.asarray(value.detach().host(), float)
