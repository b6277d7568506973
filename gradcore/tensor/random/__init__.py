"""Random numbers: one counter-based generator whose numbers are the same on every device.

A seed fixes the numbers: the same seed gives the same bits on the CPU and on CUDA, whatever the device.
"""

from __future__ import annotations

from gradcore.tensor.random.functions import (
    bernoulli,
    binomial,
    multinomial,
    normal,
    poisson,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from gradcore.tensor.random.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "Generator",
    "bernoulli",
    "binomial",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]
