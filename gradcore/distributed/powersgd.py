"""PowerSGD: gradients of matrices are sent as products of two thin matrices."""

from __future__ import annotations

from typing import Any

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.distributed import collectives
from gradcore.distributed.buckets import GradBucket
from gradcore.distributed.comm_hooks import allreduce_hook
from gradcore.distributed.groups import find
from gradcore.functions import linalg
from gradcore.tensor.random import Generator, randn
from gradcore.torch_names.futures import Future

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """The state of `powerSGD_hook` between iterations.

    Parameters
    ----------
    process_group : ProcessGroup or None
        By default the world.
    matrix_approximation_rank : int
        The number of columns of the thin matrices. More columns are more accurate, but send more bytes.
    start_powerSGD_iter : int
        The number of first iterations with exact gradients: at least two, because buckets change after the first.
    min_compression_rate : float
        Matrices that would not shrink by this factor are not compressed.
    use_error_feedback : bool
        Whether the error of an iteration is added to the gradient of the next iteration.
    warm_start : bool
        Whether an iteration begins with the matrices of the previous iteration.
    random_seed : int
        Seed of the first matrices; the same in all processes.
    """

    def __init__(
        self,
        process_group: Any = None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        random_seed: int = 0,
    ) -> None:
        if start_powerSGD_iter < 2 and (use_error_feedback or warm_start):
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.generator = Generator().manual_seed(random_seed)
        self.iter = 0
        #: By the number of the bucket: the error of the last approximation, and the matrices with fewer rows.
        self.error_dict: dict[int, AnyTensor] = {}
        self.q_memory_dict: dict[int, list[AnyTensor]] = {}


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Any]:
    """Return the mean over all processes, in which matrices are approximated by ``P @ Q.mT`` with few columns.

    Parameters
    ----------
    state : PowerSGDState
    bucket : GradBucket
    """
    index = bucket.index()
    exact = state.iter < state.start_powerSGD_iter
    state.iter += bucket.is_last()
    if exact:
        return allreduce_hook(state.process_group, bucket)
    group = find(state.process_group)
    buffer = bucket.buffer()
    if state.use_error_feedback and index in state.error_dict:
        buffer += state.error_dict[index]
    uncompressed = buffer.clone() if state.use_error_feedback else None
    matrices: list[AnyTensor] = []
    exact_gradients: list[AnyTensor] = []
    for grad in bucket.gradients():
        matrix = grad.view(grad.shape[0], -1) if grad.ndim > 1 else grad
        (matrices if _shrinks(matrix, state) else exact_gradients).append(matrix)
    if exact_gradients:
        flat = F.cat([grad.reshape(-1) for grad in exact_gradients]) / group.size()
        collectives.all_reduce(flat, group=group)
        for grad, part in zip(exact_gradients, flat.split([grad.numel() for grad in exact_gradients]), strict=True):
            grad.copy_(part.view(grad.shape))
    approximations = _approximate(state, index, matrices, group) if matrices else []
    if (
        uncompressed is not None
    ):  # the error: this process's own gradient minus the approximation that all processes share
        error = F.zeros_like(buffer)
        start = 0
        for grad in bucket.gradients():
            matrix = next((k for k, m in enumerate(matrices) if m.data_ptr() == grad.data_ptr()), None)
            if matrix is not None:
                part = uncompressed[start : start + grad.numel()]
                error[start : start + grad.numel()] = part - approximations[matrix].reshape(-1)
            start += grad.numel()
        state.error_dict[index] = error
    for matrix, approximation in zip(matrices, approximations, strict=True):
        matrix.copy_(approximation)
    future: Future[Any] = Future()
    future.set_result(buffer)
    return future


def _shrinks(matrix: AnyTensor, state: PowerSGDState) -> bool:
    if matrix.ndim < 2:
        return False
    n, m = matrix.shape
    return bool((n + m) * state.matrix_approximation_rank * state.min_compression_rate < n * m)


def _approximate(state: PowerSGDState, index: int, matrices: list[AnyTensor], group: Any) -> list[AnyTensor]:
    """Approximate the means of matrices over processes by one step of a power iteration."""
    rank = state.matrix_approximation_rank
    previous = state.q_memory_dict.get(index) if state.warm_start else None
    Q = previous or [
        randn(m.shape[1], min(rank, *m.shape), generator=state.generator, dtype=m.dtype).to(m.device) for m in matrices
    ]
    Q = [linalg.qr(q)[0] for q in Q]
    P = sum_over_processes([m @ q for m, q in zip(matrices, Q, strict=True)], group)
    P = [linalg.qr(p)[0] for p in P]
    Q = sum_over_processes([m.mT @ p / group.size() for m, p in zip(matrices, P, strict=True)], group)
    if state.warm_start:
        state.q_memory_dict[index] = Q
    return [p @ q.mT for p, q in zip(P, Q, strict=True)]


def sum_over_processes(tensors: list[AnyTensor], group: Any) -> list[AnyTensor]:
    """Return the sums over all processes, by one collective."""
    flat = F.cat([t.reshape(-1) for t in tensors])
    collectives.all_reduce(flat, group=group)
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors, strict=True)]
