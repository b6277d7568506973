"""Lowering of convolutions, by kernels of the compiled library."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore.backends.codegen.cpp import C_TYPES
from gradcore.backends.compiled.convolution import geometry_of
from gradcore.backends.portable.convolution import ConvSettings
from gradcore.backends.registry import CPU
from gradcore.compiler.program.program import Call
from gradcore.compiler.targets.native.steps import Kernel, Rules, Step, Unsupported, View
from gradcore.core.size import contiguous_strides

__all__ = ["Images"]


class Images(Rules):
    """Lowering rules for convolutions."""

    def _lower_conv(self, call: Call, results: list[View]) -> list[Step]:
        x, weight, *settings = call.args
        (out,), a, w = results, self._view(x), self._view(weight)
        settings = settings[call.name.endswith("_output") :]
        geometry = _geometry([out, a, w], a, w.shape, out, _pack_settings(settings))
        text = f"correlate<{C_TYPES[out.dtype.name]}>({{0}}, {{1}}, {{2}}, {geometry}, {_table(_steps(out))}, threads)"
        return [Kernel(text, [out], [a, w], lasting=True)]

    _lower_conv_output = _lower_conv

    def _lower_conv_input(self, call: Call, results: list[View]) -> list[Step]:
        grad, weight, _, *rest = call.args
        settings, out = _pack_settings(rest), results[0]
        if any(s != 1 for s in settings.stride):
            raise Unsupported("the stride")
        g, w, groups = self._view(grad), self._view(weight), settings.groups
        outputs, channels, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
        reaches = [(k - 1) * d for k, d in zip(kernel, settings.dilation, strict=True)]
        pads = [reach - p for reach, p in zip(reaches, settings.padding, strict=True)]
        back = ConvSettings(settings.stride, pads, settings.dilation, groups)
        geometry = _geometry([out, g, w], g, (groups * channels, outputs, *kernel), out, back)
        numbers = f"{geometry}, {_table(_steps(out))}, {groups}, {outputs}, {channels}, {prod(kernel)}, threads"
        return [Kernel(f"correlate_back<{C_TYPES[out.dtype.name]}>({{0}}, {{1}}, {{2}}, {numbers})", [out], [g, w],
                       lasting=True)]  # fmt: skip

    def _lower_conv_weight(self, call: Call, results: list[View]) -> list[Step]:
        x, grad, _, *settings = call.args
        out, a, g = results[0], self._view(x), self._view(grad)
        geometry = _geometry([out, a, g], a, out.shape, g, _pack_settings(settings))
        text = f"sum_windows<{C_TYPES[out.dtype.name]}>({{0}}, {{1}}, {{2}}, {geometry}, threads)"
        return [Kernel(text, [out], [a, g], lasting=True)]


def _pack_settings(settings: Sequence[Any]) -> ConvSettings:
    """Return settings as one object; `settings` is a sequence with this object, or with its fields."""
    return settings[0] if len(settings) == 1 else ConvSettings(*settings)


def _geometry(views: list[View], x: View, weight: tuple[int, ...], positions: View, settings: ConvSettings) -> str:
    """Return the C++ table of a convolution that reads `x` and writes `positions`; raise if there is no kernel."""
    if x.dtype.char not in "fd" or not all(v.size and v.is_contiguous for v in views):
        raise Unsupported("the arrays")
    if getattr(CPU.backend, "library", None) is None or any(v.dtype != x.dtype for v in views):
        raise Unsupported("there is no kernel")
    numbers = geometry_of(x.dtype.char, x.shape, weight, positions.shape[2:], settings)
    if numbers is None:
        raise Unsupported("the shapes")
    return _table(numbers)


def _table(numbers: Sequence[int]) -> str:
    return f"table_of<{', '.join(map(str, numbers))}>"


def _steps(out: View) -> tuple[int, ...]:
    """Return the strides of an output in elements: by image, by channel, and along three dims."""
    steps = [s // out.dtype.itemsize for s in contiguous_strides(out.shape, out.dtype.itemsize)]
    return (*steps[:2], *(0,) * (5 - len(steps)), *steps[2:])
