"""The same number of CPU threads for every library."""

import importlib
import os
import sys
import warnings

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NPROC")


def limit_threads(count: int) -> None:
    """Hold every library to `count` CPU threads.

    Most libraries read the environment once, when they are loaded, so this comes before their import.
    NumPy's BLAS, if it is there already, is told through threadpoolctl.

    Parameters
    ----------
    count : int
        Number of threads.
    """
    os.environ.update(dict.fromkeys(VARIABLES, str(count)))
    if count == 1:  # XLA has no number for this: a pool as large as NPROC says, or none
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    loaded = sorted({"numpy", "torch", "jax"} & sys.modules.keys())
    if "jax" in loaded:
        warnings.warn("JAX is loaded already, so its threads cannot be limited any more", stacklevel=2)
    if loaded:
        importlib.import_module("threadpoolctl").threadpool_limits(count)
    if "torch" in loaded:
        sys.modules["torch"].set_num_threads(count)
