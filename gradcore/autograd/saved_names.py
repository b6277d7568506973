"""What nodes show of what they saved: attributes ``_saved_<name>`` with PyTorch's names and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any

from gradcore.autograd.messages import FREED
from gradcore.autograd.op_node import OpNode, Packed
from gradcore.autograd.saved import SavedInput, SavedResult
from gradcore.autograd.variables import Variable

__all__ = ["show"]

#: Settings that PyTorch's nodes do not have, whatever the operation.
_UNSHOWN = {"caller", "driver", "dtype", "memory_format", "non_blocking", "of_other", "of_self", "out"}

#: Where a node shows other names than those of the declaration: ``name=declared`` takes the place of a declared name,
#: ``name=declared:part`` is added (see `_PARTS`), ``-name`` is left out. An operation need not declare them all.
_ROWS = """
    AddbmmBackward0           batch1_sym_argsize_0=batch1:size_0 batch1_sym_argsize_1=batch1:size_1 -self_sym_sizes
    AddbmmBackward0           batch2_sym_argsize_2=batch2:size_2
    AddmmBackward0            mat1=input mat2=weight:transposed -weight -weight_sym_sizes -bias_sym_sizes
    AddmmBackward0            -self_sym_sizes
    AddmvBackward0            -self_sym_sizes
    AddrBackward0             -self_sym_sizes
    BaddbmmBackward0          -self_sym_sizes
    MmBackward0               self=input mat2=weight:transposed -weight -weight_sym_sizes -bias_sym_sizes
    AdaptiveAvgPool*          -size
    AdaptiveMaxPool*          result1=indices -size
    AvgPool*                  kernel_size=kernel divisor_override=divisor
    MaxPool*                  kernel_size=kernel result1=indices
    MaxUnpool*                -size
    Col2ImBackward0           kernel_size=kernel -size
    Im2ColBackward0           kernel_size=kernel -self_sym_sizes
    Im2ColBackward0           self_sym_argsize_minus_1=self:size_-1 self_sym_argsize_minus_2=self:size_-2
    ConvolutionBackward0      input=self bias_sym_sizes_opt=bias:sizes -self_sym_sizes -weight_sym_sizes
    NativeBatchNormBackward0  input=self
    NativeGroupNormBackward0  input=self group=groups
    NativeLayerNormBackward0  input=self result1=mean
    ReflectionPad*            padding=pad -mode
    ReplicationPad*           padding=pad -mode
    ConstantPadNdBackward0    -value
    Upsample*                 output_size=size -antialias -mode
    UpsampleNearest*          -align_corners
    UpsampleLinear1D*         scales=scales:item_0
    UpsampleNearest1D*        scales=scales:item_0
    UpsampleNearestExact1D*   scales=scales:item_0
    UpsampleBi*               scales_h=scales:item_0 scales_w=scales:item_1 -scales
    UpsampleNearest2D*        scales_h=scales:item_0 scales_w=scales:item_1 -scales
    UpsampleNearestExact2D*   scales_h=scales:item_0 scales_w=scales:item_1 -scales
    UpsampleTrilinear3D*      scales_d=scales:item_0 scales_h=scales:item_1 scales_w=scales:item_2 -scales
    UpsampleNearest3D*        scales_d=scales:item_0 scales_h=scales:item_1 scales_w=scales:item_2 -scales
    UpsampleNearestExact3D*   scales_d=scales:item_0 scales_h=scales:item_1 scales_w=scales:item_2 -scales
    AsStridedBackward0        storage_offset=offset -own -self_sym_sizes
    AsStridedScatterBackward0 storage_offset=offset -src_sym_sizes
    CatBackward0              -tensors_sym_sizes
    ExpandBackward0           -size
    SplitBackward0            split_size=split_size_or_sections
    SplitWithSizesBackward0   split_sizes=split_size_or_sections
    UnsafeSplitWithSizes*     split_sizes=split_size
    SqueezeBackward0          -dim
    SqueezeBackward1          dim=dim:given
    UnsqueezeBackward0        -self_sym_sizes
    ViewBackward0             -shape
    ChannelShuffleBackward0   -self_sym_sizes
    MeanBackward0             self_sym_numel=self:numel -dim -keepdim
    MeanBackward1             self_sym_numel=self:numel
    ProdBackward0             -dim -keepdim
    SumBackward0              -dim -keepdim
    StdMeanBackward0          result0=result
    DivBackward0              -rounding_mode
    FillBackward0             -value
    IndexFillBackward0        -value
    MaskedFill*               -value -self_sym_sizes
    MaskedScatterBackward0    -self_sym_sizes
    NanToNumBackward0         -nan -neginf -posinf
    RoundBackward0            -decimals
    ThresholdBackward0        -value
    DiagonalScatterBackward0  -src_sym_sizes
    IndexPutBackward0         -values_sym_sizes
    ScatterBackward0          -src_sym_sizes
    ScatterBackward1          -value
    ScatterAddBackward0       -src_sym_sizes
    SelectScatterBackward0    -src_sym_sizes
    SliceScatterBackward0     -src_sym_sizes
    EmbeddingBackward0        weight_sym_argsize_0=self:size_0 -self_sym_sizes
    FftC2CBackward0           dim=dims -norm
    FftC2RBackward0           dim=dims -norm -last
    FftR2CBackward0           dim=dims -norm
    HuberLossBackward0        delta=width -self_sym_sizes
    MseLossBackward0          -width -self_sym_sizes
    SmoothL1LossBackward0     beta=width -self_sym_sizes
    NllLoss*                  -powers -total -self_sym_sizes
    CdistBackward0            -compute_mode
    KthvalueBackward0         -k
    SortBackward*             -descending -stable
    TopkBackward0             -k -largest -sorted
    CholeskyBackward0         result=L
    LinalgEighBackward0       -UPLO
    LinalgLstsqBackward0      self=A b=B -rcond
    LinalgMatrixExpBackward0  self=A
    LinalgPinvBackward0       self=A -hermitian
    LinalgSolveTriangular*    self=A
    LuUnpackBackward0         -unpack_data -unpack_pivots
