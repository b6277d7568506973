"""Declarations of kernels: batching, shapes on ``meta``, arguments that they write to, C++ and CUDA implementations.

Kernels that are methods declare their rules with decorators. Operations that are kernels declare them in their
declarations (``batch=leading(2)``). A kernel without a batching rule runs unchanged on batched arrays, and a kernel
without a shape rule runs unchanged on arrays without data. Formulas and bodies need no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "OPERATIONS",
    "BatchRule",
    "Extremum",
    "IndexKernel",
    "Reduction",
    "Result",
    "RowCall",
    "RowKernel",
    "all_samples",
    "along",
    "batch_rules",
    "extremum_kernels",
    "finds_extremum",
    "images",
    "index_kernels",
    "indexes",
    "leading",
    "native_rows",
    "reduces",
    "reductions",
    "row_kernels",
    "shape_rules",
    "shaped",
    "width_of_rows",
    "writes",
    "written_arguments",
]

#: Declared operations by name, each a `gradcore.ops.declare.table.Op`. That module adds them.
OPERATIONS: dict[str, Any] = {}

_Kernel = TypeVar("_Kernel")


class BatchRule(NamedTuple):
    """Rule for how a kernel handles an additional leading dim, and the decorator that declares the rule."""

    kind: str
    numbers: tuple[int, ...] = ()

    def __call__(self, kernel: _Kernel) -> _Kernel:
        """Declare that a kernel follows this rule."""
        vars(kernel)["batch"] = self
        return kernel


def along(position: int) -> BatchRule:
    """Return the rule of kernels along dims, counted from the front, in argument number `position` (None: all)."""
    return BatchRule("along", (position,))


def leading(*dims: int) -> BatchRule:
    """Return the rule of kernels of the last `dims` dims of each array, such as ``leading(2)`` for matrices.

    Any dims can be in front of these.
    """
    return BatchRule("leading", dims)


def images(position: int) -> BatchRule:
    """Return the rule of kernels of images whose argument number `position` has a number for each spatial dim.

    Arrays in front of it have a batch dim, which may be left out, and channels in front of the spatial ones.
    """
    return BatchRule("images", (position,))


#: Rule of kernels that check the numbers of all samples at once, with no result or a single one.
all_samples = BatchRule("all_samples")


class Result(NamedTuple):
    """Shape and dtype of an array that a kernel returns."""

    shape: tuple[int, ...]
    dtype: Any


def shaped(rule: Callable[..., Any]) -> Callable[[_Kernel], _Kernel]:
    """Declare the shape rule of a kernel: a function of its arguments.

    The rule returns a `Result`, or an array with the shape and dtype of the result, or a value that is not an array
    unchanged. For several results, it returns a tuple of these.
    """

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)["shaped"] = rule
        return kernel

    return declare


def writes(*names: str) -> Callable[[_Kernel], _Kernel]:
    """Declare the parameters of a kernel whose arrays it modifies in place; without names, it may modify all."""

    def declare(kernel: _Kernel) -> _Kernel:
        code = kernel.__code__  # type: ignore[attr-defined]
        parameters = code.co_varnames[1 : code.co_argcount]  # `inspect` is slow to import.
        vars(kernel)["writes"] = tuple(map(parameters.index, names)) if names else tuple(range(len(parameters)))
        return kernel

    return declare


def written_arguments(backend: type) -> dict[str, tuple[int, ...]]:
    """Return the positions of the arguments that the kernels of a backend class modify, by the kernels' names."""
    return _rules(backend, "writes")


class RowCall(NamedTuple):
    """Describes the arguments of a kernel, or of an operation, that follow its arrays.

    Attributes
    ----------
    dim, dims, number, dtype : int
        Positions among these arguments of: a dim, which has to be the last one; the number of last dims that make a
        row; the member ``number`` of ``Work``; a dtype. -1 if there is no such argument.
    value : float
        The member ``number`` where no argument gives it.
    """

    dim: int = -1
    dims: int = -1
    number: int = -1
    dtype: int = -1
    value: float = 0

    @classmethod
    def parse(cls, words: str, value: float = 0) -> RowCall:
        """Return the description for words such as ``"dim number=1 dtype"``. `value` is the default number."""
        fields: dict[str, Any] = {"value": value}
        position = 0
        for word in words.split():
            name, _, default = word.partition("=")
            if default:
                fields["value"] = float(default)
            else:
                fields[name], position = position, position + 1
        return cls(**fields)

    def number_of(self, arguments: Sequence[Any]) -> float:
        """Return the value of ``Work.number``, or 0 if its argument is left out."""
        if self.number < 0:
            return self.value
        return arguments[self.number] if self.number < len(arguments) else 0

    def dtype_of(self, arguments: Sequence[Any]) -> Any:
        """Return the dtype argument, or None."""
        return arguments[self.dtype] if 0 <= self.dtype < len(arguments) else None


