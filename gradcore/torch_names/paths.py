"""Import paths and names of PyTorch that differ from the modules that define them in gradcore.

Each path is one line of the tables. Its module is created when it is first imported, and its names are looked up in the
defining modules when they are first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from gradcore.core.errors import use_program_names

__all__ = [
    "ABSENT", "MOVED", "NAMES", "absence", "former", "further", "install", "later", "show_public",
    "translate_former",
]  # fmt: skip

#: Modules that lie in rooms: PyTorch's paths, programs and old pickles have them at the top.
_ROOMS = """
core: assertions config determinism device dtypes errors interrupts locks size tracebacks typing
torch_names: _C _dynamo.config accelerator as_torch aten cpu flags functorch futures hub jit multiprocessing overrides
functions: fft linalg masked return_types special
numpy: array_api
ops.declare: ops.annotations ops.checks ops.geometry ops.parameters ops.promotion ops.samples ops.shapes ops.table
serialization: safetensors
tensor: arrays creation foreach indexing inplace_views installation interop layouts legacy_types methods namespaces
tensor: neighbours operators pickling predicates printing random representation setitem sharing storage subclasses to
tensor: transforms
tools: compiled diagnostics inspection profiler stub_results stubs viz
torch_names: paths placeholders quasirandom symbolic testing torch_version types version
"""

#: Where names are found: path, where they are defined (by default the module above), names (``new=defined``).
_TABLE = """
__config__ < tools.diagnostics: show=show_config
_C._functorch < tensor.predicates: is_batchedtensor=is_batched
_C._nn < torch_names._C: _parse_to
_VF < gradcore: *
_compile < compiler: _disable_dynamo=disable
_dynamo < compiler: allow_in_graph assume_constant_result disable explain graph_break is_compiling list_backends
_dynamo < compiler: mark_dynamic mark_static
_dynamo < compiler: maybe_mark_dynamic reset
_dynamo._trace_wrapped_higher_order_op < torch_names.symbolic: TransformGetItemToIndex
_higher_order_ops < torch_names.symbolic: cond while_loop
_jit_internal < torch_names.jit: _copy_to_script_wrapper=export
_jit_internal < torch_names.jit: _overload _overload_method export ignore unused is_scripting
_subclasses.fake_tensor < torch_names.symbolic: FakeTensor is_fake
_tensor < gradcore: Tensor
_vmap_internals < func: _vmap=vmap vmap
gradcore < torch_names.accelerator: get_device_module
gradcore < amp.by_device: autocast_decrement_nesting autocast_increment_nesting get_autocast_cpu_dtype
gradcore < amp.by_device: get_autocast_gpu_dtype is_autocast_cpu_enabled set_autocast_cpu_dtype
gradcore < amp.by_device: set_autocast_cpu_enabled set_autocast_gpu_dtype
gradcore < core.assertions: _assert _check _check_index _check_is_size _check_not_implemented _check_tensor_all
gradcore < core.assertions: _check_tensor_all_with _check_type _check_value _check_with
gradcore < compiler: compile
gradcore < tensor.legacy_types: set_default_tensor_type
gradcore < cuda: Event OutOfMemoryError Stream
gradcore < func: vmap
gradcore < kernels: from_kernel
gradcore < tools.diagnostics: show_config
gradcore < torch_names.flags: get_num_interop_threads is_warn_always_enabled set_num_interop_threads set_warn_always
gradcore < torch_names.futures: Future
gradcore < torch_names.jit: fork wait
gradcore < tensor.layouts: jagged sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr
gradcore < nn.positional: alpha_dropout alpha_dropout_ batch_norm binary_cross_entropy_with_logits conv_tbc ctc_loss
gradcore < nn.positional: dropout dropout_ embedding feature_alpha_dropout feature_alpha_dropout_ feature_dropout
gradcore < nn.positional: feature_dropout_ gru_cell instance_norm kl_div lstm_cell norm_except_dim rnn_relu_cell
gradcore < nn.positional: rnn_tanh_cell
gradcore < serialization: load save
gradcore < torch_names.symbolic: SymBool SymFloat SymInt cond sym_float sym_int sym_ite sym_max sym_min sym_not
gradcore < torch_names.symbolic: sym_sqrt sym_sum
gradcore < torch_names.symbolic: while_loop
gradcore < sparse.making: sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
gradcore < sparse.making: sparse_csc_tensor sparse_csr_tensor
gradcore < sparse.products: hspmm smm spmm sspaddmm
gradcore < utils.dlpack: to_dlpack
gradcore < signal.periodic: bartlett_window blackman_window hamming_window hann_window kaiser_window
amp.autocast_mode: autocast custom_bwd custom_fwd is_autocast_available
amp.grad_scaler: GradScaler
autograd.variable: Variable
cuda < cuda.graphed: make_graphed_callables
cuda < cuda.graphs: CUDAGraph graph graph_pool_handle
cuda.amp.autocast_mode: autocast custom_bwd custom_fwd
cuda.amp.grad_scaler: GradScaler
cuda.graphs < cuda: is_current_stream_capturing make_graphed_callables
distributed < distributed.buckets: GradBucket
distributed.checkpoint.stateful < distributed.checkpoint: Stateful
distributed.checkpoint.state_dict < distributed.state_dicts: * _init_optim_state=create_state
distributed.optim < distributed.zero: ZeroRedundancyOptimizer
distributed.tensor < distributed.sharded_parameter: DTensor Replicate Shard distribute_tensor
distributed.algorithms.ddp_comm_hooks.default_hooks < distributed.comm_hooks: *
distributed.algorithms.ddp_comm_hooks.powerSGD_hook < distributed.powersgd: PowerSGDState powerSGD_hook
distributions.bernoulli: Bernoulli
distributions.beta: Beta
distributions.binomial: Binomial
distributions.cauchy: Cauchy
distributions.chi2: Chi2
distributions.continuous_bernoulli: ContinuousBernoulli
distributions.dirichlet: Dirichlet
distributions.exp_family: ExponentialFamily
distributions.exponential: Exponential
distributions.fishersnedecor: FisherSnedecor
distributions.gamma: Gamma
distributions.generalized_pareto: GeneralizedPareto
distributions.geometric: Geometric
distributions.gumbel: Gumbel
distributions.half_cauchy: HalfCauchy
distributions.half_normal: HalfNormal
distributions.independent: Independent
distributions.inverse_gamma: InverseGamma
distributions.kumaraswamy: Kumaraswamy
distributions.laplace: Laplace
distributions.lkj_cholesky: LKJCholesky
distributions.log_normal: LogNormal
distributions.logistic_normal: LogisticNormal
distributions.lowrank_multivariate_normal: LowRankMultivariateNormal
distributions.mixture_same_family: MixtureSameFamily
distributions.multinomial: Multinomial
distributions.multivariate_normal: MultivariateNormal
distributions.negative_binomial: NegativeBinomial
distributions.normal: Normal
distributions.one_hot_categorical: OneHotCategorical OneHotCategoricalStraightThrough
distributions.pareto: Pareto
distributions.poisson: Poisson
distributions.relaxed_bernoulli: RelaxedBernoulli
distributions.relaxed_bernoulli < distributions.relaxed: LogitRelaxedBernoulli
distributions.relaxed_categorical: RelaxedOneHotCategorical
distributions.relaxed_categorical < distributions.relaxed: ExpRelaxedCategorical
distributions.studentT: StudentT
distributions.transformed_distribution: TransformedDistribution
distributions.uniform: Uniform
distributions.von_mises: VonMises
distributions.weibull: Weibull
distributions.wishart: Wishart
functorch.experimental < func: functionalize
fx < compiler: wrap=_return_function
jit.annotations < torch_names.jit: Any Dict List Optional Tuple Union
nn.functional < nn: _Reduction=_reduction grad
nn.functional < nn.sizes: _list_with_default _pair _single _triple
nn.functional < torch_names.overrides: handle_torch_function has_torch_function has_torch_function_unary
nn.functional < torch_names.overrides: has_torch_function_variadic
nn.modules < nn: *
nn.modules < nn.module: *
nn.modules.activation < nn.activations: *
nn.modules.activation < nn: MultiheadAttention
nn.modules.adaptive < nn: AdaptiveLogSoftmaxWithLoss
nn.modules.batchnorm < nn: BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d
nn.modules.batchnorm < nn: SyncBatchNorm
nn.modules.batchnorm < nn.normalization: _BatchNorm _NormBase=_Running
nn.modules.channelshuffle < nn: ChannelShuffle
nn.modules.container < nn: ModuleDict ModuleList ParameterDict ParameterList Sequential
nn.modules.conv < nn.convolution: * _ConvNd=_Conv _ConvTransposeNd=_ConvTranspose
nn.modules.conv < nn: LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d
nn.modules.distance < nn: CosineSimilarity PairwiseDistance
nn.modules.dropout < nn: AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout
nn.modules.dropout < nn.layers: _DropoutNd
nn.modules.flatten < nn: Flatten Unflatten
nn.modules.fold < nn: Fold Unfold
nn.modules.instancenorm < nn: InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d
nn.modules.instancenorm < nn: LazyInstanceNorm3d
nn.modules.instancenorm < nn.normalization: _InstanceNorm
nn.modules.lazy < nn.lazy: LazyModuleMixin
nn.modules.linear < nn: Bilinear Identity LazyLinear Linear
nn.modules.linear < nn.attention: NonDynamicallyQuantizableLinear
nn.modules.loss < nn.losses: * _Loss _WeightedLoss
nn.modules.loss < nn: LinearCrossEntropyLoss
nn.modules.module < nn.module: *
nn.modules.module < nn.state: _IncompatibleKeys=IncompatibleKeys
nn.modules.module < nn.module: _addindent _global_buffer_registration_hooks _global_module_registration_hooks
nn.modules.module < nn.module: _global_parameter_registration_hooks
nn.modules.normalization < nn: CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm
nn.modules.padding < nn.padding: *
nn.modules.pixelshuffle < nn: PixelShuffle PixelUnshuffle
nn.modules.pooling < nn: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
nn.modules.pooling < nn: AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d
nn.modules.pooling < nn: LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
nn.modules.pooling < nn.layers: _AdaptiveAvgPoolNd _AdaptiveMaxPoolNd _AvgPoolNd _LPPoolNd _MaxPoolNd _MaxUnpoolNd
nn.modules.rnn < nn.recurrent: *
nn.modules.sparse < nn: Embedding EmbeddingBag
nn.modules.transformer < nn: Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
nn.modules.transformer < nn: TransformerEncoderLayer
nn.modules.upsampling < nn: Upsample UpsamplingBilinear2d UpsamplingNearest2d
nn.modules.utils < nn.sizes: _list_with_default _ntuple _pair _quadruple _reverse_repeat_tuple _single _triple
nn.modules.utils < nn.state: consume_prefix_in_state_dict_if_present
nn.parallel.data_parallel < nn.parallel: DataParallel data_parallel
nn.parallel < distributed.data_parallel: DistributedDataParallel
nn.parallel.distributed < distributed.data_parallel: DistributedDataParallel
nn.parallel.scatter_gather < nn.parallel: gather scatter
nn.parameter < nn.lazy_parameter: UninitializedBuffer UninitializedParameter UninitializedTensorMixin=Uninitialized
nn.parameter < nn.lazy_parameter: is_lazy
nn.utils.init: skip_init
ops < torch_names.aten: aten=operators
optim._multi_tensor < optim: ASGD Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD
optim.adadelta: Adadelta
optim.adagrad: Adagrad
optim.adamax: Adamax
optim.adamw: AdamW
optim.asgd: ASGD
optim.lbfgs < optim.line_search: _cubic_interpolate _strong_wolfe
optim.lr_scheduler < optim.lr_scheduler.base: _LRScheduler=LRScheduler
optim.nadam: NAdam
optim.radam: RAdam
optim.rmsprop: RMSprop
optim.rprop: Rprop
profiler.profiler: ProfilerAction profile schedule supported_activities tensorboard_trace_handler
serialization < torch_names.types: MAP_LOCATION
signal.windows.windows: bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann
signal.windows.windows: kaiser nuttall
utils < utils.swapping: swap_tensors
utils._contextlib < autograd.grad_mode: _DecoratorContextManager _NoParamDecoratorContextManager
utils._foreach_utils < torch_names.foreach: _device_has_foreach_support=has_kernels
utils._foreach_utils < torch_names.foreach: _group_tensors_by_device_and_dtype=group_by_device_and_dtype
utils.data._utils.collate < utils.data.collation: collate default_collate default_collate_fn_map default_convert
utils.data._utils.worker < utils.data: get_worker_info
utils.data.dataloader: DataLoader default_collate default_convert get_worker_info
utils.data.dataset: ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset TensorDataset random_split
utils.data.distributed: DistributedSampler
utils.data.sampler: BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler WeightedRandomSampler
"""

#: Submodules that are imported when they are first looked up as attributes.
_SUBMODULES = """
gradcore: accelerator array_api as_torch compiled compiler cpu distributed distributions functional functorch nn optim
gradcore: func futures hub jit kernels multiprocessing numpy profiler quasirandom safetensors scipy serialization signal
gradcore: sparse testing torch_version types version viz
autograd: functional profiler
cuda: amp
distributed: checkpoint nn
distributions: utils
nn: _reduction common_types grad
nn.attention: flex_attention
optim: swa_utils
utils: _pytree benchmark checkpoint data dlpack hooks
"""

#: Modules of PyTorch that have no counterpart, with the reason and the replacement in gradcore.
ABSENT = {
    "_inductor": "gradcore.compile has targets of its own, see gradcore.compiler and gradcore.compiled",
    "_prims": "operations are declared in gradcore.ops",
    "_refs": "operations are declared in gradcore.ops",
    "_subclasses": "tensors of the device 'meta' have shapes and dtypes without data",
    "ao": "there are no quantized tensors",
    "distributed.elastic": "python -m gradcore.distributed.run starts processes",
    "distributed.pipelining": "processes train on parts of a batch, with the whole module",
    "distributed.rpc": "processes send each other tensors and objects, see gradcore.distributed",
    "distributed.tensor.parallel": "see Differentiate collectives in docs/distributed.md",
    "export": "a program is Python, and cannot be exported",
    "fx": "a program is Python; gradcore.viz shows graphs, and __torch_function__ modes see every operation",
    "library": "operations are made with gradcore.autograd.Function, gradcore.register_op or gradcore.from_kernel",
    "mps": "devices are the CPU and CUDA",
    "mtia": "devices are the CPU and CUDA",
    "nested": "there are no nested tensors; see gradcore.nn.utils.rnn.pad_sequence",
    "onnx": "a program is Python, and cannot be exported",
    "package": "save a state_dict with gradcore.save",
    "quantization": "there are no quantized tensors",
    "utils.cpp_extension": "kernels in C++ are made with gradcore.from_kernel",
    "utils.mkldnn": "the CPU is NumPy",
    "utils.mobile_optimizer": "a program is Python, and cannot be exported",
    "utils.tensorboard": "the package tensorboardX has a SummaryWriter that takes NumPy arrays: pass t.numpy()",
    "xpu": "devices are the CPU and CUDA",
}


_PACKAGE = __name__.partition(".")[0]


def _read(table: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Return for each path (``""`` is the package) its names, with the defining module and the name there."""
    results: dict[str, dict[str, tuple[str, str]]] = {}
    for line in table.strip().splitlines():
        head, _, names = line.partition(": ")
        path, _, source = head.partition(" < ")
        path, source = ("" if each == _PACKAGE else each for each in (path, source or path.rpartition(".")[0]))
        for name in names.split():
            alias, _, defined = name.partition("=")
            results.setdefault(path, {})[f"*{source}" if alias == "*" else alias] = source, defined or alias
    return results


