"""CTC loss on CUDA (connectionist temporal classification): one kernel forward and one backward, for all time steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcore.backends.cupy.kernels import NULL, CudaKernels, dense, type_name
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.indexing import OUT_OF_BOUNDS
from gradcore.core.typing import AnyArray

__all__ = ["CudaCtc"]

#: Positions of which kernels keep the numbers in shared memory: `kept` in ``ctc.cu``.
_KEPT = 1024


def _takes(backend: CudaCtc, log_probs: AnyArray, *others: object) -> bool:
    return log_probs.dtype.itemsize > 2 and backend.takes("ctc", log_probs)


def _takes_gradients(
    backend: CudaCtc, grad: AnyArray, grad_alphas: AnyArray, log_probs: AnyArray, *others: object
) -> bool:
    """Return whether the backward kernel applies: it does not if `alphas` has a gradient, as in second derivatives."""
    return grad is not None and grad_alphas is None and _takes(backend, log_probs)


class CudaCtc(CudaKernels):
    """CTC loss of float32 and float64 arrays; other dtypes use the declared formulas."""

    check_watched: Callable[..., AnyArray]

    @kernel_for(_takes)
    def ctc_losses(
        self, log_probs: AnyArray, labels: AnyArray, ends: AnyArray, counts: AnyArray, blank: int
    ) -> tuple[AnyArray, AnyArray]:
        xp, dtype, (steps, batch, classes) = self.xp, log_probs.dtype, log_probs.shape
        positions = labels.shape[1]
        losses, alphas = self.allocate(batch, dtype), self.allocate((steps, *labels.shape), dtype)
        inputs = [dense(xp, a) for a in (log_probs, labels, ends, counts)]
        scratch = self._ctc_scratch(2 * batch * positions, positions, dtype)
        with self.check_watched(labels, classes, blank, OUT_OF_BOUNDS, 2) as (number, flag):
            sizes = self.int64s(steps, batch, classes, positions, blank, number)
            self._launch_ctc("ctc_forward", labels, dtype, (*inputs, losses, alphas, scratch, *sizes, flag))
        return losses, alphas

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
        xp, dtype, positions = self.xp, log_probs.dtype, labels.shape[1]
        out, links = xp.zeros(log_probs.shape, dtype), self.allocate(labels.shape, np.int64)
        inputs = [dense(xp, a) for a in (grad, log_probs, labels, ends, counts, result, alphas)]
        scratch = self._ctc_scratch(4 * labels.size, positions, dtype)
        sizes = self.int64s(*log_probs.shape, positions, blank)
        self._launch_ctc("ctc_backward", labels, dtype, (*inputs, out, scratch, links, *sizes))
        return out

    def _ctc_scratch(self, size: int, positions: int, dtype: np.dtype[np.generic]) -> AnyArray:
        """Return scratch memory for one time step, or a null pointer if it fits into shared memory."""
        return NULL if positions <= _KEPT else self.allocate(size, dtype)

    def _launch_ctc(
        self, name: str, labels: AnyArray, dtype: np.dtype[np.generic], arguments: tuple[object, ...]
    ) -> None:
        """Launch the kernel `name` with one block for each sequence."""
        batch, positions = labels.shape
        threads = min(1024, -(-positions // 32) * 32)
        self.cuda_kernel("ctc", name, type=type_name(dtype))((batch,), (threads,), arguments)
