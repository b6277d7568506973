"""The base class of optimisers: parameter groups with options, the states of parameters, and hooks."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gradcore.autograd.grad_mode import enable_grad
from gradcore.core.errors import caller_depth, raise_if_out_of_memory
from gradcore.core.tracebacks import ShortErrors
from gradcore.optim import state_dicts
from gradcore.tensor import Tensor
from gradcore.tools.profiler.recording import is_profiling, record_function
from gradcore.utils.hooks import RemovableHandle

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Hook = Callable[..., Any]
Step = TypeVar("Step", bound=Callable[..., Any])

_global_pre_hooks: dict[int, Hook] = {}
_global_post_hooks: dict[int, Hook] = {}
_HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")


def evaluate(closure: Callable[[], Any]) -> Any:
    """Evaluate the closure of a step, which computes the gradients, and return the loss."""
    with enable_grad():
        return closure()


class _Required:
    """Type of the default value of an option that every group has to set."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before the step of every optimiser."""
    return RemovableHandle(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after the step of every optimiser."""
    return RemovableHandle(_global_post_hooks, hook)


def _with_hooks(step: Step) -> Step:
    """Return `step` wrapped so that it calls pre- and post-hooks."""

    @functools.wraps(step)
    def run_with_hooks(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in (*_global_pre_hooks.values(), *self._hooks["step_pre"].values()):
            result = hook(self, (self, *args), kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                (self, *args), kwargs = result
        self._opt_called = True
        try:
            if is_profiling():
                with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                    out = step(self, *args, **kwargs)
            else:
                out = step(self, *args, **kwargs)
        except MemoryError as error:
            raise_if_out_of_memory(error, "step")
            raise
        for hook in (*self._hooks["step_post"].values(), *_global_post_hooks.values()):
            hook(self, (self, *args), kwargs)
        return out

    run_with_hooks.hooked = True  # type: ignore[attr-defined]
    return run_with_hooks  # type: ignore[return-value]


class Optimizer(ShortErrors):
    """The base of all optimisers: subclass it and define `step`.

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor) or of dict
        Parameters to optimize; dicts are groups, with the parameters under ``'params'`` and options of their own.
    defaults : dict
        Default options of groups.

    Attributes
    ----------
    param_groups : list of dict
        The groups; their options may be changed between steps.
    state : dict
        State of each parameter.

    Raises
    ------
    TypeError
        If `params` is a tensor, or holds something that is not one.
    ValueError
        If there are no parameters, or one of them is not a leaf.

    Examples
    --------
    >>> import gradcore
    >>> class Descent(gradcore.optim.Optimizer):
    ...     def step(self, closure=None):
    ...         with gradcore.no_grad():
    ...             for group in self.param_groups:
    ...                 for p in group["params"]:
    ...                     p -= group["lr"] * p.grad
    >>> x = gradcore.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = Descent([x], {"lr": 0.1})
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    #: Whether a step was taken since a scheduler was attached, and whether a scheduler is attached.
    _opt_called = False
    _watched = False

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + params.type()
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """Create the attributes that pickles do not contain."""
        self._hooks: dict[str, dict[int, Hook]] = {name: {} for name in _HOOKS}
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_hooks" not in self.__dict__:
            self._prepare()
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"\nParameter Group {i}" if i else f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    def _watch_steps(self) -> None:
        """Start to record whether a step was taken, for the first scheduler."""
        if not self._watched:
            self._watched, self._opt_called = True, False

    # -- steps ----------------------------------------------------------------------------------------------------

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
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: to None, or to zeros.

        Parameters
        ----------
        set_to_none : bool
            If False, fill the gradients with zeros instead.
        """
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                    continue
                if p.grad.grad_fn is not None:
                    p.grad.detach_()
                else:
                    p.grad.requires_grad_(False)
                p.grad.zero_()

    # -- groups ---------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group.

        Parameters
        ----------
        param_group : dict
            Parameters under ``'params'``, and options other than the defaults.

        Raises
        ------
        TypeError
            If the group is not a dict, or the parameters have no order.
        ValueError
            If an option is missing, or a parameter is in another group already.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _unpack(param_group)
        for p in param_group["params"]:
            self._check_parameter(p)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_against_others(param_group)
        self.param_groups.append(param_group)

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_type_name(p)}")
        if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_against_others(self, param_group: dict[str, Any]) -> None:
        params = param_group["params"]
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=caller_depth(),
            )
        has_names = "param_names" in param_group
        if any(has_names != ("param_names" in group) for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if has_names else 'without'} names to the optimizer"
            )
        if not {p for group in self.param_groups for p in group["params"]}.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")

    # -- states ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the states and options, with parameters replaced by indices. Tensors are not copied.

        Returns
        -------
        dict
            ``'state'`` (by the parameter's index) and ``'param_groups'``, as PyTorch's.
        """
        for hook in self._hooks["state_dict_pre"].values():
            hook(self)
        out = state_dicts.pack(self.state, self.param_groups)
        for hook in self._hooks["state_dict_post"].values():
            changed = hook(self, out)
            out = out if changed is None else changed
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the states and options from a state dict.

        Parameters
        ----------
        state_dict : dict
            A result of `state_dict` for groups of the same sizes. Tensors are moved to the devices and dtypes of the
            parameters.

        Raises
        ------
        ValueError
            If the groups, or their numbers of parameters, are others.
        RuntimeError
            If a state has another shape than its parameter asks for: steps would broadcast it.
        """
        state_dict = state_dict.copy()
        for hook in self._hooks["load_state_dict_pre"].values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        state, groups = state_dicts.unpack(state_dict, self.param_groups)
        state_dicts.check_shapes(state, groups, self._state_shapes)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._hooks["load_state_dict_post"].values():
            hook(self)

    def _state_shapes(self, group: dict[str, Any], p: Tensor) -> dict[str, tuple[int, ...]]:
        """Return the required shapes of a parameter's states by name. States without an entry are not checked."""
        return {}

    # -- hooks ----------------------------------------------------------------------------------------------------

    def _add_hook(self, name: str, hook: Hook, first: bool = False) -> RemovableHandle:
        table = self._hooks[name]
        earlier = dict(table)
        handle = RemovableHandle(table, hook)
        if first:  # in place, because the handle refers to this table
            for key, earlier_hook in earlier.items():
                del table[key]
                table[key] = earlier_hook
        return handle

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step. It may return new arguments as a pair."""
        return self._add_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return self._add_hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return self._add_hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`. It may return a replacement."""
        return self._add_hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading. It may return a replacement."""
        return self._add_hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return self._add_hook("load_state_dict_post", hook, prepend)


def _type_name(value: Any) -> str:
    module, name = type(value).__module__, type(value).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def _unpack(group: dict[str, Any]) -> None:
    """Convert the parameters of a group to a list. Names of named parameters go to a list of their own."""
    params = group["params"]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    params = [params] if isinstance(params, Tensor) else list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    if names and len(names) != len(params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    if names:
        params, group["param_names"] = [p[1] for p in params], names
    group["params"] = params
