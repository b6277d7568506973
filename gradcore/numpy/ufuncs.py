"""NumPy's universal functions on tensors: gradcore's operations with NumPy's dtypes, broadcasting and methods."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axes_of, axis_of, cast, fill_masked, numpy_dtype, promote, tensor_of, write_out
from gradcore.ops.declare.table import OPS
from gradcore.tensor import Tensor

__all__ = ["SPECIAL", "UFUNCS", "Ufunc", "find_ufunc", "is_scipys", "known"]

_WEAK = (int, float, complex)
_NUMBERS = (bool, *_WEAK)


def _parts_of_float(x: Tensor) -> tuple[Tensor, Tensor]:
    return F.frac(x), F.trunc(x)


def _divmod(x: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    return F.floor_divide(x, y), F.remainder(x, y)


def _bits(x: Tensor) -> AnyTensor:
    """Return the number of bits that are set in the absolute value of each element."""
    x = F.abs(x) if x._dtype.is_signed else x
    as_int64 = F.to(x, dtypes.int64)
    return fold(F.add, (F.bitwise_and(F.bitwise_right_shift(as_int64, i), 1) for i in range(8 * x._dtype.itemsize)))


def _sign(x: Tensor) -> AnyTensor:
    return (
        F.sgn(x)
        if x._dtype.is_complex
        else F.where(F.isnan(x), x, F.sign(x))
        if x._dtype.is_floating_point
        else F.sign(x)
    )


def _reciprocal(x: Tensor) -> AnyTensor:
    return F.reciprocal(x) if x._dtype.is_differentiable else F.div(F.ones_like(x), x, rounding_mode="trunc")


def _spacing(x: Tensor) -> AnyTensor:
    return F.copysign(F.abs(F.nextafter(x, F.copysign(F.full_like(x, math.inf), x)) - x), x)


def _check_core(name: str, signature: str, a: Tensor, b: Tensor) -> None:
    """Raise NumPy's errors for operands without the core dimensions of a signature, or with other sizes.

    The last core dimension of `a` and the first one of `b` have the same size.
    """
    counts = [core.count(",") + 1 for core in signature.split("->")[0].split("),(")]
    for i, (x, count) in enumerate(zip((a, b), counts, strict=True)):
        if x.ndim < count:
            raise ValueError(
                f"{name}: Input operand {i} does not have enough dimensions (has {x.ndim}, gufunc core with signature "
                f"{signature} requires {count})"
            )
    n, m = a.shape[-1], b.shape[-counts[1]]
    if n != m:
        raise ValueError(
            f"{name}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature {signature} (size "
            f"{m} is different from {n})"
        )


def _check_exponent(y: Any) -> None:
    """Raise NumPy's error for integers to be raised to a negative power, as the result would not be an integer."""
    if F.holds_anywhere(y < 0) if isinstance(y, Tensor) else y < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")


def _widen_operands(values: tuple[int | Tensor, ...], integers: Tensor) -> list[AnyTensor]:
    """Return integers and a Python integer in a dtype that holds both, where an operation would wrap it around."""
    (number,) = (x for x in values if not isinstance(x, Tensor))
    dtype = dtypes.int64 if integers._dtype is dtypes.bool_ else integers._dtype
    limits = dtypes.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        fits = dtype is not dtypes.uint64 and -(2**63) <= number < 2**63
        dtype = dtypes.int64 if fits else dtypes.float64
    filled = F.full((), float(number) if dtype is dtypes.float64 else number, dtype=dtype, device=integers._device.real)
    return [cast(x, dtype) if isinstance(x, Tensor) else filled for x in values]


def _vecdot(a: Tensor, b: Tensor) -> AnyTensor:
    _check_core("vecdot", "(n),(n)->()", a, b)
    if a._dtype.is_differentiable:
        return F.linalg_vecdot(a, b)
    return F.any(a & b, -1) if a._dtype is dtypes.bool_ else F.sum(a * b, -1, dtype=a._dtype)


