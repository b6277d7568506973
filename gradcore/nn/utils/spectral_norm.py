"""Spectral normalization of weights by a forward pre-hook, the older form of the parametrization."""

from __future__ import annotations

from typing import Any, TypeVar

from gradcore.autograd.grad_mode import enable_grad, no_grad
from gradcore.nn import functional as F
from gradcore.nn.convolution import _ConvTranspose
from gradcore.nn.module import Module
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty

__all__ = ["remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix with one row for each index of `dim`."""
    return weight.movedim(dim, 0).flatten(1)


def outputs_of(module: Module) -> int:
    """Return the dim of a module's weight that corresponds to the outputs."""
    return int(isinstance(module, _ConvTranspose))


def check_iterations(n: int) -> None:
    """Raise an error unless the number of power iterations is positive."""
    if n <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n}")


def direction(size: int, like: Tensor, eps: float) -> Tensor:
    """Return a random vector of length one."""
    drawn = empty(size, dtype=like.dtype, device=like.device).normal_()
    return F.normalize(drawn, dim=0, eps=eps)


def improve(vector: Tensor, product: Tensor, eps: float) -> None:
    """Normalize `product`, and write it to the singular vector `vector`, which replicas on other devices may share."""
    vector.copy_(F.normalize(product, dim=0, eps=eps))


def spectral_value(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return the largest singular value of a matrix, given its singular vectors.

    They may be overwritten before backward.
    """
    return u.clone().dot(matrix.mv(v.clone()))


class SpectralNorm:
    """Forward pre-hook that normalizes one weight."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        check_iterations(n_power_iterations)
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the normalized weight, after power iterations if `do_power_iteration`."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    improve(v, matrix.T.mv(u), self.eps)
                    improve(u, matrix.mv(v), self.eps)
        return weight / spectral_value(matrix, u, v)  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def _hooks_on(module: Module, name: str) -> list[int]:
    hooks = module._forward_pre_hooks.items()
    return [key for key, h in hooks if isinstance(h.call, SpectralNorm) and h.call.name == name]


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value before each forward.

    Power iteration finds the value. It continues with each forward in training mode.

    Parameters
    ----------
    module : Module
    name : str
        The name of the weight. The parameter is ``weight_orig`` from here on, the singular vectors are buffers.
    n_power_iterations : int
        Steps for each forward.
    eps : float
        Lengths below are taken as this.
    dim : int, optional
        The dim of the weight that counts outputs: by default 1 for transposed convolutions, else 0.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    RuntimeError
        If the weight has such a hook already.
    ValueError
        If the module has no weight `name`, or `n_power_iterations` is not positive.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.utils.spectral_norm(gradcore.nn.Linear(4, 3))
    >>> for _ in range(20):
    ...     y = layer(gradcore.ones(4))
    >>> bool((gradcore.linalg.matrix_norm(layer.weight, 2) - 1).abs() < 0.05)
    True
    """
    if _hooks_on(module, name):
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    hook = SpectralNorm(name, n_power_iterations, outputs_of(module) if dim is None else dim, eps)
    with no_grad():
        rows, columns = as_matrix(weight, hook.dim).shape
        u, v = direction(rows, weight, eps), direction(columns, weight, eps)
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)  # an attribute for forward, which must not be a parameter
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(_Version(hook))
    return module


class _Version:
    """State dict hook that records the format version in the metadata, as PyTorch does."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.hook.name}.version"] = 1


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Turn a normalized weight back into an ordinary parameter with its present value.

    Parameters
    ----------
    module : Module
    name : str
        The name of the weight.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        If the weight has no hook of `spectral_norm`.

    Examples
    --------
    >>> import gradcore as gc
    >>> layer = gc.nn.utils.spectral_norm(gc.nn.Linear(2, 3))
    >>> [name for name, _ in gc.nn.utils.remove_spectral_norm(layer).named_parameters()]
    ['bias', 'weight']
    """
    for key in _hooks_on(module, name):
        hook = module._forward_pre_hooks.pop(key).call
        with no_grad():
            weight = hook.compute_weight(module, do_power_iteration=False)
        for attribute in (name, f"{name}_orig", f"{name}_u", f"{name}_v"):
            delattr(module, attribute)
        with enable_grad():
            module.register_parameter(name, Parameter(weight.detach()))
        hooks = module._state_dict_hooks
        for entry in [k for k, h in hooks.items() if isinstance(h, _Version) and h.hook is hook]:
            del hooks[entry]
        return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