def _read_rooms(table: str) -> dict[str, str]:
    """Return the present path of each module in the table of rooms, by its former path."""
    rows = (line.split(": ") for line in table.strip().splitlines())
    return {name: f"{room}.{name.rpartition('.')[2]}" for room, names in rows for name in names.split()}


#: Where modules lie that had other paths before.
MOVED = _read_rooms(_ROOMS)
_FORMER = {new: old for old, new in MOVED.items()}


def _translate(path: str, table: dict[str, str]) -> str:
    """Return a path with its longest prefix in the table replaced."""
    head = path
    while head and head not in table:
        head = head.rpartition(".")[0]
    return table[head] + path[len(head) :] if head else path


def translate_former(path: str) -> str:
    """Return the present path of a module: the path itself, unless it or a package above it has moved."""
    return _translate(path, MOVED)


def former(path: str) -> str:
    """Return the path of a module for users and in PyTorch: the inverse of `translate_former`."""
    return _translate(path, _FORMER)


#: Names by path; those that begin with ``*`` stand for all public names of a module.
NAMES = _read(_TABLE)
_INNER = _read(_SUBMODULES)
#: Paths with others below them.
_ABOVE = {path[:dot] for path in (*NAMES, *ABSENT) for dot, character in enumerate(path) if character == "."}
_ABOVE |= NAMES.keys() & ABSENT.keys()


