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


def test_exit_codes_and_usage(tmp_path):
    assert script(tmp_path, "import sys, torch; sys.exit(3)", check=False).returncode == 3
    failed = script(tmp_path, "import torch; torch.ones(2) @ torch.ones(3)", check=False)
    assert failed.returncode == 1
    assert "program.py" in failed.stderr
    assert "usage" in run("-m", "gradcore.as_torch", check=False).stderr


MISSING = {
    "import torch.fx.experimental": "No module named 'torch.fx.experimental'; torch.fx has no counterpart",
    "from torch.export import export": "No module named 'torch.export'; torch.export has no counterpart",
    "import torch.no_such_module": "No module named 'torch.no_such_module'",
    "from torch.nn import NoSuchLayer": "cannot import name 'NoSuchLayer'",
    "from torch import no_such_function": "cannot import name 'no_such_function' from 'torch'",
    "import torch; torch.nested": "torch.nested has no counterpart in gradcore",
    "import torch.distributed.rpc": "torch.distributed.rpc has no counterpart",
}


def test_what_is_missing_says_so(tmp_path):
    program = f"""
        for statement, message in {MISSING!r}.items():
            try:
                exec(statement)
            except (ImportError, AttributeError) as error:
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
