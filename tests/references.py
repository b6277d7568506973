"""NumPy and SciPy as the references of tests, in versions that may lack what the newest have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import scipy

__all__ = ["IS_NEWEST", "reference_call"]

#: Whether the installed versions have all functions and parameters that tests compare with.
IS_NEWEST = np.lib.NumpyVersion(np.__version__) >= "2.2.0" and np.lib.NumpyVersion(scipy.__version__) >= "1.17.0"


@contextmanager
def reference_call() -> Iterator[None]:
    """Skip a test whose call of NumPy or SciPy fails because an older version is installed."""
    try:
        yield
    except (AttributeError, TypeError, ValueError, DeprecationWarning, FutureWarning, UserWarning) as error:
        if IS_NEWEST:
            raise
        pytest.skip(f"NumPy {np.__version__} or SciPy {scipy.__version__} is too old to compare with: {error}")
