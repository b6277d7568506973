"""Code generation: a formula is traced to expressions, scheduled as a kernel, and written as CUDA, C++ or NumPy.

`expr` is the intermediate representation, `scalars` its hyperparameters, `trace` calls a formula with expressions,
`schedule` orders them and assigns buffers, `emit_cuda`, `emit_cpp` and `emit_numpy` write the source of a kernel, and
`launch` caches, compiles and launches kernels on CUDA.
"""
