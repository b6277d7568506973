"""The class of ``torch.__version__``: strings that compare as versions."""

from __future__ import annotations

import re
from typing import Any

from gradcore.torch_names import paths

__all__ = ["TorchVersion"]


def _release(version: Any) -> tuple[Any, ...]:
    """Return the sort key of a version: its numbers without trailing zeros, and whether it is a final release."""
    if isinstance(version, str):
        public = version.partition("+")[0]
        numbers = re.match(r"v?(\d+(?:\.\d+)*)", public)
        if numbers is None:
            raise ValueError(f"Invalid version: {version!r}")
        digits, final = [int(each) for each in numbers[1].split(".")], numbers.end() == len(public)
    else:
        digits, final = [int(each) for each in version], True
    while digits and not digits[-1]:
        digits.pop()
    return tuple(digits), final


def _compare(version: str, other: object, method: str) -> bool:
    """Compare as versions, or as plain strings if one of them is no version."""
    try:
        keys = _release(version), _release(other)
    except ValueError:
        return bool(getattr(str, method)(version, other))
    return bool(getattr(tuple, method)(*keys))


class TorchVersion(str):
    """A version, a str that is compared with others by its numbers.

    Examples
    --------
    >>> TorchVersion("2.13.0+cpu") >= "2.4"
    True
    >>> TorchVersion("2.13.0") > (1, 9)
    True
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        try:
            return _release(self) == _release(other)
        except (TypeError, ValueError):
            return str.__eq__(self, other)

    def __lt__(self, other: Any) -> bool:
        return _compare(self, other, "__lt__")

    def __gt__(self, other: Any) -> bool:
        return _compare(self, other, "__gt__")

    def __le__(self, other: Any) -> bool:
        return _compare(self, other, "__le__")

    def __ge__(self, other: Any) -> bool:
        return _compare(self, other, "__ge__")

    __hash__ = str.__hash__


paths.show_public(__name__)
