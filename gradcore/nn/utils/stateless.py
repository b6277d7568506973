"""Calls of modules with other parameters and buffers than their own."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from gradcore.core.interrupts import run_despite_interrupts
from gradcore.nn.module import Module
from gradcore.tensor import Tensor

__all__ = ["call_with", "functional_call"]

#: Placeholder for a missing attribute.
NOTHING: Any = object()


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `gradcore.func.functional_call`, the present name of this function."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


def call_with(
    module: Module, values: dict[str, Tensor], args: Any, kwargs: dict[str, Any] | None, tie_weights: bool, strict: bool
) -> Any:
    """Call a module, with `values` in place of the parameters and buffers of these names."""
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replace_tensors(module, values, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextlib.contextmanager
def replace_tensors(module: Module, values: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """Replace parameters and buffers of `module` inside this context manager.

    On exit, `values` gets their final values.
    """
    replacements = _with_tied(module, values) if tie_weights else dict(values)
    if strict:
        _check_names(module, replacements)
    originals: dict[str, Any] = {}

    def restore() -> None:
        for name, value in originals.items():
            _replace(module, name, value)

    try:
        for name, value in replacements.items():
            originals[name] = _check_replaceable(name, _tensor_of(module, name))
            _replace(module, name, value)
        yield
    finally:
        try:
            values.update(
                {name: _check_replaceable(name, _tensor_of(module, name)) for name in originals if name in values}
            )
            restore()
        except BaseException:
            run_despite_interrupts(restore)
            raise


def _with_tied(module: Module, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return `values` under all names of the tensors that they replace, which may be tied.

    Raises
    ------
    ValueError
        If two names of one tensor have different values.
    """
    names: dict[int, list[str]] = {}
    for walk in (module.named_parameters, module.named_buffers):
        for name, t in walk(remove_duplicate=False):
            names.setdefault(id(t), []).append(name)
    replacements = dict(values)
    for tied_names in names.values():
        passed = [name for name in tied_names if name in values]
        if len({id(values[name]) for name in passed}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied_names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if passed:
            replacements.update(dict.fromkeys(tied_names, values[passed[0]]))
    return replacements


def _check_names(module: Module, values: dict[str, Tensor]) -> None:
    own_names = {n for walk in (module.named_parameters, module.named_buffers) for n, _ in walk(remove_duplicate=False)}
    problems = [
        f"{problem} key(s): {', '.join(map(repr, sorted(names)))}."
        for problem, names in (("Unexpected", values.keys() - own_names), ("Missing", own_names - values.keys()))
        if names
    ]
    if problems:
        text = "\n\t".join(problems)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{text}")


def _owner(module: Module, dotted: str) -> tuple[Any, str, dict[str, Any] | None]:
    """Return the submodule that owns a tensor, the tensor's name in it, and its table of parameters or buffers."""
    path, _, name = dotted.rpartition(".")
    owner = module.get_submodule(path)
    tables = (owner._parameters, owner._buffers)
    return owner, name, next((table for table in tables if name in table), None)


def _tensor_of(module: Module, dotted: str) -> Any:
    """Return the parameter, buffer or other attribute with this dotted name, or `NOTHING` if there is none."""
    owner, name, table = _owner(module, dotted)
    return getattr(owner, name, NOTHING) if table is None else table[name]


def _replace(module: Module, dotted: str, value: Any) -> None:
    """Replace a parameter, buffer or other tensor by `value`; delete it if `value` is `NOTHING`."""
    if value is not NOTHING and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{value} is not an instance of torch.Tensor")
    owner, name, table = _owner(module, dotted)
    if table is not None:
        table[name] = value
    elif value is not NOTHING:
        setattr(owner, name, value)
    elif hasattr(owner, name):
        delattr(owner, name)


def _check_replaceable(dotted: str, before: Any) -> Any:
    """Return the attribute `before`. Raise an error if a tensor cannot replace it."""
    if before is not NOTHING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{dotted.rpartition('.')[2]}`: {before} is not an instance of torch.Tensor")
    return before
