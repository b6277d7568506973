"""Targets: functions made of programs, in Python, C++ or CUDA."""