class RowKernel(NamedTuple):
    """The C++ kernel, and optionally the CUDA kernels, of contiguous rows of floats.

    The function of ``rows.h`` is ``symbol(const Work&, i64 start, i64 stop, const T* reads..., writes...)``; its work
    is the rows from `start` to before `stop`. ``ROW_KERNEL(symbol)`` after the function makes it a symbol of the
    library.

    The functions of a CUDA source are ``symbol_rows(reads..., writes..., i64 rows, i64 n, bool flag)`` along the last
    dim, and ``symbol_columns(reads..., writes..., i64 columns, i64 n, i64 inner, bool flag)`` along others.

    Attributes
    ----------
    symbol : str
    reads : tuple of str
        Contents of each array that the kernel takes: ``"rows"``, the elements of the rows; ``"row"``, one number for
        each row; ``"column=1"``, one number for each column of a row, and 1 for each if the array is None.
    writes : tuple of str
        Contents of each result: ``"rows"``; ``"row"``, in a vector, or ``"kept"``, in the shape of the rows with dims
        of size 1; ``"index"``, an int64 for each element.
    call : RowCall
        The kernel's other arguments.
    least_width : int
        The width of rows from which the kernel is faster than NumPy's functions.
    operations : dict
        The further arguments of operations whose body is a call of this kernel, by the name of the operation.
    cuda : tuple of str or None
        The source, without ``.cu``, and the symbol in it; then a third word if the flag is True.
    """

    symbol: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    call: RowCall
    least_width: int
    operations: dict[str, RowCall]
    cuda: tuple[str, ...] | None = None


def native_rows(
    symbol: str, arrays: str, call: str, least_width: int = 1, cuda: str | None = None, **operations: str
) -> Callable[[_Kernel], _Kernel]:
    """Declare the C++ and CUDA implementations of a kernel of contiguous rows.

    Parameters
    ----------
    symbol : str
        The function of ``rows.h``.
    arrays : str
        The arrays that it reads and writes, in the words of `RowKernel`, for example ``"rows column=1 -> rows row"``.
    call : str
        The kernel's other arguments, in the words of `RowCall`.
    least_width : int
        The width of rows from which it is faster than NumPy's functions.
    cuda : str, optional
        The CUDA source and its symbol, for example ``"softmax softmax"``; a third word for a flag that is True.
    **operations : str
        The further arguments of operations whose body is a call of this kernel.
    """
    reads, writes = (tuple(side.split()) for side in arrays.split("->"))
    row_call = RowCall.parse(call)
    calls = {name: RowCall.parse(words, row_call.value) for name, words in operations.items()}

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)["native_rows"] = RowKernel(
            symbol, reads, writes, row_call, least_width, calls, tuple(cuda.split()) if cuda else None
        )
        return kernel

    return declare


def width_of_rows(kernel: RowKernel, call: RowCall) -> Callable[..., int]:
    """Return a function that gives the width of a kernel's rows, or 0 if the kernel does not support its arguments.

    It takes the first argument and a sequence of the others. These are the conditions that eager calls and compiled
    programs share, and need no more than the ``shape``, ``size`` and ``dtype`` of the arrays: floats of one dtype, in
    rows along the last dims.

    Parameters
    ----------
    kernel : RowKernel
    call : RowCall
        The arguments after the arrays, those of the kernel or of one of its operations.
    """
    # Values that depend on the declaration alone are computed once, because a call only takes a few microseconds.
    further_reads = kernel.reads[1:]
    dim, dims, _, dtype = (at if at < 0 else at + len(further_reads) for at in call[:4])

    def width_of(x: Any, rest: Sequence[Any]) -> int:
        kind, shape = x.dtype, x.shape
        ndim = len(shape)
        if kind.char not in "fd" or not ndim or (dim >= 0 and rest[dim] % ndim != ndim - 1):
            return 0
        if 0 <= dtype < len(rest) and rest[dtype] is not None and rest[dtype].numpy != kind:
            return 0
        width: int = shape[-1] if dims < 0 else prod(shape[ndim - rest[dims] :])
        for word, array in zip(further_reads, rest, strict=False):
            if array is None:
                continue
            if array.dtype != kind or (
                array.shape != shape if word == "rows" else array.size != (x.size // width if word == "row" else width)
            ):
                return 0
        return width

    return width_of


class Reduction(NamedTuple):
    """The implementations of a kernel that reduces dims, and of operations whose body is a call of this kernel.

    Attributes
    ----------
    loop : str
        The kind of reduction in segments of compiled programs: ``"sum"``, ``"mean"``, ``"max"``, ``"min"``; "" if
        they have none.
    function : str
        NumPy's function that combines two elements, or the results of two parts; "" if there is none.
    rows : str
        The C++ function that reduces each row of a contiguous matrix; "" if there is none.
    least : int
        The number of elements from which it is faster than BLAS and NumPy's loops.
    least_of_halves : int
        The same for float16 and bfloat16; 0 if there is no such function.
    cuda : tuple of str
        The expressions of CuPy's ``ReductionKernel``, which reduces float16 and bfloat16 in float32: the value of an
        element, the combination of two values, the result, and the value for no elements.
    operations : tuple of str
        The names of operations whose body calls this kernel on their tensor and adds nothing.
    """

    loop: str
    function: str
    rows: str
    least: int
    least_of_halves: int
    cuda: tuple[str, ...]
    operations: tuple[str, ...]


def reduces(
    loop: str,
    function: str = "",
    rows: str = "",
    least: int = 0,
    least_of_halves: int = 0,
    cuda: tuple[str, ...] = (),
    operations: str = "",
) -> Callable[[_Kernel], _Kernel]:
    """Declare the implementations of a kernel that reduces dims. The parameters are the attributes of `Reduction`."""

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)["reduces"] = Reduction(
            loop, function, rows, least, least_of_halves, cuda, tuple(operations.split())
        )
        return kernel

    return declare


