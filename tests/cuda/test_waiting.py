"""Which operations make the host wait for the device, in any of their derivatives: those that must, and they tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.autograd import forward_ad
from gradcore.backends import sync_debug
from gradcore.ops.declare.table import OPS
from tests.ops.cases import ALL, Drawn, names_of_operations
from tests.strict.device import COUNTS

#: Why operations wait that are not said to read their arguments, and which of them do.
MUST = {
    "a factorisation that failed raises, as in PyTorch": [
        "banded_solved", "cholesky", "inverse", "linalg_cholesky", "linalg_cond", "linalg_eig", "linalg_eigh",
        "linalg_eigvals", "linalg_eigvalsh", "linalg_inv", "linalg_lstsq", "linalg_lu_factor", "linalg_matrix_norm",
        "linalg_matrix_power", "linalg_matrix_rank", "linalg_norm", "linalg_pinv", "linalg_solve", "linalg_svd",
        "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve", "lu", "matrix_power", "norm", "nuclear_norm",
        "pca_lowrank", "pinverse", "polar_factors", "svd", "svd_lowrank",
    ],
    "CuPy's functions read whether they failed": ["linalg_cholesky_ex"],
    "the number of squarings follows from the norms": ["linalg_matrix_exp", "matrix_exp"],
    # By the inverse for regular matrices only. PyTorch does not ask: it makes pivots that are zero tiny, but multiplies
    # by the determinant, which is zero then, as is its first derivative; it asks too where that is differentiated.
    # Times the determinant of the changed pivots the first derivative would be right, but the second one, a difference
    # of squares of that inverse, has no digit left.
    "the derivatives at singular matrices need the singular values": ["det", "linalg_det"],
    "the recursion goes to the highest degree among the elements": [
        "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
        "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w",
    ],
    "arguments are looked at, as in PyTorch": ["gaussian_nll_loss", "histogram", "histogramdd", "istft"],
    "a mask among the indices": ["index_put"],
    "the CPU computes it": [
        "airy_ai", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve", "special_of_one",
    ],
    "a list is an argument": ["gradient"],
}  # fmt: skip
KNOWN = {name for names in MUST.values() for name in names}


class Waits:
    """How often each part of an operation on a device waited or copied, by counts, once what it keeps is there."""

    def __init__(self, device: str, counted: Callable[[], Counter[str]]) -> None:
        self.device, self.counted = device, counted
        self.counts: dict[str, Counter[str]] = {}

    def measure(self, part: str, work: Callable[[], Any]) -> Any:
        work()
        before, told = self.counted(), sync_debug.COUNTS.total()
        result = work()
        found = self.counted()
        found.subtract(before)
        found = +found
        if found:
            assert sync_debug.COUNTS.total() > told, f"{part} waits and does not tell: {found}"
            self.counts.setdefault(part, Counter()).update(found)
        return result

    def of(self, case: Drawn) -> None:
        """Forward, backward, backward that is recorded, its backward, forward mode."""
        which, grad = case.differentiable(), gc.autograd.grad
        inputs = [gc.tensor(np.asarray(a), device=self.device) for a in case.arrays()]
        variables = [t.detach().clone().requires_grad_() if i in which else t for i, t in enumerate(inputs)]
        outs = self.measure("forward", lambda: case.outputs(variables))
        outs = [o for o in outs if o.requires_grad]
        wanted = [variables[i] for i in which]
        if not outs:
            return
        upstream = [gc.ones_like(o).requires_grad_() for o in outs]
        again: Any = {"retain_graph": True, "allow_unused": True}
        self.measure("backward", lambda: grad(outs, wanted, [u.detach() for u in upstream], **again))
        slopes = self.measure("recorded", lambda: grad(outs, wanted, upstream, create_graph=True, allow_unused=True))
        slopes = [s for s in slopes if s is not None and s.requires_grad]
        if slopes:
            ones = [gc.ones_like(s) for s in slopes]
            self.measure("second", lambda: grad(slopes, [*wanted, *upstream], ones, **again))
        tangents = {i: gc.ones_like(inputs[i]) for i in which}

        def push() -> None:
            with forward_ad.dual_level():
                case.outputs([forward_ad.make_dual(t, tangents[i]) if i in which else t for i, t in enumerate(inputs)])

        self.measure("forward mode", push)


def cases_of(name: str) -> list[Drawn]:
    return [case for case in ALL if case.op.name == name]


@pytest.mark.sampled(80)
@pytest.mark.parametrize("name", names_of_operations())
@pytest.mark.filterwarnings("ignore")
def test_what_waits(strict: str, name: str) -> None:
    waits = Waits("strict:0", lambda: Counter(COUNTS))
    with np.errstate(all="ignore"):
        for case in cases_of(name):
            waits.of(case)
    if name in KNOWN:
        assert waits.counts, f"{name} does not wait, and is said to"
    elif OPS[name].data_dependent:
        assert not waits.counts.keys() - {"forward", "forward mode"}
    else:
        assert not waits.counts


MASKS: dict[str, Callable[[Any, Any], Any]] = {
    "x[mask]": lambda x, mask: x[mask],
    "x[mask of rows]": lambda x, mask: x[mask[:, 0]],
    "masked_select": lambda x, mask: x.masked_select(mask),
}


@pytest.mark.parametrize("name", MASKS)
def test_backward_of_masks_does_not_wait(strict: str, name: str) -> None:
    rng, grads = np.random.default_rng(0), []
    values, holds, weights = rng.standard_normal((4, 3)), rng.random((4, 3)) < 0.5, rng.standard_normal(12)
    for device in ("cpu", strict):
        x = gc.tensor(values, device=device, requires_grad=True)
        out = MASKS[name](x, gc.tensor(holds, device=device))
        loss = (out * gc.tensor(weights[: out.numel()], device=device).reshape(out.shape)).sum()
        before = Counter(COUNTS)
        loss.backward()
        assert before == COUNTS
        grads.append(x.grad.cpu().numpy())
    np.testing.assert_array_equal(*grads)


CALLS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda x: x + gc.tensor(2.5, device=x.device),
    "a number of the host": lambda x: x + gc.tensor(2.5).to(x.device),
    "write a number by index": lambda x: x.index_fill(0, x.argsort(), 3.0),
    "assign a number by index": lambda x: x.clone().__setitem__(x.argsort(), 1.0),
    "one_hot with the number of classes": lambda x: gc.nn.functional.one_hot(x.argsort(), 5),
    "repeat_interleave with the size": lambda x: x.repeat_interleave(x.argsort(), output_size=6),
    "quantile": lambda x: x.quantile(x.clamp(0, 1)),
    "isin": lambda x: gc.isin(x, 1.0),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x),
    "rows by a list": lambda x: x[[0, 2]],
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_do_not_wait(strict: str, name: str) -> None:
    x = gc.tensor([0.5, -1.0, 2.0, 0.25], device=strict)
    CALLS[name](x)
    before = Counter(COUNTS)
    found = CALLS[name](x)
    assert before == COUNTS
    if found is not None:
        assert gc.equal(found.cpu(), CALLS[name](x.cpu()))


def test_errors_of_what_is_not_waited_for(strict: str) -> None:
    """They come when the host next waits."""
    x = gc.tensor([0.5, 1.0, 2.0], device=strict)
    wrong: dict[str, Callable[[], Any]] = {
        "Number of elements of source < number of ones in mask": lambda: x.masked_scatter(x > 0, x[:2]),
        "Class values must be smaller than num_classes": lambda: gc.nn.functional.one_hot(x.argsort(), 2),
    }
    for message, call in wrong.items():
        call()
        with pytest.raises(IndexError, match=message):
            x.cpu()