def _module(path: str) -> ModuleType:
    return importlib.import_module(f"{_PACKAGE}.{path}" if path else _PACKAGE)


def absence(path: str) -> str:
    """Return why PyTorch's module of this path is missing, as the end of an error message; empty if unknown."""
    while path and path not in ABSENT:
        path = path.rpartition(".")[0]
    return f"; torch.{path} has no counterpart in gradcore: {ABSENT[path]}" if path else ""


def _public(path: str) -> list[str]:
    """Return the public names that the table has for a path."""
    names: set[str] = set()
    for name, (source, _) in NAMES.get(path, {}).items():
        names |= set(_module(source).__all__) if name.startswith("*") else {name}
    return sorted(name for name in names if not name.startswith("_"))


def _look_up(path: str, name: str) -> Any:
    """Look up a name that a module does not define itself."""
    names = NAMES.get(path, {})
    if name in names:
        source, defined = names[name]
        return getattr(_module(source), defined)
    inner = f"{path}.{name}".lstrip(".")
    if inner in MOVED:
        return _module(MOVED[inner])
    if name in _INNER.get(path, ()) or inner in NAMES or inner in _ABOVE:
        return _module(inner)
    for key, (source, _) in names.items():
        if key.startswith("*") and name in _module(source).__all__:
            return getattr(_module(source), name)
    module = use_program_names(f"{_PACKAGE}.{path}.").strip(".")
    raise AttributeError(f"module {module!r} has no attribute {name!r}{absence(inner)}")


