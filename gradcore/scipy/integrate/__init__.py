"""``scipy.integrate`` of tensors: integrals of samples and of functions, and initial value problems."""

from gradcore.scipy.integrate.ivp import odeint, solve_ivp
from gradcore.scipy.integrate.quadrature import dblquad, fixed_quad, quad, quad_vec
from gradcore.scipy.integrate.samples import (
    cumulative_simpson,
    cumulative_trapezoid,
    newton_cotes,
    romb,
    simpson,
    trapezoid,
)

__all__ = [
    "cumulative_simpson",
    "cumulative_trapezoid",
    "dblquad",
    "fixed_quad",
    "newton_cotes",
    "odeint",
    "quad",
    "quad_vec",
    "romb",
    "simpson",
    "solve_ivp",
    "trapezoid",
]
