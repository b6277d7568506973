"""Modules of gradcore and of PyTorch: names, signatures, printing, behaviour and errors, side by side."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gradcore

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

#: What PyTorch's nn has and gradcore's has not.
ABSENT = {"Container", "LinearCrossEntropyOptions", "NLLLoss2d"}
#: Methods of PyTorch's Module for other hardware.
ABSENT_METHODS = {"ipu", "mtia", "xpu", "dump_patches", "T_destination"}


def classes(library):
    found = {name: getattr(library.nn, name) for name in dir(library.nn) if not name.startswith("_")}
    return {name: value for name, value in found.items() if isinstance(value, type)}


NAMES = sorted(name for name in classes(torch) if name not in ABSENT)


def test_the_classes_are_there():
    assert not [name for name in NAMES if name not in classes(gradcore)]
    assert not [name for name in ABSENT if name in classes(gradcore)]


def test_the_methods_of_modules_are_there():
    theirs = {n for n in dir(torch.nn.Module) if not n.startswith("_")}
    assert theirs - set(dir(gradcore.nn.Module)) == ABSENT_METHODS


@pytest.mark.parametrize("where", ["init", "utils", "utils.parametrize", "utils.stateless"])
def test_the_functions_are_there(where):
    def public(library):
        module = library.nn
        for part in where.split("."):
            module = getattr(module, part)
        functions = {n: f for n, f in vars(module).items() if inspect.isfunction(f) and not n.startswith("_")}
        return {n: f for n, f in functions.items() if f.__module__.startswith(library.nn.__name__)}

    absent = {
        "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    }  # fmt: skip
    assert set(public(torch)) - set(public(gradcore)) <= absent


def parameters(cls):
    """Names, kinds and defaults of what a class takes."""
    found = inspect.signature(cls.__init__ if "__signature__" not in vars(cls) else cls).parameters.values()
    default = lambda p: p.default.__name__ if callable(p.default) else p.default  # noqa: E731
    return [(p.name, p.kind, default(p)) for p in found if p.name not in ("self", "args", "kwargs")]


@pytest.mark.parametrize("name", NAMES)
def test_classes_take_the_same_settings(name):
    if name in ("Module", "Parameter", "Buffer", "Softmax2d", "RNN", "LSTM", "GRU") or "Uninitialized" in name:
        pytest.skip("takes what its constructor says")
    assert parameters(getattr(gradcore.nn, name)) == parameters(getattr(torch.nn, name))


# -- layers: printing, state and results ----------------------------------------------------------------------------

IMAGE, SIGNAL, ROWS = (2, 4, 8, 8), (2, 4, 9), (5, 6)
LAYERS = [
    ("AdaptiveAvgPool2d((5, 7))", IMAGE), ("AdaptiveMaxPool1d(5)", SIGNAL), ("AvgPool1d(3)", SIGNAL),
    ("AvgPool2d(3, 2)", IMAGE), ("MaxPool1d(3)", SIGNAL), ("MaxPool2d(3, padding=1, dilation=2)", IMAGE),
    ("LPPool2d(2, 3)", IMAGE), ("FractionalMaxPool2d(2, output_size=3, return_indices=False)", None),
    ("MaxUnpool2d(2)", None), ("Dropout(0.0)", ROWS), ("Dropout2d(0.2, True).eval()", IMAGE),
    ("AlphaDropout()", None), ("FeatureAlphaDropout()", None),
    ("BatchNorm1d(6)", ROWS), ("BatchNorm2d(4, affine=False)", IMAGE), ("BatchNorm2d(4, momentum=None).eval()", IMAGE),
    ("BatchNorm1d(4, track_running_stats=False)", SIGNAL), ("BatchNorm3d(2, bias=False)", (2, 2, 3, 3, 3)),
    ("InstanceNorm2d(4)", IMAGE), ("InstanceNorm1d(4, affine=True, track_running_stats=True)", SIGNAL),
    ("InstanceNorm1d(4)", (4, 9)), ("GroupNorm(2, 4)", IMAGE), ("LayerNorm(6)", ROWS),
    ("LayerNorm((8, 8), bias=False)", IMAGE), ("RMSNorm(6)", ROWS), ("LocalResponseNorm(2)", IMAGE),
    ("Linear(6, 3)", ROWS), ("Linear(6, 3, bias=False)", ROWS), ("ChannelShuffle(2)", IMAGE),
    ("CircularPad1d(2)", SIGNAL), ("ConstantPad2d(2, 3.0)", IMAGE), ("ReflectionPad2d((1, 2, 3, 4))", IMAGE),
    ("ZeroPad2d(1)", IMAGE), ("ZeroPad1d(2)", SIGNAL), ("ReplicationPad3d(1)", (1, 1, 2, 2, 2)),
    ("Conv1d(4, 3, 4)", SIGNAL), ("Conv2d(4, 2, 3, padding='same')", IMAGE),
    ("Conv2d(4, 8, (3, 2), stride=2, padding='valid', groups=2, bias=False, padding_mode='circular')", IMAGE),
    ("Conv2d(4, 2, 3, padding=(1, 2), padding_mode='reflect', dilation=2)", IMAGE),
    ("ConvTranspose2d(4, 3, 4, output_padding=1, stride=2)", IMAGE), ("ConvTranspose1d(4, 2, 3, padding=1)", SIGNAL),
    ("CrossMapLRN2d(3)", None),
    ("CosineSimilarity()", None), ("PairwiseDistance()", None), ("Embedding(3, 4)", None),
    ("Embedding(3, 4, 0, 2.0, 3.0, True)", None), ("EmbeddingBag(3, 4)", None), ("Fold((4, 4), 2)", None),
    ("Unfold(2)", IMAGE), ("Flatten()", IMAGE), ("Unflatten(1, (2, 3))", ROWS), ("PixelShuffle(2)", IMAGE),
    ("PixelUnshuffle(2)", IMAGE), ("Upsample(16)", IMAGE), ("Upsample(scale_factor=2.0, mode='bilinear')", IMAGE),
    ("UpsamplingNearest2d(scale_factor=2)", IMAGE), ("UpsamplingBilinear2d(12)", IMAGE), ("PReLU()", ROWS),
    ("PReLU(4)", IMAGE), ("RReLU().eval()", ROWS), ("Softmax2d()", IMAGE), ("Hardshrink()", ROWS),
    ("Softshrink(0.1)", ROWS), ("Threshold(0.1, 2.0)", ROWS), ("Softplus()", ROWS), ("GELU('tanh')", ROWS),
    ("ReLU()", ROWS), ("ReLU6()", ROWS), ("Hardsigmoid()", ROWS), ("Hardswish()", ROWS), ("Hardtanh(-2, 0.5)", ROWS),
    ("ReLU(True)", None), ("Hardtanh(inplace=True)", None), ("Hardsigmoid(True)", None), ("SELU(True)", None),
    ("CELU()", ROWS), ("ELU(0.5)", ROWS), ("SELU()", ROWS), ("Mish()", ROWS), ("SiLU()", ROWS), ("LogSigmoid()", ROWS),
    ("Softsign()", ROWS), ("Tanhshrink()", ROWS), ("GLU()", ROWS), ("Softmax(1)", ROWS), ("LogSoftmax(dim=1)", ROWS),
    ("Softmin(0)", ROWS), ("LeakyReLU(0.2)", ROWS), ("Sigmoid()", ROWS), ("Tanh()", ROWS), ("Identity(3, x=4)", ROWS),
    ("Bilinear(2, 3, 4)", None), ("TripletMarginWithDistanceLoss()", None),
]  # fmt: skip


def twin(text):
    """Return the same module in both libraries, with equal state."""
    theirs = eval(f"nn.{text}", {"nn": torch.nn})
    ours = eval(f"nn.{text}", {"nn": gradcore.nn})
    ours.load_state_dict({name: gradcore.tensor(t.numpy()) for name, t in theirs.state_dict().items()})
    return ours, theirs


def same(ours, theirs, tolerance=1e-5):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("text", "shape"), LAYERS)
def test_layers(text, shape):
    torch.manual_seed(0)
    ours, theirs = twin(text)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    if shape is None:
        return
    x = torch.randn(shape, requires_grad=True)
    y = gradcore.tensor(x.detach().numpy(), requires_grad=True)
    expected, found = theirs(x), ours(y)
    same(found, expected)
    (expected * expected).sum().backward()
    (found * found).sum().backward()
    same(y.grad, x.grad, 1e-4)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-3)
    for p, q in zip(ours.buffers(), theirs.buffers(), strict=True):
        same(p, q)


CLASSES = torch.tensor([0, 2, 1, 3, 5])
SIGNS = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0])
LOSSES = [
    ("MSELoss()", 2), ("L1Loss(reduction='sum')", 2), ("SmoothL1Loss(beta=0.5)", 2), ("HuberLoss('none', 0.3)", 2),
    ("MSELoss(size_average=False)", 2), ("L1Loss(None, False)", 2), ("PoissonNLLLoss()", 2),
    ("CrossEntropyLoss(label_smoothing=0.1)", CLASSES), ("MultiMarginLoss()", CLASSES),
    ("CosineEmbeddingLoss(0.1)", SIGNS), ("MarginRankingLoss(0.5)", 3), ("TripletMarginLoss(swap=True)", 3),
    ("TripletMarginWithDistanceLoss(margin=0.5)", 3), ("KLDivLoss(log_target=True, reduction='batchmean')", 2),
    ("SoftMarginLoss()", 2), ("HingeEmbeddingLoss()", 2), ("BCEWithLogitsLoss()", 2), ("GaussianNLLLoss(full=True)", 3),
]  # fmt: skip


RECURRENT = [
    "RNN(3, 4)", "RNN(3, 4, 2, 'relu', bias=False)", "RNN(3, 4, bidirectional=True, batch_first=True)", "GRU(3, 4, 2)",
    "LSTM(3, 4)", "LSTM(3, 4, 2, bidirectional=True, proj_size=2)", "GRU(3, 4, bias=False, bidirectional=True)",
    "LSTM(3, 4, batch_first=True)", "RNNCell(3, 4)", "RNNCell(3, 4, False, 'relu')", "LSTMCell(3, 4)",
    "GRUCell(3, 4, bias=False)", "LSTM(3, 4, 2, dropout=0.5).eval()",
]  # fmt: skip


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("given", [False, True], ids=["zeros", "given"])
@pytest.mark.parametrize("batched", [False, True], ids=["alone", "batched"])
@pytest.mark.parametrize("text", RECURRENT)
def test_recurrent_layers(text, batched, given):
    torch.manual_seed(0)
    ours, theirs = twin(text)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    cell = "Cell" in text
    shape = (5, 3) if cell else (6, 5, 3)
    x = torch.randn(shape if batched else shape[1:] if cell else (6, 3), requires_grad=True)
    state = theirs(x)[1] if not cell else theirs(x)
    state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
    more = () if not given else (state,)
    y = gradcore.tensor(x.detach().numpy(), requires_grad=True)
    convert = lambda s: tuple(map(convert, s)) if isinstance(s, tuple) else gradcore.tensor(s.numpy())  # noqa: E731
    expected, found = flat(theirs(x, *more)), flat(ours(y, *map(convert, more)))
    for a, b in zip(found, expected, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        same(a, b)
    sum((t * t).sum() for t in expected).backward()
    sum((t * t).sum() for t in found).backward()
    same(y.grad, x.grad, 1e-4)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-4)


ATTENTION = [
    "MultiheadAttention(8, 2)", "MultiheadAttention(8, 4, bias=False, add_zero_attn=True)",
    "MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True)", "MultiheadAttention(8, 1, kdim=8, vdim=6)",
]  # fmt: skip


@pytest.mark.parametrize(
    "settings", [{}, {"need_weights": False}, {"average_attn_weights": False, "mask": True}], ids=str
)
@pytest.mark.parametrize("text", ATTENTION)
def test_attention(text, settings):
    torch.manual_seed(0)
    ours, theirs = twin(text)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    shapes = (5, 3, 8), (4, 3, 8), (4, 3, 6 if "vdim" in text else 8)
    if "batch_first" in text:
        shapes = tuple((b, a, c) for a, b, c in shapes)
    tensors = [torch.randn(s, requires_grad=True) for s in shapes]
    copies = [gradcore.tensor(t.detach().numpy(), requires_grad=True) for t in tensors]
    settings = dict(settings)
    masks = {}
    if settings.pop("mask", False):
        masks = {"attn_mask": np.tri(5, 4, 1) == 0, "key_padding_mask": np.array([[False] * 3 + [True]] * 3)}
    expected = theirs(*tensors, **settings, **{name: torch.tensor(m) for name, m in masks.items()})
    found = ours(*copies, **settings, **{name: gradcore.tensor(m) for name, m in masks.items()})
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            same(a, b)
    (expected[0] ** 2).sum().backward()
    (found[0] ** 2).sum().backward()
    for a, b in zip(copies, tensors, strict=True):
        same(a.grad, b.grad, 1e-4)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-4)


@pytest.mark.parametrize(("text", "target"), LOSSES)
def test_losses(text, target):
    torch.manual_seed(0)
    ours, theirs = twin(text)
    assert repr(ours) == repr(theirs)
    tensors = [torch.randn(5, 6) for _ in range(target if isinstance(target, int) else 1)]
    if "Gaussian" in text:
        tensors[2] = tensors[2].exp()
    if not isinstance(target, int):
        tensors += [torch.randn(5, 6), target] if target is SIGNS else [target]
    same(ours(*(gradcore.tensor(t.numpy()) for t in tensors)), theirs(*tensors))


# -- first values ---------------------------------------------------------------------------------------------------


def initialised(T, name, shape, *args):
    T.manual_seed(0)
    t = T.empty(shape)
    found = getattr(T.nn.init, name)(t, *args)
    return found is t, t.requires_grad, (t.mean().item(), t.std().item())


RANDOM = [
    ("uniform_", (100, 80), (-1.0, 2.0)), ("normal_", (100, 80), (1.0, 2.0)),
    ("trunc_normal_", (100, 80), (0.0, 1.0, -1.0, 0.5)), ("xavier_uniform_", (100, 80, 3), (2.0,)),
    ("xavier_normal_", (100, 80), ()), ("kaiming_uniform_", (100, 80, 2, 2), (0.1, "fan_out")),
    ("kaiming_normal_", (100, 80), (0, "fan_in", "relu")), ("orthogonal_", (100, 80), (2.0,)),
    ("orthogonal_", (80, 10, 10), ()), ("sparse_", (100, 80), (0.3, 1.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "args"), RANDOM)
def test_first_values_have_the_same_distribution(name, shape, args):
    ours, theirs = (initialised(T, name, shape, *args) for T in (gradcore, torch))
    assert ours[:2] == theirs[:2]
    np.testing.assert_allclose(ours[2], theirs[2], atol=0.05 * max(1.0, theirs[2][1]))