"""

#: Settings that PyTorch has where an operation of gradcore has none.
_CONSTANTS = {
    ("square", "PowBackward0"): {"exponent": 2},
    ("linear", "AddmmBackward0"): {"alpha": 1, "beta": 1},
}

#: What PyTorch's nodes keep in the place of names.
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def show(cls: type[OpNode], names: Iterable[str]) -> None:
    """Give a class of nodes attributes for what its formulas read, `names`, and for the settings of its operation.

    A tensor ``_saved_<name>`` has a `SavedTensor` beside it, ``_raw_saved_<name>``, for hooks. (These are properties,
    since a `__getattr__` would make every other attribute three times as slow.)
    """
    op = cls.op
    for theirs, ours in _names(cls, names).items():
        setattr(cls, f"_saved_{theirs}", property(_reader(ours)))
        if ours in op.outputs or op.position.get(ours) in op.tensor_like:
            setattr(cls, f"_raw_saved_{theirs}", property(partial(_handle, name=ours)))
    for name, value in _CONSTANTS.get((op.name, cls.__name__), {}).items():
        setattr(cls, f"_saved_{name}", value)


def _names(cls: type[OpNode], names: Iterable[str]) -> dict[str, str]:
    """The declared names by those that the class shows."""
    op = cls.op
    settings = {name for i, name in enumerate(op.names) if i not in op.tensor_like}
    shown = {n.replace("_shape", "_sym_sizes"): n for n in sorted({*names, *settings} - _UNSHOWN)}
    for token in _tokens(cls.__name__):
        theirs, _, ours = token.partition("=")
        source, _, part = ours.partition(":")
        if not ours:
            shown.pop(theirs.removeprefix("-"), None)
        elif part and source in op.names:
            shown[theirs] = ours
        elif ours in shown:
            shown[theirs] = shown.pop(ours)
    return shown


def _tokens(node_name: str) -> Iterator[str]:
    for row in _ROWS.strip().splitlines():
        name, *tokens = row.split()
        if name == node_name or (name.endswith("*") and node_name.startswith(name[:-1])):
            yield from tokens


# -- values -----------------------------------------------------------------------------------------------------------


def _reader(name: str) -> Callable[[OpNode], Any]:
    source, _, part = name.partition(":")
    if not part:
        return partial(_value, name=name)
    kind, _, number = part.partition("_")
    read = _PARTS[kind]
    return partial(read, name=source, number=int(number)) if number else partial(read, name=source)


def _value(node: OpNode, name: str) -> Any:
    """What a node saved under a declared name."""
    op, saved = node.op, node.saved
    if name.endswith("_shape"):
        return _shape(node, name.removesuffix("_shape"))
    position = op.position.get(name)
    held = position is None or position in op.tensor_like
    if saved is None:  # freed: settings stay
        if held or node.results is None:
            raise RuntimeError(FREED)
        saved = node.results
    if held:
        node.check()
    if position is None:
        return node.unpack_result(op.outputs.index(name))
    if position >= len(saved):
        return op.parameters[position].default
    if held:
        value = node.unpack_input(position)
        return value.clone() if getattr(value, "_constant", False) else value
    return _as_setting(saved[position], op.parameters[position])


def _as_setting(value: Any, parameter: Any) -> Any:
    """A setting as PyTorch's nodes keep it: where there can be several dims, a tuple."""
    if parameter.name == "reduction":
        return _REDUCTIONS.get(value, value)
    several = parameter.annotation == "Dims" or parameter.name in ("dims", "shifts")
    return (value,) if several and type(value) is int else value


