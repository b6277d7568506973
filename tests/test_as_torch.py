"""Programs that say ``import torch``: what they find, run as a script, as a module and after `install`."""

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments, code=None, folder=ROOT, check=True):
    command = [sys.executable, *arguments, *([] if code is None else ["-c", textwrap.dedent(code)])]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def script(tmp_path, text, *arguments, check=True):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return run("-m", "gradcore.as_torch", str(path), *arguments, folder=tmp_path, check=check)


def test_names_are_gradcores_own(tmp_path):
    program = """
        import torch
        import torch.nn as nn
        import torch.nn.functional
        import torch.utils.data
        import torch.optim.lr_scheduler as schedulers
        from torch import Tensor, optim
        from torch.nn import functional as F
        from torch.distributions.normal import Normal
        from torch.utils.data.sampler import RandomSampler
        import functorch
        import gradcore, sys
        assert torch is gradcore and nn is gradcore.nn and F is gradcore.nn.functional
        assert Tensor is gradcore.Tensor and optim is gradcore.optim and Normal is gradcore.distributions.Normal
        assert schedulers is gradcore.optim.lr_scheduler
        assert sys.modules["torch.nn.functional"] is sys.modules["gradcore.nn.functional"]
        assert gradcore.nn.__spec__.name == "gradcore.nn"
        assert functorch.vmap is gradcore.func.vmap and torch.torch is torch
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


def test_versions(tmp_path):
    program = """
        import importlib.metadata, importlib.util, torch
        assert torch.__version__ >= "2.4" and torch.__version__ > (1, 9) and not torch.__version__ < "2.10"
        assert tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 0)
        assert torch.__version__.partition("+")[0] == torch.version.__version__.partition("+")[0]
        assert importlib.metadata.version("torch") == torch.__version__
        assert importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torch.nn") is not None
        assert importlib.util.find_spec("torch.no_such_module") is None
        assert torch.__name__ == "torch"
        assert sorted(["zz", torch.__version__, "/a/file", "3"]) == ["/a/file", torch.__version__, "3", "zz"]
        from gradcore.compiler.targets.native import plans  # whose digests contain the version
        assert plans._stamp()
        print(torch.__version__)
    """
    assert script(tmp_path, program).stdout.startswith("2.")


def test_arguments_folder_and_main(tmp_path):
    (tmp_path / "beside.py").write_text("value = 7\n")
    program = """
        import sys, beside, torch
        if __name__ == "__main__":
            print(sys.argv[1:], beside.value, __file__.endswith("program.py"), torch.ones(2).tolist())
    """
    assert script(tmp_path, program, "--lr", "0.1", "-m").stdout == "['--lr', '0.1', '-m'] 7 True [1.0, 1.0]\n"


def test_modules_are_run(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text("import torch, sys; print(torch.zeros(1).item(), sys.argv[1:])\n")
    assert run("-m", "gradcore.as_torch", "-m", "package.train", "x", folder=tmp_path).stdout == "0.0 ['x']\n"


@pytest.mark.slow
def test_exit_codes_and_usage(tmp_path):
    assert script(tmp_path, "import sys, torch; sys.exit(3)", check=False).returncode == 3
    failed = script(tmp_path, "import torch; torch.ones(2) @ torch.ones(3)", check=False)
    assert failed.returncode == 1
    assert "program.py" in failed.stderr
    assert "usage" in run("-m", "gradcore.as_torch", check=False).stderr


MISSING = {
    "import torch.fx; torch.fx.Graph()": "torch.fx has no counterpart",
    "from torch.export import export; export(1)": "No module named 'torch.export'; torch.export has no counterpart",
    "import torch.no_such_module": "No module named 'torch.no_such_module'",
    "from torch.nn import NoSuchLayer": "cannot import name 'NoSuchLayer'",
    "from torch import no_such_function": "cannot import name 'no_such_function' from 'torch'",
    "import torch; torch.nested.nested_tensor(1)": "torch.nested has no counterpart in gradcore",
    "import torch.distributed.rpc; torch.distributed.rpc.rpc_sync(1)": "torch.distributed.rpc has no counterpart",
    "from torch.distributed.fsdp import FullyShardedDataParallel as F; F(1)": "torch.distributed.fsdp.fully_shard",
}


def test_what_is_missing_says_so(tmp_path):
    program = f"""
        for statement, message in {MISSING!r}.items():
            try:
                exec(statement)
            except (ImportError, AttributeError, NotImplementedError) as error:
                assert message in str(error), (statement, error)
            else:
                raise AssertionError(statement)
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


