"""Pytrees: nested containers as a flat list of leaves and a structure, as in ``torch.utils._pytree``.

Containers are tuples, lists, dicts, ordered and default dicts, deques, named tuples, results such as that of
`gradcore.max`, and the classes given to `register_pytree_node`. Everything else is a leaf, including None.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

from gradcore.core.typing import NamedTuple
from gradcore.torch_names import paths

__all__ = [
    "Context",
    "FlattenFn",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

PyTree: TypeAlias = Any
Context: TypeAlias = Any
FlattenFn: TypeAlias = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn: TypeAlias = Callable[[Iterable[Any], Any], Any]
Predicate: TypeAlias = Callable[[Any], bool] | None


# -- key paths --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """Key of an element of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the element of `sequence` with this key."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """Key of a value in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the value in `mapping` with this key."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """Key of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute of `obj` with this name."""
        return getattr(obj, self.name)


KeyEntry: TypeAlias = Any
KeyPath: TypeAlias = tuple[KeyEntry, ...]


def keystr(kp: KeyPath) -> str:
    """Return a key path as Python source, such as ``[0]['a']``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the value at a key path of a tree."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- kinds of containers ----------------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """A container class: its functions to flatten, unflatten and serialize."""

    flatten: FlattenFn
    unflatten: UnflattenFn
    keys: Callable[[Any], list[Any]] | None = None
    name: str | None = None
    dump: Callable[[Any], Any] | None = None
    load: Callable[[Any], Any] | None = None


def _number_children(children: Any) -> list[Any]:
    return [SequenceKey(i) for i in range(len(children))]


def _flatten_mapping(mapping: Any) -> list[Any]:
    return [MappingKey(key) for key in mapping]


def _flatten_named_tuple(value: Any) -> list[Any]:
    return [GetAttrKey(name) for name in type(value)._fields]


def _dict(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


def _defaultdict(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), [value.default_factory, list(value)]


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


_KINDS: dict[type, _Kind] = {
    tuple: _Kind(
        lambda value: (list(value), None), lambda children, _: tuple(children), _number_children, "builtins.tuple"
    ),
    list: _Kind(
        lambda value: (list(value), None), lambda children, _: list(children), _number_children, "builtins.list"
    ),
    dict: _Kind(_dict, lambda values, keys: dict(zip(keys, values, strict=True)), _flatten_mapping, "builtins.dict"),
    OrderedDict: _Kind(
        _dict,
        lambda values, keys: OrderedDict(zip(keys, values, strict=True)),
        _flatten_mapping,
        "collections.OrderedDict",
    ),
    defaultdict: _Kind(
        _defaultdict,
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
        _flatten_mapping,
        "collections.defaultdict",
        lambda context: {
            "default_factory_module": context[0].__module__,
            "default_factory_name": context[0].__qualname__,
            "dict_context": context[1],
        },
        lambda written: [
            _class(f"{written['default_factory_module']}:{written['default_factory_name']}"),
            written["dict_context"],
        ],
    ),
    deque: _Kind(
        lambda value: (list(value), value.maxlen),
        lambda children, maxlen: deque(children, maxlen=maxlen),
        _number_children,
        "collections.deque",
    ),
}
_NAMEDTUPLE = _Kind(
    lambda value: (list(value), type(value)),
    lambda children, cls: cls(*children),
    _flatten_named_tuple,
    "collections.namedtuple",
    lambda cls: f"{cls.__module__}:{cls.__qualname__}",
    _class,
)


class namedtuple:
    """Stand-in type of all named tuples in a `TreeSpec`. The context is the actual class."""


_KINDS[namedtuple] = _NAMEDTUPLE

#: PyTorch's name of the table, by which packages ask whether an object is a leaf.
SUPPORTED_NODES = _KINDS


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether `cls` is a class of named tuples."""
    fields = getattr(cls, "_fields", None)
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)


