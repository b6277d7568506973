"""einops knows gradcore's tensors, whichever of both is imported first."""

import subprocess
import sys

import pytest

import gradcore as gc

einops = pytest.importorskip("einops")

PATTERNS = [
    (einops.rearrange, "a b c -> c (a b)", {}),
    (einops.rearrange, "a (b1 b2) c -> b2 a b1 c", {"b1": 2}),
    (einops.repeat, "a b c -> a r b (c s)", {"r": 2, "s": 3}),
    *((einops.reduce, "a b (c d) -> a d", {"d": 2, "reduction": how}) for how in ("sum", "mean", "max", "min", "prod")),
]


@pytest.mark.parametrize(("function", "pattern", "sizes"), PATTERNS)
def test_results_and_gradients_are_those_of_arrays(function, pattern, sizes):
    x = gc.arange(1.0, 25.0, dtype=gc.float64).reshape(2, 4, 3)
    x = gc.cat([x, x + 0.5], 2).requires_grad_()
    found = function(x, pattern, **sizes)
    assert gc.equal(found.detach(), gc.from_numpy(function(x.detach().numpy(), pattern, **sizes).copy()))
    assert gc.autograd.gradcheck(lambda x: function(x, pattern, **sizes), (x / 10,))


def test_pack_einsum_and_shapes():
    x = gc.ones(2, 3, 4, requires_grad=True)
    packed, shapes = einops.pack([x, gc.zeros(2, 4)], "a * c")
    assert packed.shape == (2, 4, 4)
    assert [t.shape for t in einops.unpack(packed, shapes, "a * c")] == [(2, 3, 4), (2, 4)]
    assert einops.einsum(x, x, "a b c, a b d -> c d").grad_fn is not None
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4}
    assert einops.asnumpy(x.detach()).shape == (2, 3, 4)


@pytest.mark.parametrize("first", ["import einops, gradcore", "import gradcore, einops"])
def test_either_may_be_imported_first(first):
    program = f"{first}; print(einops.rearrange(gradcore.ones(2, 3), 'a b -> b a').shape)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "torch.Size([3, 2])\n"
