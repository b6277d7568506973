"""Instruments: pictures, profiler, building of compiled kernels, descriptions of an installation, stub files."""
