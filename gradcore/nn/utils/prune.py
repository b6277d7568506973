"""Pruning: parameters multiplied by masks of zeros and ones.

A pruned parameter ``weight`` is stored as the parameter ``weight_orig`` and the buffer ``weight_mask``; the attribute
``weight`` is their product, made anew before each forward.

Examples
--------
>>> import gradcore
>>> from gradcore.nn.utils import prune
>>> layer = gradcore.nn.Linear(4, 3)
>>> _ = prune.l1_unstructured(layer, "weight", amount=0.5)
>>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
(6, ['bias', 'weight_mask', 'weight_orig'])
>>> _ = prune.remove(layer, "weight")
>>> sorted(layer.state_dict())
['bias', 'weight']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from gradcore.autograd.formulas import TENSORS
from gradcore.creation import ones_like
from gradcore.linalg import vector_norm
from gradcore.nn.module import Module
from gradcore.random import rand, randperm
from gradcore.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

Amount = Any  # a number of elements, or a share of them


def _check_amount(amount: Amount) -> None:
    """Refuse what is neither a number of elements nor a share of them."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _number(amount: Amount, size: int) -> int:
    """How many of so many elements an amount is."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return amount  # type: ignore[no-any-return]


class BasePruningMethod:
    """A way to choose what is pruned. Subclasses define `compute_mask`, and set ``PRUNING_TYPE``.

    ``PRUNING_TYPE`` is ``"unstructured"`` for single elements, ``"structured"`` for whole slices of a tensor, or
    ``"global"``. Where several methods prune one parameter, the next one sees what the earlier ones have left.
    """

    PRUNING_TYPE: ClassVar[str] = "global"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Make the attribute anew; a hook that runs before forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The new mask of a tensor (of importances) with that mask."""
        raise NotImplementedError

    def apply_mask(self, module: Module) -> Tensor:
        """The product of parameter and mask."""
        name = self._tensor_name
        mask, original = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        return mask.to(dtype=original.dtype) * original  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module, whatever has been pruned of it before.

        Parameters
        ----------
        module : Module
        name : str
            Of the parameter.
        *args, **kwargs
            What the method is made with.
        importance_scores : Tensor, optional
            By which it chooses; by default the parameter itself.

        Returns
        -------
        BasePruningMethod
            The method, or the container of all methods that have pruned the parameter.
        """
        before = _method_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        value = getattr(module, name)
        if importance_scores is None:
            importance_scores = value
        elif importance_scores.shape != value.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {value.shape}"
            )
        if before is not None:
            key, earlier = before
            container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
            container.add_pruning_method(method)
            mask = container.compute_mask(importance_scores, getattr(module, f"{name}_mask"))
            del module._forward_pre_hooks[key]
            method = container
        else:
            mask = method.compute_mask(importance_scores, ones_like(importance_scores))
            original = module._parameters.pop(name)
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned tensor, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Module) -> None:
        """Make the parameter an ordinary one again, with zeros where it is pruned."""
        name = self._tensor_name
        value = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        assert original is not None
        original.data = value.data
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods that have pruned one parameter after the other.

    Parameters
    ----------
    *methods : BasePruningMethod
    """

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._methods: list[BasePruningMethod] = []
        for method in methods:
            if not self._methods:
                self._tensor_name = getattr(method, "_tensor_name", "")
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if getattr(method, "_tensor_name", self._tensor_name) != self._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._methods.append(method)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask after the last method, which sees what the mask has left."""
        method = self._methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            kept = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
            left = (slice(None),) * dim + (kept,)
        else:
            left = (slice(None),) * t.ndim
        partial = method.compute_mask(t[left], mask[left])
        mask = mask.clone()
        mask[left] = partial.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing; masks of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it is."""
        return default_mask


class _OfAmount(BasePruningMethod):
    """Prunes so many elements, or slices along a dim, with the smallest scores.

    Parameters
    ----------
    amount : int or float
        How many, or which share of them.
    """

    def __init__(self, amount: Amount) -> None:
        _check_amount(amount)
        self.amount = amount


