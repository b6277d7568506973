"""Connectionist temporal classification (CTC) for NumPy, where each step of the recursion handles the whole batch.

For gradients, the share of each position in the probabilities of the next step is computed for all steps at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.kernel_rules import writes
from gradcore.backends.portable.cross_entropy import NEVER
from gradcore.core.typing import AnyArray

__all__ = ["NumpyCtc"]


def _takes(backend: Any, log_probs: AnyArray, labels: AnyArray, *others: Any) -> bool:
    """Return whether the probabilities are float32 or float64 and all labels are valid classes."""
    if log_probs.dtype.char not in "fd" or not log_probs.size:
        return False
    return bool(labels.min() >= 0 and labels.max() < log_probs.shape[2])


def _takes_gradients(backend: Any, grad: AnyArray, grad_alphas: AnyArray, *arrays: Any) -> bool:
    """Return whether only the losses have a gradient. In second derivatives, `alphas` have one as well."""
    return grad is not None and grad_alphas is None and _takes(backend, *arrays)


class NumpyCtc:
    """Kernels of CTC losses of float32 and float64."""

    @kernel_for(_takes)
    def ctc_losses(
        self, log_probs: AnyArray, labels: AnyArray, ends: AnyArray, counts: AnyArray, blank: int
    ) -> tuple[AnyArray, AnyArray]:
        alphas = np.empty((len(log_probs), *labels.shape), log_probs.dtype)
        losses = np.empty(len(labels), log_probs.dtype)
        log_probs, labels, ends, counts = (np.ascontiguousarray(x) for x in (log_probs, labels, ends, counts))
        self.run_ctc(log_probs, labels, ends, counts, blank, losses, alphas)
        return losses, alphas

    @writes()
    def run_ctc(
        self,
        log_probs: AnyArray,
        labels: AnyArray,
        ends: AnyArray,
        counts: AnyArray,
        blank: int,
        losses: AnyArray,
        alphas: AnyArray,
    ) -> None:
        """Write the losses to `losses`, and to `alphas` the log probability of each label prefix after each step."""
        scores, hops = _scores(log_probs, labels), _hops(labels, blank, log_probs.dtype)
        alphas[0] = NEVER
        alphas[0, :, :2] = scores[0, :, :2]
        terms, top = np.full((3, *labels.shape), NEVER, log_probs.dtype), np.empty(labels.shape, log_probs.dtype)
        for t in range(1, len(alphas)):
            before, alpha = alphas[t - 1], alphas[t]
            terms[0], terms[1, :, 1:] = before, before[:, :-1]
            terms[1, :, 0] = NEVER
            np.add(before[:, :-2], hops[:, 2:], terms[2, :, 2:])
            terms[2, :, :2] = NEVER
            np.maximum.reduce(terms, 0, out=top, initial=NEVER)
            np.exp(np.subtract(terms, top, terms), terms)
            np.log(np.add.reduce(terms, 0, out=alpha), alpha)
            alpha += top
            alpha += scores[t]
            np.copyto(alpha, before, where=counts <= t)
        end_scores = np.where(ends, alphas[-1], NEVER)
        highest = end_scores.max(1, keepdims=True, initial=NEVER)
        np.negative(np.log(np.exp(end_scores - highest).sum(1)) + highest[:, 0], losses)

    @kernel_for(_takes_gradients)
    def ctc_losses_backward(
        self,
        grad: AnyArray,
        grad_alphas: AnyArray,
        log_probs: AnyArray,
        labels: AnyArray,
        ends: AnyArray,
        counts: AnyArray,
        result: AnyArray,
        alphas: AnyArray,
        blank: int,
    ) -> AnyArray:
        arrays = grad, log_probs, labels, ends, counts, result, alphas
        grad, log_probs, labels, ends, counts, result, alphas = (np.ascontiguousarray(x) for x in arrays)
        out = np.zeros(log_probs.shape, log_probs.dtype)
        self.run_ctc_back(grad, log_probs, labels, ends, counts, result, alphas, blank, out)
        return out

    @writes("out")
    def run_ctc_back(
        self,
        grad: AnyArray,
        log_probs: AnyArray,
        labels: AnyArray,
        ends: AnyArray,
        counts: AnyArray,
        losses: AnyArray,
        alphas: AnyArray,
        blank: int,
        out: AnyArray,
    ) -> None:
        """Add the gradient of the losses by `log_probs` to `out`."""
        steps, batch, classes = log_probs.shape
        sums, hops = alphas - _scores(log_probs, labels), _hops(labels, blank, log_probs.dtype)
        shares = np.zeros((3, max(steps - 1, 0), *labels.shape), log_probs.dtype)
        for by in range(min(3, labels.shape[1])):
            earlier = slice(None, -by if by else None)
            log_shares = alphas[:-1, :, earlier] - sums[1:, :, by:]
            # Where neither position is reached, the difference is not negative.
            log_shares = np.where(log_shares < 0, log_shares, 0)
            shares[by, :, :, earlier] = np.exp(log_shares + hops[:, by:] if by == 2 else log_shares)
        flows = np.zeros(alphas.shape, alphas.dtype)
        flow = -grad[:, None] * np.exp(np.where(ends, alphas[-1] + losses[:, None], NEVER))
        is_impossible = alphas <= NEVER / 2
        for t in range(steps - 1, 0, -1):
            lasts = counts > t
            step_flow = flows[t]
            np.copyto(step_flow, flow, where=lasts)
            step_flow[is_impossible[t]] = 0
            new = step_flow * shares[0, t - 1]
            new[:, :-1] += step_flow[:, 1:] * shares[1, t - 1, :, :-1]
            new[:, :-2] += step_flow[:, 2:] * shares[2, t - 1, :, :-2]
            np.copyto(flow, new, where=lasts)
        flows[0, :, :2] = flow[:, :2]
        positions = np.arange(steps * batch).reshape(steps, batch, 1) * classes + labels
        out += np.bincount(positions.ravel(), flows.ravel(), out.size).reshape(out.shape)


def _scores(log_probs: AnyArray, labels: AnyArray) -> AnyArray:
    """Return the log probability of the label at each position, for each step and sequence."""
    return log_probs[:, np.arange(len(labels))[:, None], labels]


def _hops(labels: AnyArray, blank: int, dtype: Any) -> AnyArray:
    """Return the log factor of transitions from two positions before: 0 where they are allowed, otherwise `NEVER`."""
    hops = np.full(labels.shape, NEVER, dtype)
    hops[:, 2:][(labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])] = 0
    return hops
