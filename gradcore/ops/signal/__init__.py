"""Signals: Fourier and cosine transforms, filters and splines."""
