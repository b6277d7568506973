"""Convolution in threads: which kernels compute it, and how they are shared.

Images of floats with more than a few channels are left to the products of `numpy.unpacked`, others to the columns of
`portable.convolution`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from gradcore.backends.numpy import small_gemm_convolution
from gradcore.backends.numpy.products_in_threads import blas_alone, share_products, spread_products
from gradcore.backends.portable import convolution

__all__ = ["correlate", "weight_gradient"]

Ints = Sequence[int]

#: Multiplications (about) from which threads take part, and those from which BLAS would use its own.
_MANY, _THREADED = 1 << 24, 1 << 18
#: Channels of the output from which the products are faster than columns; for the gradient of the weight, where there
#: are to be so many numbers of a position, too.
_OUTPUTS, _MORE_OUTPUTS, _VALUES = 8, 16, 8


def correlate(xp: Any, x: Any, weight: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int, out: Any) -> None:
    """As the function of `portable.convolution`."""
    products = out.size * prod(weight.shape[1:])
    if out.size and small_gemm_convolution.fits(x, weight, dilation, groups) and weight.shape[0] >= _OUTPUTS * groups:
        small_gemm_convolution.correlate(x, weight, stride, padding, dilation, groups, out, _sharing(products))
        return

    def images(start: int, stop: int) -> None:
        convolution.correlate(xp, x[start:stop], weight, stride, padding, dilation, groups, out[start:stop])

    def rows(start: int, stop: int) -> None:
        seen, pads = _from_row(x, start, stride, padding)
        convolution.correlate(xp, seen, weight, stride, pads, dilation, groups, out[:, :, start:stop])

    _spread(images, rows, x, out.shape[2], products)


def weight_gradient(
    xp: Any, x: Any, grad: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    """As the function of `portable.convolution`; there is something to sum."""
    products = grad.size * (x.shape[1] // groups) * prod(kernel)
    values = x.shape[1] // groups * prod(kernel[1:])
    if (
        grad.shape[1] >= _MORE_OUTPUTS * groups
        and values >= _VALUES
        and small_gemm_convolution.fits_gradient(x, kernel, stride)
    ):
        sharing = _sharing(products)
        return small_gemm_convolution.weight_gradient(x, grad, kernel, stride, padding, dilation, groups, sharing)
    found: dict[int, Any] = {}
    settings = dilation, groups

    def images(start: int, stop: int) -> None:
        part = x[start:stop], grad[start:stop]
        found[start] = convolution.weight_gradient(xp, *part, kernel, stride, padding, *settings)

    def rows(start: int, stop: int) -> None:
        seen, pads = _from_row(x, start, stride, padding)
        if seen.size:
            part = seen, grad[:, :, start:stop]
            found[start] = convolution.weight_gradient(xp, *part, kernel, stride, pads, *settings)

    _spread(images, rows, x, grad.shape[2], products)
    result, *rest = (found[start] for start in sorted(found))
    for part in rest:
        result += part
    return result


def _from_row(x: Any, start: int, stride: Ints, padding: Ints) -> tuple[Any, Ints]:
    """What windows from a row of the output on read of images, and its padding."""
    first = start * stride[0] - padding[0]
    return x[:, :, max(first, 0) :], (max(-first, 0), *padding[1:])


def _spread(
    images: Callable[[int, int], None], rows: Callable[[int, int], None], x: Any, height: int, products: int
) -> None:
    """Share images among threads, or rows of the output where there is one image."""
    if products >= _MANY:
        alone = len(x) == 1 and x.ndim > 3
        spread_products(rows if alone else images, height if alone else len(x))
    else:
        with blas_alone(products, _THREADED):
            images(0, len(x))


def _sharing(products: int) -> small_gemm_convolution.Share:
    """What shares blocks of images and rows, if there are so many multiplications."""
    return share_products if products >= _MANY else _share_nothing


def _share_nothing(work: Callable[[Iterator[int]], None], count: int) -> None:
    with blas_alone(_THREADED, _THREADED):
        work(iter(range(count)))
