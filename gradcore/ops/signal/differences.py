"""Derivatives of sampled functions by finite differences."""

from __future__ import annotations

from typing import Any

from gradcore.ops.declare.annotations import Dims, Spacing
from gradcore.ops.declare.checks import check_implemented
from gradcore.ops.declare.samples import case, floats
from gradcore.ops.declare.shapes import all_dims
from gradcore.ops.declare.table import composite

_NAME = "torch.gradient"


def _samples():
    return [
        case(floats(4, 5)),
        case(floats(5), spacing=0.5, edge_order=2),
        case(floats(3, 4), dim=1, spacing=2.0),
        case(floats(3, 4), dim=(0, -1), spacing=[0.5, 2.0], edge_order=2),
        case(floats(4), spacing=(_Points((0.0, 1.0, 1.5, 4.0)),), edge_order=2),
    ]


class _Points(tuple[float, ...]):
    """Coordinates of samples, which `gradient` takes in place of a tensor."""


@composite(method=False, samples=_samples)
def gradient(F, input, *, spacing: Spacing = None, dim: Dims = None, edge_order: int = 1):
    """Return the derivative of a sampled function along each dim, by central differences.

    Parameters
    ----------
    input : Tensor
        The samples.
    spacing : float, list of float, or list of Tensor, optional
        The distance of neighbours, for all dims or for each of them, or the coordinates along each dim; 1 by default.
    dim : int or sequence of int, optional
        Along which dims to differentiate; by default all of them.
    edge_order : {1, 2}
        The order of the one-sided differences at both ends.

    Returns
    -------
    tuple of Tensor
        For each dim a tensor of the input's shape.

    Notes
    -----
    Inside, and with ``edge_order=2`` at the ends, the differences are exact for parabolas, also on uneven grids; see
    A. Quarteroni, R. Sacco, F. Saleri, "Numerical Mathematics", Springer 2007, section 10.10.

    Examples
    --------
    >>> gc.gradient(gc.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"{_NAME} only supports edge_order=1 and edge_order=2.")
    dims = all_dims(dim, input.ndim)
    if any(input.shape[d] < edge_order + 1 for d in dims):
        raise RuntimeError(f"{_NAME} expected each dimension size to be at least edge_order+1")
    check_implemented("gradient", input, "b")  # a difference of bools
    if not (input.is_floating_point() or input.is_complex()):
        input = input.float()
    steps = _steps(F, input, spacing, dims, dim is None)
    return tuple(_differentiate_along(F, input, d, h, edge_order) for d, h in zip(dims, steps, strict=True))


def _steps(F: Any, input: Any, spacing: Any, dims: Any, everywhere: bool) -> list[Any]:
    """Return, for each dim, the distances of neighbours: a number or a vector."""
    if spacing is None or not hasattr(spacing, "__len__"):
        return [1.0 if spacing is None else spacing] * len(dims)
    if len(spacing) != len(dims):
        which = f"'self.dim() = {input.ndim}', since dim argument was not given" if everywhere else "'dim'"
        raise RuntimeError(
            f"{_NAME} expected spacing to be unspecified, a scalar, or a list of length equal to {which}, but got a "
            f"list of length {len(spacing)}"
        )
    return [_distances(F, input, s, d) if hasattr(s, "__len__") else s for s, d in zip(spacing, dims, strict=True)]


def _distances(F: Any, input: Any, points: Any, d: int) -> Any:
    if not F.is_tensor(points):
        points = F.as_tensor(list(points), dtype=input.dtype, device=input.device)
    if points.ndim != 1 or points.shape[0] != input.shape[d]:
        raise RuntimeError(
            f"{_NAME} expected coordinates of length {input.shape[d]} for dim {d}, but got a tensor of shape "
            f"{list(points.shape)}"
        )
    return points[1:] - points[:-1]


def _differentiate_along(F: Any, f: Any, d: int, h: Any, edge_order: int) -> Any:
    """Return the derivative along dim `d`, from the distances `h` of neighbours."""
    n = f.shape[d]
    if F.is_tensor(h):
        h = F.reshape(h, (n - 1, *(1,) * (f.ndim - d - 1)))
        first, last = (lambda i: F.narrow(h, 0, i, 1)), (lambda i: F.narrow(h, 0, n - 2 - i, 1))
        left, right = F.narrow(h, 0, 0, n - 2), F.narrow(h, 0, 1, n - 2)
    else:
        first = last = lambda i: h

    def at(start: int, length: int = 1) -> Any:
        return F.narrow(f, d, start, length)

    if not F.is_tensor(h):
        inside = F.scale(at(2, n - 2) - at(0, n - 2), 1 / (2 * h))
    else:
        inside = (
            at(2, n - 2) * (left / (right * (left + right)))
            + at(1, n - 2) * ((right - left) / (left * right))
            - at(0, n - 2) * (right / (left * (left + right)))
        )
    ends = [_end(F, at, first, (0, 1, 2), edge_order), -_end(F, at, last, (n - 1, n - 2, n - 3), edge_order)]
    return F.cat([ends[0], inside, ends[1]], d)


def _end(F: Any, at: Any, step: Any, places: tuple[int, ...], edge_order: int) -> Any:
    """Return the one-sided difference at an end, computed from the samples at `places`."""
    h, k = step(0), step(min(1, edge_order - 1))
    times = F.mul if F.is_tensor(h) else F.scale
    if edge_order == 1:
        return times(at(places[1]) - at(places[0]), 1 / h)
    return (
        times(at(places[1]), (h + k) / (h * k))
        - times(at(places[0]), (2 * h + k) / (h * (h + k)))
        - times(at(places[2]), h / (k * (h + k)))
    )