def _without_smallest(scores: Tensor, mask: Tensor, amount: Amount, dim: int | None = None) -> Tensor:
    """A mask without the elements, or the slices along a dim, that have the smallest scores."""
    chosen = scores.argsort()[: _number(amount, scores.numel())]
    mask = mask.clone()
    if dim is None:
        mask.view(-1)[chosen] = 0
    else:
        mask[(slice(None),) * (dim % mask.ndim) + (chosen,)] = 0
    return mask


class RandomUnstructured(_OfAmount):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without elements that were drawn."""
        scores = rand(t.numel(), device=t.device)
        return _without_smallest(scores, default_mask.contiguous(), self.amount)


class L1Unstructured(_OfAmount):
    """Prunes the elements of the smallest magnitude."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the smallest elements."""
        return _without_smallest(t.detach().abs().flatten(), default_mask.contiguous(), self.amount)


def _check_dim(t: Tensor, dim: int) -> None:
    if t.ndim < 2:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.ndim} dims"
        )
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


class RandomStructured(_OfAmount):
    """Prunes slices at random.

    Parameters
    ----------
    amount : int or float
        How many, or which share of them.
    dim : int
        Along which the slices lie.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without slices that were drawn."""
        _check_dim(t, self.dim)
        order = randperm(t.shape[self.dim], device=t.device)
        return _without_smallest(order, default_mask, self.amount, self.dim)


class LnStructured(_OfAmount):
    """Prunes the slices of the smallest norm.

    Parameters
    ----------
    amount : int or float
        How many, or which share of them.
    n : int, float or str
        The order of the norm.
    dim : int
        Along which the slices lie.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the smallest slices."""
        _check_dim(t, self.dim)
        rows = t.detach().movedim(self.dim, 0).flatten(1)
        norms = vector_norm(rows, 2 if self.n == "fro" else float(self.n), 1)
        return _without_smallest(norms, default_mask, self.amount, self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask is 0.

    Parameters
    ----------
    mask : Tensor
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The product of both masks."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- functions --------------------------------------------------------------------------------------------------------


def _method_of(module: Module, name: str) -> tuple[Any, BasePruningMethod] | None:
    """The hook that prunes a parameter, with its key."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook.call, BasePruningMethod) and hook.call._tensor_name == name:
            return key, hook.call
    return None


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones, as a start; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune elements of a parameter at random; returns the module. See `RandomUnstructured`."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Amount, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of the smallest magnitude; returns the module. See `L1Unstructured`."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Amount, dim: int) -> Module:
    """Prune slices of a parameter at random; returns the module. See `RandomStructured`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Amount, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices of the smallest norm; returns the module. See `LnStructured`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is 0; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one tensor.

    Parameters
    ----------
    parameters : iterable of (Module, str)
        Modules, with the names of their parameters.
    pruning_method : type
        One that prunes single elements.
    importance_scores : dict, optional
        Tensors by which to choose, for some of the parameters.
    **kwargs
        What the method is made with.
    """
    pairs = [(module, name) for module, name in parameters]
    scores = importance_scores or {}
    values = [scores.get((module, name), getattr(module, name)) for module, name in pairs]
    masks = [getattr(module, f"{name}_mask", ones_like(getattr(module, name))) for module, name in pairs]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    together = TENSORS.cat([value.detach().flatten() for value in values])
    mask = container.compute_mask(together, TENSORS.cat([m.flatten() for m in masks]))
    parts = mask.split([value.numel() for value in values])
    for (module, name), part in zip(pairs, parts, strict=True):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one, with zeros where it is pruned; returns the module.

    Raises
    ------
    ValueError
        If it has not been pruned.
    """
    found = _method_of(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    key, method = found
    method.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether anything of a module, or of a module in it, is pruned."""
    hooks = (hook for each in module.modules() for hook in each._forward_pre_hooks.values())
    return any(isinstance(hook.call, BasePruningMethod) for hook in hooks)
