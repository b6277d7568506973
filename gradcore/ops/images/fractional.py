"""Fractional max pooling: windows at random positions, so that images shrink by any ratio."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore.ops.declare.annotations import Steps
from gradcore.ops.declare.samples import case, constants, floats
from gradcore.ops.images.spatial import check_pooling_setting, declare_for_dims, spatial


def _starts(F: Any, sample: Any, size: int, outputs: int, kernel: int) -> Any:
    """Return the starts of the windows in one dim, ``(batch, channels, outputs)``; distances differ by at most 1."""
    if outputs == 1:
        return F.zeros_like(F.unsqueeze(sample, -1)) + (size - kernel)
    step = (size - kernel) / (outputs - 1)
    numbers = F.index_tensor(list(range(outputs - 1)), sample).to(sample.dtype)
    sample = F.unsqueeze(sample, -1)
    starts = F.trunc((numbers + sample) * step) - F.trunc(sample * step)
    return F.cat([starts, F.zeros_like(sample) + (size - kernel)], -1)


def _positions(F: Any, starts: Sequence[Any], sizes: Sequence[int], kernel: Sequence[int]) -> Any:
    """Return the flat indices of all elements of all windows, ``(batch, channels, windows, elements)``."""
    positions: Any = None
    lead = tuple(starts[0].shape[:2])
    for start, size, k in zip(starts, sizes, kernel, strict=True):
        taps = F.index_tensor(list(range(k)), start)
        offsets = F.unsqueeze(start.to(taps.dtype), -1) + taps
        if positions is None:
            positions = offsets
            continue
        windows, elements = positions.shape[2] * offsets.shape[2], positions.shape[3] * k
        joined = positions[:, :, :, None, :, None] * size + offsets[:, :, None, :, None, :]
        positions = F.reshape(joined, (*lead, windows, elements))
    return positions


def _resolved_size(name: str, input: Any, n: int, output_size: Any, output_ratio: Any) -> tuple[int, ...]:
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is not None:
        return check_pooling_setting(name, "output_size", output_size, n)
    if isinstance(output_ratio, (int, float)):
        output_ratio = (output_ratio,) * n
    if len(output_ratio) != n:
        raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
    return tuple(int(size * ratio) for size, ratio in zip(input.shape[-n:], output_ratio, strict=True))


def _pool(
    F: Any, n: int, input: Any, kernel_size: Steps, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Any, Any]:
    name = f"fractional_max_pool{n}d"
    kernel = check_pooling_setting(name, "kernel_size", kernel_size, n)
    if input.ndim not in (n + 1, n + 2) or 0 in input.shape[-n - 1 :]:
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    outputs = _resolved_size(name, input, n, output_size, output_ratio)
    sizes = input.shape[-n:]
    if min((*outputs, *kernel)) <= 0:
        raise RuntimeError(
            f"{name}(): kernel_size and output_size must be greater than zero, but got {list(kernel)} and "
            f"{list(outputs)}"
        )
    for size, out, k in zip(sizes, outputs, kernel, strict=True):
        if out + k - 1 > size:
            raise RuntimeError(f"{name}(): pool size {k} too large relative to input size {size}")
    batched = input.ndim == n + 2
    lead = tuple(input.shape[:2]) if batched else (1, input.shape[0])
    if samples is not None and samples.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples is None:
        samples = F.rand(*lead, n, dtype=input.dtype, device=input.device)
    elif samples.ndim != 3 or samples.shape[0] < lead[0] or tuple(samples.shape[1:]) != (lead[1], n):
        raise RuntimeError(
            f"Expect _random_samples of shape {[*lead, n]}, or of a larger batch, but got {list(samples.shape)}"
        )
    samples = F.narrow(samples, 0, 0, lead[0])
    # The last dim of an image comes first in the samples, but the first dim of a volume.
    order = (1, 0) if n == 2 else (0, 1, 2)
    starts = [
        _starts(F, samples[..., i], size, out, k) for i, size, out, k in zip(order, sizes, outputs, kernel, strict=True)
    ]
    positions = _positions(F, starts, sizes, kernel)
    flat = F.reshape(input.detach(), (*lead, prod(sizes)))
    values = F.reshape(
        F.gather(flat, 2, F.reshape(positions, (*lead, prod(positions.shape[2:])))), tuple(positions.shape)
    )
    indices = F.gather(positions, 3, F.unsqueeze(F.max(values, 3)[1], 3))
    indices = F.unsafe_view(indices, (*(lead if batched else lead[1:]), *outputs))
    return F.max_pool_chosen(input, indices, n), indices


@declare_for_dims(2, 3)
def _declare(n: int) -> None:
    name = f"fractional_max_pool{n}d"
    shape = (2, 2, 6, 7, 5)[: n + 2]

    def samples() -> Any:
        random_samples = constants(2, 2, n, low=0.0, high=1.0)
        return [
            case(floats(*shape, form="distinct"), 2, 3, None, True, random_samples),
            case(floats(*shape, form="distinct"), (2,) * n, None, 0.5, False, random_samples),
        ]

    @spatial(name, samples=samples, autocast="float32:cpu")
    def fractional_max_pool(
        F,
        input,
        kernel_size: Steps,
        output_size: Steps | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples=None,
    ):
        """Return the maxima of windows at random positions of {dims}.

        Parameters
        ----------
        input : Tensor
            Input of shape ``(batch, channels, *sizes)``, or without the batch dim.
        kernel_size : int or sequence of int
        output_size : int or sequence of int, optional
        output_ratio : float or sequence of float, optional
            The output's size as a share of the input's, if `output_size` is not given.
        return_indices : bool
            Whether to return the flat spatial index of each maximum as well.
        """
        out, indices = _pool(F, n, input, kernel_size, output_size, output_ratio, _random_samples)
        return (out, indices) if return_indices else out

    @spatial(f"{name}_with_indices", samples=samples, autocast="float32:cpu")
    def with_indices(
        F,
        input,
        kernel_size: Steps,
        output_size: Steps | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples=None,
    ):
        """Compute `fractional_max_pool{n}d` with ``return_indices=True``."""
        return _pool(F, n, input, kernel_size, output_size, output_ratio, _random_samples)