def test_compiled_neighbours_are_refused(tmp_path):
    for name in ("torchvision", "torchaudio"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise AssertionError('was run')\n")
    program = """
        try:
            import torchvision
        except ImportError as error:
            print(error)
    """
    assert "torchvision is compiled for PyTorch" in script(tmp_path, program).stdout


def test_installing_twice_is_installing_once():
    code = """
        import sys, gradcore.as_torch
        gradcore.as_torch.install(); version = gradcore.__version__; finders = len(sys.meta_path)
        gradcore.as_torch.install()
        assert gradcore.__version__ is version and len(sys.meta_path) == finders
        from gradcore import as_torch
        import torch
        print(torch.ones(1).add(1).item())
    """
    assert run(code=code).stdout == "2.0\n"


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_process_with_pytorch_is_left_alone():
    code = """
        import torch, gradcore, sys
        before, finders = gradcore.__version__, list(sys.meta_path)
        import gradcore.as_torch
        try:
            gradcore.as_torch.install()
        except RuntimeError as error:
            print(error)
        assert gradcore.__version__ == before and sys.meta_path == finders and sys.modules["torch"] is torch
        assert torch is not gradcore and "+gradcore" not in torch.__version__
    """
    assert "PyTorch is imported in this process already" in run(code=code).stdout


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_limits_of_missing_types(tmp_path):
    """Packages compute scales from them when they are imported."""
    program = """
        import torch
        names = [f"float8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")]
        for name in names:
            limits = torch.finfo(getattr(torch, name))
            print(limits, limits.bits)
    """
    path = tmp_path / "limits.py"
    path.write_text(textwrap.dedent(program))
    assert run("-m", "gradcore.as_torch", path).stdout == run(path).stdout


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_an_installed_pytorch_is_not_imported(tmp_path):
    program = """
        import importlib.metadata, torch, gradcore
        assert torch is gradcore and "gradcore" in importlib.metadata.version("torch")
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


@pytest.mark.slow
def test_a_character_model_trains(tmp_path):
    """A decoder in the style of the well-known small ones, with its data, sampler and training loop."""
    program = (ROOT / "tests/programs/character_model.py").read_text()
    first, last = map(float, script(tmp_path, program).stdout.split())
    assert last < 0.7 * first


def test_packages_that_need_torch(tmp_path):
    pytest.importorskip("safetensors")
    pytest.importorskip("einops")
    program = """
        import torch, einops
        from einops.layers.torch import Rearrange
        from safetensors.torch import load_file, save_file
        net = torch.nn.Sequential(Rearrange("b c h w -> b (c h w)"), torch.nn.Linear(12, 2))
        net(torch.ones(5, 3, 2, 2)).sum().backward()
        save_file(net.state_dict(), "state.safetensors")
        state = load_file("state.safetensors")
        assert all(torch.equal(state[name], t) for name, t in net.state_dict().items())
        print(einops.reduce(torch.ones(4, 2), "a b -> b", "sum").tolist())
    """
    assert script(tmp_path, program).stdout == "[4.0, 4.0]\n"


PLACEHOLDERS = """
    import importlib, pickle, sys, typing
    import torch
    from gradcore import placeholders
    {selection}
    kinds = dict.fromkeys("cCeEfmv", 0)
    for path in paths:
        module = importlib.import_module(path)
        for name, entry in placeholders.names()[path].items():
            value = getattr(module, name)
            kinds[entry[0]] += 1
            if isinstance(value, type) and str(value.__doc__).startswith("A name alone") and entry[0] in "cC":
                assert not isinstance(torch.ones(1), value)
                inherited = type("Inherited", (value,), {{}})
                for cls in (value, inherited):
                    try:
                        instance = cls(1, a=2)
                        assert name in placeholders.DESCRIPTIONS
                        instance.attribute
                    except NotImplementedError as error:
                        assert "by name alone" in str(error), error
                    else:
                        raise AssertionError((path, name))
    print(all(kinds.values()), sum(kinds.values()) > {least})
"""


def test_names_of_pytorch_can_be_imported(tmp_path):
    """A sample of the modules; the next test has all of them."""
    selection = "paths = sorted(placeholders.names())[::40] + ['torch', 'torch.fx', 'torch.hub']"
    assert script(tmp_path, PLACEHOLDERS.format(selection=selection, least=1500)).stdout == "True True\n"


@pytest.mark.slow
def test_all_names_of_pytorch_can_be_imported(tmp_path):
    selection = "paths = sorted(placeholders.names())"
    assert script(tmp_path, PLACEHOLDERS.format(selection=selection, least=20_000)).stdout == "True True\n"


def test_operations_on_lists_work(tmp_path):
    """Optimizers ask by hasattr whether they exist."""
    program = "import torch; print(hasattr(torch, '_foreach_mul_'), torch._foreach_mul_([torch.ones(1)], 2.0))"
    assert script(tmp_path, program).stdout == "True [tensor([2.])]\n"


def test_settings_of_torch_compile(tmp_path):
    program = """
        import torch, torch._dynamo.config
        torch._dynamo.config.suppress_errors = True
        torch._dynamo.config.recompile_limit = 64
        assert torch._dynamo.config.cache_size_limit == 64 and "inductor" in torch._dynamo.list_backends()
        torch._dynamo.reset()
        for line in ("torch._dynamo.config.cache = 1", "torch._inductor.config.freezing = True",
                     "torch._dynamo.optimize('inductor')"):
            try:
                exec(line)
            except (AttributeError, NotImplementedError) as error:
                print(error)
    """
    shown = script(tmp_path, program).stdout.splitlines()
    assert shown[0].startswith("torch._dynamo.config.cache does not exist: gradcore.compile has no such setting")
    assert "torch._inductor has no counterpart in gradcore: gradcore.compile has targets of its own" in shown[1]
    assert shown[2].endswith("call torch.compile(model, backend=...)")


def test_private_functions_that_packages_call_work(tmp_path):
    program = """
        import typing, torch
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
        from torch._vmap_internals import _vmap
        from torch.jit.annotations import Dict, List, Optional
        from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
        parse, cpu = torch._C._nn._parse_to, torch.device("cpu")
        assert parse("cpu") == (cpu, None, False, None) and parse(torch.half, True) == (None, torch.half, True, None)
        assert parse(torch.ones(1, dtype=torch.int64)) == (cpu, torch.int64, False, None)
        x, i = torch.arange(6.0).reshape(2, 3), torch.tensor([1, 0])
        with TransformGetItemToIndex():
            assert _vmap(lambda i: x[i].sum())(i).tolist() == [12.0, 3.0]
        groups = _group_tensors_by_device_and_dtype([[x, i, x], [None, x, i]], with_indices=True)
        assert list(groups) == [(cpu, torch.float32), (cpu, torch.int64)]
        assert list(groups.values()) == [([[x, x], [None, i]], [0, 2]), ([[i], [x]], [1])]
        class Model(torch.nn.Linear):
            layers: List[int]
        assert typing.get_type_hints(Model)["layers"] == List[int] and "training" in typing.get_type_hints(Model)
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


def test_modules_that_are_found_as_attributes_are_complete(tmp_path):
    program = """
        from torch import fx, onnx
        import torch
        assert issubclass(fx.GraphModule, torch.nn.Module)
        print(fx.GraphModule, torch.distributed.rpc.RRef, torch.utils.weak.WeakIdKeyDictionary.__module__)
    """
    expected = "<class 'torch.fx.GraphModule'> <class 'torch.distributed.rpc.RRef'> torch.utils.weak\n"
    assert script(tmp_path, program).stdout == expected


def test_decorators_and_definitions_are_refused_at_the_call(tmp_path):
    """Packages decorate functions and define operations at their import."""
    program = """
        import torch
        from torch.distributed.elastic.multiprocessing.errors import record
        from torch.distributed.rpc.api import _require_initialized

        assert record(lambda x: x + 1)(1) == 2

        @_require_initialized
        def remote(x):
            return x

        @torch.library.custom_op("some::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @double.register_fake
        def shape(x):
            return x

        double.register_autograd(lambda ctx, g: 2 * g, setup_context=lambda ctx, inputs, output: None)
        torch.library.register_fake("some::triple", shape)
        for call in (remote, double, shape):
            try:
                call(torch.ones(1))
            except NotImplementedError as error:
                assert "by name alone" in str(error), error
            else:
                raise AssertionError(call)
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


def test_line_search_of_pytorchs_name(tmp_path):
    """Packages for optimization import it. The step satisfies the strong Wolfe conditions."""
    program = """
        import torch
        from torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe

        def evaluate(x, t, d):
            y = (x + t * d).requires_grad_()
            loss = (y ** 4).sum()
            return float(loss), torch.autograd.grad(loss, y)[0]

        x = torch.tensor([1.0, -2.0], dtype=torch.float64)
        f, g = evaluate(x, 0.0, x)
        loss, gradient, t, count = _strong_wolfe(evaluate, x, 1.0, -g, f, g, -g.dot(g))
        assert loss <= f - 1e-4 * t * float(g.dot(g)) and abs(float(gradient.dot(g))) <= 0.9 * float(g.dot(g))
        assert evaluate(x, t, -g)[0] == loss and count > 1
        print(round(_cubic_interpolate(0.0, 1.0, -2.0, 1.0, 1.0, 2.0), 12))
    """
    assert script(tmp_path, program).stdout == "0.5\n"


def test_private_names_that_packages_use_at_their_import(tmp_path):
    program = """
        import torch
        from functorch import FunctionalModule
        from torch._C import _are_functorch_transforms_active, _is_torch_function_mode_enabled
        from torch._C._functorch import is_batchedtensor
        from torch.nn.modules.module import _global_parameter_registration_hooks as hooks
        from torch.nn.modules.module import register_module_parameter_registration_hook
        from torch.overrides import TorchFunctionMode
        from torch.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

        class counting(_DecoratorContextManager):
            def __init__(self, log):
                self.log = log

            def clone(self):
                return type(self)(self.log)

            def __enter__(self):
                self.log.append(1)

            def __exit__(self, *exc):
                self.log.append(-1)

        log = []

        @counting(log)
        def steps(n):
            for i in range(n):
                yield i

        assert list(steps(2)) == [0, 1] and sum(log) == 0 and len(log) == 6
        assert counting(log)(lambda: sum(log))() == 1 and sum(log) == 0

        class plain(_NoParamDecoratorContextManager):
            def __enter__(self):
                log.append(1)

            def __exit__(self, *exc):
                log.append(-1)

        assert plain(lambda: sum(log))() == plain()(lambda: sum(log))() == 1
        assert issubclass(torch.no_grad, _NoParamDecoratorContextManager)

        def state(x):
            return _are_functorch_transforms_active(), is_batchedtensor(x)

        seen = []
        torch.func.grad(lambda x: (seen.append(state(x)), x)[1])(torch.ones(()))
        torch.func.vmap(lambda x: (seen.append(state(x)), x)[1])(torch.ones(2))
        assert seen == [(True, False), (True, True)] and state(torch.ones(2)) == (False, False)
        with TorchFunctionMode():
            assert _is_torch_function_mode_enabled()
        assert not _is_torch_function_mode_enabled()
        handle = register_module_parameter_registration_hook(lambda module, name, parameter: None)
        assert len(hooks) == 1
        handle.remove()
        assert not hooks
    """
    script(tmp_path, program)


def test_names_alone_are_refused_when_they_are_called(tmp_path):
    program = """
        import pickle
        import torch
        from torch.hub import HASH_REGEX
        from torch.utils.model_zoo import load_url
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.distributed.rpc import RRef
        from torch.fx import GraphModule
        from torch.distributed._tensor.experimental import implicit_replication
        from torch.utils.data.dataloader import _collate_fn_t
        import torch.distributed.rpc, torch.fx.experimental, torch.onnx
        from typing import Optional

        def annotated(collate: Optional[_collate_fn_t] = None) -> Optional[_collate_fn_t]:
            return collate

        class Mode(TorchDispatchMode):
            pass

        class Layer(GraphModule, torch.nn.Module):
            pass

        for call in (lambda: load_url("a"), Mode, Layer, lambda: torch.onnx.export(1), RRef, torch.float8_e4m3fn,
                     implicit_replication):
            try:
                call()
            except NotImplementedError as error:
                assert "by name alone" in str(error) and "gradcore" in str(error), error
            else:
                raise AssertionError(call)
        assert not isinstance(torch.ones(1), (RRef, GraphModule))
        assert HASH_REGEX.search("resnet18-f37072fd.pth")[1] == "f37072fd"
        assert not torch.distributed.rpc.is_available()
        assert pickle.loads(pickle.dumps(torch.float8_e4m3fn)) is torch.float8_e4m3fn
        for missing in ("torch.no_such_name", "torch.nn.NoSuchLayer", "torch.fx.no_such_name"):
            try:
                eval(missing)
            except AttributeError:
                pass
            else:
                raise AssertionError(missing)
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


def test_without_as_torch_there_are_no_placeholders():
    code = """
        import gradcore
        for path in ("fx.GraphModule", "float8_e4m3fn", "hub.HASH_REGEX", "serialization.DEFAULT_PROTOCOL"):
            value = gradcore
            *above, last = path.split(".")
            for name in above:
                value = getattr(value, name)
            assert not hasattr(value, last), path
        assert gradcore.Tensor.__module__.startswith("gradcore")
        print("fine")
    """
    assert run(code=code).stdout == "fine\n"


def test_classes_are_of_pytorchs_modules(tmp_path):
    """Libraries choose what to do by these; what is pickled is found again, in files too."""
    program = """
        import io, pickle
        import torch
        expected = {
            torch.Tensor: "torch", torch.nn.Linear: "torch.nn.modules.linear", torch.optim.Adam: "torch.optim.adam",
            torch.nn.Parameter: "torch.nn.parameter", torch.Size: "torch", torch.dtype: "torch",
            torch.utils.data.DataLoader: "torch.utils.data.dataloader",
            torch.distributions.Normal: "torch.distributions.normal",
        }
        assert {cls: cls.__module__ for cls in expected} == expected
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 2))
        for value in (model, torch.ones(2), torch.nn.Parameter(torch.ones(1)), torch.optim.SGD(model.parameters(), 0.1),
                      torch.Size([1]), torch.float32, torch.device("cpu")):
            assert type(pickle.loads(pickle.dumps(value))) is type(value)
            file = io.BytesIO()
            torch.save(value, file)
            file.seek(0)
            assert type(torch.load(file, weights_only=False)) is type(value)
        public = [torch.nn, torch.optim, torch.utils.data, torch.distributions]
        for module in public:
            for name in module.__all__:
                cls = getattr(module, name)
                if isinstance(cls, type):
                    assert pickle.loads(pickle.dumps(cls)) is cls, cls
        print("fine")
    """
    assert script(tmp_path, program).stdout == "fine\n"


def test_history_is_lost_with_a_warning(tmp_path):
    program = """
        import warnings, torch
        x = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(torch.tensor([x.sum(), x.sum()]).tolist(), any('histories' in str(w.message) for w in caught))
    """
    assert script(tmp_path, program).stdout == "[2.0, 2.0] True\n"


SPAWNING = """
    import sys
    import torch, torch.multiprocessing as mp
    import multiprocessing

    def work(rank, queue):
        queue.put((rank, torch.__version__.split("+")[1][:8], type(torch.ones(1)).__module__))

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        if sys.argv[1] == "spawn":
            mp.spawn(work, args=(queue,), nprocs=2)
        else:
            children = [context.Process(target=work, args=(rank, queue)) for rank in range(2)]
            for child in children:
                child.start()
        print(sorted(queue.get() for _ in range(2)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="methods of POSIX")
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_a_program_inherit_it(tmp_path, method):
    found = script(tmp_path, SPAWNING, method).stdout
    assert found == f"{[(rank, 'gradcore', 'torch') for rank in range(2)]}\n"


def test_hints_name_what_the_program_imports(tmp_path):
    program = """
        import warnings, torch
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        y.add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            print("torch.autograd.set_detect_anomaly" in str(error), "gradcore." in str(error))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            float(x.sum())
        print("torch.set_history_loss" in str(caught[0].message), "gradcore" in str(caught[0].message))
        try:
            torch.no_such_name
        except AttributeError as error:
            print("'torch'" in str(error), "gradcore" in str(error))
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    assert run("-m", "gradcore.as_torch", path).stdout.split() == ["True", "False"] * 3
