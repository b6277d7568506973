"""`scipy.special` on tensors: special functions with their derivatives.

Numbers, arrays and tensors are promoted as in NumPy. Arguments that are degrees or orders have no derivative:
computing a gradient with respect to them raises an error. Functions are real, except for `lambertw` and `wofz`.

Examples
--------
>>> from gradcore.scipy import special
>>> a = gc.tensor([0.5, 2.0], dtype=gc.float64, requires_grad=True)
>>> special.betainc(a, 1.5, 0.3).sum().backward()
>>> a.grad
tensor([-0.5896, -0.1574], dtype=torch.float64)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axes_of, common, inexact, tensor_of
from gradcore.numpy.ufuncs import SPECIAL as _SPECIAL
from gradcore.ops.declare.table import OPS
from gradcore.ops.special.scipy_special import NAMES as _NAMES
from gradcore.ops.special.scipy_special import log1p_ratio
from gradcore.scipy.conversion import module_getattr, promote_arguments
from gradcore.scipy.documentation import describe
from gradcore.scipy.examples import SPECIAL

_OPERATIONS = {1: "special_of_one", 2: "special_of_two", 3: "special_of_three", 4: "special_of_four"}


def _numbers(*values: Any) -> list[AnyTensor]:
    return [inexact(t) for t in promote_arguments(*values)]


def _refuse_complex(name: str, values: list[AnyTensor]) -> None:
    if any(x._dtype.is_complex for x in values):
        raise TypeError(f"{name} of complex tensors is not implemented")


def _set_signature(function: Callable[..., Any], name: str, names: Sequence[str]) -> Callable[..., Any]:
    """Set a function's name, and its signature to that of a universal function with the parameters `names`."""
    function.__name__ = function.__qualname__ = name
    parameters = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_ONLY) for each in names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _parameter_names(count: int) -> list[str]:
    """Return the names that NumPy gives to the parameters of universal functions."""
    return ["x"] if count == 1 else [f"x{i + 1}" for i in range(count)]


def _existing(name: str, operation: str) -> Callable[..., Any]:
    count = len(OPS[operation].tensors)

    def special(*args: Any) -> Any:
        if len(args) != count:
            raise TypeError(f"{name}() takes {count} positional arguments but {len(args)} were given")
        return getattr(F, operation)(*_numbers(*args))

    return _set_signature(special, name, _parameter_names(count))


def _declare(name: str, count: int) -> Callable[..., Any]:
    """Create the special function `name` of `count` arguments; it returns a tuple if it has several results."""
    results = [each for each in _NAMES[count] if each.partition(":")[0] == name]

    def special(*args: Any) -> Any:
        if len(args) != count:
            raise TypeError(f"{name}() takes from {count} to {count} positional arguments but {len(args)} were given")
        values = _numbers(*args)
        _refuse_complex(name, values)
        result = tuple(getattr(F, _OPERATIONS[count])(*values, each) for each in results)
        return result if len(result) > 1 else result[0]

    return _set_signature(special, name, _parameter_names(count))


