"""The function `from_kernel`, which creates differentiable operations from CUDA kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["from_kernel"]


def from_kernel(
    forward: Any,
    *,
    backward: Any = None,
    reference: Callable[..., Any] | None = None,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    out: Any = None,
    settings: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Callable[..., int]] | None = None,
    threads: Callable[..., int] | None = None,
    block: int | None = None,
    options: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a differentiable operation from a CUDA kernel.

    The operation runs on every device: CUDA runs the kernel, other devices run its reference in NumPy, which is derived
    automatically from an expression. It supports backward and forward mode and `gradcore.func`, and derivatives of any
    order if its derivative is a formula.

    Parameters
    ----------
    forward : str, cupy.ElementwiseKernel or cupy.RawKernel
        One of

        - an expression or statements for one element, as `cupy.ElementwiseKernel` takes them: ``"y = a * exp(-x)"``,
        - a `cupy.ElementwiseKernel` with one output,
        - CUDA source with a kernel: ``__global__ void name(...)``. Pointers to ``const`` are inputs, other pointers
          outputs, numbers settings; with ``template <typename T>``, T is the dtype of the inputs,
        - a `cupy.RawKernel`, whose source is used.
    backward : optional
        The gradient. It may be left out for expressions, which are differentiated automatically. Otherwise, it is

        - an expression in the inputs, the output and `grad`, or a dict with one for each input (None for an input that
          counts as a constant; a gradient that would pass to an input that is left out is an error),
        - a function ``(F, grad, ...) -> gradient`` as in `gradcore.ops`, whose further parameters name the values that
          it reads (inputs, settings, ``result`` or, for several outputs, their names), or a dict of such functions,
          whose keys may be tuples of names. With several outputs, `grad` is a list,
        - the result of `from_kernel` for a kernel with the inputs `grad` and some of these names.
    reference : callable, optional
        Function of NumPy arrays and settings that runs on devices without CUDA. It is required for these devices if
        `forward` is not an expression.
    name : str, optional
        Name of the operation and, in camel case, of its nodes.
    inputs : sequence of str, optional
        For expressions: the order of the operands. The default is the order of their first use.
    out : callable or dict, optional
        For source: function that returns the shape of the output, or a dict with one for each output. Its parameters
        are named like the inputs and settings that it reads. The default is the shape of the first input.
    settings : dict, optional
        For source: default values.
    sizes : dict, optional
        For source: functions that compute integer parameters from the others. A parameter `n`, `size` or `count` is by
        default the number of elements of the first output.
    threads : callable, optional
        For source: function that returns the number of threads. The default is the number of elements of the first
        output.
    block : int, optional
        For source: threads of a block, 256 by default.
    options : sequence of str, optional
        For source: options of the compiler.

    Returns
    -------
    callable
        The operation. Its attribute ``op`` holds the declaration.

    Raises
    ------
    ValueError
        If the kernel cannot be parsed, or an argument is missing.

    Examples
    --------
    >>> import gradcore
    >>> pseudo_huber = gradcore.from_kernel("y = sqrt(1 + x * x) - 1")
    >>> x = gradcore.tensor([0.0, 0.75], requires_grad=True)
    >>> y = pseudo_huber(x)
    >>> y
    tensor([0.0000, 0.2500], grad_fn=<KernelBackward0>)
    >>> y.sum().backward()
    >>> x.grad
    tensor([0.0000, 0.6000])
    """
    from gradcore.kernels.operations import operation  # imported on first use

    of_source = {
        "out": out,
        "settings": settings,
        "sizes": sizes,
        "threads": threads,
        "block": block,
        "options": options,
    }
    return operation(forward, backward, reference, name, inputs, of_source)
