"""Hot swap: the Python function of a program is replaced by code that calls native segments once they are built."""

from __future__ import annotations

import itertools
from threading import Thread
from typing import Any

from gradcore.backends.compiled.building import BuildError
from gradcore.compiler.program.program import Call, Program
from gradcore.compiler.targets.native import building, plans
from gradcore.compiler.targets.native.draws import use_positions
from gradcore.compiler.targets.python import emitter
from gradcore.core import config
from gradcore.core.locks import process_lock

__all__ = ["describe", "runnable", "swap"]

#: The number of calls after which a program is compiled.
_HOT = 32


def runnable(program: Program, cpp: str | None = None) -> Any:
    """Return the function of a program: the Python target's at first, the native target's when it is built.

    Parameters
    ----------
    program : Program
    cpp : str, optional
        ``"background"``, ``"wait"`` for the compiler, or ``"0"``; by default what ``GRADCORE_COMPILE_CPP`` says.
    """
    cpp = config.COMPILE_CPP if cpp is None else cpp
    if cpp in ("background", "wait") and building.has_libraries() and (run := _load_earlier(program)) is not None:
        return run
    if cpp == "background":
        return _build_in_background(program)
    run = emitter.function_of(program)
    if cpp == "wait":
        swap([(run, program)])
    else:
        run.state = "switched off"
    return run


def describe(run: Any) -> list[str]:
    """Return lines about a program's native segments, its loops, and the calls that Python makes, with reasons."""
    native = getattr(run, "native", None)
    loops, refused = getattr(native, "rolled", []), getattr(native, "refused", [])
    return [run.state, *(f"in a loop: {each}" for each in loops), *(f"by Python: {each}" for each in refused)]


# -- in a thread of its own ------------------------------------------------------------------------------------------

#: Threads build one program at a time.
_building = process_lock()


def _build(run: object, program: Program) -> None:
    with _building:
        swap([(run, program)])


def _build_in_background(program: Program) -> Any:
    """Return a function that starts the build after some calls."""
    calls = itertools.count(1)

    def count() -> None:
        if next(calls) == _HOT:
            try:
                Thread(target=_build, args=(run, program), name="gradcore-compile", daemon=True).start()
            except RuntimeError as error:  # The process has too many threads, or the interpreter exits.
                _give_up([(run, program)], str(error))

    run = emitter.function_of(program.copy([Call("native.count", count, (), {}, None), *program.calls]))
    run.state = f"not built: it is after {_HOT} calls"
    return run


def _load_earlier(program: Program) -> Any:
    """Return the function of a plan that an earlier process has stored, or None."""
    prepared = _prepare_program(program)
    if (plan_and_path := plans.find_plan(prepared, plans.name_of(prepared))) is None:
        return None
    plan, path = plan_and_path
    try:
        run = emitter.function_of(program) if path is None else plan.function(path)
    except (OSError, AttributeError):  # The file is not the expected library.
        return None
    run.native, run.state = plan, plan.state
    return run


def _prepare_program(program: Program) -> Program:
    """Return the program that is lowered to native segments."""
    return use_positions(program.native or program)


def swap(pairs: list[tuple[Any, Program]]) -> None:
    """Build programs as one library, or load an existing one, and let their functions call it."""
    from gradcore.compiler.targets.native.segments import NativeProgram, source_of  # not to load an existing plan

    lowered: list[tuple[Any, NativeProgram]] = []
    plan: plans.Plan | None = None
    try:
        for run, program in pairs:
            if getattr(run, "native", None) is None:
                native = NativeProgram(_prepare_program(program), building.has_blas())
                if native.parts and not (program.native and native.refused):
                    lowered.append((run, native))
                else:
                    plan = plans.Plan(native.program, [], {}, set(), native.refused, [])
                    _replace_code(run, emitter.function_of(program), plan, plan.state)
        path = building.library_of(source_of([native for _, native in lowered])) if lowered else None
        if path is not None:
            first = 0
            for run, native in lowered:
                plan = native.plan()
                _replace_code(run, plan.function(path, first), plan, plan.state)
                first += len(plan.parts)
        if len(pairs) == 1 and plan is not None:
            prepared = _prepare_program(pairs[0][1])
            plans.store_plan(plan, prepared, plans.name_of(prepared), path.name if path else None)
    except (BuildError, OSError) as error:
        _give_up(pairs, str(error))
    except Exception as error:  # Callers of the program must not see internal errors: Python makes the calls.
        _give_up(pairs, f"an error of gradcore's: {type(error).__name__}: {error}")


def _give_up(pairs: list[tuple[Any, Program]], why: str) -> None:
    for run, program in pairs:
        if getattr(run, "native", None) is None:
            _replace_code(run, emitter.function_of(program), program, why)


def _replace_code(run: Any, other: Any, native: Any, state: str) -> None:
    """Replace a function's code, from its next call on; calls in progress continue as they were."""
    names = {name: f"native_{name}" for name in other.__globals__ if name not in ("__builtins__", "program")}
    run.__globals__.update({names.get(name, name): value for name, value in other.__globals__.items()})
    run.__globals__["program"] = run
    run.native, run.state = native, state
    run.__code__ = other.__code__.replace(co_names=tuple(names.get(name, name) for name in other.__code__.co_names))
