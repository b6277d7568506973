"""Connectionist temporal classification: the loss of a sequence of labels whose positions are not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.dtypes import INTEGER, int64
from gradcore.ops.annotations import Tensor
from gradcore.ops.checks import check_reduction
from gradcore.ops.samples import case, floats, ints
from gradcore.ops.table import composite

# The logarithm of a probability of zero. Finite, as differences of infinities have no derivative.
_NEVER = -1e30


def _listed(name: str, lengths: Any) -> list[int]:
    if isinstance(lengths, (tuple, list)):
        return list(lengths)
    if lengths.dtype.category != INTEGER:
        raise RuntimeError(f"{name} must be integral")
    return lengths.reshape(-1).tolist()  # type: ignore[no-any-return]


def _check(log_probs: Any, targets: Any, inputs: list[int], lengths: list[int], blank: int) -> None:
    steps, batch, classes = log_probs.shape
    for name, each in (("input_lengths", inputs), ("target_lengths", lengths)):
        if len(each) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        if min(each, default=0) < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {min(each)}")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if any(n > steps for n in inputs):
        raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {max(inputs)}")
    if targets.ndim == 1 and targets.shape[0] != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.shape[0]} for argument "
            "#2 'targets'"
        )


def _extended(targets: Any, lengths: list[int], blank: int) -> tuple[list[list[int]], list[list[bool]]]:
    """Each sequence with blanks around its labels, and where the blank before a label can be skipped."""
    if targets.ndim == 1:
        flat, rows, start = targets.tolist(), [], 0
        for n in lengths:
            rows.append(flat[start : start + n])
            start += n
    else:
        rows = targets.tolist()
        if rows and len(rows[0]) < max(lengths, default=0):
            raise RuntimeError(
                f"Expected tensor to have size at least {max(lengths)} at dimension 1, but got size {len(rows[0])} for "
                "argument #2 'targets'"
            )
    longest = 2 * max(lengths, default=0) + 1
    labels, skips = [], []
    for row, n in zip(rows, lengths, strict=True):
        line = [blank] * longest
        line[1 : 2 * n : 2] = row[:n]
        labels.append(line)
        skips.append([s > 1 and line[s] != blank and line[s] != line[s - 2] for s in range(longest)])
    return labels, skips


def _forward(F: Any, scores: Any, skips: Any, inputs: Sequence[int]) -> Any:
    """Logarithms of the probabilities of all beginnings, ``(batch, positions)``, after each sequence's last step."""
    steps = F.unbind(scores, 0)
    width = scores.shape[2]
    alpha = F.where(F.index_tensor([s < 2 for s in range(width)], scores), steps[0], _NEVER)
    lengths = F.unsqueeze(F.index_tensor(list(inputs), scores), 1)
    for t, step in enumerate(steps[1:], 1):
        moved = F.constant_pad_nd(alpha, (1, -1), _NEVER)
        skipped = F.where(skips, F.constant_pad_nd(alpha, (2, -2), _NEVER), _NEVER)
        new = F.logsumexp(F.stack([alpha, moved, skipped]), 0) + step
        alpha = new if t < min(inputs) else F.where(lengths > t, new, alpha)
    return alpha


@composite(
    path="nn.functional.ctc_loss",
    data_dependent=True,  # the labels are read
    samples=lambda: [
        case(floats(5, 2, 4, low=-3, high=-0.5), ints(2, 2, low=1, high=4), [5, 4], [2, 1]),
        case(floats(4, 3, low=-3, high=-0.5), ints(2, low=1, high=3), [4], [2], reduction="sum"),
        case(floats(4, 2, 3, low=-3, high=-0.5), ints(3, low=1, high=3), [4, 4], [1, 2], reduction="none"),
    ],
    autocast="float32:cpu",
)
def ctc_loss(
    F,
    log_probs,
    targets,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
):
    """Negative logarithm of the probability of label sequences, summed over all their alignments with the input.

    Parameters
    ----------
    log_probs : Tensor
        Logarithms of the classes' probabilities at each step, ``(steps, batch, classes)`` or ``(steps, classes)``.
    targets : Tensor
        Labels, ``(batch, length)``, or those of all sequences one after the other.
    input_lengths, target_lengths : Tensor or sequence of int
        How many steps and labels each sequence has.
    blank : int
        The class that stands for no label.
    reduction : str
        ``'mean'`` (each loss divided by the number of labels, then the mean over the batch), ``'sum'`` or ``'none'``.
    zero_infinity : bool
        Whether the loss of a sequence that has no alignment is zero, not infinity.

    Notes
    -----
    Derivatives are those with respect to independent numbers `log_probs`. Where these come from `log_softmax`, as they
    should, its input has the same gradient as in PyTorch, which adds a term here that `log_softmax` takes away.

    Returns
    -------
    Tensor
        A scalar, or of shape ``(batch,)`` with ``reduction='none'``.

    Examples
    --------
    >>> log_probs = gc.zeros(4, 1, 3).log_softmax(-1)
    >>> gc.nn.functional.ctc_loss(log_probs, gc.tensor([[1, 2]]), gc.tensor([4]), gc.tensor([2]))
    tensor(0.8432)
    """
    reduction = check_reduction(reduction)
    batched = log_probs.ndim == 3
    if not batched:
        log_probs = F.unsqueeze(log_probs, 1)
    inputs, lengths = _listed("input_lengths", input_lengths), _listed("target_lengths", target_lengths)
    _check(log_probs, targets, inputs, lengths, blank)
    targets = F.to(targets, int64)
    labels, skips = _extended(targets, lengths, blank)
    index = F.unsqueeze(F.index_tensor(labels, log_probs), 0)
    scores = F.gather(log_probs, 2, F.expand(index, (log_probs.shape[0], *index.shape[1:])))
    alpha = _forward(F, scores, F.index_tensor(skips, log_probs), inputs)
    ends = F.index_tensor([[2 * n, max(2 * n - 1, 0)] for n in lengths], log_probs)
    last = F.gather(alpha, 1, ends)
    double = F.index_tensor([[n == 0 and k == 1 for k in range(2)] for n in lengths], log_probs)
    losses = -F.logsumexp(F.where(double, _NEVER, last), 1)
    losses = F.where(losses > -_NEVER / 10, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        return F.mean(losses / F.index_tensor([max(n, 1) for n in lengths], log_probs))
    if reduction == "sum":
        return F.sum(losses)
    return losses if batched else F.reshape(losses, ())
