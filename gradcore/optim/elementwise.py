"""Base of optimisers whose update is an elementwise formula, which runs on batches of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import enable_grad, no_grad
from gradcore.core.typing import AnyTensor
from gradcore.optim.flat_state import HOST, round_to_state_dtype, value_of
from gradcore.optim.optimizer import Optimizer, ParamsT, evaluate
from gradcore.optim.step_plan import StepPlan
from gradcore.tensor import Tensor
from gradcore.tensor.arrays import arrays_of, note_writes, with_grad, with_sparse_grad
from gradcore.tensor.creation import full_like, tensor
from gradcore.tensor.foreach import divide_

__all__ = ["ElementwiseOptimizer", "effective_grad"]


#: Attributes of an optimizer with which its step is another one: those that a gradient scaler sets, and a method.
_OTHER_STEP = frozenset(["found_inf", "grad_scale", "step"])


def effective_grad(p: Any, g: Any, weight_decay: float, maximize: bool) -> Any:
    """Return the gradient to descend: negated if `maximize`, plus the gradient of the L2 penalty."""
    if maximize:
        g = -g
    return g + p * weight_decay if weight_decay != 0 else g


class ElementwiseOptimizer(Optimizer):
    """Base class of optimisers with one formula for all elements of all parameters.

    A subclass defines the `formula`, the states it needs, and its hyperparameters, given the options of a group. The
    formula runs on raw arrays of many parameters at once. With ``differentiable=True`` it runs on tensors and is
    recorded.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    defaults : dict
        See `Optimizer`.
    """

    #: ``formula(F, p, g, *states, **hyperparameters)``: updates the parameter and the states in place, and only reads
    #: the gradient. `F` has the operations: of a backend on arrays, or on tensors.
    formula: Callable[..., None]
    #: The names of the formula's hyperparameters.
    _names: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "formula" in cls.__dict__:
            parameters = inspect.signature(cls.formula).parameters.values()
            cls._names = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def _has_other_step(self) -> bool:
        """Return whether a gradient scaler scales the next step, or an attribute of the optimizer replaces `step`."""
        return not _OTHER_STEP.isdisjoint(vars(self))

    def _prepare(self) -> None:
        super()._prepare()
        self._plans: dict[int, StepPlan] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._plans = {}
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def tensor_state(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return names and initial values of states with the parameter's shape, in the formula's order."""
        return {}

    def _state_shapes(self, group: dict[str, Any], p: Tensor) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self.tensor_state(group), tuple(p.shape))

    def scalar_state(self, group: dict[str, Any]) -> dict[str, Any]:
        """Return the names and initial values of states that are one number for each parameter."""
        return {"step": 0.0}

    def hyperparameters(self, F: Any, group: dict[str, Any], scalars: dict[str, Any]) -> dict[str, Any]:
        """Return the formula's hyperparameters for a step, by default the options with the same names.

        This method advances the scalar states in `scalars` by one step. If a device counts the steps, they are arrays
        on it; `F` has ``where`` and ``maximum`` for both cases.
        """
        scalars["step"] += 1
        return {name: group[name] for name in self._names if name in group}

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters from their gradients.

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
        found_inf = self._unscale() if hasattr(self, "grad_scale") or hasattr(self, "found_inf") else None
        if found_inf is not None and found_inf.device.backend.host_scalars and found_inf.item():
            return loss
        for group in self.param_groups:
            try:
                params, grads = with_grad(group["params"])
            except NotImplementedError:  # sparse gradients have no array
                params, grads = self._update_sparse(group)
            if params:
                if group["differentiable"]:
                    self._step_recorded(group, params)
                else:
                    self._step(group, params, grads, found_inf)
        return loss

    def _update_sparse(self, group: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Update parameters with sparse gradients. Return those with dense gradients, and their gradients."""
        sparse = with_sparse_grad(group["params"])
        if sparse and group["differentiable"]:
            raise RuntimeError(f"{type(self).__name__}: differentiable=True does not support sparse gradients")
        with no_grad():
            for p in sparse:
                self._step_sparse(group, p, p.grad, self.state[p])
        sparse_ids = set(sparse)
        return with_grad(p for p in group["params"] if p not in sparse_ids)

    def _step_sparse(self, group: dict[str, Any], p: Any, grad: Any, state: dict[str, Any]) -> None:
        """Update a parameter with a sparse gradient.

        Optimisers that support this override the method, which raises an error.
        """
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether this optimiser unscales gradients for a `GradScaler`, and skips steps with infinite ones itself."""
        return bool(self.defaults.get("fused"))

    def _unscale(self) -> Tensor | None:
        """Divide the gradients by the scale of a `GradScaler`, if there is one, and return its tensor `found_inf`."""
        scale, result = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        if scale is not None:
            divide_((p.grad for group in self.param_groups for p in group["params"]), scale)
        return result if isinstance(result, Tensor) else None

    def _step(self, group: dict[str, Any], params: list[Any], grads: list[Any], found_inf: Tensor | None) -> None:
        plan, options = self._make_plan(group, params)
        try:
            for batch in plan.batches:
                batch.step(type(self).formula, self.hyperparameters, options, grads, found_inf)
        finally:
            note_writes(plan.written)  # A step that fails may have changed some of the parameters.

    def _make_plan(self, group: dict[str, Any], params: list[Any]) -> tuple[StepPlan, dict[str, Any]]:
        """Return a new plan for the steps of a group, and the group's options with numbers instead of tensors."""
        plan = self._plans.get(id(group))
        if plan is None or not plan.fits(params, self.state) or not plan.has_options(group):
            plan = self._plan(group, params)
        elif plan.host_counted is not None:
            self._check_capture(plan.host_counted, group)
        if not plan.tensor_options:
            return plan, group
        return plan, {**group, **{name: _number(group[name], plan.capturable) for name in plan.tensor_options}}

    def _plan(self, group: dict[str, Any], params: list[Any]) -> StepPlan:
        """Return the plan for a group's step: the plan of its last step if that is still valid, or a new one."""
        tensors, scalars = self.tensor_state(group), self.scalar_state(group)
        capturable = bool(group.get("capturable") or group.get("fused"))
        backend = params[0].device.backend if params else None
        host_counted = (
            None if capturable or backend is None or backend.host_scalars or "step" not in scalars else backend
        )
        if host_counted is not None:
            self._check_capture(host_counted, group)
        plan = self._plans.get(id(group))
        if plan is None or not plan.has_states(tensors, scalars, capturable) or not plan.fits(params, self.state):
            plan = self._plans[id(group)] = StepPlan(params, tensors, scalars, self.state, plan, capturable)
        plan.host_counted, plan.options = host_counted, [*group.values()]
        plan.tensor_options = [name for name, option in group.items() if name != "params" and _has_tensor(option)]
        return plan

    def _check_capture(self, backend: Any, group: dict[str, Any]) -> None:
        """Raise an error if a step that the host counts is captured."""
        if not backend.is_capturing():
            return
        name = type(self).__name__
        if "capturable" in group:
            raise RuntimeError(
                f"Attempting CUDA graph capture of step() for an instance of {name} but param_groups' capturable is "
                "False."
            )
        raise RuntimeError(f"step() of {name} cannot be captured: the host counts its steps")

    def _step_recorded(self, group: dict[str, Any], params: list[Any]) -> None:
        """Take a recorded step: states become new tensors, and parameters are changed in place."""
        group = {name: option if name == "params" else _drop_dims(option) for name, option in group.items()}
        tensors, scalars = self.tensor_state(group), self.scalar_state(group)
        with enable_grad():
            for p in params:
                state = self.state[p] if tensors else {}
                values = {
                    name: round_to_state_dtype(_constant(state.get(name, first))) for name, first in scalars.items()
                }
                states = [_initial(state.get(name), p, first) for name, first in tensors.items()]
                if tensors and state:
                    values.update((name, 1.0) for name in scalars if name.startswith("_"))
                hyperparameters = self.hyperparameters(HOST, group, values)
                type(self).formula(functional, _real(p), _real(p.grad), *map(_real, states), **hyperparameters)
                state.update((name, tensor(value)) for name, value in values.items() if not name.startswith("_"))
                state.update(zip(tensors, states, strict=True))


def _has_tensor(option: Any) -> bool:
    if option.__class__ is tuple:
        return any(isinstance(value, Tensor) for value in option)
    return isinstance(option, Tensor)


def _number(option: Any, capturable: bool) -> Any:
    """Return an option with tensors as Python numbers, or as arrays if reading them would make the host wait."""
    if isinstance(option, tuple):
        return tuple(_number(each, capturable) for each in option)
    if capturable and isinstance(option, Tensor) and not option.device.backend.host_scalars:
        return arrays_of([option])[0].reshape(())
    return value_of(option)


def _drop_dims(option: object) -> object:
    """Return an option with tensors of one element as tensors without dims, which broadcast to every parameter."""
    if isinstance(option, tuple):
        return tuple(map(_drop_dims, option))
    return option.reshape(()) if isinstance(option, Tensor) else option


def _initial(tensor: AnyTensor, p: Any, value: float) -> Any:
    if tensor is not None:
        return tensor.clone()
    value = _constant(value)
    return full_like(p.detach(), complex(value, value) if p.is_complex() else value)


def _constant(value: Any) -> Any:
    """Return an initial value or state as a number without gradient."""
    if isinstance(value, Tensor) and functional.is_differentiated(value):
        raise RuntimeError(
            "the optimizer keeps its learning rate in its state, as a number without a derivative: it cannot require "
            "grad"
        )
    return value_of(value)


def _real(t: AnyTensor) -> Any:
    return functional.view_as_real(t) if t.is_complex() else t