def is_namedtuple_instance(obj: Any) -> bool:
    """Return whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Return whether an object is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq(obj: Any) -> bool:
    """Return whether an object is a struct sequence, such as `time.struct_time`, or a class of them."""
    cls = obj if isinstance(obj, type) else type(obj)
    return cls.__base__ is tuple and all(
        isinstance(getattr(cls, n, None), int) for n in ("n_fields", "n_unnamed_fields")
    )


def _kind_of(tree: Any) -> type | None:
    """Return the key of a container in the table of container classes, or None for a leaf."""
    cls = type(tree)
    if cls in _KINDS:
        return cls
    return namedtuple if is_namedtuple_class(cls) else None


def _get_node_type(tree: Any) -> type:
    """Return the class that `SUPPORTED_NODES` has for a container; for a leaf, its own class."""
    return _kind_of(tree) or type(tree)


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Register a class as a container, also for `gradcore.func` and checkpoints.

    Parameters
    ----------
    cls : type
    flatten_fn : callable
        Returns the list of children of an instance, and a context: everything else needed to create it again.
    unflatten_fn : callable
        Returns an instance, given children and context.
    serialized_type_name : str, optional
        The name of the class in the output of `treespec_dumps`.
    to_dumpable_context, from_dumpable_context : callable, optional
        Convert a context to an object that can be written as JSON, and back. Give both or neither.
    flatten_with_keys_fn : callable, optional
        A function like `flatten_fn` that returns pairs of a key and a child.

    Raises
    ------
    ValueError
        If the class is registered already, or only one of both functions for contexts is given.

    Examples
    --------
    >>> from gradcore.utils._pytree import register_pytree_node, tree_map
    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_node(Point, lambda p: ([p.x, p.y], None), lambda children, _: Point(*children))
    >>> tree_map(lambda v: -v, Point(1, 2)).y
    -2
    """
    if cls in _KINDS:
        raise ValueError(f"{cls} is already registered as pytree node. ")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    keyed = flatten_with_keys_fn
    keys = None if keyed is None else lambda value: [key for key, _ in keyed(value)[0]]
    _KINDS[cls] = _Kind(
        flatten_fn, unflatten_fn, keys, serialized_type_name, to_dumpable_context, from_dumpable_context
    )


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    """Remove a class from the containers, so that its instances are leaves."""
    del _KINDS[cls]


# -- structures -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class TreeSpec:
    """The structure of a tree: its containers, without the leaves.

    Attributes
    ----------
    type : type or None
        The class of the outermost container; None for a leaf.
    context : object
        The data needed besides the children, such as the keys of a dict or the class of a named tuple.
    children_specs : list of TreeSpec
    """

    type: Any
    context: Any
    children_specs: list[TreeSpec]

    @property
    def num_children(self) -> int:
        """Number of children of the outermost container."""
        return len(self.children_specs)

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """Number of containers and leaves."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Return whether the structure is a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` at the positions of this structure's leaves.

        Raises
        ------
        ValueError
            If the tree does not begin as this structure does.
        """
        if self.type is None:
            return [tree]
        kind = _kind_of(tree)
        matches = kind is self.type or (kind in _DICTS and self.type in _DICTS)
        if not matches:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = _KINDS[self.type if kind is None else kind].flatten(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if self.type in _DICTS:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {keys!r}, but got {list(tree)!r}.")
            children = [tree[key] for key in keys]
        elif context != self.context:
            raise ValueError(f"Node context mismatch for node type {self.type!r}: {context!r} is not {self.context!r}.")
        return [
            leaf
            for child, spec in zip(children, self.children_specs, strict=True)
            for leaf in spec.flatten_up_to(child)
        ]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with this structure and these leaves."""
        leaves = list(leaves)
        if self.type is None and len(leaves) == 1:
            return leaves[0]
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, source: Iterator[Any]) -> Any:
        if self.type is None:
            return next(source)
        return _KINDS[self.type].unflatten([child._build(source) for child in self.children_specs], self.context)

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.type is None:
            return "*"
        lines = ["" if not self.children_specs else self.children_specs[0]._text(indent + 2)]
        lines += [f"{' ' * (indent + 2)}{child._text(indent + 2)}" for child in self.children_specs[1:]]
        return f"TreeSpec({self.type.__name__}, {self.context}, [{(',' + chr(10)).join(lines)}])"

    def __hash__(self) -> int:
        return hash((self.type, self.num_children, repr(self.context), *map(hash, self.children_specs)))


_DICTS = (dict, OrderedDict, defaultdict)
_LEAF = TreeSpec(None, None, [])


class LeafSpec(TreeSpec):
    """The structure of a leaf. There is only one instance."""

    def __new__(cls) -> Any:
        """Return the only instance."""
        return _LEAF


def tree_is_leaf(tree: Any, is_leaf: Predicate = None) -> bool:
    """Return whether a tree is a leaf, by its type or according to `is_leaf`."""
    return _kind_of(tree) is None or (is_leaf is not None and is_leaf(tree))


def _collect(tree: Any, is_leaf: Predicate, leaves: list[Any]) -> TreeSpec:
    cls = type(tree)
    kind: Any = cls if cls in _KINDS else _kind_of(tree)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    children, context = _KINDS[kind].flatten(tree)
    return TreeSpec(kind, context, [_collect(child, is_leaf, leaves) for child in children])


def tree_flatten(tree: Any, is_leaf: Predicate = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree, from left to right, and its structure.

    Parameters
    ----------
    tree : object
    is_leaf : callable, optional
        Containers for which it returns True are leaves, too.

    Examples
    --------
    >>> tree_flatten({"a": 1, "b": [2]})
    ([1, 2], TreeSpec(dict, ['a', 'b'], [*,
      TreeSpec(list, None, [*])]))
    """
    if is_leaf is None and type(tree) not in _KINDS and not isinstance(tree, tuple):
        return [tree], _LEAF
    leaves: list[Any] = []
    spec = _collect(tree, is_leaf, leaves)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the tree with structure `treespec` and these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Predicate = None) -> list[Any]:
    """Return the leaves of a tree, from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Predicate = None) -> Iterator[Any]:
    """Yield the leaves of a tree, from left to right."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Predicate = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


