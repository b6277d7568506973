"""Settings of users: each is read once from an environment variable, and can be changed in code."""

from __future__ import annotations

import functools
import os
from typing import Any, Literal, get_args

__all__ = [
    "Fallback",
    "Fusion",
    "HistoryLoss",
    "IndexChecks",
    "Precision",
    "Traceback",
    "cuda_fallback",
    "cuda_kernels",
    "fusion",
    "get_float32_matmul_precision",
    "get_traceback",
    "history_loss",
    "index_checks",
    "set_cuda_fallback",
    "set_float32_matmul_precision",
    "set_fusion",
    "set_history_loss",
    "set_index_checks",
    "set_traceback",
]

Fallback = Literal["warn", "error", "silent"]
HistoryLoss = Literal["default", "error", "warn"]
IndexChecks = Literal["later", "now", "off"]
Fusion = Literal["on", "off", "1", "0"]
Precision = Literal["highest", "high", "medium"]

Traceback = Literal["short", "full"]


def _check_choice(choices: Any, value: str, source: str) -> Any:
    allowed = get_args(choices)
    if value not in allowed:
        raise ValueError(f"{source} must be one of {', '.join(map(repr, allowed))}, but got {value!r}")
    return value


def _from_environment(choices: Any, name: str) -> Any:
    """Return the value of a setting's environment variable, or the first of `choices` if it is not set."""
    return _check_choice(choices, os.environ.get(name, get_args(choices)[0]), name)


def _count_from_environment(name: str) -> int:
    """Return the number in an environment variable, or 0 if it is not set."""
    text = os.environ.get(name, "0")
    if not text.isdecimal():
        raise ValueError(f"{name} must be a number of calls, but got {text!r}")
    return int(text)


#: CUDA sources whose kernels no function of CuPy replaces, or that belong to ``attention``.
_OTHER_SOURCES = {"bernoulli", "dropout", "flash_attention", "flash_attention_backward", "philox", "products"}


@functools.cache
def cuda_kernels() -> tuple[str, ...]:
    """Return the names of the CUDA kernels of this package that can be replaced by functions of CuPy.

    They are the names of CUDA sources, ``elementwise`` for generated kernels, and ``reductions`` for those that CuPy
    completes.
    """
    from pathlib import Path  # slow to import

    sources = Path(__file__).parents[1] / "backends" / "cupy" / "sources"
    names = {path.stem for path in sources.glob("*.cu")} | {"elementwise", "reductions"}
    return tuple(sorted(names - _OTHER_SOURCES))


