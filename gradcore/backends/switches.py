"""PyTorch's switches: the modules ``gradcore.backends.cuda``, ``cudnn``, ``cpu`` and others.

Each module is an instance of a class below, registered under its name. Its switches are attributes that are checked
when they are set, its functions static methods.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

from gradcore.core import config

__all__ = ["MODULES", "ProductPrecision", "Switches", "cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]


class Switch:
    """Attribute of a fixed type that is stored but has no effect.

    Parameters
    ----------
    default : object
        Value of the attribute until it is set.
    *others : type
        Types that the value may have in addition to the type of `default`.
    """

    def __init__(self, default: Any, *others: type) -> None:
        self.default, self.types = default, (type(default), *others)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        return self if holder is None else holder.__dict__.get(self.name, self.default)

    def __set__(self, holder: Any, value: Any) -> None:
        if type(value) not in self.types:
            raise RuntimeError(f"{self.name} expects a {self.types[0].__name__}, but got {type(value).__name__}")
        self.put(holder, value)

    def put(self, holder: Any, value: Any) -> None:
        """Set the value if it has the right type."""
        holder.__dict__[self.name] = value


class Precision(Switch):
    """``fp32_precision``: ``'ieee'``, ``'tf32'``, or ``'none'`` to use the global setting."""

    def __init__(self) -> None:
        super().__init__("none")

    def put(self, holder: Any, value: Any) -> None:
        if value not in ("none", "ieee", "tf32"):
            raise RuntimeError(f"backend 'cuda' does not support precision {value!r}")
        super().put(holder, value)


class ProductPrecision(Precision):
    """``fp32_precision`` of float32 matrix products: another name of `gradcore.set_float32_matmul_precision`."""

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        if holder is None:
            return self
        if config.get_float32_matmul_precision() != "highest":
            return "tf32"
        return "none" if holder.__dict__.get(self.name) is None else "ieee"

    def put(self, holder: Any, value: Any) -> None:
        super().put(holder, value)
        config.set_float32_matmul_precision("high" if value == "tf32" else "highest")


class TensorFloat(Switch):
    """``allow_tf32``, another name of `gradcore.set_float32_matmul_precision`."""

    def __init__(self) -> None:
        super().__init__(False)

    def __get__(self, holder: Any, owner: Any = None) -> Any:
        return self if holder is None else config.get_float32_matmul_precision() != "highest"

    def put(self, holder: Any, value: Any) -> None:
        holder.fp32_precision = "tf32" if value else "ieee"


class Switches(ModuleType):
    """A module with switches, or a part of such a module."""

    @contextlib.contextmanager
    def set_to(self, **values: Any) -> Iterator[None]:
        """Return a context in which switches have these values."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


#: The modules by their full name.
MODULES: dict[str, Switches] = {}

M = TypeVar("M", bound=Switches)


def _register(cls: type[M]) -> M:
    """Create the module that a class describes, which is importable as ``gradcore.backends.`` and the class's name."""
    name = f"gradcore.backends.{cls.__name__.lower()}"
    module = cls(name, cls.__doc__)
    functions = {key: value.__func__ for key, value in vars(cls).items() if isinstance(value, staticmethod)}
    parts = {key: value for key, value in vars(cls).items() if isinstance(value, Switches)}
    for key, function in functions.items():
        function.__module__, function.__name__, function.__qualname__ = name, key, key
    module.__dict__.update(functions, **parts, __all__=sorted([*functions, *parts]), __spec__=ModuleSpec(name, None))
    sys.modules[name] = MODULES[name] = module
    return module


# -- CUDA -------------------------------------------------------------------------------------------------------------


class MatmulSwitches(Switches):
    """Products of matrices. Sums are in float32 at least, whatever may be allowed beyond `allow_tf32`.

    Attributes
    ----------
    allow_tf32 : bool
        Whether float32 operands may be rounded to TensorFloat32: `gradcore.set_float32_matmul_precision` with
        ``'high'`` or ``'highest'``.
    fp32_precision : {'none', 'ieee', 'tf32'}
        The same in words.
    allow_fp16_reduced_precision_reduction, allow_bf16_reduced_precision_reduction, allow_fp16_accumulation : bool
        Stored without effect.
    """

    allow_tf32 = TensorFloat()
    fp32_precision = ProductPrecision()
    allow_fp16_reduced_precision_reduction = Switch(True)
    allow_bf16_reduced_precision_reduction = Switch(True)
    allow_fp16_accumulation = Switch(False)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), Switch):
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


def _attention_switch(kind: str, effect: str) -> tuple[staticmethod[[bool], None], staticmethod[[], bool]]:
    """Return the setter and the getter of a switch for a kind of attention, which is on by default."""
    state = True

    def enable(enabled: bool) -> None:
        nonlocal state
        state = bool(enabled)

    def is_enabled() -> bool:
        return state

    call = "Examples\n    --------\n    >>> import gradcore as gc\n    >>> gc.backends.cuda."
    enable.__doc__ = f"{effect}\n\n    {call}enable_{kind}_sdp(True)\n    "
    is_enabled.__doc__ = (
        f"Return the value set by `enable_{kind}_sdp`.\n\n    {call}{kind}_sdp_enabled()\n    True\n    "
    )
    return staticmethod(enable), staticmethod(is_enabled)


