"""Connectionist temporal classification: the loss of label sequences whose alignment is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.backends.portable.cross_entropy import NEVER
from gradcore.core.dtypes import INTEGER, int64
from gradcore.ops.declare.annotations import Tensor
from gradcore.ops.declare.checks import check_reduction
from gradcore.ops.declare.samples import case, floats, ints
from gradcore.ops.declare.table import composite, general


def _lengths_as_list(name: str, lengths: Any) -> list[int]:
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
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets'"
        )
    if targets.ndim == 2 and targets.shape[0] != batch:
        raise RuntimeError(
            f"Expected tensor to have size {batch} at dimension 0, but got size {targets.shape[0]} for argument #2 "
            "'targets'"
        )
    if targets.ndim == 1 and targets.shape[0] != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.shape[0]} for argument "
            "#2 'targets'"
        )


def _insert_blanks(targets: Any, lengths: list[int], blank: int) -> list[list[int]]:
    """Return each label sequence with blanks around its labels."""
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
    labels = []
    for row, n in zip(rows, lengths, strict=True):
        line = [blank] * longest
        line[1 : 2 * n : 2] = row[:n]
        labels.append(line)
    return labels


# -- the recursion: `alphas` are the logarithms of the probabilities of all beginnings, after each step ---------------


def _skips(F: Any, labels: Any, blank: int) -> Any:
    """Return a mask of the positions that can follow the position two before them.

    This is the case if the labels of both positions differ, and a blank lies between them.
    """
    return (labels != blank) & (labels != _shift_rows(F, labels, 2, blank))


def _scores(F: Any, log_probs: Any, labels: Any) -> Any:
    """Return the log-probabilities of the label at each position, ``(steps, batch, positions)``."""
    return F.gather(log_probs, 2, F.expand(F.unsqueeze(labels, 0), (log_probs.shape[0], *labels.shape)))


def _first(F: Any, x: Any, fill: float) -> Any:
    """Return `x` at the two positions where a sequence may begin, and `fill` at the others."""
    width = x.shape[1]
    return F.constant_pad_nd(F.narrow(x, 1, 0, 2), (0, width - 2), fill) if width > 2 else x


def _shift_rows(F: Any, x: Any, by: int, fill: float) -> Any:
    """Shift the numbers of each row by `by` positions, and fill with `fill`."""
    width = x.shape[1]
    if by >= width or -by >= width:
        return F.zeros_like(x) + fill
    return F.constant_pad_nd(x, (by, -by), fill)


@general(
    outputs=("result", "alphas"),
    seen_outputs=(0,),
    node="CtcLossBackward0",
    function=False,
    method=False,
    materialize=False,
    keeps_dtype=("labels", "ends", "counts"),
    constant={"labels": "labels are indices", "ends": "ends are bools", "counts": "counts are integers"},
)
def ctc_losses(K, log_probs, labels, ends, counts, blank: int):
    """Return the losses of label sequences, which may end at `ends` after `counts` steps, and the `alphas`."""
    scores, skips = _scores(K, log_probs, labels), _skips(K, labels, blank)
    alpha = _first(K, K.select(scores, 0, 0), NEVER)
    alphas = [alpha]
    for t in range(1, log_probs.shape[0]):
        skipped = K.where(skips, _shift_rows(K, alpha, 2, NEVER), NEVER)
        next_alpha = K.logsumexp(K.stack([alpha, _shift_rows(K, alpha, 1, NEVER), skipped], 0), (0,))
        alpha = K.where(counts > t, next_alpha + K.select(scores, 0, t), alpha)
        alphas.append(alpha)
    return -K.logsumexp(K.where(ends, alpha, NEVER), (1,)), K.stack(alphas, 0)


@ctc_losses.vjp("log_probs")
def _(F, grads, log_probs, labels, ends, counts, result, alphas, blank):
    return F.ctc_losses_backward(*grads, log_probs, labels, ends, counts, result, alphas, blank)


# A position's cotangent is that of each successor, times the share that the position has in the successor's sum.


@composite(function=False, method=False)
def ctc_losses_backward(F, grad, grad_alphas, log_probs, labels, ends, counts, result, alphas, blank: int):
    """Return the gradient of `ctc_losses`."""
    steps, scores = log_probs.shape[0], _scores(F, log_probs, labels)
    sums, flow, ahead = alphas - scores, F.zeros_like(F.select(alphas, 0, 0)), _shift_rows(F, labels, -2, blank)
    skipped = (ahead != blank) & (ahead != labels)
    if grad is not None:
        last = F.select(alphas, 0, steps - 1) + F.unsqueeze(result, 1)
        flow = F.unsqueeze(-grad, 1) * F.exp(F.where(ends, last, NEVER))
    gradients: list[Any] = [None] * steps
    for t in reversed(range(steps)):
        if grad_alphas is not None:
            flow = flow + F.select(grad_alphas, 0, t)
        if not t:
            break
        is_running, shares = counts > t, 0
        gradients[t] = F.where(is_running, F.where(F.select(alphas, 0, t) <= NEVER / 2, 0, flow), 0)
        for by, allowed in enumerate((is_running, is_running, is_running & skipped)):
            log_share = F.select(alphas, 0, t - 1) - _shift_rows(F, F.select(sums, 0, t), -by, -NEVER)
            share = F.exp(F.where(allowed, F.where(log_share < 0, log_share, 0), NEVER))
            shares = shares + _shift_rows(F, gradients[t], -by, 0) * share
        flow = F.where(is_running, shares, flow)
    gradients[0] = _first(F, flow, 0)
    index = F.expand(F.unsqueeze(labels, 0), scores.shape)
    return F.scatter_add(F.new_zeros(log_probs, log_probs.shape), 2, index, F.stack(gradients, 0))


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
    """Return the negative log-probability of label sequences, summed over all alignments with the input.

    Parameters
    ----------
    log_probs : Tensor
        Logarithms of the classes' probabilities at each step, ``(steps, batch, classes)`` or ``(steps, classes)``.
    targets : Tensor
        The labels in the shape ``(batch, length)``, or the labels of all sequences concatenated.
    input_lengths, target_lengths : Tensor or sequence of int
        The number of steps and the number of labels of each sequence.
    blank : int
        The class of the blank, which is no label.
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
    inputs, lengths = (
        _lengths_as_list("input_lengths", input_lengths),
        _lengths_as_list("target_lengths", target_lengths),
    )
    _check(log_probs, targets, inputs, lengths, blank)
    targets = F.to(targets, int64)
    width = 2 * max(lengths, default=0) + 1
    labels = _insert_blanks(targets, lengths, blank)  # also checks the lengths, on which `ends` depends
    ends = [[s in (2 * n - 1, 2 * n) for s in range(width)] for n in lengths]
    rows = labels, ends, [[n] for n in inputs]
    losses = F.ctc_losses(log_probs, *(F.index_tensor(each, log_probs) for each in rows), blank)[0]
    losses = F.where(losses > -NEVER / 10, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        return F.mean(losses / F.index_tensor([max(n, 1) for n in lengths], log_probs))
    if reduction == "sum":
        return F.sum(losses)
    return losses if batched else F.reshape(losses, ())
