"""Targets: each turns a program into a function, in Python, C++ or CUDA."""