class Extremum(NamedTuple):
    """A kernel that finds the first extremum along a dim, or the first NaN if there is one.

    Attributes
    ----------
    order : str
        ``">"`` for a maximum, ``"<"`` for a minimum.
    results : tuple of str
        Contents of each result: ``"value"`` or ``"index"``.
    operation : str
        The operation whose body is a call of this kernel. Without a dim, it searches the flattened array.
    """

    order: str
    results: tuple[str, ...]
    operation: str


def finds_extremum(order: str, results: str, operation: str) -> Callable[[_Kernel], _Kernel]:
    """Declare that a kernel finds an extremum along a dim. The parameters are the attributes of `Extremum`."""

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)["finds_extremum"] = Extremum(order, tuple(results.split()), operation)
        return kernel

    return declare


class IndexKernel(NamedTuple):
    """A kernel that moves elements from or to the positions that tensors of indices name.

    Attributes
    ----------
    action : str
        ``"take"`` returns the elements at the positions, ``"put"`` writes values there, ``"add"`` adds them.
    by : str
        How the indices name positions: ``"tuple"``, by a sequence with a tensor or None for each dim, from the end if
        negative; ``"dim"``, by the slices of one dim; ``"each"``, by an index along one dim for each element.
    calls : dict
        The contents of each argument, by the name of the kernel and of operations that are calls of it: ``x``, of which
        the elements are taken, or a copy is written to; ``out``, which is written to itself; ``values``; ``index``;
        ``dim``, which is 0 if it is missing; ``accumulate``, which turns ``put`` into ``add``; the ``shape`` of the
        result and ``-``, which change nothing. If there is neither ``x`` nor ``out``, the result is zero elsewhere.
    """

    action: str
    by: str
    calls: dict[str, tuple[str, ...]]

    def writes_to(self, name: str) -> bool:
        """Return whether the kernel or operation `name` modifies an argument."""
        return "out" in self.calls[name]


def indexes(action: str, by: str, call: str = "", **operations: str) -> Callable[[_Kernel], _Kernel]:
    """Declare that a kernel moves elements by index, so that compiled programs have C++ loops for it.

    Parameters
    ----------
    action, by : str
        The attributes of `IndexKernel`.
    call : str
        The contents of the kernel's arguments, for example ``"x dim index"``; none if only its operations have loops.
    **operations : str
        The contents of the arguments of operations whose body is a call of this kernel.
    """

    def declare(kernel: _Kernel) -> _Kernel:
        name: str = kernel.__name__  # type: ignore[attr-defined]
        calls = {each: tuple(words.split()) for each, words in ({name: call} | operations).items() if words}
        vars(kernel)["indexes"] = IndexKernel(action, by, calls)
        return kernel

    return declare


def extremum_kernels(backend: type) -> dict[str, Extremum]:
    """Return the kernels that find extrema, declared by a backend class, by the names of its methods."""
    return _rules(backend, "finds_extremum")


def index_kernels(backend: type) -> dict[str, IndexKernel]:
    """Return the kernels by index that a backend class declares, by the names of its methods."""
    return _rules(backend, "indexes")


def reductions(backend: type) -> dict[str, Reduction]:
    """Return the reductions that a backend class declares, by the names of its methods."""
    return _rules(backend, "reduces")


def row_kernels(backend: type) -> dict[str, RowKernel]:
    """Return the C++ row kernels that a backend class declares, by the names of its methods."""
    return _rules(backend, "native_rows")


def _rules(backend: type, attribute: str) -> dict[str, Any]:
    classes = reversed(backend.__mro__)
    kernels = {name: kernel for cls in classes for name, kernel in vars(cls).items() if hasattr(kernel, attribute)}
    return {name: getattr(kernel, attribute) for name, kernel in kernels.items()}


def batch_rules(backend: Any) -> dict[str, BatchRule]:
    """Return the batching rules of a backend class's kernels, and of operations that are kernels."""
    return {**_rules(backend, "batch"), **backend.declared_batch_rules}


def shape_rules(backend: Any) -> dict[str, Callable[..., Any]]:
    """Return the shape rules of a backend class's kernels, and of operations that are kernels."""
    return {**_rules(backend, "shaped"), **backend.declared_shape_rules}
