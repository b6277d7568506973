"""Transformers of gradcore and of PyTorch with the same state: results, gradients, printing."""

from __future__ import annotations

import io

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")]

S, T, N, E = 4, 3, 2, 8
CAUSAL = {n: np.triu(np.full((n, n), -np.inf, np.float32), 1) for n in (S, T)}
HIDDEN = {n: np.triu(np.ones((n, n), bool), 1) for n in (S, T)}
PADDING = {n: np.array([[False] * n, [False] * (n - 1) + [True]]) for n in (S, T)}
SCORES = np.linspace(-1, 1, N * 2 * S * S, dtype=np.float32).reshape(N * 2, S, S)
TO_MEMORY = np.linspace(-1, 1, T * S, dtype=np.float32).reshape(T, S)


def twins(make):
    """Return the same module in both libraries, with an equal state that differs from PyTorch's initialization."""
    torch.manual_seed(0)
    theirs = make(torch)
    for p in theirs.parameters():
        torch.nn.init.uniform_(p, -0.5, 0.5)
    ours = make(gradcore)
    file = io.BytesIO()
    torch.save(theirs.state_dict(), file)
    file.seek(0)
    assert ours.load_state_dict(gradcore.load(file)) == ([], [])
    assert repr(ours) == repr(theirs)
    assert [(n, tuple(p.shape)) for n, p in ours.named_parameters()] == [
        (n, tuple(p.shape)) for n, p in theirs.named_parameters()
    ]
    return ours, theirs


def compare(make, inputs, masks):
    """Results and all gradients of both."""
    ours, theirs = twins(make)
    found, expected = [], []
    for T_, model, out in ((gradcore, ours, found), (torch, theirs, expected)):
        xs = [T_.tensor(x, requires_grad=True) for x in inputs]
        given = {k: T_.tensor(v) if isinstance(v, np.ndarray) else v for k, v in masks.items()}
        y = model(*xs, **given)
        (y * y.sin()).sum().backward()
        out += [y.detach().numpy(), *(x.grad.numpy() for x in xs), *(p.grad.numpy() for p in model.parameters())]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5)


def inputs(*lengths, batch_first=False, alone=False):
    rng = np.random.default_rng(0)
    shapes = [(n, E) if alone else (N, n, E) if batch_first else (n, N, E) for n in lengths]
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


SETTINGS = [
    {}, {"norm_first": True}, {"batch_first": True}, {"activation": "gelu"}, {"bias": False, "norm_first": True},
    {"layer_norm_eps": 0.1},
]  # fmt: skip
ENCODER_MASKS = [
    {}, {"src_mask": CAUSAL[S]}, {"src_mask": HIDDEN[S], "is_causal": True}, {"src_mask": SCORES},
    {"src_key_padding_mask": PADDING[S]}, {"src_mask": HIDDEN[S], "src_key_padding_mask": PADDING[S]},
]  # fmt: skip
DECODER_MASKS = [
    {}, {"tgt_mask": CAUSAL[T], "tgt_is_causal": True}, {"memory_mask": TO_MEMORY},
    {"tgt_key_padding_mask": PADDING[T], "memory_key_padding_mask": PADDING[S], "tgt_mask": HIDDEN[T]},
]  # fmt: skip


def name(value):
    return "-".join(map(str, value)) or "plain" if isinstance(value, dict) else None


@pytest.mark.parametrize("masks", ENCODER_MASKS, ids=name)
@pytest.mark.parametrize("settings", SETTINGS, ids=name)
def test_encoder_layer(settings, masks):
    xs = inputs(S, batch_first=settings.get("batch_first", False))
    compare(lambda lib: lib.nn.TransformerEncoderLayer(E, 2, 16, 0.0, **settings), xs, masks)


@pytest.mark.parametrize("masks", DECODER_MASKS, ids=name)
@pytest.mark.parametrize("settings", SETTINGS, ids=name)
def test_decoder_layer(settings, masks):
    xs = inputs(T, S, batch_first=settings.get("batch_first", False))
    compare(lambda lib: lib.nn.TransformerDecoderLayer(E, 2, 16, 0.0, **settings), xs, masks)


@pytest.mark.parametrize("activation", ["Tanh", "functional.silu"])
def test_activations_of_ones_own(activation):
    def make(lib):
        found = lib.nn.Tanh() if activation == "Tanh" else lib.nn.functional.silu
        return lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(E, 2, 16, 0.0, found), 2)

    compare(make, inputs(S), {})


@pytest.mark.parametrize("alone", [False, True], ids=["batch", "alone"])
@pytest.mark.parametrize("norm", [False, True])
def test_encoder(norm, alone):
    def make(lib):
        layer = lib.nn.TransformerEncoderLayer(E, 2, 16, 0.0)
        return lib.nn.TransformerEncoder(layer, 2, lib.nn.LayerNorm(E) if norm else None)

    compare(make, inputs(S, alone=alone), {"mask": CAUSAL[S]})


@pytest.mark.parametrize(
    "masks",
    [{}, {"src_mask": CAUSAL[S], "tgt_mask": CAUSAL[T], "memory_mask": TO_MEMORY},
     {"src_key_padding_mask": PADDING[S], "tgt_key_padding_mask": PADDING[T], "memory_key_padding_mask": PADDING[S]},
     {"tgt_mask": CAUSAL[T], "tgt_is_causal": True}],
    ids=name,
)  # fmt: skip
@pytest.mark.parametrize("settings", [{}, {"batch_first": True, "norm_first": True}, {"bias": False}], ids=name)
def test_whole(settings, masks):
    xs = inputs(S, T, batch_first=settings.get("batch_first", False))
    compare(lambda lib: lib.nn.Transformer(E, 2, 2, 1, 16, 0.0, **settings), xs, masks)


def test_second_derivatives():
    found, expected = [], []
    ours, theirs = twins(lambda lib: lib.nn.TransformerDecoderLayer(E, 2, 16, 0.0).double())
    for lib, model, out in ((gradcore, ours, found), (torch, theirs, expected)):
        xs = [lib.tensor(x, requires_grad=True, dtype=lib.float64) for x in inputs(T, S)]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the one with second derivatives
            y = model(*xs, tgt_mask=lib.tensor(CAUSAL[T], dtype=lib.float64))
        grads = lib.autograd.grad((y * y.sin()).sum(), xs, create_graph=True)
        sum((g * g).sum() for g in grads).backward()
        out += [x.grad.numpy() for x in xs] + [p.grad.numpy() for p in model.parameters()]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_first_values_have_the_same_spread():
    """Matrices are drawn within Glorot's bounds, offsets of attentions and norms are zero, factors one."""
    models = [lib.nn.Transformer(32, 2, 1, 1, 64) for lib in (gradcore, torch)]
    for (label, p), (_, q) in zip(models[0].named_parameters(), models[1].named_parameters(), strict=True):
        bounds = [float(t.detach().abs().max()) for t in (p, q)]
        np.testing.assert_allclose(*bounds, rtol=0.2, atol=1e-6, err_msg=label)


def test_causal_masks():
    ours, theirs = (lib.nn.Transformer.generate_square_subsequent_mask(4) for lib in (gradcore, torch))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert gradcore.nn.Transformer.generate_square_subsequent_mask(2, dtype=gradcore.float64).dtype is gradcore.float64
