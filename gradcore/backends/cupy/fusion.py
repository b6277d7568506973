"""Fused elementwise kernels on CUDA: a forward body, or all gradients of an operation, in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gradcore.backends.codegen.launch import Fusion
from gradcore.backends.cupy.kernels import CudaKernels
from gradcore.core import config
from gradcore.core.typing import AnyArray

__all__ = ["CudaFusion", "fused_body"]

_FLOAT32 = np.dtype("float32")

#: The dtypes of the results of a formula with one result, if they are those that it computes.
_UNCHANGED = (None,)

#: Names of operands of formulas without named ones.
_NAMES = tuple(f"x{i}" for i in range(64))


class CudaFusion(CudaKernels):
    """Elementwise operations as generated kernels. Formulas that cannot be fused run as on every backend."""

    xp: Any
    array_type: type
    bodies: dict[str, Callable[..., Any]]
    elementwise: dict[str, tuple[str, ...]]
    address: Callable[[Any], int]

    @property
    def has_fused_gradients(self) -> bool:
        """Whether elementwise formulas are compiled to kernels, at least for some dtypes."""
        return "elementwise" not in config.CUDA_KERNELS_LEFT_OUT

    @property
    def supports_fusion(self) -> bool:
        """Whether elementwise formulas are compiled to kernels; see `gradcore.cuda.set_fusion`."""
        return config.fusion() and "elementwise" not in config.CUDA_KERNELS_LEFT_OUT

    def generates(self, operands: Iterable[Any]) -> bool:
        """Return whether a formula with these operands is compiled to a kernel.

        Complex formulas are compiled even if fusion is off. CuPy's complex quotients are NaN where a divisor is
        infinite or its square overflows, and some of its complex functions differ from NumPy's.
        """
        return self.has_fused_gradients and (config.fusion() or any(map(_is_complex, operands)))

    @property
    def converts_operands(self) -> bool:
        """Whether `fused_forward` converts operands to other dtypes."""
        return self.supports_fusion

    @cached_property
    def fusion(self) -> Fusion:
        """Cache of traced formulas and compiled kernels."""
        return Fusion(self.array_type, self.bodies, self.compile_kernel, self.address, self.allocate, self.as_argument)

    def evaluate_formula(self, name: str, formula: Callable[..., Any], stored: Any = None, /, **operands: Any) -> Any:
        """Return ``formula(F, *operands)``, converted to dtype `stored` if that is not None.

        One kernel computes it if fusion applies.
        """
        values = tuple(operands.values())
        if self.generates(values):
            results = self.fusion.run(
                name, formula, lambda F, *xs: (formula(F, *xs),), operands, values, None, (stored,)
            )
            if results is not None:
                return results[0]
        result = formula(self, *values)
        return result if stored is None else result.astype(stored, copy=False)

    def evaluate_step(self, formula: Callable[..., Any], *operands: Any) -> Any:
        """Return the results of ``formula(F, *operands)``. One kernel computes them if fusion applies."""
        if self.generates(operands):
            result = self.fusion.run(formula.__name__.strip("_"), formula, formula, _NAMES, operands)
            if result is not None:
                return result
        return formula(self, *operands)

    def rounded_once(self, name: str, *args: Any) -> Any:
        """Return the result of an elementwise body, as one kernel if fusion applies.

        float16 and bfloat16 are computed in float32 and rounded once.
        """
        dtype, body = args[0].dtype, self.bodies[name]
        compute_dtype = _FLOAT32 if dtype.itemsize == 2 else dtype
        compute = tuple([compute_dtype if isinstance(x, self.array_type) else None for x in args])
        if self.generates(args):
            results = self.fusion.run(name, name, lambda F, *xs: (body(F, *xs),), _NAMES, args, compute, (dtype,))
            if results is not None:
                return results[0]
        args = tuple(x if to is None else x.astype(to, copy=False) for x, to in zip(args, compute, strict=True))
        return body(self, *args).astype(dtype, copy=False)

    # -- forward ---------------------------------------------------------------------------------------------

    def kernel_of(self, name: str) -> Callable[..., Any]:
        """Return the kernel of the operation `name`, which is fused if its body has several steps."""
        plain: Callable[..., Any] = getattr(self, name)
        if name not in self.elementwise:
            return plain
        return self._generate_kernel(name, getattr(plain, "plain", plain), self.generates)

    def complex_kernel(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel that is generated for complex operands, and calls `plain` for others."""
        return self._generate_kernel(name, plain, self._generates_complex)

    def _generates_complex(self, operands: Iterable[Any]) -> bool:
        return self.has_fused_gradients and any(map(_is_complex, operands))

    def _generate_kernel(
        self, name: str, plain: Callable[..., Any], generates: Callable[[Iterable[Any]], bool]
    ) -> Callable[..., Any]:
        """Return a kernel that is generated for operands that satisfy `generates`, and calls `plain` for others.

        Dtypes for which fusing gains nothing are remembered. The kernel takes an array `out` for its result if
        `plain` does.
        """
        array_type, unfused = self.array_type, set[Any]()
        names, formula = self.elementwise.get(name, ("x", "y")), _call(name)

        def kernel(*args: AnyArray, out: AnyArray = None) -> AnyArray:
            try:
                kinds = tuple([x.dtype.num for x in args])  # Numbers are hashed faster than dtypes.
            except AttributeError:  # a number of Python, or None
                kinds = None
            if kinds in unfused:
                return plain(*args) if out is None else plain(*args, out=out)
            results = self.fusion.run(name, name, formula, names, args, None, _UNCHANGED) if generates(args) else None
            if results is None:
                # Whether an operand is an array or a NumPy scalar makes no difference, if one of them is an array.
                if kinds is not None and self.supports_fusion and any(isinstance(x, array_type) for x in args):
                    unfused.add(kinds)
                return plain(*args) if out is None else plain(*args, out=out)
            if out is None:
                return results[0]
            out[...] = results[0]
            return out

        if hasattr(plain, "nout"):
            kernel.takes_out = True  # type: ignore[attr-defined]
        kernel.plain = plain  # type: ignore[attr-defined]
        return kernel

    def fused_forward(self, name: str, args: Sequence[Any], compute: Any = None, stored: Any = None) -> Any:
        """Return the result of an elementwise operation, or None if it is not fused.

        Parameters
        ----------
        name : str
            The kernel's name in the table.
        args : sequence
            Arrays, of any dtype, and settings.
        compute : sequence of dtype or None, optional
            The dtypes that they are converted to first.
        stored : dtype, optional
            The dtype of the result; by default that of the computation.
        """
        names, stores = self.elementwise.get(name, ("x", "y")), (stored,)
        conversions = None if compute is None else tuple(compute)
        result = self.fusion.run(name, name, _call(name), names, args, conversions, stores)
        return None if result is None else result[0]

    # -- backward --------------------------------------------------------------------------------------------

    def fused_gradients(
        self,
        name: str,
        formulas: Sequence[Any],
        grad: Any,
        values: dict[str, Any],
        conjugated: bool,
        stored: Sequence[Any],
    ) -> list[Any] | None:
        """Return the gradients by several formulas of an operation, or None if they are not fused.

        Parameters
        ----------
        name : str
            The operation's name.
        formulas : sequence of Formula
            The formulas: differentials, linear in the gradient, or vector-Jacobian products.
        grad : array
            The upstream gradient.
        values : dict
            The values that the formulas read, by name.
        conjugated : bool
            Whether the formulas are differentials.
        stored : sequence of dtype or None
            The dtypes of the gradients.
        """

        def formula(F: Any, t: Any, *read: Any) -> list[Any]:
            named_values = dict(zip(values, read, strict=True))
            if not conjugated:
                return [each.function(F, t, *[named_values[n] for n in each.names]) for each in formulas]
            return [F.conj(each.function(F, F.conj(t), *[named_values[n] for n in each.names])) for each in formulas]

        operands = grad, *values.values()
        if not self.generates(operands):
            return None
        functions = tuple([each.function for each in formulas])
        return self.fusion.run(f"{name}_backward", functions, formula, ("t", *values), operands, None, tuple(stored))


def fused_body(name: str) -> Callable[..., Any]:
    """Return the method that computes the body of an elementwise composite operation as one kernel."""

    def kernel(self: CudaFusion, *operands: Any) -> Any:
        return self.evaluate_formula(name, self.bodies[name], **dict(zip(_NAMES, operands, strict=False)))

    return kernel


def _call(name: str) -> Callable[..., tuple[Any]]:
    """Return the formula that calls the elementwise function `name`."""

    def formula(F: Any, *values: Any) -> tuple[Any]:
        return (getattr(F, name)(*values),)

    return formula


def _is_complex(operand: Any) -> bool:
    """Return whether an operand of a formula is a complex number, or an array of them."""
    dtype = getattr(operand, "dtype", None)
    return operand.__class__ is complex if dtype is None else dtype.kind == "c"