def _matvec(a: Tensor, b: Tensor) -> AnyTensor:
    _check_core("matvec", "(m,n),(n)->(m)", a, b)
    return F.squeeze(F.matmul(a, F.unsqueeze(b, -1)), -1)


def _vecmat(a: Tensor, b: Tensor) -> AnyTensor:
    _check_core("vecmat", "(n),(n,m)->(m)", a, b)
    return F.squeeze(F.matmul(F.unsqueeze(F.conj(a), -2), b), -2)


#: Universal functions with derivatives: NumPy's name, and the operation where it has another name.
_SMOOTH: dict[str, Any] = {
    "absolute": "abs", "add": "add", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "cbrt": "cbrt", "conjugate": "conj",
    "copysign": "copysign", "cos": "cos", "cosh": "cosh", "deg2rad": "deg2rad", "degrees": "rad2deg",
    "divide": "div", "divmod": _divmod, "exp": "exp", "exp2": "exp2", "expm1": "expm1", "fabs": "abs",
    "float_power": "pow",
    "fmax": "fmax", "fmin": "fmin", "fmod": "fmod", "frexp": "frexp", "heaviside": "heaviside", "hypot": "hypot",
    "ldexp": "ldexp", "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2", "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2", "matmul": "matmul", "matvec": _matvec, "maximum": "maximum", "minimum": "minimum",
    "modf": _parts_of_float, "multiply": "mul", "negative": "neg", "positive": "positive", "power": "pow",
    "rad2deg": "rad2deg", "radians": "deg2rad", "reciprocal": _reciprocal, "remainder": "remainder", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "square": "square", "subtract": "sub", "tan": "tan", "tanh": "tanh",
    "vecdot": _vecdot, "vecmat": _vecmat,
}  # fmt: skip

#: Universal functions whose results have no derivative: integers, bools and step functions.
_CONSTANT: dict[str, Any] = {
    "bitwise_and": "bitwise_and", "bitwise_count": _bits, "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "ceil": "ceil", "equal": "eq", "floor": "floor", "floor_divide": "floor_divide", "gcd": "gcd", "greater": "gt",
    "greater_equal": "ge", "invert": "bitwise_not", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan",
    "lcm": "lcm", "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le", "logical_and": "logical_and",
    "logical_not": "logical_not", "logical_or": "logical_or", "logical_xor": "logical_xor", "nextafter": "nextafter",
    "not_equal": "ne", "right_shift": "bitwise_right_shift", "rint": "round", "sign": _sign, "signbit": "signbit",
    "spacing": _spacing, "trunc": "trunc",
}  # fmt: skip

#: Universal functions of scipy.special: SciPy's name, operation.
SPECIAL = {
    "digamma": "digamma", "entr": "entr", "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv",
    "expit": "sigmoid", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0", "i0e": "i0e",
    "i1": "i1", "i1e": "i1e", "j0": "bessel_j0", "j1": "bessel_j1", "k0": "modified_bessel_k0",
    "k0e": "scaled_modified_bessel_k0", "k1": "modified_bessel_k1", "k1e": "scaled_modified_bessel_k1",
    "log_expit": "logsigmoid", "log_ndtr": "log_ndtr", "logit": "logit", "ndtr": "ndtr", "ndtri": "ndtri",
    "psi": "digamma", "xlog1py": "xlog1py", "xlogy": "xlogy", "y0": "bessel_y0", "y1": "bessel_y1", "zeta": "zeta",
}  # fmt: skip


#: Functions that compare integers with any Python integer.
_COMPARISONS = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)


