"""Files are PyTorch's: each library reads what the other one has written."""

from __future__ import annotations

import collections
import copy
import io
import random

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

LIBRARIES = {"gradcore": gradcore, "torch": torch}


def content(T):
    a = T.arange(6.0).reshape(2, 3)
    p = T.nn.Parameter(T.ones(2), requires_grad=False)
    p.note = "mine"
    net = T.nn.Sequential(T.nn.Linear(2, 3), T.nn.BatchNorm1d(3))
    for q in net.parameters():
        T.nn.init.constant_(q, 0.5)
    x = T.ones(2, requires_grad=True)
    return {
        "a": a, "column": a.t()[1], "p": p, "q": T.nn.Parameter(T.zeros(1)), "buffer": T.nn.Buffer(T.ones(2)),
        "shape": a.shape, "dtype": T.float16, "device": T.device("cpu"), "bf": a.bfloat16(), "half": a.half(),
        "bool": a > 2, "c": T.tensor([1 + 2j]), "int": T.tensor(3), "none": T.zeros(0, 3), "state": net.state_dict(),
        "leaf": x, "result": x * 2, "others": [1, 2.5, None, "text", b"bytes", 1j, {1, 2}, (3, 4)],
    }  # fmt: skip


def described(value):
    if isinstance(value, (torch.Tensor, gradcore.Tensor)):
        known = type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad
        stride = tuple(value.stride()) if value.numel() else None
        return (*known, stride, value.detach().float().tolist() if not value.is_complex() else None)
    if isinstance(value, dict):
        return type(value).__name__, {key: described(v) for key, v in value.items()}
    return [described(v) for v in value] if isinstance(value, list) else repr(value)


@pytest.mark.parametrize("source", LIBRARIES)
@pytest.mark.parametrize("target", LIBRARIES)
def test_each_reads_what_the_other_writes(source, target):
    file = io.BytesIO()
    LIBRARIES[source].save(content(LIBRARIES[source]), file)
    file.seek(0)
    found = LIBRARIES[target].load(file)
    expected = content(LIBRARIES[target])
    for name, value in expected.items():
        ours, theirs = described(found[name]), described(value)
        if name == "buffer":
            ours, theirs = ours[1:], theirs[1:]
        assert ours == theirs, name
    assert found["p"].note == "mine"
    assert found["state"]._metadata == expected["state"]._metadata
    found["a"][0, 1] = 7.0
    assert float(found["column"][0]) == 7.0


def test_a_model_moves_to_pytorch_and_back():
    ours, theirs = gradcore.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    file = io.BytesIO()
    gradcore.save(ours.state_dict(), file)
    file.seek(0)
    theirs.load_state_dict(torch.load(file))
    x = np.ones((1, 3), np.float32)
    np.testing.assert_allclose(
        theirs(torch.tensor(x)).detach().numpy(), ours(gradcore.tensor(x)).detach().numpy(), rtol=1e-6
    )


