"""Code generation: trace a formula to expressions, schedule them as a kernel, and emit CUDA, C++ or NumPy source.

`expr` is the intermediate representation, `scalars` its hyperparameters, `trace` calls a formula with expressions,
`schedule` orders them and assigns buffers, `emit_cuda`, `emit_cpp` and `emit_numpy` write the source of a kernel,
`approximate` names the functions whose C++ versions may differ from NumPy's in the last places, and `launch` caches,
compiles and launches kernels on CUDA.
"""