def _compose(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for a special function of `count` real arguments that is a formula of other functions."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__

        def special(*args: Any) -> Any:
            if len(args) != count:
                raise TypeError(f"{name}() takes {count} positional arguments but {len(args)} were given")
            values = _numbers(*args)
            _refuse_complex(name, values)
            return function(*values)

        return _set_signature(special, name, list(inspect.signature(function).parameters))

    return decorate


# -- compositions of other functions ---------------------------------------------------------------------------------


@_compose(2)
def huber(delta: Any, r: Any) -> Any:
    small = F.abs(r) <= delta
    loss = F.where(small, r * r / 2, delta * (F.abs(r) - delta / 2))
    return F.where(delta < 0, math.inf, loss)


@_compose(2)
def pseudo_huber(delta: Any, r: Any) -> Any:
    ratio = r / F.where(delta == 0, 1, delta)
    loss = F.where(delta == 0, 0, r * r / (1 + F.sqrt(1 + ratio * ratio)))
    return F.where(delta < 0, math.inf, loss)


@_compose(2)
def boxcox(x: Any, lmbda: Any) -> Any:
    return _powers(F.log(x), lmbda)


@_compose(2)
def boxcox1p(x: Any, lmbda: Any) -> Any:
    return _powers(F.log1p(x), lmbda)


def _powers(log: Any, power: Any) -> Any:
    """Return ``expm1(power * log) / power``, and its limit where `power` is zero."""
    return log * F.special_of_one(power * log, "exprel")


@_compose(2)
def inv_boxcox(x: Any, lmbda: Any) -> Any:
    return F.exp(_logarithm(x, lmbda))


@_compose(2)
def inv_boxcox1p(x: Any, lmbda: Any) -> Any:
    return F.expm1(_logarithm(x, lmbda))


def _logarithm(x: Any, power: Any) -> Any:
    """Return ``log1p(power * x) / power``, and its limit where `power` is zero."""
    return x * log1p_ratio(F, power * x)


@_compose(2)
def chdtr(v: Any, x: Any) -> Any:
    return F.igamma(v / 2, x / 2)


@_compose(2)
def chdtrc(v: Any, x: Any) -> Any:
    return F.igammac(v / 2, x / 2)


@_compose(3)
def gdtr(a: Any, b: Any, x: Any) -> Any:
    return F.igamma(b, a * x)


@_compose(3)
def gdtrc(a: Any, b: Any, x: Any) -> Any:
    return F.igammac(b, a * x)


@_compose(2)
def pdtr(k: Any, m: Any) -> Any:
    return F.where((k < 0) | (m < 0), math.nan, F.igammac(F.floor(k) + 1, m))


@_compose(2)
def pdtrc(k: Any, m: Any) -> Any:
    return F.where((k < 0) | (m < 0), math.nan, F.igamma(F.floor(k) + 1, m))


@_compose(3)
def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    probability = F.special_of_three(dfn / 2, dfd / 2, dfn * x / (dfn * x + dfd), "betainc")
    return F.where((dfn > 0) & (dfd > 0) & (x >= 0), probability, math.nan)


@_compose(3)
def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    probability = F.special_of_three(dfd / 2, dfn / 2, dfd / (dfn * x + dfd), "betainc")
    return F.where((dfn > 0) & (dfd > 0) & (x >= 0), probability, math.nan)


@_compose(3)
def voigt_profile(x: Any, sigma: Any, gamma: Any) -> Any:
    width = F.where(sigma == 0, 1, sigma) * math.sqrt(2)
    z = F.complex(x / width, gamma / width + 0 * x)
    convolved = F.real(F.special_of_one(z, "wofz")) / (width * math.sqrt(math.pi))
    # The gradients of the formula that is not chosen have to be finite: 0 * inf is NaN.
    square = F.where(sigma == 0, x * x + gamma * gamma, 1)
    return F.where(sigma == 0, gamma / (math.pi * square), convolved)


def _shift_polynomial(name: str, of: str) -> Callable[..., Any]:
    """Create the shifted polynomial `name` on [0, 1]: the polynomial `of` on [-1, 1], evaluated at ``2 x - 1``."""
    return _set_signature(lambda n, x: globals()[of](n, 2 * tensor_of(x) - 1), name, ["n", "x"])


@_compose(2)
def eval_chebyc(n: Any, x: Any) -> Any:
    return 2 * F.special_of_two(n, x / 2, "eval_chebyt")


@_compose(2)
def eval_chebys(n: Any, x: Any) -> Any:
    return F.special_of_two(n, x / 2, "eval_chebyu")


def wofz(z: Any) -> AnyTensor:
    """Compute the Faddeeva function, which is complex, as `scipy.special.wofz`."""
    return F.special_of_one(_complex(z), "wofz")


def lambertw(z: Any, k: int = 0, tol: float = 1e-8) -> AnyTensor:
    """Compute the branch `k` of Lambert's function, as `scipy.special.lambertw`; the result is always complex.

    Examples
    --------
    >>> from gradcore.scipy import special
    >>> special.lambertw(gc.tensor([0.0, 1.0, 2.718281828], dtype=gc.float64)).real
    tensor([0.0000, 0.5671, 1.0000], dtype=torch.float64)
    """
    if not -(2**63) <= k < 2**63:
        raise ValueError(f"the branch of lambertw has to be an integer of 64 bits, not {k}")
    return F.special_of_one(_complex(z), f"lambertw:{int(k)}")


def _complex(z: Any) -> AnyTensor:
    (x,) = _numbers(z)
    return x if x._dtype.is_complex else F.to(x, dtypes.complex128)


# -- reductions over axes ----------------------------------------------------------------------------------------------


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Compute ``log(sum(b * exp(a)))``, as `scipy.special.logsumexp`; differentiable with respect to `a` and `b`.

    Examples
    --------
    >>> from gradcore.scipy import special
    >>> special.logsumexp(gc.tensor([0.0, 0.0]), b=[1.0, 3.0])
    tensor(1.3863, dtype=torch.float64)
    """
    if b is None:
        (x,) = _numbers(a)
        if not x._dtype.is_complex:
            result = F.logsumexp(x, axes_of(axis, x.ndim), keepdims)
            sign = F.where(F.isnan(result), result, F.to(result > -math.inf, result.dtype))
            return (result, sign.detach()) if return_sign else result
    x, weights = _numbers(a, 1.0 if b is None else b)
    if x._dtype.is_complex:
        raise TypeError("logsumexp of complex tensors is not implemented; use log(sum(b * exp(a)))")
    x, weights = F.broadcast_tensors(x, weights)
    dims = axes_of(axis, x.ndim)
    masked = F.where(weights == 0, -math.inf, x)
    top = F.amax(masked.detach(), dims, True) if dims else masked.detach()
    top = F.where(F.isfinite(top), top, 0.0)
    total = F.sum(weights * F.exp(masked - top), dims, True) if dims else weights * F.exp(masked - top)
    sign = F.sign(total)
    result = F.log(F.abs(total) if return_sign else total) + top
    if not keepdims and dims:
        result, sign = (F.reshape(t, [n for d, n in enumerate(t.shape) if d not in dims]) for t in (result, sign))
    return (result, sign) if return_sign else result


def _normalize(operation: str, x: Any, axis: Any) -> AnyTensor:
    (t,) = common(x)
    dims = axes_of(axis, t.ndim)
    if not dims:
        return F.reshape(getattr(F, operation)(F.reshape(t, (1,)), 0), ())
    kept_dims = [d for d in range(t.ndim) if d not in dims]
    permuted = F.permute(t, (*kept_dims, *dims))
    flat = F.reshape(permuted, (*permuted.shape[: len(kept_dims)], -1))
    inverse_order = np.argsort([*kept_dims, *dims]).tolist()
    return F.permute(F.reshape(getattr(F, operation)(flat, -1), permuted.shape), inverse_order)


def softmax(x: Any, axis: Any = None) -> AnyTensor:
    """Compute ``exp(x) / sum(exp(x))`` over all elements or along `axis`, as `scipy.special.softmax`.

    Examples
    --------
    >>> from gradcore.scipy import special
    >>> special.softmax(gc.tensor([[0.0, 0.0], [0.0, 0.0]]))
    tensor([[0.2500, 0.2500],
            [0.2500, 0.2500]])
    """
    return _normalize("softmax", x, axis)


def log_softmax(x: Any, axis: Any = None) -> AnyTensor:
    """Return the logarithm of `softmax`, as `scipy.special.log_softmax`.

    Examples
    --------
    >>> from gradcore.scipy import special
    >>> special.log_softmax(gc.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """
    return _normalize("log_softmax", x, axis)


def multigammaln(a: Any, d: int) -> AnyTensor:
    """Return the logarithm of the multivariate gamma function, as `scipy.special.multigammaln`."""
    (x,) = _numbers(a)
    if not np.isscalar(d) or np.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    if bool((x.detach() <= 0.5 * (d - 1)).any()):
        raise ValueError(f"condition a ({float(x.detach().min()):f}) > 0.5 * (d-1) ({0.5 * (d - 1):f}) not met")
    return F.mvlgamma(x, int(d))


def polygamma(n: int, x: Any) -> AnyTensor:
    """Return the n-th derivative of `digamma`, as `scipy.special.polygamma`, for a single order `n`."""
    (t,) = _numbers(x)
    if n != int(n):
        raise ValueError(f"the order of polygamma has to be an integer, not {n}")
    return F.digamma(t) if n == 0 else F.polygamma(int(n), t)


def softplus(x: Any) -> AnyTensor:
    """Compute ``log(1 + exp(x))``, as `scipy.special.softplus`."""
    return -F.logsigmoid(-_numbers(x)[0])


_existing_names = {**_SPECIAL, "sinc": "sinc", "exp2": "exp2", "expm1": "expm1", "log1p": "log1p", "cbrt": "cbrt",
                   "round": "round"}  # fmt: skip
_found: dict[str, Any] = {name: _existing(name, operation) for name, operation in _existing_names.items()}
_found |= {
    each.partition(":")[0]: _declare(each.partition(":")[0], count)
    for count, names in _NAMES.items()
    for each in names
    if each not in ("lambertw", "wofz")
}
globals().update(_found)
eval_sh_legendre = _shift_polynomial("eval_sh_legendre", "eval_legendre")
eval_sh_chebyt = _shift_polynomial("eval_sh_chebyt", "eval_chebyt")
eval_sh_chebyu = _shift_polynomial("eval_sh_chebyu", "eval_chebyu")


def zeta(x: Any, q: Any = None) -> AnyTensor:
    """Compute `scipy.special.zeta` of tensors: Riemann's function, or Hurwitz's where `q` is given."""
    values = _numbers(x, 1.0 if q is None else q)
    _refuse_complex("zeta", values)
    return F.zeta(*values)


@_compose(1)
def gammasgn(x: Any) -> Any:
    """Return the sign of the gamma function, which alternates between its poles; it is NaN at the negative poles."""
    below = F.floor(x)
    sign = F.where(x < 0, 1 - 2 * F.remainder(below, 2), F.where(F.signbit(x), -1.0, 1.0))
    return F.where(((x < 0) & (x == below)) | F.isnan(x), math.nan, sign).to(x.dtype).detach()


#: SciPy's names of Bessel functions of integer order, and the functions of any order that compute them.
jn, kn, yn = globals()["jv"], globals()["kv"], globals()["yv"]

_MADE = (
    "boxcox", "boxcox1p", "chdtr", "chdtrc", "eval_chebyc", "eval_chebys", "eval_sh_chebyt", "eval_sh_chebyu",
    "eval_sh_legendre", "fdtr", "fdtrc", "gammasgn", "gdtr", "gdtrc", "huber", "inv_boxcox", "inv_boxcox1p", "jn", "kn",
    "lambertw",
    "log_softmax", "logsumexp", "multigammaln", "pdtr", "pdtrc", "polygamma", "pseudo_huber", "softmax", "softplus",
    "voigt_profile", "wofz", "yn",
)  # fmt: skip
__all__ = sorted({*_found, *_MADE})


describe("scipy.special", globals(), SPECIAL)


def _because(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


#: Functions of SciPy that are missing, with the reason.
LEFT_OUT = {
    **_because(
        "it gives zeros, nodes or coefficients, which are numbers: SciPy's own will do",
        "ai_zeros bei_zeros beip_zeros ber_zeros berp_zeros bi_zeros erf_zeros fresnel_zeros fresnelc_zeros "
        "fresnels_zeros jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros kei_zeros keip_zeros kelvin_zeros ker_zeros "
        "kerp_zeros y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros legendre chebyt chebyu chebyc chebys jacobi "
        "laguerre genlaguerre hermite hermitenorm gegenbauer sh_legendre sh_chebyt sh_chebyu sh_jacobi "
        "roots_legendre roots_chebyt roots_chebyu roots_chebyc roots_chebys roots_jacobi roots_laguerre "
        "roots_genlaguerre roots_hermite roots_hermitenorm roots_gegenbauer roots_sh_legendre roots_sh_chebyt "
        "roots_sh_chebyu roots_sh_jacobi p_roots t_roots u_roots c_roots s_roots j_roots l_roots la_roots h_roots "
        "he_roots cg_roots ps_roots ts_roots us_roots js_roots bernoulli euler mathieu_even_coef mathieu_odd_coef "
        "obl_cv_seq pro_cv_seq stirling2",
    ),
    **_because(
        "counts of arrangements are whole numbers; see binom, gamma and poch",
        "comb factorial factorial2 factorialk perm",
    ),
    **_because(
        "it is an inverse by a parameter, or of a discrete distribution, for which there is no formula here",
        "bdtr bdtrc bdtri bdtrik bdtrin btdtria btdtrib chdtri chdtriv chndtr chndtridf chndtrinc chndtrix fdtri "
        "fdtridfd gdtria gdtrib gdtrix kolmogi kolmogorov nbdtr nbdtrc nbdtri nbdtrik nbdtrin ncfdtr ncfdtri "
        "ncfdtridfd ncfdtridfn ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit nrdtrimn nrdtrisd pdtri pdtrik smirnov "
        "smirnovi stdtridf stdtrit tklmbda",
    ),
    **_because(
        "functions of Mathieu, spheroidal waves, parabolic cylinders and ellipsoids have no derivatives here",
        "ellip_harm ellip_harm_2 ellip_normal mathieu_a mathieu_b mathieu_cem mathieu_modcem1 mathieu_modcem2 "
        "mathieu_modsem1 mathieu_modsem2 mathieu_sem obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 "
        "obl_rad2_cv pbdn_seq pbdv pbdv_seq pbvv pbvv_seq pbwa pro_ang1 pro_ang1_cv pro_cv pro_rad1 pro_rad1_cv "
        "pro_rad2 pro_rad2_cv",
    ),
    **_because(
        "associated Legendre functions and spherical harmonics; see eval_legendre, eval_gegenbauer and eval_jacobi",
        "assoc_laguerre assoc_legendre_p assoc_legendre_p_all eval_sh_jacobi legendre_p legendre_p_all lpmv lqmn lqn "
        "sph_harm_y sph_harm_y_all sph_legendre_p sph_legendre_p_all",
    ),
    **_because(
        "the derivative is that of jv, yv, iv and kv, of which it is made",
        "airye h1vp h2vp hankel1 hankel1e hankel2 hankel2e ivp jve jvp kelvin kvp riccati_jn riccati_yn "
        "spherical_in spherical_jn spherical_kn spherical_yn yve yvp",
    ),
    **_because(
        "integrals of Bessel and Struve functions, which gradcore.scipy.integrate computes",
        "besselpoly it2i0k0 it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 itstruve0 lmbda modfresnelm "
        "modfresnelp",
    ),
    **_because(
        "Carlson's integrals and the mean that belongs to them; see ellipk, ellipe, ellipkinc and ellipeinc",
        "agm elliprc elliprd elliprf elliprg elliprj",
    ),
    **_because("a formula of other functions in a line", "diric radian zetac"),
    **_because("its derivatives are functions that SciPy has not", "log_wright_bessel wright_bessel"),
    **_because("about SciPy's errors", "SpecialFunctionError SpecialFunctionWarning errstate geterr seterr"),
}


def __dir__() -> list[str]:
    return [*__all__]


__getattr__ = module_getattr(__name__, LEFT_OUT)
