"""Continuous solutions of initial value problems: one interpolating polynomial for each step of the solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.tensor import Tensor

__all__ = ["OdeSolution", "Segment"]


class Segment(NamedTuple):
    """Step of a solver: its times, the state before it, and the interpolant's coefficients.

    They are those of the powers of ``(t - t_old) / h``, from the first power on.
    """

    t_old: float
    t: float
    y_old: AnyTensor
    coefficients: AnyTensor

    def __call__(self, t: AnyTensor) -> AnyTensor:
        return _evaluate((t - self.t_old) / (self.t - self.t_old), self.y_old, self.coefficients)


def _evaluate(x: AnyTensor, y_old: AnyTensor, coefficients: AnyTensor) -> AnyTensor:
    """Evaluate a polynomial by Horner's scheme; `coefficients` are in the first dim, the states in the last."""
    total = coefficients[-1]
    for i in range(coefficients.shape[0] - 2, -1, -1):
        total = total * x + coefficients[i]
    return y_old + total * x


class OdeSolution:
    """The solution as a function of time, differentiable with respect to time and to all that the steps depend on.

    Parameters
    ----------
    segments : list of Segment
        The steps, in order.

    Examples
    --------
    >>> import gradcore as gc
    >>> from gradcore.scipy import integrate
    >>> found = integrate.solve_ivp(lambda t, y: -y, (0, 2), [1.0], dense_output=True, rtol=1e-8)
    >>> found.sol(gc.tensor([0.0, 1.0]))
    tensor([[1.0000, 0.3679]], dtype=torch.float64)
    """

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.ts = np.array([segments[0].t_old, *(s.t for s in segments)])
        self.t_min, self.t_max = self.ts.min(), self.ts.max()
        self._y_old = F.stack([s.y_old for s in segments])
        self._coefficients = F.stack([s.coefficients for s in segments], 1)

    def __call__(self, t: Any) -> AnyTensor:
        like = F.real(self._y_old) if F.is_complex(self._y_old) else self._y_old
        times = t if isinstance(t, Tensor) else F.as_tensor(np.asarray(t, float), device=like.device)
        ts = self.ts if self.ts[-1] >= self.ts[0] else self.ts[::-1]
        at = np.searchsorted(ts, times.detach().host(), side="left") - 1
        at = np.clip(at, 0, len(self.segments) - 1)
        if ts is not self.ts:
            at = len(self.segments) - 1 - at
        index = F.as_tensor(at, device=like.device)
        start, end = (F.to(F.as_tensor(v[at], device=like.device), like.dtype) for v in (self.ts[:-1], self.ts[1:]))
        x = F.unsqueeze((F.to(times, like.dtype) - start) / (end - start), -1)
        result = _evaluate(x, self._y_old[index], self._coefficients[:, index])
        return F.movedim(result, -1, 0)
