"""Validation of the settings that `compile` shares with PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["BACKENDS", "STANCES", "Settings", "check_settings", "graphs_of"]


class Settings(NamedTuple):
    """The settings of a compiled function.

    Attributes
    ----------
    fullgraph : bool
        Whether to raise an error if the function cannot be captured as a whole.
    cpp : str, optional
        Whether and when programs are compiled as C++: see `gradcore.compiler.targets.native.runnable`.
    dynamic : bool, optional
        When a changing size becomes symbolic: at its second value if True, at its third if None, never if False.
    graphs : str, optional
        Whether programs become CUDA graphs: see `gradcore.compiler.targets.cuda.graphs.GraphedProgram`.
    verify : int, optional
        Compare every `verify`-th call with eager execution: see `gradcore.compiler.verification`.
    """

    fullgraph: bool = False
    cpp: str | None = None
    dynamic: bool | None = None
    graphs: str | None = None
    verify: int | None = None


#: PyTorch's names of backends. The choice has no effect.
BACKENDS = ("aot_eager", "cudagraphs", "eager", "inductor")
#: The values of `gradcore.compiler.set_stance`.
STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile",
)  # fmt: skip
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_CPP = (True, False, "wait")
_OPTIONS = (
    "cpp", "epilogue_fusion", "fallback_random", "max_autotune", "shape_padding", "trace.enabled",
    "trace.graph_diagram", "triton.cudagraphs",
)  # fmt: skip


def check_settings(dynamic: Any, backend: Any, mode: Any, options: Any, verify: Any = None) -> None:
    """Raise PyTorch's errors for invalid settings.

    Raises
    ------
    RuntimeError
        If a backend, mode or option is unknown, an option has the wrong type, both a mode and options are passed, or
        `verify` is no non-negative int.
    AssertionError
        If `dynamic` is no bool.
    """
    if verify is not None and (type(verify) is not int or verify < 0):
        raise RuntimeError(f"compile(): verify must be a number of calls, or 0 for none, but got {verify!r}")
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected dynamic to be a bool, got {type(dynamic)}")
    if backend is not None and backend not in BACKENDS:
        if callable(backend):
            names = ", ".join(map(repr, BACKENDS))
            why = "captured programs are not handed to functions of yours. Leave backend out"
            raise RuntimeError(f"compile(): backend must be one of {names}, but got a function: {why}")
        known = "see `gradcore.compiler.list_backends()` for available backends."
        raise RuntimeError(f"Invalid backend: {backend!r}, {known}")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    for name, value in (options or {}).items():
        if name not in _OPTIONS:
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {[*_OPTIONS]}")
        if name == "cpp" and value not in _CPP:
            raise RuntimeError(f"compile(): option cpp must be True, False or 'wait', not {value!r}")
        if name != "cpp" and not isinstance(value, bool):
            raise RuntimeError(f"Unexpected type of attr {name}, got {type(value).__name__} should be bool")


#: By PyTorch's names of modes: whether programs on CUDA become CUDA graphs.
_GRAPHS = {
    "reduce-overhead": "always", "max-autotune": "always", "lite": "never", "max-autotune-no-cudagraphs": "never",
}  # fmt: skip


def graphs_of(mode: str | None, options: dict[str, Any] | None) -> str:
    """Return when programs on CUDA become graphs: ``'always'``, ``'never'``, or ``'equal'`` (if bitwise equal)."""
    cudagraphs = (options or {}).get("triton.cudagraphs")
    if cudagraphs is not None:
        return "always" if cudagraphs else "never"
    return _GRAPHS.get(mode or "default", "equal")