class Ufunc:
    """A universal function of tensors, with NumPy's signature and methods.

    Parameters
    ----------
    function : numpy.ufunc
        NumPy's function, which determines the dtypes to compute in.
    operation : str or callable
        The name of an operation of gradcore, or a function of tensors with these dtypes.
    differentiable : bool
        Whether results are differentiable.
    """

    def __init__(self, function: Any, operation: Any, differentiable: bool) -> None:
        self.ufunc, self.operation, self.differentiable = function, operation, differentiable
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = f"Apply NumPy's universal function ``{function.__name__}`` to tensors."
        self.nin, self.nout, self.identity = function.nin, function.nout, function.identity
        self._plans: dict[Any, Callable[..., Any]] = {}

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}' of gradcore>"

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs:
            try:
                key = tuple([x._dtype if isinstance(x, Tensor) else x.__class__ for x in inputs])
                plan = self._plans[key]
            except KeyError:
                return self._prepare_call(inputs)
            return plan(*inputs)
        return self._general(inputs, **kwargs)

    # -- dtypes ---------------------------------------------------------------------------------------------------

    def _prepare_call(self, inputs: tuple[Any, ...], dtype: Any = None) -> Any:
        """Call the function; arguments that are neither tensors nor numbers are converted to tensors."""
        if len(inputs) != self.nin:
            if self.nin < len(inputs) <= self.nin + self.nout:
                return self._general(inputs[: self.nin], out=inputs[self.nin :], dtype=dtype)
            raise TypeError(f"{self.__name__}() takes {self.nin} positional arguments but {len(inputs)} were given")
        inputs = tuple(
            x if isinstance(x, Tensor) or x.__class__ in _NUMBERS or isinstance(x, np.generic) else tensor_of(x)
            for x in inputs
        )
        if not any(isinstance(x, Tensor) for x in inputs):
            loops = [numpy_dtype(x.dtype) if isinstance(x, np.generic) else np.asarray(x).dtype for x in inputs]
            inputs = tuple(
                x if x.__class__ in _WEAK and i else tensor_of(np.asarray(x, loop).tolist(), loop)
                for i, (x, loop) in enumerate(zip(inputs, loops, strict=True))
            )
        key = tuple(x._dtype if isinstance(x, Tensor) else x.__class__ for x in inputs)
        plan = self._plans.get(key) if dtype is None else None
        return (plan or self._plan(key, dtype))(*inputs)

    def _plan(self, key: tuple[Any, ...], dtype: Any) -> Callable[..., Any]:
        """Return a function for arguments of the dtypes `key`, which is cached unless `dtype` is given."""
        compute = getattr(F, self.operation) if isinstance(self.operation, str) else self.operation
        scalars = OPS[self.operation].accepts_scalars if isinstance(self.operation, str) else ()
        if dtypes.bfloat16 in key:
            return lambda *values: compute(*self._tensors(values))
        types = [_numpy_type(k) for k in key]
        signature = {} if dtype is None else {"signature": (*[None] * self.nin, *[numpy_dtype(dtype)] * self.nout)}
        loop = self.ufunc.resolve_dtypes((*types, *[None] * self.nout), **signature)
        input_dtypes, output_dtypes = (
            tuple(map(dtypes.from_numpy, codes)) for codes in (loop[: self.nin], loop[self.nin :])
        )

        compares_integers = self.ufunc in _COMPARISONS and int in key and input_dtypes[0].category == dtypes.INTEGER
        is_integer_power = self.operation == "pow" and output_dtypes[0].category == dtypes.INTEGER
        # An operation that is given a number computes in the dtype of its tensors.
        is_uniform = len(set(input_dtypes)) == 1

        def convert_and_call(*values: Any) -> Any:
            if is_integer_power:
                _check_exponent(values[1])
            like = next(x for x in values if isinstance(x, Tensor))
            if compares_integers:
                return compute(*_widen_operands(values, like))
            operands = [
                cast(x, input_dtype)
                if isinstance(x, Tensor)
                else _number(x, input_dtype, like, i in scalars and is_uniform, output_dtypes[0])
                for i, (x, input_dtype) in enumerate(zip(values, input_dtypes, strict=True))
            ]
            result = compute(*operands)
            if self.nout == 1:
                return cast(result, output_dtypes[0])
            return tuple(cast(r, d) for r, d in zip(result, output_dtypes, strict=True))

        plain = key == input_dtypes or (
            input_dtypes[0].is_differentiable
            and all(
                k is d or (k in _WEAK and i in scalars) for i, (k, d) in enumerate(zip(key, input_dtypes, strict=True))
            )
        )
        if dtype is not None or self.nout > 1 or not plain or is_integer_power:
            if dtype is None:
                self._plans[key] = convert_and_call
            return convert_and_call

        def first(*values: Any) -> Any:
            result = compute(*values)
            self._plans[key] = compute if result._dtype is output_dtypes[0] else convert_and_call
            return cast(result, output_dtypes[0])

        return first

    def _tensors(self, values: tuple[Any, ...]) -> list[Any]:
        like = next(x for x in values if isinstance(x, Tensor))
        return [x if isinstance(x, Tensor) else F.number_as_tensor(_item(x), like) for x in values]

    # -- arguments by name ----------------------------------------------------------------------------------------

    def _general(
        self,
        inputs: tuple[Any, ...],
        *,
        out: Any = None,
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: str = "K",
        subok: bool = True,
        signature: Any = None,
        **core: Any,
    ) -> Any:
        if signature is not None:
            raise TypeError(f"{self.__name__}(signature=...) is not implemented for tensors; use dtype=")
        is_generalized = self.ufunc.signature is not None
        allowed = {"axis", "axes", "keepdims"} if is_generalized else set()
        unexpected = [*(["where"] if is_generalized and where is not True else []), *(set(core) - allowed)]
        if unexpected:
            raise TypeError(f"{self.__name__}() got an unexpected keyword argument '{unexpected[0]}'")
        if is_generalized:
            inputs, back = _core_last(self.__name__, self.ufunc.signature, inputs, **core)
        if where is not True:  # masked elements are replaced by ones, whose results are discarded
            mask = tensor_of(where)
            inputs = tuple(
                x if x.__class__ in _NUMBERS else fill_masked(tensor_of(x), mask, tensor_of(x).new_ones(()))
                for x in inputs
            )
        result = self._prepare_call(inputs, dtype)
        if is_generalized:
            result = back(result)
        if where is not True and out is None:
            several = isinstance(result, tuple)
            result = tuple(fill_masked(r, where, 0) for r in result) if several else fill_masked(result, where, 0)
        return write_out(result, out, casting, where)

    # -- methods --------------------------------------------------------------------------------------------------

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """Apply the function to every pair of an element of `a` and an element of `b`."""
        a, b = tensor_of(a), tensor_of(b)
        return self(a.reshape(*a.shape, *(1,) * b.ndim), b, **kwargs)

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Any:  # fmt: skip
        """Reduce `array` over an axis by applying the function to pairs of elements."""
        from gradcore.numpy import reductions

        self._check_binary("reduce")
        reduction = reductions.REDUCTIONS.get(self.__name__)
        if reduction is not None:
            return reduction(array, axis, dtype, out, keepdims, initial, where)
        x = tensor_of(array, dtype)
        if where is not True:
            if self.identity is None:
                raise ValueError(
                    f"reduction operation '{self.__name__}' does not have an identity; where= needs initial="
                )
            x = fill_masked(x, where, self.identity)
        axes = axes_of(axis, x.ndim)
        if len(axes) > 1 and not self._is_reorderable:
            raise ValueError(
                f"reduction operation '{self.__name__}' is not reorderable, so at most one axis may be specified"
            )
        for each in sorted(axes, reverse=True):
            x = self._fold(x, each, keepdims)
        return write_out(x if initial is None else self(x, initial), out)

    @property
    def _is_reorderable(self) -> bool:
        return self.identity is not None or self.__name__ in (
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "bitwise_or",
            "bitwise_xor",
            "gcd",
            "lcm",
        )

    def _fold(self, x: Tensor, axis: int, keepdims: bool) -> AnyTensor:
        slices = F.unbind(x, axis)
        if not slices and self.identity is None:
            raise ValueError(f"zero-size array to reduction operation {self.__name__} which has no identity")
        result = (
            fold(self, slices) if slices else F.full(_remove_axis(x.shape, axis), self.identity, device=x._device.real)
        )
        return F.unsqueeze(result, axis) if keepdims else result

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Return all partial results of `reduce` along an axis."""
        from gradcore.numpy import reductions

        self._check_binary("accumulate")
        cumulative = {"add": reductions.cumsum, "multiply": reductions.cumprod}.get(self.__name__)
        if cumulative is not None:
            return cumulative(array, axis, dtype, out)
        x = tensor_of(array, dtype)
        partial_results: list[Any] = []
        for element in F.unbind(x, axis):
            partial_results.append(self(partial_results[-1], element) if partial_results else element)
        return write_out(F.stack(list(promote(*partial_results)), axis_of(axis, x.ndim)) if partial_results else x, out)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Apply `reduce` to the slices between consecutive indices."""
        self._check_binary("reduceat")
        x = tensor_of(array, dtype)
        starts = [int(i) for i in np.asarray(indices if not isinstance(indices, Tensor) else indices.tolist())]
        axis = axis_of(axis, x.ndim)
        ends = [*starts[1:], x.shape[axis]]
        parts = [
            self.reduce(F.narrow(x, axis, start, max(end - start, 1)), axis)
            for start, end in zip(starts, ends, strict=True)
        ]
        return write_out(F.stack(parts, axis), out)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Apply the function in place at the indices, repeatedly for an index that occurs several times."""
        if not isinstance(a, Tensor):
            raise TypeError(
                f"{self.__name__}.at() writes in place into a tensor, not into {type(a).__name__}: use "
                "gradcore.numpy.array(a)"
            )
        key = indices if isinstance(indices, tuple) else (indices,)
        key = tuple(tensor_of(i) if isinstance(i, (list, np.ndarray)) else i for i in key)
        if self.nin == 1:
            a[key] = self(a[key])
            return
        places = _places(a, key)
        values = F.broadcast_to(cast(tensor_of(b), a._dtype), places.shape).reshape(-1)
        flat, places = F.clone(a).reshape(-1), places.reshape(-1)
        if self.__name__ in ("add", "subtract"):
            updated = F.index_add(flat, 0, places, values if self.__name__ == "add" else -values)
        elif self.__name__ in _SCATTERED:
            updated = F.scatter_reduce(flat, 0, places, values, _SCATTERED[self.__name__])
        elif len(set(places.tolist())) == places.numel():
            updated = F.index_copy(flat, 0, places, cast(self(F.index_select(flat, 0, places), values), a._dtype))
        else:
            raise TypeError(
                f"{self.__name__}.at() of tensors takes each index once; only add, subtract, multiply, maximum and "
                "minimum take an index several times"
            )
        F.copy_(a, updated.reshape(a.shape))

    def _check_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{method} only supported for binary functions")


_SCATTERED = {"multiply": "prod", "maximum": "amax", "minimum": "amin"}


def _places(a: Tensor, key: tuple[Any, ...]) -> AnyTensor:
    """Return the flat positions of the elements of `a` that ``a[key]`` selects."""
    return tensor_of(np.arange(a.numel())).to(a._device.real).reshape(a.shape)[key]


def _remove_axis(shape: Any, axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _numpy_type(key: Any) -> Any:
    """Convert a dtype or scalar class to the form that `numpy.ufunc.resolve_dtypes` accepts."""
    return key.numpy if isinstance(key, dtypes.dtype) else key if key in _WEAK else np.dtype(key)


def _item(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def _number(x: Any, dtype: Any, like: Tensor, takes_numbers: bool, result: Any) -> Any:
    """Convert a number to an operand: itself if the operation takes numbers, else a 0-dim tensor."""
    x = _item(x)
    if x.__class__ is int and not dtype.is_differentiable and result is not dtypes.bool_:
        np.asarray(x, dtype.numpy)  # OverflowError for those that do not fit
    if dtype.is_differentiable and not dtype.is_complex and x.__class__ is not complex:
        x = float(x)
    return x if takes_numbers and dtype.is_differentiable else F.full((), x, dtype=dtype, device=like._device.real)


def _core_last(
    name: str, signature: str, inputs: Any, axis: Any = None, axes: Any = None, keepdims: bool = False
) -> tuple[Any, Callable[..., Any]]:
    """Move the core dims of a generalised ufunc's inputs last; return them and a function that undoes it."""
    core_in, core_out = (
        [part.count(",") + 1 if part.strip("() ") else 0 for part in side.strip().replace("),(", ")|(").split("|")]
        for side in signature.split("->")
    )
    tensors = tuple(tensor_of(x) for x in inputs)
    if keepdims and (len(set(core_in)) > 1 or any(core_out)):
        raise TypeError(f"{name} does not support keepdims: its operands have the core dimensions {signature}")
    if axis is not None:
        if max(core_in) > 1 or any(core_out):
            raise TypeError(
                f"{name}: axis can only be used with a single shared core dimension, not with those of {signature}"
            )
        axes = [(axis,) if core else () for core in (*core_in, *core_out)]
    if axes is None:
        if not keepdims:
            return tensors, lambda result: result
        return tensors, lambda result: result.reshape(*result.shape, *(1,) * max(core_in))
    groups = [(a,) if isinstance(a, int) else tuple(a) for a in axes]
    moved = tuple(F.movedim(x, g, tuple(range(-len(g), 0))) if g else x for x, g in zip(tensors, groups, strict=False))

    def back(result: Tensor) -> AnyTensor:
        if keepdims:
            return F.unsqueeze(result, groups[0][0])
        result_dims = groups[len(core_in)] if len(groups) > len(core_in) else ()
        return (
            F.movedim(result, tuple(range(-len(result_dims), 0)), result_dims)
            if result_dims and core_out[0]
            else result
        )

    return moved, back


