"""gradcore: PyTorch's autograd on NumPy and CuPy arrays."""

from __future__ import annotations

import types as _types
from math import e, inf, nan, pi

import numpy as _numpy  # without it the import ends here, and nothing has been changed

# What is imported here is there for users; the stub file beside this one says which names these are.
# ruff: noqa: E402, F401, F403

__version__ = "0.1.0"

from gradcore import autograd, cuda
from gradcore.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from gradcore.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from gradcore.backends.numpy.malloc import empty_cache, memory_stats
from gradcore.backends.numpy.threads import get_num_threads, set_flush_denormal, set_num_threads
from gradcore.backends.registry import set_default_device
from gradcore.core import dtypes, errors
from gradcore.core.config import (
    cuda_fallback,
    get_float32_matmul_precision,
    get_traceback,
    history_loss,
    set_cuda_fallback,
    set_float32_matmul_precision,
    set_history_loss,
    set_traceback,
)
from gradcore.core.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from gradcore.core.device import device, get_default_device
from gradcore.core.dtypes import (
    can_cast,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    set_default_dtype,
)
from gradcore.core.size import Size
from gradcore.functions import return_types
from gradcore.tensor import (
    Tensor,
    bindings,
    creation,
    installation,
    legacy_types,
    namespaces,
    printing,
    random,
    subclasses,
)
from gradcore.tensor import neighbours as _neighbours
from gradcore.tensor.creation import *
from gradcore.tensor.installation import register_op
from gradcore.tensor.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from gradcore.tensor.predicates import *
from gradcore.tensor.printing import set_printoptions
from gradcore.tensor.random import *
from gradcore.tensor.storage import TypedStorage, UntypedStorage
from gradcore.torch_names import paths as _paths

#: Names of modules that are imported when one of them is first looked up.
_LATER = {"from_kernel", "show_config", "vmap"}
#: As an index: a new dim, as in NumPy.
newaxis = None

installation.install()
bindings.install()
_paths.install()
_neighbours.install()
_functions = namespaces.functions("")
__getattr__, _ = namespaces.lazy_attributes(_functions, globals())
globals().update(dtypes.DTYPES)
globals().update(dtypes.ALIASES)
globals().update(legacy_types.legacy_classes())
vars(cuda).update(legacy_types.legacy_classes("cuda"))

from gradcore import amp
from gradcore.amp.autocasting import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from gradcore.amp.scaling import GradScaler

#: The modules for users; the others are how gradcore is made. Some are imported when they are first looked up.
_MODULES = {
    "amp", "autograd", "backends", "cuda", "errors", "fft", "func", "kernels", "linalg", "masked", "overrides",
    "random", "return_types", "special", "utils",
}  # fmt: skip
__all__ = sorted(
    _name
    for _name, _value in {**globals(), **_functions, **dict.fromkeys(_MODULES | _LATER)}.items()
    if not _name.startswith("_")
    and _name != "annotations"
    and (not isinstance(_value, _types.ModuleType) or _name in _MODULES)
)
_paths.show_public("gradcore")
