"""Pooling: the maximum, mean or norm of every window, and the unpooling of maxima.

Max pooling also returns the indices of the maxima. Adding a gradient at the indices and reading elements at the
indices are adjoint maps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, prod
from typing import Any

from gradcore.backends.kernel_rules import images
from gradcore.core import dtypes
from gradcore.ops.declare.annotations import Ints, OutputSizes, Scalar, Sizes, Steps
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.shapes import check_elements
from gradcore.ops.declare.table import bilinear, general, linear
from gradcore.ops.images.spatial import check_pooling_setting, declare_for_dims, each, spatial

# -- linear maps and their adjoints --------------------------------------------------------------------------


def _node(form: str) -> Callable[..., str]:
    """Return a function that names nodes by the number of spatial dims, the length of the first setting."""
    return lambda *args: form.format(n=len(next(a for a in args if isinstance(a, tuple))))


@linear(
    lambda F, grad, self_shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor: F.avg_pool_spread(
        grad, self_shape[-len(kernel) :], kernel, stride, padding, ceil_mode, count_include_pad, divisor
    ),
    node=_node("AvgPool{n}DBackward0"),
    connected=("self",),
    function=False,
    method=False,
    saved={"kernel_size": "kernel", "divisor_override": "divisor"},
    batch=images(1),
    half_on_cuda="windows",
)
def avg_pool(
    self,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
):
    """Return the mean of every window."""


@linear(
    lambda F, grad, kernel, stride, padding, ceil_mode, count_include_pad, divisor: F.avg_pool(
        grad, kernel, stride, padding, ceil_mode, count_include_pad, divisor
    ),
    node=_node("AvgPool{n}DBackwardBackward0"),
    function=False,
    method=False,
    saved={"kernel_size": "kernel", "divisor_override": "divisor"},
    batch=images(1),
)
def avg_pool_spread(
    self,
    size: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
):
    """Return the adjoint of `avg_pool`; `size` is that of the result."""


@linear(
    lambda F, grad, self_shape, size: F.adaptive_avg_pool_spread(grad, self_shape[-len(size) :]),
    node=_node("AdaptiveAvgPool{n}DBackward0"),
    connected=("self",),
    function=False,
    method=False,
    saved={"size": None},
    batch=images(1),
)
def adaptive_avg_pool(self, size: Ints):
    """Return the mean of each of `size` nearly equal parts."""


@linear(
    lambda F, grad, self_shape, size: F.adaptive_avg_pool(grad, self_shape[-len(size) :]),
    node=_node("AdaptiveAvgPool{n}DBackwardBackward0"),
    function=False,
    method=False,
    saved={"size": None},
    batch=images(1),
)
def adaptive_avg_pool_spread(self, size: Ints):
    """Return the adjoint of `adaptive_avg_pool`."""


@bilinear(
    self=lambda F, grad, indices, size: F.max_pool_gather(grad, indices, len(size)),
    node=_node("MaxPool{n}DWithIndicesBackwardBackward0"),
    function=False,
    method=False,
    saved={"result1": "indices"},
    batch=images(2),
)
def max_pool_spread(self, indices, size: Ints, windows: Ints = ()):
    """Return zeros of spatial size `size` with every element added at its flat spatial index.

    `windows` restricts the positions of indices, if known: a tuple of kernel, stride, padding and dilation of pooling,
    or the numbers of parts of adaptive pooling.
    """


def _max_pool_gather(self, indices, n: int):
    """Take elements at flat indices of the last `n` dims."""


for _name, _connected in (("max_pool_gather", ()), ("max_pool_chosen", ("self",))):
    bilinear(
        self=lambda F, grad, self_shape, indices, n: F.max_pool_spread(grad, indices, self_shape[-n:]),
        name=_name,
        kernel="max_pool_gather",
        batch=images(2),
        node="GatherBackward0",
        connected=_connected,
        function=False,
        method=False,
    )(_max_pool_gather)


# -- maxima --------------------------------------------------------------------------------------------------


@general(
    lambda F, grad, self_shape, indices, kernel, stride, padding, dilation: F.max_pool_spread(
        grad, indices, self_shape[-len(kernel) :], (*kernel, *stride, *padding, *dilation)
    ),
    outputs=("result", "indices"),
    differentiable=(0,),
    node=_node("MaxPool{n}DWithIndicesBackward0"),
    connected=("self",),
    function=False,
    method=False,
    saved={"kernel_size": "kernel", "result1": "indices"},
    batch=images(1),
)
def max_pool(self, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool):
    """Return the maximum of every window, and its flat spatial index."""


@max_pool.jvp("self")
def _(F, t, indices, kernel):
    return F.max_pool_gather(t, indices, len(kernel))


@general(
    lambda F, grad, self_shape, indices, size: F.max_pool_spread(grad, indices, self_shape[-len(size) :], size),
    outputs=("result", "indices"),
    differentiable=(0,),
    node=_node("AdaptiveMaxPool{n}DBackward0"),
    connected=("self",),
    function=False,
    method=False,
    saved={"result1": "indices", "size": None},
    batch=images(1),
)
def adaptive_max_pool(self, size: Ints):
    """Return the maximum of each of `size` nearly equal parts, and its flat spatial index."""


@adaptive_max_pool.jvp("self")
def _(F, t, indices, size):
    return F.max_pool_gather(t, indices, len(size))


@bilinear(
    self=lambda F, grad, indices, size: F.max_pool_gather(grad, indices, len(size)),
    node=_node("MaxUnpool{n}DBackward0"),
    function=False,
    method=False,
    saved={"size": None},
    batch=images(2),
)
def max_unpool(self, indices, size: Ints):
    """Return zeros of `size` with every element at its flat spatial index.

    If several elements have the same index, one of them is written.
    """


# -- arguments -----------------------------------------------------------------------------------------------


def _check_input(function: str, input: Any, n: int) -> None:
    if input.ndim not in (n + 1, n + 2) or 0 in input.shape[-n - 1 :]:
        raise RuntimeError(
            f"{function}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got: {list(input.shape)}"
        )


def _windows(
    function: str, input: Any, n: int, kernel_size: Steps, stride: Steps | None, padding: Steps, dilation: Steps = 1
) -> tuple[Sizes, Sizes, Sizes, Sizes]:
    """Check kernel size, stride, padding and dilation, and return each as a tuple of `n` numbers."""
    kernel = check_pooling_setting(function, "kernel_size", kernel_size, n)
    padding = check_pooling_setting(function, "padding", padding, n)
    dilation = check_pooling_setting(function, "dilation", dilation, n)
    if stride is None or stride == () or stride == []:
        steps = kernel
    elif each(stride, n) is None:
        raise RuntimeError(f"{function}: stride must either be omitted, a single int, or a tuple of {n} ints")
    else:
        steps = check_pooling_setting(function, "stride", stride, n)
    _check_input(function, input, n)
    if min(kernel) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(kernel)}")
    if min(steps) <= 0:
        raise RuntimeError("stride should not be zero")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if min(padding) < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(padding)}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    return kernel, steps, padding, dilation


def _check_output(input: Any, n: int, windows: tuple[Sizes, Sizes, Sizes, Sizes], ceil_mode: bool) -> None:
    sizes = []
    for size, k, s, p, d in zip(input.shape[-n:], *windows, strict=True):
        room = size + 2 * p - d * (k - 1) - 1
        sizes.append((-(-room // s) if ceil_mode else room // s) + 1)
    if min(sizes) < 1:
        before, after = ("x".join(map(str, s)) for s in (input.shape[-n:], sizes))
        channels = input.shape[-n - 1]
        raise RuntimeError(
            f"Given input size: ({channels}x{before}). Calculated output size: ({channels}x{after}). "
            "Output size is too small"
        )


def _output_size(function: str, input: Any, n: int, output_size: Any) -> Sizes:
    """Return the sizes of adaptive pooling's result, in which None stands for the input's size."""
    if isinstance(output_size, int) or output_size is None:
        output_size = (output_size,) * n
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{function}: Expected {n + 1}D or {n + 2}D tensor, but got {list(input.shape)}")
    if len(output_size) != n:
        raise RuntimeError(f"{function}: output_size must be {n}")
    for dim in range(-n, 0):
        if input.shape[dim] == 0:
            raise RuntimeError(
                f"{function}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {input.ndim + dim} being empty"
            )
    sizes = tuple(
        input_size if size is None else int(size)
        for size, input_size in zip(output_size, input.shape[-n:], strict=True)
    )
    if min(sizes) < 0:
        raise RuntimeError(
            f"{function}: elements of output_size must be greater than or equal to 0 but received {list(sizes)}"
        )
    return sizes


def _unpooled_size(input: Any, kernel: Sizes, stride: Sizes, padding: Sizes, output_size: Any) -> Sizes:
    n = len(kernel)
    default = [
        (size - 1) * s + k - 2 * p for size, k, s, p in zip(input.shape[-n:], kernel, stride, padding, strict=True)
    ]
    if output_size is None:
        if min(default) < 0:
            raise ValueError(f"max_unpooling: output_size must contain non-negative sizes, but got {default}")
        check_elements((*input.shape[:-n], *default))
        return tuple(default)
    sizes = tuple(output_size[2:] if len(output_size) == n + 2 else output_size)
    if len(sizes) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(sizes)}'"
        )
    for d, (size, middle, s) in enumerate(zip(sizes, default, stride, strict=True)):
        if not middle - s < size < middle + s:
            raise ValueError(f'invalid output_size "{sizes}" (dim {d} must be between {middle - s} and {middle + s})')
    return sizes


# -- the functions -------------------------------------------------------------------------------------------

_SHAPES = {1: (2, 3, 7), 2: (2, 2, 5, 6), 3: (1, 2, 4, 3, 5)}


def _distinct(*shape: int) -> Any:
    """Describe a tensor without equal elements."""
    return floats(*shape, form="distinct")


@declare_for_dims(1, 2, 3)
def _declare_max_pool(n: int) -> None:
    name = f"max_pool{n}d"

    def samples():
        shape = _SHAPES[n]
        return [
            case(_distinct(*shape), 2),
            case(_distinct(*shape), 3, stride=2, padding=1, ceil_mode=True, return_indices=True),
            case(_distinct(*shape[1:]), (2,) * n, stride=1, dilation=2),
            case(_distinct(0, *shape[1:]), 2),
        ]

    @spatial(
        name,
        aliases=(f".{name}",),
        samples=samples,
        autocast=(lambda *args: "" if args[-1] else "float32:cpu") if n == 3 else "",
    )
    def max_pool_nd(
        F,
        input,
        kernel_size: Steps,
        stride: Steps | None = None,
        padding: Steps = 0,
        dilation: Steps = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ):
        """Return the maximum of every window of {dims}.

        Parameters
        ----------
        input : Tensor
            Input of shape ``(batch, channels, *sizes)``, or without the batch dim.
        kernel_size, stride, padding, dilation : int or sequence of int
            The size of a window, the steps between windows (None: the size), the border outside the input that windows
            may reach into, and the steps between a window's elements.
        ceil_mode : bool
            Whether a last window may reach over the end.
        return_indices : bool
            Whether to return the flat spatial index of each maximum as well, as `max_unpool{n}d` wants it.
        """
        windows = _windows(name, input, n, kernel_size, stride, padding, dilation)
        _check_output(input, n, windows, ceil_mode)
        check_implemented(f"max_pool{max(n, 2)}d", input, "bc")
        out, indices = F.max_pool(input, *windows, ceil_mode)
        return (out, indices) if return_indices else out

    @spatial(
        f"{name}_with_indices",
        samples=lambda: [case(_distinct(*_SHAPES[n]), 2)],
    )
    def with_indices(
        F,
        input,
        kernel_size: Steps,
        stride: Steps | None = None,
        padding: Steps = 0,
        dilation: Steps = 1,
        ceil_mode: bool = False,
    ):
        """Compute `max_pool{n}d` with ``return_indices=True``."""
        return max_pool_nd(F, input, kernel_size, stride, padding, dilation, ceil_mode, True)


@declare_for_dims(1, 2, 3)
def _declare_avg_pool(n: int) -> None:
    name = f"avg_pool{n}d"

    def samples():
        shape = _SHAPES[n]
        return [
            case(floats(*shape), 2),
            case(floats(*shape), 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
            case(floats(*shape[1:]), (2,) * n, stride=1, padding=1, divisor_override=3),
            case(floats(0, *shape[1:]), 2),
        ]

    @spatial(
        name,
        aliases=(f".{name}",),
        samples=samples,
        autocast="float32:cpu" if n == 3 else "",
    )
    def avg_pool_nd(
        F,
        input,
        kernel_size: Steps,
        stride: Steps | None = None,
        padding: Steps = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        """Return the mean of every window of {dims}.

        Parameters
        ----------
        input : Tensor
            Input of shape ``(batch, channels, *sizes)``, or without the batch dim.
        kernel_size, stride, padding : int or sequence of int
            The size of a window, the steps between windows (None: the size), and the border of zeros around the input.
        ceil_mode : bool
            Whether a last window may reach over the end.
        count_include_pad : bool
            Whether the zeros of the border count.
        divisor_override : int, optional
            What sums are divided by, instead of the number of elements.
        """
        kernel, stride, padding, dilation = _windows(name, input, n, kernel_size, stride, padding)
        _check_output(input, n, (kernel, stride, padding, dilation), ceil_mode)
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        is_integer = input.dtype is dtypes.int64
        check_implemented("avg_pool2d" if n < 3 else "avg_pool3d_out_frame", input, "bc" if is_integer else "bic")
        out = F.avg_pool(input, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return F.to(F.trunc(out), dtypes.int64) if is_integer else out


@declare_for_dims(1, 2, 3)
def _declare_adaptive(n: int) -> None:
    mean, maximum = f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"
    shape, autocast = _SHAPES[n], "float32:cpu" if n == 3 else ""

    def samples(draw: Any) -> Any:
        return [case(draw(*shape), 2), case(draw(*shape[1:]), (3,) * n), case(draw(*shape), 1)]

    @spatial(mean, aliases=(f".{mean}",), samples=partial(samples, floats), autocast=autocast)
    def adaptive_avg_nd(F, input, output_size: OutputSizes):
        """Return the means of `output_size` equal parts of {dims}; None keeps the size of a dim."""
        sizes = _output_size(mean, input, n, output_size)
        if prod(sizes) == 1 and n > 1:
            return F.mean(input, tuple(range(-n, 0)), True)
        check_implemented(f"adaptive_avg_pool{max(n, 2)}d", input, "bic")
        check_elements((*input.shape[:-n], *sizes))
        return F.adaptive_avg_pool(input, sizes)

    @spatial(maximum, aliases=(f".{maximum}",), samples=partial(samples, _distinct), autocast=autocast)
    def adaptive_max_nd(F, input, output_size: OutputSizes, return_indices: bool = False):
        """Return the maxima of `output_size` equal parts of {dims}; None keeps the size of a dim.

        With `return_indices`, also the flat spatial index of each.
        """
        sizes = _output_size(maximum, input, n, output_size)
        _check_input(maximum, input, n)
        check_elements((*input.shape[:-n], *sizes))
        check_implemented(f"adaptive_max_pool{max(n, 2)}d", input, "bc")
        out, indices = F.adaptive_max_pool(input, sizes)
        return (out, indices) if return_indices else out

    @spatial(f"{maximum}_with_indices", autocast=autocast, samples=lambda: [case(_distinct(*shape), 2)])
    def with_indices(F, input, output_size: OutputSizes):
        """Compute `adaptive_max_pool{n}d` with ``return_indices=True``."""
        return adaptive_max_nd(F, input, output_size, True)


@declare_for_dims(1, 2, 3)
def _declare_max_unpool(n: int) -> None:
    name = f"max_unpool{n}d"

    @spatial(
        name,
        autocast="float32:cpu",
        samples=lambda: [  # one element for each plane: no index occurs twice
            case(floats(3, 2, *(1,) * n), ints(3, 2, *(1,) * n, high=3**n), 3),
            case(floats(2, *(1,) * n), ints(2, *(1,) * n, high=2**n), (2,) * n),
        ],
    )
    def max_unpool_nd(
        F,
        input,
        indices,
        kernel_size: Steps,
        stride: Steps | None = None,
        padding: Steps = 0,
        output_size: Ints | None = None,
    ):
        """Return zeros, with the elements of `input` at the indices that `max_pool{n}d` returned.

        Parameters
        ----------
        input, indices : Tensor
            The maxima and their flat spatial indices.
        kernel_size, stride, padding : int or sequence of int
            As `max_pool{n}d` had them.
        output_size : sequence of int, optional
            The spatial sizes of the result, where several would do.
        """
        kernel = check_pooling_setting(name, "kernel_size", kernel_size, n)
        steps = kernel if stride is None else check_pooling_setting(name, "stride", stride, n)
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(f"{name}: Expected {n + 1}D or {n + 2}D tensor, but got {list(input.shape)}")
        sizes = _unpooled_size(input, kernel, steps, check_pooling_setting(name, "padding", padding, n), output_size)
        if indices.dtype.name != "int64":
            raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype.scalar_name}")
        if indices.shape != input.shape:
            raise RuntimeError(
                f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
                f"indices tensor with shape: {list(indices.shape)}"
            )
        return F.max_unpool(input, indices, sizes)


@declare_for_dims(1, 2, 3)
def _declare_lp_pool(n: int) -> None:
    name = f"lp_pool{n}d"

    @spatial(
        name,
        autocast="float32:cpu" if n == 3 else "",
        samples=lambda: [
            case(floats(*_SHAPES[n], low=0.5, high=2.0), 2, 2),
            case(floats(*_SHAPES[n][1:], low=0.5, high=2.0), 3.0, 2, stride=1, ceil_mode=True),
            case(floats(*_SHAPES[n], low=0.1, high=2.0, form="distinct"), inf, 2),
        ],
    )
    def lp_pool_nd(
        F, input, norm_type: Scalar, kernel_size: Steps, stride: Steps | None = None, ceil_mode: bool = False
    ):
        """Return the p-norm of every window of {dims}, without the absolute value: ``sum(x ** p) ** (1 / p)``."""
        kernel = check_pooling_setting(name, "kernel_size", kernel_size, n)
        if abs(norm_type) == inf:
            return _extreme(F, input, norm_type, kernel, stride, ceil_mode)
        windows = _windows(name, input, n, kernel, stride, 0)
        _check_output(input, n, windows, ceil_mode)
        check_implemented(f"avg_pool{min(n, 2)}d", input, "c")
        out = F.avg_pool(F.pow(input, float(norm_type)), *windows[:3], ceil_mode, True, None)
        return F.pow(F.mul(F.sign(out) * F.relu(F.abs(out)), prod(kernel)), 1.0 / norm_type)

    def _extreme(F, input, norm_type, kernel, stride, ceil_mode):
        sign = 1 if norm_type > 0 else -1
        windows = _windows(name, input, n, kernel, stride, 0)
        _check_output(input, n, windows, ceil_mode)
        return sign * F.max_pool(sign * F.abs(input), *windows, ceil_mode)[0]
