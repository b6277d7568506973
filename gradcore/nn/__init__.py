"""Neural networks: modules, parameters and functions."""

# ruff: noqa: F403  (many modules are made from tables)

from gradcore.nn import activations, convolution, functional, init, layers, lazy, losses, normalization, padding
from gradcore.nn.activations import *
from gradcore.nn.adaptive import AdaptiveLogSoftmaxWithLoss
from gradcore.nn.attention import MultiheadAttention
from gradcore.nn.containers import ModuleDict, ModuleList, Sequential
from gradcore.nn.convolution import *
from gradcore.nn.embedding import Embedding, EmbeddingBag
from gradcore.nn.layers import *
from gradcore.nn.lazy import *
from gradcore.nn.lazy_parameter import UninitializedBuffer, UninitializedParameter
from gradcore.nn.linear import Bilinear, Linear
from gradcore.nn.linear_loss import LinearCrossEntropyLoss
from gradcore.nn.losses import *
from gradcore.nn.module import Module
from gradcore.nn.normalization import *
from gradcore.nn.padding import *
from gradcore.nn.parallel import DataParallel
from gradcore.nn.parameter import Buffer, Parameter
from gradcore.nn.parameter_containers import ParameterDict, ParameterList
from gradcore.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from gradcore.nn.transformer import Transformer, TransformerDecoder, TransformerEncoder
from gradcore.nn.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer
from gradcore.torch_names import paths

from gradcore.nn import modules, parallel, utils  # isort: skip  (PyTorch's names for what is above)

__all__ = [
    "AdaptiveLogSoftmaxWithLoss",
    "Bilinear",
    "Buffer",
    "DataParallel",
    "Embedding",
    "EmbeddingBag",
    "GRU",
    "GRUCell",
    "LSTM",
    "LSTMCell",
    "Linear",
    "LinearCrossEntropyLoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RNN",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "Sequential",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parallel",
    "utils",
    *activations.__all__,
    *convolution.__all__,
    *layers.__all__,
    *sorted({*lazy.__all__} - {"LazyModuleMixin"}),
    *losses.__all__,
    *normalization.__all__,
    *padding.__all__,
]

__getattr__ = paths.further(__name__)
paths.show_public(__name__)
