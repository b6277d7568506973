"""Compiled kernels for the CPU: those in the package, and those built for the CPU of this machine.

See :doc:`/compiled-kernels`. No compiler runs but while gradcore is installed from its sources, or when `build` is
called or ``python -m gradcore.compiled`` is.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from gradcore.backends.compiled import building, cache_folder, library, state, workplaces
from gradcore.backends.compiled.building import BuildError
from gradcore.backends.compiled.variants import choose_variant
from gradcore.backends.registry import CPU
from gradcore.torch_names import paths

__all__ = ["BuildError", "build", "build_variants", "is_used", "remove", "state"]


def build(jobs: int | None = None, report: building.Report | None = None) -> Path:
    """Compile the kernels for this version of gradcore and this CPU.

    Processes that start afterwards use them. Existing kernels are built again.

    Parameters
    ----------
    jobs : int, optional
        Number of compilers that run at a time; by default the number of cores.
    report : callable, optional
        Function such as `print`, called with a line of text for each compiled file.

    Returns
    -------
    Path
        The library.

    Raises
    ------
    BuildError
        If there is no C++ compiler, or if it fails; the message says what was tried.
    """
    return building.build(_loops(), jobs or _cores(), report)


def build_variants(
    jobs: int | None = None, only_this_cpu: bool = False, report: building.Report | None = None
) -> list[Path]:
    """Compile the kernels into the package, for each instruction set of this architecture.

    Installing gradcore from its sources does this for the instruction set that this CPU uses, and for all of them
    where ``GRADCORE_BUILD`` is ``all``. Libraries that are up to date are left as they are.

    Parameters
    ----------
    jobs : int, optional
        Number of compilers that run at a time; by default the number of cores.
    only_this_cpu : bool
        Whether to compile only the library that this CPU would load.
    report : callable, optional
        Function such as `print`, called with a line of text for each compiled file.

    Returns
    -------
    list of Path
        The libraries.

    Raises
    ------
    BuildError
        If there is no C++ compiler, if it fails, or if no instruction set fits this CPU; the message says what was
        tried.
    """
    variants = None
    if only_this_cpu:
        best = choose_variant()
        if best is None:
            raise BuildError(f"There are no compiled kernels for this CPU ({platform.machine()}).")
        variants = [best]
    return building.build_variants(_loops(), jobs or _cores(), variants=variants, report=report)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _loops() -> Iterator[str]:
    """Yield the sources of all loops. They are generated only if something is compiled."""
    from gradcore.tools.compiled.loops import sources

    loop_sources = sources()
    yield from (loop_sources[name] for name in sorted(loop_sources))


def is_used() -> bool:
    """Return whether this process uses compiled kernels.

    Returns
    -------
    bool
        True if there were compiled kernels when gradcore was imported, unless ``GRADCORE_COMPILED=0`` was set.

    Examples
    --------
    >>> import gradcore as gc
    >>> f"compiled kernels: {gc.compiled.is_used()}"
    'compiled kernels: ...'
    """
    return hasattr(CPU.backend, "library")


def remove() -> int:
    """Delete all libraries that `build` has stored, for every environment, version of gradcore and CPU.

    Files that an aborted build has left are deleted too. Processes that use a library go on using it.

    Returns
    -------
    int
        The number of deleted libraries.
    """
    result = library.libraries(of_all=True)
    for path in result:
        path.unlink(missing_ok=True)
    folder = cache_folder()
    if folder is not None:
        workplaces.remove_abandoned(Path(folder))
    return len(result)


paths.show_public(__name__)
