"""Adaptive softmax over many classes, with the rare classes in groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gradcore import functional
from gradcore.nn import functional as F
from gradcore.nn.containers import ModuleList, Sequential
from gradcore.nn.linear import Linear
from gradcore.nn.module import Module, count_dims
from gradcore.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """Result of `AdaptiveLogSoftmaxWithLoss`: the log probability of each target, and minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of many classes, sorted by frequency: frequent classes singly, rare ones in groups.

    Each group of rare classes has one entry among the frequent classes, and its own softmax on fewer features. That
    softmax is computed only for samples whose target is in the group.

    Parameters
    ----------
    in_features : int
    n_classes : int
    cutoffs : sequence of int
        The first class of each group. Classes below the first cutoff are the frequent ones.
    div_value : float
        The divisor of the number of features from one group to the next.
    head_bias : bool
        Whether the frequent classes and the groups have offsets.
    device, dtype
        The device and dtype of the parameters.

    Examples
    --------
    >>> import gradcore
    >>> net = gradcore.nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
    >>> found = net(gradcore.rand(5, 16), gradcore.tensor([3, 20, 999, 0, 50]))
    >>> found.output.shape, found.loss.shape
    (torch.Size([5]), torch.Size([]))
    >>> net.log_prob(gradcore.rand(5, 16)).exp().sum(1)
    tensor([1.0000, 1.0000, 1.0000, 1.0000, 1.0000], grad_fn=<SumBackward1>)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not all(hasattr(number, "__index__") for number in (n_classes, *cutoffs)):
            raise TypeError("n_classes and cutoffs must be integers")
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(a < b for a, b in pairwise([0, *cutoffs, n_classes]))
        if not rising or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters

        def linear(inner: int, outer: int, bias: bool = False) -> Linear:
            return Linear(inner, outer, bias, device, dtype)

        self.head = linear(in_features, self.head_size, head_bias)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs), start=1):
            inner = int(in_features // div_value**i)
            self.tail.append(Sequential(linear(in_features, inner), linear(inner, high - low)))

    def reset_parameters(self) -> None:
        """Draw new parameters at random."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log probability of each target, and minus their mean.

        Parameters
        ----------
        input_ : Tensor
            ``(N, in_features)``, or ``(in_features,)``.
        target_ : Tensor
            ``(N,)``, or of one element.

        Returns
        -------
        output, loss : Tensor

        Raises
        ------
        RuntimeError
            If shapes do not fit, or a target is no class.
        """
        self._check(input_, target_)
        batched = target_.ndim == 1
        x, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        column, pieces = target, []
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            inside = (target >= low) & (target < high)
            column = functional.where(inside, self.shortlist_size + i, column)
            rows = inside.nonzero().squeeze(1)
            if rows.numel():
                logs = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
                indices = (target.index_select(0, rows) - low).unsqueeze(1)
                pieces.append((rows, logs.gather(1, indices).squeeze(1)))
        out = F.log_softmax(self.head(x), 1).gather(1, column.unsqueeze(1)).squeeze(1)
        for rows, logs in pieces:
            out = out.index_add(0, rows, logs)
        loss = (-out).mean()
        return _ASMoutput(out if batched else out.squeeze(0), loss)

    def _check(self, x: Tensor, target: Tensor) -> None:
        if not count_dims(self, "input_", x):
            raise IndexError("input_ must have a dim of features, but has no dims")
        if count_dims(self, "target_", target) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim == 1 and x.shape[:1] != target.shape:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if x.ndim != target.ndim + 1:
            raise RuntimeError(
                f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with size "
                f"{x.size()}"
            )
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes.

        Parameters
        ----------
        input : Tensor
            ``(N, in_features)``.

        Returns
        -------
        Tensor
            ``(N, n_classes)``.
        """
        head = F.log_softmax(self.head(input), 1)
        groups = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail, start=self.shortlist_size):
            groups.append(F.log_softmax(tail(input), 1) + head[:, i : i + 1])
        return functional.cat(groups, 1)  # type: ignore[no-any-return]

    def predict(self, input: Tensor) -> Tensor:
        """Return the class with the highest probability, for each sample.

        Parameters
        ----------
        input : Tensor
            ``(N, in_features)``.

        Returns
        -------
        Tensor
            ``(N,)``.
        """
        return self.log_prob(input).argmax(1)
