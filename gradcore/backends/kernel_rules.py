"""Declarations of kernels: batching, shapes on ``meta``, arguments that they write to, C++ and CUDA implementations.

Kernels that are methods declare their rules with decorators. Operations that are kernels declare them in their
declarations (``batch=leading(2)``). A kernel without a batching rule runs unchanged on batched arrays, and a kernel
without a shape rule runs unchanged on arrays without data. Formulas and bodies need no rules.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from math import prod
from types import CodeType, ModuleType
from typing import Any, TypeAlias, TypeVar

from gradcore.core.typing import NamedTuple

__all__ = [
    "MODULES",
    "OPERATIONS",
    "ArrayKernel",
    "BatchRule",
    "Declared",
    "Extremum",
    "IndexKernel",
    "Reduction",
    "Result",
    "RowCall",
    "RowKernel",
    "Settings",
    "all_samples",
    "along",
    "array_kernels",
    "batch_rules",
    "declare",
    "extremum_kernels",
    "finds_extremum",
    "images",
    "index_kernels",
    "indexes",
    "leading",
    "load",
    "load_all",
    "native_arrays",
    "native_bodies",
    "native_body",
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

_Kernel = TypeVar("_Kernel")
_Value = TypeVar("_Value")
#: An entry of a table: the table, the name and the value.
Entry: TypeAlias = tuple[dict[str, Any], str, object]

#: The settings of a C++ function, or None if it does not support a call.
Settings: TypeAlias = tuple[object, ...] | None

#: The module that declares each of gradcore's operations, by the names of the operation and of its kernel.
#: `gradcore.ops.declare.table` sets it.
MODULES: dict[str, str] = {}
#: What these modules declare: by module, the module itself, and table, name and value of entries by operation.
_waiting: dict[str, tuple[ModuleType, dict[str, Sequence[Entry]]]] = {}
#: The modules whose declarations the tables have.
_complete: set[str] = set()


class Declared(dict[str, _Value]):
    """A table of what operations declare, by the name of the operation or of its kernel.

    The module that declares an operation is imported when one of its names is first looked up, and all of them when the
    table is walked through. The tables get its declarations when it has been executed, so that no thread sees an
    operation without its formulas.
    """

    __slots__ = ()

    def __missing__(self, name: str) -> _Value:
        if name in self:
            return super().__getitem__(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        module = MODULES.get(name)  # type: ignore[call-overload]
        if module is not None and module not in _complete:
            load(module)
        return super().__contains__(name)

    def get(self, name: str, default: _Value | None = None) -> _Value | None:  # type: ignore[override]
        """Return the entry of a name, or `default`."""
        return super().__getitem__(name) if name in self else default

    def further(self) -> dict[str, _Value]:
        """Return the entries that gradcore's modules do not declare: those of programs."""
        return {name: value for name, value in super().items() if name not in MODULES}

    def _all(self) -> dict[str, _Value]:
        """Return all entries, in an order that does not depend on which of them were looked up first."""
        load_all()
        entries = dict(super().items())
        return {name: entries[name] for name in MODULES if name in entries} | self.further()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the names of all entries."""
        return self._all().keys()

    def values(self) -> ValuesView[_Value]:  # type: ignore[override]
        """Return the values of all entries."""
        return self._all().values()

    def items(self) -> ItemsView[str, _Value]:  # type: ignore[override]
        """Return the name and the value of all entries."""
        return self._all().items()

    # What `dict` computes from the entries that it has, without the methods above.

    def copy(self) -> dict[str, _Value]:
        """Return a dict of all entries."""
        return self._all()

    def setdefault(self, name: str, default: _Value) -> _Value:
        """Return the entry of a name, which is `default` if there was none."""
        return self[name] if name in self else super().setdefault(name, default)

    def pop(self, name: str, *default: _Value) -> _Value:  # type: ignore[override]
        """Remove the entry of a name, and return it, or `default`."""
        return super().pop(name, *default) if name in self or not default else default[0]

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._all())

    def __or__(self, other: dict[str, _Value]) -> dict[str, _Value]:  # type: ignore[override]
        return self._all() | other

    def __ror__(self, other: dict[str, _Value]) -> dict[str, _Value]:  # type: ignore[override]
        return other | self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    __hash__ = None


#: Declared operations by name, each a `gradcore.ops.declare.table.Op`.
OPERATIONS: Declared[Any] = Declared()


def declare(module: str, name: str, entries: Sequence[Entry]) -> None:
    """Add what an operation declares to tables: when its module has been executed, if it is one of gradcore's.

    Parameters
    ----------
    module : str
        The module that declares the operation.
    name : str
        The operation's name.
    entries : sequence of tuple
        Table, name and value of each entry.
    """
    waiting: dict[str, Sequence[Entry]] = {}
    home = MODULES.get(name)
    if home == module:
        if module not in _waiting or _waiting[module][0] is not sys.modules[module]:  # an import before failed
            _waiting[module] = sys.modules[module], {}
        waiting = _waiting[module][1]
    # Another home among gradcore's modules: the table of names is written anew after an operation has been moved.
    is_taken = home not in (None, module) and not module.startswith("gradcore.ops.")
    if is_taken or name in waiting or dict.__contains__(OPERATIONS, name):
        raise TypeError(f"the operation {name} is declared twice")
    waiting[name] = entries
    if home != module:
        _add(waiting)


def _add(declarations: Mapping[str, Sequence[Entry]]) -> None:
    """Add the entries of declarations to their tables."""
    for entries in declarations.values():
        for table, name, value in entries:
            table[name] = value


def load(module: str) -> None:
    """Import a module, and add what it declares to the tables.

    Several threads may do this at once: each adds the same entries, and finds all of them afterwards.
    """
    __import__(module)  # Captures observe each call within `importlib.import_module`, and skip what this call runs.
    loaded = sys.modules[module]
    if getattr(loaded.__spec__, "_initializing", False):  # A finalizer or signal handler runs inside the import.
        raise RuntimeError(f"{module} is being imported: its operations cannot be called before that is done")
    if module in _waiting:
        _add(_waiting[module][1])
    _complete.add(module)


def load_all() -> None:
    """Import all modules that declare operations, and add what they declare to the tables."""
    for module in dict.fromkeys(MODULES.values()):
        if module not in _complete:
            load(module)


def _finish_imports() -> None:
    """Import all declarations before a fork while other threads run.

    The child has the locks of imports that these threads have begun, and would wait for them forever.
    """
    if threading.active_count() > 1:
        load_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_imports)


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


def _declaring(attribute: str, declaration: object) -> Callable[[_Kernel], _Kernel]:
    """Return the decorator that adds a declaration to a kernel, as an attribute."""

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)[attribute] = declaration
        return kernel

    return declare


def shaped(rule: Callable[..., Any]) -> Callable[[_Kernel], _Kernel]:
    """Declare the shape rule of a kernel: a function of its arguments.

    The rule returns a `Result`, or an array with the shape and dtype of the result, or a value that is not an array
    unchanged. For several results, it returns a tuple of these.
    """
    return _declaring("shaped", rule)


def writes(*names: str) -> Callable[[_Kernel], _Kernel]:
    """Declare the parameters of a kernel whose arrays it modifies in place; without names, it may modify all."""

    def declare(kernel: _Kernel) -> _Kernel:
        parameters = _parameters_of(kernel)
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

    cuda_names = tuple(cuda.split()) if cuda else None
    return _declaring("native_rows", RowKernel(symbol, reads, writes, row_call, least_width, calls, cuda_names))


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


class ArrayKernel(NamedTuple):
    """The C++ function of a kernel of contiguous arrays, which compiled programs call.

    The function of ``program.h`` is ``symbol<T>(results..., arrays..., settings..., i64 threads)``, where ``T`` is the
    dtype of the floats. If it reads indices, it returns whether all of them are in bounds; if not, it writes nothing,
    and the kernel itself runs and raises the error.

    Attributes
    ----------
    symbol : str
    reads : tuple of (str, str)
        The name of each parameter of the kernel that the function reads, and the contents of the array. The array may
        be None, which the function gets as a null pointer.
    writes : tuple of str
        Contents of each result: ``"value"``, floats of the dtype of the others; ``"index"``, int64; ``"position"``,
        int64, or int32 between two functions of a program. A kernel with the parameter ``needs`` has only the results
        that it names; the function gets null pointers for the others.
    settings : callable
        Called with the kernel's arguments, of which arrays need no more than ``shape``, ``size`` and ``dtype``. It
        returns the function's settings: numbers, bools, and tuples of these, which are members of a C++ struct. It
        returns None if the function does not support the arguments.
    parameters : tuple of str
        The names of the kernel's parameters.
    """

    symbol: str
    reads: tuple[tuple[str, str], ...]
    writes: tuple[str, ...]
    settings: Callable[..., Settings]
    parameters: tuple[str, ...]


def native_arrays(symbol: str, arrays: str, settings: Callable[..., Settings]) -> Callable[[_Kernel], _Kernel]:
    """Declare the C++ function of a kernel of contiguous arrays, which compiled programs call.

    Parameters
    ----------
    symbol : str
        The function of ``program.h``.
    arrays : str
        The parameters that it reads and the contents of the results, in the words of `ArrayKernel`, for example
        ``"x target=index -> value"``.
    settings : callable
        See `ArrayKernel`.
    """
    read_words, writes = (side.split() for side in arrays.split("->"))
    reads = tuple((name, content or "value") for name, _, content in (word.partition("=") for word in read_words))

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)["native_arrays"] = ArrayKernel(symbol, reads, tuple(writes), settings, _parameters_of(kernel))
        return kernel

    return declare


def _parameters_of(kernel: object) -> tuple[str, ...]:
    """Return the names of a kernel's parameters after ``self``."""
    signature = getattr(kernel, "__signature__", None)  # of kernels that take settings as one object
    if signature is not None:
        return tuple(signature.parameters)[1:]
    code: CodeType = kernel.__code__  # type: ignore[attr-defined]  # `inspect` is slow to import.
    return tuple(code.co_varnames[1 : code.co_argcount])


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
    function: str = ""
    rows: str = ""
    least: int = 0
    least_of_halves: int = 0
    cuda: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    def __call__(self, kernel: _Kernel) -> _Kernel:
        """Declare that a kernel has these implementations."""
        return _declaring("reduces", self)(kernel)


#: The decorator that declares the implementations of a reduction. It takes the attributes of `Reduction`.
reduces = Reduction


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
    return _declaring("finds_extremum", Extremum(order, tuple(results.split()), operation))


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


def native_body(kernel: _Kernel) -> _Kernel:
    """Declare that compiled programs make the calls of this definition of a kernel, where others may replace it.

    The calls must have C++ loops or functions of their own, and may not depend on elements.
    """
    vars(kernel)["native_body"] = kernel
    return kernel


def array_kernels(backend: type) -> dict[str, ArrayKernel]:
    """Return the C++ kernels of contiguous arrays that a backend class declares, by the names of its methods."""
    return _rules(backend, "native_arrays")


def extremum_kernels(backend: type) -> dict[str, Extremum]:
    """Return the kernels that find extrema, declared by a backend class, by the names of its methods."""
    return _rules(backend, "finds_extremum")


def index_kernels(backend: type) -> dict[str, IndexKernel]:
    """Return the kernels by index that a backend class declares, by the names of its methods."""
    return _rules(backend, "indexes")


def native_bodies(backend: type) -> dict[str, Callable[..., Any]]:
    """Return the bodies that a backend class declares for compiled programs, by the names of its methods."""
    return _rules(backend, "native_body")


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