def later(path: str) -> list[str]:
    """Return the public names that the tables add to those of a module."""
    return sorted({*(name for name in _INNER.get(path, ()) if not name.startswith("_")), *_public(path)})


def further(module: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module, which looks up the names that the tables add.

    Parameters
    ----------
    module : str
        The name of the module.

    Returns
    -------
    callable
        The function. It stores the names that it finds in the module.
    """
    path = former(module.partition(".")[2])
    scope = vars(sys.modules[module])
    if path in _ABOVE:
        scope.setdefault("__path__", [])  # so that modules below it are looked for
    for inner in NAMES:
        package, _, name = inner.rpartition(".")
        if package == path and callable(scope.get(name)):
            # The module is created now, because Python would bind an imported submodule to that name of the package.
            spec = _spec(f"{module}.{name}")
            sys.modules[spec.name] = module_from_spec(spec)
            _Maker().exec_module(sys.modules[spec.name])

    def __getattr__(name: str) -> Any:
        if name == "__all__" and path in NAMES:
            return _public(path)
        if name.startswith("__") and f"{path}.{name}".lstrip(".") not in NAMES:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return scope.setdefault(name, _look_up(path, name))

    return __getattr__


#: Called with the name of each module that shows its public names, once `as_torch` is installed.
on_public: Callable[[str], None] | None = None


def show_public(package: str) -> None:
    """Make `dir` and the suggestions of errors show only public names, for a package and its loaded modules."""
    for name, module in list(sys.modules.items()):
        if (name == package or name.startswith(f"{package}.")) and "__all__" in vars(module):
            vars(module)["__dir__"] = partial(_list_public_names, module)
            if on_public is not None:
                on_public(name)


def _list_public_names(module: ModuleType) -> list[str]:
    names = {*module.__all__, *later(former(module.__name__.partition(".")[2]))}
    return sorted(name for name in names if not name.startswith("_"))


class _Maker:
    """Loader that creates the module of a path, which also has the public names of the package above it.

    Programs import names from modules in which PyTorch imports them itself: ``Distribution`` from
    ``distributions.normal``.
    """

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__.partition(".")[2]
        module.__doc__ = f"Names that are also found at ``torch.{path}``."
        scope: dict[str, Any] = vars(module)
        look_up = further(module.__name__)

        def __getattr__(name: str) -> Any:
            try:
                return look_up(name)
            except AttributeError:
                package = path.rpartition(".")[0]
                if name.startswith("_") or f"{path}.{name}" in ABSENT or name not in _module(package).__all__:
                    raise
                return getattr(_module(package), name)

        scope.update(__getattr__=__getattr__, __dir__=lambda: later(path))
        if on_public is not None:
            on_public(module.__name__)


def _spec(name: str, is_package: bool = False) -> ModuleSpec:
    return ModuleSpec(name, _Maker(), is_package=is_package)  # type: ignore[arg-type]  # the base would be imported


class _Alias:
    """Loader that returns a moved module at its former path, also for ``python -m``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self._name)

    def get_code(self, name: str) -> Any:
        spec = importlib.util.find_spec(self._name)
        return spec.loader.get_code(self._name) if spec is not None else None  # type: ignore[union-attr]


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:  # The module above it is no package.
        return None


