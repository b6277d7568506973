"""Transforms of vectors, matrices, and parts of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core.dtypes import finfo
from gradcore.distributions import constraints
from gradcore.distributions.constraints import Constraint
from gradcore.distributions.transform import Transform, sum_rightmost
from gradcore.functions.linalg import cholesky
from gradcore.nn import functional as F
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange, eye, tril_indices

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
]


class _Plain(Transform):
    """Base class of transforms without parameters."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


# -- vectors onto the simplex -----------------------------------------------------------------------------------------


class SoftmaxTransform(_Plain):
    """The transform ``softmax(x)``, which is not a bijection. Its inverse returns the logarithm.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.SoftmaxTransform()(gc.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _check_shape(shape)

    inverse_shape = forward_shape


def _check_shape(shape: Sequence[int], dims: int = 1) -> Sequence[int]:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return shape


class StickBreakingTransform(_Plain):
    """Transform of vectors onto the simplex with one more dim. Each number gives the share that is broken off the rest.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.StickBreakingTransform()(gc.tensor([0.0]))
    tensor([0.5000, 0.5000])
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.simplex

    @staticmethod
    def _log_shares_left(x: Tensor, n: int) -> Tensor:
        """Return the logarithm of the number of remaining shares, an offset that makes the shares of zeros equal."""
        return arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        share = (x - self._log_shares_left(x, x.shape[-1])).sigmoid()
        remaining = (1 - share).cumprod(-1)
        return F.pad(share, [0, 1], value=1) * F.pad(remaining, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        remaining = (1 - shares.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return shares.log() - remaining.log() + self._log_shares_left(y, shares.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._log_shares_left(x, x.shape[-1])
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return (*_check_shape(shape)[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return (*_check_shape(shape)[:-1], shape[-1] - 1)


# -- matrices ---------------------------------------------------------------------------------------------------------


class LowerCholeskyTransform(_Plain):
    """Transform of matrices to lower triangular matrices with a positive diagonal.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.LowerCholeskyTransform()(gc.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Transform of matrices to positive definite ones, by their Cholesky factors.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.PositiveDefiniteTransform()(gc.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


def _take_triangle(matrix: Tensor, diagonal: int) -> Tensor:
    """Return the elements on and below a diagonal of matrices, row by row, as vectors."""
    n = matrix.shape[-1]
    rows, columns = tril_indices(n, n, diagonal, device=matrix.device)
    return matrix[..., rows, columns]


class CorrCholeskyTransform(_Plain):
    """Transform of vectors to Cholesky factors of correlation matrices, whose rows have length 1.

    The hyperbolic tangents of the numbers are partial correlations, from which stick breaking computes each row.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.CorrCholeskyTransform()(gc.tensor([0.0]))
    tensor([[1., 0.],
            [0., 1.]])
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        n = self._size(x.shape[-1])
        eps = finfo(x.dtype).eps
        rows, columns = tril_indices(n, n, -1, device=x.device)
        partial = x.new_zeros(*x.shape[:-1], n, n)
        partial[..., rows, columns] = x.tanh().clamp(-1 + eps, 1 - eps)
        remaining = (1 - partial * partial).sqrt().cumprod(-1)
        partial = partial + eye(n, dtype=x.dtype, device=x.device)
        return partial * F.pad(remaining[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        remaining = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        return (_take_triangle(y, -1) / _take_triangle(remaining, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        remaining = _take_triangle(1 - (y * y).cumsum(-1), -2)
        tangents = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * remaining.log().sum(-1) + tangents

    @staticmethod
    def _size(count: int) -> int:
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return n  # type: ignore[no-any-return]

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        n = self._size(_check_shape(shape)[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        n = _check_shape(shape, 2)[-1]
        if shape[-2] != n:
            raise ValueError("Input is not square")
        return (*shape[:-2], n * (n - 1) // 2)


# -- parts of tensors -------------------------------------------------------------------------------------------------


class _OfParts(Transform):
    """Base class of several transforms, each of which applies to a part of a tensor along a dim."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)])


class CatTransform(_OfParts):
    """Several transforms, each of which applies to a part of given length along a dim.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int
        Along which the parts lie.
    lengths : sequence of int, optional
        The lengths of the parts, by default 1 each.
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.CatTransform(
    ...     [gc.distributions.ExpTransform(), gc.distributions.identity_transform])(gc.tensor([0.0, 5.0])
    ... )
    tensor([1., 5.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Length of all parts together."""
        return sum(self.lengths)

    @property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        return functional.cat(parts, self.dim)  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logs: list[Any] = []
        for t, before, after in zip(self.transforms, self._split(x), self._split(y), strict=True):
            logs.append(sum_rightmost(t.log_abs_det_jacobian(before, after), self.event_dim - t.event_dim))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += self.event_dim
        return functional.cat(logs, dim) if dim < 0 else sum(logs)  # type: ignore[no-any-return]


class StackTransform(_OfParts):
    """Several transforms, each of which applies to one slice of a tensor.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int
        Along which the slices lie.
    cache_size : int
        1 to cache the last input and output, 0 to compute them again.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.distributions.StackTransform(
    ...     [gc.distributions.ExpTransform(), gc.distributions.identity_transform])(gc.tensor([0.0, 5.0])
    ... )
    tensor([1., 5.])
    """

    @property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        return functional.stack(parts, self.dim)  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return self._join([t.log_abs_det_jacobian(before, after) for t, before, after in pairs])
