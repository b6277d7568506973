"""Adam for parameters with sparse gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.optim.flat_state import value_of
from gradcore.optim.optimizer import Optimizer, ParamsT, evaluate
from gradcore.optim.options import Option, checked, valid_lr, with_options
from gradcore.tensor import Tensor

__all__ = ["SparseAdam"]


def _positive(what: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not value > 0.0:
            raise ValueError(f"Invalid {what}: {value}")

    return check


@with_options(
    "lr betas eps maximize",
    lr=Option("Learning rate.", valid_lr(_positive("learning rate"))),
    eps=Option("Term added to the denominator, for numerical stability.", _positive("epsilon value")),
)
class SparseAdam(Optimizer):
    """Adam that updates only the elements for which the gradient stores a value, and their moments.

    Use it for the gradients of `nn.Embedding` and `nn.EmbeddingBag` with ``sparse=True``. An element without a gradient
    keeps its value and its moments, whereas `Adam` would continue along the first moment.

    Examples
    --------
    >>> import gradcore as gc
    >>> table = gc.nn.Embedding(5, 2, sparse=True)
    >>> optimizer = gc.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(gc.tensor([1, 3])).sum().backward()
    >>> optimizer.step()
    >>> (before - table.weight)[:, 0]
    tensor([0.0000, 0.1000, 0.0000, 0.1000, 0.0000], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, checked(locals()))
        groups = [group["params"] for group in self.param_groups]
        placed = [([i, j], p) for i, params in enumerate(groups) for j, p in enumerate(params)]
        sparse = [place for place, p in placed if not p._strided]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        unsupported = [place for place, p in placed if p.is_complex()]
        if unsupported:
            raise ValueError(f"Complex params at indices {unsupported}: SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the elements for which gradients store a value.

        Parameters
        ----------
        closure : callable, optional
            Reevaluates the loss and its gradients, and returns the loss.

        Returns
        -------
        object
            The result of `closure`.
        """
        loss = None if closure is None else evaluate(closure)
        with no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if any(p.grad._strided for p in params):
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                for p in params:
                    self._update(p, p.grad.coalesce(), self.state[p], group)
        return loss

    def _state_shapes(self, group: dict[str, Any], p: Tensor) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("exp_avg", "exp_avg_sq"), tuple(p.shape))

    def _update(self, p: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = 0
            state["exp_avg"], state["exp_avg_sq"] = functional.zeros_like(p), functional.zeros_like(p)
        (beta1, beta2), step = group["betas"], state["step"] + 1
        g = -grad.values() if group["maximize"] else grad.values()
        moments = []
        for name, moment, beta in (("exp_avg", g, beta1), ("exp_avg_sq", g * g, beta2)):
            previous = state[name].sparse_mask(grad).values()
            change = (moment - previous) * (1 - beta)
            state[name].add_(grad.like(change))
            moments.append(previous + change)
        m, v = moments
        corrections = 1 - beta1**step, 1 - beta2**step
        step_size = value_of(group["lr"]) * corrections[1] ** 0.5 / corrections[0]
        p.add_(grad.like(m / (v.sqrt() + group["eps"])), alpha=-step_size)
        state["step"] = step
