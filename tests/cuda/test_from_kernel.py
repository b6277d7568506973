"""Kernels of users as operations: expressions, CuPy's kernels, CUDA source; on the CPU and on the strict device."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import gradcheck, gradgradcheck
from gradcore.kernels.evaluation import evaluate
from gradcore.kernels.parsing import Unparsable, parse
from gradcore.kernels.signatures import read_signature
from tests.cuda.host import needs_compiler


def leaf(*shape: int, low: float = 0.2, high: float = 2.0, seed: int = 0, device: str = "cpu") -> gc.Tensor:
    data = np.random.default_rng(seed).uniform(low, high, shape)
    return gc.tensor(data, device=device, requires_grad=True)


# -- expressions -----------------------------------------------------------------------------------------------

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "y = sqrt(1 + x * x) - 1": lambda x: (1 + x * x).sqrt() - 1,
    "exp(-a * x) / (x + 1)": lambda a, x: gc.exp(-a * x) / (x + 1),
    "y = x > 1 ? x * x : 2 * x - 1": lambda x: gc.where(x > 1, x * x, 2 * x - 1),
    "T s = x - a; y = s * tanh(s)": lambda x, a: (x - a) * gc.tanh(x - a),
    "y = pow(x, 3) + pow(x, 0.5f) + pow(2.0, x)": lambda x: x**3 + x**0.5 + 2**x,
    "y = max(x, 1.0) * min(a, x) + fmax(a, 0.7)": lambda x, a: x.clamp(min=1.0) * gc.minimum(a, x) + a.clamp(min=0.7),
    "y = (x < 1 && a > 0.5) || !(x < 1.5) ? a : x * a": lambda x, a: gc.where(
        ((x < 1) & (a > 0.5)) | (x >= 1.5), a, x * a
    ),
    "y = atan2(x, a) + hypot(x, 0.5) + fabs(x - a)": lambda x, a: (
        gc.atan2(x, a) + gc.hypot(x, gc.full_like(x, 0.5)) + (x - a).abs()
    ),
    "const float k = 2e-1f; y = erf(k * x) + lgamma(x) + rsqrt(x) - T(1)": lambda x: (
        gc.erf(0.2 * x) + gc.lgamma(x) + gc.rsqrt(x) - 1
    ),
    "y = -x - +x - -(a) /* a comment */ // and another": lambda x, a: -2 * x + a,
    "y = fmod(x, 0.3) * floor(x) + copysign(x, a - 1)": lambda x, a: (
        gc.fmod(x, 0.3) * x.floor() + gc.copysign(x, a - 1)
    ),
    "y = 3 * (2 > 1 ? x : 0) * sqrt(4.0)": lambda x: 6 * x,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str) -> None:
    op, plain = gc.from_kernel(text), EXPRESSIONS[text]
    operands = [leaf(7, seed=i) for i in range(len(op.op.names))]
    assert gc.allclose(op(*operands), plain(*operands), rtol=1e-12)
    assert gradcheck(op, operands, check_forward_ad=True)
    assert gradgradcheck(op, operands)


def test_expressions_like_any_elementwise_operation() -> None:
    op = gc.from_kernel("y = a * x * x", name="scaled_square", inputs=("x", "a"))
    x = leaf(3, 1)
    y = op(x, 2.0)
    assert y.grad_fn.name() == "ScaledSquareBackward0"
    assert op(x.float().detach(), gc.ones(4)).shape == (3, 4)
    assert op(gc.tensor([1, 2]), 2).dtype is gc.float32
    assert op(gc.empty(2, 3, device="meta"), 1).shape == (2, 3)
    assert gc.func.vmap(op, in_dims=(0, None))(gc.ones(3, 2), 2.0).tolist() == [[2.0, 2.0]] * 3
    assert gc.func.jvp(lambda x: op(x, 3.0), (gc.tensor(2.0),), (gc.tensor(1.0),))[1].item() == 12.0


def test_a_gradient_of_ones_own() -> None:
    op = gc.from_kernel("y = log(1 + exp(x))", backward="grad * (1 - exp(-y))")
    assert gradcheck(op, leaf(5), check_forward_ad=True)
    assert gradgradcheck(op, leaf(5))
    straight = gc.from_kernel("y = rint(x)", backward="grad")
    x = leaf(4)
    assert gc.autograd.grad(straight(x).sum(), x)[0].tolist() == [1.0] * 4
    both = gc.from_kernel("z = x * y", backward={"x": "grad * y", "y": lambda F, t, x: t * x})
    assert gradcheck(both, (leaf(3), leaf(3, seed=1)))
    one = gc.from_kernel("z = x * y", backward={"x": "grad * y", "y": None})
    x, y = leaf(3), leaf(3, seed=1)
    assert gc.autograd.grad(one(x, y).sum(), (x, y), allow_unused=True, materialize_grads=True)[1].tolist() == [0.0] * 3


TWICE = "__global__ void twice(const float* x, const float* y, float* z, int n) {}"


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("elementwise", [False, True])
def test_a_gradient_that_was_not_given_is_an_error(order: int, elementwise: bool) -> None:
    """In every order and both modes, by every input; where no gradient would pass there is no error."""
    given = {"x": lambda F, grad, y: grad * y}
    if order == 2:
        inner = {"grad": lambda F, grad, y: grad * y}
        if elementwise:
            given = {"x": gc.from_kernel("z = grad * y", backward=inner)}
        else:
            source = "__global__ void slope(const float* grad, const float* y, float* z, int n) {}"
            given = {"x": gc.from_kernel(source, reference=lambda grad, y: grad * y, backward=inner)}
    if elementwise:
        op = gc.from_kernel("z = x * y", backward=given)
    else:
        op = gc.from_kernel(TWICE, reference=lambda x, y: x * y, backward=given)
    x, y = (gc.ones(3, requires_grad=True) for _ in range(2))
    assert gc.autograd.grad(op(x, y.detach()).sum(), x)[0].tolist() == [1.0] * 3
    message = "no derivative with respect to 'y'"
    if order == 1:
        with pytest.raises(RuntimeError, match=message):
            (op(x, y) + x + y).sum().backward()
        with pytest.raises(RuntimeError, match=message):
            gc.func.jvp(lambda y: op(x.detach(), y), (y.detach(),), (y.detach(),))
        assert x.grad is None or x.grad.tolist() == [1.0] * 3
        return
    y = y.detach()
    (grad,) = gc.autograd.grad(op(x, y).sum(), x, create_graph=True)
    assert not grad.requires_grad or gc.autograd.grad(grad.sum(), x, allow_unused=True) is not None
    y.requires_grad_()
    seed = gc.ones(3, requires_grad=True)
    (grad,) = gc.autograd.grad(op(x, y * 1.0), x, seed, create_graph=True)
    with pytest.raises(RuntimeError, match=message):
        grad.sum().backward(inputs=[y])


@pytest.mark.parametrize(
    ("reference", "options", "error", "message"),
    [
        (lambda x, y: x[:1], {}, RuntimeError, r"returned z of shape \[1\]"),
        (lambda x, y: (x, y), {}, RuntimeError, "returned z of shape"),
        (lambda x, y: x + 1j, {}, TypeError, "returned z as complex64"),
        (lambda x, y: x, {"block": (16, 16)}, ValueError, "from 1 to 1024"),
        (lambda x, y: x, {"block": 0}, ValueError, "from 1 to 1024"),
        (
            lambda x, y: x,
            {"backward": {"w": lambda F, grad: grad}},
            ValueError,
            "w is not among the kernel's inputs x, y",
        ),
        (
            lambda x, y: x,
            {"backward": lambda F, grad: (grad,)},
            RuntimeError,
            "expected a tuple of 2 gradients, but got 1",
        ),
    ],
)
def test_a_reference_is_as_strict_as_the_kernel(reference: Any, options: Any, error: Any, message: str) -> None:
    x = gc.ones(3, requires_grad=True)

    def run() -> None:
        gc.from_kernel(TWICE, reference=reference, **options)(x, x).sum().backward()

    with pytest.raises(error, match=message):
        run()


@pytest.mark.parametrize("dtype", [gc.float64, gc.int64, gc.float16])
def test_a_dtype_that_the_kernel_does_not_take_is_an_error(dtype: gc.dtype) -> None:
    op = gc.from_kernel(TWICE, reference=lambda x, y: x + y)
    with pytest.raises(TypeError, match="expected y to be float32"):
        op(gc.ones(3), gc.ones(3, dtype=dtype))


def test_an_expression_has_one_output() -> None:
    with pytest.raises(ValueError, match="nothing reads y"):
        gc.from_kernel("y = x * x; z = x + 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("for (int i = 0; i < 3; ++i) y += x", "give reference="),
        ("y = erfcinv(x)", r"erfcinv\(\) is not among the functions"),
        ("y = x % 2", "use fmod"),
        ("y = x +", "expected 'more'"),
        ("y = (x", r"expected '\)'"),
        ("y = x y", "cannot read 'y'"),
        ("y = x[0]", "cannot read"),
        ("", "no expression"),
    ],
)
def test_what_is_no_expression(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gc.from_kernel(text)


def test_errors_say_what_is_missing() -> None:
    with pytest.raises(ValueError, match="reads b, which is not among its inputs x"):
        gc.from_kernel("y = x + b", inputs=("x",))
    with pytest.raises(ValueError, match="give a dict with a gradient for each"):
        gc.from_kernel("y = x + b", backward="grad")
    with pytest.raises(ValueError, match="reads c, which is neither an input, the output nor grad"):
        gc.from_kernel("y = x * x", backward="grad * c")
    with pytest.raises(ValueError, match="out: only for kernels of CUDA source"):
        gc.from_kernel("y = x", out=lambda x: x.shape)
    with pytest.raises(ValueError, match="cannot be named 'lambda'"):
        gc.from_kernel("y = lambda * 2")
    with pytest.raises(ValueError, match="expected an expression, CUDA source or a kernel of CuPy, but got int"):
        gc.from_kernel(3)


def test_precedence() -> None:
    for text, expected in {
        "1 - 2 - 3": -4, "2 + 3 * 4": 14, "12 / 2 / 3": 2, "-2 * 3": -6, "1 < 2 == 1": True, "1 ? 2 : 0 ? 3 : 4": 2,
        "0 ? 2 : 0 ? 3 : 4": 4, "1 || 0 && 0": 1, "(1 + 2) * 3": 9, "1e3f + .5": 1000.5,
    }.items():  # fmt: skip
        assert evaluate(None, parse(text), {}) == expected, text
    with pytest.raises(Unparsable):
        parse("a = b = c")


# -- CuPy's kernels --------------------------------------------------------------------------------------------


def elementwise_kernel(operation: str, *names: str, nout: int = 1, launched: list[Any] | None = None) -> Any:
    """Return a stand-in for `cupy.ElementwiseKernel`. Its calls are recorded and computed by its expression."""

    def call(self: Any, *arrays: Any) -> Any:
        if launched is not None:
            launched.append(arrays)
        return arrays[0] * arrays[0] * 3

    made = type("ElementwiseKernel", (), {"__call__": call})()
    made.operation, made.name, made.nout = operation, "mine", nout
    made.in_params = [SimpleNamespace(name=n, raw=False) for n in names]
    return made


def test_an_elementwise_kernel_of_cupy(strict: str) -> None:
    launched: list[Any] = []
    op = gc.from_kernel(elementwise_kernel("y = 3 * x * x", "x", launched=launched))
    x = leaf(4)
    assert gradcheck(op, x)
    assert not launched  # the CPU computes the expression
    there = x.detach().to(strict).requires_grad_()
    y = op(there)
    y.sum().backward()
    assert len(launched) == 1
    assert gc.allclose(y.cpu(), op(x))
    assert gc.allclose(there.grad.cpu(), 6 * x)


def test_what_cupy_itself_shows() -> None:
    cupy = pytest.importorskip("cupy")
    op = gc.from_kernel(cupy.ElementwiseKernel("T x, T a", "T y", "T s = x * a; y = sin(s)", "mine"))
    assert gradcheck(op, (leaf(3), leaf(3, seed=1)))
    source = (
        'extern "C" __global__ void twice(const float* x, float* y, int n) { y[threadIdx.x] = 2 * x[threadIdx.x]; }'
    )
    op = gc.from_kernel(cupy.RawKernel(source, "twice"), reference=lambda x: 2 * x, backward=lambda F, grad: 2 * grad)
    assert op(gc.ones(3)).tolist() == [2.0] * 3


def test_elementwise_kernels_that_are_no_operations() -> None:
    with pytest.raises(ValueError, match="2 outputs"):
        gc.from_kernel(elementwise_kernel("y = x; z = x", "x", nout=2))
    with pytest.raises(ValueError, match="reference="):
        gc.from_kernel(elementwise_kernel("while (y < x) y += 1", "x"))
    op = gc.from_kernel(
        elementwise_kernel("while (y < x) y += 1", "x"), reference=np.ceil, backward=lambda F, t: F.zeros_like(t)
    )
    assert op(gc.tensor([0.5, 2.0])).tolist() == [1.0, 2.0]
    assert gc.func.vmap(op)(gc.tensor([[0.5], [2.0]])).tolist() == [[1.0], [2.0]]


# -- source ----------------------------------------------------------------------------------------------------

FILTER = r"""
template <typename T>
__global__ void recursive_filter(const T* x, T* y, T a, int rows, int n, bool reverse) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T state = 0;
    for (int k = 0; k < n; ++k) {
        int i = row * n + (reverse ? n - 1 - k : k);
        state = a * state + x[i];
        y[i] = state;
    }
}
"""


def filtered(x: Any, a: float, reverse: bool = False) -> Any:
    y, state = np.empty_like(x), 0
    for k in range(x.shape[-1]):
        i = x.shape[-1] - 1 - k if reverse else k
        state = a * state + x[..., i]
        y[..., i] = state
    return y


def recursive_filter(backward: Any, reverse: bool = False) -> Callable[..., Any]:
    return gc.from_kernel(
        FILTER,
        name="recursive_filter",
        reference=filtered,
        backward=backward,
        settings={"reverse": reverse},
        sizes={"rows": lambda x: x.shape[0], "n": lambda x: x.shape[1]},
        threads=lambda x: x.shape[0],
    )


def test_a_kernel_whose_gradient_is_a_formula(strict: str) -> None:
    needs_compiler()
    op = recursive_filter(None)
    op.op.vjp("x")(lambda F, grad, a, reverse: getattr(F, op.op.name)(grad, a, not reverse))
    x = leaf(3, 5)
    assert gradcheck(lambda x: op(x, 0.5), x, check_forward_ad=True)
    assert gradgradcheck(lambda x: op(x, 0.5).exp(), x)
    assert op(gc.empty(4, 6, device="meta"), 0.5).shape == (4, 6)
    results = []
    for device in ("cpu", strict):
        t = x.detach().to(device).requires_grad_()
        y = op(t, a=0.5)
        (y**2).sum().backward()
        results.append((y.detach().cpu().numpy(), t.grad.cpu().numpy()))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-14)
    halves = op(x.detach().float().to(strict)[:, ::2], 0.5)  # another dtype, not contiguous
    np.testing.assert_allclose(halves.cpu().numpy(), filtered(x.detach().numpy()[:, ::2], 0.5), rtol=1e-6)
    assert op(gc.zeros(0, 5, device=strict), 0.5).shape == (0, 5)


GRADIENT = r"""
// the gradient of squares, by its own kernel
__global__ void squares_backward(const float* grad, const float* x, float* out, size_t size) {
    size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
    if (i < size) out[i] = 2 * x[i] * grad[i];
}
"""
SQUARES = GRADIENT.replace("squares_backward(const float* grad, ", "squares(").replace(
    "2 * x[i] * grad[i]", "x[i] * x[i]"
)


def test_a_kernel_whose_gradient_is_a_kernel(strict: str) -> None:
    needs_compiler()
    gradient = gc.from_kernel(GRADIENT, reference=lambda grad, x: 2 * x * grad)
    op = gc.from_kernel(SQUARES, reference=np.square, backward=gradient)
    for device in ("cpu", strict):
        x = gc.tensor(np.linspace(-2, 2, 300, dtype=np.float32), device=device, requires_grad=True)
        op(x).sum().backward()
        np.testing.assert_allclose(x.grad.cpu().numpy(), 2 * x.detach().cpu().numpy())
    with pytest.raises(TypeError, match="expected x to be float32, as the kernel declares it, but got float64"):
        op(gc.ones(2, dtype=gc.float64, device=strict))


SPLIT = r"""
__global__ void split(const double* x, const double* weight, double* low, double* high, long long n, double limit) {
    long long i = blockIdx.x * (long long) blockDim.x + threadIdx.x;
    if (i >= n) return;
    low[i] = x[2 * i] < limit ? x[2 * i] : limit;
    high[i] = x[2 * i + 1] * weight[i];
}
"""


def test_several_outputs_and_their_shapes(strict: str) -> None:
    needs_compiler()

    def backward(F: Any, grads: Any, x: Any, weight: Any, limit: float) -> Any:
        low, high = grads
        return F.stack([F.where(x[::2] < limit, low, 0), high * weight], 1).reshape(x.shape), high * x[1::2]

    op = gc.from_kernel(
        SPLIT,
        out={"low": lambda weight: weight.shape, "high": lambda weight: weight.shape[0]},
        reference=lambda x, weight, limit: (np.minimum(x[::2], limit), x[1::2] * weight),
        backward={("x", "weight"): backward},
        settings={"limit": 1.0},
        block=32,
    )
    x, weight = leaf(80), leaf(40, seed=1)
    assert gradcheck(op, (x, weight))
    here = op(x, weight, limit=0.5)
    there = op(x.detach().to(strict), weight.detach().to(strict), limit=0.5)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(b.cpu().numpy(), a.detach().numpy())


def test_a_kernel_without_a_twin(strict: str) -> None:
    needs_compiler()
    op = gc.from_kernel(SQUARES)
    assert op(gc.full((2,), 3.0, device=strict)).tolist() == [9.0, 9.0]
    with pytest.raises(RuntimeError, match=r"'squares' runs on CUDA only.*give from_kernel a reference.*reference="):
        op(gc.ones(2))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void f(const float* x) {}", "no output"),
        ("__global__ void f(const Thing* x, float* y) {}", "cannot understand the type"),
        (GRADIENT + SQUARES, "expected one kernel in the source, but found: squares_backward, squares"),
    ],
)
def test_source_that_is_not_understood(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gc.from_kernel(source)


def test_batches_of_a_kernel_of_source(strict: str) -> None:
    """Under vmap the kernel runs once for each sample."""
    needs_compiler()
    op = gc.from_kernel(SQUARES, reference=np.square, backward=lambda F, grad, x: 2 * grad * x)
    for device in ("cpu", strict):
        x = gc.ones(3, 2, device=device) * 3
        assert gc.func.vmap(op)(x).tolist() == [[9.0, 9.0]] * 3
        assert gc.func.vmap(gc.func.grad(lambda x: op(x).sum()))(x).tolist() == [[6.0, 6.0]] * 3
        assert gc.func.vmap(gc.func.vmap(op))(x.reshape(3, 2, 1)).tolist() == [[[9.0], [9.0]]] * 3


def test_settings_that_do_not_fit(strict: str) -> None:
    needs_compiler()
    with pytest.raises(ValueError, match="no integer parameter named width"):
        gc.from_kernel(FILTER, sizes={"width": lambda x: 1})
    op = recursive_filter(None)
    with pytest.raises(TypeError, match="missing"):
        op(gc.ones(2, 2))
    with pytest.raises(ValueError, match="expressions are for elementwise kernels"):
        gc.from_kernel(SQUARES, backward="2 * x * grad")


def test_signatures() -> None:
    found = read_signature("template<class U> __global__ void f(const U *__restrict__ x, U* y, const int n) {}")
    assert [tuple(p) for p in found.parameters] == [
        ("x", "T", "input"),
        ("y", "T", "output"),
        ("n", "int32", "setting"),
    ]
    assert found.source.startswith('using U = GRADCORE_T;\nextern "C" __global__ void f(')