class _MovedFinder:
    """Finder of moved modules. It runs before Python looks for files, which would create a second module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != _PACKAGE or (moved_path := translate_former(inner)) == inner:
            return None
        if inner not in MOVED and inner in NAMES:
            return None  # A package above has moved, but the tables create this module.
        spec = _spec_of(f"{_PACKAGE}.{moved_path}")
        if spec is None:
            return None
        is_package = spec.submodule_search_locations is not None  # It may have a ``__main__``.
        return ModuleSpec(fullname, _Alias(f"{_PACKAGE}.{moved_path}"), is_package=is_package)  # type: ignore[arg-type]


class _Finder:
    """Finder of the modules of the tables, which runs after Python has looked for files."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != _PACKAGE:
            return None
        if inner in NAMES or inner in _ABOVE:
            return _spec(fullname, is_package=inner in _ABOVE)
        if reason := absence(inner):
            raise ModuleNotFoundError(f"No module named {fullname!r}{reason}", name=fullname)
        return None


def install() -> None:
    """Make the modules of the tables importable."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedFinder())
        sys.meta_path.append(_Finder())
    scope = vars(sys.modules[_PACKAGE])
    for old, new in MOVED.items():
        if callable(scope.get(old)):  # Python would bind an imported submodule to that name of the package
            sys.modules[f"{_PACKAGE}.{old}"] = _module(new)
