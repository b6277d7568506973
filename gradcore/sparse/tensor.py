"""Sparse tensors: constant indices, and a tensor of values that carries the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from gradcore import functional
from gradcore.autograd import gradients
from gradcore.autograd.grad_mode import is_grad_enabled
from gradcore.autograd.variables import new, wrap
from gradcore.backends.sparsity import Pattern
from gradcore.core.dtypes import can_cast
from gradcore.core.size import Size, size_of
from gradcore.core.typing import AnyArray
from gradcore.sparse import text
from gradcore.sparse.indices import are_equal, raw, sorted_indices
from gradcore.tensor import Tensor, layouts

__all__ = [
    "BLOCKED",
    "BY_ROWS",
    "COMPRESSED",
    "FUNCTIONS",
    "SparseTensor",
    "in_place",
    "known_as",
    "on",
    "refuse",
    "sparse",
    "take_over",
]

COO, CSR, CSC, BSR, BSC = (
    layouts.sparse_coo, layouts.sparse_csr, layouts.sparse_csc, layouts.sparse_bsr, layouts.sparse_bsc
)  # fmt: skip
COMPRESSED = {CSR, CSC, BSR, BSC}
BY_ROWS = {CSR, BSR}
BLOCKED = {BSR, BSC}

#: The names of layouts in PyTorch's errors.
SPOKEN = {COO: "Sparse", CSR: "SparseCsr", CSC: "SparseCsc", BSR: "SparseBsr", BSC: "SparseBsc"}

#: PyTorch's error messages for functions that sparse tensors do not support, where they are special.
WORDS = {
    **dict.fromkeys(("reshape", "flatten", "einsum", "ravel"), "reshape is not implemented for sparse tensors"),
    **dict.fromkeys(("expand", "repeat", "broadcast_to", "expand_as"), "expand is unsupported for Sparse tensors"),
    **dict.fromkeys(("tolist", "data_ptr"), "Cannot access data pointer of Tensor that doesn't have storage"),
    "contiguous": "unsupported memory format option Contiguous",
    "untyped_storage": "Cannot access storage of SparseTensorImpl",
}

#: The functions and methods that sparse tensors support, by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def on(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function as the sparse version of the functions and methods `names`."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(names.split(), function))
        return function

    return declare


def refuse(name: str, layout: Any) -> NotImplementedError:
    """Return PyTorch's error for a function that tensors of the layout do not support."""
    backend = "SparseCPU" if layout is COO else "SparseCsrCPU"
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend: it is not defined for the layout "
        f"{layout}. Compute on .values(), or on .to_dense()."
    )


def known_as(values: Tensor, name: str) -> Any:
    """Return a view of `values` whose backward node, if they have a history, has the name `name`."""
    return functional.known_as(values, name) if values.requires_grad else values


def _forward_to_values(name: str) -> property:
    attribute = getattr(Tensor, name)
    return property(lambda self: attribute.__get__(self.stored), doc=attribute.__doc__)


