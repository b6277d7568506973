"""Averages of a model's weights over its training: equally weighted (SWA), exponential (EMA), or others."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gradcore.autograd.grad_mode import no_grad
from gradcore.core import dtypes
from gradcore.dispatch.settings import constructor
from gradcore.nn.module import Module
from gradcore.nn.normalization import _BatchNorm
from gradcore.optim.lr_scheduler.base import LRScheduler, Rate, current, expand_to_groups
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor
from gradcore.torch_names import paths

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _average_each(average: Average) -> Averages:
    """Return an in-place averaging function for lists of tensors, given one for single tensors. Integers are copied."""

    @no_grad()
    def update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any) -> None:
        for mean, value in zip(averages, values, strict=True):
            mean.copy_(average(mean, value, num_averaged) if mean.dtype.is_differentiable else value)

    return update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return a function that averages one tensor exponentially: ``decay * average + (1 - decay) * value``.

    Parameters
    ----------
    decay : float
        Between 0 and 1.

    Returns
    -------
    callable
        The function, which can be passed to `AveragedModel` as `avg_fn`.

    Examples
    --------
    >>> import gradcore as gc
    >>> average = gc.optim.swa_utils.get_ema_avg_fn(0.75)
    >>> average(gc.tensor(0.0), gc.tensor(1.0), 1)
    tensor(0.2500)
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return a function that averages one tensor with equal weights.

    Returns
    -------
    callable
        The function, which can be passed to `AveragedModel` as `avg_fn`.

    Examples
    --------
    >>> import gradcore as gc
    >>> average = gc.optim.swa_utils.get_swa_avg_fn()
    >>> average(gc.tensor(0.0), gc.tensor(1.0), 1)
    tensor(0.5000)
    """

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)  # type: ignore[no-any-return]

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """Return a function that averages a list of tensors in place, as `get_ema_avg_fn` does for one tensor.

    Parameters
    ----------
    decay : float
        Between 0 and 1.

    Returns
    -------
    callable
        The function, which can be passed to `AveragedModel` as `multi_avg_fn`.

    Examples
    --------
    >>> import gradcore as gc
    >>> average = gc.optim.swa_utils.get_ema_multi_avg_fn(0.75)
    >>> averages = [gc.tensor(0.0)]
    >>> average(averages, [gc.tensor(1.0)], 1)
    >>> averages
    [tensor(0.2500)]
    """
    return _average_each(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """Return a function that averages a list of tensors in place, as `get_swa_avg_fn` does for one tensor.

    Returns
    -------
    callable
        The function, which can be passed to `AveragedModel` as `multi_avg_fn`.

    Examples
    --------
    >>> import gradcore as gc
    >>> average = gc.optim.swa_utils.get_swa_multi_avg_fn()
    >>> averages = [gc.tensor(0.0)]
    >>> average(averages, [gc.tensor(1.0)], gc.tensor(1))
    >>> averages
    [tensor(0.5000)]
    """
    return _average_each(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over the training of the model.

    Parameters
    ----------
    model : Module
        The model to average; it is copied.
    device : device, optional
        The device of the averages.
    avg_fn : callable, optional
        Returns the new average, given the old one, the newest value, and the number of earlier values. By default, all
        values count equally.
    multi_avg_fn : callable, optional
        A function like `avg_fn` that takes lists of tensors, and writes the averages in place.
    use_buffers : bool
        Whether buffers (the statistics of batch norm) are averaged, too. If False, the buffers of the model are copied.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    >>> model = gradcore.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    >>> for value in (1.0, 2.0):
    ...     _ = gradcore.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged(gradcore.ones(1))
    tensor([1.1000], grad_fn=<SqueezeBackward4>)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model with the averaged parameters."""
        return self.module(*args, **kwargs)

    def _average(self, model: Module) -> Iterable[Tensor]:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Update the average with the current parameters of a model."""
        averages = [p.detach() for p in self._average(self.module)]
        values = [p.detach().to(mean.device) for p, mean in zip(self._average(model), averages, strict=True)]
        if not int(self.n_averaged):
            for mean, value in zip(averages, values, strict=True):
                mean.copy_(value)
        else:
            update = self.multi_avg_fn or _average_each(self.avg_fn or get_swa_avg_fn())
            update(averages, values, self.n_averaged)
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.copy_(value)
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of a model's batch normalization layers, which an averaged model lacks.

    Parameters
    ----------
    loader : iterable
        Batches; of one that is a list or tuple, the first element is the input.
    model : Module
        The model, which is called with every batch in training mode. Afterwards its mode is restored.
    device : device, optional
        The device to which the inputs are moved.

    Examples
    --------
    >>> import gradcore as gc
    >>> norm = gc.nn.BatchNorm1d(1)
    >>> gc.optim.swa_utils.update_bn([gc.tensor([[1.0], [3.0]])], norm)
    >>> norm.running_mean
    tensor([2.])
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta = [(norm, norm.momentum) for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # all batches count equally
    was_training = model.training
    model.train()
    try:
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    finally:
        for norm, momentum in momenta:
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Scheduler that anneals the learning rate to the constant at which weights are averaged.

    Parameters
    ----------
    optimizer : Optimizer
        The optimiser whose learning rates are set.
    swa_lr : float or list of float
        The learning rate at the end, one for all groups or one for each.
    anneal_epochs : int
        The number of steps in between.
    anneal_strategy : {"cos", "linear"}
        Along half a cosine, or straight.
    last_epoch : int
        The number of steps that were taken before; -1 to begin.

    Examples
    --------
    >>> import gradcore
    >>> optimizer = gradcore.optim.SGD([gradcore.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = gradcore.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [0.75, 0.5, 0.5]
    """

    @constructor
    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, expand_to_groups("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if anneal_epochs != int(anneal_epochs) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """Return the share of `swa_lr` in the learning rate after `step` steps."""
        t = min(1.0, max(0.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[Rate]:
        self._check_call()
        step = self._step_count - 1
        if not self.anneal_epochs:
            step = max(1, step)
        earlier_share, share = self._share(step - 1), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, current(self.optimizer), strict=True):
            last = group["swa_lr"]
            first = last if earlier_share == 1 else (rate - earlier_share * last) / (1 - earlier_share)
            rates.append(share * last + (1 - share) * first)
        return rates


paths.show_public(__name__)