# -- functions of leaves ----------------------------------------------------------------------------------------------


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate = None) -> Any:
    """Return a tree with ``func(leaf, *others)`` for each leaf, with the corresponding values of `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec._build(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate = None) -> Any:
    """Call a function on each leaf, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _test(condition: Any) -> Callable[[Any], bool]:
    """Return a function that tests a value: by a type, several types, or a predicate."""
    if isinstance(condition, (type, tuple)) or hasattr(condition, "__args__"):
        return lambda value: isinstance(value, condition)
    if callable(condition):
        return condition  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator for functions, which are then applied to some values and return others unchanged."""
    predicate = _test(type_or_types_or_pred)
    return lambda func: lambda value: func(value) if predicate(value) else value


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Predicate = None
) -> Any:
    """Return the tree with `func` applied to the leaves of a type, or that satisfy a predicate."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Predicate = None
) -> Any:
    """Call `func` on the leaves of a type, or that satisfy a predicate, and return the tree itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Predicate = None) -> bool:
    """Return whether all leaves satisfy a predicate."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Predicate = None) -> bool:
    """Return whether a leaf satisfies a predicate."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Predicate = None) -> bool:
    """Return whether all leaves of a type satisfy a predicate."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Predicate = None) -> bool:
    """Return whether a leaf of a type satisfies a predicate."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Predicate = None) -> list[Any] | None:
    """Return a value per leaf of `treespec`, where leaves of `tree` are repeated; None if the structures differ.

    None if the structures differ.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind: Any = _kind_of(tree)
    if treespec.type is None or (kind is not treespec.type and (kind, treespec.type) != (tuple, namedtuple)):
        return None
    children, context = _KINDS[kind].flatten(tree)
    if kind is dict and set(context) == set(treespec.context):
        children, context = [tree[key] for key in treespec.context], treespec.context
    if len(children) != treespec.num_children or (kind is treespec.type and context != treespec.context):
        return None
    results = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        inner = _broadcast_to_and_flatten(child, spec, is_leaf)
        if inner is None:
            return None
        results.extend(inner)
    return results


# -- leaves with key paths --------------------------------------------------------------------------------------------


def tree_leaves_with_path(tree: Any, is_leaf: Predicate = None) -> list[tuple[KeyPath, Any]]:
    """Yield the leaves of a tree, each with its key path."""

    def below(tree: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
        if tree_is_leaf(tree, is_leaf):
            yield path, tree
            return
        kind = _KINDS[_kind_of(tree)]  # type: ignore[index]
        if kind.keys is None:
            raise ValueError(
                f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn."
            )
        for key, child in zip(kind.keys(tree), kind.flatten(tree)[0], strict=True):
            yield from below(child, (*path, key))

    return list(below(tree, ()))


def tree_flatten_with_path(tree: Any, is_leaf: Predicate = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the leaves of a tree, each with its key path, and the structure.

    Examples
    --------
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate = None) -> Any:
    """Return a tree with ``func(key_path, leaf, *others)`` for each leaf; see `tree_map`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


# -- structures as text -----------------------------------------------------------------------------------------------

#: The number of the layout that `treespec_dumps` writes.
_PROTOCOL = 1


def _json() -> ModuleType:
    """Return the module `json`, imported on first use."""
    import json

    return json


def _write_spec(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    kind = _KINDS[spec.type]
    if kind.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please register with a `serialized_type_name`"
        )
    context = _json().dumps(spec.context) if kind.dump is None else kind.dump(spec.context)
    return {"type": kind.name, "context": context, "children_spec": list(map(_write_spec, spec.children_specs))}


def _restore(schema: dict[str, Any]) -> TreeSpec:
    if schema["type"] is None:
        return _LEAF
    cls = next((cls for cls, kind in _KINDS.items() if kind.name == schema["type"]), None)
    if cls is None:
        raise NotImplementedError(f"Deserializing {schema['type']} in a pytree is not registered.")
    load = _KINDS[cls].load
    context = _json().loads(schema["context"]) if load is None else load(schema["context"])
    return TreeSpec(cls, context, list(map(_restore, schema["children_spec"])))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a structure as JSON."""
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return str(_json().dumps((_PROTOCOL, _write_spec(treespec))))


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure from the JSON text that `treespec_dumps` returned."""
    protocol, schema = _json().loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")
    return _restore(schema)


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a structure as text, with stars for the leaves."""

    class Star:
        def __repr__(self) -> str:
            return "*"

    return repr(treespec.unflatten([Star()] * treespec.num_leaves))


paths.show_public(__name__)
