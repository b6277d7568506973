"""Gradient scaling: losses are multiplied by a factor so that float16 gradients do not underflow.

Gradients are divided by it.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import warnings
from collections.abc import Iterable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.backends import registry
from gradcore.core import dtypes
from gradcore.tensor import Tensor
from gradcore.tensor.arrays import arrays_of, note_writes
from gradcore.tensor.foreach import reciprocal, unscale_

__all__ = ["GradScaler"]


class _Stage(enum.Enum):
    """Stage of an optimizer's gradients since the last update."""

    READY, UNSCALED, STEPPED = range(3)


class _Progress:
    """The stage of an optimizer, and whether a gradient was infinite or NaN on each device."""

    def __init__(self) -> None:
        self.stage = _Stage.READY
        self.found_inf: dict[Any, Any] = {}


def _total(tensors: list[Any]) -> Any:
    """Return the sum of tensors, or 0 if there are none."""
    return functools.reduce(operator.add, tensors) if tensors else 0


class GradScaler:
    """Scales losses by a factor that is kept as large as the gradients allow.

    If a gradient becomes infinite or NaN, the optimizer's step is skipped and the factor is reduced. If that does not
    happen for a while, the factor is increased.

    Parameters
    ----------
    device : {"cuda", "cpu"}
        The device of the losses.
    init_scale : float
        The initial factor.
    growth_factor, backoff_factor : float
        The multipliers that increase and reduce the factor.
    growth_interval : int
        The number of steps without infinite gradients after which the factor is increased.
    enabled : bool
        If False, nothing is scaled, and `step` is the optimizer's.

    Examples
    --------
    >>> import gradcore
    >>> weight = gradcore.ones(2, requires_grad=True)
    >>> optimizer = gradcore.optim.SGD([weight], lr=0.5)
    >>> scaler = gradcore.amp.GradScaler("cpu", init_scale=1024.0)
    >>> loss = (weight * 3).sum()
    >>> scaler.scale(loss).backward()
    >>> weight.grad
    tensor([3072., 3072.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight
    tensor([-0.5000, -0.5000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device == "cuda" and registry.unavailable("cuda") is not None:
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2 if type(self) is GradScaler else 3,
            )
            enabled = False
        self._enabled = enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._init_scale, self._init_growth_tracker = init_scale, 0
        #: The factor, and the number of steps since it last changed: tensors on the device of the first loss.
        self._scale: Any = None
        self._growth_tracker: Any = None
        self._progress: dict[int, _Progress] = {}

    # -- scaling and unscaling ------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or the tensors in a nested iterable, by the scale factor.

        Raises
        ------
        ValueError
            For anything else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _make_scale(self, device: Any) -> None:
        self._scale = functional.full((), self._init_scale, dtype=dtypes.float32, device=device)
        self._growth_tracker = functional.full((), self._init_growth_tracker, dtype=dtypes.int32, device=device)

    def _require_scale(self, name: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def _progress_of(self, optimizer: Any) -> _Progress:
        return self._progress.setdefault(id(optimizer), _Progress())

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale factor in place.

        Call it to inspect or clip gradients before the step. Otherwise `step` does it.

        Raises
        ------
        RuntimeError
            If they have been divided already since the last `update`.
        ValueError
            If a gradient is in float16.
        """
        if not self._enabled:
            return
        self._require_scale("unscale_")
        progress = self._progress_of(optimizer)
        if progress.stage is _Stage.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if progress.stage is _Stage.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        progress.found_inf = self._divide_gradients(optimizer, reciprocal(self._scale), False)
        progress.stage = _Stage.UNSCALED

    def _divide_gradients(self, optimizer: Any, factor: Any, allow_fp16: bool) -> dict[Any, Any]:
        """Divide gradients by the scale, if `factor` is given.

        Return 1 for each device with an infinite or NaN gradient, else 0.
        """
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in parameters if p.grad is not None]
        if not allow_fp16 and any(grad.dtype is dtypes.float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        results: dict[Any, Any] = unscale_(grads, factor)
        shard = next((p for p in parameters if hasattr(p, "total_norm")), None)
        if shard is None:
            return results
        # of `fully_shard`: all processes leave the step out where one has found such a gradient
        return {device: shard.total_norm(bad, float("inf")) for device, bad in results.items()}

    # -- steps ------------------------------------------------------------------------------------------------------

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Run an optimizer's step with unscaled gradients, unless one of them is infinite or NaN.

        Parameters
        ----------
        optimizer : object
            Has ``param_groups`` and ``step``.
        *args, **kwargs
            Arguments of the optimizer's ``step``, whose result this returns (None if the step was skipped).

        Raises
        ------
        RuntimeError
            If the step has been made already since the last `update`, or with a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._require_scale("step")
        progress = self._progress_of(optimizer)
        if progress.stage is _Stage.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, progress, args, kwargs)
        else:
            if progress.stage is _Stage.READY:
                self.unscale_(optimizer)
            if not progress.found_inf:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            any_bad = sum(bad.item() for bad in progress.found_inf.values())
            result = None if any_bad else optimizer.step(*args, **kwargs)
        progress.stage = _Stage.STEPPED
        return result

    def _step_that_unscales(self, optimizer: Any, progress: _Progress, args: Any, kwargs: Any) -> Any:
        """Run the step of an optimizer that unscales gradients itself and skips the step if one is infinite or NaN."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        scale = None
        if progress.stage is _Stage.READY:
            progress.found_inf = self._divide_gradients(optimizer, None, True)
            scale = self._scale
        optimizer.grad_scale = scale
        optimizer.found_inf = _total([bad.to(self._scale.device) for bad in progress.found_inf.values()])
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    @no_grad()
    def update(self, new_scale: Any = None) -> None:
        """Reduce or increase the scale factor after the steps of all optimizers, or set it.

        Parameters
        ----------
        new_scale : float or Tensor, optional
            The new factor.

        Raises
        ------
        AssertionError
            If no step was made before.
        """
        if not self._enabled:
            return
        self._require_scale("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            flags = [bad for progress in self._progress.values() for bad in progress.found_inf.values()]
            if not flags:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(_total([bad.to(self._scale.device) for bad in flags]))
        self._progress = {}

    def _set_scale(self, new_scale: Any) -> None:
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                "requires_grad=False."
            )
        self._scale.copy_(new_scale)

    def _adapt(self, found_inf: Any) -> None:
        """Update the scale factor on the device, without waiting for it."""
        tensors = self._scale, self._growth_tracker, found_inf
        numbers = self._growth_factor, self._backoff_factor, self._growth_interval
        if self._scale.device.kernels["adapt_scale"](*arrays_of(tensors), *numbers):
            note_writes(tensors[:2])
            return
        bad = found_inf > 0
        steps = functional.where(bad, 0, self._growth_tracker + 1)
        grows = steps >= self._growth_interval
        grown = self._scale * self._growth_factor
        grown = functional.where(functional.isfinite(grown), grown, self._scale)
        larger = functional.where(grows, grown, self._scale)
        self._scale.copy_(functional.where(bad, self._scale * self._backoff_factor, larger))
        self._growth_tracker.copy_(functional.where(grows, 0, steps))

    # -- settings ---------------------------------------------------------------------------------------------------

    def get_scale(self) -> float:
        """Return the scale factor; 1 if scaling is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return the multiplier of the scale after `growth_interval` steps without infinite gradients."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the multiplier of the scale after `growth_interval` steps without infinite gradients."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the multiplier of the scale after a step with infinite gradients."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the multiplier of the scale after a step with infinite gradients."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of steps without infinite gradients after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps without infinite gradients after which the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Return whether losses are scaled."""
        return self._enabled

    # -- saving -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the scale factor and the settings, for a checkpoint; empty if scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the scale factor and the settings that `state_dict` returned.

        Raises
        ------
        RuntimeError
            If it is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._make_scale(self._scale.device)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._enabled:
            if self._progress:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state.update(
                _init_scale=self.get_scale(),
                _init_growth_tracker=self._get_growth_tracker(),
                _scale=None,
                _growth_tracker=None,
            )
        return state
