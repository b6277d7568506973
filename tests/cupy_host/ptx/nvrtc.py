"""NVRTC of NVIDIA's wheel, without a driver: CUDA sources as PTX."""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["CompileError", "compile_source", "library", "version"]


class CompileError(Exception):
    """What the compiler says of a source that is none."""


def library() -> Path | None:
    """Return the path of NVRTC's library, or None if there is none.

    It is looked for in the rig's folder, then among this Python's packages.
    The variable `GRADCORE_TEST_NVRTC` names another one.
    """
    import sysconfig

    if chosen := os.environ.get("GRADCORE_TEST_NVRTC"):
        return Path(chosen)
    home = (
        os.environ.get("CUPY_HOST_HOME")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cupy-host"
    )
    for folder in (f"{home}/nvrtc", sysconfig.get_paths()["purelib"]):
        found = sorted(glob.glob(f"{folder}/nvidia/**/libnvrtc.so.1[23]", recursive=True))
        if found:
            return Path(found[-1])
    return None


@functools.cache
def _nvrtc() -> Any:
    path = library()
    if path is None:
        raise FileNotFoundError("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
    # NVRTC opens its built-in functions by their name alone; of CUDA 13.0 it does not look beside itself.
    for beside in path.parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(beside))
    return ctypes.CDLL(str(path))


def version() -> tuple[str, int, int]:
    """Return where the library is, and the numbers of its version."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return str(library()), major.value, minor.value


def _check(code: int) -> None:
    if code:
        nvrtc = _nvrtc()
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompileError(nvrtc.nvrtcGetErrorString(code).decode())


def compile_source(
    source: str,
    options: Sequence[str],
    headers: Mapping[str, str] | None = None,
    expressions: Sequence[str] = (),
    strict: bool = False,
) -> tuple[str, dict[str, str]]:
    """Compile a source with NVRTC, and return the PTX and the mangled names of `expressions`.

    Parameters
    ----------
    source : str
    options : sequence of str
        Those of NVRTC. An architecture ``sm_90`` becomes ``compute_90``: it is the same PTX.
    headers : mapping of str to str, optional
        Texts of what the source includes, by name.
    expressions : sequence of str, optional
        Kernels that are not ``extern "C"``.
    strict : bool, optional
        Raise an error for warnings, too.
    """
    nvrtc, program, headers = _nvrtc(), ctypes.c_void_p(), headers or {}
    texts, names, given = (
        (ctypes.c_char_p * len(x))(*(s.encode() for s in x))
        for x in (list(headers.values()), list(headers), [o.replace("=sm_", "=compute_") for o in options])
    )
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", len(headers), texts, names))
    try:
        for expression in expressions:
            _check(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
        code = nvrtc.nvrtcCompileProgram(program, len(given), given)
        if code or strict:
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            if code or log.strip():
                raise CompileError(log or str(code))
        lowered = {}
        for expression in expressions:
            name = ctypes.c_char_p()
            _check(nvrtc.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)))
            lowered[expression] = (name.value or b"").decode()
        return _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program), lowered
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size_of: Any, read: Any, program: Any) -> str:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(read(program, buffer))
    return buffer.value.decode()
