"""Transformers: masks and hints, dropout, layers of one's own, errors, other devices."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import gradcore as gc
from gradcore import nn

CAUSAL = nn.Transformer.generate_square_subsequent_mask(4)


class Noting(nn.TransformerEncoderLayer):
    """A layer that notes how its attention is called."""

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        self.noted = is_causal
        return super()._sa_block(x, attn_mask, key_padding_mask, is_causal)


@pytest.mark.parametrize(
    ("mask", "hint", "expected"),
    [(CAUSAL, None, True), (CAUSAL < 0, None, True), (CAUSAL, False, False), (CAUSAL.T, None, False),
     (None, None, False), (CAUSAL.T, True, True), (CAUSAL.expand(4, 4, 4), None, False)],
)  # fmt: skip
def test_causal_masks_are_recognised(mask: Any, hint: Any, expected: bool) -> None:
    net = nn.TransformerEncoder(Noting(8, 2, 16), 1)
    net(gc.rand(4, 2, 8), mask, is_causal=hint)
    assert net.layers[0].noted is expected


def test_a_causal_transformer_does_not_look_ahead() -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)
    x = gc.rand(4, 1, 8, requires_grad=True)
    net(x, CAUSAL)[1].sin().sum().backward()
    assert (x.grad[:2].abs().sum((1, 2)) > 0).all()
    assert not x.grad[2:].any()


def test_padding_is_not_seen() -> None:
    net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    src = gc.rand(1, 4, 8, requires_grad=True)
    padding = gc.tensor([[False, False, True, True]])
    out = net(src, gc.rand(1, 3, 8), src_key_padding_mask=padding, memory_key_padding_mask=padding)
    out.sin().sum().backward()
    assert not src.grad[0, 2:].any()
    assert src.grad[0, :2].any()


def test_dropout_is_for_training() -> None:
    net = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.5)
    args = gc.rand(3, 2, 8), gc.rand(4, 2, 8)
    assert not gc.equal(net(*args), net(*args))
    net.eval()
    assert gc.equal(net(*args), net(*args))


def test_layers_of_a_stack_are_copies() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    net = nn.TransformerEncoder(layer, 2)
    a, b = (net.layers[i].linear1.weight for i in range(2))
    assert a is not b
    assert a is not layer.linear1.weight
    assert gc.equal(a, b)


def test_copies_and_pickles() -> None:
    net = nn.Transformer(8, 2, 1, 1, 16, activation="gelu").eval()
    args = gc.rand(3, 2, 8), gc.rand(4, 2, 8)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert gc.equal(other(*args), net(*args))


def test_custom_encoder_and_decoder() -> None:
    class Double(nn.Module):
        def forward(self, x: Any, *others: Any, **masks: Any) -> Any:
            return 2 * (x + (others[0] if others else 0))

    net = nn.Transformer(8, 2, custom_encoder=Double(), custom_decoder=Double())
    assert not list(net.parameters())
    x, y = gc.rand(3, 2, 8), gc.rand(4, 2, 8)[:3]
    assert gc.equal(net(x, y), 2 * (y + 2 * x))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"), RuntimeError, "activation should be relu/gelu"),
        (lambda: nn.Transformer(8, 2, 1, 1, 16)(gc.ones(3, 2, 8), gc.ones(3, 1, 8)), RuntimeError,
         "the batch number of src and tgt must be equal"),
        (lambda: nn.Transformer(8, 2, 1, 1, 16)(gc.ones(3, 2, 8), gc.ones(3, 2, 6)), RuntimeError,
         "the feature number of src and tgt must be equal to d_model"),
        (lambda: nn.TransformerEncoderLayer(8, 2)(gc.ones(3, 2, 8), gc.ones(3, 3, dtype=gc.int64)), AssertionError,
         "only bool and floating types of src_mask are supported"),
        (lambda: nn.TransformerEncoderLayer(8, 2)(gc.ones(3, 2, 8), is_causal=True), RuntimeError,
         "Need attn_mask if specifying the is_causal hint"),
        (lambda: nn.TransformerEncoderLayer(8, 3), AssertionError, "embed_dim must be divisible by num_heads"),
    ],
)  # fmt: skip
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_masks_of_different_kinds_warn() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    with pytest.warns(UserWarning, match="Support for mismatched src_key_padding_mask and src_mask is deprecated"):
        layer(gc.rand(4, 2, 8), CAUSAL, gc.zeros(2, 4, dtype=gc.bool))


def test_on_a_device(strict: str) -> None:
    net = nn.Transformer(8, 2, 1, 1, 16, device=strict)
    src, tgt = (gc.rand(n, 2, 8, device=strict, requires_grad=True) for n in (4, 3))
    mask = net.generate_square_subsequent_mask(3, device=strict)
    net(src, tgt, tgt_mask=mask, src_mask=CAUSAL.to(strict) < 0).sin().sum().backward()
    assert {str(t.grad.device) for t in [src, tgt, *net.parameters()]} == {strict}


def test_batches_of_samples() -> None:
    """Per-sample gradients by `vmap` are those of one sample after the other."""
    net = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    parameters, xs = dict(net.named_parameters()), gc.rand(3, 5, 4)

    def loss(p: Any, x: Any) -> Any:
        return gc.func.functional_call(net, p, (x,)).sin().sum()

    together = gc.vmap(gc.func.grad(loss), (None, 0))(parameters, xs)
    for i in range(3):
        alone = gc.func.grad(loss)(parameters, xs[i])
        for name, g in alone.items():
            assert gc.allclose(together[name][i], g, rtol=1e-4, atol=1e-5), name


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
@pytest.mark.parametrize("size", [4, 32, 200])  # kernels that keep the weights, and others that do not
def test_probabilities_of_attention_are_checked(p: float, size: int) -> None:
    message = f"dropout probability has to be between 0 and 1, but got {p}"
    q, k = gc.ones(2, 4, size, 8), gc.ones(2, 2, size, 8)
    layer = nn.MultiheadAttention(8, 2)
    layer.dropout = p
    state = gc.get_rng_state()
    for key, grouped in ((q, False), (k, True)):
        with pytest.raises(ValueError, match=message):
            nn.functional.scaled_dot_product_attention(q, key, key, dropout_p=p, enable_gqa=grouped)
    with pytest.raises(ValueError, match=message):
        layer(q[0], q[0], q[0], need_weights=False)
    assert gc.equal(gc.get_rng_state(), state)
