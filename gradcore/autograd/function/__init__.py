"""Custom operations: subclasses of `Function` with a forward and a derivative of their own."""

from gradcore.autograd.function.function import (
    BackwardCFunction,
    BackwardFunction,
    Function,
    FunctionCtx,
    InplaceFunction,
    once_differentiable,
)

__all__ = ["BackwardCFunction", "BackwardFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
