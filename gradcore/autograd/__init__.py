"""Automatic differentiation: the graph, the engine, its modes and hooks."""

from typing import TYPE_CHECKING

from gradcore.autograd import anomaly_mode, forward_ad, function, grad_mode, graph
from gradcore.autograd.anomaly_mode import detect_anomaly, explain, set_detect_anomaly
from gradcore.autograd.function import Function
from gradcore.autograd.grad_mode import (
    _unsafe_preserve_version_counter,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from gradcore.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from gradcore.autograd.gradients import backward, grad
from gradcore.autograd.saved import SavedTensor
from gradcore.autograd.variables import Variable
from gradcore.torch_names import paths

if TYPE_CHECKING:  # These are imported when they are first looked up.
    from gradcore.autograd import functional, profiler

__all__ = [
    "Function",
    "GradcheckError",
    "SavedTensor",
    "Variable",
    "_unsafe_preserve_version_counter",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "explain",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

__getattr__ = paths.further(__name__)
