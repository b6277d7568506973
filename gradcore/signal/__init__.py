"""Signal processing, as ``torch.signal`` has it: the module of window functions, `windows`.

Examples
--------
>>> import gradcore
>>> gradcore.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from gradcore.signal import windows
from gradcore.torch_names import paths

__all__ = ["windows"]
paths.show_public(__name__)