def _excluded_kernels(text: str) -> frozenset[str]:
    """Return the kernels that ``GRADCORE_CUDA_KERNELS`` excludes.

    ``off`` excludes all kernels, ``-softmax,-windows`` only the named ones.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names in ([], ["on"]):
        return frozenset()
    if names == ["off"]:
        return frozenset(cuda_kernels())
    exclusions = {f"-{name}" for name in cuda_kernels()}
    if not exclusions.issuperset(names):
        choices = ", ".join(sorted(exclusions))
        raise ValueError(f"GRADCORE_CUDA_KERNELS must be 'on', 'off' or a list of {choices}, but got {text!r}")
    return frozenset(name[1:] for name in names)


#: The CUDA kernels of this package that are replaced by functions of CuPy.
CUDA_KERNELS_LEFT_OUT = _excluded_kernels(os.environ.get("GRADCORE_CUDA_KERNELS", "on"))

_cuda_fallback: Fallback = _from_environment(Fallback, "GRADCORE_CUDA_FALLBACK")
_history_loss: HistoryLoss = _from_environment(HistoryLoss, "GRADCORE_HISTORY_LOSS")
_index_checks: IndexChecks = _from_environment(IndexChecks, "GRADCORE_CUDA_INDEX_CHECKS")
_fusion: bool = _from_environment(Fusion, "GRADCORE_FUSION") in ("on", "1")

#: Whether the process keeps the memory of freed arrays for new ones: see `gradcore.backends.numpy.malloc`.
KEEP_MEMORY: bool = _from_environment(Literal["1", "0"], "GRADCORE_KEEP_MEMORY") == "1"

#: Whether worker threads avoid the core of the thread that calls them: see `gradcore.backends.numpy.thread_state`.
PLACE_THREADS: bool = _from_environment(Literal["1", "0"], "GRADCORE_PLACE_THREADS") == "1"

#: The compiled kernels to use: those built on this machine, or else those of the package (``1``: and warn if there
#: are none); none; only those built on this machine; or only those of the package.
COMPILED: str = _from_environment(Literal["auto", "0", "1", "machine", "package"], "GRADCORE_COMPILED")
#: Whether compiled programs are translated to C++: in a background thread, during the capture, or not at all.
COMPILE_CPP: str = _from_environment(Literal["background", "wait", "0"], "GRADCORE_COMPILE_CPP")

#: The largest number of programs of a compiled function; whether to raise an error where it needs more, and where it
#: needs a second one; and whether sizes that change become symbolic by default.
COMPILE_LIMIT: int = 8
COMPILE_LIMIT_FAILS: bool = False
COMPILE_ONCE: bool = False
COMPILE_DYNAMIC: bool = True

#: Compare every n-th call of a compiled function with eager execution; 0 for none.
COMPILE_VERIFY: int = _count_from_environment("GRADCORE_COMPILE_VERIFY")

_traceback: Traceback = _from_environment(Traceback, "GRADCORE_TRACEBACK")


def get_traceback() -> Traceback:
    """Return the extent of tracebacks; see `set_traceback`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_traceback()
    'short'
    """
    return _traceback


def set_traceback(extent: Traceback) -> None:
    """Choose how much of gradcore itself the tracebacks of errors show.

    The environment variable ``GRADCORE_TRACEBACK`` sets the choice at import.

    Parameters
    ----------
    extent : {'short', 'full'}
        ``'short'`` (the default) shows your own lines, the line of gradcore where the error was raised and, in a
        module of `gradcore.nn`, the line of its ``forward``. ``'full'`` shows every call between them: for bug reports,
        and for work on gradcore.

    Raises
    ------
    ValueError
        If `extent` is none of the two.

    Examples
    --------
    >>> import traceback
    >>> import gradcore
    >>> def calls():
    ...     try:
    ...         gradcore.ones(2, 3) @ gradcore.ones(2, 3)
    ...     except RuntimeError as error:
    ...         return len(traceback.extract_tb(error.__traceback__))
    >>> calls()
    2
    >>> gradcore.set_traceback("full")
    >>> calls() > 5
    True
    >>> gradcore.set_traceback("short")
    """
    global _traceback
    _traceback = _check_choice(Traceback, extent, "the extent of tracebacks")


def cuda_fallback() -> Fallback:
    """Return the policy for ``device='cuda'`` where CUDA cannot be used.

    Returns
    -------
    str
        ``'warn'`` (use the CPU and warn once), ``'silent'`` (use the CPU) or ``'error'`` (raise).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda_fallback()
    'warn'
    """
    return _cuda_fallback


def set_cuda_fallback(policy: Fallback) -> None:
    """Choose what happens when ``device='cuda'`` is asked for and CUDA cannot be used.

    The environment variable ``GRADCORE_CUDA_FALLBACK`` sets the policy at import.

    Parameters
    ----------
    policy : {'warn', 'error', 'silent'}
        Use the CPU and warn once, raise a ``RuntimeError``, or use the CPU without a warning.

    Raises
    ------
    ValueError
        If `policy` is none of the three.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.set_cuda_fallback("silent")
    >>> gradcore.cuda_fallback()
    'silent'
    >>> gradcore.set_cuda_fallback("warn")
    """
    global _cuda_fallback
    _cuda_fallback = _check_choice(Fallback, policy, "the CUDA fallback policy")


def history_loss() -> HistoryLoss:
    """Return the policy for conversions that drop the history of a tensor that requires grad.

    Returns
    -------
    str
        ``'default'``, ``'error'`` or ``'warn'``; see `set_history_loss`.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.history_loss()
    'default'
    """
    return _history_loss


def set_history_loss(policy: HistoryLoss) -> None:
    """Choose whether conversions that drop the history of a tensor that requires grad raise or warn.

    This concerns the conversions for which PyTorch only warns. ``t.item()``, ``t.tolist()``, ``t.detach()``, printing
    and formatting leave the graph on purpose, so they neither raise nor warn. The same holds for everything inside
    `gradcore.no_grad`. The environment variable ``GRADCORE_HISTORY_LOSS`` sets the policy at import.

    Parameters
    ----------
    policy : {'default', 'error', 'warn'}
        ``'default'`` raises for a tensor written into an element of an array (``array[i] = t``), and for a tensor
        created from a sequence of tensors (``gradcore.tensor([t0, t1])``). It warns for ``float(t)``, ``complex(t)``,
        functions that call these (``math.sin(t)``, ``array.fill(t)``), ``gradcore.tensor(t)``, and tensors in
        containers that are arguments of a custom `autograd.Function`. ``'error'`` always raises a ``RuntimeError``,
        ``'warn'`` always warns.

    Raises
    ------
    ValueError
        If `policy` is none of the three.

    Examples
    --------
    >>> import gradcore
    >>> loss = gradcore.tensor(2.0, requires_grad=True)
    >>> gradcore.set_history_loss("error")
    >>> float(loss)
    Traceback (most recent call last):
        ...
    RuntimeError: Converting a tensor with requires_grad=True to a scalar loses its history. ...
    >>> loss.item()
    2.0
    >>> gradcore.set_history_loss("default")
    """
    global _history_loss
    _history_loss = _check_choice(HistoryLoss, policy, "the policy of lost histories")


def index_checks() -> IndexChecks:
    """Return when an index that is out of bounds raises on CUDA.

    Returns
    -------
    str
        ``'later'``, ``'now'`` or ``'off'``; see `set_index_checks`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.index_checks()
    'later'
    """
    return _index_checks


def set_index_checks(policy: IndexChecks) -> None:
    """Choose when an index that is out of bounds raises on CUDA (on the CPU it always raises immediately).

    The environment variable ``GRADCORE_CUDA_INDEX_CHECKS`` sets the policy at import.

    Parameters
    ----------
    policy : {'later', 'now', 'off'}
        ``'later'`` (the default) checks on the device and raises when the host next waits for it, for example when a
        result is read; the operation itself has then used the index modulo the size. ``'now'`` waits for the device
        at every operation with indices, and raises there. ``'off'`` checks nothing.

    Raises
    ------
    ValueError
        If `policy` is none of the three.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.cuda.set_index_checks("now")
    >>> gradcore.cuda.index_checks()
    'now'
    >>> gradcore.cuda.set_index_checks("later")
    """
    global _index_checks
    _index_checks = _check_choice(IndexChecks, policy, "the policy of index checks")


def fusion() -> bool:
    """Return whether elementwise formulas run as one generated kernel each on CUDA; see `set_fusion`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.cuda.fusion()
    True
    """
    return _fusion


def set_fusion(enabled: bool) -> None:
    """Choose whether elementwise formulas run as one generated kernel each on CUDA.

    With fusion, the body of an operation such as ``gelu``, and all of its derivatives, are one kernel each, which is
    compiled when it is first used. Without it, each function in them is a kernel of CuPy, apart from formulas of
    complex numbers, some of whose functions CuPy computes otherwise than NumPy. Both compute the same. The environment
    variable ``GRADCORE_FUSION`` (``on`` or ``off``) sets the choice at import.

    Parameters
    ----------
    enabled : bool
        Whether to fuse; the default is True.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.cuda.set_fusion(False)
    >>> gradcore.cuda.fusion()
    False
    >>> gradcore.cuda.set_fusion(True)
    """
    global _fusion
    _fusion = bool(enabled)


_precision: Precision = "highest"


def get_float32_matmul_precision() -> Precision:
    """Return the precision of float32 matrix products on CUDA; see `set_float32_matmul_precision`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_float32_matmul_precision()
    'highest'
    """
    return _precision


def set_float32_matmul_precision(precision: Precision) -> None:
    """Choose how precise products of float32 matrices are on CUDA. On the CPU nothing changes.

    Parameters
    ----------
    precision : {'highest', 'high', 'medium'}
        ``'highest'`` (the default) multiplies float32 numbers. ``'high'`` and ``'medium'`` may round the factors to
        TensorFloat32, which has 10 bits after the point instead of 23, and sum in float32. This is several times as
        fast on GPUs of compute capability 8.0 and higher.

    Raises
    ------
    ValueError
        If `precision` is none of the three.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.set_float32_matmul_precision("high")
    >>> gradcore.get_float32_matmul_precision()
    'high'
    >>> gradcore.set_float32_matmul_precision("highest")
    """
    global _precision
    _precision = _check_choice(Precision, precision, "the precision of products of float32 matrices")
