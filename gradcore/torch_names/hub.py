"""Files from the network, as in ``torch.hub``: state dicts of models, cached in a folder.

Models themselves are code written for another library, and are not loaded: see ``python -m gradcore.as_torch``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from gradcore import serialization
from gradcore.torch_names import paths

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

#: Packages import this function from PyTorch's module.
urlparse = urllib.parse.urlparse

_HASH = re.compile(r"-([0-9a-f]{8,})\.")
_chosen: list[str] = []


def get_dir() -> str:
    """Return the folder for files from the network.

    It is the folder set by `set_dir`, otherwise ``$TORCH_HOME/hub``, otherwise ``~/.cache/torch/hub`` (or below
    ``$XDG_CACHE_HOME``).
    """
    if _chosen:
        return _chosen[-1]
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder for files from the network."""
    _chosen.append(os.path.expanduser(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a URL to a file. If the download fails, no file is written.

    Parameters
    ----------
    url, dst : str
    hash_prefix : str, optional
        The required beginning of the SHA-256 of the file.
    progress : bool
        Whether to print a line for each download.

    Raises
    ------
    RuntimeError
        If the hash does not begin with `hash_prefix`.
    """
    if progress:
        print(f'Downloading: "{url}" to {dst}', file=sys.stderr)
    target = Path(dst).expanduser()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        partial_file = Path(folder) / "part"
        with urllib.request.urlopen(url) as source, partial_file.open("wb") as file:
            shutil.copyfileobj(source, file)
        with partial_file.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if hash_prefix is not None and not digest.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest}")')
        partial_file.replace(target)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Load the state dict at a URL with `gradcore.load`; the file is downloaded if it is not cached.

    Parameters
    ----------
    url : str
    model_dir : str, optional
        The folder of the file; by default ``checkpoints`` in that of `get_dir`.
    map_location
        As for `gradcore.load`.
    progress : bool
        Whether to print a line for each download.
    check_hash : bool
        Whether the file's name ends with the beginning of its SHA-256, as ``name-0123abcd.pth``, and has to be right.
    file_name : str, optional
        The name of the file; by default that in the URL.
    weights_only : bool
        As for `gradcore.load`.

    Returns
    -------
    object
    """
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    path = folder / name
    if not path.exists():
        hash_in_name = _HASH.search(name) if check_hash else None
        download_url_to_file(url, str(path), hash_in_name and hash_in_name[1], progress)
    return serialization.load(path, map_location, weights_only=weights_only)


def __getattr__(name: str) -> Any:
    if name in ("help", "list", "load"):
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: models on a hub are code for PyTorch: clone it, "
            "run it with `python -m gradcore.as_torch`, and load the state with load_state_dict_from_url"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


paths.show_public(__name__)