class Cuda(Switches):
    """PyTorch's ``backends.cuda``: what products of matrices and attention may do on CUDA."""

    matmul = MatmulSwitches("matmul")
    enable_flash_sdp, flash_sdp_enabled = _attention_switch(
        "flash",
        "Let large attention on the CPU, and attention on CUDA, recompute weights for gradients.",
    )
    enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _attention_switch(
        "mem_efficient", "Stored without effect: attention that stores no weights is chosen by `enable_flash_sdp`."
    )
    enable_math_sdp, math_sdp_enabled = _attention_switch(
        "math", "Stored without effect: products and a softmax are what is left without `enable_flash_sdp`."
    )
    enable_cudnn_sdp, cudnn_sdp_enabled = _attention_switch("cudnn", "Stored without effect: cuDNN is not used.")

    @staticmethod
    def is_built() -> bool:
        """Return whether CuPy is installed, so that CUDA can be used where there is a device.

        `gradcore.cuda.is_available` says whether it can.

        Examples
        --------
        >>> import gradcore as gc
        >>> if gc.backends.cuda.is_built() and not gc.cuda.is_available():
        ...     print("CuPy is installed, but finds no device")
        """
        return importlib.util.find_spec("cupy") is not None


class CudnnPart(Switches):
    """The switches of one kind of operation."""

    fp32_precision = Precision()


class Cudnn(Switches):
    """PyTorch's ``backends.cudnn``: switches of a library that gradcore does not use.

    They can be set and read as in PyTorch, but have no effect. Convolutions are computed by matrix products or by
    kernels of the package, always by the same algorithm, and equal calls give equal bits. So `benchmark` and
    `deterministic` need not do anything. The precision of float32 depends on `gradcore.set_float32_matmul_precision`,
    not on `allow_tf32`.
    """

    enabled = Switch(True)
    deterministic = Switch(False)
    benchmark = Switch(False)
    benchmark_limit = Switch(10, type(None))
    allow_tf32 = Switch(True)
    fp32_precision = Precision()
    conv, rnn = CudnnPart("conv"), CudnnPart("rnn")

    @staticmethod
    def is_available() -> bool:
        """Return whether cuDNN is used: never.

        Examples
        --------
        >>> import gradcore as gc
        >>> gc.backends.cudnn.is_available()
        False
        """
        return False

    @staticmethod
    def version() -> int | None:
        """Return the version of cuDNN: None, as it is not used.

        Examples
        --------
        >>> import gradcore as gc
        >>> gc.backends.cudnn.version() is None
        True
        """
        return None

    @staticmethod
    def is_acceptable(tensor: Any) -> bool:
        """Return whether cuDNN would compute with a tensor: never.

        Examples
        --------
        >>> import gradcore as gc
        >>> gc.backends.cudnn.is_acceptable(gc.ones(1))
        False
        """
        return False

    @staticmethod
    def flags(
        enabled: bool = False,
        benchmark: bool = False,
        benchmark_limit: int | None = 10,
        deterministic: bool = False,
        allow_tf32: bool = True,
        fp32_precision: str = "none",
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the switches have these values.

        Examples
        --------
        >>> import gradcore
        >>> with gradcore.backends.cudnn.flags(enabled=False, deterministic=True):
        ...     gradcore.backends.cudnn.deterministic
        True
        """
        return cudnn.set_to(**locals())


# -- other libraries --------------------------------------------------------------------------------------------------


class Cpu(Switches):
    """PyTorch's ``backends.cpu``."""

    @staticmethod
    def get_cpu_capability() -> str:
        """Return the widest instructions that NumPy computes with here.

        Returns
        -------
        str
            ``'AVX512'``, ``'AVX2'`` or ``'DEFAULT'``.

        Examples
        --------
        >>> import gradcore
        >>> f"NumPy computes with {gradcore.backends.cpu.get_cpu_capability()} instructions"
        'NumPy computes with ... instructions'
        """
        import numpy as np

        words = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
        if "AVX512_SKX" in words or "X86_V4" in words:
            return "AVX512"
        return "AVX2" if "AVX2" in words or "X86_V3" in words else "DEFAULT"


def _never(doc: str) -> staticmethod[[], bool]:
    def answer() -> bool:
        return False

    answer.__doc__ = doc
    return staticmethod(answer)


class Mkl(Switches):
    """PyTorch's ``backends.mkl``: Intel's MKL."""

    is_available = _never("Return whether Intel's MKL is used: no, NumPy may be linked to it.")


class Mkldnn(Switches):
    """PyTorch's ``backends.mkldnn``: oneDNN."""

    is_available = _never("Return whether oneDNN is used: no.")


class Openmp(Switches):
    """PyTorch's ``backends.openmp``: OpenMP."""

    is_available = _never("Return whether OpenMP is used: no, gradcore's threads are Python's.")


class Mps(Switches):
    """PyTorch's ``backends.mps``: Apple's GPUs, for which gradcore has no backend."""

    is_available = _never("Return whether tensors can lie on an Apple GPU: never.")
    is_built = _never("Return whether there is a backend for Apple's GPUs: no.")


cuda, cudnn, cpu, mps = _register(Cuda), _register(Cudnn), _register(Cpu), _register(Mps)
mkl, mkldnn, openmp = _register(Mkl), _register(Mkldnn), _register(Openmp)

#: The functions, for the tests of examples.
__test__ = {
    f"{module.__name__}.{name}": function
    for module in MODULES.values()
    for name, function in vars(module).items()
    if callable(function)
}
