"""Build hook that compiles the CPU's kernels when gradcore is installed from its sources, or when a wheel is built.

By default only the kernels for this machine's CPU are compiled. With ``GRADCORE_BUILD=all``, used to build wheels for
others, every instruction set of the architecture is. Without a C++ compiler, or with ``GRADCORE_BUILD=0``, the
package is pure Python, and ``gradcore.show_config()`` says why. With ``GRADCORE_BUILD=1`` or ``all`` a compiler that is
missing or fails is an error. ``pip install -v`` shows a line for each file that is compiled.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _reason_against() -> str:
    """Return why nothing can be compiled, or an empty string."""
    if os.environ.get("GRADCORE_BUILD") == "0":
        return "GRADCORE_BUILD was 0."
    if os.name != "posix":
        return "Compiled kernels are for Linux and macOS."
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return "" if any(map(shutil.which, names)) else f"there was no C++ compiler ({', '.join(names)})."


class KernelsBuildHook(BuildHookInterface):
    """Build hook that puts the compiled libraries into the package."""

    def dependencies(self) -> list[str]:
        """Return what the generator of the sources needs."""
        return [] if _reason_against() else ["numpy>=2.0"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the libraries and add them to the wheel, which is then one for this platform."""
        folder = Path(self.root, "gradcore/backends/compiled/variants")
        folder.mkdir(exist_ok=True)
        reason = _reason_against() or self._compile()
        if reason:
            if os.environ.get("GRADCORE_BUILD") in ("1", "all"):
                raise RuntimeError(f"The compiled kernels cannot be built: {reason}")
            (folder / "reason.txt").write_text(f"{reason}\n", encoding="utf-8")
        elif version != "editable":
            platform = os.environ.get("_PYTHON_HOST_PLATFORM") or sysconfig.get_platform()
            build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"
            build_data["pure_python"] = False
        build_data["artifacts"].append("/gradcore/backends/compiled/variants/*")

    def _compile(self) -> str:
        """Run the command that compiles, and return what went wrong in a line, or an empty string."""
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "GRADCORE_COMPILED": "0"}
        command = [sys.executable, "-m", "gradcore.compiled", "variants"]
        if os.environ.get("GRADCORE_BUILD") != "all":
            command.append("--this-cpu")
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False, cwd=self.root)
        if done.returncode == 0:
            return ""
        lines = done.stderr.strip().splitlines() or ["the compiler failed."]
        return next((line for line in lines if "rror" in line), lines[-1])[:300]