class SparseTensor(Tensor):
    """A tensor that stores only some of its elements; the others are zero.

    Create one with `gradcore.sparse_coo_tensor`, `gradcore.sparse_csr_tensor` or `Tensor.to_sparse`. The values may
    require grad; the indices are constant. Functions that do not support sparse tensors raise.

    Examples
    --------
    >>> import gradcore as gc
    >>> s = gc.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), requires_grad=True)
    >>> (s @ gc.ones(3)).sum().backward()
    >>> s.grad
    tensor(indices=tensor([[0, 1],
                           [2, 0]]),
           values=tensor([1., 1.]),
           size=(2, 3), nnz=2, layout=torch.sparse_coo)
    """

    _strided = False
    #: The layout, the sizes of all dims, and whether the indices (of COO) are known to be sorted and distinct.
    layout: Any = None
    sizes: tuple[int, ...]
    in_order: bool
    #: The indices: one tensor for COO; for the other layouts, the ends of rows (columns) and the columns (rows).
    index: tuple[Tensor, ...]
    #: The values.
    stored: Tensor

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: tuple[type, ...], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call the sparse version of a function, or raise if there is none."""
        name = func.__name__
        named = kwargs or {}
        sparse_argument = next((x for x in _flat((*args, *named.values())) if isinstance(x, SparseTensor)), None)
        layout = COO if sparse_argument is None else sparse_argument.layout
        if name.startswith("__") and name[2:-2] in ("get", "set", "delete"):
            fget = getattr(getattr(func, "__self__", None), "fget", None)
            raise refuse(getattr(fget, "__name__", "attribute"), layout)
        if name in FUNCTIONS:
            return FUNCTIONS[name](*args, **named)
        if name.endswith("_") and not name.startswith("__") and name[:-1] in FUNCTIONS:
            return in_place(name[:-1], args, named)
        if name in WORDS:
            raise RuntimeError(WORDS[name])
        raise refuse(name, layout)

    # -- properties and gradients ---------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the dims."""
        return size_of(self.sizes)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.sizes)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dim."""
        return self.shape if dim is None else self.sizes[dim]

    def dim(self) -> int:
        """Return the number of dims."""
        return len(self.sizes)

    ndimension = dim

    def stride(self, dim: int | None = None) -> Any:
        """Return zeros for the layout COO, as PyTorch does; raise for other layouts."""
        if self.layout is not COO:
            raise RuntimeError(f"Sparse {SPOKEN[self.layout][6:].upper()} tensors do not have strides")
        return (0,) * self.ndim if dim is None else 0

    def storage_offset(self) -> int:
        """Return 0."""
        return 0

    def numel(self) -> int:
        """Return the number of elements, stored or not."""
        return self.shape.numel()

    nelement = numel

    T = property(lambda self: FUNCTIONS["t"](self), doc="The transpose of a matrix.")
    mT = property(lambda self: FUNCTIONS["transpose"](self, -2, -1), doc="The last two dims swapped.")
    mH = property(lambda self: FUNCTIONS["conj"](self.mT), doc="The conjugate of `mT`.")
    H = property(lambda self: FUNCTIONS["conj"](self.T), doc="The conjugate transpose of a matrix.")

    is_sparse = property(lambda self: self.layout is COO, doc="Whether the layout is ``gradcore.sparse_coo``.")
    is_sparse_csr = property(lambda self: self.layout is CSR, doc="Whether the layout is ``gradcore.sparse_csr``.")

    dtype, device, is_cpu, is_cuda, is_meta, is_leaf, grad_fn, itemsize, output_nr, retains_grad = map(
        _forward_to_values,
        (
            "dtype", "device", "is_cpu", "is_cuda", "is_meta", "is_leaf", "grad_fn", "itemsize",
            "output_nr", "retains_grad",
        ),
    )  # fmt: skip
    is_nested = is_quantized = is_mkldnn = property(lambda self: False, doc="False.")
    _version = property(lambda self: self.stored._version, doc="The version of the values.")
    _edge = property(lambda self: self.stored._edge, doc="That of the values.")
    _autograd = property(lambda self: self.stored._autograd, doc="That of the values.")
    _vc = property(lambda self: self.stored._vc, doc="That of the values.")

    @property
    def _array(self) -> Any:
        raise refuse("data_ptr", self.layout)

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the values are recorded."""
        return bool(self.stored.requires_grad)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        self.stored.requires_grad = on

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Set whether operations on the values are recorded, and return the tensor."""
        self.stored.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        """The accumulated gradient, a sparse tensor with the same indices."""
        grad = self.stored.grad
        return None if grad is None else self.gradient(grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not (isinstance(value, SparseTensor) and value.layout is self.layout):
            raise RuntimeError("attempting to assign a gradient to a tensor that has data of a different type")
        if value is not None and not all(map(are_equal, self.index, value.index)):
            raise RuntimeError("attempting to assign a sparse gradient whose indices are not those of the tensor")
        self.stored.grad = None if value is None else value.stored

    @property
    def data(self) -> Any:
        """A tensor without a history that shares the memory."""
        return self.like(self.stored.data)

    @data.setter
    def data(self, value: Any) -> None:
        raise refuse("set_data", self.layout)

    @property
    def pattern(self) -> Pattern:
        """The positions of the stored elements of a matrix."""
        if len(self.sizes) != 2:
            raise RuntimeError(f"expected a sparse matrix, but got a tensor of {len(self.sizes)} dims")
        return self._pattern

    @cached_property
    def _pattern(self) -> Pattern:
        xp, size = self.xp, (self.sizes[0], self.sizes[1])
        if self.layout is COO:
            rows, cols = raw(self.index[0])
            return Pattern(xp, size, rows, cols)
        if self.layout in BLOCKED:
            rows, cols = _locate_block_elements(xp, self)
            return Pattern(xp, size, rows, cols)
        ends, inner = map(raw, self.index)
        if self.layout is CSR:
            return Pattern(xp, size, cols=inner, ends=ends)
        return Pattern(xp, size, rows=inner, ends=ends, by_rows=False)

    home = property(lambda self: self.index[0]._device, doc="The device of the indices, which are never batched.")
    xp = property(lambda self: self.index[0]._device.backend.xp, doc="The array library of the indices.")

    def like(self, values: Tensor, sizes: Sequence[int] | None = None) -> SparseTensor:
        """Return a tensor with the given values at the same indices."""
        out = sparse(self.layout, self.sizes if sizes is None else sizes, self.index, values, self.in_order)
        if "_pattern" in self.__dict__ and sizes is None and values.device == self.stored.device:
            out.__dict__["_pattern"] = self._pattern
        return out

    def gradient(self, grad: Tensor) -> SparseTensor:
        """Return the sparse gradient, given that of the values.

        An element may be stored in several parts with equal indices. Then each part has the gradient of the element.
        """
        if self.layout is not COO or self.in_order:
            return self.like(grad)
        order, groups, index = sorted_indices(self)
        if groups is None:
            grad = grad if order is None else grad[order]
        else:
            xp = self.xp
            firsts = wrap(xp.unique(raw(groups), return_index=True)[1], self.home)
            grad = grad[firsts] if order is None else grad[order][firsts]
        return sparse(COO, self.sizes, (index,), grad, True)

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Compute the gradients of the leaves that the values depend on, given a sparse upstream gradient."""
        gradients.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call ``hook(grad)`` with the sparse gradient whenever it is computed."""

        def call_hook(grad: Tensor) -> Any:
            result = hook(self.like(grad))
            return result.stored if isinstance(result, SparseTensor) else result

        return self.stored.register_hook(call_hook)

    def retain_grad(self) -> None:
        """Keep ``.grad`` of this non-leaf tensor in backward."""
        self.stored.retain_grad()

    # -- to Python and to other libraries ---------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> Any:
        """Raise a TypeError: a sparse tensor cannot be converted to an array."""
        raise TypeError(f"can't convert {SPOKEN[self.layout]} layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy()

    def item(self) -> Any:
        """Return the only element."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return FUNCTIONS["to_dense"](self).item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __len__(self) -> int:
        return self.sizes[0]

    def __iter__(self) -> Any:
        return iter(FUNCTIONS["unbind"](self, 0))

    def __getitem__(self, key: Any) -> Any:
        return FUNCTIONS["__getitem__"](self, key)

    def __repr__(self) -> str:
        return text.text_of(self)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __copy__(self) -> SparseTensor:
        return self.like(self.stored.detach().requires_grad_(self.requires_grad))

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        import copy

        out = sparse(
            self.layout, self.sizes, copy.deepcopy(self.index, memo), copy.deepcopy(self.stored, memo), self.in_order
        )
        memo[id(self)] = out
        return out

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return sparse, (self.layout, tuple(self.sizes), self.index, self.stored, self.in_order)


