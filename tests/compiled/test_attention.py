"""The kernels of attention agree with the portable ones, in all layouts, and with any number of threads."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.backends.compiled.attention import CompiledAttention
from gradcore.backends.numpy.openblas import NUMPY
from gradcore.backends.registry import CPU
from tests.compiled.conftest import Ran

SCALE = 0.3
TOLERANCE = {"f": 2e-5, "d": 1e-12}
#: Batch dims; queries, keys, width and width of values. Blocks have 16 to 1,024 queries, 64 if later keys are hidden.
SHAPES = [
    ((2, 3), (5, 7, 4, 3)),
    ((), (1, 1, 1, 1)),
    ((8, 4), (32, 32, 32, 32)),
    ((3,), (130, 129, 17, 33)),
    ((1, 2), (300, 70, 16, 8)),
    ((1,), (70, 1100, 5, 16)),
    ((2,), (1, 40, 8, 8)),
    ((2,), (40, 1, 8, 8)),
    ((4,), (9, 9, 1, 1)),
]
LAYOUTS = "contiguous", "heads inside", "transposed", "reversed"

pytestmark = pytest.mark.skipif(NUMPY.function("sgemm") is None, reason="NumPy has another BLAS")


def arrange(x: Any, layout: str) -> Any:
    """Return a copy of `x` with another layout in memory."""
    if layout == "heads inside" and x.ndim > 2:
        return np.moveaxis(np.moveaxis(x, -3, -2).copy(), -2, -3)
    if layout == "transposed":
        return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    return x[..., ::-1, :].copy()[..., ::-1, :] if layout == "reversed" else x.copy()


def draw(lead: tuple[int, ...], sizes: tuple[int, ...], char: str, layout: str) -> tuple[Any, ...]:
    """Return queries, keys, values, a gradient of the result, and a mask without batch dims."""
    queries, keys, width, of_value = sizes
    rng = np.random.default_rng(0)
    shapes = (queries, width), (keys, width), (keys, of_value), (queries, of_value)
    arrays = [arrange(rng.standard_normal((*lead, *shape)).astype(char), layout) for shape in shapes]
    mask = rng.standard_normal((queries, keys)).astype(char)
    mask[rng.random(mask.shape) < 0.3] = -np.inf
    mask[queries // 2] = -np.inf
    return *arrays, mask


def agree(found: Any, expected: Any, char: str) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype.char == char
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[char] * (np.abs(b).max() + 1))


def masks_of(arrays: tuple[Any, ...]) -> dict[str, Any]:
    """Return masks by name, among them views that repeat a row or a column."""
    query, key, mask = arrays[0], arrays[1], arrays[-1]
    of_heads = np.random.default_rng(1).standard_normal((*query.shape[:-1], key.shape[-2])).astype(query.dtype)
    return {
        "none": None,
        "shared": mask,
        "column": mask[:, :1],
        "row": of_heads.reshape(-1, key.shape[-2])[0],
        "heads": of_heads,
        "turned": mask.T.copy().T,
        "some": arrange(np.repeat(mask, 2, 1), "contiguous")[:, ::2],
    }


def compute(
    backend: Any, arrays: tuple[Any, ...], mask: Any, causal: bool, needs: tuple[bool, ...] = (True,) * 3
) -> Any:
    """Return results and gradients of the kernels that save weights, and of those that do not."""
    query, key, value, grad, _ = arrays
    inputs = query, key, value, mask
    out, weights = backend.attention(*inputs, SCALE, causal)
    result, logs = backend.flash_attention(*inputs, SCALE, causal)
    needs = *needs, False
    gradients = backend.attention_backward(grad, None, query, key, value, weights, SCALE, causal, needs)
    again = backend.flash_attention_backward(grad, *inputs, result, logs, SCALE, causal, None, needs)
    return [out, weights, *gradients], [result, logs, *again]


def expect(arrays: tuple[Any, ...], mask: Any, causal: bool) -> Any:
    """Return what `compute` has to, by the definition and in double precision."""
    query, key, value, grad = (a.astype("d") for a in arrays[:4])
    scores = query @ key.swapaxes(-1, -2) * SCALE + (0 if mask is None else mask.astype("d"))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = powers.sum(-1, keepdims=True)
    logs = np.where(total == 0, 0, top + np.log(total))
    weights = powers / np.where(total == 0, 1, total)
    of_weights = grad @ value.swapaxes(-1, -2)
    of_scores = (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * weights * SCALE
    gradients = of_scores @ key, of_scores.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ grad, None
    return [weights @ value, weights, *gradients], [weights @ value, logs, *gradients]


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("lead", "sizes"), SHAPES)
@pytest.mark.usefixtures("two_threads")
def test_results_and_gradients(
    compiled: Any, ran: Ran, lead: tuple[int, ...], sizes: Any, layout: str, causal: bool, char: str
) -> None:
    assert isinstance(compiled, CompiledAttention)
    arrays = draw(lead, sizes, char, layout)
    mask = None if causal else arrays[-1]
    found = compute(compiled, arrays, mask, causal)
    assert sorted(ran) == sorted([(name, char) for name in ("attention", "attention_backward") for _ in range(2)])
    for results, right in zip(found, expect(arrays, mask, causal), strict=True):
        agree(results, right, char)
    gc.set_num_threads(1)
    for shared, alone in zip(found, compute(compiled, arrays, mask, causal), strict=True):
        for a, b in zip(shared[:5], alone[:5], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("name", ["none", "shared", "column", "row", "heads", "turned", "some"])
@pytest.mark.parametrize(("lead", "sizes"), [((2, 3), (5, 7, 4, 3)), ((1, 2), (130, 300, 16, 8))])
def test_masks(compiled: Any, ran: Ran, lead: tuple[int, ...], sizes: Any, name: str, char: str) -> None:
    arrays = draw(lead, sizes, char, "contiguous")
    mask = masks_of(arrays)[name]
    for results, right in zip(compute(compiled, arrays, mask, False), expect(arrays, mask, False), strict=True):
        agree(results, right, char)
    assert len(ran) == 4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "needs", [(True, False, False), (False, True, False), (False, False, True), (False, True, True)]
)
def test_only_gradients_that_are_needed(compiled: Any, needs: tuple[bool, ...], causal: bool) -> None:
    arrays = draw((2,), (70, 80, 4, 3), "d", "contiguous")
    for results, right in zip(
        compute(compiled, arrays, None, causal, needs), expect(arrays, None, causal), strict=True
    ):
        gradients = [a if is_needed else None for a, is_needed in zip(right[2:5], needs, strict=True)]
        agree(results, [*right[:2], *gradients, None], "d")


@pytest.mark.parametrize("keeps", [False, True])
def test_keys_that_later_queries_see_alone_may_be_nan(compiled: Any, keeps: bool) -> None:
    query, key, value, *_ = draw((2,), (70, 80, 4, 3), "f", "contiguous")
    kernel = compiled.attention if keeps else compiled.flash_attention
    expected, _ = kernel(query, key, value, None, SCALE, True)
    key[:, 66:] = np.nan
    found, _ = kernel(query, key, value, None, SCALE, True)
    np.testing.assert_array_equal(found[:, :66], expected[:, :66])
    assert np.isnan(found[:, 66:]).all()
    assert np.isnan(kernel(query, key, value, None, SCALE)[0]).all()


@pytest.mark.parametrize("layout", ["heads inside", "transposed", "reversed", "Fortran"])
@pytest.mark.parametrize("keeps", [False, True])
def test_what_is_saved_may_have_any_layout(compiled: Any, keeps: bool, layout: str) -> None:
    """A hook for saved tensors may return copies with other strides."""
    query, key, value, grad, _ = draw((2, 3), (5, 7, 4, 3), "d", "contiguous")
    arrays, needs = (query, key, value), (True, True, True, False)
    results = []
    for lay_out in (lambda x: x, lambda x: np.asfortranarray(x) if layout == "Fortran" else arrange(x, layout)):
        if keeps:
            weights = lay_out(compiled.attention(*arrays, None, SCALE)[1])
            results.append(compiled.attention_backward(grad, None, *arrays, weights, SCALE, False, needs))
        else:
            out, logs = map(lay_out, compiled.flash_attention(*arrays, None, SCALE))
            saved = None, out, logs
            results.append(compiled.flash_attention_backward(grad, *arrays, *saved, SCALE, False, None, needs))
    agree(results[1], results[0], "d")


def test_heads_keep_their_order_in_memory(compiled: Any) -> None:
    """Heads are then joined without a copy."""
    arrays = draw((2, 3), (5, 5, 4, 4), "f", "heads inside")
    for results in compute(compiled, arrays, None, False):
        for array in (results[0], *results[2:5]):
            assert array.swapaxes(1, 2).flags.c_contiguous


@pytest.mark.parametrize(
    "arguments",
    [
        lambda q, k, v: (q[:1], k, v, None, SCALE),
        lambda q, k, v: (q.astype("d"), k, v, None, SCALE),
        lambda q, k, v: (q, k, v, np.zeros((5, 7), bool), SCALE),
        lambda q, k, v: (q, k, v, np.zeros((5, 7), "d"), SCALE),
        lambda q, k, v: (q, k, v, np.zeros((4, 1, 5, 7), "f"), SCALE),
        lambda q, k, v: (q, k, v, None, 0.0),
        lambda q, k, v: (q, k, v, None, np.inf),
        lambda q, k, v: (q[:, :0], k, v, None, SCALE),
    ],
    ids=["batch", "dtypes", "bools", "dtype of mask", "batch of masks", "zero", "infinity", "empty"],
)
def test_other_arguments_are_left_to_numpy(compiled: Any, ran: Ran, arguments: Any) -> None:
    inputs = arguments(*draw((3,), (5, 7, 4, 3), "f", "contiguous")[:3])
    found, expected = compiled.attention(*inputs), CPU.backend.attention(*inputs)
    assert not [name for name, _ in ran if name == "attention"]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5)


NEEDS = True, True, True, False


@pytest.mark.parametrize(
    "call",
    [
        lambda c, q, k, v, g, w, s: c.attention(q, k[..., :-1], v, None, SCALE),
        lambda c, q, k, v, g, w, s: c.attention(q, k[..., :-1, :], v, None, SCALE),
        lambda c, q, k, v, g, w, s: c.flash_attention(q, k, v[..., :-1, :], None, SCALE),
        lambda c, q, k, v, g, w, s: c.attention_backward(g[..., :-1], None, q, k, v, w, SCALE, False, NEEDS),
        lambda c, q, k, v, g, w, s: c.attention_backward(g, None, q, k, v, w[..., :-1], SCALE, False, NEEDS),
        lambda c, q, k, v, g, w, s: c.attention_backward(g, None, q, k, v, w[..., :1, :], SCALE, False, NEEDS),
        lambda c, q, k, v, g, w, s: c.flash_attention_backward(
            g, q, k, v, None, g, s[..., :1, :], SCALE, False, None, NEEDS
        ),
        lambda c, q, k, v, g, w, s: c.flash_attention_backward(g, q, k, v, None, g, w, SCALE, False, None, NEEDS),
    ],
    ids=["width", "keys", "values", "gradient", "columns of weights", "rows of weights", "sums", "columns of sums"],
)
def test_arrays_whose_shapes_do_not_fit_reach_no_kernel(compiled: Any, ran: Ran, call: Any) -> None:
    """Kernels do not check shapes. NumPy's raise errors, or broadcast."""
    query, key, value, grad, _ = draw((3,), (8, 7, 4, 4), "f", "contiguous")
    with contextlib.suppress(ValueError, RuntimeError):
        call(compiled, query, key, value, grad, np.ones((3, 8, 7), "f"), np.ones((3, 8, 1), "f"))
    assert not ran
