"""The instruction sets for which a wheel carries the compiled library, and the choice of one at load time."""

from __future__ import annotations

import os
import platform
import sys

from gradcore.core.typing import NamedTuple

__all__ = ["FOLDER", "REASON", "VARIANTS", "Variant", "choose_variant", "variants_of_machine"]

#: Folder of the package's libraries, which are named by variant and by the digest of their sources.
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "variants")
#: File with the reason why there are no libraries, if the installation could not build them.
REASON = os.path.join(FOLDER, "reason.txt")


class Variant(NamedTuple):
    """Compiler options for an instruction set.

    Attributes
    ----------
    name : str
        Its name, a part of the library's.
    machines : tuple of str
        Architectures, as `platform.machine` spells them.
    flags : tuple of str
        Options of GCC and Clang.
    features : tuple of str
        The CPU features that it needs, in NumPy's words.
    groups : tuple of str
        The names by which NumPy 2.4 and newer are told not to use them; older versions do not know these.
    """

    name: str
    machines: tuple[str, ...]
    flags: tuple[str, ...]
    features: tuple[str, ...]
    groups: tuple[str, ...] = ()


_X86, _ARM = ("x86_64", "amd64", "AMD64"), ("aarch64", "arm64")
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = ("-mavx512f", "-mavx512cd", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512")

#: Variants of instruction sets, the best first.
VARIANTS = (
    Variant("avx512", _X86, (*_AVX2, *_AVX512), ("AVX512_SKX", "AVX2", "FMA3", "F16C"), ("X86_V3", "X86_V4")),
    Variant("avx2", _X86, _AVX2, ("AVX2", "FMA3", "F16C"), ("X86_V3",)),
    Variant("baseline", _X86, ("-msse4.2", "-mpopcnt"), ("SSE42", "POPCNT")),
    Variant("neon", _ARM, (), ()),
)


def variants_of_machine() -> list[Variant]:
    """Return the variants for this machine's architecture."""
    return [variant for variant in VARIANTS if platform.machine() in variant.machines]


def choose_variant() -> Variant | None:
    """Return the best variant that this CPU runs, or None.

    As for NumPy, ``NPY_DISABLE_CPU_FEATURES`` disables CPU features.
    """
    umath = sys.modules.get("numpy._core._multiarray_umath")
    features = getattr(umath, "__cpu_features__", {})
    for variant in variants_of_machine():
        allowed = all(features.get(name, True) for name in variant.groups)
        if allowed and all(features.get(name) for name in variant.features):
            return variant
    return None