def sparse(
    layout: Any, sizes: Sequence[int], index: Sequence[Tensor], values: Tensor, in_order: bool = True
) -> SparseTensor:
    """Create a sparse tensor from its parts, without checks."""
    t: SparseTensor = new(SparseTensor)
    t._device, t._dtype = values._device, values._dtype
    t.layout, t.sizes, t.index, t.stored = layout, tuple(sizes), tuple(index), values
    t.in_order = in_order or layout is not COO or index[0]._array.shape[1] < 2
    return t


def _flat(values: Any) -> Any:
    for value in values:
        yield from value if isinstance(value, (list, tuple)) else (value,)


def in_place(name: str, args: Any, named: Any) -> Any:
    """Compute a function, and write its result into the first argument."""
    out = args[0]
    result = FUNCTIONS[name](*args, **named)
    if result is out:
        return out
    if not can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"result type {result.dtype.scalar_name} can't be cast to the desired output type {out.dtype.scalar_name}"
        )
    result = result.to(out.dtype)
    if isinstance(out, SparseTensor):
        return take_over(out, result)
    return functional.copy_(out, result.to_dense() if isinstance(result, SparseTensor) else result)


def take_over(out: SparseTensor, source: SparseTensor) -> SparseTensor:
    """Write the sparse tensor `source` into `out`: copy its values if the indices are equal, else share its parts."""
    if out.stored.shape == source.stored.shape and all(map(are_equal, out.index, source.index)):
        functional.copy_(out.stored, source.stored)
        out.in_order |= source.in_order
        return out
    if out.requires_grad and out.is_leaf:
        if is_grad_enabled():
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        source = source.like(source.stored.detach().requires_grad_())
    out.__dict__.pop("_pattern", None)
    out.index, out.stored, out.in_order = source.index, source.stored, source.in_order
    return out


@on("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Any:
    """Copy a sparse tensor of the same layout and sizes into `self`."""
    if not (isinstance(self, SparseTensor) and isinstance(src, SparseTensor) and self.layout is src.layout):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{_kind(self)} and src type = {_kind(src)}"
        )
    if self.sizes != src.sizes:
        raise RuntimeError(f"copy_: the sizes {list(self.sizes)} and {list(src.sizes)} differ")
    return take_over(self, FUNCTIONS["to"](src, self.device, self.dtype))


def _kind(t: Tensor) -> str:
    return f"torch.{'sparse.' if isinstance(t, SparseTensor) else ''}{t.dtype.scalar_name}Tensor"


def _locate_block_elements(xp: Any, t: SparseTensor) -> tuple[AnyArray, AnyArray]:
    """Return the rows and columns of the elements of a block layout, in the order of the flattened values."""
    outer, inner = (raw(index).astype("int64", copy=False) for index in t.index)
    height, width = t.stored.shape[1:3]
    block_rows = xp.searchsorted(outer, xp.arange(inner.size), side="right") - 1
    rows, cols = (block_rows, inner) if t.layout is BSR else (inner, block_rows)
    rows = rows[:, None, None] * height + xp.arange(height)[:, None] + xp.zeros(width, "int64")
    cols = cols[:, None, None] * width + xp.arange(width) + xp.zeros(height, "int64")[:, None]
    return rows.reshape(-1), cols.reshape(-1)