UFUNCS: dict[Any, Ufunc] = {
    getattr(np, name): Ufunc(getattr(np, name), operation, smooth)
    for table, smooth in ((_SMOOTH, True), (_CONSTANT, False))
    for name, operation in table.items()
    if hasattr(np, name)  # `matvec` and `vecmat` came with NumPy 2.2
}
"""The universal functions on tensors, by the NumPy function that they replace."""


def known(function: Any) -> Ufunc | None:
    """Return the tensor version of a universal function of NumPy or `scipy.special`, or None."""
    result = UFUNCS.get(function)
    if result is None and isinstance(function, np.ufunc):
        name = function.__name__
        numpy_function = find_ufunc(name)  # `scipy.special` repeats some functions of NumPy
        operation = SPECIAL.get(name) or (numpy_function.operation if numpy_function else None)
        if operation is not None and is_scipys(function):
            result = UFUNCS[function] = Ufunc(
                function, operation, numpy_function.differentiable if numpy_function else True
            )
    return result


def is_scipys(function: Any) -> bool:
    """Return whether `function` is a universal function of `scipy.special`; its name alone would not tell."""
    homes = (sys.modules.get(path) for path in ("scipy.special", "scipy.special._ufuncs"))
    return any(getattr(home, function.__name__, None) is function for home in homes)


def find_ufunc(name: str) -> Ufunc | None:
    """Return the tensor version of NumPy's universal function `name`, or None."""
    return UFUNCS.get(getattr(np, name, None))
