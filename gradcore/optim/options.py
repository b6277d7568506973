"""Options of optimisers, with a description and a check each, for constructors and docstrings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from gradcore.dispatch.settings import argument
from gradcore.tensor import Tensor

__all__ = [
    "OPTIONS",
    "Option",
    "arguments",
    "checked",
    "non_negative",
    "valid_lr",
    "with_options",
    "with_sections",
]

C = TypeVar("C", bound=type)
_EXAMPLE = """Examples
--------
>>> import gradcore as gc
>>> p = gc.nn.Parameter(gc.tensor([1.0, -2.0]))
>>> optimizer = gc.optim.{name}([p])
>>> p.square().sum().backward()
>>> optimizer.step()
>>> bool((p.abs() < gc.tensor([1.0, 2.0])).all())
True"""
_RAISES = "Raises\n------\nValueError\n    If an option is out of its range."


class Option(NamedTuple):
    """An option of optimisers: its description and check. Its type and default are in the constructor's signature.

    Attributes
    ----------
    description : str
        The description of the option in docstrings.
    check : callable, optional
        Raises `ValueError` for a value that is out of range.
    """

    description: str
    check: Callable[[Any], None] | None = None


def non_negative(what: str, message: str = "Invalid {what}: {value}", finite: bool = False) -> Callable[[Any], None]:
    """Return a check that raises an error for negative values and NaN, and for infinity if `finite`."""

    def check(value: Any) -> None:
        if not value >= 0.0 or (finite and not value < math.inf):
            raise ValueError(message.format(what=what, value=value))

    return check


def valid_lr(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a check of learning rates: a number that passes `check`, or a tensor with one such element."""

    def check_lr(lr: float | Tensor) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check(lr)

    return check_lr


def _check_betas(betas: tuple[Any, Any]) -> None:
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


#: Options by name. An optimiser adds its own, or replaces one, with `with_options`.
OPTIONS = {
    "params": Option("Parameters to optimize: tensors, pairs of a name and a tensor, or dicts that define groups."),
    "lr": Option("Learning rate.", valid_lr(non_negative("learning rate"))),
    "betas": Option("Decay rates of the first and second moment estimates.", _check_betas),
    "eps": Option("Term added to the denominator, for numerical stability.", non_negative("epsilon value")),
    "weight_decay": Option("L2 penalty (weight decay) coefficient.", non_negative("weight_decay value")),
    "momentum": Option("Momentum factor.", non_negative("momentum value", finite=True)),
    "nesterov": Option("Use Nesterov momentum."),
    "decoupled_weight_decay": Option("Decay the parameters instead of adding to their gradients, as `AdamW`."),
    "maximize": Option("Maximize the objective instead of minimizing it."),
    "foreach": Option("Accepted for compatibility with PyTorch; the step is the same."),
    "capturable": Option("Count the steps on the CUDA device, so that `cuda.graph` can capture them."),
    "differentiable": Option("Record the step, so that gradients flow through it."),
    "fused": Option(
        "With a `GradScaler`, unscale gradients inside the step; on CUDA, skip it on the device if one is infinite."
    ),
}


def with_options(order: str = "", **own: Option) -> Callable[[C], C]:
    """Declare the options of an optimiser class, whose constructor takes them (class decorator).

    Parameters
    ----------
    order : str
        The names in the order in which parameter groups and checkpoints hold them, if it is not the signature's.
    **own : Option
        Options that are not in `OPTIONS`, or differ from it.

    Returns
    -------
    callable
        A decorator that adds the section "Parameters" to the docstring, and extends the options of the base class.
    """

    def declare(cls: Any) -> Any:
        cls.option_table = {**getattr(cls, "option_table", OPTIONS), **own}
        cls.option_order = (*order.split(), *getattr(cls, "option_order", ()))
        if cls.__doc__ is not None:  # python -OO removes docstrings
            descriptions = {name: option.description for name, option in cls.option_table.items()}
            ours = cls.__module__.startswith("gradcore.optim.") and "\nExamples\n" not in inspect.cleandoc(cls.__doc__)
            examples = [_EXAMPLE.format(name=cls.__name__)] if ours else []
            cls.__doc__ = with_sections(cls, descriptions, _RAISES, *examples)
        return cls

    return declare


def arguments(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, given its ``locals()``."""
    return {name: value for name, value in namespace.items() if name not in ("self", "__class__")}


def checked(namespace: dict[str, Any]) -> dict[str, Any]:
    """Check the options in a constructor's ``locals()``, and return them in the order of groups."""
    cls, options = type(namespace["self"]), arguments(namespace)
    del options["params"]
    parameters = inspect.signature(cls.__init__).parameters
    for name, value in options.items():
        kind = argument(cls.__name__, name, str(parameters[name].annotation)) if name in parameters else None
        if kind is not None and not isinstance(value, Tensor):
            options[name] = value = kind.take(value)
        option = cls.option_table.get(name)
        if option is not None and option.check is not None:
            option.check(value)
    return {**{name: options[name] for name in cls.option_order if name in options}, **options}


def with_sections(cls: Any, descriptions: dict[str, str], *others: str) -> str:
    """Return a class docstring with further sections, such as the constructor's parameters, before the examples."""
    entries = []
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:
        annotated = parameter.annotation is not parameter.empty
        kind = inspect.formatannotation(parameter.annotation).strip("'") if annotated else "object"
        kind = kind.replace("ParamsT", "iterable").replace(" | ", " or ")
        default = "" if parameter.default is parameter.empty else f", default {parameter.default!r}"
        entries.append(f"{name} : {kind}{default}\n    {descriptions[name]}")
    head, line, examples = inspect.cleandoc(cls.__doc__).partition("\n\nExamples\n")
    sections = ["Parameters\n----------\n" + "\n".join(entries), *others]
    return "\n\n".join([head, *sections]) + f"{line}{examples}\n"
