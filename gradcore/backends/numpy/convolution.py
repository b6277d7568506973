"""Convolution kernels for the CPU, whose work threads share.

Images of floats with more than a few channels are convolved by the small products of `small_gemm_convolution`, others
by the columns of `portable.convolution`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from gradcore.backends.numpy import small_gemm_convolution
from gradcore.backends.numpy.matmul import blas_alone, share_products, spread_products
from gradcore.backends.portable import convolution
from gradcore.backends.portable.convolution import Convolution, ConvSettings
from gradcore.core.typing import NUMPY

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["NumpyConvolution"]

Ints = Sequence[int]

#: Number of multiplications (about) from which gradcore's threads share the work, and from which BLAS uses its own.
_MANY, _THREADED = 1 << 24, 1 << 18
#: Output channels from which small products are faster than columns; the same for the gradient of the weight; and the
#: values per window row from which this gradient uses them.
_OUTPUTS, _MORE_OUTPUTS, _VALUES = 8, 16, 8


class NumpyConvolution(Convolution):
    """Convolution of NumPy arrays."""

    def correlate(self, x: Array, weight: Array, settings: ConvSettings, out: Array) -> None:
        stride, padding, _, groups = settings
        products = out.size * prod(weight.shape[1:])
        if out.size and weight.shape[0] >= _OUTPUTS * groups and small_gemm_convolution.fits(x, weight, settings):
            small_gemm_convolution.correlate(x, weight, settings, out, _sharing(products))
            return
        if products < _THREADED:
            convolution.correlate(NUMPY, x, weight, settings, out)
            return

        def images(start: int, stop: int) -> None:
            convolution.correlate(NUMPY, x[start:stop], weight, settings, out[start:stop])

        def rows(start: int, stop: int) -> None:
            images_part, pads = _from_row(x, start, stride, padding)
            convolution.correlate(NUMPY, images_part, weight, settings._replace(padding=pads), out[:, :, start:stop])

        _spread(images, rows, x, out.shape[2], products)

    def weight_gradient(self, x: Array, grad: Array, kernel: Ints, settings: ConvSettings) -> Array:
        stride, padding, _, groups = settings
        products = grad.size * (x.shape[1] // groups) * prod(kernel)
        values = x.shape[1] // groups * prod(kernel[1:])
        is_large = grad.shape[1] >= _MORE_OUTPUTS * groups and values >= _VALUES
        if is_large and small_gemm_convolution.fits_gradient(x, kernel, stride):
            return small_gemm_convolution.weight_gradient(x, grad, kernel, settings, _sharing(products))
        if products < _THREADED:
            return convolution.weight_gradient(NUMPY, x, grad, kernel, settings)
        gradients: dict[int, Array] = {}

        def images(start: int, stop: int) -> None:
            gradients[start] = convolution.weight_gradient(NUMPY, x[start:stop], grad[start:stop], kernel, settings)

        def rows(start: int, stop: int) -> None:
            images_part, pads = _from_row(x, start, stride, padding)
            if images_part.size:
                part = settings._replace(padding=pads)
                gradients[start] = convolution.weight_gradient(NUMPY, images_part, grad[:, :, start:stop], kernel, part)

        _spread(images, rows, x, grad.shape[2], products)
        result, *rest = (gradients[start] for start in sorted(gradients))
        for part in rest:
            result += part
        return result


def _from_row(x: Any, start: int, stride: Ints, padding: Ints) -> tuple[Any, Ints]:
    """Return the part of the images `x` that output rows from `start` on read, and the padding of that part."""
    first = start * stride[0] - padding[0]
    return x[:, :, max(first, 0) :], (max(-first, 0), *padding[1:])


def _spread(
    images: Callable[[int, int], None], rows: Callable[[int, int], None], x: Any, height: int, products: int
) -> None:
    """Share the work among threads: by images with ``images(start, stop)``, or a single image by rows with `rows`."""
    if products >= _MANY:
        is_single_image = len(x) == 1 and x.ndim > 3
        spread_products(rows if is_single_image else images, height if is_single_image else len(x))
    else:
        with blas_alone(products, _THREADED):
            images(0, len(x))


def _sharing(products: int) -> small_gemm_convolution.Share:
    """Return the function that runs blocks of images and rows: in threads, or in the current one for little work."""
    return share_products if products >= _MANY else _share_nothing


def _share_nothing(work: Callable[[Iterator[int]], None], count: int) -> None:
    with blas_alone(_THREADED, _THREADED):
        work(iter(range(count)))
