"""`gradcheck` and `gradgradcheck`, which compare derivatives with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore import functional
from gradcore.autograd.gradients import grad
from gradcore.autograd.jacobians import (
    Matrix,
    as_tuple,
    count_of,
    directional,
    forward_jacobian,
    numbers_of,
    numerical_jacobian,
    push_forward,
    reverse_jacobian,
    tensor_of,
)
from gradcore.autograd.node import Node
from gradcore.autograd.variables import Variable, alias
from gradcore.autograd.views import gradient_edge, requires_grad
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor, NamedTuple

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` if a derivative is wrong.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.autograd import Function, GradcheckError, gradcheck
    >>> class Wrong(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 3
    >>> x = gc.ones(1, dtype=gc.float64, requires_grad=True)
    >>> gradcheck(Wrong.apply, (x,), raise_exception=False)
    False
    """


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of a function with finite differences.

    Parameters
    ----------
    func : callable
        Takes tensors and returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple
        The arguments. Those that require grad are checked; they should be float64 or complex128.
    eps : float
        The step of the central differences.
    atol, rtol : float
        Derivatives may differ from finite differences `d` by ``atol + rtol * abs(d)``.
    raise_exception : bool
        Whether a wrong derivative raises; otherwise the result is False.
    nondet_tol : float
        By how much two runs of backward may differ.
    check_undefined_grad : bool
        Whether to check that backward takes missing upstream gradients for zeros.
    check_grad_dtypes : bool
        Whether a gradient must have the dtype of its input.
    check_batched_grad : bool
        Whether to check ``autograd.grad(is_grads_batched=True)`` too.
    check_batched_forward_grad : bool
        Whether to check that tangents of several directions add up.
    check_forward_ad, check_backward_ad : bool
        Which modes to check.
    fast_mode : bool
        Compare one random projection of each Jacobian instead of every entry.
    masked : bool, optional
        Accepted for compatibility; it concerns sparse tensors.

    Returns
    -------
    bool
        True if all derivatives are right.

    Raises
    ------
    GradcheckError
        If one is not: the message names the output, the input, the entry and both numbers.
    ValueError
        If no input requires grad.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([0.5, 2.0], dtype=gradcore.float64, requires_grad=True)
    >>> gradcore.autograd.gradcheck(gradcore.tanh, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    options = Options(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode,
    )  # fmt: skip
    check = Check(func, as_tuple(inputs), options)
    try:
        check.run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of a function with finite differences of its first ones.

    Parameters
    ----------
    func, inputs
        As for `gradcheck`.
    grad_outputs : Tensor or sequence of Tensor, optional
        Upstream gradients of the first backward; random ones by default. Those that require grad are checked too.
    gen_non_contig_grad_outputs : bool
        Whether the random ones are not contiguous in memory.
    check_fwd_over_rev, check_rev_over_rev : bool
        Whether to differentiate backward in forward mode, in reverse mode.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad
        As for `gradcheck`.
    check_grad_dtypes, check_batched_grad, fast_mode, masked
        As for `gradcheck`.

    Returns
    -------
    bool
        True if all derivatives are right.

    Raises
    ------
    GradcheckError
        If one is not.

    Examples
    --------
    >>> import gradcore
    >>> x = gradcore.tensor([0.5, 2.0], dtype=gradcore.float64, requires_grad=True)
    >>> gradcore.autograd.gradgradcheck(gradcore.tanh, x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    args = as_tuple(inputs)
    if grad_outputs is None:
        upstream = _random_upstream(_differentiable(func(*args)), gen_non_contig_grad_outputs)
    else:
        upstream = as_tuple(grad_outputs)
    needs_grad = [isinstance(t, Variable) and requires_grad(t) for t in (*args, *upstream)]

    def first(*values: Any) -> tuple[Any, ...]:
        """Return the gradients of `func`, as a function of its arguments and of the upstream gradients."""
        values = tuple(t.requires_grad_() if is_needed else t for t, is_needed in zip(values, needs_grad, strict=True))
        outs = _differentiable(func(*values[: len(args)]))
        ins = [t for t, is_needed in zip(values[: len(args)], needs_grad, strict=False) if is_needed]
        gradients = grad(outs, ins, values[len(args) :], create_graph=True, allow_unused=True)
        return tuple(g for g in gradients if g is not None)

    return gradcheck(
        first,
        (*args, *upstream),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


def _differentiable(results: Any) -> tuple[Any, ...]:
    return tuple(t for t in as_tuple(results) if isinstance(t, Variable) and requires_grad(t))


def _random_upstream(outputs: Sequence[Any], apart: bool) -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    results = []
    for out in outputs:
        t = tensor_of(random.uniform(-1, 1, count_of(out)), out)
        if apart and t._array.ndim:
            t._array = t._array.repeat(2, axis=-1)[..., ::2]
        results.append(t.requires_grad_())
    return tuple(results)


# -- one call ----------------------------------------------------------------------------------------------------------


class Options(NamedTuple):
    """The options and tolerances of `gradcheck`."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool


class Check:
    """The settings and state of one call of `gradcheck`."""

    def __init__(self, func: Callable[..., Any], inputs: tuple[Any, ...], options: Options) -> None:
        self.func, self.inputs, self.options = func, inputs, options
        #: Positions of the inputs that are checked.
        self.checked_positions = [i for i, t in enumerate(inputs) if isinstance(t, Variable) and requires_grad(t)]
        self.check_inputs()
        self.results = as_tuple(func(*inputs))
        if self.results and not any(isinstance(t, Variable) for t in self.results):
            raise ValueError("gradcheck expects a function that returns a tensor or a tuple with tensors")
        #: Positions of the outputs that are checked, and how the outputs are counted in messages.
        self.chosen = [i for i, t in enumerate(self.results) if isinstance(t, Variable) and requires_grad(t)]
        self.outputs = [self.results[i] for i in self.chosen]
        self.random = np.random.default_rng(0)

    def check_inputs(self) -> None:
        if not self.checked_positions:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have "
                "requires_grad=True."
            )
        for i in self.checked_positions:
            t = self.inputs[i]
            if t._dtype not in (dtypes.float64, dtypes.complex128):
                warnings.warn(
                    f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                    "will likely fail if all the inputs are not of double precision floating point or complex. ",
                    stacklevel=4,
                )
            if any(n > 1 and s == 0 for n, s in zip(t._array.shape, t._array.strides, strict=True)):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                    "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                    ".contiguous on the input before passing it to gradcheck."
                )

    @property
    def checked_inputs(self) -> list[Any]:
        return [self.inputs[i] for i in self.checked_positions]

    def run(self) -> None:
        if not self.chosen:
            self.check_constant()
        elif self.options.fast_mode:
            self.check_projections()
        else:
            self.check_jacobians()
        if self.options.check_forward_ad and self.options.check_undefined_grad:
            self.check_missing_tangents()
        if self.options.check_batched_forward_grad:
            self.check_sum_of_tangents()
        if not self.options.check_backward_ad or not self.chosen:
            return
        if self.options.check_batched_grad:
            self.check_batched()
        self.check_zero_upstream()
        if self.options.check_undefined_grad:
            self.check_missing_upstream()

    def check_constant(self) -> None:
        """Check that outputs without history do not depend on the inputs."""
        floating = [i for i, t in enumerate(self.results) if isinstance(t, Variable) and t._dtype.is_differentiable]
        for k in self.checked_positions:
            if any(np.any(m != 0) for m in numerical_jacobian(self.func, self.inputs, k, self.options.eps, floating)):
                raise GradcheckError("Numerical gradient for function expected to be zero")

    # -- entry by entry -------------------------------------------------------------------------------------------

    def check_jacobians(self) -> None:
        options = self.options
        reverse = [self.reverse(out) for out in self.outputs] if options.check_backward_ad else []
        for n, k in enumerate(self.checked_positions):
            numerical = numerical_jacobian(self.func, self.inputs, k, options.eps, self.chosen)
            if options.check_backward_ad:
                for j in range(len(self.outputs)):
                    self.compare(reverse[j][n], numerical[j], j, k, forward=False)
            if options.check_forward_ad:
                forward = forward_jacobian(self.func, self.inputs, k, self.chosen)
                for j, matrix in enumerate(forward):
                    self.compare(matrix, numerical[j], j, k, forward=True)

    def reverse(self, output: Any) -> list[Matrix]:
        first, gradients = reverse_jacobian(output, self.checked_inputs)
        second, _ = reverse_jacobian(output, self.checked_inputs)
        for g, t in zip(gradients, self.checked_inputs, strict=True):
            if g is not None and self.options.check_grad_dtypes and g._dtype is not t._dtype:
                raise GradcheckError(f"Gradient has dtype mismatch: {g.dtype!r} for an input of {t.dtype!r}")
        for a, b in zip(first, second, strict=True):
            if a.size and not np.abs(a - b).max() <= self.options.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient. The tolerance "
                    f"for nondeterminism was {self.options.nondet_tol}."
                )
        return first

    def compare(self, analytical: Matrix, numerical: Matrix, j: int, k: int, *, forward: bool) -> None:
        """Raise unless the two Jacobians of output `j` with respect to input `k` are close."""
        output, t = self.outputs[j], self.inputs[k]
        if not analytical.size:
            return
        if forward:  # compare complex outputs as complex numbers, real and imaginary inputs separately
            joint, separate = output._dtype.is_complex, t._dtype.is_complex
            analytical, numerical = analytical.T, numerical.T
        else:
            joint, separate = t._dtype.is_complex, output._dtype.is_complex
        for part in (1, 0) if separate else (None,):
            a, n = (m if part is None else m[:, part::2] for m in (analytical, numerical))
            if joint:
                a, n = (m[0::2] + 1j * m[1::2] for m in (a, n))
            wrong = ~(np.abs(a - n) <= self.options.atol + self.options.rtol * np.abs(n))
            wrong &= ~((a == n) | (np.isnan(a) & np.isnan(n)))
            if wrong.any():
                raise GradcheckError(self.mismatch(a, n, wrong, j, k, part, forward))

    def mismatch(self, a: Matrix, n: Matrix, wrong: Matrix, j: int, k: int, part: int | None, forward: bool) -> str:
        error = np.where(wrong, np.nan_to_num(np.abs(a - n), nan=np.inf), -1)
        entry = np.unravel_index(np.argmax(error), error.shape)
        entries = [
            tuple(map(int, np.unravel_index(i, t._array.shape)))
            for i, t in zip(
                entry, (self.outputs[j], self.inputs[k]) if forward else (self.inputs[k], self.outputs[j]), strict=True
            )
        ]
        if forward:
            entries.reverse()
            a, n, entry = a.T, n.T, entry[::-1]
        prefix = ""
        if part is not None:
            element = "inputs" if forward else "outputs"
            prefix = f"While considering the {('real', 'imaginary')[part]} part of complex {element} only, "
        mode = "computed with forward mode " if forward else ""
        return (
            f"{prefix}Jacobian {mode}mismatch for output {j} with respect to input {k},\n"
            f"numerical:{functional.as_tensor(n)}\nanalytical:{functional.as_tensor(a)}\n"
            f"The largest difference is at entry {entries[0]} of the input and entry {entries[1]} of the output: "
            f"numerical {n[entry]:.8g}, analytical {a[entry]:.8g}"
        )

    # -- projections ----------------------------------------------------------------------------------------------

    def direction(self, t: AnyTensor) -> Matrix:
        numbers = self.random.uniform(0.1, 1.0, count_of(t))
        return numbers / max(float(np.linalg.norm(numbers)), 1e-30)

    def check_projections(self) -> None:
        """Compare ``v J u`` for a random direction u of each input and v of each output."""
        options = self.options
        input_directions = [self.direction(t) for t in self.checked_inputs]
        output_directions = [self.direction(t) for t in self.outputs]
        for n, (k, u) in enumerate(zip(self.checked_positions, input_directions, strict=True)):
            direction = tensor_of(u, self.inputs[k])
            numerical = directional(self.func, self.inputs, k, direction, options.eps, self.chosen)
            tangents = (
                push_forward(self.func, self.inputs, {k: direction}, self.chosen) if options.check_forward_ad else None
            )
            for j, (out, v) in enumerate(zip(self.outputs, output_directions, strict=True)):
                expected = float(v @ numerical[j])
                projections = {} if tangents is None else {True: float(v @ tangents[j])}
                if options.check_backward_ad:
                    projections[False] = self.project_gradient(out, v, n, u)
                scale = max(1.0, float(np.abs(u).sum() * np.abs(v).sum()))
                for forward, value in projections.items():
                    if not abs(value - expected) <= options.atol * scale + options.rtol * abs(expected):
                        self.explain(j, k, forward, expected, value)

    def project_gradient(self, output: Any, v: Matrix, n: int, u: Matrix) -> float:
        values = []
        for _ in range(2):
            (g,) = grad(output, [self.checked_inputs[n]], tensor_of(v, output), retain_graph=True, allow_unused=True)
            values.append(0.0 if g is None else float(numbers_of(g) @ u))
        if not abs(values[0] - values[1]) <= self.options.nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                f"gives different values. The tolerance for nondeterminism was {self.options.nondet_tol}."
            )
        return values[0]

    def explain(self, j: int, k: int, forward: bool, numerical: float, analytical: float) -> None:
        """Raise for the wrong entry of the Jacobian or, if all entries are close, for the projection."""
        self.check_jacobians()
        mode = "computed with forward mode " if forward else ""
        raise GradcheckError(
            f"Fast gradcheck failed but element-wise differences are small: projection of the Jacobian {mode}of output "
            f"{j} with respect to input {k}: numerical {numerical}, analytical {analytical}. This means that the test "
            "might've passed in slow_mode. Use fast_mode=False, or larger atol and rtol."
        )

    # -- further properties ---------------------------------------------------------------------------------------

    def check_zero_upstream(self) -> None:
        zeros = [functional.zeros_like(out) for out in self.outputs]
        for g, t in zip(
            grad(self.outputs, self.checked_inputs, zeros, True, allow_unused=True), self.checked_inputs, strict=True
        ):
            if g is None:
                continue
            if np.any(g.host() != 0):
                raise GradcheckError("backward not multiplied by grad_output")
            for name, a, b in (
                ("type", g._dtype, t._dtype),
                ("device", g._device, t._device),
                ("size", g.shape, t.shape),
            ):
                if a != b:
                    raise GradcheckError(f"grad is incorrect {name}")

    def compute_batch(self, out: Any, stacked: Any) -> Any:
        try:
            return grad(
                out, self.checked_inputs, stacked, retain_graph=True, is_grads_batched=True, materialize_grads=True
            )
        except MemoryError:
            raise
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error

    def check_batched(self) -> None:
        for j, out in enumerate(self.outputs):
            pair = [tensor_of(self.random.standard_normal(count_of(out)), out) for _ in range(2)]
            expected = [grad(out, self.checked_inputs, v, retain_graph=True, materialize_grads=True) for v in pair]
            batches = self.compute_batch(out, functional.stack(pair))
            for k, batch, single in zip(self.checked_positions, batches, zip(*expected, strict=True), strict=True):
                if not np.allclose(batch.host(), [g.host() for g in single], equal_nan=True):
                    raise GradcheckError(
                        f"Batched gradients differ for output {j} and input {k}.\nGot:\n{batch}\nExpected:\n{single}"
                    )

    def check_sum_of_tangents(self) -> None:
        for k in self.checked_positions:
            a, b = (self.random.standard_normal(count_of(self.inputs[k])) for _ in range(2))
            first, second, both = (
                push_forward(self.func, self.inputs, {k: tensor_of(v, self.inputs[k])}, self.chosen)
                for v in (a, b, a + b)
            )
            for j, (x, y, z) in enumerate(zip(first, second, both, strict=True)):
                if not np.allclose(x + y, z, rtol=self.options.rtol, atol=self.options.atol, equal_nan=True):
                    raise GradcheckError(f"Tangents of output {j} do not add up for two directions of input {k}")

    def check_missing_tangents(self) -> None:
        """Check that a missing tangent of an input has the same effect as a tangent of zeros."""
        full = {k: tensor_of(self.direction(self.inputs[k]), self.inputs[k]) for k in self.checked_positions}
        for k in self.checked_positions:
            tangents = {i: t for i, t in full.items() if i != k}
            missing = push_forward(self.func, self.inputs, tangents, self.chosen)
            zero = push_forward(self.func, self.inputs, {**tangents, k: functional.zeros_like(full[k])}, self.chosen)
            for j, (a, b) in enumerate(zip(missing, zero, strict=True)):
                if not np.allclose(a, b, equal_nan=True):
                    raise GradcheckError(
                        f"Mismatch in tangent values for output with index: {j} when input {k} has an undefined "
                        "tangent value."
                    )

    def check_missing_upstream(self) -> None:
        """Check that a missing gradient of an output has the same effect as a gradient of zeros."""
        cases = [range(len(self.chosen))]
        if len(self.chosen) > 1:
            cases += [range(j, j + 1) for j in range(len(self.chosen))]
        for undefined in cases:
            results = as_tuple(self.func(*self.inputs))
            outs = [_cut_gradient(results[i]) if j in undefined else results[i] for j, i in enumerate(self.chosen)]
            zeros = [functional.zeros_like(out) for out in outs]
            try:
                gradients = grad(outs, self.checked_inputs, zeros, allow_unused=True)
            except MemoryError:
                raise
            except RuntimeError as error:
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads: take None for zeros, or leave "
                    "materialize_grads on."
                ) from error
            if any(g is not None and np.any(g.host() != 0) for g in gradients):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
                )


class UndefinedGrad(Node):
    """Passes no gradient on."""

    __slots__ = ()

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        return [None]


def _cut_gradient(t: AnyTensor) -> Any:
    return alias(t, (UndefinedGrad.make(t._device, (gradient_edge(t),), t), 0))
