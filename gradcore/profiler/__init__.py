"""Where a program spends its time, step by step: what PyTorch has in ``torch.profiler``."""

from gradcore.profiler.recording import record_function
from gradcore.profiler.sessions import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]
