"""Embedding layers: tables of vectors, looked up by index."""

from __future__ import annotations

from typing import Any, Self

from gradcore.autograd.grad_mode import no_grad
from gradcore.nn import functional as F
from gradcore.nn.init import normal_
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Base class of `Embedding` and `EmbeddingBag`."""

    weight: Tensor

    def _add(self, weight: Tensor | None, freeze: bool, device: Any, dtype: Any) -> None:
        n, size = self.num_embeddings, self.embedding_dim
        if self.padding_idx is not None:
            if not -n <= self.padding_idx < n:
                raise AssertionError("Padding_idx must be within num_embeddings")
            self.padding_idx %= n
        if weight is None:
            self.weight = Parameter(empty(n, size, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(weight.shape) != (n, size):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw new vectors at random. The vector of `padding_idx` is zero."""
        normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **settings: Any) -> Self:
        """Return a layer with the given vectors.

        Parameters
        ----------
        embeddings : Tensor
            The vectors, whose memory is shared.
        freeze : bool
            Whether they are not trained.
        **settings
            Further arguments of the constructor.
        """
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        out = cls(*embeddings.shape, _weight=embeddings, **settings)
        out.weight.requires_grad = not freeze
        return out


class Embedding(_Table):
    """`gradcore.nn.functional.embedding` with learned vectors.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        The number of vectors, and their size.
    padding_idx : int, optional
        The number of a vector that is zero and not trained.
    max_norm : float, optional
        Longer vectors are scaled down to that norm when they are looked up.
    norm_type : float
        The order of that norm.
    scale_grad_by_freq : bool
        Whether gradients are divided by how often a number occurs.
    sparse : bool
        Whether gradients are sparse tensors, of the vectors in use; for `optim.SparseAdam`, `SGD` and `Adagrad`.
    device, dtype
        The device and dtype of the vectors.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.Embedding(10, 3)(gradcore.tensor([[1, 2], [4, 5]])).shape
    torch.Size([2, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._add(_weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return the vectors of the indices in `input`."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """Return the sizes, and the settings that differ from their defaults."""
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        shown += [f"{n}={getattr(self, n)}" for n, value in usual.items() if getattr(self, n) != value]
        return ", ".join(shown + ["sparse=True"] * self.sparse)


class EmbeddingBag(_Table):
    """`gradcore.nn.functional.embedding_bag` with learned vectors.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        The number of vectors, and their size.
    max_norm, norm_type, scale_grad_by_freq, sparse
        See `Embedding`.
    mode : {"sum", "mean", "max"}
        The reduction of the vectors of a bag.
    include_last_offset : bool
        Whether the offsets end with the number of all indices.
    padding_idx : int, optional
        The number of a vector that is left out.
    device, dtype
        The device and dtype of the vectors.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.EmbeddingBag(10, 3)(gc.tensor([1, 2, 4]), gc.tensor([0, 2])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.mode = max_norm, norm_type, mode
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.include_last_offset = include_last_offset
        self._add(_weight, False, device, dtype)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one vector for each bag of indices."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes, and the settings that differ from their defaults."""
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        usual = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        shown += [f"{n}={getattr(self, n)}" for n, value in usual.items() if getattr(self, n) != value]
        shown += [f"mode={self.mode!r}"]
        return ", ".join(shown + ([f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []))
