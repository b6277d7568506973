"""Optimisers whose step is a formula for each element: how the formula is run on groups of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import enable_grad
from gradcore.autograd.variables import bump_all
from gradcore.creation import full_like, tensor
from gradcore.optim.flat_state import HOST, rounded, value_of
from gradcore.optim.optimizer import Optimizer, ParamsT
from gradcore.optim.step_plan import Plan
from gradcore.tensor import Tensor, is_differentiated
from gradcore.utils.lists import divide

__all__ = ["ElementwiseOptimizer"]


class ElementwiseOptimizer(Optimizer):
    """The base of optimisers that have one formula for all elements of all parameters.

    A subclass has `formula`, and says which states it needs and how its settings follow from a group's options. The
    formula runs on the raw arrays, on many parameters at once, or with ``differentiable=True`` on tensors, recorded.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    defaults : dict
        See `Optimizer`.
    """

    #: ``formula(F, p, g, *states, **settings)``: changes the parameter and the states in place, and only reads the
    #: gradient. `F` has the operations: of a backend on arrays, or on tensors.
    formula: Callable[..., None]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def _prepare(self) -> None:
        super()._prepare()
        self._plans: dict[int, Plan] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._plans = {}
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def arrays(self, group: dict[str, Any]) -> dict[str, Any]:
        """The names of the states that have the parameter's shape, and their initial values, in the formula's order."""
        return {}

    def numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        """The names of the states that are one number a parameter, and their initial values."""
        return {"step": 0.0}

    def settings(self, F: Any, group: dict[str, Any], numbers: dict[str, Any]) -> dict[str, Any]:
        """The formula's settings for a step, from the options and from `numbers`, which it moves on by this step.

        Where a device counts the steps, numbers are its arrays: `F` has ``where`` and ``maximum`` for either.
        """
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again, with its gradients, and returns it.

        Returns
        -------
        object
            What `closure` returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        bad = self._unscale()
        if bad is not None and bad.device.backend.host_scalars and bad.item():
            return loss
        for group in self.param_groups:
            params = [p for p in group["params"] if (meta := p._meta) is not None and meta.grad is not None]
            if params:
                self._step_recorded(group, params) if group["differentiable"] else self._step(group, params, bad)
        return loss

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether a `GradScaler` leaves unscaling, and steps with gradients that are not finite, to this optimiser."""
        return bool(self.defaults.get("fused"))

    def _unscale(self) -> Tensor | None:
        """Divide the gradients by what a `GradScaler` says; what it has found, if it makes this step."""
        scale, found = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        if scale is not None:
            divide((p.grad for group in self.param_groups for p in group["params"]), scale)
        return found if isinstance(found, Tensor) else None

    def _step(self, group: dict[str, Any], params: list[Any], bad: Tensor | None) -> None:
        capturable = self._capturable(group)
        tensors = [key for key, value in group.items() if key != "params" and _has_tensor(value)]
        options = {**group, **{key: _plain(group[key], capturable) for key in tensors}} if tensors else group
        if not capturable and params[0]._device.backend.is_capturing() and "step" in self.numbers(group):
            self._refuse_capture(group)
        plan = self._plan(group, params)
        grads = [p._meta.grad._array for p in params]
        for run in plan.runs:
            run.step(type(self).formula, self.settings, options, grads, bad)
        bump_all(params)
        for slab in plan.slabs:
            slab.note_write()

    def _refuse_capture(self, group: dict[str, Any]) -> None:
        name = type(self).__name__
        if "capturable" in group:
            raise RuntimeError(
                f"Attempting CUDA graph capture of step() for an instance of {name} but param_groups' capturable is "
                "False."
            )
        raise RuntimeError(f"step() of {name} cannot be captured: the host counts its steps")

    def _capturable(self, group: dict[str, Any]) -> bool:
        """Whether devices count the steps."""
        return bool(group.get("capturable") or group.get("fused"))

    def _plan(self, group: dict[str, Any], params: list[Any]) -> Plan:
        arrays, numbers, capturable = self.arrays(group), self.numbers(group), self._capturable(group)
        plan = self._plans.get(id(group))
        names = {*arrays, *(n for n in numbers if not n.startswith("_"))}
        if plan is None or not plan.fits(params, names, self.state, capturable):
            plan = self._plans[id(group)] = Plan(params, arrays, numbers, self.state, plan, capturable)
        return plan

    def _step_recorded(self, group: dict[str, Any], params: list[Any]) -> None:
        """A step through which gradients flow: states are new tensors, parameters are changed in place."""
        arrays, numbers = self.arrays(group), self.numbers(group)
        with enable_grad():
            for p in params:
                state = self.state[p] if arrays else {}
                values = {name: rounded(_constant(state.get(name, first))) for name, first in numbers.items()}
                states = [_initial(state.get(name), p, first) for name, first in arrays.items()]
                if arrays and state:
                    values.update((name, 1.0) for name in numbers if name.startswith("_"))
                settings = self.settings(HOST, group, values)
                type(self).formula(functional, _real(p), _real(p.grad), *map(_real, states), **settings)
                state.update((name, tensor(value)) for name, value in values.items() if not name.startswith("_"))
                state.update(zip(arrays, states, strict=True))


def _has_tensor(option: Any) -> bool:
    if option.__class__ is tuple:
        return any(isinstance(value, Tensor) for value in option)
    return isinstance(option, Tensor)


def _plain(option: Any, capturable: bool) -> Any:
    """An option with Python numbers in the place of tensors; arrays, if the host would wait for the numbers."""
    if isinstance(option, tuple):
        return tuple(_plain(each, capturable) for each in option)
    if capturable and isinstance(option, Tensor) and not option._device.backend.host_scalars:
        return option._array.reshape(())
    return value_of(option)


def _initial(tensor: Any, p: Any, value: float) -> Any:
    if tensor is not None:
        return tensor.clone()
    value = _constant(value)
    return full_like(p.detach(), complex(value, value) if p.is_complex() else value)


def _constant(value: Any) -> Any:
    """A number that a state begins with or holds, by which nothing is differentiated."""
    if isinstance(value, Tensor) and is_differentiated(value):
        raise RuntimeError(
            "the optimizer keeps its learning rate in its state, as a number without a derivative: it cannot require "
            "grad"
        )
    return value_of(value)


def _real(t: Any) -> Any:
    return functional.view_as_real(t) if t.is_complex() else t
