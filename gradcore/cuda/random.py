"""Random numbers on CUDA devices, under PyTorch's names. One generator serves all devices.

A seed or state that is set for one device is set for all of them and for the CPU, with or without CUDA.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradcore.core.device import DeviceLike
from gradcore.cuda.devices import device_count, index_of
from gradcore.tensor import Tensor, random

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the generator, as `gradcore.manual_seed` does.

    Parameters
    ----------
    seed : int

    Examples
    --------
    >>> import gradcore
    >>> gradcore.cuda.manual_seed(0)
    >>> gradcore.initial_seed()
    0
    """
    random.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generator, as `manual_seed` does: it serves all devices.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.manual_seed_all(0)
    >>> gc.initial_seed()
    0
    """
    random.manual_seed(seed)


def seed() -> None:
    """Seed the generator from the operating system.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.seed()
    """
    random.seed()


def seed_all() -> None:
    """Seed the generator from the operating system, as `seed` does: it serves all devices.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.seed_all()
    """
    random.seed()


def initial_seed() -> int:
    """Return the seed of the generator.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, with the reason.
    """
    index_of(None)
    return random.initial_seed()


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """Return the state of the generator, as a uint8 tensor.

    Parameters
    ----------
    device : device, str or int
        A CUDA device; the state is the same for all.

    Raises
    ------
    RuntimeError
        If the device does not exist, or CUDA cannot be used.
    """
    index_of(device)
    return random.get_rng_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the state of the generator, once for each CUDA device.

    Examples
    --------
    >>> import gradcore
    >>> states = gradcore.cuda.get_rng_state_all()
    >>> len(states) == gradcore.cuda.device_count()
    True
    """
    return [random.get_rng_state() for _ in range(device_count())]


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Set the state of the generator, which serves all devices, to one that `get_rng_state` returned.

    Parameters
    ----------
    new_state : Tensor
    device : device, str or int
        A CUDA device; the state is the same for all.
    """
    index_of(device)
    random.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the state of the generator to the first of `new_states`, as `get_rng_state_all` returns equal states.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.set_rng_state_all(gc.cuda.get_rng_state_all())
    """
    for state in list(new_states)[:1]:
        random.set_rng_state(state)
