"""Calls of modules: the arguments of constructors and the shapes of inputs, and calls with one thing wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CALLS", "Call", "wrong_arguments", "wrong_inputs"]

#: The module's name with its arguments, and the shapes of its inputs; ``i`` before a shape means indices, ``+`` numbers
#: above 0.
_TABLE = """
Linear(3, 2): 4 3
Bilinear(3, 2, 4): 5 3, 5 2
Identity(): 2 3
Flatten(): 2 3 4
Unflatten(1, (2, 2)): 3 4
Conv1d(2, 3, 2): 1 2 5
Conv2d(2, 4, 2, groups=2): 1 2 5 5
Conv3d(2, 3, 2): 1 2 3 3 3
ConvTranspose1d(2, 3, 2): 1 2 5
ConvTranspose2d(2, 3, 2, output_padding=1, stride=2): 1 2 3 3
ConvTranspose3d(2, 3, 2): 1 2 2 2 2
Unfold(2): 1 2 3 3
Fold((3, 3), 2): 1 8 4
MaxPool1d(2): 1 2 5
MaxPool2d(2): 1 2 5 5
MaxPool3d(2): 1 2 3 3 3
AvgPool1d(2): 1 2 5
AvgPool2d(2): 1 2 5 5
AvgPool3d(2): 1 2 3 3 3
LPPool1d(2, 2): 1 2 5
LPPool2d(2, 2): 1 2 5 5
FractionalMaxPool2d(2, output_size=2): 1 2 5 5
AdaptiveMaxPool1d(2): 1 2 5
AdaptiveMaxPool2d(2): 1 2 5 5
AdaptiveMaxPool3d(2): 1 2 3 3 3
AdaptiveAvgPool1d(2): 1 2 5
AdaptiveAvgPool2d(2): 1 2 5 5
AdaptiveAvgPool3d(2): 1 2 3 3 3
MaxUnpool1d(2): 1 2 2, i1 2 2
MaxUnpool2d(2): 1 2 2 2, i1 2 2 2
ReflectionPad1d(1): 1 2 5
ReflectionPad2d(1): 1 2 5 5
ReplicationPad1d(1): 1 2 5
ReplicationPad2d(1): 1 2 5 5
ReplicationPad3d(1): 1 2 3 3 3
ZeroPad1d(1): 1 2 5
ZeroPad2d(1): 1 2 5 5
ConstantPad1d(1, 2.5): 1 2 5
ConstantPad2d(1, 2.5): 1 2 5 5
CircularPad1d(1): 1 2 5
CircularPad2d(1): 1 2 5 5
ELU(): 2 3
Hardshrink(): 2 3
Hardsigmoid(): 2 3
Hardtanh(): 2 3
Hardswish(): 2 3
LeakyReLU(): 2 3
LogSigmoid(): 2 3
PReLU(): 2 3
ReLU(): 2 3
ReLU6(): 2 3
RReLU(): 2 3
SELU(): 2 3
CELU(): 2 3
GELU(): 2 3
SiLU(): 2 3
Mish(): 2 3
Sigmoid(): 2 3
Softplus(): 2 3
Softshrink(): 2 3
Softsign(): 2 3
Tanh(): 2 3
Tanhshrink(): 2 3
Threshold(0.1, 20): 2 3
GLU(): 2 4
Softmin(1): 2 3
Softmax(1): 2 3
Softmax2d(): 1 2 3 3
LogSoftmax(1): 2 3
AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4]): 3 4, i3
BatchNorm1d(3): 4 3
BatchNorm2d(3): 2 3 2 2
BatchNorm3d(3): 2 3 2 2 2
GroupNorm(2, 4): 2 4 3
InstanceNorm1d(3): 2 3 4
InstanceNorm2d(3, affine=True): 2 3 2 2
InstanceNorm3d(3): 2 3 2 2 2
LayerNorm(3): 2 3
RMSNorm(3): 2 3
LocalResponseNorm(2): 1 4 3
RNN(3, 2): 4 1 3, 1 1 2
GRU(3, 2): 4 1 3, 1 1 2
LSTM(3, 2): 4 1 3
RNNCell(3, 2): 4 3, 4 2
GRUCell(3, 2): 4 3, 4 2
LSTMCell(3, 2): 4 3
TransformerEncoderLayer(4, 2, 8, 0.0): 3 1 4
TransformerDecoderLayer(4, 2, 8, 0.0): 3 1 4, 2 1 4
Transformer(4, 2, 1, 1, 8, 0.0): 3 1 4, 2 1 4
MultiheadAttention(4, 2): 3 1 4, 2 1 4, 2 1 4
Dropout(0.5): 2 3
Dropout1d(0.5): 1 2 3
Dropout2d(0.5): 1 2 3 3
AlphaDropout(0.5): 2 3
FeatureAlphaDropout(0.5): 1 2 3
Embedding(5, 3): i2 3
EmbeddingBag(5, 3): i6, i2
CosineSimilarity(): 2 3, 2 3
PairwiseDistance(): 2 3, 2 3
L1Loss(): 2 3, 2 3
MSELoss(): 2 3, 2 3
CrossEntropyLoss(): 4 3, i4
CTCLoss(): 6 2 4, i2 3, i2, i2
NLLLoss(): 4 3, i4
PoissonNLLLoss(): 2 3, +2 3
GaussianNLLLoss(): 2 3, 2 3, +2 3
KLDivLoss(): 2 3, +2 3
BCELoss(): +2 3, +2 3
BCEWithLogitsLoss(): 2 3, +2 3
MarginRankingLoss(): 4, 4, 4
HingeEmbeddingLoss(): 2 3, 2 3
MultiLabelMarginLoss(): 2 3, i2 3
HuberLoss(): 2 3, 2 3
SmoothL1Loss(): 2 3, 2 3
SoftMarginLoss(): 2 3, 2 3
MultiLabelSoftMarginLoss(): 2 3, +2 3
CosineEmbeddingLoss(): 2 3, 2 3, 2
MultiMarginLoss(): 4 3, i4
TripletMarginLoss(): 2 3, 2 3, 2 3
TripletMarginWithDistanceLoss(): 2 3, 2 3, 2 3
PixelShuffle(2): 1 4 2 2
PixelUnshuffle(2): 1 2 4 4
Upsample(scale_factor=2): 1 2 3
UpsamplingNearest2d(scale_factor=2): 1 2 3 3
UpsamplingBilinear2d(scale_factor=2): 1 2 3 3
ChannelShuffle(2): 1 4 2 2
"""


class Call(NamedTuple):
    """A module made by ``name(*args, **settings)``, and the arrays that it is called with."""

    name: str
    args: tuple[Any, ...]
    settings: dict[str, Any]
    inputs: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name

    def make(self, library: Any) -> Any:
        """Return the module of the library."""
        return getattr(library.nn, self.name)(*self.args, **self.settings)


def _array(text: str) -> np.ndarray[Any, Any]:
    shape = tuple(map(int, text.strip("i+").split()))
    numbers = np.arange(int(np.prod(shape)))
    if text.startswith("i"):
        return (numbers % 2).reshape(shape)
    values = np.sin(numbers * 1.7)
    return (abs(values) * 0.9 if text.startswith("+") else values).astype("float32").reshape(shape)


def _read(line: str) -> Call:
    call, _, shapes = line.rpartition(": ")
    name, _, rest = call.partition("(")
    args, settings = eval(f"(lambda *args, **settings: (args, settings))({rest}")
    return Call(name, args, settings, tuple(_array(text.strip()) for text in shapes.split(",")))


CALLS = [_read(line) for line in _TABLE.strip().splitlines()]

DTYPES = ("bool", "int64", "uint8", "float16", "float64", "complex64")
OTHERS = ("a", None, 2.5, [1, "a"], np.ones(2), (), {})


def wrong_inputs(call: Call, library: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield inputs of which one is wrong, each with a description."""
    right = [library.tensor(array) for array in call.inputs]
    for i, t in enumerate(right):
        wrong: list[tuple[str, Any]] = [(f"dtype {d}", t.to(getattr(library, d))) for d in DTYPES]
        wrong += [(f"{other!r}", other) for other in OTHERS]
        wrong += [("one more dim", t[None]), ("one dim less", t[0]), ("no dims", t.reshape(-1)[0])]
        wrong += [("on meta", t.to("meta"))]
        for dim in range(t.ndim):
            wrong += [
                (f"dim {dim} longer", library.cat([t, t.narrow(dim, 0, 1)], dim)),
                (f"dim {dim} of 0", t.narrow(dim, 0, 0)),
            ]
        for words, other in wrong:
            yield f"input {i}: {words}", [*right[:i], other, *right[i + 1 :]]
    yield "no inputs", []
    yield "one input more", [*right, right[0], right[0], right[0], right[0], right[0], right[0], right[0]]


def wrong_arguments(call: Call) -> Iterator[tuple[str, Call]]:
    """Yield calls with one wrong argument of the constructor, each with a description."""
    for i in range(len(call.args)):
        for other in ("a", -1, None, 2.5, 0, (7, 8, 9), [None], 2**40):
            yield f"argument {i}: {other!r}", call._replace(args=(*call.args[:i], other, *call.args[i + 1 :]))
    for name in call.settings:
        for other in ("a", -1, None, 2.5, 0, (7, 8, 9), [None]):
            yield f"{name}={other!r}", call._replace(settings={**call.settings, name: other})
    yield "an argument more", call._replace(args=(*call.args, *["a"] * 12))
    yield "an unknown name", call._replace(settings={**call.settings, "nonsense": 1})
