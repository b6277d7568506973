"""Targets: what a program becomes, in Python, C++ or CUDA."""
