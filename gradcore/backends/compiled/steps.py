"""Steps of optimisers by loops of the compiled library: one pass over parameter, gradient and states."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

from gradcore.backends.compiled.library import address
from gradcore.backends.compiled.symbols import is_number
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.optimizers import Batch, Formula

__all__ = ["CompiledSteps"]


class CompiledSteps(NumpyBackend):
    """How the formula of a step runs on flat arrays."""

    library: ctypes.CDLL

    def _step_all(self, formula: Formula, batch: Batch, settings: dict[str, Any]) -> None:
        dtype = batch.params[0].dtype
        ours = formula.__module__.startswith("gradcore.optim.")  # what it does with settings is known
        of_each = any(self.is_tensor(value) for value in settings.values())
        if ours and not of_each and formula.__name__ not in self.fused_steps and dtype.char in "fd":
            formula = self._step(formula, dtype, len(batch.states), settings) or formula
        super()._step_all(formula, batch, settings)

    @cached_property
    def _steps(self) -> dict[Any, list[tuple[Any, Any]]]:
        """Functions and the loops they are of, by formula and what is not a number among the settings."""
        return {}

    def _step(self, formula: Formula, dtype: Any, states: int, settings: dict[str, Any]) -> Formula | None:
        """A function that does what the formula does; None if there is no loop for it."""
        key = formula, dtype, states, *[float if is_number(v) else v for v in settings.values()]
        known = self._steps.setdefault(key, [])
        for function, found in known:
            if found is None or all(guard(settings) for guard in found.guards):
                return None if function is None else _on_arrays(function, found, settings, formula)
        from gradcore.backends.compiled.loops import loop_name, step_loop

        found = step_loop(formula, dtype, states, settings, self.bodies)
        function = None if found is None else getattr(self.library, loop_name(found.program), None)
        if function is not None:
            function.argtypes, function.restype = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p], None
        known.append((function, found))
        return None if function is None else _on_arrays(function, found, settings, formula)


def _on_arrays(function: Any, loop: Any, settings: dict[str, Any], formula: Formula) -> Formula:
    """A loop as a function of flat arrays, with the parameters that follow from settings."""
    parameters = [parameter.how(settings) for parameter in loop.parameters]
    numbers = (ctypes.c_double * len(parameters))(*parameters)
    places: Any = ctypes.c_void_p * len(loop.names)
    positions = [_position(name) for name in loop.names]

    def step(F: Any, *arrays: Any, **settings: Any) -> None:
        if all(a.flags.c_contiguous and a.flags.aligned and a.dtype == arrays[0].dtype for a in arrays):
            function(arrays[0].size, places(*[address(arrays[i]) for i in positions]), numbers)
        else:
            formula(F, *arrays, **settings)

    return step


def _position(name: str) -> int:
    """Which of a step's arrays has that name: the parameter, the gradient or a state."""
    return {"p": 0, "g": 1}[name] if name in "pg" else int(name[1:]) + 2
