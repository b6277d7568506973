"""Convolution in threads: which kernels compute it, and how they are shared.

Images of floats with more than a few channels are left to the products of `numpy.unpacked`, others to the columns of
`portable.convolution`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from gradcore.backends.numpy import unpacked
from gradcore.backends.numpy.products_in_threads import share_products, spread_products
from gradcore.backends.portable import convolution

__all__ = ["correlate", "weight_gradient"]

Ints = Sequence[int]

#: Multiplications (about) from which threads take part.
_MANY = 1 << 22
#: Channels of the output from which the products are faster than columns; for the gradient of the weight, where there
#: are to be so many numbers of a position, too.
_OUTPUTS, _MORE_OUTPUTS, _VALUES = 8, 16, 8


def correlate(xp: Any, x: Any, weight: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, out: Any) -> None:
    """As the function of `portable.convolution`."""
    settings = stride, padding, dilation, groups
    many = out.size * prod(weight.shape[1:]) >= _MANY
    if out.size and unpacked.fits(x, weight, dilation, groups) and weight.shape[0] >= _OUTPUTS * groups:
        unpacked.correlate(x, weight, *settings, out, share_products if many else _share_nothing)
        return

    def some(start: int, stop: int) -> None:
        convolution.correlate(xp, x[start:stop], weight, *settings, out[start:stop])

    if many:
        spread_products(some, len(x))
    else:
        some(0, len(x))


def weight_gradient(
    xp: Any, x: Any, grad: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    """As the function of `portable.convolution`; there is something to sum."""
    settings = kernel, stride, padding, dilation, groups
    many = grad.size * (x.shape[1] // groups) * prod(kernel) >= _MANY
    values = x.shape[1] // groups * prod(kernel[1:])
    if grad.shape[1] >= _MORE_OUTPUTS * groups and values >= _VALUES and unpacked.fits_gradient(x, kernel, stride):
        return unpacked.weight_gradient(x, grad, *settings, share_products if many else _share_nothing)
    found: dict[int, Any] = {}

    def some(start: int, stop: int) -> None:
        found[start] = convolution.weight_gradient(xp, x[start:stop], grad[start:stop], *settings)

    if many:
        spread_products(some, len(x))
    else:
        some(0, len(x))
    result, *rest = (found[start] for start in sorted(found))
    for part in rest:
        result += part
    return result


def _share_nothing(work: Callable[[Iterator[int]], None], count: int) -> None:
    work(iter(range(count)))
