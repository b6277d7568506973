"""What gradcore aims at, as it is installed: the geometric mean of its times over PyTorch's, by group."""

GOALS = {
    "tiny": 0.45, "deep": 0.45, "fan-out": 0.45, "recurrent": 0.7, "elementwise": 0.5, "reductions": 0.5,
    "broadcasting": 0.5, "matmul": 0.9, "layers": 0.7, "attention": 0.85, "convolution": 0.85, "indexing": 0.8,
    "sorting": 0.5, "fourier": 0.95, "linear algebra": 1.0, "higher order": 0.5, "mlp step": 0.85, "cnn step": 0.9,
    "transformer step": 0.85, "recurrent layers": 0.8, "optimisers": 0.25, "memory": 0.7,
}  # fmt: skip

#: Seconds that `import gradcore` may take beyond that of NumPy.
IMPORT_GOAL = 0.06

_SMALL = "tiny", "deep", "fan-out", "recurrent", "higher order", "mlp step"
_LARGE = "elementwise", "layers", "optimisers"
_NETS = "cnn step", "transformer step", "recurrent layers"
_BETTER = "jax or torch.compile"
#: By library and group, what programs of `gradcore.compile` aim at: the ratio to others, of several to the faster.
COMPILED_GOALS: dict[str, dict[str, dict[str, float]]] = {
    "gradcore-compile": {
        **{group: {"jax": 1.0, "torch.compile": 0.5} for group in _SMALL},
        **{group: {_BETTER: 0.9} for group in _LARGE},
        **{group: {_BETTER: 1.0} for group in _NETS},
        "memory": {"gradcore": 0.8},
    },
    "gradcore-compile-numpy": {
        **{group: {"jax": 2.5, "torch.compile": 1.0} for group in _SMALL},
        "memory": {"gradcore": 0.8},
    },
}
