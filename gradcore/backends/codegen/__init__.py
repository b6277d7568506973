"""Generated kernels: an elementwise formula, traced once, becomes one CUDA kernel."""
