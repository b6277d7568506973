"""Profiler of programs, step by step, as ``torch.profiler``."""

from gradcore.tools.profiler.recording import kineto_available, record_function
from gradcore.tools.profiler.sessions import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from gradcore.torch_names import paths

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

__getattr__ = paths.further(__name__)
paths.show_public(__name__)
