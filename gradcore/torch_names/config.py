"""Settings of all compiled functions, by PyTorch's names: ``torch._dynamo.config``.

Settings that have no meaning for `gradcore.compile` cannot be set, as names that do not exist.

Examples
--------
>>> from gradcore._dynamo import config
>>> with config.patch(recompile_limit=16):
...     config.recompile_limit
16
>>> config.recompile_limit
8
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType

from gradcore.core import config

__all__ = ["patch"]

#: The setting that each name stands for.
_SETTINGS = {
    "automatic_dynamic_shapes": "COMPILE_DYNAMIC",
    "cache_size_limit": "COMPILE_LIMIT",
    "error_on_recompile": "COMPILE_ONCE",
    "fail_on_cache_limit_hit": "COMPILE_LIMIT_FAILS",
    "fail_on_recompile_limit_hit": "COMPILE_LIMIT_FAILS",
    "recompile_limit": "COMPILE_LIMIT",
}
#: Names that may be set, and change nothing: gradcore never raises the errors that they suppress, always captures what
#: they allow, or has no such limit, cache or form of guards.
_WITHOUT_EFFECT = {
    "accumulated_cache_size_limit": 256, "accumulated_recompile_limit": 256, "allow_unspec_int_on_nn_module": False,
    "capture_dynamic_output_shape_ops": False, "capture_scalar_outputs": False, "compiled_autograd": False,
    "force_parameter_static_shapes": True, "guard_nn_modules": True, "inline_inbuilt_nn_modules": True,
    "optimize_ddp": True, "suppress_errors": False, "verbose": False,
}  # fmt: skip


@contextlib.contextmanager
def patch(changes: Mapping[str, object] | str = {}, value: object = None, **settings: object) -> Iterator[None]:
    """Change settings within a context or, as a decorator, a function.

    Parameters
    ----------
    changes : dict or str, optional
        New values by name, or a name.
    value : object, optional
        The new value, if `changes` is a name.
    **settings
        More new values by name.
    """
    settings |= {changes: value} if isinstance(changes, str) else changes
    this = sys.modules[__name__]
    before = {name: getattr(this, name) for name in settings}
    try:
        for name, new_value in settings.items():
            setattr(this, name, new_value)
        yield
    finally:
        for name, old_value in before.items():
            setattr(this, name, old_value)


class _Config(ModuleType):
    """The class of this module."""

    def __getattr__(self, name: str) -> object:
        if name in _SETTINGS:
            return getattr(config, _SETTINGS[name])
        known = ", ".join(sorted([*_SETTINGS, *_WITHOUT_EFFECT]))
        why = f"gradcore.compile has no such setting. Leave it out. The settings are {known}"
        raise AttributeError(f"torch._dynamo.config.{name} does not exist: {why}")

    def __setattr__(self, name: str, value: object) -> None:
        if name[:2] != "__":
            before = getattr(self, name)  # Raise the error for a name that does not exist.
            if name in _SETTINGS:
                if type(value) is not type(before):
                    expected = f"must be of type {type(before).__name__}, not {type(value).__name__}"
                    raise TypeError(f"torch._dynamo.config.{name} {expected}")
                return setattr(config, _SETTINGS[name], value)
        return super().__setattr__(name, value)


globals().update(_WITHOUT_EFFECT)
sys.modules[__name__].__class__ = _Config
