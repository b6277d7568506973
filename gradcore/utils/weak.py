"""Weak references and dictionaries that compare their keys by identity.

``==`` of tensors compares their elements, so a tensor cannot be a key of `weakref.WeakKeyDictionary`.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """Weak reference that equals another one if both refer to the same object.

    Parameters
    ----------
    key : object
        The object to refer to.
    callback : callable, optional
        Called with the reference when the object is deleted.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils.weak import WeakIdRef
    >>> x = gc.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(x.clone())
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        # A deleted object and a new one may have the same id, so ids alone do not decide.
        return self is other or (isinstance(other, WeakIdRef) and self() is not None and self() is other())

    def __ne__(self, other: object) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Dictionary that holds its keys weakly and finds them by identity.

    An entry is removed when its key is deleted.

    Parameters
    ----------
    dict : mapping, optional
        The first entries.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils.weak import WeakIdKeyDictionary
    >>> x = gc.ones(2)
    >>> names = WeakIdKeyDictionary({x: "x"})
    >>> names[x], gc.ones(2) in names
    ('x', False)
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Mapping[Any, Any] | None = None) -> None:
        self.data: builtins.dict[WeakIdRef, Any] = {}
        dictionary = weakref.ref(self)

        def remove(key: WeakIdRef) -> None:
            if (alive := dictionary()) is not None:
                alive.data.pop(key, None)

        self._remove = remove
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[WeakIdRef(key)]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[WeakIdRef(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[WeakIdRef(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return WeakIdRef(key) in self.data
        except TypeError:  # no weak reference to such an object
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        # A key may be deleted, and its entry removed, while the caller iterates.
        for reference in list(self.data):
            if (key := reference()) is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[WeakIdRef]:
        """Return the weak references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Return a dictionary with the same keys and values."""
        return type(self)(self)

    __copy__ = copy


#: Dictionary with tensors as keys.
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """Weak reference to a tensor. A call returns the tensor, or None after its deletion.

    Parameters
    ----------
    tensor : Tensor
        The tensor to refer to.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.utils.weak import TensorWeakRef
    >>> x = gc.ones(2)
    >>> reference = TensorWeakRef(x)
    >>> reference() is x
    True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"argument 'tensor' must be Tensor, not {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


paths.show_public(__name__)
