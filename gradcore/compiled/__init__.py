"""Compiled kernels for the CPU: those of the package, and those that are built for this machine's own CPU.

See :doc:`/compiled-kernels`. No compiler runs but while gradcore is installed from its sources, or when `build` is
called or ``python -m gradcore.compiled`` is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gradcore import paths
from gradcore.backends.compiled import building, cache_folder, library, state, workplaces
from gradcore.backends.compiled.building import BuildError
from gradcore.backends.registry import CPU

__all__ = ["BuildError", "build", "build_variants", "is_used", "remove", "state"]


def build(jobs: int | None = None) -> Path:
    """Compile the kernels for this version of gradcore and this CPU.

    They are used by processes that start after that. Where they are built already they are built anew.

    Parameters
    ----------
    jobs : int, optional
        How many compilers run at a time; by default as many as there are cores.

    Returns
    -------
    Path
        The library.

    Raises
    ------
    BuildError
        If there is no C++ compiler, or if it fails; the message says what was tried.
    """
    return building.build(_loops(), jobs or os.cpu_count() or 1)


def build_variants(jobs: int | None = None) -> list[Path]:
    """Compile the kernels into the package, for each instruction set of this architecture.

    Installing gradcore from its sources does this. Libraries that are up to date are left as they are.

    Parameters
    ----------
    jobs : int, optional
        Number of compilers that run at a time; by default the number of cores.

    Returns
    -------
    list of Path
        The libraries.

    Raises
    ------
    BuildError
        If there is no C++ compiler, or if it fails; the message says what was tried.
    """
    return building.build_variants(_loops(), jobs or os.cpu_count() or 1)


def _loops() -> Iterator[str]:
    """The sources of all loops, generated only if something is compiled."""
    from gradcore.compiled.loops import sources

    found = sources()
    yield from (found[name] for name in sorted(found))


def is_used() -> bool:
    """Whether this process uses compiled kernels.

    Returns
    -------
    bool
        True if there were any when gradcore was imported, and not switched off by ``GRADCORE_COMPILED=0``.

    Examples
    --------
    >>> import gradcore as gc
    >>> f"compiled kernels: {gc.compiled.is_used()}"
    'compiled kernels: ...'
    """
    return hasattr(CPU.backend, "library")


def remove() -> int:
    """Delete all libraries that were built, by whatever environment, for whatever version and CPU.

    What a build left that was killed goes, too.

    Returns
    -------
    int
        How many there were. Processes that use one go on using it.
    """
    found = library.libraries(of_all=True)
    for path in found:
        path.unlink(missing_ok=True)
    folder = cache_folder()
    if folder is not None:
        workplaces.remove_abandoned(Path(folder))
    return len(found)


paths.show_public(__name__)
