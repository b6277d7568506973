"""Gradients of convolutions as functions, as in ``torch.nn.grad``. Use them in your own autograd Functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcore import functional
from gradcore.nn.module_factory import ntuple
from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _settings(n: int, stride: Any, padding: Any, dilation: Any) -> tuple[tuple[Any, ...], ...]:
    return ntuple(stride, n), ntuple(padding, n), ntuple(dilation, n)


def _make_conv_input(n: int) -> Callable[..., Tensor]:
    def conv_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        settings = _settings(n, stride, padding, dilation)
        result: Tensor = functional.conv_input(
            grad_output, functional.conj(weight), tuple(input_size)[2:], *settings, groups
        )
        return result

    return _document(
        conv_input, n, "input", "input_size : sequence of int\n        The shape of the input.\n    weight"
    )


def _make_conv_weight(n: int) -> Callable[..., Tensor]:
    def conv_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        settings = _settings(n, stride, padding, dilation)
        result: Tensor = functional.conv_weight(
            functional.conj(input), grad_output, tuple(weight_size)[2:], *settings, groups
        )
        return result

    return _document(conv_weight, n, "weight", "input : Tensor\n    weight_size")


def _document(function: Callable[..., Tensor], n: int, of: str, first: str) -> Callable[..., Tensor]:
    kind = "Tensor" if of == "input" else "sequence of int\n        The shape of the weight."
    function.__name__ = function.__qualname__ = f"conv{n}d_{of}"
    function.__doc__ = f"""Compute the gradient of `nn.functional.conv{n}d` with respect to its {of}.

    Parameters
    ----------
    {first} : {kind}
    grad_output : Tensor
        The gradient with respect to the output.
    stride, padding, dilation : int or tuple of int
    groups : int
        As they were for the convolution.

    Returns
    -------
    Tensor
    """
    return function


conv1d_input, conv2d_input, conv3d_input = map(_make_conv_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_make_conv_weight, (1, 2, 3))

paths.show_public(__name__)
