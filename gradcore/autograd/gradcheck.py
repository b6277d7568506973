"""Derivatives checked against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.autograd.edges import requires_grad
from gradcore.autograd.gradients import grad
from gradcore.autograd.jacobians import as_tuple, count_of, tensor_of
from gradcore.autograd.variables import Variable

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative is wrong.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.autograd import Function, GradcheckError, gradcheck
    >>> class Wrong(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 3
    >>> x = gc.ones(1, dtype=gc.float64, requires_grad=True)
    >>> gradcheck(Wrong.apply, (x,), raise_exception=False)
    False
    """


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of a function with finite differences.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple
        The arguments. Those that require grad are checked; they should be float64 or complex128.
    eps : float
        The step of the central differences.
    atol, rtol : float
        Derivatives may differ from finite differences `d` by ``atol + rtol * abs(d)``.
    raise_exception : bool
        Whether a wrong derivative raises; otherwise the result is False.
    nondet_tol : float
        By how much two runs of backward may differ.
    check_undefined_grad : bool
        Whether to check that backward takes missing upstream gradients for zeros.
    check_grad_dtypes : bool
        Whether a gradient must have the dtype of its input.
    check_batched_grad : bool
        Whether to check ``autograd.grad(is_grads_batched=True)`` too.
    check_batched_forward_grad : bool
        Whether to check that tangents of several directions add up.
    check_forward_ad, check_backward_ad : bool
        Which modes to check.
    fast_mode : bool
        Compare one random projection of each Jacobian instead of every entry.
    masked : bool, optional
        Accepted for compatibility; it concerns sparse tensors.

    Returns
    -------
    bool
        True if all derivatives are right.

    Raises
    ------
    GradcheckError
        If one is not: the message names the output, the input, the entry and both numbers.
    ValueError
        If no input requires grad.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([0.5, 2.0], dtype=gradcore.float64, requires_grad=True)
    >>> gradcore.autograd.gradcheck(gradcore.tanh, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    from gradcore.autograd.checks import Check, Options

    options = Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode,
    )  # fmt: skip
    check = Check(func, as_tuple(inputs), options)
    try:
        check.run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of a function with finite differences of its first ones.

    Parameters
    ----------
    func, inputs
        As for `gradcheck`.
    grad_outputs : Tensor or sequence of Tensor, optional
        Upstream gradients of the first backward; random ones by default. Those that require grad are checked too.
    gen_non_contig_grad_outputs : bool
        Whether the random ones are not contiguous in memory.
    check_fwd_over_rev, check_rev_over_rev : bool
        Whether to differentiate backward in forward mode, in reverse mode.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad
        As for `gradcheck`.
    check_grad_dtypes, check_batched_grad, fast_mode, masked
        As for `gradcheck`.

    Returns
    -------
    bool
        True if all derivatives are right.

    Raises
    ------
    GradcheckError
        If one is not.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([0.5, 2.0], dtype=gradcore.float64, requires_grad=True)
    >>> gradcore.autograd.gradgradcheck(gradcore.tanh, x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    args = as_tuple(inputs)
    if grad_outputs is None:
        upstream = _random_upstream(_differentiable(func(*args)), gen_non_contig_grad_outputs)
    else:
        upstream = as_tuple(grad_outputs)
    wanted = [isinstance(t, Variable) and requires_grad(t) for t in (*args, *upstream)]

    def first(*values: Any) -> tuple[Any, ...]:
        """The gradients of `func`, as a function of its arguments and of the upstream gradients."""
        values = tuple(t.requires_grad_() if want else t for t, want in zip(values, wanted, strict=True))
        outs = _differentiable(func(*values[: len(args)]))
        ins = [t for t, want in zip(values[: len(args)], wanted, strict=False) if want]
        found = grad(outs, ins, values[len(args) :], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first,
        (*args, *upstream),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


def _differentiable(results: Any) -> tuple[Any, ...]:
    return tuple(t for t in as_tuple(results) if isinstance(t, Variable) and requires_grad(t))


def _random_upstream(outputs: Sequence[Any], apart: bool) -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    found = []
    for out in outputs:
        t = tensor_of(random.uniform(-1, 1, count_of(out)), out)
        if apart and t._array.ndim:
            t._array = t._array.repeat(2, axis=-1)[..., ::2]
        found.append(t.requires_grad_())
    return tuple(found)
