"""`Function`, the base class of custom operations with a user-defined backward, and its context."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from gradcore import functional
from gradcore.autograd.function.call import bind, call
from gradcore.autograd.function.vmap import batched_call, broadcast_to_batches
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import Node, freed_error
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import Variable, alias, shape_of
from gradcore.autograd.views import requires_grad

__all__ = ["BackwardCFunction", "BackwardFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


ACCESSED = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
    "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)


_Result = TypeVar("_Result", covariant=True)


class _Forwarding(Protocol[_Result]):
    """A class with a `forward`."""

    def forward(self, *args: Any, **kwargs: Any) -> _Result: ...


class FunctionCtx:
    """The ``ctx`` of `forward`, `backward` and `jvp` of a `Function`; it takes any further attribute.

    Examples
    --------
    >>> import gradcore as gc
    >>> class Square(gc.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = gc.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor([6.])
    """

    #: The settings that `forward` made, until the call is finished.
    to_save: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    materialize_grads: bool = True
    #: For each argument of ``apply``, whether it is a tensor that requires grad.
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors (or None) for `backward`, which gets them as ``ctx.saved_tensors``.

        In-place writes to them are detected. Inputs and outputs of the function keep their history, so that `backward`
        can itself be differentiated.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors (or None) for `jvp`, which gets them as ``ctx.saved_tensors``."""
        if not all(t is None or isinstance(t, Variable) for t in tensors):
            raise AssertionError(
                "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on "
                "ctx."
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Mark inputs that `forward` has modified in place; `forward` must return them."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Mark results as not differentiable; `backward` still gets a gradient (zeros) for each."""
        self.non_differentiable = tensors

    def forget_notes(self) -> None:
        """Delete the tensors stored by `forward` on the context; outputs among them would form a reference cycle."""
        self.to_save = self.saved_for_forward = self.dirty_tensors = self.non_differentiable = None

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` gets zeros (the default) or None for a result without a gradient.

        The same holds for `jvp` and inputs without tangent.
        """
        self.materialize_grads = value


class BackwardFunction(FunctionCtx, Node):
    """The node of a call of a `Function`, which is also its ``ctx``.

    Examples
    --------
    >>> import gradcore as gc
    >>> class Double(gc.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> node = Double.apply(gc.ones(1, requires_grad=True)).grad_fn
    >>> node.name(), node.apply(gc.ones(1))
    ('DoubleBackward', tensor([2.]))
    """

    _forward_cls: ClassVar[type[Function]]

    #: The saved tensors; None once they have been freed.
    _saved: tuple[SavedTensor, ...] | None = ()
    #: Whether they were freed by the access to them, see `Function.clear_saved_tensors_on_access`.
    _accessed: bool = False
    _forward_mode: bool = False
    #: The `TensorMeta` of each argument and of each result, None for a non-tensor.
    _inputs: tuple[Any, ...] = ()
    _outputs: tuple[Any, ...] = ()
    _input_devices: Any = None

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors passed to `save_for_backward`; in `jvp`, those passed to `save_for_forward`.

        Raises
        ------
        RuntimeError
            If the graph has been freed, or if one of them was written in place meanwhile.
        """
        if self._forward_mode:
            return self.saved_for_forward or ()
        if self._saved is None:
            raise RuntimeError(ACCESSED) if self._accessed else freed_error()
        for saved in self._saved:
            saved.check(self)
        result = tuple([saved.restore_tensor(self) for saved in self._saved])
        if self._forward_cls.clear_saved_tensors_on_access:
            self._saved, self._accessed = None, True
        return result

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The former name of `saved_tensors`."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        if self._saved is None:
            raise freed_error()
        return tuple(saved.shown_by(self) for saved in self._saved)

    @property
    def _output_metas(self) -> Sequence[Any]:
        return self._outputs

    def release(self) -> None:
        self._saved = None

    def is_freed(self) -> bool:
        return self._saved is None

    def maybe_clear_saved_tensors(self) -> None:
        """Drop the saved tensors."""
        self.release()

    def apply(self, *grads: Any) -> Any:
        """Call the function's own `backward` with gradients of its results."""
        return self._vjp()(self, *grads)

    def _vjp(self) -> Callable[..., Any]:
        cls = self._forward_cls
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        return cls.vjp

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> list[Any]:
        """Call the user's backward, check its results against the inputs, and return the gradients for the edges."""
        if self._n_outputs > 1:
            pairs = zip(grads, self._outputs, strict=True)
            results = self.apply(*[self._incoming(arithmetic.as_tensor(g), meta) for g, meta in pairs])
        else:
            results = self.apply(self._incoming(arithmetic.as_tensor(grads), self._outputs[0]))
        pieces = [self._outgoing(g, meta, i) for i, (g, meta) in enumerate(self._pair_with_inputs(results))]
        return [arithmetic.from_tensor(p) for p in pieces]

    def _incoming(self, grad: Any, meta: Any) -> Any:
        """Return the gradient to pass to the user's backward: a tensor on the device of its result, or None."""
        if meta is None:
            return None
        shape, dtype, device = meta
        if grad is None:
            return functional.zeros(shape, dtype=dtype, device=device) if self.materialize_grads else None
        on_device = grad._device is device or grad._device.real is device.real
        return grad if on_device else functional.to(grad, device)

    def _pair_with_inputs(self, results: Any) -> list[Any]:
        """Check the results of the user's backward; return ``(gradient, input metadata)`` for each tensor argument."""
        results = list(results) if isinstance(results, tuple) else [results]
        count = len(self._inputs)
        if len(results) > count and all(r is None for r in results[count:]):
            del results[count:]
        if len(results) != count:
            raise RuntimeError(
                f"function {type(self).__name__} returned an incorrect number of gradients (expected {count}, got "
                f"{len(results)})"
            )
        pairs = []
        for i, (result, meta) in enumerate(zip(results, self._inputs, strict=True)):
            if meta is not None:
                if result is not None and not isinstance(result, Variable):
                    raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
                pairs.append((result, meta))
            elif result is not None:
                raise RuntimeError(
                    f"function {type(self).__name__} returned a gradient different than None at position {i + 1}, but "
                    "the corresponding forward input was not a Variable"
                )
        return pairs

    def _outgoing(self, grad: Any, meta: Any, i: int) -> Any:
        """Return `grad` converted to the shape, dtype and device in `meta`, the metadata of the input of edge `i`."""
        if grad is None or self._edges[i] is None:
            return None
        shape, dtype, device = meta
        grad_shape = shape_of(grad)
        if grad_shape != shape:
            if not _expandable(shape, grad_shape) or not grad._strided:
                raise self._invalid(i, f"got {list(grad_shape)} but expected shape compatible with {list(shape)}")
            grad = functional.sum_to_size(grad, shape)
        sink: Any = self._edges[i][0]  # type: ignore[index]
        accepts_any_dtype = sink.is_accumulator and sink.variable._autograd.grad_dtype is None
        if grad._dtype is not dtype and not accepts_any_dtype:
            if grad._dtype.is_complex and not dtype.is_complex:
                raise self._invalid(i, f"expected a {dtype.name} gradient but got {grad._dtype.name}")
            grad = functional.to(grad, dtype)
        if grad._device is not device and grad._device.real is not device.real:
            if grad_shape:
                raise self._invalid(i, f"expected device {device} but got {grad._device}")
            grad = functional.to(grad, device)
        return grad

    def _invalid(self, i: int, why: str) -> RuntimeError:
        return RuntimeError(f"Function {type(self).__name__} returned an invalid gradient at index {i} - {why}")


def _expandable(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Return whether a tensor of `shape` can be broadcast to the shape `to`."""
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


class Function:
    """An operation with hand-written forward and backward: subclass it and call ``apply``.

    Either `forward` takes the context as its first argument, or it does not and `setup_context` fills the context
    afterwards. Both run without recording.

    Examples
    --------
    >>> import gradcore
    >>> class Cube(gradcore.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = gradcore.tensor(2.0, requires_grad=True)
    >>> y = Cube.apply(x)
    >>> y
    tensor(8., grad_fn=<CubeBackward>)
    >>> y.backward()
    >>> x.grad
    tensor(12.)
    """

    _backward_cls: ClassVar[type[BackwardFunction]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        body = {"_forward_cls": cls, "__module__": "torch.autograd.function", "__doc__": f"Node of `{cls.__name__}`."}
        cls._backward_cls = type(f"{cls.__name__}Backward", (BackwardFunction,), body)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of gradcore.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method, and call its apply()."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results: ``forward(ctx, *args)``, or ``forward(*args)`` if `setup_context` is defined."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Store on `ctx` the parts of the inputs and the output of `forward` that `backward` and `jvp` need."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return a gradient (or None) for each argument, given one for each result."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    #: Another name for `backward`; only one of the two may be given.
    vjp = staticmethod(lambda ctx, *grads: Function.backward(ctx, *grads))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return a tangent (or None) for each result, given one for each argument (None for a non-tensor)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    #: Whether `backward` may read ``ctx.saved_tensors`` only once, so that each tensor is freed after its last use.
    clear_saved_tensors_on_access: ClassVar[bool] = False

    #: Whether `forward`, `setup_context` and `backward` consist of tensor operations only and run on batches unchanged.
    generate_vmap_rule: ClassVar[bool] = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return the results for all samples of a batch, and the dim of each result that indexes the samples.

        Parameters
        ----------
        info : VmapInfo
            The number of samples, ``info.batch_size``, and the ``info.randomness`` of the call of `vmap`.
        in_dims : tuple of int or None
            For each argument the dim that indexes the samples, or None if all samples share the argument.
        *args
            The arguments of `forward`, with all samples.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set "
            "generate_vmap_rule=True."
        )

    if TYPE_CHECKING:  # The return type of `apply` is that of `forward`.

        @classmethod
        def apply(cls: _Forwarding[_Result], *args: Any, **kwargs: Any) -> _Result: ...

    else:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Call the operation.

            Parameters
            ----------
            *args, **kwargs
                The arguments of `forward` after the context. Tensors among them (not in lists or dictionaries) take
                part in differentiation.

            Returns
            -------
            object
                The result of `forward`. It, or the tensors in it if it is a tuple, become part of the graph.
            """
            separate = cls.setup_context is not Function.setup_context
            if kwargs or separate:
                args = bind(cls.forward, args, kwargs, separate)
            if local.state.batches:
                by_rule = batched_call(cls, args, cls.vmap is not Function.vmap)
                if by_rule is not None:
                    return by_rule()
                args = broadcast_to_batches(args)
            ctx, result = call(cls, args, separate)
            ctx.forget_notes()
            return result


Function._backward_cls = type("FunctionBackward", (BackwardFunction,), {"_forward_cls": Function})
BackwardCFunction = BackwardFunction


class InplaceFunction(Function):
    """A `Function` that may write to its arguments; any `Function` may, see `FunctionCtx.mark_dirty`.

    Examples
    --------
    >>> import gradcore as gc
    >>> class Halve(gc.autograd.function.InplaceFunction):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.mark_dirty(x)
    ...         return x.div_(2)
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad / 2
    >>> y = gc.ones(2, requires_grad=True) * 6
    >>> Halve.apply(y)
    tensor([3., 3.], grad_fn=<HalveBackward>)
    """


class DelayedError(Node):
    """Node whose backward raises an error."""

    __slots__ = ("_n_outputs", "message")

    _n_outputs: int
    message: str

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        raise RuntimeError(self.message)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that is not differentiable: it runs without recording, and a second derivative raises.

    Parameters
    ----------
    function : callable
        The function's `backward`.

    Returns
    -------
    callable

    Examples
    --------
    >>> import gradcore as gc
    >>> class Double(gc.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @gc.autograd.function.once_differentiable
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = gc.ones(1, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor([2.])
    """

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        state = local.state
        before, state.mode = state.mode, state.mode & ~GRAD
        try:
            results = function(ctx, *grads)
        finally:
            state.mode = before
        if not before & GRAD or not any(isinstance(g, Variable) and requires_grad(g) for g in grads):
            return results
        several = results if isinstance(results, tuple) else (results,)
        node = DelayedError.make(ctx._device, ())
        node.message = "trying to differentiate twice a function that was marked with @once_differentiable"
        node._n_outputs = len(several)
        failing = tuple(alias(r, (node, i)) if isinstance(r, Variable) else r for i, r in enumerate(several))
        return failing if isinstance(results, tuple) else failing[0]

    return wrapper
