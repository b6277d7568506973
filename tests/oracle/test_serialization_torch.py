"""Files are PyTorch's: each library reads what the other one has written."""

from __future__ import annotations

import io

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
