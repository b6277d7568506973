"""Pruning methods, which choose the elements for `gradcore.nn.utils.prune`."""

from __future__ import annotations

from typing import Any, ClassVar

from gradcore.functions.linalg import vector_norm
from gradcore.nn.module import Module
from gradcore.tensor import Tensor
from gradcore.tensor.creation import ones_like
from gradcore.tensor.random import rand, randperm

__all__ = [
    "Amount",
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "method_of",
]

Amount = Any  # a number of elements, or a share of them


def _check_amount(amount: Amount) -> None:
    """Raise an error unless `amount` is a number of elements or a fraction of them."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _number(amount: Amount, size: int) -> int:
    """Return the number of elements to prune, given an amount and the total number."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return amount  # type: ignore[no-any-return]


class BasePruningMethod:
    """Base class of pruning methods. Subclasses define `compute_mask`, and set ``PRUNING_TYPE``.

    ``PRUNING_TYPE`` is ``"unstructured"`` for single elements, ``"structured"`` for whole slices, or ``"global"``. If
    several methods prune a parameter, each one sees only the elements that the previous ones left.

    Examples
    --------
    >>> import gradcore as gc
    >>> class Negative(gc.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> Negative().compute_mask(gc.tensor([1.0, -1.0]), gc.ones(2))
    tensor([1., 0.])
    """

    PRUNING_TYPE: ClassVar[str] = "global"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Recompute the pruned attribute. This is a forward pre-hook."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the new mask for a tensor of importances, given its present mask."""
        raise NotImplementedError

    def apply_mask(self, module: Module) -> Tensor:
        """Return the product of the parameter and its mask."""
        name = self._tensor_name
        mask, original = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        return mask.to(dtype=original.dtype) * original  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module, in addition to earlier pruning.

        Parameters
        ----------
        module : Module
        name : str
            The name of the parameter.
        *args, **kwargs
            Arguments of the constructor of the method.
        importance_scores : Tensor, optional
            The scores by which elements are chosen; by default the parameter itself.

        Returns
        -------
        BasePruningMethod
            The method, or the container of all methods that have pruned the parameter.
        """
        before = method_of(module, name)
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
        """Return a pruned copy of a tensor that belongs to no module.

        Parameters
        ----------
        t : Tensor
        default_mask : Tensor, optional
            The mask of earlier pruning; by default nothing is pruned.
        importance_scores : Tensor, optional
            The scores by which elements are chosen; by default the tensor itself.

        Returns
        -------
        Tensor
            The product of the tensor and the new mask.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Module) -> None:
        """Turn the parameter back into an ordinary one, with zeros where it was pruned."""
        name = self._tensor_name
        value = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        assert original is not None
        original.data = value.data
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several pruning methods that were applied to one parameter, in order.

    Parameters
    ----------
    *methods : BasePruningMethod

    Examples
    --------
    >>> import gradcore as gc
    >>> prune = gc.nn.utils.prune
    >>> layer = prune.l1_unstructured(gc.nn.Linear(2, 2), "weight", amount=1)
    >>> layer = prune.l1_unstructured(layer, "weight", amount=1)
    >>> len(next(iter(layer._forward_pre_hooks.values())))
    3
    """

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._methods: list[BasePruningMethod] = []
        for method in methods:
            if not self._methods:
                self._tensor_name = getattr(method, "_tensor_name", "")
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a pruning method for the same parameter."""
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
        """Return the mask after the last method, which sees only the elements that the mask left."""
        method = self._methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            remaining: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            is_kept = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
            remaining = (slice(None),) * dim + (is_kept,)
        else:
            remaining = (slice(None),) * t.ndim
        partial = method.compute_mask(t[remaining], mask[remaining])
        mask = mask.clone()
        mask[remaining] = partial.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Pruning method that prunes nothing: its masks are ones.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.prune.Identity().compute_mask(gc.ones(2), gc.ones(2))
    tensor([1., 1.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask unchanged."""
        return default_mask


class _OfAmount(BasePruningMethod):
    """Base class of methods that prune a number of elements, those with the lowest scores.

    Parameters
    ----------
    amount : int or float
        The number of elements to prune, or their share of all.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        _check_amount(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        """Return the scores of the elements, as a vector."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with zeros for the elements with the lowest scores."""
        scores = self._scores(t)
        mask = default_mask.contiguous().clone()
        self._clear(mask, scores.argsort()[: _number(self.amount, scores.numel())])
        return mask

    def _clear(self, mask: Tensor, chosen: Tensor) -> None:
        """Set the elements `chosen` of a mask to zero."""
        mask.view(-1)[chosen] = 0


class RandomUnstructured(_OfAmount):
    """Pruning method for randomly chosen elements.

    Parameters
    ----------
    amount : int or float
        The number of elements to prune, or their share of all.

    Examples
    --------
    >>> import gradcore as gc
    >>> int(gc.nn.utils.prune.RandomUnstructured(1).compute_mask(gc.ones(4), gc.ones(4)).sum())
    3
    """

    def _scores(self, t: Tensor) -> Tensor:
        return rand(t.numel(), device=t.device)


class L1Unstructured(_OfAmount):
    """Pruning method for the elements with the smallest magnitude.

    Parameters
    ----------
    amount : int or float
        The number of elements to prune, or their share of all.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.prune.L1Unstructured(1).compute_mask(gc.tensor([3.0, 1.0]), gc.ones(2))
    tensor([1., 0.])
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.detach().abs().flatten()


class _OfSlices(_OfAmount):
    """Base class of methods that prune slices along a dim."""

    PRUNING_TYPE = "structured"
    dim: int

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.ndim} dims"
            )
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        return super().compute_mask(t, default_mask)

    def _clear(self, mask: Tensor, chosen: Tensor) -> None:
        mask.movedim(self.dim, 0)[chosen] = 0


class RandomStructured(_OfSlices):
    """Pruning method for randomly chosen slices.

    Parameters
    ----------
    amount : int or float
        The number of elements to prune, or their share of all.
    dim : int
        The dim along which the slices lie.

    Examples
    --------
    >>> import gradcore as gc
    >>> int(gc.nn.utils.prune.RandomStructured(1, dim=0).compute_mask(gc.ones(2, 2), gc.ones(2, 2)).sum())
    2
    """

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        return randperm(t.shape[self.dim], device=t.device)


class LnStructured(_OfSlices):
    """Pruning method for the slices with the smallest norm.

    Parameters
    ----------
    amount : int or float
        The number of elements to prune, or their share of all.
    n : int, float or str
        The order of the norm.
    dim : int
        The dim along which the slices lie.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.prune.LnStructured(1, 2, dim=0).compute_mask(gc.tensor([[3.0, 1.0], [0.0, 1.0]]), gc.ones(2, 2))
    tensor([[1., 1.],
            [0., 0.]])
    """

    def __init__(self, amount: Amount, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def _scores(self, t: Tensor) -> Tensor:
        rows = t.detach().movedim(self.dim, 0).flatten(1)
        return vector_norm(rows, 2 if self.n == "fro" else float(self.n), 1)


class CustomFromMask(BasePruningMethod):
    """Pruning method that prunes where a given mask is 0.

    Parameters
    ----------
    mask : Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.prune.CustomFromMask(gc.tensor([1.0, 0.0])).compute_mask(gc.ones(2), gc.ones(2))
    tensor([1., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of the given mask and the present one."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def method_of(module: Module, name: str) -> tuple[Any, BasePruningMethod] | None:
    """Return the hook that prunes a parameter, and the key of the hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook.call, BasePruningMethod) and hook.call._tensor_name == name:
            return key, hook.call
    return None
