"""Futures: results that are set later, as in ``torch.futures``."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gradcore.torch_names import paths

__all__ = ["Future", "collect_all", "wait_all"]

Result = TypeVar("Result")


class Future(Generic[Result]):
    """A result, or an error, that a thread sets later.

    Parameters
    ----------
    devices : sequence, optional
        CUDA devices of the result. `wait` does not wait for their streams.

    Examples
    --------
    >>> import gradcore
    >>> future = gradcore.futures.Future()
    >>> after = future.then(lambda f: f.value() + 1)
    >>> future.set_result(1)
    >>> after.wait()
    2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return self._future.done()

    def wait(self) -> Any:
        """Wait for the result and return it; raise the error if one was set."""
        return self._future.result()

    def value(self) -> Any:
        """Return the result, or raise its error. The future must be done."""
        if not self.done():
            raise RuntimeError("the future has no value yet; use wait()")
        return self._future.result()

    def set_result(self, result: Any) -> None:
        """Set the result, once, and call the callbacks."""
        try:
            self._future.set_result(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("the future has a result already") from None

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which `wait` raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._future.set_exception(result)

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        """Return a future for the result of a callback, which gets this one when it is done."""
        result_future: Future[Any] = Future()

        def run(_: Any) -> None:
            try:
                result_future.set_result(callback(self))
            except Exception as error:
                result_future.set_exception(error)

        self._future.add_done_callback(run)
        return result_future

    def add_done_callback(self, callback: Callable[[Future[Any]], Any]) -> None:
        """Call a function with this future when it is done."""
        self._future.add_done_callback(lambda _: callback(self))


def collect_all(futures: list[Future[Any]]) -> Future[Any]:
    """Return a future for the list of futures, done when all of them are."""
    combined: Future[Any] = Future()
    pending = len(futures)
    if not pending:
        combined.set_result([])

    def count(_: Any) -> None:
        nonlocal pending
        pending -= 1
        if not pending:
            combined.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    return combined


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Return the results of all futures."""
    return [future.wait() for future in futures]


paths.show_public(__name__)
