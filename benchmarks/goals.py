"""What gradcore aims at: the geometric mean of its times over PyTorch's, by group."""

GOALS = {
    "tiny": 0.45, "deep": 0.45, "fan-out": 0.5, "recurrent": 0.5, "elementwise": 0.6, "reductions": 0.6,
    "broadcasting": 0.6, "matmul": 1.1, "layers": 0.9, "attention": 1.0, "convolution": 1.2, "indexing": 1.0,
    "sorting": 0.7, "fourier": 1.1, "linear algebra": 1.1, "higher order": 0.6, "mlp step": 0.95, "cnn step": 1.2,
    "transformer step": 1.0, "optimisers": 0.5, "memory": 0.8,
}  # fmt: skip

#: Seconds that `import gradcore` may take beyond that of NumPy.
IMPORT_GOAL = 0.06