def further(T):
    noted = T.ones(2)
    noted.note = {"a": [1]}
    return {
        "counter": collections.Counter("aab"), "layout": T.strided, "pair": T.tensor([[1.0, 3.0]]).max(1),
        "noted": noted, "meta": T.ones(3, 2, device="meta").t(), "lazy": T.nn.UninitializedParameter(),
        "storage": T.ones(2).storage(), "bytes": T.ones(2).untyped_storage(),
        **{f"uint{n}": T.tensor([1, 2]).to(getattr(T, f"uint{n}")) for n in (16, 32, 64)},
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("source", LIBRARIES)
@pytest.mark.parametrize("target", LIBRARIES)
@pytest.mark.parametrize("name", further(gradcore))
def test_further_kinds_of_objects(source, target, name):
    file = io.BytesIO()
    LIBRARIES[source].save(further(LIBRARIES[source])[name], file)
    file.seek(0)
    # PyTorch calls some of its own names unsafe.
    found = LIBRARIES[target].load(file, **({"weights_only": False} if target == "torch" else {}))
    expected = further(LIBRARIES[target])[name]
    if name in ("storage", "bytes"):
        assert list(found) == list(expected)
        assert found.nbytes() == expected.nbytes()
    elif name in ("meta", "lazy"):
        assert type(found).__name__ == type(expected).__name__
        assert name == "lazy" or (found.stride(), found.is_meta) == (expected.stride(), True)
    elif isinstance(expected, (torch.Tensor, gradcore.Tensor)):
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()
        assert found.__dict__ == expected.__dict__
    else:
        assert repr(found) == repr(expected)
        assert type(found) is type(expected)


FLAGGED = {
    "conj": lambda z: z.conj(),
    "mH": lambda z: z.mH,
    "adjoint of a view": lambda z: z[:, 1:].adjoint(),
    "neg": lambda z: z.conj().imag,
    "neg of a view": lambda z: z[1].conj().imag[::2],
    "both": lambda z: torch._neg_view(z.conj()),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_conjugates_and_negatives_that_pytorch_marks(name):
    z = torch.randn(3, 4, dtype=torch.complex64)
    file = io.BytesIO()
    torch.save([z, FLAGGED[name](z)], file) if name in ("conj", "mH") else torch.save(FLAGGED[name](z), file)
    file.seek(0)
    found = gradcore.load(file)
    found = found[1] if isinstance(found, list) else found
    np.testing.assert_array_equal(found.numpy(), FLAGGED[name](z).resolve_conj().resolve_neg().numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "complex64", "bool", "uint8"])
def test_memory_is_shared_with_pytorch(dtype):
    theirs = torch.tensor([0, 1, 2]).to(getattr(torch, dtype))
    ours = gradcore.from_dlpack(theirs)
    assert ours.dtype is getattr(gradcore, dtype)
    ours[0] = 1
    assert theirs[0] == 1
    back = torch.from_dlpack(ours)
    assert (back.dtype, back.data_ptr()) == (theirs.dtype, theirs.data_ptr())
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(ours[::-1])


@pytest.mark.parametrize("kind", ["state", "parameters", "conj"])
def test_states_of_pytorch_are_taken(kind):
    theirs = torch.nn.Linear(3, 2, dtype=torch.complex64 if kind == "conj" else torch.bfloat16)
    ours = gradcore.nn.Linear(3, 2, dtype=getattr(gradcore, str(theirs.weight.dtype)[6:]))
    state = dict(theirs.named_parameters()) if kind == "parameters" else theirs.state_dict()
    state = {name: t.conj() for name, t in state.items()} if kind == "conj" else state
    ours.load_state_dict(state)
    for name, p in ours.named_parameters():
        expected = state[name].detach().resolve_conj()
        assert p.detach().tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_places_in_memory(seed):
    """Sizes, strides and offsets of views, storages and copies of both libraries, after the same calls."""
    draw = random.Random(seed)
    array = np.arange(60.0).reshape(5, 3, 4)
    part = array[draw.choice([np.s_[1:], np.s_[:, 1:], np.s_[::2, :, 1], np.s_[2], np.s_[:, :, 3:]])]
    pair = [T.from_numpy(part) for T in (torch, gradcore)]
    for _ in range(6):
        call = draw.choice([
            lambda t: t.transpose(0, -1), lambda t: t[1:], lambda t: t[..., ::2], lambda t: t.detach(),
            lambda t: t.data, lambda t: t.unsqueeze(0), copy.deepcopy, lambda t: t.diagonal() if t.dim() > 1 else t,
            lambda t: t.unfold(0, 1, 2), lambda t: t.as_strided(t.shape, t.stride(), 0),
            lambda t: type(t)().to(t.dtype).set_(t.storage(), t.storage_offset(), t.shape, t.stride()),
        ])  # fmt: skip
        if min(pair[0].shape, default=0) < 2 and pair[0].dim():
            break
        pair = [call(t) for t in pair]
        known = [
            (tuple(t.shape), tuple(t.stride()), t.storage_offset(), t.untyped_storage().nbytes(), t.tolist())
            for t in pair
        ]
        assert known[0] == known[1]