def _shape(node: OpNode, name: str) -> Any:
    """The shape of an input, as far as the node knows it."""
    saved = node.results if node.saved is None else node.saved
    if saved is None:
        raise RuntimeError(FREED)
    value = saved[node.op.position[name]]
    if value.__class__ is Packed:
        value = value.unpack()
    return value._array.shape if isinstance(value, Variable) else value


# -- what follows from what is saved ----------------------------------------------------------------------------------


def _size(node: OpNode, name: str, number: int) -> Any:
    shape = _shape(node, name)
    return None if shape is None else shape[number]


def _item(node: OpNode, name: str, number: int) -> Any:
    values = _value(node, name)
    return None if values is None else values[number]


def _transposed(node: OpNode, name: str) -> Any:
    matrix = _value(node, name)
    return None if matrix is None else matrix.t()


def _sizes_of_bias(node: OpNode, name: str) -> Any:
    """The shape of a convolution's bias, which is empty where no bias requires grad."""
    bias = node._edges[node.op.edge_index[node.op.position[name]]]
    return (0,) if bias is None else (node._input_metadata[0].shape[1],)


_PARTS: dict[str, Callable[..., Any]] = {
    "given": lambda node, name: (node.saved or node.results)[node.op.position[name]],
    "item": _item,
    "numel": lambda node, name: prod(_shape(node, name)),
    "size": _size,
    "sizes": _sizes_of_bias,
    "transposed": _transposed,
}


# -- hooks of single tensors ------------------------------------------------------------------------------------------


def _handle(node: OpNode, name: str) -> Any:
    op = node.op
    if name in op.outputs:
        return SavedResult(node, op.outputs.index(name))
    position = op.position[name]
    if position not in op.indices and position not in op.sequences:
        return SavedInput(node, position)
    if node.saved is None:
        raise RuntimeError(FREED)
    return tuple(SavedInput(node, position, i) for i in range(len(node.saved[position] or ())))
