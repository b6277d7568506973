"""Kernels from CUDA source, with their types, shapes, grid and block, and their launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.cupy.kernels import CudaKernels
from gradcore.backends.vmap.array import BatchedArray, physical
from gradcore.backends.vmap.backend import BatchedBackend
from gradcore.backends.vmap.calls import as_batched
from gradcore.kernels.signatures import Parameter, Signature

__all__ = ["RawKernel"]

_C_NAMES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long", "uint8": "unsigned char",
            "complex64": "complex<float>", "complex128": "complex<double>"}  # fmt: skip
_SIZES = ("n", "size", "count")


class RawKernel:
    """A kernel as a function of arrays. On CUDA it is launched, elsewhere its reference is called.

    Parameters
    ----------
    signature : Signature
    reference : callable or None
        ``(*inputs, *settings) -> output``, or a tuple of outputs, for the arrays of any library.
    out : callable, dict or None
        Function that returns the shape of the output from inputs and settings by name, or a dict with one for each
        output. None stands for the shape of the first input.
    sizes : dict, optional
        Functions that compute integer parameters from inputs and settings. A parameter `n`, `size` or `count` is by
        default the number of elements of the first output.
    threads : callable or None
        Function that returns the number of threads. None stands for the number of elements of the first output.
    block : int
        Number of threads of a block.
    options : sequence of str
        Options of the compiler.
    """

    def __init__(
        self,
        signature: Signature,
        reference: Callable[..., Any] | None,
        out: Any = None,
        sizes: Mapping[str, Callable[..., int]] | None = None,
        threads: Callable[..., int] | None = None,
        block: int = 256,
        options: Sequence[str] = (),
    ) -> None:
        if type(block) is not int or not 0 < block <= 1024:
            raise ValueError(f"{signature.name}: block= is a number of threads from 1 to 1024, but got {block!r}")
        self.signature, self.reference, self.out = signature, reference, out
        self.threads, self.block, self.options = threads, block, tuple(options)
        self.inputs, self.outputs = signature.of("input"), signature.of("output")
        integers = {p.name for p in signature.of("setting") if p.dtype.lstrip("u").startswith("int")}
        self.sizes: dict[str, Callable[..., int] | None] = {n: None for n in _SIZES if n in integers}
        self.sizes.update(sizes or {})
        unknown = set(self.sizes) - integers
        if unknown:
            raise ValueError(f"sizes of {self.name}: no integer parameter named {', '.join(sorted(unknown))}")
        self.settings = tuple(p for p in signature.of("setting") if p.name not in self.sizes)

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.signature.name

    def __call__(self, K: Any, *values: Any) -> Any:
        """Return the outputs for inputs and settings, computed by the backend `K`."""
        if isinstance(K, BatchedBackend):
            return self._run_samples(K, values)
        if isinstance(K, CudaKernels):
            results = self._launch(K, values)
        elif K.type == "meta":
            shapes, dtypes = self._results(values)
            results = tuple(K.xp.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
        else:
            return self._reference_result(values)
        return results if len(results) > 1 else results[0]

    def _run_samples(self, K: BatchedBackend, values: tuple[Any, ...]) -> Any:
        """Return the outputs for batched arrays, with one call per sample."""
        arrays = {i: physical(as_batched(v, K.level), K.level) for i, v in enumerate(values) if i < len(self.inputs)}
        count = len(next(iter(arrays.values())))
        results = [
            self(K.inner, *(arrays[i][k] if i in arrays else v for i, v in enumerate(values))) for k in range(count)
        ]
        if len(self.outputs) == 1:
            return BatchedArray(K.inner.xp.stack(results), K.level)
        return tuple(BatchedArray(K.inner.xp.stack(each), K.level) for each in zip(*results, strict=True))

    def _reference_result(self, values: tuple[Any, ...]) -> Any:
        if self.reference is None:
            raise RuntimeError(
                f"the kernel {self.name!r} runs on CUDA only: give from_kernel a reference for other "
                "devices, reference=, a function of NumPy arrays"
            )
        shapes, dtypes = self._results(values)
        returned = self.reference(*values)
        results = returned if len(self.outputs) > 1 else (returned,)
        if not isinstance(results, (tuple, list)) or len(results) != len(shapes):
            raise RuntimeError(f"{self.name}: the reference has to return {len(shapes)} outputs, as the kernel does")
        checked = tuple(map(self._as_output, self.outputs, map(np.asarray, results), shapes, dtypes))
        return checked if len(checked) > 1 else checked[0]

    def _as_output(self, p: Parameter, array: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Check the shape of an output of the reference, and return it in the kernel's dtype."""
        if array.shape != shape:
            raise RuntimeError(
                f"{self.name}: the reference returned {p.name} of shape {list(array.shape)}, but the kernel's has the "
                f"shape {list(shape)}, which out= gives"
            )
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise TypeError(f"{self.name}: the reference returned {p.name} as {array.dtype}, the kernel's is {dtype}")
        return array.astype(dtype, copy=False)

    # -- types and shapes ----------------------------------------------------------------------------------------

    def _results(self, values: tuple[Any, ...]) -> tuple[list[tuple[int, ...]], list[Any]]:
        """Return the shapes and the dtypes of the outputs."""
        named_values = self._known(values)
        template = self._template(values)
        shapes = []
        for p in self.outputs:
            rule = self.out.get(p.name) if isinstance(self.out, Mapping) else self.out
            shape = values[0].shape if rule is None else _call_rule(rule, named_values)
            shapes.append((shape,) if isinstance(shape, int) else tuple(shape))
        return shapes, [np.dtype(template if p.dtype == "T" else p.dtype) for p in self.outputs]

    def _known(self, values: tuple[Any, ...]) -> dict[str, Any]:
        names = [p.name for p in (*self.inputs, *self.settings)]
        return dict(zip(names, values, strict=True))

    def _template(self, values: tuple[Any, ...]) -> Any:
        """Return the dtype that the inputs determine for the template's type; raise if an input has a wrong dtype."""
        template = None
        for p, array in zip(self.inputs, values, strict=False):
            expected = p.dtype if p.dtype != "T" else template
            if expected is not None and array.dtype != np.dtype(expected):
                raise TypeError(
                    f"{self.name}: expected {p.name} to be {expected}, as the kernel declares it, but got {array.dtype}"
                )
            if p.dtype == "T":
                template = array.dtype
        if template is not None and template.name not in _C_NAMES:
            raise TypeError(f"{self.name}: the kernel's template cannot be of {template}")
        return template

    # -- launching -----------------------------------------------------------------------------------------------

    def _launch(self, K: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        shapes, dtypes = self._results(values)
        outputs = tuple(K.xp.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
        named_values = self._known(values)
        elements = prod(shapes[0])
        threads = elements if self.threads is None else int(_call_rule(self.threads, named_values))
        if not threads:
            return outputs
        template = self._template(values)
        arguments = []
        of_outputs = {p.name: out for p, out in zip(self.outputs, outputs, strict=True)}
        for p in self.signature.parameters:
            if p.role == "output":
                arguments.append(of_outputs[p.name])
            elif p.role == "input":
                arguments.append(K.xp.ascontiguousarray(named_values[p.name]))
            else:
                arguments.append(self._setting(p, named_values, elements, template))
        kernel = self._compile(K, template)
        kernel((-(-threads // self.block),), (self.block,), tuple(arguments))
        return outputs

    def _setting(self, p: Parameter, known: dict[str, Any], elements: int, template: Any) -> Any:
        """Return the value of a number parameter of the kernel, in the C type of that parameter."""
        if p.name in self.sizes:
            rule = self.sizes[p.name]
            value: Any = elements if rule is None else _call_rule(rule, known)
        else:
            value = known[p.name]
        kind = np.dtype(template if p.dtype == "T" else p.dtype)
        try:
            return kind.type(value)
        except OverflowError:
            raise OverflowError(f"{self.name}: {p.name} = {value} does not fit {kind}") from None

    def _compile(self, K: Any, template: Any) -> Callable[..., Any]:
        """Compile the kernel for a template type, or return it from the cache."""
        options = ("-std=c++17", *self.options)
        if template is not None:
            options += (f"-DGRADCORE_T={_C_NAMES[template.name]}",)
        key = self.signature.source, options
        modules = K.user_modules
        if key not in modules:
            modules[key] = K.xp.RawModule(code=self.signature.source, options=options).get_function(self.name)
        return modules[key]  # type: ignore[no-any-return]


def _call_rule(rule: Callable[..., Any], known: dict[str, Any]) -> Any:
    """Call a rule, such as that of the output's shape, with the inputs and settings that its parameters name."""
    code = rule.__code__
    return rule(*[known[name] for name in code.co_varnames[: code.co_argcount]])
